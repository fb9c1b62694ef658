"""A TFDS dataset by name as a source: used if it is already prepared, otherwise downloaded and prepared.

The places searched are `TFDS_DATA_DIR`, `~/tensorflow_datasets` and the work folder. For a machine without a network,
copy `<name>/<config>/<version>/` from one of these places on a machine that ran `tfds build <name>`, or put the raw
files into `<work>/tfds/downloads/manual/`.
"""

import difflib
import os
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from tapeline.config.ingest import TfdsSource
from tapeline.ingest import tfds_reader
from tapeline.ingest.prepare import one_line, prepare
from tapeline.ingest.source import Source
from tapeline.runtime import startup
from tapeline.runtime.errors import InputError, RunError, TapelineError
from tapeline.runtime.progress import Report


def read(settings: TfdsSource, *, work: Path, report: Report) -> Source:
    """Open a dataset of the catalogue, preparing it first if it is not on this machine.

    Raises `InputError` for an unknown name, config, version or split, for a feature that cannot be a column, and,
    within seconds, without a network. A slow download does not time out.
    """
    own = work / "tfds"
    builder = _prepared(settings.name, _brought()) or known(settings.name, own)
    startup.tensorflow()  # takes seconds, so a wrong name is reported before
    if not _is_prepared(builder):
        tfds_reader.check_features(builder, settings.columns)
        _download(builder, settings.name, own, report)
    splits: dict[str, str] = dict(settings.splits.items())
    origin = {"kind": "tfds", "name": builder.name, "version": str(builder.version), "splits": splits}
    if builder.builder_config is not None:
        origin["config"] = builder.builder_config.name
    return tfds_reader.read(builder, origin=origin, splits=splits, columns=settings.columns)


def _brought() -> list[Path]:
    """Return the folders in which a user keeps prepared TFDS data, with `TFDS_DATA_DIR` first."""
    asked = os.environ.get("TFDS_DATA_DIR")
    folders = (asked, "~/tensorflow_datasets") if asked else ("~/tensorflow_datasets",)
    return [Path(os.path.expanduser(folder)) for folder in folders]  # noqa: PTH111 - that of a Path raises without a home


def _prepared(name: str, folders: list[Path]) -> Any | None:
    """Return the builder for the first folder that holds the dataset."""
    for folder in folders:
        if folder.is_dir():
            try:
                builder = _builder(name, folder)
            except tfds.core.DatasetNotFoundError:
                continue  # a dataset without code is found by its files, which are not here
            except Exception as error:
                raise _unusable(name, error) from None
            if _is_prepared(builder):
                return builder
    return None


def _is_prepared(builder: Any) -> bool:
    return (Path(builder.data_dir) / "dataset_info.json").is_file()


def known(name: str, folder: Path) -> Any:
    """Return the catalogue's builder, set up to prepare in `folder`.

    Raises `InputError` for an unknown name, config or version.
    """
    try:
        return _builder(name, folder)
    except tfds.core.DatasetNotFoundError:
        near = difflib.get_close_matches(name.partition("/")[0], tfds.list_builders(with_community_datasets=False))
        hint = f"did you mean {' or '.join(near)}?" if near else "see `tfds.list_builders()`"
        raise InputError(f"TFDS {tfds.__version__} has no dataset {name!r}: {hint}") from None
    except Exception as error:
        raise _unusable(name, error) from None


def _builder(name: str, folder: Path) -> Any:
    with startup.quietly():  # some builders import TensorFlow
        return tfds.builder(name, data_dir=str(folder))


def _download(builder: Any, name: str, folder: Path, report: Report) -> None:
    downloads = folder / "downloads"
    bring = (
        f"where there is a network, run `tfds build {name}`, and copy ~/tensorflow_datasets/{builder.info.full_name} "
        f"to the same place here or below TFDS_DATA_DIR, or put the raw files into {downloads / 'manual'}"
    )
    try:
        prepare(builder, downloads=downloads, bring=bring, report=report)
    except (TapelineError, OSError):
        raise
    except AssertionError as error:  # TFDS's signal that files must be downloaded manually
        raise InputError(f"TFDS dataset {name!r}: {one_line(error)}") from error
    except Exception as error:
        raise RunError(f"TFDS could not prepare {name!r}: {one_line(error)}") from error


def _unusable(name: str, error: Exception) -> InputError:
    return InputError(f"TFDS dataset {name!r} cannot be used: {one_line(error)}")
