"""Many stages examined at once: DVC's locks are taken once for all, and each file of parameters is read once."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from dvc import rwlock
from dvc.dependency import param

from tapeline.parsing import dotted_key
from tapeline.repository.dvc.stage import Stage


@contextmanager
def examined(repo: Any, stages: Iterable[Stage]) -> Iterator[None]:
    """Hold DVC's read locks of the stages' files in the block, so that `is_stale` reads each parameter file once.

    By itself it reads them for each stage, and writes DVC's file of locks twelve times: with n pipelines, n times files
    of size n. The repository is locked. Nothing in the block may change parameter files or lock other paths, and no
    other thread may use DVC. Raises `LockError` if another process writes one of the files.
    """
    lock, read = rwlock.rwlock, param.read_param_file
    loaded = [stage.loaded for stage in stages]
    paths = list(dict.fromkeys(item.fs_path for stage in loaded for item in (*stage.deps, *stage.outs)))
    hardlink = repo.config["core"].get("hardlink_lock", False)
    with lock(repo.tmp_dir, repo.fs, "tapeline list", paths, [], hardlink):
        param.read_param_file = _remembering(read)
        rwlock.rwlock = lambda *_: nullcontext()
        try:
            yield
        finally:
            param.read_param_file, rwlock.rwlock = read, lock


def _remembering(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return DVC's `read_param_file` that parses a file once, and finds plain keys without a search of all of it."""
    known: dict[str, Any] = {}

    def remembered(fs: Any, path: str, key_paths: list[str] | None = None, flatten: bool = False) -> Any:
        if not key_paths or not flatten or any(set(key) & set("*?[") for key in key_paths):
            return read(fs, path, key_paths, flatten)
        if path not in known:
            known[path] = read(fs, path)
        return {key: value for key in key_paths for value in dotted_key.at(known[path], key)}

    return remembered
