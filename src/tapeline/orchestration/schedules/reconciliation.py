"""Reconcile a server's deployments with `prefect.yaml`: also remove what the file no longer has, as `deploy` does not.

Only this checkout's deployments are considered: those whose flows are loaded from this folder.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import DeploymentSchedule
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import DeploymentSort
from prefect.events.schemas.automations import Automation
from prefect.exceptions import ObjectNotFound

from tapeline.orchestration.schedules.deployments import ANCHOR, FILE, Deployment, when
from tapeline.runtime.errors import InputError

PAGE = 200
SHOWN = (
    "entrypoint",
    "parameters",
    "tags",
    "description",
    "work_pool_name",
    "work_queue_name",
    "job_variables",
    "concurrency_options",
    "paused",
    "enforce_parameter_schema",
)
LIMIT, SCHEDULE, TRIGGER = "concurrency_limit", "schedule", "trigger"


def deployed(client: SyncPrefectClient, checkout: Path) -> dict[str, DeploymentResponse]:
    """Return this checkout's deployments on the server by their full name."""
    found: dict[str, DeploymentResponse] = {}
    flows: dict[UUID, str] = {}
    for deployment in _all(client):
        if _folder(deployment) == str(checkout):
            if deployment.flow_id not in flows:
                flows[deployment.flow_id] = client.read_flow(deployment.flow_id).name
            found[f"{flows[deployment.flow_id]}/{deployment.name}"] = deployment
    return found


def _all(client: SyncPrefectClient) -> Iterator[DeploymentResponse]:
    offset = 0
    while page := client.read_deployments(limit=PAGE, offset=offset, sort=DeploymentSort.NAME_ASC):
        offset += PAGE
        yield from page


def sharing(client: SyncPrefectClient, pools: Iterable[str], checkout: Path) -> Iterator[str]:
    """Yield a line for each work pool that other folders use: a worker that lacks one of them crashes its runs."""
    folders: dict[str, set[str]] = {pool: set() for pool in pools}
    for deployment in _all(client):
        if deployment.work_pool_name in folders:
            folders[deployment.work_pool_name].add(_folder(deployment) or "elsewhere")
    for pool, found in folders.items():
        if others := sorted(found - {str(checkout)}):
            yield (
                f"note: the work pool {pool} has deployments of {', '.join(others)}, too: a worker that lacks one of "
                f"these folders crashes its runs; give the pool another name in {FILE}"
            )


def reconciled(
    client: SyncPrefectClient, wanted: Mapping[str, Deployment], checkout: Path, create: Callable[[], object]
) -> list[str]:
    """Create by `create` what is wanted, remove what the file no longer has, and return a line for each change.

    What somebody has paused on the server stays so where the file says nothing of it, with a line, too; also if
    `create` raises.

    wanted: deployments by their full name. Raises `InputError` if one of these is of another project.
    """
    _refuse_others(client, wanted, checkout)
    before = described(client, checkout)
    stopped = Stopped(client, wanted, checkout)
    try:
        create()
    finally:  # it may have got half-way
        stays = [*stopped.again()]
    changed = [*differences(before, described(client, checkout))]
    return [*changed, *remove_what_is_gone(client, [*wanted.values()], checkout), *stays]


class Stopped:
    """What is paused on the server, and the file says nothing of: `create` lets it run again."""

    def __init__(self, client: SyncPrefectClient, wanted: Mapping[str, Deployment], checkout: Path) -> None:
        self._client = client
        there = deployed(client, checkout)
        self._known = {name: (there[name], said) for name, said in wanted.items() if name in there}
        self._off = {name: self._off_triggers(found) for name, (found, _) in self._known.items()}

    def again(self) -> Iterator[str]:
        """Pause that again, and yield a line for each."""
        for name, (found, said) in self._known.items():
            if found.paused and said.paused is None:
                self._client.pause_deployment(found.id)
                yield f"{name} stays paused, as it is on the server"
            silent = {schedule.slug or str(schedule) for schedule in said.schedules if schedule.active is None}
            off = {schedule.slug or describe(schedule) for schedule in found.schedules if not schedule.active} & silent
            for schedule in self._client.read_deployment_schedules(found.id) if off else ():
                if (schedule.slug or describe(schedule)) in off:
                    self._client.update_deployment_schedule(found.id, schedule.id, active=False)
                    yield f"{describe(schedule)} of {name} stays off, as it is on the server"
            says = {str(trigger.get("name")) for trigger in said.triggers if "enabled" in trigger}
            for automation in _automations(self._client, found) if self._off[name] else ():
                if automation.enabled and automation.name in self._off[name] - says:
                    self._client.pause_automation(automation.id)
                    yield f"trigger {automation.name} of {name} stays off, as it is on the server"

    def _off_triggers(self, deployment: DeploymentResponse) -> set[str]:
        return {automation.name for automation in _automations(self._client, deployment) if not automation.enabled}


def _refuse_others(client: SyncPrefectClient, names: Iterable[str], checkout: Path) -> None:
    """Raise `InputError` if one of these full names is a deployment of another project that is still there."""
    for name in names:
        try:
            found = client.read_deployment_by_name(name)
        except ObjectNotFound:
            continue
        if _is_of_another(found, checkout):
            raise InputError(
                f"{name} is on this server for {_folder(found)}: rename this one in {FILE}, or delete that one on the "
                "server"
            )


def remove_what_is_gone(client: SyncPrefectClient, wanted: Sequence[Deployment], checkout: Path) -> Iterator[str]:
    """Remove deployments and schedules that the file no longer has, and yield a line for each."""
    by_key = {(deployment.entrypoint, deployment.name): deployment for deployment in wanted}
    there = deployed(client, checkout)
    newest: dict[tuple[str, str], str] = {}  # a flow may have been renamed, independently of its function
    for name, found in sorted(there.items(), key=lambda item: str(item[1].created)):
        newest[found.entrypoint or "", found.name] = name
    for name, found in there.items():
        key = (found.entrypoint or "", found.name)
        if key not in by_key or newest[key] != name:
            client.delete_deployment(found.id)
            yield f"removed {name}"
            continue
        left = [str(schedule) for schedule in by_key[key].schedules]
        for schedule in client.read_deployment_schedules(found.id):
            words = describe(schedule)
            if words in left:
                left.remove(words)
            else:
                client.delete_deployment_schedule(found.id, schedule.id)
                yield f"removed {words} of {name}"


def described(client: SyncPrefectClient, checkout: Path) -> dict[str, dict[str, Any]]:
    """Return the properties that are compared of this checkout's deployments, by full name."""
    return {
        name: {what: getattr(found, what) for what in SHOWN}
        | {LIMIT: found.global_concurrency_limit.limit if found.global_concurrency_limit else None}
        | {SCHEDULE: [_in_detail(schedule) for schedule in found.schedules]}
        | {TRIGGER: _triggers(client, found)}
        for name, found in deployed(client, checkout).items()
    }


def differences(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each new deployment, and for each changed one with its changes."""
    for name, now in after.items():
        if name not in before:
            yield f"created {name}"
            continue
        then = before[name]
        changed = [what for what in (*SHOWN, LIMIT) if then[what] != now[what]]
        for what in (SCHEDULE, TRIGGER):
            changed += [f"new {what} {words}" for words in (Counter(now[what]) - Counter(then[what])).elements()]
            changed += [f"no {what} {words}" for words in (Counter(then[what]) - Counter(now[what])).elements()]
        if changed:
            yield f"changed {name}: {', '.join(changed)}"


def _triggers(client: SyncPrefectClient, deployment: DeploymentResponse) -> list[str]:
    """Return the names of the automations that start the deployment, with a hash of what they react to."""
    return [
        f"{automation.name} ({hashlib.sha256(automation.trigger.model_dump_json().encode()).hexdigest()[:7]})"
        for automation in _automations(client, deployment)
    ]


def _automations(client: SyncPrefectClient, deployment: DeploymentResponse) -> list[Automation]:
    return client.read_resource_related_automations(f"prefect.deployment.{deployment.id}")


def describe(schedule: DeploymentSchedule) -> str:
    """Return a server's schedule in the words used for the file's schedules."""
    inner = schedule.schedule
    words = when(getattr(inner, "cron", None), getattr(inner, "interval", None), getattr(inner, "timezone", None))
    return f"{words}{f' ({schedule.slug})' if schedule.slug else ''}"


def _in_detail(schedule: DeploymentSchedule) -> str:
    """Return a schedule with the properties that can change without making it another schedule."""
    anchor = getattr(schedule.schedule, "anchor_date", ANCHOR)
    more = [] if anchor == ANCHOR else [f"from {anchor.isoformat()}"]
    more += [] if schedule.active else ["off"]
    more += [f"with {json.dumps(schedule.parameters, sort_keys=True)}"] if schedule.parameters else []
    return ", ".join([describe(schedule), *more])


def _folder(deployment: DeploymentResponse) -> str | None:
    for step in deployment.pull_steps or ():
        for name, options in step.items():
            if name.endswith("set_working_directory"):
                return str(options.get("directory"))
    return deployment.path


def _is_of_another(deployment: DeploymentResponse, checkout: Path) -> bool:
    """Return whether the flow of a deployment is, or may be, in a folder of this machine that is not the checkout."""
    folder = Path(_folder(deployment) or "")
    if not folder.is_absolute():
        return False
    try:
        (folder / (deployment.entrypoint or "").rpartition(":")[0]).stat()
        return not folder.samefile(checkout)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # another user's
        return True
