"""The `tapeline predict` command."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tapeline.cli.prediction_options import BATCH_SIZE, FILES, MODEL, OUT, OUTPUTS, check_batch_size
from tapeline.cli.standard_streams import fail, tell
from tapeline.runtime.errors import InputError, Interrupted, RunError, TapelineError
from tapeline.runtime.interruption import interruptible

if TYPE_CHECKING:
    from tapeline.prediction.run import Prediction
    from tapeline.prediction.verified_model import VerifiedModel

NAME = "{name}"
"""The placeholder in `--out` for an input file's name without its extension."""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `predict`."""
    what = "run a registered or exported model on files: .npy, .npz, CSV, JSON lines, images"
    parser = commands.add_parser("predict", help=what, description=what)
    parser.add_argument(
        "model", metavar="NAME[@V|#STAGE]",
        help=f"the model, {MODEL}, or an exported folder, such as models/digits",
    )  # fmt: skip
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help=FILES)
    parser.add_argument("--out", metavar="FILE", type=Path, help=f"{OUT} (default: standard output, as CSV)")
    parser.add_argument("--outputs", metavar="NAME,...", help=OUTPUTS)
    parser.add_argument("--batch-size", metavar="N", type=int, help=BATCH_SIZE)
    parser.add_argument(
        "--fresh", action="store_true", help="discard the partial results of an interrupted call and start over"
    )
    parser.set_defaults(command=_predict)


def _note(text: str) -> None:
    tell(f"note: {text}")  # the predictions may go to stdout


def _predict(options: argparse.Namespace) -> int:
    with interruptible(_leave):
        return _answer(options)


def _leave(interrupted: Interrupted) -> None:
    """End this process and the model's, from any thread."""
    from tapeline.cli.leaving import leave

    leave(interrupted, last=lambda: fail(interrupted))


def _answer(options: argparse.Namespace) -> int:
    from tapeline.prediction.run import FORMATS, Format, OutputOptions, Prediction

    endings = [f".{form}" for form in FORMATS]
    if options.out and options.out.suffix not in endings:
        raise InputError(
            f"--out is {str(options.out)!r}: its name must end in {', '.join(endings[:-1])} or {endings[-1]}"
        )
    check_batch_size(options.batch_size)
    outs = _outs(options.out, options.files)
    from tqdm import tqdm

    model = _model(options.model)
    form: Format = options.out.suffix[1:] if options.out else "csv"
    chosen = () if options.outputs is None else tuple(name.strip() for name in options.outputs.split(","))
    wanted = OutputOptions(form, chosen, options.batch_size, options.fresh)
    with (
        tqdm(unit=" examples", disable=not sys.stderr.isatty() or options.out is None) as bar,
        Prediction(model, wanted, progress=bar.update, note=_note) as prediction,
    ):
        if outs is not None:
            return _each(prediction, options.files, outs, f"by {model.name}: {options.out}")
        count = prediction.write(options.files, options.out)
    if options.out:
        print(f"{count} predictions by {model.name}: {options.out}")
    return 0


def _model(model: str) -> "VerifiedModel":
    """Return a model by its name in the registry, or by the path of its folder."""
    from tapeline.prediction.verified_model import VerifiedModel

    if os.sep in model:
        return VerifiedModel.at(Path(model))
    from tapeline.config.project import Project
    from tapeline.registry.registry import Registry
    from tapeline.registry.tags import names

    registry = Registry.for_model(Project.find(), model)
    return VerifiedModel.registered(registry, registry.version(names.parse(model)))


def _outs(out: Path | None, files: Sequence[Path]) -> list[Path] | None:
    """Return an output for each file; None if there is one for all, or stdout.

    Raises `InputError` for an output that cannot be written, is also an input, or belongs to two files.
    """
    if out is None:
        return None
    from tapeline.prediction import partial_output

    each = NAME in str(out)
    if unknown := [part for part in re.findall(r"\{\w+\}", str(out)) if part != NAME]:
        raise InputError(f"--out has {unknown[0]}: the only placeholder is {NAME}")
    outs = [Path(str(out).replace(NAME, file.stem)) for file in files] if each else [out]
    origin: dict[str, Path] = {}  # by `realpath`: `Path.resolve` raises for a link to itself
    for number, one in enumerate(outs):
        if not one.parent.is_dir():
            raise InputError(f"--out is {str(one)!r}: its folder does not exist; make it first")
        partial_output.check(one)
        if (other := origin.setdefault(os.path.realpath(one), files[number])) is not files[number]:
            raise InputError(
                f"--out is {str(one)!r} for both {other} and {files[number]}: predict one with another --out"
            )
    for file in files:
        if os.path.realpath(file) in origin:
            raise InputError(f"--out is {str(file)!r}, which is also an input: give another name")
    return outs if each else None


def _each(prediction: "Prediction", files: Sequence[Path], outs: Sequence[Path], by: str) -> int:
    """Predict file by file; a bad file does not stop the others. Return the exit status."""
    count, bad = 0, list[TapelineError]()
    for file, out in zip(files, outs, strict=True):
        try:
            count += prediction.write([file], out)
        except (InputError, RunError) as error:
            if prediction.unusable:
                raise
            bad.append(error)
            tell(f"tapeline: {error}")
    if not bad:
        print(f"{count} predictions for {len(files)} files {by}")
        return 0
    print(f"{count} predictions for {len(files) - len(bad)} of {len(files)} files {by}")
    kinds = (RunError, InputError)
    mistake: Callable[[str], TapelineError] = kinds[all(isinstance(error, InputError) for error in bad)]
    return fail(mistake(f"{len(bad)} of {len(files)} files failed: {bad[0]}"))
