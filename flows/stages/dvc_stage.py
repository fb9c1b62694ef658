"""What DVC knows about a pipeline's stages, asked in this process, which takes milliseconds.

    dvc = DvcProject(folder)
    for stage in dvc.upstream("export@digits"):
        print(stage, dvc.is_stale(stage))

Nothing is changed here: `flows.stages.execution` lets a `dvc` of its own do that.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dvc.exceptions import DvcException
from dvc.lock import LockError
from dvc.repo import Repo, lock_repo
from dvc.repo.reproduce import get_active_graph, plan_repro

from tapeline.errors import RunError


class Busy(Exception):
    """Another process uses the files that were asked about; the message says which one."""


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
        """Raises `RunError` with DVC's own words when there is no usable repository."""
        self._folder = folder
        with _in_one_line():
            self._repo = Repo(str(folder), _wait_for_lock=True)

    def upstream(self, name: str) -> list[DvcStage]:
        """Return the stages that `dvc repro NAME` goes through, in its order, `name` last.

        Raw data that came in with `dvc add` is among them only when it has changed since.
        Raises `RunError` for a `dvc.yaml` that DVC refuses, and `Busy`.
        """
        with _in_one_line(), lock_repo(self._repo):
            target = self._repo.stage.load_one(str(self._folder / "dvc.yaml"), name)
            plan = plan_repro(get_active_graph(self._repo.index.graph), [target])
            stages = [stage for stage in plan if not stage.is_data_source or stage.changed()]
        return [DvcStage(Path(stage.path), getattr(stage, "name", Path(stage.path).name)) for stage in stages]

    def is_recorded(self, name: str) -> bool:
        """Return whether `dvc.lock` says that `name` and all before it are made of what stands here.

        Files that are not here do not matter, neither outs nor raw data. Raises `RunError` and `Busy`.
        """
        with _in_one_line(), lock_repo(self._repo):
            target = self._repo.stage.load_one(str(self._folder / "dvc.yaml"), name)
            plan = plan_repro(get_active_graph(self._repo.index.graph), [target])
            return all(
                all(out.hash_info for out in stage.outs) and not stage.changed(allow_missing=True, upstream=plan)
                for stage in plan
            )

    def raw_data(self, name: str) -> list[Path]:
        """Return the `.dvc` files of raw data that `name` and all before it are made of."""
        with _in_one_line(), lock_repo(self._repo):
            target = self._repo.stage.load_one(str(self._folder / "dvc.yaml"), name)
            plan = plan_repro(get_active_graph(self._repo.index.graph), [target])
            return [Path(stage.path) for stage in plan if stage.is_data_source]

    @property
    def cache(self) -> Path:
        """Where DVC keeps files by their MD5."""
        return Path(self._repo.cache.local.path)

    def close(self) -> None:
        """Close what DVC holds open in the repository."""
        self._repo.close()

    def is_stale(self, stage: DvcStage) -> bool:
        """Return whether `dvc repro --single-item` would do anything. Raises `RunError` and `Busy`.

        This is DVC's own test: command, parameters and dependencies against `dvc.lock`, and the outs against
        both `dvc.lock` and the cache.
        """
        with _in_one_line(), lock_repo(self._repo):
            return bool(self._repo.stage.load_one(str(stage.file), stage.name).changed())


@contextmanager
def _in_one_line() -> Iterator[None]:
    try:
        yield
    except LockError as error:
        raise Busy(first_lines(str(error))) from None
    except DvcException as error:
        raise RunError(f"DVC: {first_lines(str(error))}") from None


def first_lines(message: str) -> str:
    """Return the first paragraph of one of DVC's messages as one line."""
    return " ".join(line.strip() for line in message.strip().split("\n\n")[0].splitlines())
