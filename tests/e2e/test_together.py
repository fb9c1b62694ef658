"""Two at the same pipeline in one checkout: the second waits and says for whom, or DVC says no and nothing is harmed."""

import subprocess
import sys

import pytest
from clones import BIN, ROOT, call, cloned, environment, made, undisturbed

PIPELINE = "linear-regression"
BARE = [BIN / "dvc", "repro", f"export@{PIPELINE}"]
FLOW = [sys.executable, "-m", "flows.training", "--pipeline", PIPELINE]
TRAIN = [sys.executable, "-m", "tapeline", "train", PIPELINE]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The lock and the bytes of a build that was alone."""
    return undisturbed(tmp_path_factory.mktemp("undisturbed"), *BARE)


@pytest.fixture
def clone(tmp_path):
    return cloned(ROOT, tmp_path / "tapeline")


def together(folder, *commands):
    """Start commands at the same time and return each one's status and what it said."""
    started = [
        subprocess.Popen(
            [str(part) for part in command],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in commands
    ]
    said = [process.communicate(timeout=300)[0] for process in started]
    return [(process.returncode, text) for process, text in zip(started, said, strict=True)]


def test_two_flows(clone, expected):
    answers = together(clone, FLOW, FLOW)
    assert [status for status, _ in answers] == [0, 0], answers
    waited = [line for _, text in answers for line in text.splitlines() if "waiting: " in line]
    assert any("is busy" in line or "process" in line for line in waited), answers
    assert made(clone) == expected


@pytest.mark.long
def test_a_flow_and_a_training_by_hand(clone, expected):
    call(clone, *BARE[:2], "ingest@line")
    answers = together(clone, TRAIN, FLOW)
    assert [status for status, _ in answers] == [0, 0], answers
    assert made(clone) == expected


@pytest.mark.long
def test_two_bare_dvc_repro(clone, expected):
    answers = together(clone, BARE, BARE)
    assert sorted(status for status, _ in answers)[0] == 0, answers
    for status, text in answers:
        assert status == 0 or ("lock" in text and "Traceback" not in text), text
    call(clone, *BARE)
    assert made(clone) == expected
