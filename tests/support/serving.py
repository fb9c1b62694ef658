"""Write a small project's `prefect.yaml`, and serve it."""

import os
import subprocess
import sys
from pathlib import Path

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]


def entry(name, *, every=None, pool="test", **parameters):
    """Return one deployment; `every` is its schedule's interval in seconds."""
    schedules = [{"interval": every, "timezone": "UTC", "slug": "often"}] if every else []
    return {
        "name": name,
        "entrypoint": "flows/training.py:training",
        "parameters": {"pipeline": "tiny", **parameters},
        "tags": ["tapeline"],
        "work_pool": {"name": pool},
        "concurrency_limit": {"limit": 1, "collision_strategy": "CANCEL_NEW"},
        "schedules": schedules,
    }


def write(folder, *entries):
    """Write the file."""
    step = {"prefect.deployments.steps.set_working_directory": {"directory": "{{ $TAPELINE_CHECKOUT }}"}}
    with (folder / "prefect.yaml").open("w") as file:
        YAML().dump({"pull": [step], "deployments": list(entries)}, file)


def prepare(folder):
    """Link this checkout's flows into a project, and commit everything on `main`."""
    (folder / "flows").symlink_to(ROOT / "flows")
    (folder / ".gitignore").write_text(".tapeline/\nflows\nserve.log\nprefect.yaml\n")
    subprocess.run(["git", "branch", "-M", "main"], cwd=folder, check=True)
    commit(folder, "what is served")


def commit(folder, message):
    """Commit everything."""
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    subprocess.run(["git", *who, "commit", "-qm", message], cwd=folder, check=True)


def environment(server=None):
    """Return the environment for serving, with a configured server or without."""
    given = {"PREFECT_API_URL": server} if server else {}
    return {**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_RUNNER_POLL_FREQUENCY": "1", **given}


def started(folder, *arguments, server=None):
    """Start `python -m flows.serve` in a folder; its output goes to `serve.log`."""
    command = [sys.executable, "-m", "flows.serve", *arguments]
    with (folder / "serve.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=environment(server), stdout=log, stderr=log)
