"""What the flow costs on a running server: against a bare `dvc repro`, and without work against four empty tasks.

    python benchmarks/flow.py [--repeats 5]

Trivial stages are run in turn by `dvc repro` and by the flow, each time on other data; then an isolated run and one in
place that find nothing to do, and a flow of four empty tasks. Medians from process start to process end.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from servers import running

TEMPLATE = ROOT / "tests" / "orchestration" / "project"
WHO = ("-c", "user.name=t", "-c", "user.email=t@example.org")
EMPTY = """
from prefect import flow, task

@task
def nothing(): pass

@flow
def four():
    for _ in range(4): nothing()

four()
"""


def main():
    parser = argparse.ArgumentParser(description="What the flow costs on a running server.")
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as temporary:
        folder = prepared(Path(temporary) / "project")
        home = Path(temporary) / "server"
        home.mkdir()
        with running(home) as client:
            while not answers(client):
                time.sleep(0.2)
            measure(folder, str(client.base_url).rstrip("/"), repeats)


def measure(folder, server, repeats):
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PREFECT_API_URL": server,
        "PREFECT_HOME": str(folder.parent / "home"),
    }
    flow = [sys.executable, "-m", "flows.training", "--pipeline", "tiny"]
    commands = {
        "dvc repro": [sys.executable, "-P", "-m", "dvc", "repro", "-q", "export@tiny"],
        "the flow": flow,
        "nothing new, in place": flow,
        "nothing new, isolated": [*flow, "--isolated"],
        "four empty tasks": [sys.executable, "-c", EMPTY],
    }
    seconds, work = ({name: [] for name in commands} for _ in range(2))
    for repeat in range(repeats + 1):  # the first warms the disk cache
        for name, command in commands.items():
            if name in ("dvc repro", "the flow"):
                (folder / "points.csv").write_text(f"a\n{repeat}\n{name}\n")
            if name == "nothing new, isolated":
                commit(folder)
            began, used = time.perf_counter(), processor()
            subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
            seconds[name].append(time.perf_counter() - began)
            work[name].append(processor() - used)
    median = {name: statistics.median(taken[1:]) for name, taken in seconds.items()}
    for name, taken in seconds.items():
        each = ", ".join(f"{one:.2f}" for one in sorted(taken[1:]))
        print(f"{name:22} {median[name]:6.2f} s  ({each}); {statistics.median(work[name][1:]):.2f} s of a processor")
    print(f"the flow costs {median['the flow'] - median['dvc repro']:.2f} s more than dvc repro (bound: 6 s)")
    for name in ("nothing new, in place", "nothing new, isolated"):
        print(f"{name}: {median[name] / median['four empty tasks']:.2f} of four empty tasks (bound: 1.3)")


def processor():
    """Return the CPU seconds used by ended child processes: a busy machine hardly changes them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def prepared(folder):
    shutil.copytree(TEMPLATE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    params = (folder / "params.yaml").read_text()
    for library in ("tensorflow", "keras"):
        params = params.replace(library.upper(), metadata.version(library))
    (folder / "params.yaml").write_text(params)
    (folder / "behaviour").write_text("well")
    (folder / ".gitignore").write_text(".tapeline/\n")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    subprocess.run([sys.executable, "-P", "-m", "dvc", "init", "-q"], cwd=folder, check=True)
    commit(folder)
    return folder


def commit(folder):
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    subprocess.run(["git", *WHO, "commit", "-q", "--allow-empty", "-m", "as it is"], cwd=folder, check=True)


def answers(client):
    try:
        return client.get("/health").is_success
    except httpx.HTTPError:
        return False


if __name__ == "__main__":
    main()
