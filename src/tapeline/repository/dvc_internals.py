"""The one module that uses DVC's own classes. DVC documents `dvc.api` alone, which cannot tell what is stale.

    dvc = Dvc(folder)
    with dvc.locked():
        for stage in dvc.upstream(dvc.stage(folder / "dvc.yaml", "export@digits")):
            print(stage.name, stage.is_stale())

Every name used here has a test in `tests/repository/test_dvc_internals.py`, and `pyproject.toml` bounds DVC's version.
Importing this takes a third of a second, so callers import it where they need it. Exceptions are DVC's own:
`tapeline.repository.dvc_errors.in_one_line` turns them into one line.
"""

import atexit
import logging
import re
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

import dvc.stage.run
from configobj import ConfigObj
from dvc import rwlock
from dvc.config import Config, ConfigError, NoRemoteError, _pack_named, merge
from dvc.dependency import param
from dvc.dependency.param import ParamsDependency
from dvc.dvcfile import load_file
from dvc.exceptions import DvcException, NotDvcRepoError, ReproductionError
from dvc.lock import LockError, make_lock
from dvc.logger import colorama, set_loggers_level
from dvc.repo import Repo, lock_repo
from dvc.repo.reproduce import get_active_graph, plan_repro
from dvc.schema import COMPILED_LOCKFILE_SCHEMA
from dvc.stage.exceptions import StageCmdFailedError
from dvc.utils.serialize import dumps_yaml
from voluptuous import Invalid

from tapeline.repository.spare import Order, Spare
from tapeline.runtime import files

__all__ = [
    "ConfigError",
    "Dvc",
    "DvcException",
    "FailedStage",
    "Input",
    "LockError",
    "NotDvcRepoError",
    "Remote",
    "Settings",
    "Stage",
    "file_lock",
    "is_lock",
    "lock_text",
    "merged",
]

# DVC has it write a reset of colours to a terminal at the end, which arrives there as text: DVC's output is not shown.
atexit.unregister(colorama.initialise.reset_all)


class Input:
    """A dependency of a stage, as DVC has loaded it: a file, a folder, or keys of a file of parameters."""

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded

    def __str__(self) -> str:
        return str(self._loaded)

    @property
    def parameter_file(self) -> Path | None:
        """The file whose keys it is; None for a file or folder itself."""
        return Path(self._loaded.fs_path) if isinstance(self._loaded, ParamsDependency) else None

    def changed_keys(self) -> list[str]:
        """Return the keys of a file of parameters whose values are not the recorded ones."""
        found: list[str] = []
        for file, states in self._loaded.status().items():
            found += states if isinstance(states, Mapping) else [file]
        return found

    @property
    def exists(self) -> bool:
        """Whether the file or folder is there."""
        return bool(self._loaded.exists)

    @property
    def has_changed(self) -> bool:
        """Whether a file or folder that exists is not the recorded one."""
        return bool(self._loaded.changed_checksum())

    @property
    def recorded(self) -> str | None:
        """The recorded MD5."""
        return str(self._loaded.hash_info.value) if self._loaded.hash_info else None

    def current(self) -> str:
        """Return the MD5 of what is there."""
        return str(self._loaded.get_hash().value)


class Stage:
    """A stage of a `dvc.yaml`, or a `.dvc` file, as DVC has loaded it."""

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded

    @property
    def file(self) -> Path:
        """The `dvc.yaml` or the `.dvc` file."""
        return Path(self._loaded.path)

    @property
    def name(self) -> str:
        """Such as `train@digits`; for a `.dvc` file, its name."""
        return getattr(self._loaded, "name", None) or self.file.name

    @property
    def is_raw_data(self) -> bool:
        """Whether it is a file's or folder's `.dvc` file, with no command."""
        return bool(self._loaded.is_data_source)

    @property
    def commands(self) -> list[str]:
        """The shell commands, in their order; none for raw data."""
        found: str | list[str] | None = self._loaded.cmd
        return [found] if isinstance(found, str) else list(found or ())

    @property
    def dependencies(self) -> list[Path]:
        """The dependencies on this machine: a URL is none."""
        return [Path(dep.fspath) for dep in self._loaded.deps if dep.protocol == "local"]

    @property
    def inputs(self) -> list[Input]:
        """All dependencies, parameters included."""
        return [Input(dep) for dep in self._loaded.deps]

    @property
    def outputs(self) -> list[Path]:
        """The outputs on this machine."""
        return [Path(out.fspath) for out in self._loaded.outs if out.protocol == "local"]

    @property
    def recorded(self) -> list[bool]:
        """For each output, whether its hash is recorded."""
        return [bool(out.hash_info) for out in self._loaded.outs]

    def is_stale(self, *, missing_ok: bool = False, upstream: Collection["Stage"] = ()) -> bool:
        """Return whether `dvc repro --single-item` would do anything: DVC's own comparison.

        missing_ok: outputs that are recorded, but not here, make nothing stale. upstream: the stages whose recorded
        outputs count for dependencies that are not here.
        """
        if not missing_ok:
            return bool(self._loaded.changed())
        return bool(self._loaded.changed(allow_missing=True, upstream=[stage._loaded for stage in upstream] or None))


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


class FailedStage(Exception):
    """`Dvc.reproduce` failed; the message is DVC's.

    status: the exit status of the stage's command, negative for a signal; None if something else failed.
    was_busy: another process used the files, so the same call may succeed later.
    """

    def __init__(self, error: ReproductionError) -> None:
        causes = list(_causes(error))
        super().__init__(": ".join(map(str, causes)))
        last = causes[-1]
        self.status = _status(last) if isinstance(last, StageCmdFailedError) else None
        self.was_busy = any(isinstance(cause, LockError) or _is_lost_run(cause) for cause in causes)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _status(error: StageCmdFailedError) -> int | None:
    """Return the exit status, which DVC keeps in the message alone."""
    found = re.search(r"exited with (-?\d+)$", str(error))
    return int(found[1]) if found else None


def _is_lost_run(error: BaseException) -> bool:
    """Return whether DVC lost a file that it was writing into its run cache.

    Another DVC process that shares the cache and was reading the entries of the same stage took it for a damaged entry
    and removed it.
    """
    lost = r"/runs/[0-9a-f]{2}/[0-9a-f]{64}/\.[^/]+\.tmp$"
    return isinstance(error, FileNotFoundError) and bool(re.search(lost, str(error.filename)))


class Dvc:
    """The DVC repository around a folder."""

    def __init__(self, folder: Path, *, wait: bool = False) -> None:
        """Open the repository. wait: for another process that holds its lock; otherwise `LockError` after 3 s."""
        self._repo = Repo(str(folder), _wait_for_lock=wait)

    def close(self) -> None:
        """Close the repository."""
        self._repo.close()

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
        """Load a stage by its file and name."""
        return Stage(self._repo.stage.load_one(str(file), name))

    def stages_of(self, file: Path) -> Callable[[str], Stage]:
        """Return a function that loads a stage of `file` by its name; `file` is read now and not again.

        `stage` reads `dvc.yaml`, `dvc.lock` and `params.yaml` again for each stage.
        """
        loader: Any = load_file(self._repo, str(file)).stages
        return lambda name: Stage(loader[name])

    @contextmanager
    def examined(self, stages: Iterable[Stage]) -> Iterator[None]:
        """Hold DVC's read locks of the stages' files in the block, so that `is_stale` reads each parameter file once.

        By itself it reads them for each stage, and writes DVC's file of locks twelve times: with n pipelines, n times
        files of size n. The repository is locked. Nothing in the block may change parameter files or lock other paths,
        and no other thread may use DVC. Raises `LockError` if another process writes one of the files.
        """
        lock, read = rwlock.rwlock, param.read_param_file
        loaded = [stage._loaded for stage in stages]
        paths = list(dict.fromkeys(item.fs_path for stage in loaded for item in (*stage.deps, *stage.outs)))
        hardlink = self._repo.config["core"].get("hardlink_lock", False)
        with lock(self._repo.tmp_dir, self._repo.fs, "tapeline list", paths, [], hardlink):
            param.read_param_file = _remembering(read)
            rwlock.rwlock = lambda *_: nullcontext()
            try:
                yield
            finally:
                param.read_param_file, rwlock.rwlock = read, lock

    def stages(self) -> list[Stage]:
        """Return all stages of the repository, `.dvc` files included."""
        return [Stage(stage) for stage in self._repo.index.stages]

    def upstream(self, stage: Stage) -> list[Stage]:
        """Return the stages that `dvc repro` goes through for a stage, in its order, the stage last."""
        graph = get_active_graph(self._repo.index.graph)
        return [Stage(loaded) for loaded in plan_repro(graph, [stage._loaded])]

    def status(self, file: Path, name: str) -> dict[str, list[Any]]:
        """Return stage → what of it is stale, for a stage and all before it, as `dvc status --json` does."""
        found: dict[str, list[Any]] = self._repo.status(targets=[f"{file}:{name}"], with_deps=True)
        return found

    def reproduce(self, name: str, waiting: Spare | None = None) -> Literal["unchanged", "restored", "recorded", "ran"]:
        """Do what `dvc repro --single-item NAME` does in the current folder, and return what that was.

        waiting: runs the stage's command instead of a new shell.
        Prints only what the stage prints, and DVC's warnings. Raises `FailedStage`, and `DvcException` if there is no
        such stage.
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
            with set_loggers_level(logging.WARNING), _run_by(waiting):
                changed = self._repo.reproduce(targets=[name], single_item=True)
        except ReproductionError as error:
            raise FailedStage(error) from error
        finally:
            self._repo.stage_cache.restore = restore
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
        loaded = [stage._loaded for stage in stages if not stage._loaded.is_import]
        outs = [out for stage in loaded for out in stage.outs if out.use_cache and out.hash_info]
        return [Path(out.fspath) for out in outs if not self._has(out)]

    def _has(self, out: Any) -> bool:
        md5, listing = out.hash_info.value, out.get_obj() if out.hash_info.isdir else ()
        parts = [md5] if listing is None else [md5, *(part.value for _, _, part in listing)]
        missing = [part for part in parts if not out.cache.exists(part)]
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


@contextmanager
def _run_by(waiting: Spare | None) -> Iterator[None]:
    """In the block, DVC has a waiting process run a stage's command; None: a shell, as always."""
    if waiting is None:
        yield
        return
    run = dvc.stage.run._run

    def instead(executable: str, command: str, **options: Any) -> None:
        if not waiting.waits:  # the second command of a list
            run(executable, command, **options)
            return
        shell = dvc.stage.run._make_cmd(executable, command)
        order = Order(command=command, shell=shell, folder=options["cwd"], environment=options["env"])
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as DVC does: the command decides what it means
        try:
            status = waiting.run(order)
        finally:
            signal.signal(signal.SIGINT, before)
        if status:
            raise StageCmdFailedError(command, status)

    dvc.stage.run._run = instead
    try:
        yield
    finally:
        dvc.stage.run._run = run
        waiting.close()


def _remembering(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return DVC's `read_param_file` that parses a file once, and finds plain keys without a search of all of it."""
    known: dict[str, Any] = {}

    def remembered(fs: Any, path: str, key_paths: list[str] | None = None, flatten: bool = False) -> Any:
        if not key_paths or not flatten or any(set(key) & set("*?[") for key in key_paths):
            return read(fs, path, key_paths, flatten)
        if path not in known:
            known[path] = read(fs, path)
        return {key: value for key in key_paths for value in _found(known[path], key)}

    return remembered


def _found(content: Any, key: str) -> Iterator[Any]:
    """Yield the value at a path such as `pipelines.digits.train`; nothing if there is none."""
    for part in key.split("."):
        if isinstance(content, Mapping) and part in content:
            content = content[part]
        elif isinstance(content, list) and part.isdecimal() and int(part) < len(content):
            content = content[int(part)]
        else:
            return
    yield content


class _Utf8(Config):
    """DVC reads its files as UTF-8 and writes them as ASCII, so that no path may have an umlaut."""

    def _save_config(self, level: str, conf_dict: dict[str, Any]) -> None:
        written = Path(self.files[level])
        files.make_folder(written.parent)
        content = ConfigObj(_pack_named(conf_dict), encoding="utf-8")
        files.write_bytes(written, b"".join(line + b"\n" for line in content.write()))


class Settings:
    """What `dvc config` has for the `.dvc` folder `folder`, unvalidated."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._config = _Utf8(str(folder), validate=False)

    @classmethod
    def around(cls, folder: Path) -> "Settings":
        """Return the settings of the repository around a folder. Raises `NotDvcRepoError`."""
        return cls(Path(Repo.find_root(str(folder)), ".dvc"))

    @property
    def remotes(self) -> list[str]:
        """The names of the remotes."""
        return list(self._config.get("remote") or ())

    @property
    def default_remote(self) -> str | None:
        """The remote that is used without a name."""
        name: str | None = self._config["core"].get("remote")
        return name

    @property
    def cache(self) -> str | None:
        """The cache's folder, if one is set."""
        folder = self._config["cache"].get("dir")
        return str(folder) if folder else None

    def level(self, name: str) -> dict[str, Any]:
        """Return one level's settings: `repo` (committed) or `local`, by section; paths are absolute."""
        found: dict[str, Any] = self._config.load_one(name)
        return found

    def edit_local(self) -> AbstractContextManager[dict[str, Any]]:
        """Change `config.local`: what the yielded dictionary holds at the end is written."""
        edited: AbstractContextManager[dict[str, Any]] = self._config.edit("local", validate=False)
        return edited


def merged(into: dict[str, Any], settings: dict[str, Any]) -> None:
    """Merge settings into others, section by section, in place."""
    merge(into, settings)


def file_lock(path: Path) -> AbstractContextManager[None]:
    """Return DVC's own lock at `path`. Entering it raises `LockError` if a live process holds it."""
    lock: AbstractContextManager[None] = make_lock(str(path), tmp_dir=str(path.parent), hardlink_lock=False)
    return lock


def is_lock(tree: Any) -> bool:
    """Return whether parsed YAML has the schema of a `dvc.lock`."""
    try:
        COMPILED_LOCKFILE_SCHEMA(tree)
    except Invalid:
        return False
    return True


def lock_text(content: Mapping[str, Any]) -> str:
    """Return the text that DVC would write for the content of a `dvc.lock`."""
    return str(dumps_yaml(content))
