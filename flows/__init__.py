"""Orchestration: Prefect schedules and watches what DVC repeats. Nothing here imports TensorFlow.

The flows use the `tapeline` of the tree that they stand in, as the stages do: an editable install may be another
checkout's. So `python -m flows.…` in a folder of another tree is refused: it would run this tree's flows there.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

sys.path.insert(0, str(ROOT / "src"))


def _other_tree() -> Path | None:
    """Return the root of the tree that the working directory is in, where that has flows of its own."""
    here = Path.cwd()
    found = (folder for folder in (here, *here.parents) if (folder / "flows" / "__init__.py").is_file())
    tree = next(found, ROOT)
    return None if (tree / "flows").resolve() == ROOT / "flows" else tree  # a project may have a link to them


if sys.argv[:1] == ["-m"] and (_tree := _other_tree()):  # so Python calls it while it looks for the module to run
    print(
        f"flows: {ROOT} is installed and {_tree} has flows of its own: `cd {_tree}` and run it there", file=sys.stderr
    )
    sys.exit(2)
