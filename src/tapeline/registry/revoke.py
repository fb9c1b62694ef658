"""Revoke a version: it may never be live again. There is no way back; a new version takes its place."""

from typing import Any

from tapeline.registry import alignment, making
from tapeline.registry.registry import Registry
from tapeline.registry.tags import names
from tapeline.registry.tags.state import Revocation, Version
from tapeline.runtime.errors import InputError


def revoke(registry: Registry, version: Version, because: str) -> tuple[Revocation, list[str]]:
    """Tag a version as revoked and take it out of the serving folder; return the revocation and where it was live.

    Safe to repeat: the first revocation stays, and the folder is aligned. Raises `InputError` without a reason.
    """
    if not because.strip():
        raise InputError("--because is empty: say why this version must not be used again")
    registry.repository.check_identity()
    making.own(registry, "revoke")
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
            record["before"] = making.latest(registry, version.name)
            tag = names.revocation(found.artifact, version.number)
            making.tag_about(registry, version, tag, f"revoke {version.tag.name}", record)
        alignment.withdraw(registry, version.name)
        return registry.state(version.name).revoked[version.number], was
