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
from tapeline.prediction.half import ANSWERS, Half
from tapeline.prediction.inputs import Batch, Piece
from tapeline.prediction.lines import Lines
from tapeline.prediction.outputs import CLASS, Answers
from tapeline.prediction.overlap import ahead, in_order
from tapeline.prediction.sandboxed import WORKERS, Sandboxed
from tapeline.prediction.signature import few, shape_text
from tapeline.prediction.snapshot import Snapshot
from tapeline.prediction.subject import Subject
from tapeline.runtime import environment, sandbox
from tapeline.runtime.errors import InputError, Interrupted, RunError, TapelineError

Format = Literal["csv", "jsonl", "parquet", "npy", "npz"]
FORMATS: tuple[Format, ...] = get_args(Format)

READ_AHEAD = 4
"""Batches that wait for the model."""
THREADS = WORKERS + 1
"""Batches in hand: the model answers some while another is formatted."""
SAVED_EVERY = 5.0
"""Seconds between two moments at which a later call could continue."""
DECIDING = ("tapeline", "tensorflow", "numpy", "pyarrow", "pillow")
"""Libraries that decide the bytes."""


@dataclass(frozen=True)
class Wish:
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
        subject: Subject,
        wish: Wish,
        *,
        progress: Callable[[int], object] = lambda count: None,
        note: Callable[[str], object] = lambda text: None,
    ) -> None:
        self._subject, self._wish, self._progress, self._note = subject, wish, progress, note
        self._size = wish.batch_size or subject.signature.batch_size()
        self._model: Sandboxed | None = None
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
        wanted = self._subject.selected(self._wish.chosen, self._wish.form)
        with given.unchanged():
            self._check_first(files)  # before TensorFlow is started, which takes seconds
            if out is None:
                return self._answered(files, Lines(sys.stdout.buffer, "csv"), None, _Odd())
        with Half.opened(out, self._call(given, wanted), fresh=self._wish.fresh, note=self._note) as half:
            with given.unchanged():
                writer, odd = self._continued(half)
                count = self._answered(files, writer, half, odd)
            half.finish()
        return count

    def _check_first(self, files: Sequence[Path]) -> None:
        """Raise `InputError` if there is no example, or if the first one does not fit."""
        if next(inputs.pieces(files, self._subject.signature, 1), None) is None:
            raise InputError(f"{few([str(file) for file in files])}: no example in there")

    def _loaded(self) -> Sandboxed:
        if self._model is None or not self._model.lives:
            self._stack.close()
            try:
                self._model = self._stack.enter_context(Sandboxed(self._subject.folder))
                self._subject.selected(self._wish.chosen, self._wish.form, self._model.outputs)
            except TapelineError as error:
                self.unusable = error
                raise
            if self._model.lacks:
                self._note(self._model.lacks)
        return self._model

    def _call(self, given: Snapshot, wanted: Sequence[str]) -> dict[str, Any]:
        """Return all that decides the bytes of an output, by the names that a note has for it."""
        return {
            "model": self._subject.bytes,
            "outputs": [*wanted],
            "kind of file": self._wish.form,
            "batch size": self._size,
            "input files": given.sha256(),
            "machine": environment.machine(),
            "libraries": {name: metadata.version(name) for name in DECIDING},
            "environment": {name: os.environ[name] for name in sorted(sandbox.KEPT & os.environ.keys()) if "_" in name},
        }

    def _continued(self, half: Half) -> tuple["Writer", "_Odd"]:
        """Return the writer of what is there; that of nothing if it was altered."""
        if half.saved is not None:
            try:
                writer = _writer(half, self._wish.form, half.saved["writer"])
                self._note(f"continues {half.out} after {half.saved['examples']:,} examples")
                return writer, _Odd(half.saved["odd"])
            except (ValueError, KeyError, TypeError, OSError):
                self._note(f"half of {half.out} is there and damaged: begun anew")
                half.begin()
        return _writer(half, self._wish.form, None), _Odd()

    def _answered(self, files: Sequence[Path], writer: "Writer", half: Half | None, odd: "_Odd") -> int:
        saved = half.saved if half else None
        count, pieces = (saved["examples"], saved["pieces"]) if saved else (0, 0)
        self._progress(count)
        model = self._loaded()
        wanted = self._subject.selected(self._wish.chosen, self._wish.form, model.outputs)
        found = inputs.pieces(files, self._subject.signature, self._size)
        batches = inputs.batches(itertools.islice(found, pieces, None), self._size)
        last = time.monotonic()
        for done in _overlapping(batches, _Work(model, writer, self._subject.classes, wanted), writer, model.kill):
            odd.add(done)
            count, pieces = count + done.count, pieces + done.pieces
            self._progress(done.count)
            if half and time.monotonic() - last >= SAVED_EVERY:
                position = {"examples": count, "pieces": pieces, "odd": odd.found}
                half.save({**position, "writer": writer.mark()})
                last = time.monotonic()
        writer.close()
        for line in odd.lines(count):
            self._note(line)
        return int(count)


def _overlapping(
    batches: Iterator[Batch], work: "_Work", writer: "Writer", abandon: Callable[[], object]
) -> Iterator["_Done"]:
    """Yield what was written."""
    with (
        contextlib.closing(ahead(batches, READ_AHEAD)) as read,
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


def _writer(half: Half, form: Format, mark: Mapping[str, Any] | None) -> Writer:
    if form == "csv" or form == "jsonl":
        return Lines(half.file(ANSWERS), form, mark)
    from tapeline.prediction.columns import Arrays, Table

    if form == "parquet":
        return Table(half.file(ANSWERS), half.file("spool"), mark)
    return Arrays(half.file(ANSWERS), half.folder, archive=form == "npz", mark=mark)


@dataclass(frozen=True)
class _Done:
    """One batch, answered. odd: what → the number of examples with a value that is not finite, and the first."""

    count: int
    pieces: int
    rendered: Any
    odd: dict[str, tuple[int, str]]


@dataclass(frozen=True)
class _Work:
    """Answers a batch; for several threads."""

    model: Callable[[Mapping[str, Any], set[str]], Answers]
    writer: Writer
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
        named = outputs.named(answers, self.classes)
        if missing := [name for name in self.wanted if name not in named]:
            raise RunError(f"the model's process does not answer {few(missing)}")
        answers = {name: one for name, one in named.items() if name in self.wanted}
        odd = {}
        for what, columns in (("examples", batch.inputs), ("answers", answers)):
            if rows := outputs.not_finite(columns):
                odd[what] = len(rows), _place(batch, rows[0])
        return _Done(len(batch), len(batch.pieces), self.writer.render(batch.pieces, answers), odd)


def _place(batch: Batch, row: int) -> str:
    for piece in batch.pieces:
        if row < len(piece):
            return f"{piece.first + row} of {piece.file}"
        row -= len(piece)
    raise IndexError(row)


class _Odd:
    """Counts the examples and the answers with a NaN or infinity, and remembers the first of each."""

    def __init__(self, found: Mapping[str, tuple[int, str]] = {}) -> None:  # it is copied
        self.found = {what: (count, place) for what, (count, place) in found.items()}

    def add(self, done: _Done) -> None:
        for what, (count, place) in done.odd.items():
            before, first = self.found.get(what, (0, place))
            self.found[what] = (before + count, first)

    def lines(self, count: int) -> Iterator[str]:
        for what, (wrong, place) in self.found.items():
            yield f"{wrong:,} of {count:,} {what} have values that are not finite; the first is number {place}"
