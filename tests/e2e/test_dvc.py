"""What DVC's users expect of any project: run-cache, experiments, differences, plots, push and pull."""

import json
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


def test_an_experiment_is_run_and_shown_beside_its_baseline(built):
    call(built, DVC, "exp", "run", "--temp", "--name", "faster", "-S", f"{RATE}=0.03", f"validate@{PIPELINE}")
    table = call(built, DVC, "exp", "show", "--csv").stdout.splitlines()
    assert any("faster" in line and "0.03" in line for line in table), table
    assert not call(built, "git", "status", "--porcelain").stdout, "the checkout is as it was"


def test_plots_are_drawn(built):
    call(built, DVC, "plots", "show", f"runs/{PIPELINE}/train/history.csv", f"{PIPELINE}: predicted")
    page = (built / "dvc_plots" / "index.html").read_text()
    assert "vega" in page and "history.csv" in page and f"{PIPELINE}: predicted" in page
    assert "['val_loss'] !== ''" in page, "epochs that were not validated are no zeros in the curve"
    shutil.rmtree(built / "dvc_plots")


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
    """Another version in params.yaml makes every stage stale, and the stages refuse to run with what is installed."""
    params = (built / "params.yaml").read_text()
    installed = metadata.version("tensorflow")
    (built / "params.yaml").write_text(params.replace(f"tensorflow: {installed}", "tensorflow: 2.0.0"))
    try:
        stale = call(built, DVC, "repro", "--dry", "ingest@line").stdout
        assert "Running stage 'ingest@line'" in stale
        refused = call(built, DVC, "repro", f"export@{PIPELINE}", status=255)
        assert f"is 2.0.0 and {installed} is installed" in refused.stderr + refused.stdout
    finally:
        (built / "params.yaml").write_text(params)
