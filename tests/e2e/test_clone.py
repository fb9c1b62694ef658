"""The real thing: a fresh clone, real digits, the flow, `dvc repro`, a trainer that is killed."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
OUTS = ("data", "runs", "models")


def call(folder, *command, status=0, timeout=280):
    answer = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert answer.returncode == status, answer.stdout + answer.stderr
    return answer


def environment():
    """No activated environment but this interpreter's folder, and no server that happens to run."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "PYTHON", "DVC_"))}
    return {**kept, "PATH": f"{BIN}:{kept['PATH']}", "CUDA_VISIBLE_DEVICES": "-1"}


def sums(folder):
    """Return the SHA-256 of every out; what describes the machine is none."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in OUTS
        for path in sorted((folder / part).rglob("*"))
        if path.is_file() and path.name not in (".gitignore", "environment.json")
    }


def cloned(source, folder):
    """Clone a tree as it is, committed or not, with an empty cache."""
    call(ROOT, "git", "clone", "--quiet", source, folder)
    for name in call(source, "git", "ls-files", "--modified", "--others", "--exclude-standard").stdout.splitlines():
        if (source / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((source / name).read_bytes())
    return folder


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return cloned(ROOT, tmp_path_factory.mktemp("clone") / "tapeline")


def flow(folder, *arguments, status=0):
    return call(folder, sys.executable, "-m", "flows.training", *arguments, status=status)


def test_the_flow_takes_the_line_through_all_stages_and_then_has_nothing_to_do(clone):
    first = flow(clone, "--pipeline", "linear-regression")
    made = sums(clone)
    assert "models/linear-regression/saved_model/saved_model.pb" in made
    model = json.loads((clone / "models/linear-regression/model.json").read_text())
    assert model["verdict"]["verdict"] == "yes"
    lock = (clone / "dvc.lock").read_bytes()

    marker = clone / ".tapeline" / "outcome" / "train@linear-regression.json"
    written = marker.stat().st_mtime_ns
    second = flow(clone, "--pipeline", "linear-regression")
    assert (second.stdout + second.stderr).count("unchanged") >= 4
    assert marker.stat().st_mtime_ns == written, "no stage ran"
    assert sums(clone) == made
    assert (clone / "dvc.lock").read_bytes() == lock
    assert "epoch 200" in first.stdout + first.stderr


@pytest.mark.slow
def test_bare_dvc_repro_gives_the_bytes_and_the_lock_of_the_flow(clone, tmp_path):
    """All pipelines of the root, once by the flow and once by `dvc repro` in another clone; then nothing runs."""
    for name in ("digits", "linear-regression"):
        flow(clone, "--pipeline", name)
    other = cloned(clone, tmp_path / "ordner mit ö" / "tapeline")
    lock = (clone / "dvc.lock").read_bytes()
    answer = call(other, BIN / "dvc", "repro", "--force")
    assert answer.stdout.count("Running stage") == 8
    assert sums(other) == sums(clone)
    assert (other / "dvc.lock").read_bytes() == lock
    assert "Running stage" not in call(other, BIN / "dvc", "repro").stdout


@pytest.mark.slow
def test_a_killed_training_goes_on_and_ends_with_the_same_bytes(clone, tmp_path):
    """SIGKILL `tapeline train digits` half-way, twice, and run it again."""
    call(clone, BIN / "dvc", "repro", "train@digits")
    expected = {name: value for name, value in sums(clone).items() if name.startswith("runs/digits/train")}
    other = cloned(clone, tmp_path / "tapeline")
    call(other, sys.executable, "-m", "tapeline", "ingest", "digits")
    for after in (200, 700):
        process = subprocess.Popen(
            [sys.executable, "-m", "tapeline", "train", "digits"],
            cwd=other,
            env={**environment(), "PYTHONPATH": str(other / "src")},
            stderr=subprocess.PIPE,
            text=True,
        )
        kill_at(process, other, after)
    answer = call(other, sys.executable, "-m", "tapeline", "train", "digits")
    assert "going on from step" in answer.stderr
    assert {name: value for name, value in sums(other).items() if name.startswith("runs/digits/train")} == expected


def kill_at(process, folder, step):
    """SIGKILL when a checkpoint is there and `step` is passed."""
    path = folder / ".tapeline" / "progress" / "train@digits.jsonl"
    end = time.monotonic() + 200
    while True:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        records = (
            [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
            if path.exists()
            else []
        )
        if any(record["event"] == "progress" and record["done"] >= step for record in records):
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.slow
def test_digits_are_learned_with_any_of_three_seeds(clone, tmp_path):
    """Mean test accuracy of at least 0.985, none under 0.98; scikit-learn's documented SVC on this split has 0.969."""
    from ruamel.yaml import YAML

    figures = []
    for seed in (1, 2, 3):
        yaml = YAML()
        params = yaml.load((ROOT / "params.yaml").read_text())
        params["pipelines"]["digits"]["train"]["seed"] = seed
        with (clone / "params.yaml").open("w") as file:
            yaml.dump(params, file)
        call(clone, BIN / "dvc", "repro", "validate@digits")
        figures.append(json.loads((clone / "runs/digits/validate/metrics.json").read_text())["accuracy"])
    (clone / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    print("test accuracies", figures)
    assert min(figures) >= 0.98
    assert sum(figures) / 3 >= 0.985
