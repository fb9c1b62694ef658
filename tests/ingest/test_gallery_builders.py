"""The gallery's own builders: what they promise of their examples."""

import gymnasium
import numpy as np
import pytest

from tapeline.dataset.columns import Dataset


@pytest.fixture
def dataset(ingested, builders):
    def make(name, **settings):
        return Dataset.open(ingested({"source": "builder", "needs": str(builders / f"{name}.py"), **settings}))

    return make


@pytest.mark.slow
def test_no_addition_of_one_split_is_in_another(dataset):
    additions, seen = dataset("additions"), {}
    for split, size in (("train", 45_000), ("val", 1_000), ("test", 5_000)):
        texts = [bytes(row).decode() for row in additions.column(split, "question")]
        answers = [int(bytes(row)) for row in additions.column(split, "answer")]
        assert [sum(map(int, text.split("+"))) for text in texts] == answers
        seen[split] = {tuple(sorted(text.split("+"))) for text in texts}
        assert len(seen[split]) == size  # a pair and its mirror are one
    assert not seen["train"] & seen["val"]
    assert not seen["test"] & (seen["train"] | seen["val"])


def test_a_sinusoid_is_one_wave(dataset):
    """Both sets of points of a task satisfy y = a sin x + b cos x with one a and b, of the right amplitude."""
    waves = dataset("sinusoids")
    assert {split: waves.examples(split) for split in waves.splits} == {"val": 100, "test": 600}
    columns = waves.columns("test")
    for task in range(600):
        x = np.concatenate([columns["support_x"][task], columns["query_x"][task]])[:, 0].astype(np.float64)
        y = np.concatenate([columns["support_y"][task], columns["query_y"][task]])[:, 0]
        factors, *_ = np.linalg.lstsq(np.stack([np.sin(x), np.cos(x)], 1), y, rcond=None)
        assert np.allclose(np.stack([np.sin(x), np.cos(x)], 1) @ factors, y, atol=1e-4)
        assert 0.1 <= np.hypot(*factors) <= 5.0
        assert factors[1] >= -1e-4  # a phase from 0 to π


def test_episodes_start_where_gymnasium_starts_them(dataset):
    starts = dataset("cartpole_starts")
    world = gymnasium.make("CartPole-v1")
    for split in starts.splits:
        columns = starts.columns(split)
        for seed, state in zip(columns["seed"], columns["state"], strict=True):
            assert np.array_equal(world.reset(seed=int(seed))[0], state)
    assert not set(starts.column("val", "seed")) & set(starts.column("test", "seed"))


def test_a_validation_cut_needs_a_train_split(refused, builders):
    settings = {"source": "builder", "needs": str(builders / "sinusoids.py"), "validation": 0.1}
    refused(settings, "dataset 'set' has no train split from which to cut `validation: 0.1`: remove `validation`")
