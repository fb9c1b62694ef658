"""Where a version comes from and where it was promoted to, read from tags and its commit; nothing is guessed."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tapeline.registry import rules
from tapeline.registry.registry import Registry
from tapeline.registry.sentences import sentence
from tapeline.registry.tags.state import Version
from tapeline.repository.dvc_lock import LOCK
from tapeline.runtime.errors import plain


def lineage(registry: Registry, version: Version) -> dict[str, Any]:
    """Return model, run, parameters, data, code, environment and assignments of a version.

    What the tag lacks (if plain GTO made it) is read from the commit's `dvc.lock`. Raises `InputError` if the commit
    has none.
    """
    recorded, said = registry.recorded(version), version.record
    found = registry.state(version.name)
    dataset = said.get("data") or {}
    return {
        "version": version.tag.name,
        "live_in": found.stages(version.number),
        "revoked": str(revoked) if (revoked := found.revoked.get(version.number)) else None,
        "registered": {"by": version.tag.author, "email": version.tag.email, "at": moment(version.tag.time)},
        "model": {"path": f"models/{version.name}", "md5": recorded.model, "metrics": said.get("metrics", {})},
        "run": {**registry.repository.run(version.commit, LOCK, recorded.model), "stages": recorded.chain()},
        "parameters": recorded.parameters(),
        "data": {**dataset, "outs": recorded.datasets()},
        "code": {"commit": version.commit, "files": recorded.code(), "engine": recorded.engine()},
        "environment": said.get("environment"),
        "assignments": [
            {
                "stage": event.stage,
                "action": "unassign" if event.back else event.record.get("action", "assign"),
                "by": event.tag.author,
                "approved_by": event.record.get("approved_by"),
                "approval": event.record.get("approval"),
                "at": moment(event.tag.time),
                "tag": event.tag.name,
                "champion": event.record.get("champion"),
                "verdict": event.record.get("verdict"),
                "checks": event.record.get("checks", []),
                "rules": event.record.get("rules"),
            }
            for event in found.assignments
            if event.version == version.number
        ],
    }


def moment(seconds: int) -> str:
    """Return a tag's time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def tree(found: Mapping[str, Any]) -> str:
    """Return a lineage as a tree for people."""
    live = f"  live in {', '.join(found['live_in'])}" if found["live_in"] else ""
    data, code, environment = found["data"], found["code"], found["environment"] or {}
    source = data.get("source") or {}
    branches: list[tuple[str, list[str]]] = [
        (f"model {found['model']['path']}  md5 {found['model']['md5']}", _pairs(found["model"]["metrics"])),
        (f"run {_run(found['run'])}", found["run"]["stages"]),
        ("parameters", _pairs(_flat(found["parameters"]))),
        (
            f"data {data.get('name', '')}  sha256 {data.get('sha256', 'not in the tag')}",
            _pairs(source) + _pairs(data["outs"]),
        ),
        (f"code commit {code['commit']}", [*code["files"], *_pairs(_flat({"engine": code["engine"]}))]),
        ("environment", _pairs(_flat(environment))),
        (f"registered by {found['registered']['by']} at {found['registered']['at']}", []),
    ]
    branches += [(_assigned(event), checks(event)) for event in found["assignments"]]
    lines = [f"{found['version']}{live}{f'  {revoked}' if (revoked := found['revoked']) else ''}"]
    for number, (title, leaves) in enumerate(branches, 1):
        last = number == len(branches)
        lines.append(f"{'└─' if last else '├─'} {title}")
        lines += [f"{'  ' if last else '│ '}   {leaf}" for leaf in leaves]
    return "\n".join(map(plain, lines))


def _run(run: Mapping[str, Any]) -> str:
    return f"{run['name']} ({run['id']})" if run.get("name") else "by hand"


def _assigned(event: Mapping[str, Any]) -> str:
    approved = f", approved by {event['approved_by']} (claimed)" if event["approved_by"] else ""
    if isinstance(signed := event["approval"], dict):
        approved = f", approved by {signed.get('by')} (signed: {signed.get('tag')})"
    remarkable = "".join(f", {note}" for note in rules.notes(event))
    return f"{event['action']} to {event['stage']} by {event['by']} at {event['at']}{approved}{remarkable}"


def checks(event: Mapping[str, Any]) -> list[str]:
    """Return a line for each check of an assignment."""
    return [plain(f"{'yes' if check['holds'] else 'NO'}  {sentence(check)}") for check in event.get("checks", ())]


def _pairs(values: Mapping[str, Any]) -> list[str]:
    return [f"{key}: {value:.6g}" if isinstance(value, float) else f"{key}: {value}" for key, value in values.items()]


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        inner = _flat(value, f"{before}{key}.") if isinstance(value, Mapping) and value else {f"{before}{key}": value}
        found |= inner
    return found
