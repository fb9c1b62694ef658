"""Let a worktree's DVC use the checkout's cache and remotes; none of this is committed."""

import os
from pathlib import Path
from typing import Any

from tapeline.repository.dvc_internals import Settings, merged

LINKS = "reflink,hardlink,symlink,copy"
"""A worktree's outputs take no extra space where the file system can share it."""


def share_cache(checkout: Path, worktree: Path) -> None:
    """Write the `config.local` of the `.dvc` folder `worktree`; `checkout` is the main checkout's `.dvc` folder.

    The main checkout's `config.local` (a remote's password) holds in the worktree too. A remote with a relative path
    still resolves to the same folder, and what DVC keeps outside its repositories is removed with the worktree.
    """
    main, own = Settings(checkout), Settings(worktree)
    committed = own.level("repo")
    with own.edit_local() as local:
        merged(local, main.level("local"))
        for name, remote in committed["remote"].items():
            if moved := _beside(checkout, worktree, remote):
                local["remote"].setdefault(name, {}).setdefault("url", moved)
        local["cache"]["dir"] = main.cache or str(checkout / "cache")
        local["cache"]["type"] = LINKS
        local["core"]["site_cache_dir"] = str(worktree / "tmp" / "site")


def _beside(checkout: Path, worktree: Path, remote: dict[str, Any]) -> str:
    """Return the path of a remote whose URL is relative to the `.dvc` folder, else an empty string."""
    url = remote.get("url", "")
    if type(url) is str or not url:  # DVC gives a relative path that it has resolved its own string type
        return ""
    return os.path.normpath(checkout / os.path.relpath(url, worktree))
