"""The average of the weights by itself: its type, and what the recipe computes with in its place."""

import pytest


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_an_average_follows_a_weight_of_any_type(tf, dtype):
    """A step of an average near 1 is less than half of its last bit in bfloat16, so it would never move."""
    from tapeline.train.engine.averaging import Average

    weight = tf.Variable(1.0, dtype=dtype)
    average = Average({"w": weight, "n": tf.Variable(3)}, 0.99)
    weight.assign(1.25)

    @tf.function
    def steps():
        for _ in tf.range(100):
            average.step()

    steps()
    (kept,) = average.values().values()
    assert kept.dtype == weight.dtype and float(kept) == pytest.approx(1.25 - 0.25 * 0.99**100, abs=0.005)
    assert average.state["ema/w"].dtype == ("float64" if dtype == "float64" else "float32")
    with average.in_place():
        assert float(weight) == float(kept)
    assert float(weight) == 1.25
    average.reset()
    assert float(average.state["ema/w"]) == 1.25
