"""The DVC repository around a folder: its stages, its cache and its remote."""

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from dvc.config import NoRemoteError
from dvc.dvcfile import load_file
from dvc.exceptions import ReproductionError
from dvc.logger import set_loggers_level
from dvc.repo import Repo, lock_repo
from dvc.repo.reproduce import get_active_graph, plan_repro

from tapeline.repository.dvc.examining import examined
from tapeline.repository.dvc.exceptions import FailedStage
from tapeline.repository.dvc.running import run_by
from tapeline.repository.dvc.stage import Stage
from tapeline.repository.places import may_write
from tapeline.repository.spare import Spare
from tapeline.runtime import scratch
from tapeline.runtime.errors import RunError


class Remote:
    """The objects of DVC's default remote, by their MD5."""

    def __init__(self, objects: Any) -> None:
        self._objects = objects

    def has(self, md5: str) -> bool:
        """Return whether it has an object."""
        return bool(self._objects.exists(md5))

    def fetch(self, md5: str, path: Path) -> None:
        """Write an object to a file. Raises whatever the remote's library does."""
        self._objects.fs.get_file(self._objects.oid_to_path(md5), str(path))


class _Elsewhere(Repo):
    """A repository whose locks and notes are in another folder."""

    def __init__(self, top: str, folder: Path, settings: dict[str, Any]) -> None:
        self.tmp_dir = str(folder / "tmp")
        super().__init__(top, config={"core": settings | {"site_cache_dir": str(folder / "site")}})

    def _ignore(self) -> None:
        """Add nothing to `.gitignore`: the folder is outside Git's tree."""


class Dvc:
    """The DVC repository around a folder."""

    def __init__(self, folder: Path, *, wait: bool = False, only_read: bool = False) -> None:
        """Open the repository. wait: for another process that holds its lock; otherwise `LockError` after 3 s.

        only_read: where this user may not write, the locks and what DVC notes are in a temporary folder, until it is
        closed.
        """
        top = Repo.find_root(str(folder))
        settings: dict[str, Any] = {"interactive": False}  # nobody is there to be asked before each stage
        self._open = ExitStack()
        if only_read and not may_write(Path(top, Repo.DVC_DIR, "tmp", "lock")):
            self._repo = _Elsewhere(top, self.aside, settings)
        else:
            self._repo = Repo(top, config={"core": settings}, _wait_for_lock=wait)
        self._open.callback(self._repo.close)

    def close(self) -> None:
        """Close the repository."""
        self._open.close()

    @cached_property
    def aside(self) -> Path:
        """A temporary folder for what this user may not write into the repository, until it is closed."""
        return self._open.enter_context(scratch.folder("dvc"))

    def locked(self) -> AbstractContextManager[None]:
        """Hold the repository's lock and read its files again."""
        held: AbstractContextManager[None] = lock_repo(self._repo)
        return held

    @property
    def top(self) -> Path:
        """The folder with `.dvc`."""
        return Path(self._repo.root_dir)

    @property
    def git_top(self) -> Path:
        """The folder with `.git`; `top` without Git."""
        return Path(self._repo.scm.root_dir)

    @property
    def cache(self) -> Path:
        """The folder in which DVC stores files by their MD5."""
        return Path(self._repo.cache.local.path)

    def stage(self, file: Path, name: str) -> Stage:
        """Load a stage by its file and name, or a `.dvc` file, whose name is its own."""
        return Stage(self._repo.stage.load_one(str(file), None if name == file.name else name))

    def stages_of(self, file: Path) -> Callable[[str], Stage]:
        """Return a function that loads a stage of `file` by its name; `file` is read now and not again.

        `stage` reads `dvc.yaml`, `dvc.lock` and `params.yaml` again for each stage.
        """
        loader: Any = load_file(self._repo, str(file)).stages
        return lambda name: Stage(loader[name])

    def examined(self, stages: Iterable[Stage]) -> AbstractContextManager[None]:
        """Hold DVC's read locks of the stages' files: see `examining.examined`."""
        return examined(self._repo, stages)

    def stages(self) -> list[Stage]:
        """Return all stages of the repository, `.dvc` files included."""
        return [Stage(stage) for stage in self._repo.index.stages]

    def upstream(self, stage: Stage) -> list[Stage]:
        """Return the stages that `dvc repro` goes through for a stage, in its order, the stage last."""
        graph = get_active_graph(self._repo.index.graph)
        return [Stage(loaded) for loaded in plan_repro(graph, [stage.loaded])]

    def status(self, file: Path, name: str) -> dict[str, list[Any]]:
        """Return stage → what of it is stale, for a stage and all before it, as `dvc status --json` does."""
        found: dict[str, list[Any]] = self._repo.status(targets=[f"{file}:{name}"], with_deps=True)
        return found

    def reproduce(self, name: str, waiting: Spare | None = None) -> Literal["unchanged", "restored", "recorded", "ran"]:
        """Do what `dvc repro --single-item NAME` does in the current folder, and return what that was.

        waiting: runs the stage's command instead of a new shell.
        Prints only what the stage prints, and DVC's warnings. Raises `FailedStage`, `DvcException` if there is no such
        stage, and `RunError` for an output that is recorded and not all in the cache: DVC only logs a failed copy.
        """
        done: Literal["restored", "recorded", "ran"] = "recorded"  # a `.dvc` file has no command, nor a cached run
        restore = self._repo.stage_cache.restore

        def restored(*arguments: Any, **options: Any) -> None:
            nonlocal done
            done = "ran"
            restore(*arguments, **options)  # raises if DVC has no such run, and then runs the command
            done = "restored"

        self._repo.stage_cache.restore = restored
        try:
            with set_loggers_level(logging.WARNING), run_by(waiting):
                changed = self._repo.reproduce(targets=[name], single_item=True)
        except ReproductionError as error:
            raise FailedStage(error) from error
        finally:
            self._repo.stage_cache.restore = restore
        for out in (out for stage in changed if not stage.is_import for out in stage.outs):
            if out.use_cache and out.hash_info and self._uncached(out):
                raise RunError(f"could not store all of {out.fspath} in {self.cache}: free space there and run again")
        return done if changed else "unchanged"

    def remote(self) -> Remote | None:
        """Return the default remote; None if none is set."""
        try:
            return Remote(self._repo.cloud.get_remote_odb())
        except NoRemoteError:
            return None

    def lost(self, stages: Iterable[Stage]) -> list[Path]:
        """Return the recorded outputs of which a file is neither in the cache nor on the output's remote.

        The remote is asked only for what the cache lacks. Raises whatever its library does.
        """
        loaded = [stage.loaded for stage in stages if not stage.loaded.is_import]
        outs = [out for stage in loaded for out in stage.outs if out.use_cache and out.hash_info]
        return [Path(out.fspath) for out in outs if not self._has(out)]

    def _uncached(self, out: Any) -> list[str]:
        """Return the MD5s of an output's files, and of a folder's list, that the cache lacks."""
        md5, listing = out.hash_info.value, out.get_obj() if out.hash_info.isdir else ()
        parts = [md5] if listing is None else [md5, *(part.value for _, _, part in listing)]
        return [part for part in parts if not out.cache.exists(part)]

    def _has(self, out: Any) -> bool:
        md5, missing = out.hash_info.value, self._uncached(out)
        if not missing:
            return True
        try:
            remote = self._repo.cloud.get_remote_odb(out.remote, hash_name=out.hash_name)
        except NoRemoteError:
            return False
        # DVC pushes a folder's list after its files, and takes them for granted where the list is.
        return bool(remote.exists(md5)) or all(remote.exists(part) for part in missing)

    def ignores(self, path: Path) -> bool:
        """Return whether `.dvcignore` excludes a file from the folders that DVC records."""
        return bool(self._repo.dvcignore.is_ignored_file(str(path)))

    def ignored_by(self, path: str) -> tuple[str, str, str] | None:
        """Return file, line and pattern of the `.dvcignore` that hides a path; None if none does."""
        found = self._repo.dvcignore.check_ignore(path)
        if not found.match:
            return None
        file, line, pattern = [*str(found.pattern_infos[-1]).split(":", 2), "", ""][:3]
        return file, line, pattern
