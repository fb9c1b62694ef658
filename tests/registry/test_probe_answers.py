"""What a held process leaves is anybody's, too: a model could have taken it over."""

import numpy as np
import pytest

from tapeline.config.registry import CheckSettings
from tapeline.registry.gate import probing

SAID = "answers something that is not an array, or not a record: "
RECORD = "import json, os, sys\nasked = json.load(sys.stdin)\n"
PRINTED = "import json\nprint(json.dumps({'failures': [], 'sandbox': 'x', %s}))\n"
FINE = PRINTED % ""


def run(monkeypatch, folder, program):
    (folder / "probe.py").write_text(program)
    (folder / "model").mkdir()
    monkeypatch.setattr(probing, "PROBE", folder / "probe.py")
    monkeypatch.setattr(probing, "PACKAGE", folder)
    settings = CheckSettings(seconds=60)
    return probing.run(folder / "model", {}, {}, recorded=None, tolerance=0, settings=settings)


def test_an_honest_one(monkeypatch, tmp_path):
    answer = run(monkeypatch, tmp_path, FINE)
    assert (answer.failures, answer.figures, answer.predictions) == ((), {"sandbox": "x"}, {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print('hello')", "Expecting value"),
        ("", "Expecting value"),
        ("print('[' * 5000)", "nested more than 100 levels deep"),
        ("print('[]')", "not an object"),
        ("print('{}')", "failures is missing"),
        ("print('{\"failures\": 5}')", "failures is 5: must be a list"),
        (PRINTED % "'latency_ms': 3", "latency_ms is 3: must be a mapping"),
        (PRINTED % "'batch_sizes': 3", "batch_sizes is 3: must be a list"),
        (PRINTED % "'memory_mb': float('nan')", "NaN is not a JSON number"),
        (PRINTED % "'memory_mb': 10**400", "is too large for a number"),
        (PRINTED % "'more': 5", "more: no such setting"),
        (RECORD + "open(asked['answers'], 'w').write('x')\n" + FINE, "not a zip file"),
        (RECORD + "os.mkfifo(asked['answers'])\n" + FINE, "is a FIFO, a socket or a device"),
    ],
)
def test_nonsense_is_a_failure_of_the_model(monkeypatch, tmp_path, program, said):
    [failure] = run(monkeypatch, tmp_path, program).failures
    assert failure.startswith(SAID) and said in failure and failure.isprintable()


def test_a_link_to_answers_elsewhere_is_not_followed(monkeypatch, tmp_path):
    """The process could not read them; who follows its link could."""
    np.savez(tmp_path / "recorded.npz", y=np.arange(3))
    answer = run(
        monkeypatch, tmp_path, RECORD + f"os.symlink({str(tmp_path / 'recorded.npz')!r}, asked['answers'])\n" + FINE
    )
    assert not answer.predictions


def test_only_the_end_of_what_it_prints_is_read(monkeypatch, tmp_path):
    monkeypatch.setattr(probing, "MOST_PRINTED", 1000)
    program = "import sys\nfor _ in range(1000): print('x' * 1000)\nsys.exit('the \\x1b[2Jreason')"
    [failure] = run(monkeypatch, tmp_path, program).failures
    assert failure == "does not load or answer: the \x1b[2Jreason"
