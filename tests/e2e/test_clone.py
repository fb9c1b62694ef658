"""The real thing: a fresh clone, real digits, the flow, `dvc repro`, a trainer that is killed."""

import json
import signal
import subprocess
import sys
import time

import pytest
from clones import BIN, ROOT, call, cloned, environment, sums

from tapeline.runtime.environment import has_portable_bits

TRAIN = (sys.executable, "-m", "tapeline", "train", "digits")
PROGRESS = ".tapeline/progress/train@digits.jsonl"


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
    """The line, once by the flow and once by `dvc repro` in another clone; then nothing runs."""
    flow(clone, "--pipeline", "linear-regression")
    other = cloned(clone, tmp_path / "ordner mit ö" / "tapeline")
    lock = (clone / "dvc.lock").read_bytes()
    answer = call(other, BIN / "dvc", "repro", "--force", "export@linear-regression")
    assert answer.stdout.count("Running stage") == 4
    made = {name: value for name, value in sums(clone).items() if "digits" not in name}
    assert made and sums(other) == made
    assert (other / "dvc.lock").read_bytes() == lock
    assert "Running stage" not in call(other, BIN / "dvc", "repro", "export@linear-regression").stdout


@pytest.mark.slow
def test_the_flow_learns_digits_as_the_readme_says_and_as_recorded(clone):
    said = flow(clone, "--pipeline", "digits")
    (verdict,) = [line for line in (said.stdout + said.stderr).splitlines() if line.startswith("verdict yes ")]
    assert f"\n{verdict.rstrip()}\n" in (ROOT / "README.md").read_text(), verdict
    if has_portable_bits():
        assert (clone / "dvc.lock").read_bytes() == (ROOT / "dvc.lock").read_bytes()


@pytest.mark.slow
def test_a_killed_training_goes_on_and_ends_with_the_same_bytes(tmp_path):
    """SIGKILL `tapeline train digits` half-way, twice, and run it again."""
    folder = cloned(ROOT, tmp_path / "tapeline")
    params = (folder / "params.yaml").read_text()
    shorter = params.replace("epochs: 100\n", "epochs: 25\n").replace("every_steps: 300", "every_steps: 50")
    assert shorter != params
    (folder / "params.yaml").write_text(shorter)
    call(folder, sys.executable, "-m", "tapeline", "ingest", "digits")
    call(folder, *TRAIN)
    expected = trained(folder)
    for after, arguments in ((70, ["--fresh"]), (200, [])):
        (folder / PROGRESS).unlink()  # of the process before
        process = subprocess.Popen(
            [*TRAIN, *arguments],
            cwd=folder,
            env={**environment(), "PYTHONPATH": str(folder / "src")},
            stderr=subprocess.PIPE,
            text=True,
        )
        kill_at(process, folder, after)
    assert "resuming from step" in call(folder, *TRAIN).stderr
    assert trained(folder) == expected


def trained(folder):
    return {name: value for name, value in sums(folder).items() if name.startswith("runs/digits/train")}


def kill_at(process, folder, step):
    """SIGKILL when a checkpoint is there and `step` is passed."""
    path = folder / PROGRESS
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
