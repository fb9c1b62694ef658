"""Orchestration: Prefect schedules and monitors what DVC reproduces. Nothing here imports TensorFlow.

The flows use the `tapeline` of their own tree, as the stages do: an editable install may belong to another checkout.
So `python -m flows.…` in a folder of another tree is refused: it would run this tree's flows there.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

sys.path.insert(0, str(ROOT / "src"))


def _other_tree() -> Path | None:
    """Return the root of the working directory's tree if it is another one with its own flows."""
    here = Path.cwd()
    found = (folder for folder in (here, *here.parents) if (folder / "flows" / "__init__.py").is_file())
    tree = next(found, ROOT)
    return None if (tree / "flows").resolve() == ROOT / "flows" else tree  # a project may link to these flows


if sys.argv[:1] == ["-m"] and (_tree := _other_tree()):  # Python's argv while it looks for the module to run
    print(
        f"flows: {ROOT} is installed and {_tree} has flows of its own: `cd {_tree}` and run it there", file=sys.stderr
    )
    sys.exit(2)
