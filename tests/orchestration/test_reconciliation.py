"""What a server has against what `prefect.yaml` says: what goes, and what has changed."""

from datetime import UTC, datetime
from types import SimpleNamespace
from uuid import uuid4

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import DeploymentSchedule
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings

from tapeline.orchestration.schedules.deployments import ANCHOR, Deployment
from tapeline.orchestration.schedules.reconciliation import described, differences, reconciled, remove_what_is_gone
from tapeline.runtime.errors import RunError

STEP = {"prefect.deployments.steps.set_working_directory": {"directory": "/here"}}


class Server:
    """As much of Prefect's client as is asked here."""

    def __init__(self, *deployments):
        self.flows = {found.flow_id: SimpleNamespace(name=flow) for flow, found in deployments}
        self.deployments = [found for _, found in deployments]

    def read_deployments(self, *, offset, **_):
        return self.deployments[offset:]

    def read_flow(self, flow_id):
        return self.flows[flow_id]

    def read_deployment_schedules(self, deployment_id):
        return next(found.schedules for found in self.deployments if found.id == deployment_id)

    def read_resource_related_automations(self, resource):
        return []

    def delete_deployment(self, deployment_id):
        self.deployments = [found for found in self.deployments if found.id != deployment_id]


def deployment(name, entrypoint, *, created=1, **more):
    when = datetime(2026, 1, created, tzinfo=UTC)
    given = {"id": uuid4(), "name": name, "entrypoint": entrypoint, "flow_id": uuid4(), "created": when}
    return DeploymentResponse(**given, pull_steps=[STEP], **more)


def schedule(**more):
    return DeploymentSchedule(schedule=CronSchedule(cron="0 3 * * *", timezone="UTC"), slug="s", **more)


def test_a_flow_may_have_another_name_than_its_function():
    """It is what was renamed, removed or never there that goes."""
    server = Server(
        ("train", deployment("nightly", "flows/a.py:train", created=1)),
        ("My flow", deployment("nightly", "flows/a.py:train", created=2)),
        ("train", deployment("gone", "flows/a.py:train")),
    )
    wanted = [Deployment(name="nightly", entrypoint="flows/a.py:train")]
    assert sorted(remove_what_is_gone(server, wanted, "/here")) == ["removed train/gone", "removed train/nightly"]
    assert list(remove_what_is_gone(server, wanted, "/here")) == []
    assert [server.flows[found.flow_id].name for found in server.deployments] == ["My flow"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, []),
        ({"paused": True}, ["changed train/a: paused"]),
        ({"job_variables": {"env": {"A": "1"}}}, ["changed train/a: job_variables"]),
        (
            {"schedules": [schedule(active=False)]},
            ["changed train/a: new schedule cron 0 3 * * * UTC (s), off, no schedule cron 0 3 * * * UTC (s)"],
        ),
        ({"schedules": [schedule(active=True)] * 2}, ["changed train/a: new schedule cron 0 3 * * * UTC (s)"]),
        ({"schedules": []}, ["changed train/a: no schedule cron 0 3 * * * UTC (s)"]),
        (
            {"schedules": [schedule(active=True, parameters={"ref": "v1"})]},
            [
                'changed train/a: new schedule cron 0 3 * * * UTC (s), with {"ref": "v1"}, '
                "no schedule cron 0 3 * * * UTC (s)"
            ],
        ),
    ],
)
def test_what_has_changed_is_told(change, told):
    before, after = (
        described(Server(("train", deployment("a", "a.py:train", **more))), "/here")
        for more in ({"schedules": [schedule(active=True)]}, {"schedules": [schedule(active=True)]} | change)
    )
    assert list(differences(before, after)) == told


def test_another_anchor_is_another_schedule():
    def found(**anchor):
        every = IntervalSchedule(interval=60, timezone="UTC", **anchor)
        return Server(("train", deployment("a", "a.py:train", schedules=[DeploymentSchedule(schedule=every)])))

    before, after = (described(found(anchor_date=anchor), "/here") for anchor in (ANCHOR, datetime(2024, 1, 1)))
    assert list(differences(before, before)) == []
    assert list(differences(before, after)) == [
        "changed train/a: new schedule every 60 s UTC, from 2024-01-01T00:00:00+00:00, no schedule every 60 s UTC"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("failure", [RunError("prefect deploy: half-way"), KeyboardInterrupt()])
def test_what_is_paused_stays_so_where_creating_ends_half_way(server, api, tmp_path, failure):
    flow = api("POST", "/flows/", {"name": "train"})["id"]
    about = {"name": "half", "flow_id": flow, "entrypoint": "a.py:train", "path": str(tmp_path), "paused": True}
    made = api("POST", "/deployments/", about)["id"]

    def create():
        api("POST", f"/deployments/{made}/resume_deployment")
        raise failure

    wanted = {"train/half": Deployment(name="half", entrypoint="a.py:train")}
    with temporary_settings({PREFECT_API_URL: server}), get_client(sync_client=True) as client:
        with pytest.raises(type(failure)) as raised:
            reconciled(client, wanted, tmp_path, create)
    assert raised.value is failure
    assert api("GET", f"/deployments/{made}")["paused"]
