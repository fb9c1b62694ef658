"""The `tapeline predict` command."""

import argparse
import sys
from pathlib import Path

from tapeline.cli.prediction_options import OUT, OUTPUTS


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `predict`."""
    what = "answer files with a registered model: .npy, .npz, CSV, JSON lines, images"
    parser = commands.add_parser("predict", help=what, description=what)
    parser.add_argument("model", metavar="NAME[@V|#STAGE]", help="such as 'digits#prod' (the highest version)")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, help=f"{OUT} (the standard output, as CSV)")
    parser.add_argument("--outputs", metavar="NAME,...", help=OUTPUTS)
    parser.add_argument("--batch-size", type=int, default=256, help="(%(default)d)")
    parser.set_defaults(command=_predict)


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)  # the predictions may go to stdout


def _predict(options: argparse.Namespace) -> int:
    from tapeline.config.project import Project
    from tapeline.prediction.run import FORMATS, Format, predict
    from tapeline.registry.registry import Registry
    from tapeline.registry.tags import names
    from tapeline.runtime.errors import InputError

    endings = [f".{form}" for form in FORMATS]
    if options.out and options.out.suffix not in endings:
        raise InputError(
            f"--out is {str(options.out)!r}: its name must end in {', '.join(endings[:-1])} or {endings[-1]}"
        )
    if options.out and not options.out.resolve().parent.is_dir():
        raise InputError(f"--out is {str(options.out)!r}: there is no such folder")
    if options.out and options.out.is_dir():
        raise InputError(f"--out is {str(options.out)!r}, a folder: give the name of a file")
    if options.batch_size < 1:
        raise InputError(f"--batch-size is {options.batch_size}: must be at least 1")
    from tqdm import tqdm

    project = Project.find()
    registry = Registry.for_model(project, options.model)
    version = registry.version(names.parse(options.model))
    form: Format = options.out.suffix[1:] if options.out else "csv"
    chosen = [] if options.outputs is None else [name.strip() for name in options.outputs.split(",")]
    with tqdm(unit=" examples", disable=not sys.stderr.isatty() or options.out is None) as bar:
        count = predict(
            registry, version, options.files,
            out=options.out, form=form, batch_size=options.batch_size, chosen=chosen, progress=bar.update, note=_note,
        )  # fmt: skip
    if options.out:
        print(f"{count} examples answered by {version.tag.name}: {options.out}")
    return 0
