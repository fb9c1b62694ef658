"""A sweep of real isolated runs on a real server: what it finds, that it goes on after a kill, what it refuses."""

import base64
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import validate
from surroundings import below

from tapeline.config.project import Project
from tapeline.orchestration.flows.monitor import Cancelled, as_interrupted
from tapeline.orchestration.flows.sweep import sweep as sweep_flow
from tapeline.orchestration.runs.sweep import repeatable
from tapeline.orchestration.sweeps.page import command, page, summary, winner
from tapeline.orchestration.sweeps.request import SweepRequest
from tapeline.orchestration.sweeps.study import Tried, study
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError, RunError

OVER = {"train.epochs": {"low": 1, "high": 9}}


def request(**more):
    return SweepRequest.of(**{"pipeline": "tiny", "over": OVER, "metric": "distance", "goal": "min"} | more)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"over": {}}, r"parameters\.over is {}"),
        ({"over": {"train.epochs": {"low": 3, "high": 3}}}, "low is 3 and high 3: low must be below high"),
        ({"over": {"train.epochs": {"low": 0, "high": 3, "log": True}}}, "with log it must be above 0"),
        ({"over": {"train.epochs": [1]}}, "over"),
        ({"over": {"environment.keras": [1, 2]}}, "over"),
        ({"overrides": {"train.epochs": 3}}, "train.epochs: both searched over and set"),
        ({"goal": "more"}, r"parameters\.goal is \"more\""),
        ({"trials": 0}, r"parameters\.trials is 0"),
        ({"parallel": 0}, r"parameters\.parallel is 0"),
        ({"seed": -1}, r"parameters\.seed is -1"),
        ({"seed": 2**63}, r"parameters\.seed is 9223372036854775808: must be less"),
        ({"over": {"params.rate": {"low": 1, "high": 2**64}}}, "an integer has more than 64 bits"),
        ({"over": {"params.rate": [1, 2**64]}}, "an integer has more than 64 bits"),
    ],
)
def test_what_is_refused(parameters, message):
    with pytest.raises(InputError, match=message) as refusal:
        request(**parameters)
    assert "\n" not in str(refusal.value)


def test_the_server_refuses_a_seed_that_it_could_not_show():
    """It took one of more than 64 bits, and then answered no question about runs any more."""
    schema = parameter_schema(sweep_flow).model_dump(exclude_unset=True)
    given = {"pipeline": "tiny", "over": OVER, "metric": "distance", "goal": "min"}
    assert not validate(given | {"seed": 2**63 - 1}, schema)
    for seed in (-1, 2**63):
        assert [wrong.path[0] for wrong in validate(given | {"seed": seed}, schema)] == ["seed"]


def test_the_winner_is_the_best_that_passed_the_gate():
    ranked = [
        Tried(2, {"train.epochs": 7, "dataset": "a|b c"}, 0.0, "", "no: too slow"),
        Tried(0, {"train.epochs": 5, "dataset": "a|b c"}, 2.0, "runs/x", "yes"),
    ]
    asked = request(over={**OVER, "dataset": ["a|b c", "d"]})
    assert winner(ranked).branch == "runs/x"
    assert command(asked, ranked) == (
        "tapeline run --pipeline tiny --isolated --set train.epochs=5 --set 'dataset=\"a|b c\"'"
    )
    assert summary(asked, ranked).splitlines()[:3] == [
        "rank  distance  train.epochs  dataset  gate          branch",
        "1     0         7             a|b c    no: too slow",
        "2     2         5             a|b c    yes           runs/x",
    ]
    text = page(asked, ranked)
    assert "| 1 | 0 | 7 | a\\|b c | no: too slow |  |" in text
    assert text.count("](data:image/svg+xml;base64,") == 2, "over trials, and over the one that has an axis"
    words = [base64.b64decode(picture).decode() for picture in re.findall(r"base64,([^)]+)\)", text)]
    for picture, axis in zip(words, ("trial", "train.epochs"), strict=True):
        assert f">{axis}</text>" in picture and ">distance</text>" in picture, "the axes are named"
    assert "No trial passed" not in text
    assert "No trial passed the gate." in page(asked, ranked[:1])


@pytest.mark.parametrize(
    ("over", "values", "numbers"),
    [
        ({"low": 0.0005, "high": 0.1, "log": True}, [0.0006, 0.002, 0.09], ["0.001", "0.01"]),
        ({"low": 0.002, "high": 0.003, "log": True}, [0.0021, 0.0024, 0.0029], ["0.0022", "0.0025", "0.0028"]),
        ({"low": 1, "high": 2}, [1, 2, 2], ["1", "2"]),
    ],
)
def test_an_axis_has_plain_numbers(over, values, numbers):
    """Those of a logarithmic one were formulas, `$\\mathdefault{10^{-3}}$`; between integers there were fractions."""
    ranked = [Tried(n, {"params.it": value}, 0.5, "", "yes") for n, value in enumerate(values)]
    pictures = re.findall(r"base64,([^)]+)\)", page(request(over={"params.it": over}), ranked))
    said = base64.b64decode(pictures[1]).decode().partition('id="matplotlib.axis_2"')[0]
    labels = re.findall(r">([^<>]+)</text>", said)
    assert [label for label in labels if label in numbers] == numbers
    assert all(re.fullmatch(r"[0-9.]+", label) for label in labels if label != "params.it"), labels
    assert isinstance(over["low"], float) or all(label in numbers for label in labels if label != "params.it")


def test_the_winner_s_command_trains_what_the_trials_did(tmp_path):
    git = Git(tmp_path)
    git("init", "--quiet", "--initial-branch=main")
    git("config", "user.name", "t")
    git("config", "user.email", "t@example.org")
    commits = []
    for branch in ("main", "other"):
        if branch == "other":
            git("checkout", "--quiet", "-b", branch)
        git("commit", "--quiet", "--allow-empty", "--message", branch)
        commits.append(git("rev-parse", "HEAD"))
    main, other = commits

    def asked_for(commit, ref=""):
        ranked = [Tried(0, {"train.epochs": 5}, 2.0, "runs/x", "yes", commit)]
        return command(repeatable(git, request(ref=ref), ranked), ranked).removeprefix("tapeline run --pipeline tiny ")

    assert asked_for(main) == asked_for(main, "main") == "--isolated --set train.epochs=5"
    assert asked_for(other, "other") == "--isolated --ref other --set train.epochs=5"
    git("commit", "--quiet", "--allow-empty", "--message", "more")
    assert asked_for(other, "other") == asked_for(other) == f"--isolated --ref {other} --set train.epochs=5"
    git("checkout", "--quiet", "--detach")
    git("branch", "--delete", "--force", "main", "other")
    assert asked_for(main, "main") == f"--isolated --ref {main} --set train.epochs=5"


@pytest.mark.parametrize(
    ("branch", "merged"), [("runs/x", True), ("origin/runs/x", True), ("0123abc at 0123abc", False), ("", False)]
)
def test_only_a_branch_is_offered_to_be_merged(branch, merged):
    text = page(request(), [Tried(0, {"train.epochs": 7}, 0.0, branch, "yes")])
    assert (f"$ git merge {branch} && dvc checkout" in text) == merged
    assert ("or to merge its branch" in text) == merged


def test_a_sweep_that_goes_on_tries_other_values(tmp_path):
    asked = request(over={"params.rate": {"low": 0.0, "high": 1.0}})
    project = Project(tmp_path, tmp_path, tmp_path)
    tried = []
    for _ in range(3):  # as one process after another would
        with study(project, asked, "0123abc", say=print) as found:
            for _ in range(2):
                trial = found.ask()
                found.tell(trial, value=trial.params["params.rate"], branch="", gate="")
                tried.append(trial.params["params.rate"])
    assert len(set(tried)) == 6
    with study(Project(tmp_path, tmp_path, tmp_path / "other"), asked, "0123abc", say=print) as found:
        assert [found.ask().params["params.rate"] for _ in range(2)] == tried[:2], "the seed chooses"


def test_any_seed_is_one(tmp_path):
    for seed in (2**32 - 1, 99_999_999_999):
        asked = request(seed=seed, name=str(seed))
        for _ in range(2):
            with study(Project(tmp_path, tmp_path, tmp_path), asked, "0123abc", say=print) as found:
                found.tell(found.ask(), value=1.0, branch="", gate="")
        assert len(found.ranked()) == 2


def test_a_journal_that_was_cut_at_any_byte_goes_on(tmp_path):
    """Optuna wrote on behind the half line that a full disk had left, and could read it never again."""
    said = []
    asked, project = request(), Project(tmp_path, tmp_path, tmp_path)
    with study(project, asked, "0123abc", say=said.append) as found:
        found.tell(found.ask(), value=1.0, branch="", gate="")
        before = (found.folder / "journal").read_bytes()
        found.tell(found.ask(), value=2.0, branch="", gate="")
    journal = found.folder / "journal"
    for end in range(len(before), len(whole := journal.read_bytes()), 31):
        journal.write_bytes(whole[:end])
        for _ in range(2):
            with study(project, asked, "0123abc", say=said.append) as found:
                found.tell(found.ask(), value=3.0, branch="", gate="")
        assert found.ranked()[0].value == 1.0 and len(found.ranked()) >= 3
    assert set(said) == {f"{journal}: removed its last line, which was truncated"}


@pytest.fixture
def repository(project):
    def make(behaviour="well"):
        folder = project(behaviour)
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        for arguments in (["branch", "-M", "main"], ["add", "-A"], [*who, "commit", "-qm", "what is trained"]):
            subprocess.run(["git", *arguments], cwd=folder, check=True)
        return folder

    return make


@pytest.fixture
def sweep(root, server):
    """Start a sweep in a folder."""

    def popen(folder, *arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "flows.sweep", "--pipeline", "tiny", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(root), "PREFECT_API_URL": server},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(folder, *arguments):
        with popen(folder, *arguments) as process:
            out, err = process.communicate(timeout=600)
        return SimpleNamespace(returncode=process.returncode, stdout=out, stderr=err)

    finish.start = popen
    return finish


LATEST = {"artifacts": {"key": {"any_": ["sweep-tiny"]}}, "sort": "CREATED_DESC", "limit": 1}
SEARCH = ("--min", "distance", "--over", "train.epochs={low: 1, high: 9}")


def branches(folder):
    listed = subprocess.run(
        ["git", "branch", "--list", "runs/*", "--format=%(refname:short)"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return listed.stdout.splitlines()


@pytest.mark.slow
def test_a_sweep_ranks_isolated_runs_and_goes_on_when_asked_for_more(repository, sweep, ask):
    folder = repository()
    done = sweep(folder, *SEARCH, "--trials", "3", "--parallel", "2")
    assert done.returncode == 0, done.stderr
    head, *rows, _, command = done.stdout.splitlines()
    assert head.split() == ["rank", "distance", "train.epochs", "gate", "branch"]
    found = [row.split() for row in rows]
    assert [int(row[0]) for row in found] == [1, 2, 3]
    assert (
        [abs(int(row[2]) - 7) for row in found]
        == [float(row[1]) for row in found]
        == sorted(float(r[1]) for r in found)
    )
    assert {row[4] for row in found} == set(branches(folder))
    assert command == f"tapeline run --pipeline tiny --isolated --set train.epochs={found[0][2]}"
    name = re.search(r"Beginning flow run '([^']+)'", done.stderr)[1]
    left = {a["key"]: a for a in ask("artifacts", {"flow_runs": {"name": {"any_": [name]}}})}
    assert left.keys() == {"sweep-tiny", "sweep-tiny-table", "sweep-tiny-progress"}
    assert [row["rank"] for row in json.loads(left["sweep-tiny-table"]["data"])] == [1, 2, 3]
    assert "![distance over train.epochs](data:image/svg+xml;base64," in left["sweep-tiny"]["data"]

    again = sweep(folder, *SEARCH, "--trials", "3")
    assert again.stdout == done.stdout
    assert "trial " not in again.stderr, "nothing was run"
    fewer = sweep(folder, *SEARCH, "--trials", "2")
    assert (fewer.returncode, fewer.stdout) == (0, done.stdout), "all that are done are ranked, and none is run"
    (folder / "stage.py").write_text("raise SystemExit('what the main branch has by now')")
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@e.org", "commit", "-qam", "x"], cwd=folder, check=True
    )
    first, now = (
        subprocess.run(
            ["git", "rev-parse", name], cwd=folder, check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in ("main~", "main")
    )
    more = sweep(folder, *SEARCH, "--trials", "4")
    assert len(more.stdout.splitlines()) == 7, more.stderr
    said = f"trains {first[:10]}, with which this sweep began; main is now at {now[:10]}"
    assert said in more.stderr and f"trains main at {now[:10]}" not in more.stderr
    assert f"--isolated --ref {first} --set train.epochs=" in more.stdout.splitlines()[-1]
    assert f"$ tapeline run --pipeline tiny --isolated --ref {first} --set" in ask("artifacts", LATEST)[0]["data"]
    other = sweep(folder, "--max", "distance", *SEARCH[2:])
    assert other.returncode == 2
    assert "sweep 'tiny' was started with another goal: give this one another name" in other.stderr.splitlines()[-1]


@pytest.mark.long
def test_a_killed_sweep_goes_on_with_what_it_had_begun(repository, sweep, until):
    folder = repository("waits")
    with sweep.start(folder, *SEARCH, "--trials", "1") as process:
        until((folder / ".tapeline/checkpoints/tiny/waiting").exists, limit=200)
        process.kill()
    until(lambda: below(folder) == [], limit=200)
    done = sweep(folder, *SEARCH, "--trials", "1")
    assert done.returncode == 0, done.stderr
    assert "resuming from step 17" in (folder / ".tapeline/sweeps/tiny/1.log").read_text()
    assert len(branches(folder)) == 1
    begun = re.search(r"trial 1: train\.epochs (\d)", done.stderr)[1]
    assert done.stdout.splitlines()[-1].endswith(f"--set train.epochs={begun}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--min", "distance", "--over", "train.epochs={low: 0, high: 3}"), "pipelines.tiny.train.epochs is 0"),
        (("--min", "distance", "--over", "train.epoch=[1, 2]"), "train.epoch: no such setting; did you mean 'epochs'?"),
        (("--min", "distance", "--over", "train.epochs"), "'train.epochs' is not a pair"),
        ((*SEARCH, "--ref", "nowhere"), "ref is 'nowhere': no such branch, tag or commit"),
    ],
)
def test_a_mistake_is_one_line_before_anything_runs(repository, sweep, arguments, message):
    folder = repository()
    done = sweep(folder, *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (folder / ".tapeline/worktrees").exists() or not list((folder / ".tapeline/worktrees").glob("*/"))
    assert branches(folder) == []


@pytest.mark.long
@pytest.mark.slow
def test_a_metric_that_is_not_there_ends_the_sweep_and_can_be_mended(repository, sweep):
    folder = repository()
    done = sweep(folder, "--min", "distanc", *SEARCH[2:])
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "sweep: metric is 'distanc', which tiny does not measure in validation: it has distance, loss"
    )
    assert sweep(folder, *SEARCH, "--trials", "1").returncode == 0


@pytest.mark.parametrize("fails", [False, True])
def test_a_sweep_that_is_cancelled_in_its_last_moment_is_cancelled(project, server, api, monkeypatch, fails):
    """It stayed Cancelling."""
    from tapeline.orchestration.flows import sweep as module

    runs = []

    def search(request, project, monitor):
        runs.append(monitor.run["id"])
        wanted = {"state": {"type": "CANCELLING", "name": "Cancelling"}}
        api("POST", f"/flow_runs/{runs[0]}/set_state", wanted)
        if fails:
            raise RunError("3 trials failed")
        return []

    monkeypatch.setattr(module, "search", search)
    monkeypatch.chdir(project())
    with temporary_settings({PREFECT_API_URL: server}), pytest.raises(Cancelled), as_interrupted():
        module.sweep("tiny", {"train.epochs": [6, 7]}, "distance", "min")
    assert api("GET", f"/flow_runs/{runs[0]}")["state_type"] == "CANCELLED"


@pytest.mark.long
def test_trials_that_all_fail_end_the_sweep(repository, sweep):
    done = sweep(repository("refuses"), *SEARCH)
    assert done.returncode == 1
    assert "3 trials failed; the last one: training: train@tiny: the batch is larger" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_stopped_sweep_stops_everything(repository, sweep, until):
    folder = repository("waits")
    with sweep.start(folder, *SEARCH, "--parallel", "2") as process:
        until((folder / ".tapeline/checkpoints/tiny/waiting").exists, limit=200)
        process.terminate()
        process.communicate(timeout=120)
        until(lambda: below(folder) == [], limit=60)
    assert process.returncode == 143
    assert (folder / ".tapeline/checkpoints/tiny/step").read_text() == "17"
    journal = JournalStorage(JournalFileBackend(str(folder / ".tapeline/sweeps/tiny/journal")))
    left = optuna.load_study(study_name="tiny", storage=journal).get_trials()
    assert {trial.state for trial in left} == {TrialState.RUNNING}, "none failed: the next call goes on with them"
