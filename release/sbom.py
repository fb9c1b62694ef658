"""The bill of materials of a release, as CycloneDX 1.6 has it in JSON: the same bytes on every machine.

    python -m release.sbom dist/tapeline-0.1.0-py3-none-any.whl > dist/tapeline-0.1.0.cdx.json

It lists every distribution that `requirements.lock` has for running Tapeline, on whatever platform, with its licence,
the SHA-256 of each file that pip may install, and who needs whom. There is no time in it, and its serial number is a
function of the rest.
"""

import hashlib
import json
import sys
import tomllib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from release import licences, locked

MARKER = "tapeline:marker"
"""The property with the platforms and the versions of Python that a distribution is for."""


def bill(wheel: Path) -> dict[str, Any]:
    """Return the bill of a wheel that was built from this checkout."""
    project = tomllib.loads((locked.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entries = locked.at_run_time(locked.read())
    known = licences.read()
    own = {
        "type": "application",
        "bom-ref": f"pkg:pypi/{project['name']}@{project['version']}",
        "name": project["name"],
        "version": project["version"],
        "description": project["description"],
        "licenses": [{"expression": project["license"]}],
        "purl": f"pkg:pypi/{project['name']}@{project['version']}",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}],
    }
    content = {
        "metadata": {"component": own},
        "components": [_component(one, known[one.name].expression) for one in entries],
        "dependencies": _dependencies(own["bom-ref"], entries),
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    head = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
    }
    return {**head, "serialNumber": f"urn:uuid:{serial}", "version": 1, **content}


def _component(one: locked.Locked, licence: str) -> dict[str, Any]:
    files = {
        "type": "distribution",
        "url": f"https://pypi.org/simple/{one.name}/",
        "comment": "each file that may be installed",
        "hashes": [{"alg": "SHA-256", "content": sha256} for sha256 in one.hashes],
    }
    found = {
        "type": "library",
        "bom-ref": one.purl,
        "name": one.name,
        "version": one.version,
        "scope": "required",
        "licenses": [{"expression": licence}],
        "purl": one.purl,
        "externalReferences": [files],
    }
    return {**found, "properties": [{"name": MARKER, "value": one.marker}]} if one.marker else found


def _dependencies(own: str, entries: Sequence[locked.Locked]) -> list[dict[str, Any]]:
    """Return who needs whom. A distribution with two versions, for two versions of Python, is needed in both."""
    needs: dict[str, list[str]] = {}
    for one in entries:
        for name in one.needed_by:
            needs.setdefault(name, []).append(one.purl)
    found = [{"ref": own, "dependsOn": sorted(needs[locked.OWN])}]
    return found + [{"ref": one.purl, "dependsOn": sorted(needs.get(one.name, []))} for one in entries]


def main() -> int:
    """Print the bill of the wheel that is named."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        print("usage: python -m release.sbom WHEEL", file=sys.stderr)
        return 2
    sys.stdout.write(json.dumps(bill(Path(sys.argv[1])), indent=2, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
