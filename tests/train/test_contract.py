"""The rule that every recipe keeps, in every mode that it supports: however a run is cut, its bits are the same."""

import pytest
from pipelines import ONE_PER_RECIPE, PIPELINES, STEPS_PER_EPOCH, stand_in, without_models
from trainings import Crash, Lengths, Run, crash_after

from tapeline.runtime.errors import InputError

EPOCHS = 3


MODES = [
    ("graph", "float32"),
    ("graph", "mixed_bfloat16"),
    ("xla", "float32"),
    ("xla", "mixed_bfloat16"),
    ("eager", "float32"),
]
IN_EVERY_MODE = ("linear-regression",)
IN_GRAPH_MODE = ("digits",)
"""The recipes that are tried in each run of the tests: in every mode, or in `graph` alone."""


def cases():
    """Return every recipe in every mode. CI tries each in the mode of its pipeline, `make test-all` in all."""
    for name in ONE_PER_RECIPE:
        train = PIPELINES[name][1]["train"]
        own = train.get("compile", "graph"), train.get("precision", "float32")
        for mode in MODES:
            fast = name in IN_EVERY_MODE or (name in IN_GRAPH_MODE and mode == ("graph", "float32"))
            marks = () if fast else pytest.mark.slow if mode == own else (pytest.mark.slow, pytest.mark.long)
            yield pytest.param(name, *mode, marks=marks)


@pytest.fixture
def run(tmp_path, tf):
    """Return a function that makes the run of a pipeline in a mode."""

    def make(name: str, mode: str, precision: str, label: str, **changes) -> Run:
        folder, entry = PIPELINES[name]
        settings = {k: v for k, v in entry["train"].items() if k not in ("epochs", "batch_size", "validate_every")}
        batch = min(entry["train"]["batch_size"], 8)
        data = tmp_path / entry["dataset"]
        if not data.exists():
            stand_in(entry["dataset"], data, batch)
        settings |= {"epochs": EPOCHS, "batch_size": batch, "compile": mode, "precision": precision, **changes}
        if "steps_per_epoch" in settings:
            settings["steps_per_epoch"] = STEPS_PER_EPOCH
        params = without_models(entry["params"])
        return Run(tmp_path / label, folder / entry["recipe"], data, params, **settings)

    return make


@pytest.mark.in_ci(4)
@pytest.mark.parametrize(("name", "mode", "precision"), list(cases()))
def test_restart_loop_lengths_and_streaming_change_no_bit(run, name, mode, precision):
    from tapeline.recipe import loading

    first = run(name, mode, precision, "whole")
    if precision not in loading.load(first.recipe).modes.get(mode, ()):
        with pytest.raises(InputError, match=f"does not support {mode} with {precision}: it supports "):
            first()
        return
    whole = first(pace=Lengths(50)).outs()

    cut = run(name, mode, precision, "cut", checkpoint={"every_steps": 5})
    with pytest.raises(Crash):
        cut(hooks=[crash_after(5)], pace=Lengths(2, 3, 1))
    assert not cut.out.exists()
    streamed = run(name, mode, precision, "cut", checkpoint={"every_steps": 5}, data="stream")
    streamed(pace=Lengths(1))
    assert streamed.notes[0].startswith("resuming from step ")
    assert streamed.outs() == whole
    assert not streamed.saved()
