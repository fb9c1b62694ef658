"""Who runs when, and what the rounds' speeds come to."""

import pytest

from benchmarks import machine
from benchmarks.comparison import Figures, best_of_families, disagreements, ratios
from benchmarks.rounds import interleaved
from benchmarks.table import lines


class Fake:
    """Trains at a fixed speed and writes down that it was asked."""

    def __init__(self, name, speed, asked):
        self.name, self.speed, self.asked = name, speed, asked

    def run(self, seconds):
        self.asked.append((self.name, seconds))
        return {"steps": self.speed * seconds, "seconds": seconds}


def test_all_take_turns_and_every_other_round_goes_backwards():
    asked = []
    runners = {name: Fake(name, speed, asked) for name, speed in (("a", 10), ("b", 20), ("c", 30))}
    speeds = interleaved(runners, repeats=3, seconds=2.0, warm_up=5.0)
    assert asked[:3] == [("a", 5.0), ("b", 5.0), ("c", 5.0)]
    assert [name for name, _ in asked[3:]] == ["a", "b", "c", "c", "b", "a", "a", "b", "c"]
    assert speeds == {"a": [10.0] * 3, "b": [20.0] * 3, "c": [30.0] * 3}


def test_a_turn_may_be_taken_again_but_no_warm_up():
    asked = []

    def twice(turn):
        turn()
        return turn()

    interleaved({"a": Fake("a", 10, asked)}, repeats=1, seconds=2.0, warm_up=5.0, calm=twice)
    assert asked == [("a", 5.0), ("a", 2.0), ("a", 2.0)]


def figures(family, setting, *speeds):
    return Figures(family=family, setting=setting, speeds=speeds)


def test_a_peer_is_compared_at_its_best_and_by_medians():
    measured = [
        figures("tapeline", "xla", 119.0, 120.0, 121.0),
        figures("Keras fit", "1", 50.0, 10.0, 12.0),
        figures("Keras fit", "100", 40.0, 39.0, 41.0),
    ]
    assert best_of_families(measured)["Keras fit"].setting == "100"
    assert ratios(measured, "tapeline") == {"Keras fit": 3.0}


def test_a_speed_that_changes_from_round_to_round_is_not_compared():
    steady, restless = figures("JAX", "", 40.0, 40.0, 40.0), figures("Keras fit", "", 19.6, 36.0, 19.6, 36.0)
    own = figures("tapeline", "xla", 119.0, 120.0, 121.0)
    assert ratios([own, steady, restless], "tapeline") == {"JAX": 3.0}
    assert ratios([figures("tapeline", "xla", 100.0, 120.0, 900.0), steady], "tapeline") == {}


@pytest.mark.parametrize(("speeds", "spread"), [((10.0,), 0.0), ((8.0, 9.0, 10.0, 11.0, 12.0), 0.1)])
def test_the_spread_is_half_of_the_range_between_the_quartiles(speeds, spread):
    assert figures("a", "b", *speeds).spread == pytest.approx(spread)


def test_who_learned_something_else_is_named():
    losses = {
        "own": {"loss": 2.0},
        "near": {"loss": 2.001},
        "far": {"loss": 2.1},
        "nan": {"loss": float("nan")},
        "none": {},
    }
    wrong = disagreements(losses, "own", dict.fromkeys(losses, 1e-3))
    assert set(wrong) == {"far", "nan", "none"}
    assert wrong["far"] == "loss 2.1, and own has 2"
    assert "far" not in disagreements(losses, "own", {**dict.fromkeys(losses, 1e-3), "far": 0.1})


def test_the_table_marks_what_disagrees_and_what_was_missed():
    one = {"spread": 0.01, "first_step": 2.0, "peak_mb": 800.0}
    record = {
        "contenders": {
            "tapeline: xla": {**one, "family": "tapeline", "median": 3000.0},
            "JAX: scan": {**one, "family": "JAX", "median": 2900.0},
        },
        "disagree": {"JAX: scan": "loss 1, and tapeline: xla has 2"},
        "left_out": {"PyTorch: eager": "torch is not installed"},
        "ratios": {"JAX": 1.03},
        "targets": {"JAX": 1.1},
        "stolen": 0.042,
        "again": 3,
    }
    text = lines(record).splitlines()
    assert text[1].split() == ["tapeline:", "xla", "3,000.0", "1.0%", "2.0", "s", "800", "MB"]
    assert text[2].startswith(" !JAX: scan")
    assert "1.03 ×" in text[3] and text[3].endswith("MISSED")
    assert text[-4] == "  3 turns were taken again, other virtual machines were busy in them"
    assert text[-3] == "  up to 4.2% of the CPU's time was stolen in a turn that counts"
    assert text[-1] == "  PyTorch: eager: torch is not installed"
    unsteady = lines({**record, "ratios": {}}).splitlines()
    assert unsteady[3].split()[:5] == ["tapeline", "/", "JAX", "no", "ratio"]
    quiet = lines({**record, "stolen": 0.0, "again": 0})
    assert "stolen" not in quiet and "again" not in quiet


def test_the_stolen_share_is_of_all_time_since():
    before = machine.ticks()
    assert 0 <= machine.stolen(before) <= 1
    assert machine.stolen({name: value - 10**9 for name, value in before.items()}) == pytest.approx(1, abs=0.1)
    assert machine.stolen({}) is None


@pytest.mark.parametrize(
    ("shares", "counts", "again", "worst"),
    [
        ([0.001], "turn 0", 0, 0.001),
        ([0.3, 0.1, 0.0], "turn 2", 2, 0.0),
        ([0.3, 0.1, 0.2], "turn 1", 2, 0.1),  # never calm
        ([None], "turn 0", 0, 0.0),  # a kernel that does not tell
    ],
)
def test_what_was_disturbed_is_measured_again(shares, counts, again, worst):
    turns, stolen = iter(range(3)), iter(shares)
    calm = machine.Calm(most=3, stolen=lambda before: next(stolen))
    assert calm(lambda: f"turn {next(turns)}") == counts
    assert (calm.again, calm.stolen) == (again, worst)
