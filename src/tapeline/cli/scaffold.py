"""`tapeline init`: a new project, in a folder that is empty or in a repository that has other things in it."""

import argparse
from pathlib import Path


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add it."""
    what = "make a folder a project: params.yaml, dvc.yaml, engine.lock and a first recipe; overwrites nothing"
    starting = commands.add_parser("init", help=what, description=what)
    starting.add_argument(
        "folder", metavar="FOLDER", nargs="?", type=Path, default=Path(), help="the folder (this one)"
    )
    starting.add_argument(
        "--data", metavar="PATH", type=Path, help="a CSV or Parquet file or a folder of images to learn from (irises)"
    )
    starting.set_defaults(command=_init)


def _init(options: argparse.Namespace) -> int:
    from tapeline.scaffold.init import init

    new = init(options.folder, data=options.data)
    for path in new:
        print(f"new: {path.relative_to(options.folder.resolve())}")
    if new:
        print("next: `dvc repro`, then `tapeline metrics`, and `git add . && git commit`")
    else:
        print("nothing to do: this is a project already")
    return 0
