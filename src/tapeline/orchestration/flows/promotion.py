"""Register a trained model, gate it, ask for a person's approval if the stage requires it, and promote it.

    tapeline promote --pipeline digits --stage prod

It calls the same functions as `tapeline registry …`; in addition, the run can be watched, and approved in Prefect's
UI. Nothing is locked while it waits for approval; if another version became live meanwhile, or the rules changed, the
promotion says so, and who may promote is asked anew.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any
from uuid import UUID

import httpx
from prefect import flow, get_run_logger, states, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import FlowPauseTimeout, PrefectException
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from tapeline.config.project import Project
from tapeline.orchestration import request
from tapeline.orchestration.connection import log
from tapeline.orchestration.flows.monitor import (
    LOOK,
    Cancellation,
    Cancelled,
    PrefectMonitor,
    failed,
    hold_own,
    is_cancelled,
)
from tapeline.orchestration.reports.events import tell_promoted, tell_refused
from tapeline.orchestration.request import Name, RegistryStage, Wait
from tapeline.orchestration.schedules.late_runs import cancel_late_runs
from tapeline.orchestration.schedules.liveness import begin
from tapeline.registry import promote as promoting
from tapeline.registry import rules
from tapeline.registry.assess import assess
from tapeline.registry.authority import Authority
from tapeline.registry.gate.verdict import Verdict
from tapeline.registry.register import register
from tapeline.registry.registry import Registry
from tapeline.registry.repository import Repository
from tapeline.registry.tags import names
from tapeline.registry.tags.names import Bump, Reference
from tapeline.registry.tags.state import Assignment, Version
from tapeline.runtime.errors import InputError, RunError, TapelineError, VerdictNo

begin()

ASKED_LATER = "a person, in the form"
"""The approver's name in the checks that precede the request for approval."""


class Approval(RunInput):
    """The form that a person fills in while the run is paused."""

    approve: bool
    name: str
    """Your name, which the tag records."""


@flow(name="promotion", retries=0)
def promotion(
    pipeline: Name,
    stage: RegistryStage,
    version: request.Version | None = None,
    bump: Bump = "patch",
    wait_seconds: Wait = 86_400,
) -> str | State[Any]:
    """Make a version of a pipeline's model live in a stage: a registered one, or HEAD's, registered first if needed.

    Returns the tag of the assignment to a caller, or raises a `TapelineError`.

    Args:
        pipeline: A name under `pipelines` in params.yaml.
        stage: A stage under `registry.stages` in params.yaml.
        version: A registered version. Empty: that of HEAD's model, registered first if needed.
        bump: Which part of a new version to raise.
        wait_seconds: How long to wait for the approval, if the stage requires one.
    """
    log.drop_repetition()
    try:
        project = Project.find()
        hold_own(project)
        cancel_late_runs()
        registry = Registry.for_model(project, pipeline)
        registry.stage(stage)
        with cancellable():
            chosen = registered(registry, pipeline, version, bump)
            if live := promoting.check(registry, chosen, stage, approved_by=ASKED_LATER):
                with registry.alone():
                    promoting.settle(registry, chosen, stage)
                return Completed(
                    message=f"{chosen.tag.name} is already live in {stage} ({live.tag.name})", data=live.tag.name
                )
            decided = rules.digest(registry.deciding, pipeline, stage)
            verdict = judged(registry, chosen, stage)
            if not verdict.holds:
                tell_refused(project, pipeline, version=chosen.number, stage=stage, reason=verdict.reason)
                raise VerdictNo(f"{chosen.tag.name} is not promoted to {stage}: {verdict.reason}")
            approved_by = None
            if registry.settings.stages[stage].approval:
                approved_by = approved(verdict, wait_seconds)
                registry = reopened(registry, pipeline, stage, decided)
        made = promoted(registry, chosen, stage, verdict, approved_by)
        if made.record.get("flow_run") == flow_run.get_id():  # else another process was first to promote this version
            metrics = chosen.record.get("metrics", {})
            tell_promoted(
                project, pipeline, version=chosen.number, stage=stage, replaced=verdict.champion, metrics=metrics
            )
    except Cancelled as cancelled:
        return states.Cancelled(message=str(cancelled))
    except (TapelineError, OSError) as error:
        return failed(error)
    said = f"{chosen.tag.name} is live in {stage} ({made.tag.name})"
    complete(said)
    return Completed(message=said, data=made.tag.name)


@task(cache_policy=NO_CACHE, retries=0)
def registered(registry: Registry, name: str, number: str | None, bump: str) -> Version:
    """Return the requested version; by default that of HEAD's model, which is registered first if needed."""
    if number is not None:
        return registry.version(Reference(name, version=names.check_version(number)))
    known = registry.version_of(name, registry.repository.head)  # also a commit that left the model as it was
    return known or register(registry, name, bump=bump, flow_run=flow_run.get_id())


@task(cache_policy=NO_CACHE, retries=0)
def judged(registry: Registry, version: Version, stage: str) -> Verdict:
    """Return the verdict. Its table is logged, and published as an artifact."""
    verdict = assess(registry, version, stage)
    for line in verdict.table().splitlines():
        get_run_logger().info(line)
    try:
        key = f"promotion-{version.name}-{stage}"
        create_markdown_artifact(
            f"```text\n{verdict.table()}\n```", key=key, description=f"{version.tag.name} for {stage}"
        )
    except httpx.HTTPError as error:  # the file has it as well
        get_run_logger().warning(f"could not send the verdict to the server: {error!r}")
    return verdict


@contextmanager
def cancellable() -> Iterator[None]:
    """Raise `Cancelled` once somebody has cancelled the run, at the latest at the end: nothing in the block looks.

    The block is ended by SIGTERM, as by the worker that ends a deployment's run: a thread does so where none does.
    """
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None:
        yield
        return
    monitor, cancellation = PrefectMonitor(), Cancellation(run)
    over, cancelled = threading.Event(), threading.Event()

    def look() -> None:
        while not over.wait(LOOK):
            with suppress(httpx.HTTPError, PrefectException):  # not known now: asked again
                if cancellation.is_due():
                    cancelled.set()
                    os.kill(os.getpid(), signal.SIGTERM)
                    return

    looking = threading.Thread(target=look, name="cancelled?", daemon=True)
    looking.start()
    try:
        try:
            yield
        finally:
            over.set()
            looking.join()
    except Exception:
        monitor.look(at_once=True)  # what failed may have failed for that
        raise
    except BaseException:
        if cancelled.is_set():
            raise Cancelled from None
        raise
    monitor.look(at_once=True)


def complete(said: str) -> None:
    """Make the server accept that the run has completed, even if it was cancelled meanwhile."""
    run = UUID(flow_run.get_id())
    with suppress(httpx.HTTPError, PrefectException), get_client(sync_client=True) as client:
        if is_cancelled(run):
            client.set_flow_run_state(run, Completed(message=said), force=True)


def approved(verdict: Verdict, seconds: int) -> str:
    """Pause until a person has filled in the form with the comparison, and return who approved.

    Raises `VerdictNo` if it is declined or nobody answers in time.
    """
    model = f"{verdict.name}@{verdict.version}"
    asked = f"Promote {model} to {verdict.stage}?\n\n```text\n{verdict.table()}\n```"
    try:
        answer = pause_flow_run(wait_for_input=Approval.with_initial_data(description=asked), timeout=seconds)
    except FlowPauseTimeout:
        said = f"nobody approved {model} for {verdict.stage} within {seconds} s"
        with get_client(sync_client=True) as client:  # the server lets such a run fail by words of its own alone
            client.set_flow_run_state(UUID(flow_run.get_id()), Failed(message=said), force=True)
        raise VerdictNo(said) from None
    name = answer.name.strip()
    if not answer.approve:
        raise VerdictNo(f"{name or 'a person'} did not approve {model} for {verdict.stage}")
    if not name:
        raise InputError("an approval needs the name of the person who gives it")
    return name


def reopened(asked: Registry, name: str, stage: str, decided: str) -> Registry:
    """Return the registry by the policy as it is now: who may promote may have changed while a person was asked.

    Without one, `params.yaml` stays as it was read: others may edit it meanwhile. decided: the digest of the rules that
    the verdict is by. Raises `RunError` if they have changed.
    """
    repository = Repository(asked.project.folder)
    registry = replace(asked, repository=repository, authority=Authority.of(repository, name))
    if rules.digest(registry.deciding, name, registry.stage(stage)) != decided:
        raise RunError(f"the rules for {name} in {stage} have changed since the verdict: run again to judge by these")
    return registry


@task(cache_policy=NO_CACHE, retries=0)
def promoted(registry: Registry, version: Version, stage: str, verdict: Verdict, approved_by: str | None) -> Assignment:
    """Make the version live."""
    return promoting.promote(registry, version, stage, verdict, approved_by=approved_by, flow_run=flow_run.get_id())
