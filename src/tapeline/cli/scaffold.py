"""`tapeline init`, `new`, `doctor` and `schema`: what a project needs before its first run."""

import argparse
import os
import shlex
import shutil
from pathlib import Path

from tapeline.runtime.errors import plain


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add them."""
    what = "make a folder a project: params.yaml, dvc.yaml, engine.lock and a first recipe; overwrites nothing"
    starting = commands.add_parser("init", help=what, description=what)
    starting.add_argument(
        "folder", metavar="FOLDER", nargs="?", type=Path, default=Path(), help="the folder (default: this one)"
    )
    starting.add_argument(
        "--data",
        metavar="PATH",
        type=Path,
        help="a CSV or Parquet file, a folder of images, or tfds:NAME (default: the iris data set)",
    )
    starting.add_argument("--flows", action="store_true", help="also write a prefect.yaml with a nightly run")
    starting.set_defaults(command=_init)
    _add_new(commands)
    what = "show what is missing on this machine and in this repository and how to get it; status 1 if anything is"
    examining = commands.add_parser("doctor", help=what, description=what)
    examining.set_defaults(command=_doctor)
    what = "write a JSON schema for params.yaml, with which editors complete names and flag errors"
    describing = commands.add_parser("schema", help=what, description=what)
    describing.set_defaults(command=_schema)


def _add_new(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    what = "write a recipe to start from; overwrites nothing"
    new = commands.add_parser("new", help=what, description=what).add_subparsers(metavar="WHAT", required=True)
    making = new.add_parser("recipe", help=what, description=what)
    making.add_argument("name", metavar="NAME", help="the name of the file, and of the pipeline")
    making.add_argument(
        "--like",
        metavar="KIND",
        help="table, number, image, text, gan or own-step (default: whichever fits the dataset, else table)",
    )
    making.add_argument(
        "--dataset", metavar="NAME", help="also add a pipeline that trains it on this dataset to params.yaml"
    )
    making.set_defaults(command=_new_recipe)


def _new_recipe(options: argparse.Namespace) -> int:
    from tapeline.config.project import Project
    from tapeline.runtime.errors import InputError
    from tapeline.scaffold.recipe import KINDS, new_recipe

    if options.like is not None and options.like not in KINDS:
        kinds = "; ".join(f"{name} ({kind.what})" for name, kind in KINDS.items())
        raise InputError(f"--like {options.like!r} is not a kind of recipe: choose one of {kinds}")
    project = Project.find()
    new = new_recipe(project, options.name, like=options.like, dataset=options.dataset, say=print)
    for path in new:
        print(f"written: {path.relative_to(project.folder)}")
    if not new:
        print("nothing to do: everything exists already")
    elif options.dataset:
        name = options.name.replace("_", "-")
        print(f"next: `dvc repro export@{name}`; to register its models, add a line under `artifacts:` in dvc.yaml")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from tapeline.repository.doctor import MISSING, examine

    found = list(examine(Path.cwd()))
    for finding in found:
        print(plain(f"{finding.state:8} {finding.what}" + (f": {finding.remedy}" if finding.remedy else "")))
    return int(any(finding.state == MISSING for finding in found))


def _schema(options: argparse.Namespace) -> int:
    from tapeline.config import schema
    from tapeline.config.project import Project

    path = schema.write(Project.find())
    print(f"{path}: editors find it through this first line of params.yaml:\n{schema.LINE}")
    return 0


def _init(options: argparse.Namespace) -> int:
    from tapeline.config.params import Params
    from tapeline.config.project import Project
    from tapeline.repository.places import dvc_top
    from tapeline.scaffold.init import init
    from tapeline.scaffold.raw_data import unversioned

    folder = options.folder.resolve()
    new = init(options.folder, data=options.data, flows=options.flows, say=lambda line: print(plain(line)))
    for path in new:
        print(plain(f"new: {path.relative_to(folder)}"))
    if new:
        datasets = Params.load(folder).datasets.values() if options.data else ()
        needed = unversioned(Project.find(folder), (one.needs for one in datasets if one.source != "tfds"))
        adding = "".join(f"`dvc add {shlex.quote(path)}`, " for path in needed)
        place = f"./{options.folder}" if str(options.folder).startswith("-") else str(options.folder)
        going = "" if folder == Path.cwd() else f"`cd {shlex.quote(place)}`, "
        top = dvc_top(folder) or folder
        above = [os.path.relpath(top / name, folder) for name in (".dvc", ".dvcignore") if top != folder]
        committing = f"git add {shlex.join(['.', *above])} && git commit"
        first = next(iter(Params.load(folder).pipelines))
        alone = shutil.which("tapeline") and not shutil.which("dvc")  # as pipx installs it
        running = f"`tapeline run --pipeline {first}`" if alone else "`dvc repro`"
        print(f"next: {going}{adding}{running}, then `tapeline metrics`, and `{committing}`")
    else:
        print("nothing to do: this is a project already")
    return 0
