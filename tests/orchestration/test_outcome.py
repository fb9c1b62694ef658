"""How a stage went, read from what it left."""

import json

import pytest

from tapeline.orchestration.stages.outcome import Outcome, judge, read_outcome
from tapeline.repository.reproduction import Reproduction


def failed(status=None, message="failed to reproduce 'train@tiny'"):
    return Reproduction(word="failed", status=status, message=message)


@pytest.mark.parametrize(
    ("returncode", "found", "lines", "left", "outcome"),
    [
        (0, Reproduction(word="ran"), ["fine"], None, Outcome(word="ran")),
        (0, Reproduction(word="unchanged"), [], None, ("unchanged", 0)),
        (0, Reproduction(word="restored"), [], None, ("restored", 0)),
        (0, Reproduction(word="recorded"), [], None, ("recorded", 0)),
        (
            1,
            failed(1),
            ["tapeline: too low"],
            {"outcome": "verdict", "status": 1, "message": "too low"},
            Outcome(word="verdict", message="too low", status=1),
        ),
        (1, Reproduction(word="missing", message="pull"), [], None, Outcome(word="input", message="pull", status=2)),
        (1, failed(1), ["working", "Boom: it broke"], None, Outcome(word="failed", message="Boom: it broke", status=1)),
        (1, failed(4), [], None, Outcome(word="failed", message="exit status 4", status=1)),
        (1, failed(-9), ["step 10"], None, ("killed", 137)),
        (1, failed(137), ["step 10"], None, ("killed", 137)),
        (1, failed(-11), [], None, ("killed", 139)),
        (-15, None, ["step 10"], None, ("killed", 143)),
        (1, failed(message="no such thing"), [], None, Outcome(word="failed", message="DVC: no such thing", status=1)),
        (
            1,
            failed(message="no space left"),
            ["exported"],
            {"outcome": "ok", "message": "exported", "status": 0},
            Outcome(word="failed", message="DVC: no space left", status=1),
        ),
        (1, None, ["No module named dvc"], None, Outcome(word="failed", message="DVC: No module named dvc", status=1)),
        (255, None, [], None, Outcome(word="failed", message="DVC: exit status 255", status=1)),
    ],
)
def test_judge(returncode, found, lines, left, outcome):
    judged = judge("train@tiny", found, returncode=returncode, lines=lines, left=left)
    assert outcome == (judged if isinstance(outcome, Outcome) else (judged.word, judged.status))
    assert judged.ok == (returncode == 0)


def test_sigkill_asks_about_memory():
    assert "out of memory?" in judge("train@tiny", failed(-9), returncode=1, lines=[], left=None).message


def test_an_outcome_of_another_session_is_not_this_run_s(tmp_path):
    path = tmp_path / "train@tiny.json"
    assert read_outcome(path, session=7) is None
    path.write_text(json.dumps({"outcome": "ok", "status": 0, "message": "", "session": 7}))
    assert read_outcome(path, session=8) is None
    assert read_outcome(path, session=7)["outcome"] == "ok"
