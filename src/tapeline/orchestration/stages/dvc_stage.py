"""What DVC knows about a pipeline's stages, asked in this process, which takes only milliseconds.

    dvc = DvcProject(folder)
    for stage in dvc.upstream("export@digits"):
        print(stage, dvc.is_stale(stage))

Nothing is changed here: `tapeline.orchestration.stages.execution` does that in a separate `dvc` process.
"""

import os
import weakref
from dataclasses import dataclass
from pathlib import Path

from tapeline.config.project import DVC_YAML
from tapeline.repository import raw_data
from tapeline.repository.dvc.repository import Dvc
from tapeline.repository.dvc.stage import Stage
from tapeline.repository.dvc_errors import check_dependencies, check_files, first_lines, in_one_line
from tapeline.repository.dvc_lock import LOCK
from tapeline.repository.ignored import check_seen
from tapeline.runtime.errors import RunError


class Busy(Exception):
    """Another process uses the files in question; the message names the process."""


@dataclass(frozen=True)
class DvcStage:
    """A stage by its file (`dvc.yaml`, or the `.dvc` file of raw data) and its name (`train@digits`)."""

    file: Path
    name: str
    title: str
    """The name, with the file's path if it is not the project's own: another project may have a stage of that name."""

    def __str__(self) -> str:
        return self.name


class DvcProject:
    """The DVC repository around a project's folder, opened once."""

    def __init__(self, folder: Path) -> None:
        """Open the repository. Raises `RunError` with DVC's message if there is no usable one."""
        self._folder = folder
        check_files(folder)
        check_seen([folder / DVC_YAML, folder / LOCK])
        with in_one_line(busy=Busy):
            self._dvc = Dvc(folder, wait=True)
        self._close = weakref.finalize(self, self._dvc.close)

    def upstream(self, name: str) -> list[DvcStage]:
        """Return the stages that `dvc repro NAME` goes through, in its order, `name` last.

        Raw data added with `dvc add` is included only if it has changed since.
        Raises `RunError` for a `dvc.yaml` that DVC refuses, `InputError` for raw data that it overlooks or that are
        those of an earlier commit, and `Busy`.
        """
        with in_one_line(busy=Busy), self._dvc.locked():
            plan = self._plan(name)
            raw_data.check(self._dvc, plan)
            stages = [stage for stage in plan if not stage.is_raw_data or stage.is_stale()]
            raw_data.check_not_older(stage for stage in stages if stage.is_raw_data)
        return [DvcStage(stage.file, stage.name, self._title(stage)) for stage in stages]

    def is_recorded(self, name: str) -> bool:
        """Return whether `dvc.lock` records `name` and all its upstream stages with the current inputs.

        Missing files do not matter, neither outputs nor raw data. Raises `RunError` and `Busy`.
        """
        with in_one_line(busy=Busy), self._dvc.locked():
            plan = self._plan(name)
            check_dependencies(plan)
            return all(all(stage.recorded) and not stage.is_stale(missing_ok=True, upstream=plan) for stage in plan)

    def lost(self, name: str, *, raw_data: bool = False) -> list[str]:
        """Return the outputs of `name` and its upstream stages whose files neither DVC's cache nor its remote has.

        raw_data: also what was added with `dvc add`. Raises `RunError`, also for a remote that does not answer, and
        `Busy`.
        """
        with in_one_line(busy=Busy), self._dvc.locked():
            plan = [stage for stage in self._plan(name) if raw_data or not stage.is_raw_data]
            try:
                found = self._dvc.lost(plan)
            except Exception as error:  # the remote's library may raise anything
                raise RunError(f"DVC's remote: {first_lines(str(error)) or type(error).__name__}") from None
        return [Path(os.path.relpath(path, self._folder)).as_posix() for path in found]

    def outputs_for_git(self, name: str) -> list[Path]:
        """Return the outputs of `name` and its upstream stages that DVC leaves to Git. Raises `RunError` and `Busy`."""
        with in_one_line(busy=Busy), self._dvc.locked():
            return [path for stage in self._plan(name) for path in stage.outputs_for_git]

    def commands(self, name: str) -> list[str]:
        """Return the shell commands of a stage. Raises `RunError` and `Busy`."""
        with in_one_line(busy=Busy), self._dvc.locked():
            return self._dvc.stage(self._folder / DVC_YAML, name).commands

    def raw_data(self, name: str, *, fetched: bool = False) -> list[Path]:
        """Return the `.dvc` files of the raw data that `name` depends on, also through a symlink in a folder.

        fetched: whether DVC has just downloaded them. Raises `InputError` for what the cache has that was altered.
        """
        with in_one_line(busy=Busy), self._dvc.locked():
            stages = raw_data.needed(self._dvc, self._plan(name))
            raw_data.check_cached(stages, fetched=fetched)
            return [stage.file for stage in stages]

    def _plan(self, name: str) -> list[Stage]:
        """Return the stages that `dvc repro NAME` goes through."""
        return self._dvc.upstream(self._dvc.stage(self._folder / DVC_YAML, name))

    def _title(self, stage: Stage) -> str:
        """Return what a stage is called here: as DVC does, such as `../dvc.yaml:ingest@digits`."""
        file, own = (os.path.realpath(path) for path in (stage.file, self._folder))
        path = Path(os.path.relpath(file, own)).as_posix()
        if stage.is_raw_data:
            return path
        return stage.name if path == DVC_YAML else f"{path}:{stage.name}"

    @property
    def cache(self) -> Path:
        """The folder in which DVC stores files by their MD5."""
        return self._dvc.cache

    def close(self) -> None:
        """Close DVC's repository."""
        self._close()

    def is_stale(self, stage: DvcStage) -> bool:
        """Return whether `dvc repro --single-item` would do anything. Raises `RunError` and `Busy`.

        This is DVC's own test: command, parameters and dependencies against `dvc.lock`, and the outputs against
        both `dvc.lock` and the cache.
        """
        with in_one_line(busy=Busy), self._dvc.locked():
            loaded = self._dvc.stage(stage.file, stage.name)
            check_dependencies([loaded])
            return loaded.is_stale()
