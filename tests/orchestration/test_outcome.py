"""How a stage went, read from what it left."""

import json

import pytest

from tapeline.orchestration.stages.outcome import Outcome, error_line, judge, read_outcome, was_busy

RUNNING = ["Running stage 'train@tiny':", "> exec python stage.py train tiny"]


def failed(status):
    return f"ERROR: failed to reproduce 'train@tiny': failed to run: exec python stage.py, exited with {status}"


@pytest.mark.parametrize(
    ("returncode", "lines", "left", "outcome"),
    [
        (0, [*RUNNING, "fine"], None, Outcome(word="ran")),
        (0, ["Stage 'train@tiny' didn't change, skipping"], None, ("unchanged", 0)),
        (0, ["Stage 'train@tiny' is cached - skipping run, checking out outputs"], None, ("restored", 0)),
        (0, ["Updating lock file 'dvc.lock'"], None, ("recorded", 0)),
        (
            255,
            [*RUNNING, "tapeline: too low", failed(1)],
            {"outcome": "verdict", "status": 1, "message": "too low"},
            Outcome(word="verdict", message="too low", status=1),
        ),
        (
            255,
            [*RUNNING, "Boom: it broke", failed(1)],
            None,
            Outcome(word="failed", message="Boom: it broke", status=1),
        ),
        (255, [*RUNNING, "step 10", failed(-9)], None, ("killed", 137)),
        (255, [*RUNNING, "step 10", failed(137)], None, ("killed", 137)),
        (255, [*RUNNING, failed(-11)], None, ("killed", 139)),
        (-15, [*RUNNING, "step 10"], None, ("killed", 143)),
        (255, ["ERROR: no such thing"], None, Outcome(word="failed", message="DVC: no such thing", status=1)),
        (255, [], None, Outcome(word="failed", message="DVC: exit status 255", status=1)),
    ],
)
def test_judge(returncode, lines, left, outcome):
    found = judge("train@tiny", returncode=returncode, lines=lines, left=left)
    assert outcome == (found if isinstance(outcome, Outcome) else (found.word, found.status))
    assert found.ok == (returncode == 0)


def test_sigkill_asks_about_memory():
    assert "out of memory?" in judge("train@tiny", returncode=255, lines=[failed(-9)], left=None).message


def test_an_outcome_of_another_session_is_not_this_run_s(tmp_path):
    path = tmp_path / "train@tiny.json"
    assert read_outcome(path, session=7) is None
    path.write_text(json.dumps({"outcome": "ok", "status": 0, "message": "", "session": 7}))
    assert read_outcome(path, session=8) is None
    assert read_outcome(path, session=7)["outcome"] == "ok"


def test_busy_is_seen_in_dvc_s_lines():
    assert was_busy(["x", "ERROR: '/a/b' is busy, it is being blocked by:", "  (PID 1): dvc repro"])
    lost = f"/a b/.dvc/cache/runs/b0/b0{'9' * 62}/.r7AzerVeOv0Oy7buBDKQbA.tmp"
    said = f"ERROR: failed to reproduce 'ingest@points': [Errno 2] No such file or directory: '{lost}'"
    assert was_busy([*RUNNING, said])
    assert not was_busy([*RUNNING, "busy bees"])
    assert not was_busy([*RUNNING, said.replace(lost, "/a b/runs/points.tmp")])


MISSING = (
    "ERROR: failed to pull data from the cloud - Checkout failed for following targets:\na\nIs your cache up to date?"
)


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", "it failed and printed nothing"),
        ("\n", "it failed and printed nothing"),
        ("no error of DVC's", "no error of DVC's"),
        (
            f"WARNING: some are lost\n{MISSING}\n<https://error.dvc.org/missing-files>\n",
            "failed to pull data from the cloud - Checkout failed for following targets: a",
        ),
        (
            "ERROR: unexpected error - no such bucket\n\nHaving any troubles? Hit us up at https://dvc.org/support\n",
            "unexpected error - no such bucket",
        ),
    ],
)
def test_what_dvc_says_is_one_line_without_its_advice(output, line):
    assert error_line(output) == line
