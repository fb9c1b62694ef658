"""A verdict as a file, a record and a table."""

import json

import pytest

from tapeline.registry.gate.verdict import Verdict

BOUND = {"kind": "bound", "metric": "accuracy", "value": 0.9, "min": 0.8, "max": None, "judged": True, "holds": True}
CHANGE = {
    **{"kind": "change", "metric": "accuracy", "value": -0.1, "min": -0.01, "max": None, "judged": True},
    **{"champion": 1.0, "challenger": 0.9, "holds": False},
}
INFRA = {"kind": "infra", "said": "loads, and answers", "holds": True}
FAILED = {"kind": "infra", "said": "does not load", "holds": False}


def verdict(*checks, champion="v1.0.0"):
    return Verdict("one", "v1.0.1", "prod", champion, {"examples": 3}, checks, {"size_mb": 2.0})


@pytest.mark.parametrize(
    ("checks", "reason"),
    [
        ((), ""),
        ((BOUND, INFRA), ""),
        ((BOUND, CHANGE), "change of accuracy is -0.1 (1 → 0.9), must be at least -0.01"),
        ((FAILED, CHANGE, INFRA), "does not load; change of accuracy is -0.1 (1 → 0.9), must be at least -0.01"),
    ],
)
def test_it_holds_when_every_check_does_and_says_which_does_not(checks, reason):
    found = verdict(*checks)
    assert (found.holds, found.reason) == (not reason, reason)
    assert found.record()["verdict"] == ("no" if reason else "yes")


def test_a_model_s_own_words_do_nothing_to_a_terminal():
    table = verdict({"kind": "infra", "said": "does not load: \x1b[2J\nyes  all", "holds": False}).table()
    assert table.splitlines()[1:] == ["  NO   infra         does not load: \\x1b[2J yes  all"]


def test_the_table():
    assert verdict(BOUND, CHANGE).table().splitlines() == [
        "one@v1.0.1 for prod against v1.0.0: no",
        "  yes  bound         accuracy is 0.9, must be at least 0.8",
        "  NO   change        change of accuracy is -0.1 (1 → 0.9), must be at least -0.01",
    ]
    assert verdict(champion=None).table() == "one@v1.0.1 for prod, no champion: yes"


def test_what_is_not_finite_is_null_in_the_record(tmp_path):
    found = verdict({**BOUND, "value": float("nan"), "holds": False})
    assert found.record()["checks"] == [{**BOUND, "value": None, "holds": False}]
    assert json.loads(found.write(tmp_path).read_text())["checks"][0]["value"] is None
    assert found.reason == "accuracy is nan, must be at least 0.8"


def test_the_file_takes_the_place_of_an_older_one(tmp_path):
    verdict(CHANGE).write(tmp_path)
    path = verdict(INFRA).write(tmp_path)
    assert path == tmp_path / "verdicts" / "one@v1.0.1-prod.json"
    found = json.loads(path.read_text())
    assert found.pop("figures") == {"size_mb": 2.0}
    assert found == {
        **{"version": "v1.0.1", "stage": "prod", "champion": "v1.0.0", "verdict": "yes"},
        **{"data": {"examples": 3}, "checks": [INFRA]},
    }
    assert [other.name for other in path.parent.iterdir()] == [path.name]
