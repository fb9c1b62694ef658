"""The parameters of a run: what is refused, and how overrides come into params.yaml."""

import itertools
import math
import shlex
from datetime import date, datetime

import pytest
from ruamel.yaml import YAML

from tapeline.cli.flows.training import pairs
from tapeline.orchestration.isolation.overrides import override
from tapeline.orchestration.request import Request, settings
from tapeline.runtime.errors import InputError

PARAMS = """# what matters
pipelines:
  one: &one
    params: {rate: 0.002}   # measured
    train: {epochs: 1, name: "x"}
  two:
    <<: *one
    dataset: b
"""


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"pipeline": "Big"}, r'parameters\.pipeline is "Big"'),
        ({"pipeline": "a", "retries": 11}, r"parameters\.retries is 11: must be less than or equal to 10"),
        ({"pipeline": "a", "timeouts": {"train": 0}}, r"timeouts\.train is 0: must be greater than 0"),
        ({"pipeline": "a", "timeouts": {"tran": 1}}, "'ingest', 'train', 'validate' or 'export'"),
        ({"pipeline": "a", "register": True}, r"parameters\.register: no such setting"),
        ({"pipeline": "a", "ref": "main"}, "ref would have no effect: a run in place"),
        ({"pipeline": "a", "push": True, "overrides": {"train.epochs": 1}}, "overrides, push would have"),
        ({"pipeline": "a", "isolated": True, "ref": "--all"}, r'parameters\.ref is "--all"'),
        ({"pipeline": "a", "isolated": True, "ref": "ma\0in"}, r'parameters\.ref is "ma\\u0000in"'),
        (
            {"pipeline": "a", "isolated": True, "overrides": {"environment.keras": "1"}},
            r"overrides\.environment.*must name a setting of the pipeline, such as train.epochs",
        ),
        ({"pipeline": "A"}, r"pipeline is \"A\": must be a name: small letters"),
        (
            {"pipeline": "a", "isolated": True, "overrides": {"train.seed": 2**64}},
            "train.seed: an integer has more than 64",
        ),
        (
            {"pipeline": "a", "isolated": True, "overrides": {"params.a": [{"b": -(2**64)}]}},
            "an integer has more than 64",
        ),
    ],
)
def test_what_is_refused(parameters, message):
    with pytest.raises(InputError, match=message) as refusal:
        Request.of(**parameters)
    assert "\n" not in str(refusal.value)


def test_the_command_gives_the_same_request():
    overrides = {"params.a": math.inf, "params.b": [-math.inf, {"c d": "no"}, "\U0001f600"], "params.e": 1e-05}
    overrides |= {"params.day": date(2024, 1, 31), "params.moment": datetime(2024, 1, 31, 12, 30)}
    timeouts = {"train": 1234567.0, "export": 0.1}
    wanted = Request(pipeline="a", isolated=True, overrides=overrides, timeouts=timeouts)
    words = shlex.split(wanted.command())
    given = [word for option, word in itertools.pairwise(words) if option == "--set"]
    assert pairs(given) == overrides
    assert words[-4:] == ["--timeout", "train=1234567", "--timeout", "export=0.1"]
    [nan] = pairs(settings({"params.a": math.nan})[1:]).values()
    assert math.isnan(nan)


@pytest.fixture
def params(tmp_path):
    (tmp_path / "params.yaml").write_text(PARAMS)
    return tmp_path / "params.yaml"


def load(path):
    return YAML(typ="safe").load(path.read_text())["pipelines"]


def test_no_override_leaves_the_bytes(params):
    override(params.parent, "one", {})
    assert params.read_text() == PARAMS


def test_comments_and_order_stay(params):
    override(params.parent, "two", {"dataset": "c"})
    assert params.read_text() == PARAMS.replace("dataset: b", "dataset: c")


def test_a_shared_part_changes_for_one_pipeline_only(params):
    override(params.parent, "two", {"train.epochs": 5, "train.best.metric": "loss"})
    content = load(params)
    assert content["one"]["train"] == {"epochs": 1, "name": "x"}
    assert content["two"]["train"] == {"epochs": 5, "name": "x", "best": {"metric": "loss"}}
    assert content["two"]["params"] == {"rate": 0.002}


@pytest.mark.parametrize(
    ("pipeline", "overrides", "message"),
    [
        ("three", {"train.epochs": 1}, "no pipeline 'three'"),
        ("one", {"train.epochs.more": 1}, "train.epochs is 1, which has no keys"),
    ],
)
def test_an_override_that_leads_nowhere(params, pipeline, overrides, message):
    with pytest.raises(InputError, match=message):
        override(params.parent, pipeline, overrides)
    assert params.read_text() == PARAMS
