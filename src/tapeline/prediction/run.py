"""Predict for files with a model whose bytes were checked, in a process that can reach nothing else.

Reading, predicting and writing overlap; what is in memory at once is a few batches. Answers that go to a file are saved
as they come, and a call that was ended continues there.
"""

import contextlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from tapeline.prediction import inputs, outputs
from tapeline.prediction.inputs import Batch, Piece
from tapeline.prediction.lines import Lines
from tapeline.prediction.outputs import CLASS, Answers
from tapeline.prediction.partial_output import ANSWERS, PartialOutput
from tapeline.prediction.sandboxed import WORKERS, Sandboxed
from tapeline.prediction.signature import shape_text, shortened
from tapeline.prediction.snapshot import Snapshot
from tapeline.prediction.verified_model import VerifiedModel
from tapeline.runtime import environment, sandbox
from tapeline.runtime.errors import InputError, Interrupted, RunError, TapelineError
from tapeline.runtime.overlap import in_order, prefetched

Format = Literal["csv", "jsonl", "parquet", "npy", "npz"]
FORMATS: tuple[Format, ...] = get_args(Format)

READ_AHEAD = 4
"""Batches that wait for the model."""
THREADS = WORKERS + 1
"""Batches in hand: the model answers some while another is formatted."""
SAVED_EVERY = 5.0
"""Seconds between two moments at which a later call could continue."""
LIBRARIES = ("tapeline", "tensorflow", "numpy", "pyarrow", "pillow")
"""Libraries that decide the bytes."""


@dataclass(frozen=True)
class OutputOptions:
    """How the answers are to be."""

    form: Format
    chosen: tuple[str, ...] = ()
    """Names of outputs, or their beginnings; empty for the default."""
    batch_size: int | None = None
    """None for one that suits the size of an example."""
    fresh: bool = False
    """Whether what a stopped call has left is dropped."""


class Prediction:
    """A model, loaded when it is first needed, and what it is asked. Its process ends with the block."""

    def __init__(
        self,
        model: VerifiedModel,
        options: OutputOptions,
        *,
        progress: Callable[[int], object] = lambda count: None,
        note: Callable[[str], object] = lambda text: None,
    ) -> None:
        self._model, self._options, self._progress, self._note = model, options, progress, note
        self._size = options.batch_size or model.signature.batch_size()
        self._sandboxed: Sandboxed | None = None
        self._stack = contextlib.ExitStack()
        self.unusable: TapelineError | None = None
        """Why the model cannot be loaded, once that is known: no file is answered."""

    def __enter__(self) -> "Prediction":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write(self, files: Sequence[Path], out: Path | None) -> int:
        """Write the answers to the examples in files, and return how many there are.

        out: the file to write; None for stdout, as text. Notes at the end if some examples or answers are not finite.
        Raises `InputError` for a file that is missing, that does not fit the model or that changes while it is read;
        `out` is then left unchanged.
        """
        inputs.check(files)
        given = Snapshot(files)
        wanted = self._model.selected(self._options.chosen, self._options.form)
        with given.unchanged():
            self._check_first(files)  # before TensorFlow is started, which takes seconds
            if out is None:
                return self._answered(files, Lines(sys.stdout.buffer, "csv"), None, _NonFinite())
        with PartialOutput.opened(
            out, self._call(given, wanted), fresh=self._options.fresh, note=self._note
        ) as partial:
            with given.unchanged():
                writer, non_finite = self._resumed(partial)
                count = self._answered(files, writer, partial, non_finite)
            partial.finish()
        return count

    def _check_first(self, files: Sequence[Path]) -> None:
        """Raise `InputError` if there is no example, or if the first one does not fit."""
        if next(inputs.pieces(files, self._model.signature, 1), None) is None:
            raise InputError(f"{shortened([str(file) for file in files])}: no examples")

    def _loaded(self) -> Sandboxed:
        if self._sandboxed is None or not self._sandboxed.is_alive:
            self._stack.close()
            try:
                self._sandboxed = self._stack.enter_context(Sandboxed(self._model.folder))
                self._model.selected(self._options.chosen, self._options.form, self._sandboxed.outputs)
            except TapelineError as error:
                self.unusable = error
                raise
            if self._sandboxed.missing_protection:
                self._note(self._sandboxed.missing_protection)
        return self._sandboxed

    def _call(self, given: Snapshot, wanted: Sequence[str]) -> dict[str, Any]:
        """Return all that decides the bytes of an output, by the names that a note has for it."""
        return {
            "model": self._model.bytes,
            "outputs": [*wanted],
            "kind of file": self._options.form,
            "batch size": self._size,
            "input files": given.sha256(),
            "machine": environment.machine(),
            "libraries": {name: metadata.version(name) for name in LIBRARIES},
            "environment": {name: os.environ[name] for name in sorted(sandbox.KEPT & os.environ.keys()) if "_" in name},
        }

    def _resumed(self, partial: PartialOutput) -> tuple["Writer", "_NonFinite"]:
        """Return the writer of what is there; that of nothing if it was altered."""
        if partial.saved is not None:
            try:
                writer = _writer(partial, self._options.form, partial.saved["writer"])
                self._note(f"{partial.out}: resuming after {partial.saved['examples']:,} examples")
                return writer, _NonFinite(partial.saved["odd"])
            except (ValueError, KeyError, TypeError, OSError):
                self._note(f"{partial.out}: found damaged partial results; starting over")
                partial.discard()
        return _writer(partial, self._options.form, None), _NonFinite()

    def _answered(
        self, files: Sequence[Path], writer: "Writer", partial: PartialOutput | None, non_finite: "_NonFinite"
    ) -> int:
        saved = partial.saved if partial else None
        count, pieces = (saved["examples"], saved["pieces"]) if saved else (0, 0)
        self._progress(count)
        model = self._loaded()
        wanted = self._model.selected(self._options.chosen, self._options.form, model.outputs)
        found = inputs.pieces(files, self._model.signature, self._size)
        batches = inputs.batches(itertools.islice(found, pieces, None), self._size)
        last = time.monotonic()
        for done in _overlapping(batches, _Predictor(model, writer, self._model.classes, wanted), writer, model.kill):
            non_finite.add(done)
            count, pieces = count + done.count, pieces + done.pieces
            self._progress(done.count)
            if partial and time.monotonic() - last >= SAVED_EVERY:
                position = {"examples": count, "pieces": pieces, "odd": non_finite.found}
                partial.save({**position, "writer": writer.mark()})
                last = time.monotonic()
        writer.close()
        for line in non_finite.lines(count):
            self._note(line)
        return int(count)


def _overlapping(
    batches: Iterator[Batch], work: "_Predictor", writer: "Writer", abandon: Callable[[], object]
) -> Iterator["_Predicted"]:
    """Yield what was written."""
    with (
        contextlib.closing(prefetched(batches, READ_AHEAD)) as read,
        contextlib.closing(in_order(read, work, workers=THREADS, abandon=abandon)) as answered,
    ):
        try:
            for done in answered:
                writer.write(done.rendered)
                yield done
        except (KeyboardInterrupt, Interrupted):
            abandon()
            raise


class Writer(Protocol):
    """What writes one kind of file."""

    def render(self, pieces: Sequence[Piece], answers: Mapping[str, Any], /) -> Any:
        """Return the answers as they are written. For any thread, in any order."""

    def write(self, rendered: Any, /) -> None:
        """Write what `render` returned, in order."""

    def mark(self) -> dict[str, Any]:
        """Bring to the disk what was written, and return where it ends, as JSON."""

    def close(self) -> None:
        """Write the end."""


def _writer(partial: PartialOutput, form: Format, mark: Mapping[str, Any] | None) -> Writer:
    if form == "csv" or form == "jsonl":
        return Lines(partial.file(ANSWERS), form, mark)
    from tapeline.prediction.columns import Arrays, Table

    if form == "parquet":
        return Table(partial.file(ANSWERS), partial.file("spool"), mark)
    return Arrays(partial.file(ANSWERS), partial.file if form == "npz" else None, mark)


@dataclass(frozen=True)
class _Predicted:
    """One batch, answered. non_finite: what → the number of examples with a value that is not finite, and the first."""

    count: int
    pieces: int
    rendered: Any
    non_finite: dict[str, tuple[int, str]]


@dataclass(frozen=True)
class _Predictor:
    """Answers a batch; for several threads."""

    model: Callable[[Mapping[str, Any], set[str]], Answers]
    writer: Writer
    classes: Sequence[str]
    wanted: Sequence[str]

    def __call__(self, batch: Batch) -> _Predicted:
        answers = self.model(batch.inputs, {*self.wanted, CLASS})
        for name, values in answers.items():
            if values.shape[:1] != (len(batch),):
                raise InputError(
                    f"the output {name} has shape {shape_text(values.shape)} for {len(batch)} examples, which is not "
                    "one per example: choose other --outputs"
                )
        named = outputs.named(answers, self.classes)
        if missing := [name for name in self.wanted if name not in named]:
            raise RunError(f"the model's process did not return {shortened(missing)}")
        answers = {name: one for name, one in named.items() if name in self.wanted}
        non_finite = {}
        for what, columns in (("examples", batch.inputs), ("answers", answers)):
            if rows := outputs.not_finite(columns):
                non_finite[what] = len(rows), _place(batch, rows[0])
        return _Predicted(len(batch), len(batch.pieces), self.writer.render(batch.pieces, answers), non_finite)


def _place(batch: Batch, row: int) -> str:
    for piece in batch.pieces:
        if row < len(piece):
            return f"{piece.first + row} of {piece.file}"
        row -= len(piece)
    raise IndexError(row)


class _NonFinite:
    """Counts the examples and the answers with a NaN or infinity, and remembers the first of each."""

    def __init__(self, found: Mapping[str, tuple[int, str]] = {}) -> None:  # it is copied
        self.found = {what: (count, place) for what, (count, place) in found.items()}

    def add(self, done: _Predicted) -> None:
        for what, (count, place) in done.non_finite.items():
            before, first = self.found.get(what, (0, place))
            self.found[what] = (before + count, first)

    def lines(self, count: int) -> Iterator[str]:
        for what, (wrong, place) in self.found.items():
            yield f"{wrong:,} of {count:,} {what} have values that are not finite; the first one is number {place}"
