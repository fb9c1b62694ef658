"""Stage 1: read a source, check its examples, split off `val`, write the columns and their index.

    ingest("digits", settings, project=folder, out=folder / "data/digits", work=folder / ".tapeline/ingest/digits")

The bytes written depend only on the source and the settings, not on time, host or paths of this machine.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tapeline.config.ingest import (
    BuilderSource,
    ImageFolderSource,
    IngestedSource,
    IngestSettings,
    TableSource,
    TfdsSource,
)
from tapeline.config.places import overlap
from tapeline.dataset.columns import INDEX, Feature
from tapeline.ingest.checks import check
from tapeline.ingest.columns import ColumnWriter
from tapeline.ingest.hashed import Hashing
from tapeline.ingest.progress import ExampleCounter
from tapeline.ingest.remarks import Constants, alike, single, unlearned, untested
from tapeline.ingest.source import SPLITS, Source
from tapeline.ingest.split import cut
from tapeline.ingest.statistics import describe
from tapeline.runtime import files
from tapeline.runtime.errors import InputError
from tapeline.runtime.progress import Report, silent


def ingest(
    name: str, settings: IngestSettings, *, project: Path, out: Path, work: Path, report: Report = silent
) -> None:
    """Write `out/<split>/<feature>.npy` and `out/dataset.json`, or leave `out` as it was.

    `project` is the folder that `settings.needs` is relative to; `work` keeps downloads and prepared TFDS data.
    Prints what is read, the number of examples, and where they are written.
    Raises `InputError` for unusable settings or data, and where `out` has files that are not ingest's: they would be
    lost. An `OSError` (a full or read-only disk) propagates.
    """
    reads = not isinstance(settings, TfdsSource)
    if lost := overlap(name, settings.needs, project, out, reads=reads):
        raise InputError(lost)
    _check_place(name, out, project)
    needs = _existing(name, settings.needs, project)
    what = settings.name if isinstance(settings, TfdsSource) else settings.needs
    print(f"{name}: reading {what} (source: {settings.source})", flush=True)
    with opened(settings, needs, work=work, report=report) as source:
        if source.validation_cut:
            settings = settings.model_copy(update={"validation": 0.0})
        _check_splits(name, source, settings)
        with files.replacing(out) as folder:
            notes: list[str] = []
            counts = _write_columns(source, folder, settings.validation, report, notes)
            _check_counts(name, source, counts, settings.validation)
            with ThreadPoolExecutor(1, thread_name_prefix="flush") as pool:
                flushed = pool.submit(files.sync_tree, folder)  # the disk works while the columns are described
                index = _index(name, source, folder, counts)
            flushed.result()
            (folder / INDEX).write_text(files.canonical_json(index), encoding="utf-8")
            notes += _notes_on_classes(source, index["statistics"])
    for note in (*source.notes, *notes):
        print(f"{name}: note: {note}", flush=True)
        report({"event": "note", "text": note})
    print(f"{name}: {_summary(source, counts)}")
    print(f"{name}: written to {_shown(out, project)}", flush=True)


@contextmanager
def opened(settings: IngestSettings, needs: Path, *, work: Path, report: Report = silent) -> Iterator[Source]:
    """Yield the source that the settings describe. Only the two TFDS sources import TensorFlow."""
    if isinstance(settings, TableSource):
        from tapeline.ingest import table

        yield table.read(settings, needs)
    elif isinstance(settings, ImageFolderSource):
        from tapeline.ingest import image_folder
        from tapeline.ingest.pixels import quiet

        with quiet():
            yield image_folder.read(settings, needs)
    elif isinstance(settings, IngestedSource):
        from tapeline.ingest import ingested

        yield ingested.read(settings, needs)
    elif isinstance(settings, BuilderSource):
        from tapeline.ingest import builder_file

        with builder_file.opened(settings, needs, work=work, report=report) as source:
            yield source
    elif isinstance(settings, TfdsSource):
        from tapeline.ingest import tfds_catalogue

        yield tfds_catalogue.read(settings, work=work, report=report)


def _check_place(name: str, out: Path, project: Path) -> None:
    """Raise `InputError` for a file, or a folder with files, in the place of the output that ingest did not write."""
    if not out.exists() or (out / INDEX).exists():
        return
    if out.is_dir() and not any(out.iterdir()):
        return
    what = f"has files, but no {INDEX}" if out.is_dir() else "is a file"
    raise InputError(
        f"dataset {name!r} would be written to {_shown(out, project)}, which {what}: ingest did not write it; move it "
        "elsewhere, such as to data/raw, remove it, or rename the dataset"
    )


def _shown(out: Path, project: Path) -> Path:
    return out.relative_to(project) if out.is_relative_to(project) else out


def _existing(name: str, needs: str, project: Path) -> Path:
    path = project / needs
    if path.exists():
        return path
    tracked = path.with_name(f"{path.name}.dvc").exists()
    remedy = f"run `dvc pull {needs}.dvc`" if tracked else "add it, or correct `needs`"
    raise InputError(f"dataset {name!r} needs {needs}, which does not exist: {remedy}")


def _check_splits(name: str, source: Source, settings: IngestSettings) -> None:
    """Check the splits. Only a builder may lack `train`, for recipes that generate their training data."""
    validation = settings.validation
    if "train" not in source.splits and not (isinstance(settings, BuilderSource) and source.splits):
        there = ", ".join(source.splits) or "none"
        raise InputError(f"dataset {name!r} has no train split, on which a model is trained (it has {there})")
    if validation and "train" not in source.splits:
        raise InputError(
            f"dataset {name!r} has no train split from which to cut `validation: {validation}`: remove `validation`"
        )
    if validation and "val" in source.splits:
        raise InputError(
            f"dataset {name!r} has a val split, but `validation: {validation}` would cut another one: remove one of "
            "the two"
        )


def _check_counts(name: str, source: Source, counts: Mapping[str, int], validation: float) -> None:
    if not counts:
        raise InputError(f"dataset {name!r}: its source has no examples")
    expected = (*source.splits, "val") if validation else source.splits
    for split in expected:
        if not counts.get(split):
            whole = counts.get("train", 0) + counts.get("val", 0)
            cause = f" (`validation: {validation}` of {whole} examples)" if validation and split != "test" else ""
            if source.validation_cut and split != "train":
                cause = " (`stratify` rounds the share of each stratum to whole rows, here to 0)"
            raise InputError(f"dataset {name!r}: split {split} is empty{cause}; every split needs at least one example")


def _write_columns(source: Source, folder: Path, validation: float, report: Report, notes: list[str]) -> Counter[str]:
    """Write every column and return the number of examples in each split. Appends messages to `notes`."""
    constants = Constants(source.features)
    # A single split has no duplicates in another one, so hashing is skipped.
    key = source.origin.get("key") if source.origin["kind"] == "table" else None  # a copy has no keys
    duplicates = None
    if validation or len(source.splits) > 1:
        from tapeline.ingest.duplicates import Duplicates  # and Arrow with it

        duplicates = Duplicates(source.features, key=key)
    counts: Counter[str] = Counter()
    counter = ExampleCounter(report, source.total)
    with ExitStack() as stack:
        columns: dict[tuple[str, str], ColumnWriter] = {}
        for piece in source.examples:
            check(piece, source.features)
            constants.add(piece)
            for examples in cut(piece, validation, source.features):
                for feature, kind in source.features.items():
                    column = (examples.split, feature)
                    if column not in columns:
                        columns[column] = stack.enter_context(ColumnWriter(folder / _file(*column), kind))
                    columns[column].append(examples.columns[feature])
                counts[examples.split] += len(examples.keys)
                if duplicates:
                    duplicates.add(examples)
            counter.add(len(piece.keys))
    counter.finish()
    notes += constants.notes()
    notes += duplicates.notes() if duplicates else ()
    return counts


def _notes_on_classes(source: Source, statistics: Mapping[str, Any]) -> Iterator[str]:
    for feature, kind in source.features.items():
        yield from alike(kind.classes or ())
        yield from single(feature, kind)
        yield from unlearned(feature, kind, statistics)
        yield from untested(feature, kind, statistics)


def _index(name: str, source: Source, folder: Path, counts: Mapping[str, int]) -> dict[str, Any]:
    splits: dict[str, Any] = {}
    statistics: dict[str, Any] = {}
    for split in (split for split in SPLITS if split in counts):
        records, statistics[split] = {}, {}
        for feature, kind in source.features.items():
            hashing = Hashing(folder / _file(split, feature))
            statistics[split][feature] = describe(folder / _file(split, feature), kind)
            records[feature] = _record(folder, _file(split, feature), hashing.sha256())
        splits[split] = {"examples": counts[split], "columns": records}
    return {
        "name": name,
        "source": dict(source.origin),
        "features": {feature: _type(kind) for feature, kind in source.features.items()},
        "splits": splits,
        "statistics": statistics,
    }


def _summary(source: Source, counts: Mapping[str, int]) -> str:
    """Return `train 816, val 82 examples of image (uint8 8x8x1), label (int64)`."""
    sizes = ", ".join(f"{split} {counts[split]:,}" for split in SPLITS if split in counts)
    columns = (
        f"{name} ({' '.join(filter(None, (kind.dtype, 'x'.join(map(str, kind.shape)))))})"
        for name, kind in source.features.items()
    )
    return f"{sizes} examples of {', '.join(columns)}"


def _file(split: str, feature: str) -> str:
    return f"{split}/{feature}.npy"


def _record(folder: Path, file: str, sha256: str) -> dict[str, Any]:
    return {"file": file, "bytes": (folder / file).stat().st_size, "sha256": sha256}


def _type(feature: Feature) -> dict[str, Any]:
    kind: dict[str, Any] = {"shape": list(feature.shape), "dtype": feature.dtype}
    return kind | {"classes": list(feature.classes)} if feature.classes else kind
