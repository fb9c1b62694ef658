"""`python -m tests.fuzz --minutes 10 --jobs 2 csv npz`: try readers for so long, each in a process of its own.

The exit status is 1 where one broke the contract; `--keep FOLDER` has the inputs then. Memory is limited: `--memory`.
"""

import argparse
import faulthandler
import json
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.parsers import PARSERS
from tests.fuzz.running import Summary, long, table

LATE = 5.0
"""Minutes that a process may take beside its time: for its imports, and for an input that hangs in native code."""


def main() -> int:
    """Return 1 where a reader broke the contract."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the readers.")
    parser.add_argument("names", nargs="*", metavar="READER", help=f"{', '.join(PARSERS)} (all)")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each reader (%(default)g)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="readers at the same time (%(default)d)")
    parser.add_argument(
        "--memory", type=float, default=4.0, metavar="GB", help="that a reader's process has (%(default)g)"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write what broke there")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)  # a child's: where its summary goes
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in PARSERS]:
        parser.error(f"no reader {', '.join(unknown)}: there are {', '.join(PARSERS)}")
    if options.jobs < 1:
        parser.error(f"--jobs {options.jobs}: give 1 or more")
    if options.into:
        return _child(options.names[0], options)
    with ThreadPoolExecutor(options.jobs) as pool:
        summaries = list(pool.map(lambda name: _one(name, options), options.names or list(PARSERS)))
    print(table(summaries))
    return 1 if any(one.broken or one.ended for one in summaries) else 0


def _one(name: str, options: argparse.Namespace) -> Summary:
    """Return what a process came to that tries one reader, also when it did not live to tell."""
    with tempfile.TemporaryDirectory(prefix="tapeline-fuzz-") as made:
        into = Path(made)
        command = [sys.executable, "-m", "tests.fuzz", name, "--minutes", str(options.minutes)]
        command += ["--memory", str(options.memory), "--into", str(into)]
        command += ["--keep", str(options.keep)] if options.keep else []
        try:
            status = subprocess.run(command, check=False, timeout=60 * (options.minutes + LATE)).returncode
            ended = f"exit status {status}" if status > 0 else f"signal {-status}"
        except subprocess.TimeoutExpired:
            ended = "a hang"
        if (into / "summary.json").is_file():
            return Summary(**json.loads((into / "summary.json").read_text()))
        trying = (into / "trying.txt").read_text() if (into / "trying.txt").is_file() else ""
    print(f"{name}: ended by {ended} at {trying[:2000]}", flush=True)
    if options.keep and trying:
        options.keep.mkdir(parents=True, exist_ok=True)
        (options.keep / f"{name}-ended.txt").write_text(f"# ended by {ended}\n{trying}\n")
    return Summary(name, ended=ended)


def _child(name: str, options: argparse.Namespace) -> int:
    faulthandler.enable()
    with (
        tempfile.TemporaryDirectory(prefix="tapeline-fuzz-") as made,
        (options.into / "trying.txt").open("w") as trying,
    ):
        reader = PARSERS[name](Path(made))
        limit = int(options.memory * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        def noted(content: object) -> None:
            trying.seek(0)
            trying.truncate()
            trying.write(ascii(content))
            trying.flush()

        seconds = 60 * options.minutes
        found = long(reader, seconds, said=lambda line: print(f"{name}: {line}", flush=True), trying=noted)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    summary = Summary(name, found.tried, found.refused, len(found.broken), peak, round(found.longest, 3))
    print(table([summary]).splitlines()[-1], flush=True)
    if options.keep and found.broken:
        options.keep.mkdir(parents=True, exist_ok=True)
        for number, (content, said) in enumerate(found.broken.values()):
            (options.keep / f"{name}-{number}.txt").write_text(f"# {said!a}\n{content!a}\n")
    (options.into / "summary.json").write_text(json.dumps(vars(summary)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
