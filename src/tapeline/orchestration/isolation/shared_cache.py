"""Let a worktree's DVC use the checkout's cache and remotes; nothing of it is committed."""

import os
from pathlib import Path
from typing import Any

from dvc.config import Config, merge

LINKS = "reflink,hardlink,symlink,copy"
"""Outs of a worktree take no room where the file system can share it."""


def share_cache(checkout: Path, worktree: Path) -> None:
    """Write the `config.local` of a worktree's `.dvc` folder: `checkout` is that of the main one.

    What the checkout's own `config.local` says (a remote's password) holds in the worktree too. A remote that is a
    folder beside the checkout stays where it is, and what DVC keeps outside its repositories ends with the worktree.
    """
    main = Config(str(checkout), validate=False)
    own = Config(str(worktree), validate=False)
    committed = own.load_one("repo")
    with own.edit("local", validate=False) as local:
        merge(local, main.load_one("local"))
        for name, remote in committed["remote"].items():
            if moved := _beside(checkout, worktree, remote):
                local["remote"].setdefault(name, {}).setdefault("url", moved)
        local["cache"]["dir"] = str(main["cache"].get("dir") or checkout / "cache")
        local["cache"]["type"] = LINKS
        local["core"]["site_cache_dir"] = str(worktree / "tmp" / "site")


def _beside(checkout: Path, worktree: Path, remote: dict[str, Any]) -> str:
    """Return where a remote is whose address is relative to the `.dvc` folder, or nothing."""
    url = remote.get("url", "")
    if type(url) is str or not url:  # DVC marks a path that it has resolved by a type of its own
        return ""
    return os.path.normpath(checkout / os.path.relpath(url, worktree))
