"""A stage and its dependencies, as DVC has loaded them."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from dvc.dependency.param import ParamsDependency


class Input:
    """A dependency of a stage, as DVC has loaded it: a file, a folder, or keys of a file of parameters."""

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded

    def __str__(self) -> str:
        return str(self._loaded)

    @property
    def parameter_file(self) -> Path | None:
        """The file whose keys it is; None for a file or folder itself."""
        return Path(self._loaded.fs_path) if isinstance(self._loaded, ParamsDependency) else None

    def changed_keys(self) -> list[str]:
        """Return the keys of a file of parameters whose values are not the recorded ones."""
        found: list[str] = []
        for file, states in self._loaded.status().items():
            found += states if isinstance(states, Mapping) else [file]
        return found

    @property
    def exists(self) -> bool:
        """Whether the file or folder is there."""
        return bool(self._loaded.exists)

    @property
    def has_changed(self) -> bool:
        """Whether a file or folder that exists is not the recorded one."""
        return bool(self._loaded.changed_checksum())

    @property
    def recorded(self) -> str | None:
        """The recorded MD5."""
        return str(self._loaded.hash_info.value) if self._loaded.hash_info else None

    def current(self) -> str:
        """Return the MD5 of what is there."""
        return str(self._loaded.get_hash().value)


class Recorded:
    """A recorded output, as DVC has loaded it: the MD5 of a file, or of the list of a folder's files."""

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded

    @property
    def md5(self) -> str:
        """The MD5; that of a folder's list ends in `.dir`."""
        return str(self._loaded.hash_info.value)

    @property
    def path(self) -> Path:
        """Where the file or folder is."""
        return Path(self._loaded.fspath)

    def current(self) -> str:
        """Return the MD5 of what is there; empty if nothing is."""
        return str(self._loaded.get_hash().value) if self._loaded.exists else ""

    @property
    def is_of_bytes(self) -> bool:
        """Whether a file's MD5 is that of its bytes: DVC 2 took line ends of texts for one."""
        return bool(self._loaded.hash_name == "md5")

    def cached(self, md5: str) -> Path:
        """Return where the cache has an object of this output, there or not."""
        return Path(self._loaded.cache.oid_to_path(md5))


class Stage:
    """A stage of a `dvc.yaml`, or a `.dvc` file; `loaded` is DVC's own object, for this package alone."""

    def __init__(self, loaded: Any) -> None:
        self.loaded = loaded

    @property
    def file(self) -> Path:
        """The `dvc.yaml` or the `.dvc` file."""
        return Path(self.loaded.path)

    @property
    def name(self) -> str:
        """Such as `train@digits`; for a `.dvc` file, its name."""
        return getattr(self.loaded, "name", None) or self.file.name

    @property
    def is_raw_data(self) -> bool:
        """Whether it is a file's or folder's `.dvc` file, with no command."""
        return bool(self.loaded.is_data_source)

    @property
    def commands(self) -> list[str]:
        """The shell commands, in their order; none for raw data."""
        found: str | list[str] | None = self.loaded.cmd
        return [found] if isinstance(found, str) else list(found or ())

    @property
    def dependencies(self) -> list[Path]:
        """The dependencies on this machine: a URL is none."""
        return [Path(dep.fspath) for dep in self.loaded.deps if dep.protocol == "local"]

    @property
    def inputs(self) -> list[Input]:
        """All dependencies, parameters included."""
        return [Input(dep) for dep in self.loaded.deps]

    @property
    def outputs(self) -> list[Path]:
        """The outputs on this machine."""
        return [Path(out.fspath) for out in self.loaded.outs if out.protocol == "local"]

    @property
    def outputs_for_git(self) -> list[Path]:
        """The outputs on this machine that DVC leaves to Git, as `cache: false` asks for."""
        return [Path(out.fspath) for out in self.loaded.outs if out.protocol == "local" and not out.use_cache]

    def recorded_outputs(self) -> list[Recorded]:
        """Return the recorded outputs that the cache may have."""
        return [Recorded(out) for out in self.loaded.outs if out.use_cache and out.hash_info]

    @property
    def recorded(self) -> list[bool]:
        """For each output, whether its hash is recorded."""
        return [bool(out.hash_info) for out in self.loaded.outs]

    def is_stale(self, *, missing_ok: bool = False, upstream: Collection["Stage"] = ()) -> bool:
        """Return whether `dvc repro --single-item` would do anything: DVC's own comparison.

        missing_ok: outputs that are recorded, but not here, make nothing stale. upstream: the stages whose recorded
        outputs count for dependencies that are not here.
        """
        if not missing_ok:
            return bool(self.loaded.changed())
        return bool(self.loaded.changed(allow_missing=True, upstream=[stage.loaded for stage in upstream] or None))
