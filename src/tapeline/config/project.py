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
RUN_BRANCHES = "runs/"
"""Prefix of the branches of isolated runs; the flow run's name follows."""
WRITTEN = (STATE, "data", "runs", "models", "serving")
"""The folders that Tapeline writes to, all but `data/raw`."""
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
        raise InputError(f"no {PARAMS} in {start} or above it: call tapeline inside a project folder")

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

    def outcome(self, stage: str, name: str) -> Path:
        """Return the file in which a stage records its outcome; if missing after a run, the stage was killed."""
        return self.local / "outcome" / f"{stage}@{name}.json"


def _shared_state(folder: Path) -> Path:
    """Return this project's state folder in the main checkout, or the local one outside Git.

    Git does not say which checkout is the main one if its own folder is elsewhere, as for a bare repository: then each
    is one, and an isolated run's worktree belongs to the one that it is in.
    """
    command = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
    try:
        answer = git_call.called(folder, *command)
    except TapelineError:
        return folder / STATE
    said = os.fsdecode(answer.stdout).removesuffix("\n")
    top = next((one for one in (folder, *folder.parents) if said.startswith(f"{one}\n")), None)  # a path may have lines
    if answer.returncode or top is None:
        return folder / STATE
    common = Path(said.removeprefix(f"{top}\n"))
    if common.name == ".git":
        return common.parent / STATE / folder.relative_to(top)
    if top.parent.name == WORKTREES and top.parents[1].name == STATE:
        return top.parents[1]
    return folder / STATE


def _check_links(folder: Path) -> None:
    """Raise `InputError` for a link in the place of a folder that is written to, if Git has it: yours is followed."""
    for link in _links(folder):
        if _tracked(link):
            raise InputError(
                f"{link} is a link that came with this repository, and Tapeline would write where it leads: "
                "`git rm --cached` it, and make a folder of it"
            )


def _links(folder: Path) -> Iterator[Path]:
    for name in WRITTEN:
        top = folder / name
        if top.is_symlink():
            yield top
        elif top.is_dir():
            yield from _below(top, depth=2 if name == STATE else 1)


def _below(folder: Path, *, depth: int) -> Iterator[Path]:
    with suppress(OSError), os.scandir(folder) as entries:  # it may go meanwhile, or be another user's
        for entry in entries:
            if entry.is_symlink():
                yield Path(entry.path)
            elif depth > 1 and entry.is_dir():
                yield from _below(Path(entry.path), depth=depth - 1)


def _tracked(link: Path) -> bool:
    """Return whether Git's index has a link; that of a repository inside this one, if the link is there."""
    if link.parts[-2:] == ("data", "raw"):
        return False
    try:
        answer = git_call.called(link.parent, "ls-files", "--stage", "--", f":(literal){link.name}")
    except TapelineError:
        return False
    return answer.stdout.startswith(LINK.encode())
