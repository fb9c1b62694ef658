"""Shards and threads in `params.yaml`: what decides a run, and what is refused."""

import datasets
import pytest
import recipes
from trainings import Run

from tapeline.config.train import TrainSettings
from tapeline.runtime.errors import InputError


def test_shards_are_part_of_a_run_and_their_placement_is_not(make_settings):
    eight = make_settings(shards=8)
    assert eight.deciding() == make_settings(shards=8, at_once=1).deciding() != make_settings().deciding()
    assert "at_once" not in eight.deciding() and eight.deciding()["shards"] == 8


def test_threads_are_part_of_a_run_unless_they_are_the_default(make_settings):
    assert make_settings(threads=4).deciding() == make_settings().deciding()
    assert make_settings(max_skipped=3).deciding() == make_settings().deciding()
    assert make_settings(max_skipped=3).recorded() == {**make_settings().recorded(), "max_skipped": 3}
    assert make_settings(threads=2).deciding() == {**make_settings().deciding(), "threads": 2}
    assert make_settings(threads=2, shards=2, compile="xla").operation_threads == 2
    assert make_settings(shards=2).operation_threads == 1


@pytest.fixture
def make_settings():
    return lambda **given: TrainSettings.model_validate({"epochs": 1, "batch_size": 16, **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"shards": 3}, "shards is 3, which does not divide batch_size 16"),
        (
            {"shards": 2, "threads": 2},
            "threads is for whole batches: in graph mode a shard has one thread, so remove threads or shards",
        ),
        ({"bits": "native", "threads": 2}, "threads requires `bits: portable`: with native bits"),
        ({"threads": 0}, "threads"),
        ({"threads": 1025}, "threads"),
        (
            {"accumulate": 4},
            "accumulate: 4 is from an older Tapeline: write shards: 4 and at_once: 1, as `tapeline upgrade`",
        ),
        ({"replicas": 2}, "replicas: 2 is from an older Tapeline: write shards: 2, as"),
        (
            {"accumulate": 4, "replicas": 2},
            "accumulate: 4 and replicas: 2 is from .* write shards: 8 and at_once: 2, as",
        ),
        ({"accumulate": "x"}, "accumulate: x is from an older Tapeline: write shards, as"),
    ],
)
def test_settings_that_are_refused(make_settings, given, said):
    with pytest.raises(ValueError, match=said):
        make_settings(**given)


def test_shards_need_threads_that_tensorflow_has_not_begun_with(tmp_path, tf):
    run = Run(
        tmp_path,
        recipes.write(tmp_path),
        datasets.points(tmp_path / "points").folder,
        epochs=1,
        batch_size=2,
        shards=2,
    )
    with pytest.raises(
        InputError, match="an operation here has one thread, but TensorFlow has already started with others"
    ):
        run()
