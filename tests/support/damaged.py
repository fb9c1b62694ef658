"""Damage to a Git repository, as of a disk."""

import subprocess
from pathlib import Path


def lose(folder: Path, name: str) -> None:
    """Lose an object, such as the file `HEAD:dvc.lock` of a commit."""
    found = subprocess.run(["git", "rev-parse", name], cwd=folder, capture_output=True, text=True, check=True)
    made = found.stdout.strip()
    (folder / ".git" / "objects" / made[:2] / made[2:]).unlink()
