"""SIGKILL at any moment of a promotion or a rollback: who looks at the tags or at the folder sees one whole version.

`TAPELINE_PROMOTION_KILLS` says how many moments (8). The delays are drawn from nothing to somewhat more than the time that a
command takes, so that some come before everything and some after.
"""

import itertools
import json
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import clones
import pytest
from registries import TAPELINE
from repositories import git

KILLS = int(os.environ.get("TAPELINE_PROMOTION_KILLS", "8"))
VERSIONS = ("v1.0.0", "v1.0.1", "v1.0.2")


class Reader(threading.Thread):
    """Looks again and again; what a look finds wrong, or an exception of it, is kept."""

    def __init__(self, look):
        super().__init__(daemon=True)
        self.look, self.looks, self.seen, self.wrong, self.done = look, 0, set(), [], threading.Event()

    def run(self):
        while not self.done.is_set():
            try:
                self.seen.add(self.look())
            except Exception as error:
                self.wrong.append(repr(error))
            self.looks += 1
            self.done.wait(0.002)  # leaves the machine to what is watched

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join(30)


def in_the_tags(folder: Path):
    """Return the version that plain Git shows as live: the one on the commit of the latest assignment."""
    form = "--format=%(refname:strip=2) %(objecttype) %(*objectname) %(contents:size) %(taggerdate:unix)"
    rows = [row.split(" ") for row in git(folder, "for-each-ref", form, "refs/tags").splitlines()]
    assert all(row[1] == "tag" for row in rows)
    versions = {row[2]: row[0].removeprefix("one@") for row in rows if row[0].startswith("one@")}
    assigned = [row for row in rows if row[0].startswith("one#prod#")]
    times = [row[4] for row in assigned]
    assert len(times) == len(set(times)), "two assignments of one second have no order"
    latest = max(assigned, key=lambda row: int(row[4]))
    assert int(latest[0].rpartition("#")[2]) == max(int(row[0].rpartition("#")[2]) for row in assigned)
    return versions[latest[2]]


def in_the_folder(folder: Path):
    """Return the version in the highest integer, every byte of it looked at."""
    serving = folder / "serving" / "one"
    top = serving / str(max(int(path.name) for path in serving.iterdir() if path.name.isdigit()))
    index = json.loads((top / "version.json").read_text())
    assert (top / "saved_model.pb").read_text() == "graph"
    (value,) = set((top / "variables" / "variables.data").read_text())
    assert (top / "variables" / "variables.data").stat().st_size == 200_000
    assert index["version"] == f"v1.0.{int(value) - 1}"
    assert sorted(p.name for p in top.rglob("*") if p.is_file()) == ["saved_model.pb", "variables.data", "version.json"]
    return index["version"]


def noted(registry) -> Path:
    """Return where a rollback notes what it does until it has done it."""
    return registry.folder / ".tapeline" / "registry" / "rollbacks" / "one#prod.json"


def start(registry, arguments):
    environment = {**clones.environment(), "PYTHONPATH": str(clones.ROOT / "src")}
    return subprocess.Popen(
        [*TAPELINE, "registry", *arguments],
        cwd=registry.folder,
        env=environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def change(kind, trail, chance):
    """Return a command that changes what is live, and the trail that it leaves: what was live, a step back undone."""
    if kind == "step back" and len(trail) > 1:
        *_, wanted, _ = trail
        return ("rollback", "one", "prod"), trail[: trail.index(wanted) + 1]
    wanted = chance.choice([version for version in VERSIONS if version != trail[-1]])
    if kind == "rollback":
        left = trail[: trail.index(wanted) + 1] if wanted in trail else [*trail, wanted]
        return ("rollback", "one", "prod", "--to", wanted), left
    return ("promote", f"one@{wanted}", "prod"), [*trail, wanted]


@pytest.mark.slow
@pytest.mark.timeout(120 + 60 * KILLS)
def test_killed_at_random_moments(registry):
    chance = random.Random(KILLS)
    kinds = itertools.cycle(("step back", "promote", "rollback"))
    trail = list(VERSIONS)
    note = noted(registry)
    killed = finished = between = 0
    with Reader(lambda: in_the_tags(registry.folder)) as tags, Reader(lambda: in_the_folder(registry.folder)) as served:
        started = time.monotonic()
        registry("registry", "promote", "one@v1.0.2", "prod")
        whole = time.monotonic() - started
        while killed < KILLS:
            command, trail = change(next(kinds), trail, chance)
            started = time.monotonic()
            child = start(registry, command)
            try:
                child.wait(chance.uniform(0, 1.3 * whole))
                finished += 1
                whole = min(whole, time.monotonic() - started)  # the first one may have waited for a busy machine
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                killed += 1
            done = in_the_tags(registry.folder) == trail[-1] and not note.exists()
            between += in_the_tags(registry.folder) != in_the_folder(registry.folder)
            if command != ("rollback", "one", "prod") or not done:  # one more step back is one more
                registry("registry", *command)
            assert in_the_tags(registry.folder) == in_the_folder(registry.folder) == trail[-1], command
        assert not tags.wrong and not served.wrong, (tags.wrong[:3], served.wrong[:3])
    print(
        f"{killed} killed, {finished} had finished, {between} left tag and folder apart; "
        f"{tags.looks} looks at the tags, {served.looks} at the folder"
    )
    assert tags.seen | served.seen <= set(VERSIONS)
    assert not [path for path in (registry.folder / "serving" / "one").iterdir() if path.name.startswith(".")]
    assert len({row["version"] for row in json.loads(registry.gto("history", "one", "--json"))}) == 3


@pytest.mark.slow
def test_a_step_back_that_was_killed_is_finished_and_not_repeated(registry):
    """Killed as soon as its tag is there: running again says what it did, and goes no step further."""
    note = noted(registry)
    registry("registry", "promote", "one@v1.0.2", "prod")
    before = registry.tags()
    for _ in range(20):
        child = start(registry, ("rollback", "one", "prod"))
        while child.poll() is None and registry.tags() == before:
            time.sleep(0.001)
        os.killpg(child.pid, signal.SIGKILL) if child.poll() is None else None
        if child.wait() == -signal.SIGKILL and note.exists():  # else it was done, and only had to leave
            break
        registry("registry", "promote", "one@v1.0.2", "prod")
        before = registry.tags()
    else:
        pytest.skip("each of 20 rollbacks ended before it could be killed")
    said = registry("registry", "rollback", "one", "prod").stdout
    assert said.startswith("one in prod: v1.0.2 → v1.0.1 ")
    assert in_the_tags(registry.folder) == in_the_folder(registry.folder) == "v1.0.1"
    assert registry("registry", "rollback", "one", "prod").stdout.startswith("one in prod: v1.0.1 → v1.0.0 ")
