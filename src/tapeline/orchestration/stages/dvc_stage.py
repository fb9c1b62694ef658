"""What DVC knows about a pipeline's stages, asked in this process, which takes only milliseconds.

    dvc = DvcProject(folder)
    for stage in dvc.upstream("export@digits"):
        print(stage, dvc.is_stale(stage))

Nothing is changed here: `tapeline.orchestration.stages.execution` does that in a separate `dvc` process.
"""

import os
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dvc.repo import Repo, lock_repo
from dvc.repo.reproduce import get_active_graph, plan_repro

from tapeline.repository.dvc_errors import check_dependencies, check_files, in_one_line
from tapeline.repository.unseen import check_all


class Busy(Exception):
    """Another process uses the files in question; the message names the process."""


@dataclass(frozen=True)
class DvcStage:
    """A stage by its file (`dvc.yaml`, or the `.dvc` file of raw data) and its name (`train@digits`)."""

    file: Path
    name: str

    def __str__(self) -> str:
        return self.name


class DvcProject:
    """The DVC repository around a project's folder, opened once."""

    def __init__(self, folder: Path) -> None:
        """Open the repository. Raises `RunError` with DVC's message if there is no usable one."""
        self._folder = folder
        check_files(folder)
        with in_one_line(busy=Busy):
            self._repo = Repo(str(folder), _wait_for_lock=True)
        self._close = weakref.finalize(self, self._repo.close)

    def upstream(self, name: str) -> list[DvcStage]:
        """Return the stages that `dvc repro NAME` goes through, in its order, `name` last.

        Raw data added with `dvc add` is included only if it has changed since.
        Raises `RunError` for a `dvc.yaml` that DVC refuses, `InputError` for raw data that it overlooks, and `Busy`.
        """
        with in_one_line(busy=Busy), lock_repo(self._repo):
            target = self._repo.stage.load_one(str(self._folder / "dvc.yaml"), name)
            plan = plan_repro(get_active_graph(self._repo.index.graph), [target])
            self._check_seen(plan)
            stages = [stage for stage in plan if not stage.is_data_source or stage.changed()]
        return [DvcStage(Path(stage.path), getattr(stage, "name", Path(stage.path).name)) for stage in stages]

    def is_recorded(self, name: str) -> bool:
        """Return whether `dvc.lock` records `name` and all its upstream stages with the current inputs.

        Missing files do not matter, neither outputs nor raw data. Raises `RunError` and `Busy`.
        """
        with in_one_line(busy=Busy), lock_repo(self._repo):
            target = self._repo.stage.load_one(str(self._folder / "dvc.yaml"), name)
            plan = plan_repro(get_active_graph(self._repo.index.graph), [target])
            check_dependencies(plan)
            return all(
                all(out.hash_info for out in stage.outs) and not stage.changed(allow_missing=True, upstream=plan)
                for stage in plan
            )

    def raw_data(self, name: str) -> list[Path]:
        """Return the `.dvc` files of the raw data that `name` depends on, also through a symlink in a folder."""
        with in_one_line(busy=Busy), lock_repo(self._repo):
            target = self._repo.stage.load_one(str(self._folder / "dvc.yaml"), name)
            plan = plan_repro(get_active_graph(self._repo.index.graph), [target])
            self._check_seen(plan)
            sources = [stage for stage in plan if stage.is_data_source]
            linked = {target for stage in plan for dep in stage.deps for target in _linked(Path(dep.fspath))}
            sources += [out.stage for out in self._repo.index.outs if _has(out, linked) and out.stage.is_data_source]
            return list(dict.fromkeys(Path(stage.path) for stage in sources))

    def _check_seen(self, plan: Iterable[Any]) -> None:
        check_dependencies(plan)
        check_all(self._repo, [dep.fspath for stage in plan for dep in stage.deps])

    @property
    def cache(self) -> Path:
        """The folder in which DVC stores files by their MD5."""
        return Path(self._repo.cache.local.path)

    def close(self) -> None:
        """Close DVC's repository."""
        self._close()

    def is_stale(self, stage: DvcStage) -> bool:
        """Return whether `dvc repro --single-item` would do anything. Raises `RunError` and `Busy`.

        This is DVC's own test: command, parameters and dependencies against `dvc.lock`, and the outputs against
        both `dvc.lock` and the cache.
        """
        with in_one_line(busy=Busy), lock_repo(self._repo):
            loaded = self._repo.stage.load_one(str(stage.file), stage.name)
            check_dependencies([loaded])
            return bool(loaded.changed())


def _linked(folder: Path) -> Iterator[Path]:
    """Yield the targets of a folder's symlinks, existing or not. DVC sees a link's content, not whose output it is."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            if path.is_symlink():
                yield Path(os.path.normpath(path.parent / path.readlink()))


def _has(out: Any, paths: Iterable[Path]) -> bool:
    return any(path.is_relative_to(out.fspath) for path in paths)
