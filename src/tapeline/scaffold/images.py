"""Inspect a folder of images and propose a dataset and a pipeline for it."""

from pathlib import Path
from typing import Any

from tapeline.runtime.errors import InputError
from tapeline.scaffold.proposal import Proposal, class_name, name_of, template

LARGEST = 64
"""Maximum side in pixels: a first model should train in minutes."""
SMALLEST = 8
SPLITS = ("train", "val", "test")


def propose(path: Path, needs: str) -> Proposal:
    """Return a proposal for a folder `<split>/<class>/<image>`. Raises `InputError` for another layout."""
    from PIL import Image, UnidentifiedImageError

    splits = [split for split in SPLITS if (path / split).is_dir()]
    first = next((file for file in sorted((path / "train").glob("*/*")) if file.is_file()), None)
    if first is None:
        raise InputError(f"{path} has no train/<class>/<image>: images are sorted by split, then by class")
    try:
        with Image.open(first) as image:
            side = max(SMALLEST, min(LARGEST, *image.size))
    except (UnidentifiedImageError, OSError):
        raise InputError(f"{first} cannot be read as an image") from None
    classes = sorted(folder.name for folder in (path / "train").iterdir() if folder.is_dir())
    dataset: dict[str, Any] = {"source": "images", "needs": needs, "size": [side, side]}
    if "test" not in splits:
        raise InputError(f"{path} has no test/<class>/<image>: what a model is worth is measured on images of its own")
    dataset |= {} if "val" in splits else {"validation": 0.15}
    said = f"tells {len(classes)} classes of images apart, at {side}×{side} pixels"
    name = name_of(path.name)
    return Proposal(
        name,
        dataset,
        {"learning_rate": 0.001},
        {"epochs": 20, "batch_size": 32},
        template("images.py", input="image", target="label", title=class_name(name, "Images")),
        (said,),
    )
