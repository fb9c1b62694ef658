"""A TFDS builder in a file of one's own as a source.

It is prepared anew on each call, in a folder that is removed afterwards: TFDS would silently reuse a version that is
there already, although the file, or what it reads, has changed. Downloads are kept.
"""

import hashlib
import importlib.util
import shutil
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tapeline.errors import InputError, TapelineError
from tapeline.ingest.settings import BuilderSource
from tapeline.ingest.source import SPLITS, Source, split_name
from tapeline.report import Report

SUFFIX = "_dataset_builder"


@contextmanager
def opened(settings: BuilderSource, path: Path, *, work: Path, report: Report) -> Iterator[Source]:
    """Yield the examples of the one `GeneratorBasedBuilder` in the file, prepared below `work`.

    Raises `InputError` with file and line for a file that does not import or a builder that does not generate.
    """
    content = _readable(path)
    from tapeline.ingest import tfds_reader
    from tapeline.ingest.prepare import prepare

    digest = hashlib.sha256(content).hexdigest()
    folder = work / "tfds" / digest[:16]
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with _errors_placed(path):
            builder = _builder_class(path, f"_tapeline_{digest[:16]}_{path.stem}")(data_dir=str(folder))
            prepare(builder, downloads=work / "tfds" / "downloads", bring="bring the files another way", report=report)
        origin = {"kind": "builder", "name": builder.name, "version": str(builder.version), "sha256": digest}
        yield tfds_reader.read(builder, origin=origin, splits=_splits(builder), columns=settings.columns)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _readable(path: Path) -> bytes:
    """Return the file's bytes if they are Python, before TensorFlow is imported to run them."""
    if not path.is_file() or path.suffix != ".py":
        raise InputError(f"{path.name} is no builder: a Python file with one tfds.core.GeneratorBasedBuilder is needed")
    content = path.read_bytes()
    try:
        compile(content, path.name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path.name}, line {getattr(error, 'lineno', None) or 1}: {error.args[0]}") from None
    return content


def _builder_class(path: Path, module_name: str) -> Any:
    """Import the file under a name of its own and return its builder, which TFDS's catalogue does not get to know."""
    import tensorflow_datasets as tfds

    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # TFDS finds a builder's file through its module
    with tfds.core.registered.skip_registration():
        spec.loader.exec_module(module)
    builders = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, tfds.core.GeneratorBasedBuilder) and value.__module__ == module_name
    ]
    if len(builders) != 1:
        names = ", ".join(builder.__name__ for builder in builders) or "none"
        raise InputError(f"{path.name} must define exactly one tfds.core.GeneratorBasedBuilder and defines {names}")
    (builder,) = builders
    builder.pkg_dir_path = tfds.core.Path(path.parent)
    if builder.__name__ == "Builder":  # TFDS's template calls the class so and the file `<name>_dataset_builder.py`
        builder.name = path.stem.removesuffix(SUFFIX)
    return builder


def _splits(builder: Any) -> dict[str, str]:
    """Return the builder's splits by our names."""
    named = {split_name(split, of=f"builder {builder.name}"): split for split in builder.info.splits}
    return {split: named[split] for split in SPLITS if split in named}


@contextmanager
def _errors_placed(path: Path) -> Iterator[None]:
    """Turn what the file's code raises into one line with the place in the file."""
    try:
        yield
    except TapelineError:
        raise
    except OSError as error:
        if _line(path, error) is None:
            raise
        raise _placed(path, error) from error
    except Exception as error:
        raise _placed(path, error) from error


def _placed(path: Path, error: Exception) -> InputError:
    from tapeline.ingest.prepare import one_line

    line = _line(path, error)
    place = path.name if line is None else f"{path.name}, line {line}"
    return InputError(f"{place}: {type(error).__name__}: {one_line(error)}")


def _line(path: Path, error: Exception) -> int | None:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else None
