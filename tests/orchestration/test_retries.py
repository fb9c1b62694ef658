"""What is tried again and what is not, on a real server; how long a stage may take."""

import re

import pytest


@pytest.fixture
def flow(run, server, ask):
    """Run the flow; what it left, and its task runs by name."""

    def finish(folder, *arguments, **variables):
        done = run(folder, "--pipeline", "tiny", *arguments, PREFECT_API_URL=server, **variables)
        name = re.search(r"Beginning flow run '([^']+)'", done.stderr)[1]
        only = {"flow_runs": {"name": {"any_": [name]}}}
        tasks = {task["name"]: task for task in ask("task_runs", only)}
        assert "Traceback" not in done.stderr, done.stderr
        [page] = [artifact["data"] for artifact in ask("artifacts", only) if artifact["key"] == "training-tiny"]
        return done, tasks, page

    return finish


@pytest.mark.slow
def test_a_killed_stage_is_tried_again_and_goes_on(project, flow):
    done, tasks, page = flow(project("dies"))
    assert done.returncode == 0, done.stderr
    assert tasks["train@tiny"]["run_count"] == 2
    assert tasks["ingest@points"]["run_count"] == 1
    lines = [line.partition("train@tiny  ")[2] for line in done.stderr.splitlines()]
    assert lines.index("attempt 2 of 3") < lines.index("resuming from step 17")
    assert "| train@tiny | ran, attempt 2 |" in page
    assert "train@tiny     ran, attempt 2" in done.stdout


@pytest.mark.long
def test_it_is_tried_so_often_and_no_more(project, flow):
    folder = project("dies")
    stage = (folder / "stage.py").read_text()
    (folder / "stage.py").write_text(stage.replace("if checkpoint.exists():", "if False:"))
    done, tasks, _ = flow(folder, "--retries", "1")
    assert done.returncode == 137
    assert tasks["train@tiny"]["run_count"] == 2
    assert done.stderr.splitlines()[-1].endswith("train@tiny was killed by SIGKILL (out of memory?): run again")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables", [{}, {"PREFECT_FLOWS_DEFAULT_RETRIES": "2", "PREFECT_TASKS_DEFAULT_RETRIES": "2"}]
)
def test_a_mistake_is_not_tried_again(project, flow, variables):
    """Whatever the user has set for flows: the run waited for ever, and the command said that it was cancelled."""
    done, tasks, _ = flow(project("refuses"), **variables)
    assert done.returncode == 2
    assert tasks["train@tiny"]["run_count"] == 1
    assert "attempt" not in done.stderr


@pytest.mark.long
def test_a_stage_that_takes_too_long_is_stopped_with_its_checkpoint(project, flow):
    folder = project("waits")
    done, tasks, _ = flow(folder, "--timeout", "train=45.5")  # long enough for DVC to begin the stage
    assert done.returncode == 1
    assert tasks["train@tiny"]["run_count"] == 1
    assert "train@tiny took longer than timeouts.train, 45.5 s: raise the timeout" in done.stderr.splitlines()[-1]
    assert (folder / ".tapeline/checkpoints/tiny/step").read_text() == "17"
    assert flow(folder)[0].returncode == 0
