"""A user-defined TFDS builder file as a source.

The dataset is prepared from scratch on each call, in a folder that is removed afterwards: TFDS would silently reuse an
existing version even if the file or its input has changed. Downloads are kept.
"""

import os
import shutil
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from tapeline.config.ingest import BuilderSource
from tapeline.ingest.source import SPLITS, Source, split_name
from tapeline.runtime import files, startup
from tapeline.runtime.errors import InputError, TapelineError
from tapeline.runtime.progress import Report

SUFFIX = "_dataset_builder"
MODULE = f"_tapeline{SUFFIX}"


@contextmanager
def opened(settings: BuilderSource, path: Path, *, work: Path, report: Report) -> Iterator[Source]:
    """Yield the examples of the only `GeneratorBasedBuilder` in the file, or in the folder's file, prepared in `work`.

    Raises `InputError` with file and line for a file that does not import or a builder that does not generate.
    """
    path = _file(path)
    code = _compiled(path)
    startup.tensorflow()
    from tapeline.ingest import builder_examples, tfds_reader
    from tapeline.ingest.prepare import prepare
    from tapeline.runtime.tensorflow_files import disk_errors

    folder, downloads = work / "tfds" / "passing", work / "tfds" / "downloads"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with _errors_placed(path), disk_errors():
            builder = _builder_class(path, code)(data_dir=str(folder))
            tfds_reader.check_features(builder, settings.columns)  # before preparing, which may take hours
            _refuse_rounded(tfds_reader.chosen(builder, settings.columns))
            with builder_examples.each_checked(builder, settings.columns):
                prepare(builder, downloads=downloads, bring=_bring(downloads), report=report)
        # No hash of the file: changing a comment in it must not change the dataset.
        origin = {"kind": "builder", "name": builder.name, "version": str(builder.version)}
        yield tfds_reader.read(builder, origin=origin, splits=_splits(builder), columns=settings.columns)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _refuse_rounded(features: Mapping[str, Any]) -> None:
    """Raise `InputError` for a feature of float64 that TFDS would round."""
    from tapeline.ingest import tfds_reader

    for name, feature in features.items():
        if tfds_reader.is_rounded(feature):
            raise InputError(
                f"feature {name!r} is float64, and TFDS stores float64 as float32: declare float32, or a "
                "tfds.features.Tensor with `encoding=tfds.features.Encoding.BYTES`"
            )


def _bring(downloads: Path) -> str:
    return (
        f"copy {downloads} from a machine that has them, or add the files with `dvc add` and have the builder read "
        "them from there"
    )


def _file(path: Path) -> Path:
    """Return the builder's file, if `path` is a folder with it and its input; otherwise `path`."""
    if not path.is_dir():
        return path
    names = sorted(file.name for file in path.glob("*.py") if file.name != "__init__.py")
    wanted = [f"{path.name}{SUFFIX}.py", f"{path.name}.py"]
    chosen = next((name for name in wanted if name in names), names[0] if len(names) == 1 else None)
    if chosen is None:
        has = f"has {', '.join(names)}" if names else "has no Python file"
        raise InputError(f"{path.name} {has}: the builder of a folder is {wanted[1]}, or the only Python file")
    return path / chosen


def _compiled(path: Path) -> CodeType:
    """Compile the file, which needs no TensorFlow and leaves no `__pycache__` next to it."""
    if path.is_file() and not os.access(path, os.R_OK):
        raise InputError(f"{path.name} cannot be read by this user: allow it with `chmod u+r`")
    if not path.is_file() or path.suffix != ".py":
        raise InputError(f"{path.name} is not a builder: give a Python file with one tfds.core.GeneratorBasedBuilder")
    files.refuse_pointer(path)
    try:
        return compile(files.read_bytes(path), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path.name}, line {getattr(error, 'lineno', None) or 1}: {error.args[0]}") from None


def _builder_class(path: Path, code: CodeType) -> Any:
    """Run the file and return its builder, without registering it in TFDS's catalogue."""
    import tensorflow_datasets as tfds

    from tapeline.ingest import tfds_internals

    module = ModuleType(MODULE)
    module.__file__ = str(path)
    sys.modules[MODULE] = module  # TFDS finds a builder's file, and the checksums next to it, by its module
    with tfds_internals.unregistered():
        exec(code, vars(module))
    classes = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == MODULE]
    builders: list[Any] = [value for value in classes if issubclass(value, tfds.core.GeneratorBasedBuilder)]
    if len(builders) != 1:
        names = ", ".join(builder.__name__ for builder in builders) or "none"
        raise InputError(f"{path.name} must define exactly one tfds.core.GeneratorBasedBuilder, but defines {names}")
    (builder,) = builders
    tfds_internals.set_folder(builder, path.parent)
    if builder.__name__ == "Builder":  # as in TFDS's template, whose file is `<name>_dataset_builder.py`
        builder.name = path.stem.removesuffix(SUFFIX)
    return builder


def _splits(builder: Any) -> dict[str, str]:
    """Return our split name → the builder's split name. Raises `InputError` for two of one name."""
    of, named = f"builder {builder.name}", dict[str, str]()
    for split in builder.info.splits:
        if (other := named.setdefault(split_name(split, of=of), split)) != split:
            raise InputError(f"{of} has a split {other!r} and a split {split!r}, which are one: merge them")
    return {split: named[split] for split in SPLITS if split in named}


def _disk_error(error: BaseException) -> OSError | None:
    """Return the disk's error, which is not the builder's fault, that TFDS may have wrapped in another."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in files.DISK_ERRORS:
            return OSError(cause.errno, os.strerror(cause.errno), cause.filename)
        cause = cause.__cause__ or cause.__context__
    return None


@contextmanager
def _errors_placed(path: Path) -> Iterator[None]:
    """Turn an exception from the file's code into a one-line message with the file and line."""
    try:
        yield
    except TapelineError:
        raise
    except (Exception, SystemExit) as error:  # a script's own end would be taken for success
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        if (disk := _disk_error(error)) is not None:
            raise disk from error
        if isinstance(error, OSError) and not lines:
            raise  # from the disk, not from the file's code
        from tapeline.ingest.prepare import one_line

        place = f"{path.name}, line {lines[-1]}" if lines else path.name
        raise InputError(f"{place}: {type(error).__name__}: {one_line(error)}") from error
