"""The bytes of a version's model: what its commit's `dvc.lock` records, and the SHA-256 of each file from its tag.

DVC finds bytes by MD5, for which files with other content can be made on purpose; SHA-256 says whether they are the
registered ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tapeline.registry.store import Store
from tapeline.registry.tags.state import Version
from tapeline.repository.recorded import Recorded
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

MODEL = "model"
WEIGHTS = "weights"


@dataclass(frozen=True)
class Contents:
    """The bytes of one output of a version."""

    md5: str
    """By which DVC finds it."""
    sums: Mapping[str, str] | None
    """The SHA-256 of each file, by relative path; None for a version whose tag has none."""


def of_model(version: Version, recorded: Recorded) -> Contents:
    """Return the bytes of a version's model. Raises `InputError` if its tag and its commit contradict each other."""
    said = version.record.get("model") or {}
    if version.record.get("commit") not in (None, version.commit) and said.get("md5") == recorded.model:
        raise InputError(
            f"{version.tag.name} is on {version.commit[:10]}, but its record names {version.record['commit']:.10}: the "
            "history was rewritten, or somebody moved the tag; if it was rewritten, delete the model's tags (`git tag "
            f"-d`, `git push --delete`) and register it again: `tapeline registry register {version.name}`"
        )
    for what, tag, commit in (
        ("commit", version.record.get("commit"), version.commit),
        (f"models/{version.name}", said.get("md5"), recorded.model),
    ):
        if tag is not None and tag != commit:
            raise InputError(
                f"{version.tag.name} contradicts its commit: {what} is {str(tag)[:40]} in the tag's record and "
                f"{commit[:40]} in Git, so the tag was forged; {version.tag.author} made it"
            )
    return Contents(recorded.model, sums(version, MODEL))


def sums(version: Version, what: str) -> Mapping[str, str] | None:
    """Return the SHA-256 of each file of an output (`MODEL`, `WEIGHTS`) according to the tag; None if it has none."""
    found: Mapping[str, str] | None = (version.record.get("sha256") or {}).get(what)
    return found


def measured(store: Store, md5: str) -> dict[str, str]:
    """Return the SHA-256 of each file of an output, by relative path, for a tag's record."""
    return {name: files.sha256(store.bring(part)) for name, part in sorted(store.listing(md5).items())}


def of_recorded(store: Store, recorded: Recorded) -> dict[str, dict[str, str]]:
    """Return the SHA-256 of the model's files, and of the weights' where the cache has these."""
    name = recorded.pipeline
    found = {MODEL: measured(store, recorded.model)}
    weights = recorded.out(f"train@{name}", f"runs/{name}/train/weights")
    return found if store.missing(weights) else {**found, WEIGHTS: measured(store, weights)}
