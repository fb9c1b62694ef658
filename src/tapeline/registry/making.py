"""What each command needs that makes a tag: one who may, a name that is free, and the tag before it."""

import secrets
from typing import Any

from tapeline.registry.registry import Registry
from tapeline.registry.tags import names, seen, tagging
from tapeline.registry.tags.record import message
from tapeline.registry.tags.state import Version
from tapeline.registry.trust.verify import Signer
from tapeline.runtime.errors import InputError


def own(registry: Registry, rule: str, stage: str = "") -> Signer | None:
    """Return who this user is by the key; None without a policy.

    rule: `register`, `promote`, `approve` or `revoke`. Raises `InputError` for one who may not.
    """
    authority = registry.authority
    if authority is None:
        return None
    trust = authority.policy.settings
    rules = {"register": trust.register_, "revoke": trust.revoke}
    people = rules[rule] if rule in rules else getattr(trust, rule).get(stage)
    if people is None:
        name = authority.policy.name
        raise InputError(
            f"by the policy of {name}, nobody may {rule} for {stage}: registry.trust.{rule} does not list it"
        )
    return authority.own(people, f"{rule} {f'for {stage}' if stage else 'versions'}")


def counts(registry: Registry) -> tagging.Counts | None:
    """Return whether a tag is signed by somebody of the signers, by its name; None without a trust policy."""
    authority = registry.authority
    if authority is None:
        return None
    tags, known = registry.repository.tags, authority.known
    return lambda name: any(tag.name == name and known(tag) for tag in tags(f"refs/tags/{name}"))


def latest(registry: Registry, name: str) -> dict[str, str] | None:
    """Return name and object of a model's latest tag, for the record of the next; None if there is none.

    By a policy one that a signer signed: what others have tagged may go again.
    """
    authority, tags = registry.authority, reversed(registry.tags(name))
    last = next((tag for tag in tags if authority is None or authority.known(tag)), None)
    return {"tag": last.name, "object": last.object} if last else None


def next_tag(registry: Registry, name: str, stage: str) -> str:
    """Return the tag of the next assignment, which none had that this clone has noted; hold the lock (`alone`)."""
    artifact, repository = registry.artifact(name), registry.repository
    noted = [one for one, _ in seen.noted(repository.common, artifact.tag)]
    number = names.counter([*repository.tag_names(f"refs/tags/{artifact.tag}#*"), *noted], artifact) + 1
    while tagging.in_the_way(repository, tag := f"{artifact.tag}#{stage}#{number}").startswith(tag):
        number += 1
    return tag


def tag_about(registry: Registry, version: Version, tag: str, subject: str, record: dict[str, Any]) -> str:
    """Make a revocation or an attestation, and return its tag: by a policy another one if that is taken.

    Hold the lock (`alone`).
    """
    if registry.authority and tagging.in_the_way(registry.repository, tag):
        tag = names.elsewhere(tag, secrets.token_hex(6))
    tagging.make(registry.repository, tag, version.commit, message(subject, record), counts=counts(registry))
    registry.made(version.name, tag)
    return tag
