"""A CSV or Parquet file as a source: streamed in record batches, never fully in memory. No TensorFlow here.

Features are float32; the label and the features in `integers` are int64. The test and
validation splits go by the `key` column if there is one, otherwise by the row's content, so that neither adding nor
sorting rows changes them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tapeline.config.ingest import TableSource
from tapeline.dataset.columns import Feature
from tapeline.ingest.bad_cells import Collected
from tapeline.ingest.cells import check_numbers, check_words
from tapeline.ingest.class_ids import LooksLikeIds
from tapeline.ingest.fractions import Fractions, Keys
from tapeline.ingest.hashed import Hashed
from tapeline.ingest.source import SPLITS, Examples, RowNumbers, Source, chosen_features
from tapeline.ingest.split import contents
from tapeline.ingest.table_features import Decoder, columns_of, type_of
from tapeline.ingest.table_file import Table
from tapeline.ingest.table_pieces import pieces, types_of
from tapeline.ingest.table_survey import survey


def read(settings: TableSource, path: Path) -> Source:
    """Open a table. Raises `InputError` for a missing column and, if there is a label, for its bad values."""
    table = Table(path)
    hashed = Hashed(path)
    names = chosen_features(settings.features, settings.columns, of=f"table {path.name}")
    wanted = {name: settings.features[name] for name in names}
    label = settings.label if settings.label in names else None
    keeping = [column for column in (settings.split, settings.key, settings.stratify) if column is not None]
    table.require([column for name in names for column in columns_of(wanted[name])] + keeping)
    for name in names:
        for column in columns_of(wanted[name]):
            table.check_type(column, check_words if name == label else check_numbers)
    for column in keeping:
        table.check_type(column, check_words)
    unsurveyed = Decoder(wanted, label, None, settings.integers)
    then = types_of(unsurveyed, settings) if settings.stratify is None else {}  # else strata come in between
    found = survey(table, str(wanted[label]) if label else None, settings.split, then)
    features = {
        name: type_of(wanted[name], found.classes if name == label else None, whole=name in settings.integers)
        for name in names
    }
    decoder = replace(unsurveyed, classes=found.classes)
    fractions = _fractions(table, settings, decoder, features)
    notes: list[str] = []
    if found.classes and (padded := found.classes.padded):
        notes.append(f"{label} has the id {padded!r}, whose class is {int(padded)}: a name, such as c{padded}, is kept")
    columns = {name: list(columns_of(wanted[name])) for name in names}
    origin = {"kind": "table", "name": path.name, "columns": columns}
    origin |= {"key": settings.key} if settings.key is not None else {}  # a copy of the dataset lacks the keys
    return Source(
        origin=origin,
        features=features,
        splits=_splits(found.splits, settings),
        examples=_hashed(_examples(table, decoder, settings, features, notes, fractions), hashed, origin),
        total=found.rows,
        validation_cut=settings.stratify is not None,
        notes=notes,
    )


def _splits(found: tuple[str, ...], settings: TableSource) -> tuple[str, ...]:
    """Return the splits in the table's split column, or those that the fractions create."""
    cut = {"test": settings.test, "val": settings.validation if settings.stratify is not None else 0.0}
    return tuple(split for split in SPLITS if split in found or cut.get(split))


def _fractions(
    table: Table, settings: TableSource, decoder: Decoder, features: Mapping[str, Feature]
) -> Fractions | None:
    """Return how to split the table, if at all. Strata need a pass over all rows before the first is written."""
    if settings.stratify is None:
        return Fractions(test=settings.test, validation=0.0) if settings.test else None
    ids: dict[str, int] = {}
    strata, keys, bad = [np.empty(0, np.int64)], Keys(), Collected()
    for rows in table.rows([*decoder.columns, settings.stratify]):
        values = decoder.values(rows, bad, {})
        with bad.column():
            words = rows.cells(settings.stratify).words().to_pylist()
            strata.append(np.array([ids.setdefault(word, len(ids)) for word in words], np.int64))
        if bad.full:
            break
        if not bad.count:
            keys.add(contents(values, features))
    bad.refuse()
    return Fractions(test=settings.test, validation=settings.validation, strata=np.concatenate(strata), keys=keys)


def _hashed(examples: Iterator[Examples], hashed: Hashed, origin: dict[str, Any]) -> Iterator[Examples]:
    """Yield all examples, then complete `origin`. Raises `InputError` if the file has changed meanwhile."""
    yield from examples
    origin["sha256"] = hashed.sha256()


def _examples(
    table: Table,
    decoder: Decoder,
    settings: TableSource,
    features: Mapping[str, Feature],
    notes: list[str],
    fractions: Fractions | None,
) -> Iterator[Examples]:
    scalars = [name for name, of in decoder.wanted.items() if isinstance(of, str) and name not in decoder.integers]
    unsaid = {name: LooksLikeIds(name) for name in (scalars if decoder.label is None else ())}
    for first, piece in pieces(table, decoder, settings):
        numbers, values = range(first, first + piece.count), piece.values
        for name, looks in unsaid.items():
            looks.add(values[name])
        keys = RowNumbers(numbers) if piece.keys is None else piece.keys
        examples = Examples("train", keys, values, own_keys=piece.keys is not None)
        if piece.splits is not None:
            splits = np.array(piece.splits)
        elif fractions is not None:
            named = contents(values, features) if piece.keys is None else keys
            splits = np.array(SPLITS)[fractions.places(numbers, named)]
        else:
            yield examples
            continue
        for name in SPLITS:
            if (chosen := splits == name).any():
                yield examples.select(chosen, name)
    notes += [note for looks in unsaid.values() for note in looks.notes()]
