"""Draws without a seed of their own are functions of (seed, step); each private name that this needs is still there."""

import numpy as np
import pytest

from tapeline.runtime.errors import InputError

DRAWS = {
    "brightness": "tf.image.random_brightness(tf.zeros([4, 4, 3]), 0.5)",
    "contrast": "tf.image.random_contrast(tf.reshape(tf.range(48.0), [4, 4, 3]), 0.5, 1.5)",
    "hue": "tf.image.random_hue(tf.ones([4, 4, 3]) * [0.1, 0.5, 0.9], 0.4)",
    "saturation": "tf.image.random_saturation(tf.ones([4, 4, 3]) * [0.1, 0.5, 0.9], 0.2, 0.9)",
    "flips": "tf.image.random_flip_left_right(tf.reshape(tf.range(512.0), [32, 4, 4, 1]))",
    "crop": "tf.image.random_crop(tf.range(1000.0), [1])",
    "quality": "tf.image.random_jpeg_quality(tf.cast(tf.reshape(tf.range(192), [8, 8, 3]), tf.uint8), 1, 99)",
    "keras.random": "keras.random.normal([4])",
    "layer": "flip(tf.reshape(tf.range(512.0), [32, 4, 4, 1]))",
}


@pytest.fixture
def draw(tf):
    """Return a function that draws twice in one step, in a graph, as `prepare` does; and the operations of that graph."""
    import keras

    from tapeline.recipe import Context, randomness
    from tapeline.runtime import keras_private

    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    flip = keras.layers.RandomFlip()
    keras.random.normal([1])  # makes the generator behind keras.random

    def make(code: str):
        def both(step):
            context = Context(step, tf.constant([7, 0]))
            states = {"flip": flip.generator.state, "keras.random": keras_private.global_seed_state()}
            with randomness.without_states(states, context, "prepare"), randomness.seeded_images(context, "prepare"):
                names = {"tf": tf, "keras": keras, "flip": flip}
                return eval(code, names), eval(code, names)

        return tf.function(both, autograph=False).get_concrete_function(tf.TensorSpec([], tf.int64))

    return make


@pytest.mark.parametrize("code", DRAWS.values(), ids=DRAWS)
def test_a_draw_is_a_function_of_seed_and_step(draw, tf, code):
    both = draw(code)
    stateful = {o.type for o in both.graph.get_operations() if "seed2" in o.node_def.attr}
    assert not stateful
    steps = {n: [value.numpy().tobytes() for value in both(tf.constant(n, tf.int64))] for n in (0, 1, 2, 3, 4, 5, 0)}
    again = [value.numpy().tobytes() for value in draw(code)(tf.constant(0, tf.int64))]
    assert again == steps[0]
    assert len({first for first, _ in steps.values()}) > 1  # steps differ
    assert any(first != second for first, second in steps.values())  # calls within a step differ


def test_each_image_of_a_batch_is_flipped_for_itself(draw, tf):
    """A batch of the same image comes out in both ways."""
    flipped, _ = draw(
        "tf.image.random_flip_left_right(tf.tile(tf.reshape(tf.range(16.0), [1, 4, 4, 1]), [32, 1, 1, 1]))"
    )(tf.constant(3, tf.int64))
    assert len(np.unique(flipped.numpy().reshape(32, -1), axis=0)) == 2


def test_what_surrounds_is_left_as_it_was(draw, tf):
    from tensorflow.python.ops import image_ops_impl, random_crop_ops, random_ops

    with pytest.raises(InputError, match="inside a loop"):
        draw("tf.map_fn(lambda i: tf.image.random_brightness(i, 0.5), tf.zeros([2, 4, 4, 3]))")
    assert image_ops_impl.random_ops is random_ops
    assert random_crop_ops.random_ops is random_ops
