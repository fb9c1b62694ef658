"""What a version's `model.json` says, read from the bytes that its commit's `dvc.lock` records."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tapeline.errors import InputError

if TYPE_CHECKING:
    from tapeline.registry.registry import Registry
    from tapeline.registry.state import Version

DESCRIPTION = "model.json"
SAVED_MODEL = "saved_model"


@dataclass(frozen=True)
class Model:
    """One exported model's description."""

    content: dict[str, Any]
    bytes: int
    """The size of all its files."""

    @classmethod
    def of(cls, registry: "Registry", version: "Version") -> "Model":
        """Read it, from the remote when the cache lacks it. Raises `InputError` for what is missing or altered."""
        listing = registry.store.listing(registry.recorded(version).model)
        if DESCRIPTION not in listing:
            raise InputError(f"{version.tag.name} has no {DESCRIPTION}: it is no model that Tapeline exported")
        size = sum(registry.store.bring(md5).stat().st_size for md5 in listing.values())
        return cls(described(registry.store.bring(listing[DESCRIPTION]).read_bytes(), version.tag.name), size)

    @property
    def signatures(self) -> dict[str, Any]:
        """Signature → its inputs' and outputs' dtypes and shapes."""
        signatures: dict[str, Any] = self.content["signatures"]
        return signatures

    @property
    def dataset(self) -> str:
        """The dataset's name."""
        return str(self.content["dataset"]["name"])

    @property
    def split(self) -> str:
        """The split on which it was validated."""
        return str(self.content.get("verdict", {}).get("split", "test"))

    @property
    def metrics(self) -> dict[str, float]:
        """What validate measured, the single numbers."""
        return {key: float(v) for key, v in self.content["metrics"].items() if isinstance(v, int | float)}


def described(text: bytes, where: str) -> dict[str, Any]:
    """Return a description that has what every model's has. Raises `InputError` for another."""
    try:
        content: dict[str, Any] = json.loads(text)
        content["dataset"]["name"], content["metrics"], content["files"], content["signatures"]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{where} is no description of a model, so it was altered: `dvc checkout --force`") from None
    return content
