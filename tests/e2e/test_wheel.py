"""The library without a checkout: a wheel in an environment of its own, `tapeline init`, and a model."""

import json
import os
import shutil
import site
import socket
import subprocess
import sys
import time
import venv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def environment(tmp_path_factory, root):
    """An environment with the built wheel; what the wheel depends on is read from where it is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__", ".tapeline")
    shutil.copytree(root / "src", source / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(root / name, source / name)
    hatchling = [sys.executable, "-P", "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(hatchling, cwd=source, check=True, capture_output=True)
    [wheel] = (folder / "dist").glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    binaries = folder / "venv" / "bin"
    pip = [binaries / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    [packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    # A line that is a folder adds it, and not what the .pth files in it add: no editable install comes along.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    (binaries / "dvc").write_text(f'#!/bin/sh\nexec {binaries / "python"} -P -m dvc "$@"\n')
    (binaries / "dvc").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL", "GIT_"))}
    names = {f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return {**kept, **names, "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin"}


@pytest.fixture
def call(environment, tmp_path):
    def run(*command, folder=tmp_path, status=0):
        done = subprocess.run(
            [str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    return run


def test_from_nothing_to_a_live_model(call, tmp_path, root):
    where = call("python", "-c", "import tapeline; print(tapeline.__file__)").strip()
    assert not Path(where).is_relative_to(root)
    call("tapeline", "init")
    call("dvc", "repro")
    assert json.loads((tmp_path / "runs/iris/validate/metrics.json").read_text())["accuracy"] >= 0.9
    call("git", "add", ".")
    call("git", "commit", "-qm", "First")
    assert call("git", "status", "--short") == ""
    assert "up to date" in call("tapeline", "list")
    call("tapeline", "registry", "register", "iris")
    call("tapeline", "registry", "promote", "iris", "prod")
    (tmp_path / "rows.jsonl").write_text(json.dumps({"x": [5.1, 3.5, 1.4, 0.2]}) + "\n")
    assert "setosa" in call("tapeline", "predict", "iris#prod", "rows.jsonl")
    call("tapeline", "predict", "iris#prod", "data/raw/iris.csv", "--out", "registered.csv")
    call("tapeline", "predict", "models/iris", "data/raw/iris.csv", "--out", "folder.csv")
    assert (tmp_path / "registered.csv").read_bytes() == (tmp_path / "folder.csv").read_bytes()
    assert (tmp_path / "serving/iris/1/saved_model.pb").exists()


@pytest.mark.long
def test_flows_without_a_checkout(call, environment, tmp_path):
    """In place, in a worktree, as a sweep and by a schedule."""
    call("tapeline", "init", "--flows")
    prefect = tmp_path / "prefect.yaml"
    prefect.write_text(prefect.read_text().replace('cron: "0 3 * * *"', "interval: 15"))
    call("tapeline", "run", "--pipeline", "iris")
    call("git", "add", ".")
    call("git", "commit", "-qm", "First")
    isolated = ("tapeline", "run", "--pipeline", "iris", "--isolated")
    assert "nothing new" in call(*isolated)
    assert "branch runs/" in call(*isolated, "--set", "train.epochs=3")
    swept = call(
        "tapeline", "sweep", "--pipeline", "iris", "--max", "accuracy", "--trials", "2", "--over", "params.units=[4, 8]"
    )
    assert "tapeline run --pipeline iris" in swept
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "params.yaml").write_text((tmp_path / "params.yaml").read_text().replace("epochs: 50", "epochs: 4"))
    call("git", "commit", "-qam", "Shorter")
    before = set(call("git", "branch", "--list", "runs/*").split())
    serve = [shutil.which("tapeline", path=environment["PATH"]), "serve", "--port", str(port)]
    with (tmp_path / ".tapeline/serve.log").open("w") as log:
        process = subprocess.Popen(serve, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 800
        while set(call("git", "branch", "--list", "runs/*").split()) == before:
            assert time.monotonic() < deadline and process.poll() is None, (
                tmp_path / ".tapeline/serve.log"
            ).read_text()
            time.sleep(1)
    finally:
        process.terminate()
        assert process.wait(200) == 0


def test_in_a_repository_with_a_pipeline_of_its_own(call, tmp_path):
    call("git", "init", "-q")
    call("dvc", "init", "-q")
    own = "stages:\n  mine:\n    cmd: echo a > a.txt\n    outs: [a.txt]\n"
    (tmp_path / "dvc.yaml").write_text(own)
    rows = [f"{n % 11},{n % 7},{3 * (n % 11) - 2 * (n % 7) + 5}.5" for n in range(300)]
    (tmp_path / "sums.csv").write_text("a,b,total\n" + "\n".join(rows) + "\n")
    call("tapeline", "init", "--data", "sums.csv", status=2)
    call("tapeline", "init", "learning", "--data", "sums.csv")
    call("dvc", "repro", "-R", ".")
    assert (tmp_path / "dvc.yaml").read_text() == own
    assert (tmp_path / "a.txt").exists()
    metrics = json.loads((tmp_path / "learning/runs/sums/validate/metrics.json").read_text())
    assert metrics["loss"] < 0.05, metrics


@pytest.mark.long
def test_images(call, tmp_path):
    draw = np.random.default_rng(0)
    for split, count in (("train", 40), ("test", 10)):
        for bright, name in enumerate(("dark", "light")):
            folder = tmp_path / "rooms" / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = draw.integers(120 * bright, 120 * bright + 120, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    said = call("tapeline", "init", "--data", "rooms")
    assert said.splitlines()[-1].startswith("next: `dvc add rooms`, `dvc repro`, ")
    call("dvc", "repro")
    assert json.loads((tmp_path / "runs/rooms/validate/metrics.json").read_text())["accuracy"] >= 0.9


def test_code_that_is_not_the_recorded_one_is_refused(call, tmp_path):
    call("tapeline", "init")
    lock = tmp_path / "engine.lock"
    lock.write_text(lock.read_text().replace("train: ", "train: 0"))
    call("dvc", "repro", "ingest@iris")
    assert call("tapeline", "train", "iris", status=2) == ""
    assert call("tapeline", "lock") == "stale now: train\n"
    call("tapeline", "train", "iris")
