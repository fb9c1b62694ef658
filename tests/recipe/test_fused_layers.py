"""Batch normalization in one kernel: Keras' numbers, its moving moments, its gradients; everything else stays Keras'."""

import numpy as np
import pytest


def normalized(tf, values, *, fused, training=True, policy="float32", **options):
    """Return outputs, gradients and moments of a layer that has seen `values` twice."""
    import keras

    from tapeline.recipe import fused_layers

    layer = keras.layers.BatchNormalization(dtype=policy, **options)
    layer.build(values.shape)
    for number, weight in enumerate(layer.trainable_weights):
        weight.assign(np.linspace(0.5, 1.5 + number, weight.shape[0]))
    if fused:
        fused_layers.fuse(layer)

    @tf.function(autograph=False)
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=training)
            loss = tf.reduce_sum(tf.cast(y, tf.float32) ** 3)
        variables = [variable.value for variable in layer.trainable_weights]
        return y, tape.gradient(loss, [x, *variables])

    x = tf.constant(values, layer.compute_dtype)
    run(x)
    outputs, gradients = run(x)
    kernels = [op.type for op in run.get_concrete_function(x).graph.get_operations() if "FusedBatchNorm" in op.type]
    found = [outputs, *gradients, layer.moving_mean.value, layer.moving_variance.value]
    return [tf.cast(tensor, tf.float32).numpy() for tensor in found], kernels, outputs.dtype


@pytest.fixture
def images():
    return np.random.default_rng(0).normal(1.0, 2.0, (6, 5, 4, 3)).astype(np.float32)


@pytest.mark.parametrize(
    "options", [{}, {"scale": False}, {"center": False}, {"momentum": 0.5, "epsilon": 0.1, "axis": 3}]
)
def test_it_is_keras_normalization(tf, images, options):
    theirs, none, _ = normalized(tf, images, fused=False, **options)
    ours, kernels, _ = normalized(tf, images, fused=True, **options)
    assert (none, sorted(kernels)) == ([], ["FusedBatchNormGradV3", "FusedBatchNormV3"])
    for mine, keras_own in zip(ours, theirs, strict=True):
        assert np.allclose(mine, keras_own, rtol=1e-4, atol=1e-4)


def test_of_bfloat16_the_moments_are_float32(tf, images):
    (_, *_, mean, variance), kernels, dtype = normalized(tf, images, fused=True, policy="mixed_bfloat16")
    (_, *_, their_mean, their_variance), _, _ = normalized(tf, images, fused=False, policy="mixed_bfloat16")
    assert (len(kernels), dtype) == (2, tf.bfloat16)
    assert np.allclose(mean, their_mean, rtol=1e-4)
    assert np.allclose(variance, their_variance, rtol=1e-4)


def test_one_value_a_channel_has_no_variance(tf):
    ours, _, _ = normalized(tf, np.ones((1, 1, 1, 2), np.float32), fused=True)
    theirs, _, _ = normalized(tf, np.ones((1, 1, 1, 2), np.float32), fused=False)
    for mine, keras_own in zip(ours, theirs, strict=True):
        assert np.allclose(mine, keras_own, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((6, 5, 4, 3), {"training": False}),
        ((6, 3), {}),
        ((6, 5, 4, 3), {"axis": 1}),
        ((6, 5, 4, 3), {"trainable": False}),
        ((6, 5, 4, 3), {"policy": "float64"}),
        ((6, 5, 4, 3), {"renorm": True}),
    ],
)
def test_what_the_kernel_cannot_do_is_left_to_keras(tf, shape, options):
    values = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    ours, kernels, _ = normalized(tf, values, fused=True, **options)
    theirs, _, _ = normalized(tf, values, fused=False, **options)
    assert kernels == []
    assert all(np.array_equal(mine, keras_own) for mine, keras_own in zip(ours, theirs, strict=True))
