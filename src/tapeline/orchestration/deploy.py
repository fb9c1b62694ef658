"""Bring a Prefect server with workers to what `prefect.yaml` says, and print what that changed.

    tapeline deploy

As `prefect deploy --all`, and then what the file no longer has is removed on the server: deployments and schedules.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tapeline.config.project import Project
from tapeline.orchestration.connection import command, discovery
from tapeline.orchestration.schedules.deployments import CHECKOUT, FILE, Deployment, anchored, read
from tapeline.runtime import leash, streams
from tapeline.runtime.arguments import Parser
from tapeline.runtime.errors import InputError, RunError
from tapeline.runtime.interpreter import with_this_code
from tapeline.runtime.interruption import interrupt

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

LONGEST = 300
"""Characters of an error of Prefect's: it may hold all that the server was sent."""


def main(argv: Sequence[str] | None = None, *, program: str = "tapeline deploy") -> int:
    """Deploy, and return the exit status."""
    description = "update the server at PREFECT_API_URL to match prefect.yaml, and print what changed"
    Parser(prog=program, description=description).parse_args(argv)
    signal.signal(signal.SIGTERM, interrupt)
    return command.status("deploy", lambda: _deploy(Project.find()))


def _deploy(project: Project) -> None:
    discovery.use_configured(project)
    deploy(project.folder)


def deploy(checkout: Path) -> None:
    """Bring the configured server to the checkout's file. Raises `InputError` and `RunError`."""
    wanted = read(checkout / FILE)
    pools = {str(d.work_pool.get("name", "")): d.name for d in wanted}
    if "" in pools:
        raise InputError(
            f"{FILE}: deployment {pools['']} has no work_pool.name, by which a worker finds its runs: add it"
        )

    with command.client(", or use `tapeline serve`, which starts its own") as client:
        from tapeline.orchestration.schedules.reconciliation import reconciled, sharing

        def create() -> None:
            _make_pools(client, pools)
            if wanted:
                _prefect_deploy(checkout)

        lines = reconciled(client, {_full_name(each, checkout): each for each in wanted}, checkout, create)
        notes = [*sharing(client, pools, checkout)]
    streams.say("\n".join([*(lines or ["nothing changed"]), *notes]), sys.stdout)


def _full_name(deployment: Deployment, checkout: Path) -> str:
    """Return a deployment's name on the server: a flow may have another name than its function."""
    from prefect.flows import load_flow_arguments_from_entrypoint

    try:
        flow = load_flow_arguments_from_entrypoint(f"{checkout}/{deployment.entrypoint}", {"name"})["name"]
    except (ValueError, SyntaxError, OSError):  # it is imported into its file, or Prefect says what is wrong
        return deployment.full_name
    return f"{flow}/{deployment.name}"


def _make_pools(client: "SyncPrefectClient", names: Iterable[str]) -> None:
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectNotFound

    for name in names:
        try:
            client.read_work_pool(name)
        except ObjectNotFound:
            client.create_work_pool(WorkPoolCreate(name=name, type="process"))
            streams.say(f"created work pool {name}", sys.stdout)


def _prefect_deploy(checkout: Path) -> None:
    """Call `prefect deploy`. Raises `InputError` for a mistake in the file or in a flow, else `RunError`."""
    path = with_this_code().get("PYTHONPATH", os.environ.get("PYTHONPATH"))
    environment = {
        **os.environ,
        CHECKOUT: str(checkout),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(checkout), path])),
    }

    def called(*command: str) -> "subprocess.CompletedProcess[str]":
        return leash.text([sys.executable, "-m", *command], cwd=checkout, env=environment)

    looked = called("tapeline.orchestration.schedules.mistakes")
    if looked.returncode == InputError.status and looked.stdout:
        raise InputError(looked.stdout.splitlines()[-1])
    with tempfile.TemporaryDirectory(prefix="tapeline-deploy-") as folder:
        file = Path(folder, FILE)
        file.write_text(anchored(checkout / FILE), encoding="utf-8")
        done = called("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file))
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise RunError(f"prefect deploy: {lines[-1][:LONGEST] if lines else f'status {done.returncode}'}")
