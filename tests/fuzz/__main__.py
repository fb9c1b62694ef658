"""`python -m tests.fuzz --minutes 10 csv npz`: try readers with other inputs for so long, each in a process of its own.

The exit status is 1 where one broke the contract; `--keep FOLDER` has the inputs then. Memory is limited: `--memory`.
"""

import argparse
import faulthandler
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.parsers import PARSERS
from tests.fuzz.running import long


def main() -> int:
    """Return 1 where a reader broke the contract."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the readers.")
    parser.add_argument("names", nargs="*", metavar="READER", help=f"{', '.join(PARSERS)} (all)")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each reader (%(default)g)")
    parser.add_argument(
        "--memory", type=float, default=4.0, metavar="GB", help="that a reader's process has (%(default)g)"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write what broke there")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in PARSERS]:
        parser.error(f"no reader {', '.join(unknown)}: there are {', '.join(PARSERS)}")
    if len(options.names) == 1:
        return _one(options.names[0], options)
    arguments = ["--minutes", str(options.minutes), "--memory", str(options.memory)]
    arguments += ["--keep", str(options.keep)] if options.keep else []
    calls = [[sys.executable, "-m", "tests.fuzz", name, *arguments] for name in options.names or PARSERS]
    return max(1 if subprocess.run(call, check=False).returncode else 0 for call in calls)


def _one(name: str, options: argparse.Namespace) -> int:
    faulthandler.enable()
    with tempfile.TemporaryDirectory(prefix="tapeline-fuzz-") as made:
        reader = PARSERS[name](Path(made))
        limit = int(options.memory * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        found = long(reader, 60 * options.minutes, said=lambda line: print(f"{name}: {line}", flush=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{name}: {found.tried} inputs, {found.refused} refused, {len(found.broken)} broke it, at most {peak} MB",
        flush=True,
    )
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        for number, (content, said) in enumerate(found.broken.values()):
            (options.keep / f"{name}-{number}.txt").write_text(f"# {said!a}\n{content!a}\n")
    return 1 if found.broken else 0


if __name__ == "__main__":
    sys.exit(main())
