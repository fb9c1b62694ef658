"""The promotion and inference flows on a running server: a person's yes and no, and what is live afterwards."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import clones
import psutil
import pytest
from keys import Person, govern
from prefect.exceptions import ParameterTypeError
from prefect.settings import PREFECT_API_URL, temporary_settings
from registries import Registry, endless

from tapeline.config.project import Project
from tapeline.orchestration.flows.monitor import Cancelled, as_interrupted
from tapeline.orchestration.reports import events
from tapeline.registry import registry as opened
from tapeline.registry import rules
from tapeline.registry.gate import probing
from tapeline.registry.gate.verdict import Verdict
from tapeline.runtime.errors import InputError, VerdictNo

NEWEST = {"sort": "START_TIME_DESC", "limit": 1}

dvc_data = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # of pygtrie


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A registry whose stage prod asks for a person's yes; v1.0.0 is in staging."""
    registry = Registry.make(tmp_path_factory.mktemp("promotion") / "project")
    params = registry.folder / "params.yaml"
    params.write_text(params.read_text().replace("prod: {gate", "prod: {approval: true, gate"))
    registry.build(1)
    registry("registry", "register", "one")
    registry("registry", "promote", "one", "staging")
    return registry


@pytest.fixture
def registry(made, tmp_path):
    return made.copy(tmp_path)


def start(registry, server, *arguments, module="flows.promotion"):
    environment = {**clones.environment(), "PYTHONPATH": f"{clones.ROOT}:{clones.ROOT / 'src'}"}
    environment |= {"PREFECT_API_URL": server, "PREFECT_HOME": os.environ["PREFECT_HOME"]}
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=registry.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def paused(ask, before):
    """Return the run that waits for a person and was not there before."""
    runs = ask("flow_runs", {"flow_runs": {"state": {"type": {"any_": ["PAUSED"]}}}})
    return next((run for run in runs if run["id"] not in before), None)


def answer(api, until, run, **given):
    """Fill in the form. Prefect saves the form after the run is paused: before that, every answer is rejected."""
    until(lambda: api("POST", f"/flow_runs/{run['id']}/resume", {"run_input": given})["status"] == "ACCEPT")


@pytest.fixture
def module(monkeypatch):
    """The flow's module with its tasks as plain functions: no server is asked."""
    from tapeline.orchestration.flows import promotion

    for name in ("registered", "promoted"):
        monkeypatch.setattr(promotion, name, getattr(promotion, name).fn)
    monkeypatch.setattr(promotion, "judged", lambda *arguments: pytest.fail("the gate was asked"))
    monkeypatch.setattr(promotion, "tell_promoted", lambda *arguments, **more: pytest.fail("an event was told"))
    return promotion


@pytest.mark.slow
@dvc_data
def test_a_version_that_is_live_is_not_judged_again_and_no_event(registry, module, monkeypatch):
    registry("registry", "promote", "one", "prod", "--approved-by", "Zoë")
    monkeypatch.chdir(registry.folder)
    before = registry.state()
    state = module.promotion.fn("one", "prod")
    assert (state.message, state.data) == ("one@v1.0.0 is already live in prod (one#prod#2)", "one#prod#2")
    assert registry.state() == before


@dvc_data
def test_a_commit_that_left_the_model_as_it_was_has_its_version(registry, module, monkeypatch):
    registry.git("commit", "--quiet", "--allow-empty", "--message", "more")
    monkeypatch.chdir(registry.folder)
    state = module.promotion.fn("one", "staging")
    assert state.message == "one@v1.0.0 is already live in staging (one#staging#1)"
    assert registry.tags() == ["one#staging#1", "one@v1.0.0"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"pipeline": "o\0ne"},
        {"stage": "Prod"},
        {"version": ""},
        {"version": "1.0"},
        {"version": "v1.0.0\n"},
        {"bump": "huge"},
        {"wait_seconds": 0},
        {"wait_seconds": -5},
        {"wait_seconds": 10**21},
    ],
)
def test_parameters_that_its_command_would_refuse_are_refused(module, wrong):
    module.promotion.validate_parameters({"pipeline": "one", "stage": "prod", "version": "1.0.0"})
    with pytest.raises(ParameterTypeError):
        module.promotion.validate_parameters({"pipeline": "one", "stage": "prod", **wrong})


@dvc_data
@pytest.mark.parametrize("version", ["1.0.0", "v1.0.0"])
def test_a_version_may_be_given_without_its_v(registry, module, monkeypatch, version):
    """It was unknown then, as `1.0.0` is no tag's."""
    monkeypatch.chdir(registry.folder)
    state = module.promotion.fn("one", "staging", version)
    assert state.message == "one@v1.0.0 is already live in staging (one#staging#1)"


@dvc_data
def test_a_version_that_skips_a_stage_is_refused_before_anyone_is_asked(registry, module, monkeypatch):
    params = registry.folder / "params.yaml"
    params.write_text(params.read_text().replace("prod: {", "prod: {previous: true, ").replace("staging: {", "qa: {"))
    monkeypatch.chdir(registry.folder)
    state = module.promotion.fn("one", "prod", "v1.0.0")
    assert state.is_failed()
    assert state.message == "one@v1.0.0 was never in qa, which prod requires: promote it there first"


@dvc_data
def test_the_gate_s_no_is_an_event(registry, module, monkeypatch):
    check = {"kind": "infra", "said": "loss is 1, must be at most 0", "holds": False}
    monkeypatch.setattr(module, "judged", lambda *of: Verdict("one", "v1.0.0", "prod", None, {}, (check,), {}))
    told = []
    monkeypatch.setattr(events, "emit_event", lambda event, **more: told.append({"event": event, **more}))
    monkeypatch.chdir(registry.folder)
    state = module.promotion.fn("one", "prod")
    assert state.message == "one@v1.0.0 is not promoted to prod: loss is 1, must be at most 0"
    payload = {"version": "v1.0.0", "stage": "prod", "reason": "loss is 1, must be at most 0"}
    about = {"prefect.resource.id": "tapeline.model.one", "prefect.resource.name": "one"}
    about["tapeline.project"] = registry.folder.name
    assert told == [{"event": "tapeline.gate-failed", "resource": about, "payload": payload}]


@pytest.mark.parametrize(
    ("approve", "name", "error", "said"),
    [
        (False, "Zoë", VerdictNo, "Zoë did not approve one@v1.0.0 for prod"),
        (False, " ", VerdictNo, "a person did not approve one@v1.0.0 for prod"),
        (True, " ", InputError, "an approval needs the name of the person who gives it"),
    ],
)
def test_a_no_needs_no_name(module, monkeypatch, approve, name, error, said):
    monkeypatch.setattr(module, "pause_flow_run", lambda **asked: module.Approval(approve=approve, name=name))
    with pytest.raises(error, match=said):
        module.approved(Verdict("one", "v1.0.0", "prod", None, {}, (), {}), 1)


@dvc_data
def test_what_changes_while_a_person_is_asked(registry, module, monkeypatch, tmp_path):
    """Ana may promote no more, or by other rules: the registry was opened before, and knew nothing of it."""
    ana, ben = (Person.made(tmp_path, name) for name in ("Ana", "Ben"))
    policy = "\n  trust: {signers: signers, register: [ana@example.org], promote: {prod: [WHO]}, revoke: [ana@example.org]}\n"
    govern(registry, ana.line() + ben.line(), policy.replace("WHO", "ana@example.org"))
    ana.at(registry)("registry", "vouch", "one@v1.0.0")
    params = registry.folder / "params.yaml"
    changes = {
        "promote: {prod: [ana": "promote: {prod: [ben",
        "prod: {approval: true, gate: false": "prod: {approval: true, gate: true",
    }
    whole, state = params.read_text(), registry.state()
    monkeypatch.setattr(module, "judged", lambda *of: Verdict("one", "v1.0.0", "prod", None, {}, (), {}))
    monkeypatch.chdir(registry.folder)
    said = []
    for before, after in changes.items():
        assert before in whole

        def answered(before=before, after=after, **asked):
            params.write_text(whole.replace(before, after))
            registry.git("commit", "--quiet", "--all", "--message", "others")
            return module.Approval(approve=True, name="Zoë")

        monkeypatch.setattr(module, "pause_flow_run", answered)
        said.append(module.promotion.fn("one", "prod", "v1.0.0").message)
        registry.git("reset", "--quiet", "--hard", "HEAD~1")
        assert registry.state() == state
    assert said[0].endswith("may not promote for prod: ben@example.org may") and "ana@example.org" in said[0]
    assert said[1] == "the rules for one in prod have changed since the verdict: run again to judge by these"


@dvc_data
def test_params_that_are_edited_while_a_person_is_asked_change_nothing(registry, module):
    """Without a policy the approval was lost."""
    asked = opened.Registry.for_model(Project.find(registry.folder), "one")
    (registry.folder / "params.yaml").write_text("half: [\n")
    again = module.reopened(asked, "one", "prod", rules.digest(asked.deciding, "one", "prod"))
    assert again.settings == asked.settings


def cancel(api, run):
    """Do what the button does."""
    api("POST", f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})


@dvc_data
@pytest.mark.parametrize("moment", ["judged", "promoted"])
def test_a_run_that_is_cancelled_promotes_nothing_and_one_that_has_promoted_says_so(
    registry, module, monkeypatch, server, api, moment
):
    """It was promoted, the command said that it was cancelled, and the run stayed Cancelling."""
    runs, promote, state = [], module.promoted, registry.state()

    def cancelled():
        runs.append(module.flow_run.get_id())
        cancel(api, runs[0])

    def judged(registry, version, stage):
        if moment == "judged":
            cancelled()
        return Verdict("one", version.number, stage, None, {}, (), {})

    def promoted(*arguments):
        if moment == "promoted":
            cancelled()
        return promote(*arguments)

    monkeypatch.setattr(module, "judged", judged)
    monkeypatch.setattr(module, "promoted", promoted)
    monkeypatch.setattr(module, "tell_promoted", lambda *arguments, **more: None)
    monkeypatch.chdir(registry.folder)
    with temporary_settings({PREFECT_API_URL: server}):
        if moment == "judged":
            with pytest.raises(Cancelled), as_interrupted():
                module.promotion("one", "dev")
            assert registry.state() == state
        else:
            assert module.promotion("one", "dev") == "one#dev#2"
    ended = api("GET", f"/flow_runs/{runs[0]}")["state"]
    assert (ended["type"], ended["message"]) == {
        "judged": ("CANCELLED", "cancelled in Prefect; run again to resume"),
        "promoted": ("COMPLETED", "one@v1.0.0 is live in dev (one#dev#2)"),
    }[moment]


@pytest.mark.slow
def test_a_run_that_is_cancelled_in_the_gate_ends_it(tf, registry, server, api, ask, until):
    """The gate judged to its end, and the model became live."""
    endless(tf, registry)
    params = registry.folder / "params.yaml"
    params.write_text(params.read_text().replace("dev: {gate: false, check: false}", "dev: {gate: false}"))
    registry.build(2)
    child = start(registry, server, "--pipeline", "one", "--stage", "dev")

    def gates():
        with suppress(psutil.Error):  # one has just ended
            family = psutil.Process(child.pid).children(recursive=True)
            return [found for found in family if str(probing.PROBE) in found.cmdline()]

    [gate, *_] = until(gates, limit=200)
    [run] = ask("flow_runs", NEWEST)
    cancel(api, run["id"])
    _, err = child.communicate(timeout=100)
    assert child.returncode == 128 + signal.SIGTERM and "Traceback" not in err, err
    assert err.splitlines()[-1] == "promotion: cancelled in Prefect; run again to resume"
    assert api("GET", f"/flow_runs/{run['id']}")["state_type"] == "CANCELLED"
    assert not gate.is_running() and "one#dev#2" not in registry.tags()


@pytest.mark.long
def test_a_person_says_nothing(registry, server, ask, until):
    before, state = {run["id"] for run in ask("flow_runs", {})}, registry.state()
    child = start(registry, server, "--pipeline", "one", "--stage", "prod", "--wait-seconds", "1")
    _, err = child.communicate(timeout=200)
    assert child.returncode == 1
    assert err.splitlines()[-1] == "promotion: nobody approved one@v1.0.0 for prod within 1 s"
    assert "Traceback" not in err
    [run] = [run for run in ask("flow_runs", {}) if run["id"] not in before]
    assert (run["state"]["type"], run["state"]["message"]) == (
        "FAILED",
        "nobody approved one@v1.0.0 for prod within 1 s",
    )
    assert registry.state() == state


@pytest.mark.long
def test_a_run_that_is_cancelled_while_it_waits(registry, server, api, ask, until):
    """It waited on, up to a day, and stayed Cancelling."""
    before, state = {run["id"] for run in ask("flow_runs", {})}, registry.state()
    child = start(registry, server, "--pipeline", "one", "--stage", "prod")
    run = until(lambda: paused(ask, before), limit=400)
    cancel(api, run["id"])
    _, err = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM and "Traceback" not in err, err
    assert err.splitlines()[-1] == "promotion: cancelled in Prefect; run again to resume"
    [ended] = ask("flow_runs", {"flow_runs": {"id": {"any_": [run["id"]]}}})
    assert ended["state_type"] == "CANCELLED" and registry.state() == state


@pytest.mark.long
def test_a_run_that_is_killed_while_it_waits_is_marked(registry, server, is_marked_when_killed, ask, until):
    """It stayed Paused for good, and took an answer that changed nothing."""
    before, project = {run["id"] for run in ask("flow_runs", {})}, Project.find(registry.folder)
    child = start(registry, server, "--pipeline", "one", "--stage", "prod")
    run = until(lambda: paused(ask, before), limit=400)
    assert is_marked_when_killed(project, child, run)


@pytest.mark.slow
def test_a_person_says_yes(registry, server, api, ask, until):
    before = {run["id"] for run in ask("flow_runs", {})}
    child = start(registry, server, "--pipeline", "one", "--stage", "prod")
    run = until(lambda: paused(ask, before), limit=400)
    assert registry.tags() == ["one#staging#1", "one@v1.0.0"]
    answer(api, until, run, approve=True, name="Zoë")
    out, err = child.communicate(timeout=300)
    assert (child.returncode, out) == (0, "one is live in prod (one#prod#2)\n"), err
    assert "approved by Zoë" in registry("registry", "lineage", "one").stdout
    assert run["id"] in registry.git("tag", "--list", "--format=%(contents:body)", "one#prod#2")
    assert (registry.folder / "serving" / "one" / "1" / "saved_model.pb").is_file()


@pytest.mark.slow
def test_the_form_shows_the_comparison(made, tmp_path, tf, server, api, ask, until):
    registry = made.copy(tmp_path)
    spec = tf.TensorSpec((None, 2), tf.float32, name="x")
    serve = tf.function(lambda x: {"y": 0 * tf.reduce_sum(x, 1)}, input_signature=[spec])
    tf.saved_model.save(tf.Module(), str(registry.folder / "graph"), signatures=serve.get_concrete_function())
    params = registry.folder / "params.yaml"
    asked = "  models:\n    one: {gate: {paired: null, bounds: {loss: {max: 10}}, change: {loss: {max: 5}}}}\n"
    params.write_text(params.read_text().replace("prod: {approval: true, gate: false", "prod: {approval: true") + asked)
    registry.build(2)
    registry("registry", "register", "one")
    registry("registry", "promote", "one", "prod", "--approved-by", "Ann")
    registry.build(3)
    before = {run["id"] for run in ask("flow_runs", {})}
    child = start(registry, server, "--pipeline", "one", "--stage", "prod")
    run = until(lambda: paused(ask, before), limit=400)
    key = run["state"]["state_details"]["run_input_keyset"]["description"]
    [found] = until(lambda: ask(f"flow_runs/{run['id']}/input", {"prefix": key}))
    answer(api, until, run, approve=False, name="Zoë")
    child.communicate(timeout=300)
    shown = json.loads(found["value"])
    assert shown.startswith("Promote one@v1.0.2 to prod?\n\n```text\none@v1.0.2 for prod against v1.0.1: yes\n"), shown
    assert "loss is 3, must be at most 10\n" in shown and "(2 → 3), must be at most 5\n" in shown, shown


@pytest.mark.long
def test_a_person_says_no(registry, server, api, ask, until):
    before, state = {run["id"] for run in ask("flow_runs", {})}, registry.state()
    child = start(registry, server, "--pipeline", "one", "--stage", "prod", "--version", "1.0.0")
    answer(api, until, until(lambda: paused(ask, before), limit=400), approve=False, name="Zoë")
    _, err = child.communicate(timeout=300)
    assert child.returncode == 1
    assert err.splitlines()[-1] == "promotion: Zoë did not approve one@v1.0.0 for prod"
    assert registry.state() == state


@pytest.mark.slow
def test_what_is_new_is_registered_first(registry, server):
    registry.build(5)
    child = start(registry, server, "--pipeline", "one", "--stage", "staging", "--bump", "minor")
    out, err = child.communicate(timeout=300)
    assert (child.returncode, out) == (0, "one is live in staging (one#staging#2)\n"), err
    assert "one@v1.1.0" in registry.tags()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--pipeline", "two", "--stage", "prod"), "no pipeline 'two' in params.yaml"),
        (("--pipeline", "one", "--stage", "production"), "no stage 'production': params.yaml has dev, staging, prod"),
        (
            ("--pipeline", "one", "--stage", "prod", "--wait-seconds", "-5"),
            "--wait-seconds is -5: it must be from 1 to 31536000, a year",
        ),
        (
            ("--pipeline", "one", "--stage", "prod", "--version", "x"),
            "'x' is not a version: write three numbers, such as v1.0.0",
        ),
    ],
)
def test_mistakes_are_found_before_prefect(registry, arguments, said):
    child = start(registry, "http://127.0.0.1:9/api", *arguments)
    out, err = child.communicate(timeout=300)
    assert child.returncode == 2 and not out
    assert err.startswith("promotion: ") and said in err and err.count("\n") == 1
