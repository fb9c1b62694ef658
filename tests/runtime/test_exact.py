"""Approximate operations are replaced in what TensorFlow runs, wherever they stand, and mean the same."""

import numpy as np
import pytest

from tapeline.runtime import exact
from tapeline.runtime.saved_models import graph
from tapeline.runtime.saved_models import operations as judged


@pytest.fixture
def kernels(tf, monkeypatch):
    """Return a function that calls another one with TensorFlow's own kernels, outside of functions."""
    from tapeline.runtime import replaced_operations as private

    def call(function, *given):
        with monkeypatch.context() as patch:
            patch.setattr(private.pywrap_tfe, "TFE_Py_FastPathExecute", private._FAST)
            patch.setattr(private.execute, "execute", private._EXECUTE)
            return function(*given)

    return call


X = np.linspace(0.2, 5, 35, dtype=np.float32).reshape(5, 7)


@pytest.fixture(scope="module")
def raw(tf):
    """Functions of the operations that are replaced, by name."""
    named = {"Softmax": "logits"}
    names = [name for name in exact.OPERATIONS if not name.startswith("Fused")]
    return {name: (getattr(tf.raw_ops, name), named.get(name, "x")) for name in names}


def operations(tf, concrete):
    """Return the types of all operations that a function comes to, in the functions that it calls too."""
    from tensorflow.python.eager import context

    found, left, seen = set(), [concrete.name], set()
    while left:
        definition = context.context().get_function_def(left.pop())
        for node in definition.node_def:
            found.add(node.op)
            for attribute in node.attr.values():
                called = [attribute.func.name, *(one.name for one in attribute.list.func)]
                left += [name for name in called if name and name not in seen]
                seen.update(called)
    return found


@pytest.mark.parametrize("name", [name for name in exact.OPERATIONS if not name.startswith("Fused")])
def test_the_exact_form_means_the_same(tf, raw, kernels, name):
    operation, argument = raw[name]
    values = tf.constant(np.clip(X, 0.1, 0.9) if name in ("Erfinv", "Ndtri") else X)

    def differentiated(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = operation(**{argument: x})
            z = tf.reduce_sum(tf.sin(y))
        return [y] if name.startswith("Bessel") else [y, tape.gradient(z, x)]

    traced = tf.function(differentiated).get_concrete_function(values)
    for one, other, by_itself in zip(
        traced(values), kernels(differentiated, values), differentiated(values), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6)
        np.testing.assert_array_equal(one, by_itself)
    assert "PartitionedCall" in operations(tf, traced)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_other_types(tf, kernels, dtype):
    values = tf.cast(X, dtype)
    for function in (tf.math.rsqrt, tf.nn.softmax):
        one, other = kernels(function, values), tf.function(function)(values)
        np.testing.assert_array_equal(tf.cast(function(values), "float64"), tf.cast(other, "float64"))
        assert one.dtype == other.dtype == dtype
        np.testing.assert_allclose(tf.cast(one, "float64"), tf.cast(other, "float64"), rtol=0.01)


def test_inside_loops_branches_and_functions(tf):
    inner = tf.function(tf.nn.softmax)

    @tf.function
    def outer(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.while_loop(lambda n, _: n < 3, lambda n, y: (n + 1, y * tf.math.rsqrt(y + 1)), (0, x))[1]
            y = tf.cond(tf.reduce_sum(y) > 0, lambda: tf.math.reciprocal(y), lambda: tf.math.erfc(y))
            y += inner(y)
        return tape.gradient(y, x)

    found = operations(tf, outer.get_concrete_function(tf.constant(X)))
    assert not found & {"Rsqrt", "Reciprocal", "Softmax", "Inv"} and found & {"While", "StatelessWhile"}


def test_a_tape_outside_a_function_that_has_many(tf, kernels):
    """Such a function returns all that its gradient needs, so outputs of replaced operations as they are."""

    def added(x):
        for _ in range(12):
            x = tf.nn.softmax(x * 3) + tf.math.rsqrt(x + 1)
        return tf.reduce_sum(tf.sin(x))

    x = tf.constant(X)
    found = []

    def differentiated(f):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return y, tape.gradient(y, x)

    found = differentiated(tf.function(added)), kernels(differentiated, added), differentiated(added)
    for one, other, by_itself in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(one, by_itself)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("factor", [1.0, 0.1])
def test_batch_normalization(tf, kernels, training, factor):
    images = tf.constant(np.sin(np.arange(8 * 4 * 4 * 3, dtype=np.float32)).reshape(8, 4, 4, 3))
    scale, offset = tf.constant([1.0, 2, 3]), tf.constant([0.1, 0.2, 0.3])
    mean, variance = tf.constant([0.1, 0.0, -0.1]), tf.constant([0.4, 0.5, 0.6])

    def differentiated(images, scale, offset):
        with tf.GradientTape() as tape:
            tape.watch([images, scale, offset])
            y, new_mean, new_variance, *_ = tf.raw_ops.FusedBatchNormV3(
                x=images, scale=scale, offset=offset, mean=mean, variance=variance, epsilon=1e-3,
                exponential_avg_factor=factor, is_training=training,
            )  # fmt: skip
            z = tf.reduce_sum(y * y * images)
        return y, new_mean, new_variance, *tape.gradient(z, [images, scale, offset])

    traced = tf.function(differentiated)
    given = images, scale, offset
    for one, other, by_itself in zip(
        traced(*given), kernels(differentiated, *given), differentiated(*given), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(one, by_itself)
    assert "FusedBatchNormV3" not in operations(tf, traced.get_concrete_function(images, scale, offset))


def test_a_saved_model_has_the_exact_form(tf, tmp_path):
    from tensorflow.core.protobuf import saved_model_pb2

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 7])])
        def __call__(self, x):
            return {"p": tf.nn.softmax(x)}

    tf.saved_model.save(Model(), str(tmp_path / "model"))
    content = saved_model_pb2.SavedModel.FromString((tmp_path / "model" / "saved_model.pb").read_bytes())
    library = content.meta_graphs[0].graph_def.library.function
    assert not any(node.op == "Softmax" for function in library for node in function.node_def)
    assert not graph.refused(tmp_path / "model", judged.ALLOWED), "the gate lets it in"
    again = tf.saved_model.load(str(tmp_path / "model"))
    np.testing.assert_allclose(again(X)["p"], tf.nn.softmax(X), rtol=1e-6)


def test_what_a_forward_accumulator_follows_by_itself(tf):
    """TensorFlow records the operation, so its derivative is the registered one."""
    with tf.autodiff.ForwardAccumulator(tf.constant([2.0]), tf.constant([1.0])) as follower:
        y = tf.math.reciprocal(tf.constant([1.0]) * 0 + 2.0)
    assert y.numpy() == 0.5 and follower.jvp(y) is None
    x = tf.constant([2.0])
    with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0])) as follower:
        y = tf.math.reciprocal(x)
    np.testing.assert_allclose(follower.jvp(y), [-0.25])


def test_arguments_that_are_no_tensors_yet(tf):
    for given in (4.0, [4.0], np.float32(4), tf.Variable(4.0)):
        np.testing.assert_array_equal(tf.math.rsqrt(given), np.full(np.shape(given), 0.5, np.float32))
    for operation in (tf.math.rsqrt, tf.math.atan, tf.math.erfc, tf.math.reciprocal):
        with pytest.raises((tf.errors.OpError, TypeError)):
            operation(tf.constant(["four"]))
    for operation in (tf.math.atan, tf.math.erfc, tf.math.special.bessel_i0):
        with pytest.raises((tf.errors.OpError, TypeError)):
            operation(tf.constant([1, 2]))


def test_complex_numbers_keep_their_kernels(tf):
    x = tf.constant([0.5 + 2j])
    for function in (tf.math.atan, tf.function(tf.math.atan)):
        np.testing.assert_allclose(function(x), np.arctan([0.5 + 2j]), rtol=1e-5)


def test_exactness_outlasts_tensorflows_own_checks(tf):
    tf.debugging.enable_check_numerics()
    tf.debugging.disable_check_numerics()
    x = tf.constant(X)
    np.testing.assert_array_equal(tf.math.rsqrt(x), tf.function(tf.math.rsqrt)(x))


def test_native_bits_need_a_process_of_their_own(tf):
    from tapeline.runtime import startup
    from tapeline.runtime.errors import InputError

    with pytest.raises(
        InputError, match="TensorFlow has already started with portable bits, so train in another process"
    ):
        startup.tensorflow(portable=False)
