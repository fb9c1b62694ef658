"""The average of the weights by itself: its type, and what the recipe computes with in its place."""

import pytest


def test_the_average_of_a_complex_weight_is_that_of_its_parts(tf):
    """It was left out, so that an averaged model had such weights, as of a Fourier layer, as they were at the end."""
    from tapeline.train.engine.averaging import Average

    weight, parts = tf.Variable(1.0 + 2.0j), [tf.Variable(1.0, dtype="float64"), tf.Variable(2.0, dtype="float64")]
    average = Average({"w": weight, "real": parts[0], "imaginary": parts[1]}, 0.9)
    for one, value in zip((weight, *parts), (3.0 - 1.0j, 3.0, -1.0), strict=True):
        one.assign(value)
    average.step()
    kept = average.values()
    assert kept["w"].numpy() == pytest.approx(complex(kept["real"], kept["imaginary"]), rel=1e-12)
    with average.in_place():
        assert weight.numpy() == kept["w"].numpy()
    assert weight.numpy() == 3.0 - 1.0j


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
