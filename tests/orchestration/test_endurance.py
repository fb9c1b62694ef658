"""A schedule of every few seconds that goes on by itself: through new data, a killed server and a killed runner.

    TAPELINE_ENDURANCE=600 pytest -s -m slow tests/orchestration/test_endurance.py

serves for so many seconds (a minute or two without the variable) and prints what became of every run.
"""

import itertools
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from datetime import UTC, datetime

import httpx
import psutil
import pytest
from serving import commit, entry, prepare, started, write
from surroundings import started_by

SECONDS = float(os.environ.get("TAPELINE_ENDURANCE", "90"))
EVERY = 20 if SECONDS >= 300 else 6
TAKES = 30 if SECONDS >= 300 else 4
"""Seconds between two scheduled runs, and seconds that training takes."""

PATIENCE = 180.0
"""Seconds that a recovery may take; it takes a third of that where nothing else runs."""


class Served:
    """A project that is served on a server of its own, and what is seen of it from outside."""

    def __init__(self, folder, process, port):
        self.folder, self.process = folder, process
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}/api", timeout=30, trust_env=False)

    def runs(self, *states):
        """Every run that has been due, the earliest first; the server may be gone for a while."""
        found, page = [], True
        while page:
            wanted = {"sort": "EXPECTED_START_TIME_ASC", "limit": 200, "offset": len(found)}
            wanted["flow_runs"] = {"expected_start_time": {"before_": datetime.now(UTC).isoformat()}}
            try:
                user, _, password = (self.folder / ".tapeline" / "prefect" / "auth").read_text().strip().partition(":")
                asked = self.client.post("/flow_runs/filter", json=wanted, auth=(user, password))
                page = asked.raise_for_status().json()
            except (FileNotFoundError, httpx.HTTPError):  # the password is made with the first server
                return []
            found += page
        return [run for run in found if not states or run["state_type"] in states]

    def completed_after(self, moment):
        return [run for run in self.runs("COMPLETED") if datetime.fromisoformat(run["end_time"]).timestamp() > moment]

    def child(self, word):
        """The process of ours whose command has the word."""
        return next((c for c in started_by(self.process.pid) if word in c.cmdline()), None)

    def memory(self):
        """MB of the three processes that stay."""
        staying = [
            psutil.Process(self.process.pid),
            self.child("uvicorn"),
            self.child("tapeline.orchestration.schedules.runner"),
        ]
        return [round(process.memory_info().rss / 1e6) for process in staying if process]

    def disk(self):
        """MB below the project, without Prefect's database, in which every run has its history."""
        files = [f for f in self.folder.rglob("*") if f.is_file() and "prefect" not in f.parts and not f.is_symlink()]
        return round(sum(file.lstat().st_size for file in files if file.exists()) / 1e6, 2)


@pytest.fixture
def served(project, with_database):
    folder = project(f"takes {TAKES}")
    with_database(folder)
    prepare(folder)
    write(folder, entry("often", every=EVERY, isolated=True))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = started(folder, "--port", str(port))
    served = Served(folder, process, port)
    yield served
    served.client.close()
    process.terminate()
    process.wait(timeout=90)


def trained(folder):
    """How often training was begun and how often it went on, by the log of what was served."""
    log = (folder / "serve.log").read_text()
    return log.count("'train@tiny' - first line"), log.count("resuming from step")


def kill_with_children(process):
    """What a machine's out-of-memory killer or a container's end does: nobody can say anything any more."""
    family = [process, *process.children(recursive=True)]
    for member in family:
        member.send_signal(signal.SIGSTOP)
    for member in family:
        member.kill()


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(SECONDS + 600)
def test_a_schedule_goes_on_by_itself(served, until):
    until(lambda: served.runs("COMPLETED"), limit=180)
    began = time.time()
    versions, samples, recovered = 1, [], {}
    data = served.folder / "points.csv"
    third = SECONDS / 3
    while (passed := time.time() - began) < SECONDS or "worker" not in recovered:
        if "server" not in recovered and passed > third:
            served.child("uvicorn").kill()
            at = time.time()
            until(lambda at=at: served.completed_after(at), limit=PATIENCE)
            outage = (at - 60, time.time())  # a run may be due long before it first asks the server
            recovered["server"] = round(time.time() - at, 1)
        if "worker" not in recovered and passed > 2 * third:
            until(
                lambda all=versions: len(branches(served.folder)) == all, limit=PATIENCE
            )  # the run before is not a victim
            data.write_text(data.read_text() + f"{versions}\n")
            (served.folder / "behaviour").write_text(f"takes {max(30, TAKES)}")  # still at work when it is found
            commit(served.folder, "data for the run that is killed")
            versions += 1
            progress = served.folder / ".tapeline/checkpoints/tiny/step"
            until(progress.exists, limit=PATIENCE)
            [victim] = served.runs("RUNNING")
            kill_with_children(served.child("tapeline.orchestration.schedules.runner"))
            at = time.time()
            until(lambda at=at: served.runs("CRASHED"), limit=PATIENCE)
            recovered["dead run marked"] = round(time.time() - at, 1)
            until(lambda at=at: trained(served.folder)[1], limit=PATIENCE)
            recovered["worker"] = round(time.time() - at, 1)
        if passed > versions * max(third, 100) / 2:
            data.write_text(data.read_text() + f"{versions}\n")
            commit(served.folder, "more data")
            versions += 1
        samples.append((round(passed), served.memory(), served.disk()))
        time.sleep(EVERY / 2)
    until(lambda: len(branches(served.folder)) == versions, limit=PATIENCE)
    runs = until(lambda: idle(served.runs()), limit=PATIENCE)
    told(began, runs, samples, recovered, versions)
    due = [datetime.fromisoformat(run["expected_start_time"]).timestamp() for run in runs]
    crashed = {run["id"]: at for run, at in zip(runs, due, strict=True) if run["state_type"] == "CRASHED"}
    assert crashed.pop(victim["id"], None), "the run that was killed"
    assert all(outage[0] < at < outage[1] for at in crashed.values()), "others had no server to begin with"
    assert all(later - earlier < 1.5 * EVERY for earlier, later in itertools.pairwise(due)), "none is missing"
    states = Counter(run["state_type"] for run in runs if run["state_type"] != "SCHEDULED")
    assert set(states) <= {"COMPLETED", "CANCELLED", "CRASHED"}, states
    assert len(served.runs("SCHEDULED")) <= 5, "no pile-up"
    starts, resumed = trained(served.folder)
    assert (starts, resumed) == (versions + 1, 1), (
        "nothing is trained twice: the killed one is begun again, and goes on"
    )
    assert max(recovered.values()) < PATIENCE
    samples = [sample for sample in samples if len(sample[1]) == 3]  # a killed one has none for a moment
    first, last = samples[len(samples) // 4], samples[-1]
    assert sum(last[1]) < 1.3 * sum(first[1]) + 50, "memory stays"
    assert last[2] < first[2] + 1, "disk stays"


def idle(runs):
    """The runs, if all have ended or are still to come."""
    return [] if any(run["state_type"] in ("RUNNING", "PENDING") for run in runs) else runs


def branches(folder):
    command = ["git", "branch", "--list", "runs/*", "--format=%(refname:short)"]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.splitlines()


def told(began, runs, samples, recovered, versions):
    names = Counter(run["state_name"] for run in runs)
    print(f"\n{len(runs)} runs were due in {time.time() - began:.0f} s, every {EVERY} s: {dict(names)}")
    print(f"{versions} versions of the data, {versions} branches; seconds until it went on: {recovered}")
    for passed, memory, disk in (samples[0], samples[len(samples) // 4], samples[len(samples) // 2], samples[-1]):
        print(f"after {passed:4} s: serve, server, runner {memory} MB; disk {disk} MB")
