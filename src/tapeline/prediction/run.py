"""Load a version's SavedModel, whose bytes were checked, and predict for files."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from tapeline.prediction import inputs, outputs
from tapeline.prediction.inputs import Piece, Signature
from tapeline.prediction.outputs import Format, Writer
from tapeline.registry.model import SAVED_MODEL, Model
from tapeline.registry.registry import Registry
from tapeline.registry.tags.state import Version
from tapeline.runtime import files as writing
from tapeline.runtime import startup
from tapeline.runtime.errors import InputError, RunError, graph_reason

DEFAULT = "serving_default"


def predict(
    registry: Registry,
    version: Version,
    files: Sequence[Path],
    *,
    out: Path | None,
    form: Format,
    batch_size: int = 256,
    progress: Callable[[int], object] = lambda count: None,
    note: Callable[[str], object] = lambda text: None,
) -> int:
    """Predict for the examples in `files`, and return how many there were.

    out: the file to write; None for stdout. note: called at the end if some examples or answers are not finite.
    Raises `InputError` for a file that is missing or does not fit the model; `out` is then left unchanged.
    """
    inputs.check(files)
    model = Model.of(registry, version)
    if DEFAULT not in model.signatures:
        raise InputError(f"{version.tag.name} has no signature {DEFAULT}: it has {', '.join(model.signatures)}")
    signature = Signature.of(model.signatures[DEFAULT]["inputs"], _columns(registry, version, model))
    recorded = registry.recorded(version).model
    folder = registry.store.kept(recorded, registry.work / "models" / recorded.removesuffix(".dir"))
    first = next(inputs.pieces(files, signature, 1), None)  # before TensorFlow is imported, which takes seconds
    if first is None:
        raise InputError(f"{', '.join(map(str, files))}: no example in there")
    answer = _Loaded(folder / SAVED_MODEL)
    count, odd = 0, _NotFinite()
    with _opened(out) as file:
        write = Writer(file, form)
        for piece in inputs.pieces(files, signature, batch_size):
            answers = answer(piece.inputs)
            write(piece, outputs.named(answers, model.classes))
            odd.look(piece, answers)
            count += len(piece)
            progress(len(piece))
    for line in odd.lines(count):
        note(line)
    return count


class _NotFinite:
    """Counts the examples and the answers with a NaN or infinity, and remembers the first of each."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def look(self, piece: Piece, answers: Mapping[str, Any]) -> None:
        for what, values in (("examples", piece.inputs), ("answers", answers)):
            if rows := outputs.not_finite(values):
                before, place = self._found.get(what, (0, f"{piece.first + rows[0]} of {piece.file}"))
                self._found[what] = (before + len(rows), place)

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

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs for a batch, by name."""
        given = {name: self._tf.constant(values) for name, values in batch.items()}
        try:
            found = self._model.signatures[DEFAULT](**given)
        except self._tf.errors.OpError as error:
            raise RunError(f"the model fails on this batch: {graph_reason(error.message)}") from None
        return {name: value.numpy() for name, value in sorted(found.items())}


def _columns(registry: Registry, version: Version, model: Model) -> dict[str, Any]:
    """Return the table columns that the model's dataset was made from; empty for another kind of source."""
    parameters = registry.recorded(version).parameters()
    settings = parameters.get(f"datasets.{model.dataset}")
    found: dict[str, Any] = settings.get("features", {}) if isinstance(settings, Mapping) else {}
    return found if isinstance(found, dict) else {}


@contextlib.contextmanager
def _opened(out: Path | None) -> Iterator[TextIO]:
    """Yield stdout, or a temporary file that replaces `out` once everything is written."""
    if out is None:
        yield sys.stdout
        return
    partial = out.with_name(f".{out.name}{writing.PARTIAL}")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            yield file
        partial.replace(out)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
