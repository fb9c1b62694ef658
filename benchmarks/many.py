"""What many pipelines and many versions cost: `list` with a hundred more, `promote` with a thousand.

    python -m benchmarks.many [--repeats 5] [--pipelines 100] [--versions 1000]

A project of `tapeline init` is built and registered, and copied. One copy gets further pipelines, another further
versions, each on a commit of its own. A promotion's tag is deleted after each turn, so that the next one does the same,
under the next number: none is given twice.
"""

import shutil
import statistics
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks import machine, program, rounds
from benchmarks.make_run import timed
from benchmarks.workload import ROOT

PROGRAMS = ROOT / ".venv" / "bin"
TAPELINE, DVC = str(PROGRAMS / "tapeline"), str(PROGRAMS / "dvc")
BUILD = [
    ["git", "init", "--quiet", "--initial-branch=main"],
    ["git", "config", "user.name", "Ann"],
    ["git", "config", "user.email", "ann@example.org"],
    [DVC, "init", "--quiet"],
    [DVC, "remote", "add", "--quiet", "--default", "store", "../store"],
    [TAPELINE, "init"],
    [TAPELINE, "run", "--pipeline", "iris"],
    ["git", "add", "--all"],
    ["git", "commit", "--quiet", "--message=built"],
    [DVC, "push", "--quiet"],
    [TAPELINE, "registry", "register", "iris"],
]
TAG = "iris@v1.0.0"
PROMOTIONS = "iris#staging#*"


def main() -> None:
    """Measure all in turn; print and write the medians and their ratios."""
    parser = program.parser(__doc__, repeats=5)
    parser.add_argument("--pipelines", type=int, default=100, help="further ones")
    parser.add_argument("--versions", type=int, default=1000, help="in all")
    options = parser.parse_args()
    calm = machine.Calm(most=3)
    with tempfile.TemporaryDirectory() as name:
        one = built(Path(name) / "one" / "project")
        pipelines, versions = (copied(one, Path(name) / kind / "project") for kind in ("pipelines", "versions"))
        add_pipelines(pipelines, options.pipelines)
        add_versions(versions, options.versions)
        more, many = f"{options.pipelines} more pipelines", f"{options.versions} versions"
        turns = {
            "list": partial(listed, one),
            f"list, {more}": partial(listed, pipelines),
            "promote": partial(promoted, one),
            f"promote, {many}": partial(promoted, versions),
        }
        seconds: dict[str, list[float]] = {what: [] for what in turns}
        for turn in turns.values():
            turn()
        for number in range(options.repeats):
            for what in rounds.in_turn(list(turns), number):
                seconds[what].append(calm(turns[what]))
    median = {what: statistics.median(values) for what, values in seconds.items()}
    for what, values in seconds.items():
        print(f"{what:<32} {median[what]:6.2f} s  ({', '.join(f'{one:.2f}' for one in sorted(values))})")
    print(f"list with {more}: {median[f'list, {more}']:.2f} s (bound: 2)")
    print(f"promote with {many}: {median[f'promote, {many}'] / median['promote']:.2f} times as long (bound: 1.2)")
    program.write(options.out, {"workload": "many", "seconds": seconds, "stolen": calm.stolen})


def built(folder: Path) -> Path:
    """Make a project with a registered version, whose remote is a folder beside it."""
    folder.mkdir(parents=True)
    (folder.parent / "store").mkdir()
    for command in BUILD:
        timed(command, folder)
    return folder


def copied(project: Path, folder: Path) -> Path:
    """Copy a project with its remote."""
    shutil.copytree(project.parent, folder.parent, symlinks=True)
    return folder


def add_pipelines(project: Path, count: int) -> None:
    """Add pipelines like the first."""
    path = project / "params.yaml"
    head, _, text = path.read_text().partition("\npipelines:\n")
    entry = text[: text.index("export: {}") + len("export: {}")]
    entries = [entry.replace("  iris:", f"  iris-{number}:", 1) for number in range(count)]
    path.write_text("\n".join([f"{head}\npipelines:", *entries, text]))


def add_versions(project: Path, count: int) -> None:
    """Add versions below the first, with its record, by one call of Git."""

    def git(*arguments: str, given: str | None = None) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=project, input=given, stdout=subprocess.PIPE, text=True, check=True).stdout

    head = git("rev-parse", "HEAD").strip()
    record = git("for-each-ref", "--format=%(contents)", f"refs/tags/{TAG}")
    who, stream = "Ann <ann@example.org> 1700000000 +0000", []
    for number in range(1, count):
        parent = head if number == 1 else f":{number - 1}"
        said = record.replace(head, f"{number:040x}")
        stream += [
            f"commit refs/heads/more\nmark :{number}\ncommitter {who}\ndata 1\nx\nfrom {parent}\n",
            f"tag iris@v0.0.{number}\nfrom :{number}\ntagger {who}\ndata {len(said.encode())}\n{said}\n",
        ]
    git("fast-import", "--quiet", given="".join(stream))
    git("pack-refs", "--all")


def listed(project: Path) -> float:
    """Return the seconds of `tapeline list`."""
    return timed([TAPELINE, "list"], project)[0]


def promoted(project: Path) -> float:
    """Return the seconds of a promotion, whose tag is then deleted."""
    began = time.perf_counter()
    timed([TAPELINE, "registry", "promote", TAG, "staging"], project)
    seconds = time.perf_counter() - began
    made = subprocess.run(["git", "tag", "--list", PROMOTIONS], cwd=project, capture_output=True, text=True, check=True)
    subprocess.run(["git", "tag", "--delete", *made.stdout.split()], cwd=project, stdout=subprocess.DEVNULL, check=True)
    return seconds


if __name__ == "__main__":
    main()
