"""The settings of `dvc config`, read and written."""

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from configobj import ConfigObj
from dvc.config import Config, _pack_named, merge
from dvc.repo import Repo

from tapeline.runtime import files


class _Utf8(Config):
    """DVC reads its files as UTF-8 and writes them as ASCII, so that no path may have an umlaut.

    What is written here is for this user alone: `config.local` may have the password of a remote.
    """

    def _save_config(self, level: str, conf_dict: dict[str, Any]) -> None:
        written = Path(self.files[level])
        files.make_folder(written.parent)
        content = ConfigObj(_pack_named(conf_dict), encoding="utf-8")
        partial = written.with_name(f".{written.name}{files.PARTIAL}")
        partial.unlink(missing_ok=True)
        with os.fdopen(files.own(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(b"".join(line + b"\n" for line in content.write()))
        partial.replace(written)


class Settings:
    """What `dvc config` has for the `.dvc` folder `folder`, unvalidated."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._config = _Utf8(str(folder), validate=False)

    @classmethod
    def around(cls, folder: Path) -> "Settings":
        """Return the settings of the repository around a folder. Raises `NotDvcRepoError`."""
        return cls(Path(Repo.find_root(str(folder)), ".dvc"))

    @property
    def remotes(self) -> list[str]:
        """The names of the remotes."""
        return list(self._config.get("remote") or ())

    @property
    def default_remote(self) -> str | None:
        """The remote that is used without a name."""
        name: str | None = self._config["core"].get("remote")
        return name

    @property
    def cache(self) -> str:
        """The cache's folder."""
        return str(self._config["cache"].get("dir") or self.folder / "cache")

    @property
    def hardlink_lock(self) -> bool:
        """Whether DVC's locks are hard links, not the kernel's."""
        return str(self._config["core"].get("hardlink_lock")).lower() == "true"

    def level(self, name: str) -> dict[str, Any]:
        """Return one level's settings: `repo` (committed) or `local`, by section; paths are absolute."""
        found: dict[str, Any] = self._config.load_one(name)
        return found

    def edit_local(self) -> AbstractContextManager[dict[str, Any]]:
        """Change `config.local`: what the yielded dictionary holds at the end is written."""
        edited: AbstractContextManager[dict[str, Any]] = self._config.edit("local", validate=False)
        return edited


def merged(into: dict[str, Any], settings: dict[str, Any]) -> None:
    """Merge settings into others, section by section, in place."""
    merge(into, settings)
