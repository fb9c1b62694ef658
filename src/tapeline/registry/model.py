"""A version's `model.json`, read from the bytes that its commit's `dvc.lock` records."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tapeline.parsing import json_text
from tapeline.registry.store import Missing
from tapeline.runtime.errors import InputError

if TYPE_CHECKING:
    from tapeline.registry.registry import Registry
    from tapeline.registry.store import Store
    from tapeline.registry.tags.state import Version

DESCRIPTION = "model.json"
SAVED_MODEL = "saved_model"
IMAGES, IMAGE = "images", "image"
"""The kind of a source that is a folder of images, and its feature that has them."""


@dataclass(frozen=True)
class Model:
    """One exported model's description."""

    content: dict[str, Any]
    bytes: int
    """The size of all its files."""

    @classmethod
    def of(cls, registry: "Registry", version: "Version") -> "Model":
        """Read a version's description. Raises `InputError` for missing or altered files and a revoked version."""
        found = registry.contents(version)
        try:
            if found.sums is not None:
                registry.store.check(found.md5, found.sums)
            return cls.at(registry.store, found.md5, version.tag.name)
        except Missing as error:
            raise InputError(f"{version.tag.name} of commit {version.commit[:10]}: {error}") from None

    @classmethod
    def at(cls, store: "Store", md5: str, name: str) -> "Model":
        """Read a description by the MD5 of the model's folder, from the cache or the remote; every file is checked.

        name: the model's name in errors.
        """
        listing = store.listing(md5)
        if DESCRIPTION not in listing:
            raise InputError(f"{name} has no {DESCRIPTION}: Tapeline did not export this model")
        size = sum(store.bring(part).stat().st_size for part in listing.values())
        return cls(described(store.bring(listing[DESCRIPTION]).read_bytes(), name), size)

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
    def columns(self) -> dict[str, list[str]] | None:
        """Feature → the table columns that it was made of; `None` if the description does not name them."""
        found: dict[str, list[str]] | None = self.source.get("columns")
        return found

    @property
    def source(self) -> dict[str, Any]:
        """What the dataset was made from."""
        return dict(self.content["dataset"].get("source", {}))

    @property
    def resized(self) -> set[str]:
        """The features that ingest made of images of any size, and that the recipe serves as they are."""
        made_of = (self.source.get("kind"), self.source.get("made_of"))  # the latter is of a copy
        return {IMAGE} - set(self.own_inputs) if IMAGES in made_of else set()

    @property
    def split(self) -> str:
        """The split on which it was validated."""
        return str(self.content.get("verdict", {}).get("split", "test"))

    @property
    def classes(self) -> list[str]:
        """The names of the classes that the output `class` indexes; empty if the model predicts no class."""
        confusion = self.content["metrics"].get("confusion")
        return list(confusion.get("classes", ())) if isinstance(confusion, dict) else []

    @property
    def own_inputs(self) -> list[str]:
        """The inputs for which the recipe serves something other than the feature of the same name."""
        return list(self.content.get("own_inputs", ()))

    @property
    def metrics(self) -> dict[str, float]:
        """The scalar metrics that validate measured."""
        return {key: float(v) for key, v in self.content["metrics"].items() if isinstance(v, int | float)}


Size = Annotated[int, Field(ge=0, lt=2**40)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class _Spec(_Part):
    """The type of an input or an output."""

    dtype: Annotated[str, Field(pattern=r"^\w+$")]
    shape: list[Size | None] | None


class _Signature(_Part):
    inputs: dict[str, _Spec]
    outputs: dict[str, _Spec]


class _Source(_Part):
    columns: dict[str, list[str]] | None = None


class _Dataset(_Part):
    name: str
    source: _Source = _Source()


class _Verdict(_Part):
    split: str = "test"


class _Description(_Part):
    """The fields that every reader of a description relies on."""

    dataset: _Dataset
    metrics: dict[str, Any]
    files: dict[str, Any]
    signatures: dict[str, _Signature]
    verdict: _Verdict = _Verdict()
    own_inputs: list[str] = []


class _Confusion(_Part):
    classes: list[str] = []


def described(text: bytes, where: str) -> dict[str, Any]:
    """Return a description with all required fields. Raises `InputError` for any other."""
    try:
        content = json_text.mapping(text)
        found = _Description.model_validate(content)
        if isinstance(confusion := found.metrics.get("confusion"), dict):
            _Confusion.model_validate(confusion)
    except (json_text.NotJson, ValidationError):
        raise InputError(
            f"{where} is not a description of a model, so it was altered: `dvc checkout --force`"
        ) from None
    return content
