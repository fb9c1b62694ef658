"""What DVC's users expect of any project: run-cache, experiments, differences, plots, push and pull."""

import json
import re
import shutil
from importlib import metadata

import pytest
from clones import BIN, ROOT, call, cloned, sums

PIPELINE = "linear-regression"
DVC = BIN / "dvc"
RATE = f"pipelines.{PIPELINE}.params.learning_rate"

pytestmark = pytest.mark.slow


def set_rate(folder, value):
    params = (folder / "params.yaml").read_text()
    before, after = params.split(f"  {PIPELINE}:", 1)
    old = next(line for line in after.splitlines() if "learning_rate" in line)
    changed = after.replace(old, f"    params: {{learning_rate: {value}}}", 1)
    (folder / "params.yaml").write_text(f"{before}  {PIPELINE}:{changed}")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A clone with one pipeline built, the others not, and a remote in a folder."""
    folder = cloned(ROOT, tmp_path_factory.mktemp("built") / "tapeline")
    call(folder, "git", "config", "user.email", "test@example.org")
    call(folder, "git", "config", "user.name", "Test")
    call(folder, DVC, "repro", f"export@{PIPELINE}")
    call(folder, DVC, "remote", "add", "--default", "store", str(folder.parent / "store"))
    call(folder, "git", "add", "--all")
    call(folder, "git", "commit", "--quiet", "--allow-empty", "--message", "state")
    return folder


def test_a_parameter_changed_and_changed_back_trains_nothing(built):
    lock, made = (built / "dvc.lock").read_bytes(), sums(built)
    set_rate(built, 0.02)
    assert f"Running stage 'train@{PIPELINE}'" in call(built, DVC, "repro", f"export@{PIPELINE}").stdout
    assert sums(built) != made

    assert RATE in call(built, DVC, "params", "diff").stdout
    differing = json.loads(call(built, DVC, "metrics", "diff", "--json").stdout)
    assert differing[f"runs/{PIPELINE}/validate/metrics.json"]["root_mean_squared_error"]["diff"] != 0

    set_rate(built, 0.01)
    again = call(built, DVC, "repro", f"export@{PIPELINE}").stdout
    assert f"Stage 'train@{PIPELINE}' is cached - skipping run" in again
    assert "epoch" not in again, "nothing was trained"
    assert (built / "dvc.lock").read_bytes() == lock and sums(built) == made


@pytest.mark.long
def test_an_experiment_is_run_and_shown_beside_its_baseline(built):
    call(built, DVC, "exp", "run", "--temp", "--name", "faster", "-S", f"{RATE}=0.03", f"validate@{PIPELINE}")
    table = call(built, DVC, "exp", "show", "--csv").stdout.splitlines()
    assert any("faster" in line and "0.03" in line for line in table), table
    assert not call(built, "git", "status", "--porcelain").stdout, "the checkout is as it was"


def drawn(folder, *targets):
    """Return the page of `dvc plots show`, and what it draws: each place's specification by its id."""
    call(folder, DVC, "plots", "show", *targets)
    page = (folder / "dvc_plots" / "index.html").read_text()
    shutil.rmtree(folder / "dvc_plots")
    found = re.findall(r'<div id = "([^"]+)">\s*<script type = "text/javascript">\s*var spec = (.*);\n', page)
    return page, {place: json.loads(specification) for place, specification in found}


def test_plots_of_what_is_built_are_drawn(built):
    page, places = drawn(built)
    made = f"runs_{PIPELINE}_"
    assert {place for place, specification in places.items() if specification} == {
        f"{made}train_history_csv",
        f"{made}validate_plots_predicted_csv",
    }
    curve = places[f"{made}train_history_csv"]
    assert {row["step"] for row in curve["data"]["values"]} and "val_loss" in json.dumps(curve["transform"])
    assert len(places) > 10, "DVC makes places for the gallery's too, which are not built"
    if browser := shutil.which("chromium"):
        (built.parent / "page.html").write_text(page)
        offline = ["--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom"]
        shown = call(built, browser, *offline, f"file://{built.parent}/page.html").stdout
        drawn_ = re.findall(r'<div id="([^"]+)"', shown)
        assert sorted(drawn_) == sorted(place for place, specification in places.items() if specification)
        assert "Not there yet: " in shown and "gallery_runs_mnist-gan_train_history_csv" in shown
        assert re.findall(r"<h2>([^<]+)</h2>", shown) == [f"runs/{PIPELINE}"]


@pytest.mark.long
def test_plots_of_a_new_pipeline_are_drawn_without_a_further_edit(built, tmp_path):
    """Its definition of three kinds of file is in the stage, for every pipeline of params.yaml."""
    folder = tmp_path / "own"
    shutil.copytree(built, folder, symlinks=True)
    params = (folder / "params.yaml").read_text()
    tiny = """
  softmax:
    dataset: digits
    recipe: src/tapeline/recipes/digits_cnn.py
    needs: data/digits
    params: {learning_rate: 0.002, dropout: 0.4, shift: 1, rotation: 15, decay_steps: 30}
    train: {epochs: 2, batch_size: 64}
    validate: {}
    export: {}
"""
    (folder / "params.yaml").write_text(
        params.replace("\npipelines:", f"\npipelines:{tiny}", 1).replace("{}\n\n", "{}\n")
    )
    call(folder, DVC, "repro", "validate@softmax")
    _, places = drawn(folder)
    confusion = places["runs_softmax_validate_plots_confusion_csv"]
    assert len(confusion["data"]["values"]) == 899
    assert {"actual", "predicted"} <= confusion["data"]["values"][0].keys()
    assert "runs/softmax/validate/plots/confusion.csv" in confusion["title"]["text"]
    assert places["runs_softmax_validate_plots_calibration_csv"]["data"]["values"]
    assert places["runs_softmax_train_history_csv"]["data"]["values"]


def test_a_clone_is_up_to_date_after_a_pull(built, tmp_path):
    call(built, DVC, "push")
    clone = tmp_path / "consumer"
    call(tmp_path, "git", "clone", "--quiet", built, clone)
    call(clone, DVC, "pull", f"export@{PIPELINE}", f"validate@{PIPELINE}", f"train@{PIPELINE}", "ingest@line")
    again = call(clone, DVC, "repro", f"export@{PIPELINE}").stdout
    assert "Running stage" not in again
    assert {path: sum_ for path, sum_ in sums(built).items() if PIPELINE in path} == {
        path: sum_ for path, sum_ in sums(clone).items() if PIPELINE in path
    }


def test_an_upgrade_of_tensorflow_is_a_change_that_both_sides_see(built):
    """Another version in engine.lock makes every stage stale, and the stages refuse to run with what is installed."""
    lock = (built / "engine.lock").read_text()
    installed = metadata.version("tensorflow")
    (built / "engine.lock").write_text(lock.replace(f'tensorflow: "{installed}"', 'tensorflow: "2.0.0"'))
    try:
        stale = call(built, DVC, "repro", "--dry", "ingest@line").stdout
        assert "Running stage 'ingest@line'" in stale
        refused = call(built, DVC, "repro", f"export@{PIPELINE}", status=255)
        assert f"engine.lock has tensorflow 2.0.0, but {installed} is installed" in refused.stderr + refused.stdout
    finally:
        (built / "engine.lock").write_text(lock)
