"""Bring a server's deployments to those of `prefect.yaml`: what Prefect's own `deploy` leaves there is removed.

Only what belongs to this checkout is looked at: deployments whose flows are loaded from this folder.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import DeploymentSchedule
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import DeploymentSort

from flows.deployments import Deployment, when

PAGE = 200
SHOWN = ("entrypoint", "parameters", "tags", "description", "work_pool_name", "concurrency_options")


def deployed(client: SyncPrefectClient, checkout: Path) -> dict[str, DeploymentResponse]:
    """Return this checkout's deployments on the server by their full name."""
    found: dict[str, DeploymentResponse] = {}
    flows: dict[UUID, str] = {}
    offset = 0
    while page := client.read_deployments(limit=PAGE, offset=offset, sort=DeploymentSort.NAME_ASC):
        offset += PAGE
        for deployment in page:
            if _folder(deployment) == str(checkout):
                if deployment.flow_id not in flows:
                    flows[deployment.flow_id] = client.read_flow(deployment.flow_id).name
                found[f"{flows[deployment.flow_id]}/{deployment.name}"] = deployment
    return found


def remove_what_is_gone(client: SyncPrefectClient, wanted: Sequence[Deployment], checkout: Path) -> Iterator[str]:
    """Remove deployments and schedules that the file no longer has, and yield a line for each."""
    by_name = {deployment.full_name: deployment for deployment in wanted}
    for name, found in deployed(client, checkout).items():
        if name not in by_name:
            client.delete_deployment(found.id)
            yield f"removed {name}"
            continue
        left = [str(schedule) for schedule in by_name[name].schedules]
        for schedule in client.read_deployment_schedules(found.id):
            words = describe(schedule)
            if words in left:
                left.remove(words)
            else:
                client.delete_deployment_schedule(found.id, schedule.id)
                yield f"removed {words} of {name}"


def differences(before: dict[str, DeploymentResponse], after: dict[str, DeploymentResponse]) -> Iterator[str]:
    """Yield a line for each deployment that is new, and for each that has changed with what has."""
    for name, deployment in after.items():
        if name not in before:
            yield f"created {name}"
            continue
        changed = [what for what in SHOWN if getattr(before[name], what) != getattr(deployment, what)]
        if _limit(before[name]) != _limit(deployment):
            changed.append("concurrency_limit")
        known = {describe(schedule) for schedule in before[name].schedules}
        changed += [f"new schedule {words}" for words in map(describe, deployment.schedules) if words not in known]
        if changed:
            yield f"changed {name}: {', '.join(changed)}"


def describe(schedule: DeploymentSchedule) -> str:
    """Return a server's schedule as the file's are described."""
    inner = schedule.schedule
    words = when(getattr(inner, "cron", None), getattr(inner, "interval", None), getattr(inner, "timezone", None))
    return f"{words}{f' ({schedule.slug})' if schedule.slug else ''}"


def _limit(deployment: DeploymentResponse) -> int | None:
    return deployment.global_concurrency_limit.limit if deployment.global_concurrency_limit else None


def _folder(deployment: DeploymentResponse) -> str | None:
    for step in deployment.pull_steps or ():
        for name, options in step.items():
            if name.endswith("set_working_directory"):
                return str(options.get("directory"))
    return deployment.path
