"""`tapeline init`, `doctor` and `schema`: what a project needs before its first run."""

import argparse
from pathlib import Path


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add them."""
    what = "make a folder a project: params.yaml, dvc.yaml, engine.lock and a first recipe; overwrites nothing"
    starting = commands.add_parser("init", help=what, description=what)
    starting.add_argument(
        "folder", metavar="FOLDER", nargs="?", type=Path, default=Path(), help="the folder (this one)"
    )
    starting.add_argument(
        "--data", metavar="PATH", type=Path, help="a CSV or Parquet file or a folder of images to learn from (irises)"
    )
    starting.add_argument("--flows", action="store_true", help="a prefect.yaml with a nightly run too")
    starting.set_defaults(command=_init)
    what = "show what is missing on this machine and in this repository, and how to get it; status 1 if anything is"
    examining = commands.add_parser("doctor", help=what, description=what)
    examining.set_defaults(command=_doctor)
    what = "write a JSON schema of params.yaml, by which editors complete names and mark errors"
    describing = commands.add_parser("schema", help=what, description=what)
    describing.set_defaults(command=_schema)


def _doctor(options: argparse.Namespace) -> int:
    from tapeline.repository.doctor import MISSING, examine

    found = list(examine(Path.cwd()))
    for finding in found:
        print(f"{finding.state:8} {finding.what}" + (f": {finding.remedy}" if finding.remedy else ""))
    return int(any(finding.state == MISSING for finding in found))


def _schema(options: argparse.Namespace) -> int:
    from tapeline.config import schema
    from tapeline.config.project import Project

    path = schema.write(Project.find())
    print(f"{path}: editors find it by this first line of params.yaml:\n{schema.LINE}")
    return 0


def _init(options: argparse.Namespace) -> int:
    from tapeline.scaffold.init import init

    new = init(options.folder, data=options.data, flows=options.flows)
    for path in new:
        print(f"new: {path.relative_to(options.folder.resolve())}")
    if new:
        print("next: `dvc repro`, then `tapeline metrics`, and `git add . && git commit`")
    else:
        print("nothing to do: this is a project already")
    return 0
