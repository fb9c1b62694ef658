"""What a test says when DVC no longer has a name that Tapeline uses and DVC does not document."""

from importlib.metadata import version
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "tapeline" / "repository" / "dvc"


def gone(name):
    return f"DVC {version('dvc')} no longer has {name}: adapt {PACKAGE.relative_to(PACKAGE.parents[3])}"
