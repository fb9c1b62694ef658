"""Revoke a version: it may never be live again. There is no way back; a new version takes its place."""

from typing import Any

from tapeline.registry.registry import Registry
from tapeline.registry.tags import state, tagging
from tapeline.registry.tags.state import Revocation, Version
from tapeline.runtime.errors import InputError


def revoke(registry: Registry, version: Version, because: str) -> tuple[Revocation, list[str]]:
    """Tag a version as revoked and take it out of the serving folder; return the revocation and where it was live.

    Safe to repeat: the first revocation stays, and the folder is aligned. Raises `InputError` without a reason.
    """
    if not because.strip():
        raise InputError("--because is empty: say why nobody may use this version again")
    registry.repository.identity()
    registry.own("revoke")
    with registry.alone():
        found = registry.state(version.name)
        stages = registry.settings.stages
        was = [s for s in stages if (event := found.standing(s)) and event.version == version.number]
        if version.number not in found.revoked:
            record: dict[str, Any] = {
                "action": "revoke",
                "version": version.number,
                "commit": version.commit,
                "because": because.strip(),
                "was_live_in": was,
            }
            record["before"] = registry.latest(version.name)
            tag = registry.free_name(state.revocation(found.artifact, version.number))
            text = f"revoke {version.tag.name}"
            tagging.make(registry.repository, tag, version.commit, state.message(text, record), counts=registry.counts)
            registry.made(version.name, tag)
        registry.withdraw(version.name)
        return registry.state(version.name).revoked[version.number], was
