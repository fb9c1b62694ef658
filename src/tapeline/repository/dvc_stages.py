"""Load many stages of one `dvc.yaml` and test them for changes, each file read once.

    load = stages_of(repo, folder / "dvc.yaml")
    stages = [load("train@digits"), load("train@other")]
    with examined(repo, stages):
        [stage.changed() for stage in stages]

DVC's own `repo.stage.load_one` reads `dvc.yaml`, `dvc.lock` and `params.yaml` again for each stage. A stage's test for
changes reads its parameter files again, and writes DVC's file of locks twelve times. With n pipelines, that is n times
files of size n.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any


def stages_of(repo: Any, file: Path) -> Callable[[str], Any]:
    """Return a function that loads a stage of `file` by its name. The file is read now and not again."""
    from dvc.dvcfile import load_file

    loader: Any = load_file(repo, str(file)).stages
    return lambda name: loader[name]


@contextmanager
def examined(repo: Any, stages: Iterable[Any]) -> Iterator[None]:
    """Hold DVC's read locks of the stages' files in the block, so that each parameter file is read once.

    `repo` is locked. Nothing in the block may change parameter files or lock other paths, and no other thread may use
    DVC. Raises DVC's `LockError` if another process writes one of the files.
    """
    from dvc import rwlock
    from dvc.dependency import param

    lock, read = rwlock.rwlock, param.read_param_file
    paths = list(dict.fromkeys(item.fs_path for stage in stages for item in (*stage.deps, *stage.outs)))
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
