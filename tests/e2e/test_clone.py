"""The real thing: a fresh clone, real digits, the flow, `dvc repro`, a trainer that is killed."""

import json
import signal
import subprocess
import sys
import time

import pytest
from clones import BIN, ROOT, call, cloned, environment, sums


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return cloned(ROOT, tmp_path_factory.mktemp("clone") / "tapeline")


def flow(folder, *arguments, status=0):
    return call(folder, sys.executable, "-m", "flows.training", *arguments, status=status)


@pytest.mark.slow
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
    flow(clone, "--pipeline", "linear-regression")
    said = flow(clone, "--pipeline", "digits")
    (verdict,) = [line for line in (said.stdout + said.stderr).splitlines() if line.startswith("verdict yes ")]
    assert f"\n{verdict.rstrip()}\n" in (ROOT / "README.md").read_text(), verdict
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
    assert "resuming from step" in answer.stderr
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
@pytest.mark.long
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
