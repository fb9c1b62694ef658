"""Where a folder's DVC repository is, found without DVC, whose import takes a third of a second."""

from pathlib import Path


def dvc_top(folder: Path) -> Path | None:
    """Return the folder itself or the nearest above it that has `.dvc`; None if there is none."""
    return next((one for one in (folder, *folder.parents) if (one / ".dvc").is_dir()), None)
