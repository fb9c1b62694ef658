"""Let a worktree's DVC use the checkout's cache and remotes; none of this is committed."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tapeline.repository.dvc.settings import Settings, merged

LINKS = "reflink,hardlink,symlink,copy"
"""A worktree's outputs take no extra space where the file system can share it."""


def share_cache(
    checkout: Path, worktree: Path, *, main: Path | None = None, say: Callable[[str], None] | None = None
) -> None:
    """Write the `config.local` of the `.dvc` folder `worktree`; `checkout` is the `.dvc` folder of the user's checkout.

    That checkout's `config.local` (a remote's password) holds in the worktree too. A remote with a relative path still
    resolves to the same folder, and what DVC keeps outside its repositories is removed with the worktree.

    main: the main checkout's `.dvc` folder, if the user's is a worktree, which may go with its cache: the main one's is
    taken, unless the user has named another one for the worktree. `say` is told so.
    """
    here, own = Settings(checkout), Settings(worktree)
    committed = own.level("repo")
    cache = here.cache
    if main and main != checkout and main.is_dir() and "dir" not in here.level("local")["cache"]:
        shared = Settings(main).cache
        if say and shared != cache:
            command = f"dvc cache dir --local {shlex.quote(shared)}"
            say(f"uses the DVC cache of the main checkout, {shared}; `{command}` has DVC use it here")
        cache = shared
    site = worktree / "tmp" / "site"
    # DVC would make it for all users to write to, and reads pickles there.
    site.mkdir(mode=0o700, parents=True, exist_ok=True)
    with own.edit_local() as local:
        merged(local, here.level("local"))
        for name, remote in committed["remote"].items():
            if moved := _beside(checkout, worktree, remote):
                local["remote"].setdefault(name, {}).setdefault("url", moved)
        local["cache"]["dir"] = cache
        local["cache"]["type"] = LINKS
        local["core"]["interactive"] = "false"  # no one is asked before each stage
        local["core"]["site_cache_dir"] = str(site)


def _beside(checkout: Path, worktree: Path, remote: dict[str, Any]) -> str:
    """Return the path of a remote whose URL is relative to the `.dvc` folder, else an empty string."""
    url = remote.get("url", "")
    if type(url) is str or not url:  # DVC gives a relative path that it has resolved its own string type
        return ""
    return os.path.normpath(checkout / os.path.relpath(url, worktree))
