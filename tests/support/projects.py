"""Project folders with one pipeline `long` on a dataset `points`."""

from pathlib import Path

from ruamel.yaml import YAML


def write_params(folder: Path, **train: object) -> None:
    """Write `params.yaml`; the caller provides `recipe.py` and `data/points`."""
    (folder / "points.csv").write_text("x1,x2,y\n1,2,3\n")
    pipeline = {"dataset": "points", "recipe": "recipe.py", "needs": "data/points", "params": {}, "train": train}
    pipeline |= {"validate": {"thresholds": {}}, "export": {}}
    source = {"source": "table", "needs": "points.csv", "features": {"x": ["x1", "x2"], "y": ["y"]}}
    content = {"datasets": {"points": source}, "pipelines": {"long": pipeline}}
    with (folder / "params.yaml").open("w") as file:
        YAML().dump(content, file)
