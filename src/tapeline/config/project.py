"""Where things are: the folder with `params.yaml`, and two folders for files that are not DVC outputs.

`local` belongs to this working tree (progress, outcomes). `shared` belongs to the main checkout, so that
checkpoints outlive a removed worktree.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tapeline.runtime import files, git_call
from tapeline.runtime.errors import InputError, TapelineError

STATE = files.STATE
WORKTREES = "worktrees"
PARAMS = "params.yaml"
DVC_YAML = "dvc.yaml"
RUN_BRANCHES = "runs/"
"""Prefix of the branches of isolated runs; the flow run's name follows."""
WRITTEN = (STATE, "data", "runs", "models", "serving")
"""The folders that Tapeline writes to, all but `data/raw`."""
DEPTH = {STATE: 2, "runs": 4}
"""How deep in them a path is written as it stands, where that is not the first level: what is below is replaced."""
LINK = "120000"
"""The mode of a link in Git's index."""


@dataclass(frozen=True)
class Project:
    """One `params.yaml` and the folders that belong to it."""

    folder: Path
    local: Path
    shared: Path

    @classmethod
    def find(cls, start: Path | None = None) -> "Project":
        """Return the project of `start` (the working directory) or of its nearest parent.

        Raises `InputError` if no folder up to the root holds `params.yaml`, and for a link that Git has in the place of
        a folder that is written to: a repository of others could have us write, or remove, anywhere.
        """
        start = (start or Path.cwd()).resolve()
        for folder in (start, *start.parents):
            if (folder / PARAMS).is_file():
                _check_links(folder)
                return cls(folder, folder / STATE, _shared_state(folder))
        raise InputError(f"no {PARAMS} in {start} or above it: run tapeline inside a project")

    def data(self, dataset: str) -> Path:
        """Return the output folder of `ingest@dataset`."""
        return self.folder / "data" / dataset

    def run(self, pipeline: str, stage: str) -> Path:
        """Return the folder with the outputs of `train@pipeline` or `validate@pipeline`."""
        return self.folder / "runs" / pipeline / stage

    def model(self, pipeline: str) -> Path:
        """Return the output folder of `export@pipeline`."""
        return self.folder / "models" / pipeline

    @property
    def worktrees(self) -> Path:
        """The folder with the Git worktrees of isolated runs, one folder per flow run."""
        return self.shared / WORKTREES

    def checkpoints(self, pipeline: str) -> Path:
        """Return the folder with the pipeline's checkpoints, one folder per fingerprint."""
        return self.shared / "checkpoints" / pipeline

    def progress(self, stage: str, name: str) -> Path:
        """Return the JSON-lines file in which a running stage reports its progress."""
        return self.local / "progress" / f"{stage}@{name}.jsonl"

    def lock(self, stage: str, name: str) -> Path:
        """Return the file that a running stage locks: one call at a time writes its outputs."""
        return self.local / "locks" / f"{stage}@{name}.lock"

    def outcome(self, stage: str, name: str) -> Path:
        """Return the file in which a stage records its outcome; if missing after a run, the stage was killed."""
        return self.local / "outcome" / f"{stage}@{name}.json"


def _shared_state(folder: Path) -> Path:
    """Return this project's state folder in the main checkout, or the local one outside Git.

    Git does not say which checkout is the main one if its own folder is elsewhere, as for a bare repository: then each
    is one, and an isolated run's worktree belongs to the one that it is in.
    """
    try:
        answer = git_call.called(folder, "rev-parse", "--show-toplevel", "--git-common-dir")
    except TapelineError:
        return folder / STATE
    said = os.fsdecode(answer.stdout).removesuffix("\n")
    top = next((one for one in (folder, *folder.parents) if said.startswith(f"{one}\n")), None)  # a path may have lines
    if answer.returncode or top is None:
        return folder / STATE
    common = (folder / said.removeprefix(f"{top}\n")).resolve()
    if common.name == ".git":
        return common.parent / STATE / folder.relative_to(top)
    if top.parent.name == WORKTREES and top.parents[1].name == STATE:
        return top.parents[1]
    return folder / STATE


def _check_links(folder: Path) -> None:
    """Raise `InputError` for a link in the place of what is written, if Git has it: yours is followed."""
    links: dict[Path, list[Path]] = {}
    for link in _links(folder):
        if link.parts[-2:] != ("data", "raw"):
            links.setdefault(_repository(link), []).append(link)
    for some in links.values():
        for tracked in _tracked(some):
            raise InputError(
                f"{tracked} is a link that came with this repository, through which Tapeline would write: `git rm "
                "--cached` it, and remove it"
            )


def _links(folder: Path) -> Iterator[Path]:
    for name in WRITTEN:
        top = folder / name
        if top.is_symlink():
            yield top
        elif top.is_dir():
            yield from _below(top, depth=DEPTH.get(name, 1))


def _below(folder: Path, *, depth: int) -> Iterator[Path]:
    with suppress(OSError), os.scandir(folder) as entries:  # it may go meanwhile, or be another user's
        for entry in entries:
            if entry.is_symlink():
                yield Path(entry.path)
            elif depth > 1 and entry.is_dir():
                yield from _below(Path(entry.path), depth=depth - 1)


def _repository(link: Path) -> Path:
    """Return the top of the repository that a link is in, which may be one inside the project's; `/` outside."""
    return next((folder for folder in link.parents if (folder / ".git").exists()), Path(link.anchor))


def _tracked(links: list[Path]) -> Iterator[Path]:
    """Yield those of the links that the index of their repository has: Git is called once, however many there are."""
    below = Path(os.path.commonpath([link.parent for link in links]))
    try:
        answer = git_call.called(below, "ls-files", "--stage", "-z", "--", ".")
    except TapelineError:
        return
    entries = (os.fsdecode(entry).partition("\t") for entry in answer.stdout.split(b"\0"))
    found = {below / name for mode, _, name in entries if mode.startswith(LINK)}
    yield from (link for link in links if link in found)
