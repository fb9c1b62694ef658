"""The `tapeline predict` command."""

import argparse
import sys
from pathlib import Path


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `predict`."""
    what = "answer files with a registered model: .npy, .npz, CSV, JSON lines, images"
    parser = commands.add_parser("predict", help=what, description=what)
    parser.add_argument("model", metavar="NAME[@V|#STAGE]", help="such as 'digits#prod' (the highest version)")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, help="a .csv or .jsonl file (the standard output, as CSV)")
    parser.add_argument("--batch-size", type=int, default=256, help="(%(default)d)")
    parser.set_defaults(command=_predict)


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)  # the predictions may go to stdout


def _predict(options: argparse.Namespace) -> int:
    from tapeline.config.project import Project
    from tapeline.prediction.outputs import Format
    from tapeline.prediction.run import predict
    from tapeline.registry.registry import Registry
    from tapeline.registry.tags import names
    from tapeline.runtime.errors import InputError

    if options.out and options.out.suffix not in (".csv", ".jsonl"):
        raise InputError(f"--out is {str(options.out)!r}: its name must end in .csv or .jsonl")
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
    form: Format = "jsonl" if options.out and options.out.suffix == ".jsonl" else "csv"
    with tqdm(unit=" examples", disable=not sys.stderr.isatty() or options.out is None) as bar:
        count = predict(
            registry, version, options.files,
            out=options.out, form=form, batch_size=options.batch_size, progress=bar.update, note=_note,
        )  # fmt: skip
    if options.out:
        print(f"{count} examples answered by {version.tag.name}: {options.out}")
    return 0
