"""The model to predict with: a registered version, or the folder of an export."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapeline.prediction.outputs import available, chosen
from tapeline.prediction.signature import Signature, shortened
from tapeline.registry.model import DESCRIPTION, SAVED_MODEL, Model, described
from tapeline.registry.registry import Registry
from tapeline.registry.store import has_sums
from tapeline.registry.tags.state import Version
from tapeline.runtime import files
from tapeline.runtime.errors import InputError
from tapeline.runtime.saved_models import DEFAULT

PLACE = ("file", "row")
"""The columns that say which example is answered."""


@dataclass(frozen=True)
class VerifiedModel:
    """A model whose bytes were checked, before it is loaded."""

    name: str
    folder: Path
    """Of the SavedModel."""
    bytes: str
    """A hash of all its files."""
    signature: Signature
    outputs: Mapping[str, str]
    """Output → dtype, as the description says."""
    classes: tuple[str, ...]

    @classmethod
    def registered(cls, registry: Registry, version: Version) -> "VerifiedModel":
        """Return a version, brought from the cache or the remote. Raises `InputError` for bytes not its own."""
        model = Model.of(registry, version)
        signature = _signature(model, version.tag.name)
        found = registry.contents(version)
        kept = registry.work / "models" / found.md5.removesuffix(".dir")
        folder = registry.store.kept(found.md5, kept, sums=found.sums)
        taken = _taken(model, signature, _columns(registry, version, model))
        return cls(version.tag.name, folder / SAVED_MODEL, found.md5, taken, _dtypes(signature), tuple(model.classes))

    @classmethod
    def at(cls, folder: Path) -> "VerifiedModel":
        """Return the model in a folder that export wrote. Raises `InputError` for anything else."""
        if not (folder / DESCRIPTION).is_file() or not (folder / SAVED_MODEL).is_dir():
            raise InputError(f"{folder} lacks {DESCRIPTION} or {SAVED_MODEL}: give the folder of an exported model")
        model = Model(described(files.read_bytes(folder / DESCRIPTION), str(folder)), 0)
        if not has_sums(folder, model.content["files"]):
            raise InputError(f"the files in {folder} are not those that its {DESCRIPTION} lists: export it again")
        signature = _signature(model, str(folder))
        if model.columns is None and model.source.get("kind") == "table":
            raise InputError(f"{DESCRIPTION} does not name the table columns of {model.dataset}: export it again")
        taken = _taken(model, signature, model.columns or {})
        content = files.sha256_of_tree(folder)
        return cls(str(folder), folder / SAVED_MODEL, content, taken, _dtypes(signature), tuple(model.classes))

    def selected(self, asked: tuple[str, ...], form: str, outputs: Mapping[str, str] | None = None) -> list[str]:
        """Return the names of what is written; outputs: as the loaded model has them.

        Raises `InputError` for what a file of this form does not hold.
        """
        wanted = chosen(available(self.outputs if outputs is None else outputs, self.classes), asked)
        if form == "npy" and len(wanted) > 1:
            raise InputError(
                f"an .npy file holds one output, but these are {shortened(wanted)}: choose one with --outputs, or use "
                ".npz"
            )
        if form not in ("npy", "npz") and (taken := [name for name in PLACE if name in wanted]):
            raise InputError(
                f"the output {taken[0]} has the name of the column that numbers the examples: choose other --outputs, "
                "or use --out with an .npz file"
            )
        return wanted


def _signature(model: Model, name: str) -> Mapping[str, Any]:
    if DEFAULT not in model.signatures:
        raise InputError(f"{name} has no signature {DEFAULT}: it has {', '.join(model.signatures)}")
    found: Mapping[str, Any] = model.signatures[DEFAULT]
    return found


def _taken(model: Model, signature: Mapping[str, Any], columns: Mapping[str, Any]) -> Signature:
    """Return the inputs. columns: those of each feature; an input with other values than its feature is not of them."""
    tables = {name: made_of for name, made_of in columns.items() if name not in model.own_inputs}
    return Signature.of(signature["inputs"], tables, resized=model.resized)


def _dtypes(signature: Mapping[str, Any]) -> dict[str, str]:
    return {name: spec["dtype"] for name, spec in signature["outputs"].items()}


def _columns(registry: Registry, version: Version, model: Model) -> dict[str, Any]:
    """Return the table columns that the model's dataset was made from; empty for another kind of source.

    A model that does not name them was exported before models did: then its run's settings say it.
    """
    if model.columns is not None:
        return model.columns
    parameters = registry.recorded(version).parameters()
    settings = parameters.get(f"datasets.{model.dataset}")
    found: dict[str, Any] = settings.get("features", {}) if isinstance(settings, Mapping) else {}
    return found if isinstance(found, dict) else {}
