"""The content of `prefect.yaml` for `make serve` and the deploy command; `prefect deploy` reads the same file.

for wanted in read(Path("prefect.yaml")):
    wanted.flow, wanted.name, wanted.schedules
"""

import json
import zoneinfo
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tapeline.config.params import checked
from tapeline.orchestration.storable import Exact
from tapeline.parsing import yaml_text
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

FILE = "prefect.yaml"
CHECKOUT = "TAPELINE_CHECKOUT"
"""The variable with which the file refers to its own folder."""

ANCHOR = datetime(2020, 1, 1, tzinfo=UTC)
"""Start of all intervals: Prefect's default, the current time, would shift a schedule at each start."""


DAY = 86_400
Interval = Annotated[float, Field(ge=1, le=3660 * DAY)]
"""Seconds: from one, since each run is a process, to ten years."""


class Limit(BaseModel):
    """How many runs of a deployment may be active at once, and what happens to one more."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(gt=0)]
    collision_strategy: Literal["ENQUEUE", "CANCEL_NEW"] = "ENQUEUE"
    grace_period_seconds: Annotated[int, Field(ge=60)] | None = None


class Schedule(BaseModel):
    """When a deployment runs: a cron expression or an interval in seconds, in a time zone. As Prefect accepts them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    slug: str | None = None
    cron: str | None = None
    interval: Interval | None = None
    anchor_date: str | None = None
    timezone: str = "UTC"
    active: bool | None = None
    """As it was on the server, where nothing is said."""
    parameters: dict[str, Exact] = {}

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, cron: str | None) -> str | None:
        from prefect.client.schemas.schedules import CronSchedule

        if cron is not None:
            try:
                CronSchedule(cron=cron)
            except ValidationError:
                raise ValueError(f"{cron!r} is not a cron expression, such as 0 3 * * *") from None
        return cron

    @field_validator("anchor_date")
    @classmethod
    def _is_date(cls, anchor: str | None) -> str | None:
        if anchor is not None:
            try:
                datetime.fromisoformat(anchor)
            except ValueError:
                raise ValueError(f"{anchor!r} is not a date, such as 2024-01-31T03:00:00") from None
        return anchor

    @field_validator("timezone")
    @classmethod
    def _is_zone(cls, zone: str) -> str:
        if zone not in zoneinfo.available_timezones():
            raise ValueError(f"{zone!r} is not a time zone, such as Europe/Berlin")
        return zone

    @model_validator(mode="after")
    def _one_of_both(self) -> "Schedule":
        if (self.cron is None) == (self.interval is None):
            raise ValueError("a schedule has either cron or interval")
        return self

    def __str__(self) -> str:
        return f"{when(self.cron, self.interval, self.timezone)}{f' ({self.slug})' if self.slug else ''}"


class Deployment(BaseModel):
    """One entry of the file. A key that Prefect does not know, or that would have no effect, is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern="^[^/%&><]+$")]
    entrypoint: Annotated[str, Field(pattern=r"^\S+\.py:\w+$")]
    description: str | None = None
    parameters: dict[str, Exact] = {}
    tags: tuple[str, ...] = ()
    work_pool: dict[str, Any] = {}
    concurrency_limit: Limit | Annotated[int, Field(gt=0)] | None = None
    schedules: tuple[Schedule, ...] = ()
    triggers: tuple[dict[str, Any], ...] = ()
    """Events that start a run, in the format of Prefect's automations."""
    paused: bool | None = None
    """As it was on the server, where nothing is said."""
    version: str | None = None
    enforce_parameter_schema: bool = True
    schedule: Any = None
    """Refused: `schedules` is a list."""
    flow_name: Any = None
    version_type: Any = None
    build: Any = None
    push: Any = None
    pull: Any = None
    sla: Any = None
    """These are used, and checked, only by `prefect deploy` and workers."""

    @model_validator(mode="after")
    def _one_list_of_schedules(self) -> "Deployment":
        if self.schedule is not None:
            raise ValueError("schedule has no effect: write schedules, a list")
        slugs = [schedule.slug for schedule in self.schedules if schedule.slug]
        if twice := [slug for slug in slugs if slugs.count(slug) > 1]:
            raise ValueError(f"two schedules have the slug {twice[0]!r}: give one another")
        return self

    @property
    def flow(self) -> str:
        """The flow's name: its function's name with hyphens."""
        return self.entrypoint.rpartition(":")[2].replace("_", "-")

    @property
    def full_name(self) -> str:
        """The name by which Prefect runs it."""
        return f"{self.flow}/{self.name}"


class _File(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    deployments: tuple[Deployment, ...] = ()


def read(path: Path) -> list[Deployment]:
    """Return the file's deployments. Raises `InputError` with the first error."""
    found = checked(_File, _content(path), where=path.name).deployments
    names = [deployment.full_name for deployment in found]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{path.name}: two deployments are called {name}: rename one")
    return list(found)


def anchored(path: Path) -> str:
    """Return what `read` has accepted, with `ANCHOR` for intervals without an anchor, as JSON, which is YAML too."""
    content = _content(path)
    for deployment in content.get("deployments") or ():
        for schedule in deployment.get("schedules") or ():
            if schedule.get("interval") is not None and schedule.get("anchor_date") is None:
                schedule["anchor_date"] = ANCHOR.isoformat()
    return json.dumps(content, default=str, ensure_ascii=False)


def _content(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml_text.parsed(files.read_bytes(path))
    except FileNotFoundError:
        raise InputError(f"no {path.name} in {path.parent}: `tapeline init --flows` writes one") from None
    except yaml_text.NotYaml as error:
        raise InputError(f"{path.name}{error.where}: not YAML: {error}") from None
    return content if isinstance(content, Mapping) else {}


def when(cron: str | None, interval: float | timedelta | None, timezone: str | None) -> str:
    """Return a schedule in a few words: `cron 0 3 * * * Europe/Berlin`, `every 20 s UTC`."""
    if cron is not None:
        return f"cron {cron} {timezone or 'UTC'}"
    seconds = interval.total_seconds() if isinstance(interval, timedelta) else float(interval or 0)
    return f"every {seconds:g} s {timezone or 'UTC'}"
