"""Where things are: the folder with `params.yaml`, and two folders for files that are not DVC outputs.

`local` belongs to this working tree (progress, outcomes). `shared` belongs to the main checkout, so that
checkpoints outlive a removed worktree.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tapeline.runtime.errors import InputError

STATE = ".tapeline"
PARAMS = "params.yaml"
RUN_BRANCHES = "runs/"
"""Prefix of the branches of isolated runs; the flow run's name follows."""


@dataclass(frozen=True)
class Project:
    """One `params.yaml` and the folders that belong to it."""

    folder: Path
    local: Path
    shared: Path

    @classmethod
    def find(cls, start: Path | None = None) -> "Project":
        """Return the project of `start` (the working directory) or of its nearest parent.

        Raises `InputError` if no folder up to the root holds `params.yaml`.
        """
        start = (start or Path.cwd()).resolve()
        for folder in (start, *start.parents):
            if (folder / PARAMS).is_file():
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
        return self.shared / "worktrees"

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
    """Return this project's state folder in the main checkout, or the local one outside Git."""
    command = ["git", "rev-parse", "--path-format=absolute", "--git-common-dir", "--show-toplevel"]
    try:
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return folder / STATE
    common, top = (Path(line) for line in answer.stdout.splitlines())
    if common.name != ".git":
        return folder / STATE
    return common.parent / STATE / folder.relative_to(top.resolve())
