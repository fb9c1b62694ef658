"""Load a version's SavedModel, whose bytes were checked, and predict for files.

Reading, predicting and writing overlap; what is in memory at once is a few batches.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol, cast, get_args

from tapeline.prediction import inputs, outputs
from tapeline.prediction.inputs import Batch, Piece, Signature, few, shape_text
from tapeline.prediction.outputs import CLASS, Answers
from tapeline.prediction.overlap import ahead, in_order
from tapeline.registry.model import SAVED_MODEL, Model
from tapeline.registry.registry import Registry
from tapeline.registry.tags.state import Version
from tapeline.runtime import files as writing
from tapeline.runtime import startup
from tapeline.runtime.errors import InputError, RunError, graph_reason

Format = Literal["csv", "jsonl", "parquet", "npy", "npz"]
FORMATS: tuple[Format, ...] = get_args(Format)

DEFAULT = "serving_default"
READ_AHEAD = 4
"""Batches that wait for the model."""
WORKERS = 2
"""Batches that are answered and formatted at once: a small model leaves cores idle between its operations."""
PLACE = ("file", "row")
"""The columns that say which example is answered."""


def predict(
    registry: Registry,
    version: Version,
    files: Sequence[Path],
    *,
    out: Path | None,
    form: Format,
    batch_size: int = 256,
    chosen: Sequence[str] = (),
    progress: Callable[[int], object] = lambda count: None,
    note: Callable[[str], object] = lambda text: None,
) -> int:
    """Predict for the examples in `files`, and return how many there were.

    out: the file to write; None for stdout, as text. chosen: names of outputs, or their beginnings; empty for the
    default. note: called at the end if some examples or answers are not finite.
    Raises `InputError` for a file that is missing or does not fit the model; `out` is then left unchanged.
    """
    inputs.check(files)
    model = Model.of(registry, version)
    described = _described(model, version.tag.name)
    signature = Signature.of(described["inputs"], _columns(registry, version, model))
    _selected({name: spec["dtype"] for name, spec in described["outputs"].items()}, model.classes, chosen, form)
    found = registry.contents(version)
    kept = registry.work / "models" / found.md5.removesuffix(".dir")
    folder = registry.store.kept(found.md5, kept, sums=found.sums)
    _check_first(files, signature)  # before TensorFlow is imported, which takes seconds
    answer = _Loaded(folder / SAVED_MODEL)
    wanted = _selected(answer.outputs, model.classes, chosen, form)
    count, odd = 0, _NotFinite()
    with _opened(out, form) as writer:
        work = _Work(answer, writer, model.classes, wanted)
        for done in _answered(inputs.batches(inputs.pieces(files, signature, batch_size), batch_size), work):
            odd.add(done)
            count += done.count
            progress(done.count)
        writer.close()
    for line in odd.lines(count):
        note(line)
    return count


def _described(model: Model, name: str) -> Mapping[str, Any]:
    if DEFAULT not in model.signatures:
        raise InputError(f"{name} has no signature {DEFAULT}: it has {', '.join(model.signatures)}")
    described: Mapping[str, Any] = model.signatures[DEFAULT]
    return described


def _check_first(files: Sequence[Path], signature: Signature) -> None:
    """Raise `InputError` if there is no example, or if the first one does not fit."""
    if next(inputs.pieces(files, signature, 1), None) is None:
        raise InputError(f"{few([str(file) for file in files])}: no example in there")


def _answered(batches: Iterator[Batch], work: "_Work") -> Iterator["_Done"]:
    """Yield what was written."""
    with (
        contextlib.closing(ahead(batches, READ_AHEAD)) as read,
        contextlib.closing(in_order(read, work, workers=WORKERS)) as answered,
    ):
        for done in answered:
            work.writer.write(done.rendered)
            yield done


class _Writer(Protocol):
    """What writes one kind of file."""

    def render(self, pieces: Sequence[Piece], answers: Mapping[str, Any], /) -> Any:
        """Return the answers as they are written. For any thread, in any order."""

    def write(self, rendered: Any, /) -> None:
        """Write what `render` returned, in order."""

    def close(self) -> None:
        """Write the end."""


@dataclass(frozen=True)
class _Done:
    """One batch, answered. odd: what → the number of examples with a value that is not finite, and the first."""

    count: int
    rendered: Any
    odd: dict[str, tuple[int, str]]


@dataclass(frozen=True)
class _Work:
    """Answers a batch; for several threads."""

    model: "_Loaded"
    writer: _Writer
    classes: Sequence[str]
    wanted: Sequence[str]

    def __call__(self, batch: Batch) -> _Done:
        answers = self.model(batch.inputs, {*self.wanted, CLASS})
        for name, values in answers.items():
            if values.shape[:1] != (len(batch),):
                raise InputError(
                    f"the output {name} has shape {shape_text(values.shape)} for {len(batch)} examples, so it is not "
                    "one answer for each: choose others by --outputs"
                )
        answers = {name: one for name, one in outputs.named(answers, self.classes).items() if name in self.wanted}
        odd = {}
        for what, columns in (("examples", batch.inputs), ("answers", answers)):
            if rows := outputs.not_finite(columns):
                odd[what] = len(rows), _place(batch, rows[0])
        return _Done(len(batch), self.writer.render(batch.pieces, answers), odd)


def _place(batch: Batch, row: int) -> str:
    for piece in batch.pieces:
        if row < len(piece):
            return f"{piece.first + row} of {piece.file}"
        row -= len(piece)
    raise IndexError(row)


class _NotFinite:
    """Counts the examples and the answers with a NaN or infinity, and remembers the first of each."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, done: _Done) -> None:
        for what, (count, place) in done.odd.items():
            before, first = self._found.get(what, (0, place))
            self._found[what] = (before + count, first)

    def lines(self, count: int) -> Iterator[str]:
        for what, (wrong, place) in self._found.items():
            yield f"{wrong:,} of {count:,} {what} have values that are not finite; the first is number {place}"


class _Loaded:
    """A loaded SavedModel; holds the whole model, because TensorFlow frees the variables together with it."""

    def __init__(self, folder: Path) -> None:
        startup.tensorflow()
        import tensorflow as tf

        self._tf = tf
        self._model = tf.saved_model.load(str(folder))
        self._function = self._model.signatures[DEFAULT]
        specs = self._function.structured_outputs
        self.outputs: dict[str, str] = {name: spec.dtype.name for name, spec in specs.items()}
        """Output → dtype."""

    def __call__(self, batch: Mapping[str, Any], wanted: Sequence[str] | set[str] = ()) -> Answers:
        """Return the outputs for a batch, by name: those in `wanted`, or all."""
        given = {name: self._tf.constant(values) for name, values in batch.items()}
        try:
            found = self._function(**given)
        except self._tf.errors.OpError as error:
            raise RunError(f"the model fails on this batch: {graph_reason(error.message)}") from None
        return {name: self._array(value) for name, value in sorted(found.items()) if not wanted or name in wanted}

    def _array(self, value: Any) -> Any:
        """Return values as NumPy's own types, which hold those of bfloat16 exactly."""
        array = value.numpy()
        return array.astype("float32") if array.dtype.kind == "V" else array


def _selected(described: Mapping[str, str], classes: Sequence[str], chosen: Sequence[str], form: Format) -> list[str]:
    """Return the names of what is written. Raises `InputError` for what a file of this form does not hold."""
    wanted = outputs.chosen(outputs.available(described, classes), chosen)
    if form == "npy" and len(wanted) > 1:
        raise InputError(
            f"an .npy file holds one output, and these are {few(wanted)}: choose by --outputs, or give .npz"
        )
    if form not in ("npy", "npz") and (taken := [name for name in PLACE if name in wanted]):
        raise InputError(
            f"the output {taken[0]} has the name of the column that says which example is answered: choose others by "
            "--outputs, or give --out a .npz"
        )
    return wanted


def _columns(registry: Registry, version: Version, model: Model) -> dict[str, Any]:
    """Return the table columns that the model's dataset was made from; empty for another kind of source."""
    parameters = registry.recorded(version).parameters()
    settings = parameters.get(f"datasets.{model.dataset}")
    found: dict[str, Any] = settings.get("features", {}) if isinstance(settings, Mapping) else {}
    return found if isinstance(found, dict) else {}


@contextlib.contextmanager
def _opened(out: Path | None, form: Format) -> Iterator[_Writer]:
    """Yield a writer to stdout, or to a temporary file that replaces `out` once everything is written."""
    if out is None:
        yield _writer(sys.stdout, Path(), form)
        return
    partial = out.with_name(f".{out.name}{writing.PARTIAL}")
    text: dict[str, Any] = {"mode": "w", "encoding": "utf-8", "newline": ""}
    try:
        with partial.open(**(text if form in ("csv", "jsonl") else {"mode": "wb"})) as file:
            yield _writer(file, out.parent, form)
        partial.replace(out)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _writer(file: IO[Any], near: Path, form: Format) -> _Writer:
    if form == "csv" or form == "jsonl":
        from tapeline.prediction.lines import Lines

        return Lines(cast(Any, file), form)
    from tapeline.prediction.columns import Arrays, Table

    return Table(file) if form == "parquet" else Arrays(file, near, archive=form == "npz")
