"""A sum of gradients has the same bits as ever, and XLA computes it once."""

import gc
import re
from contextlib import nullcontext

import numpy as np
import pytest

from tapeline.runtime import computed_once

SHAPE = (3, 5)


def recurrence(tf, cells):
    """Return the gradient of an unrolled network's last memory by its first: cells with two gates, as an LSTM's."""

    def gradient(state, given):
        with tf.GradientTape() as tape:
            tape.watch(state)
            memory, weights = state, tf.matmul(given, given, transpose_a=True)
            for _ in range(cells):
                gates = tf.matmul(tf.tanh(memory), weights)
                memory = memory * tf.sigmoid(gates) + tf.sigmoid(gates + 1.0) * tf.tanh(gates)
        return tape.gradient(memory, state)

    return gradient


def numbers(tf, shape=SHAPE, dtype="float32"):
    return tf.cast(np.random.default_rng(len(shape)).normal(size=shape), dtype)


def traced(tf, function, *arguments, once=True, **how):
    with computed_once.sums_of_gradients() if once else nullcontext():
        return tf.function(function, autograph=False, **how).get_concrete_function(*arguments)


def types(concrete):
    return [operation.type for operation in concrete.graph.get_operations()]


def compiled(tf, cells, *, once):
    """Return how many operations XLA's program for the gradient has, those within fusions too."""
    arguments = numbers(tf), numbers(tf)
    with computed_once.sums_of_gradients() if once else nullcontext():
        function = tf.function(recurrence(tf, cells), autograph=False, jit_compile=True)
        program = function.experimental_get_compiler_ir(*arguments)(stage="optimized_hlo")
    return len(re.findall(r" (?:multiply|add|subtract)\(", program))


def test_xla_computes_each_sum_once(tf):
    """Without it the program grows with the square of the number of cells."""
    few, many = (compiled(tf, cells, once=True) for cells in (8, 16))
    assert many < 2.5 * few
    assert compiled(tf, 16, once=False) > 1.5 * many


@pytest.mark.parametrize("cells", [1, 2, 7])
def test_a_sum_has_the_same_bits(tf, cells):
    """Where XLA does not choose what is rounded."""
    arguments = numbers(tf), numbers(tf)
    plain, ours = (traced(tf, recurrence(tf, cells), *arguments, once=once) for once in (False, True))
    assert "RealDiv" in types(ours) and "RealDiv" not in types(plain)
    assert ours(*arguments).numpy().tobytes() == plain(*arguments).numpy().tobytes()


@pytest.mark.parametrize("mode", [False, True])
def test_what_is_no_usual_number_passes_as_it_is(tf, mode):
    def gradient(x, upper):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * 1.0 + tf.identity(x) * 0.0
        return tape.gradient(y, x, upper)

    upper = tf.constant([np.nan, np.inf, -np.inf, -0.0, 0.0, 3e38], tf.float32)
    plain, ours = (traced(tf, gradient, upper, upper, once=once, jit_compile=mode) for once in (False, True))
    assert ours(upper, upper).numpy().tobytes() == plain(upper, upper).numpy().tobytes()


def test_a_sum_of_products_stays(tf):
    def gradient(weights, x):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            y = tf.matmul(tf.matmul(x, weights), weights)
        return tape.gradient(y, weights)

    found = types(traced(tf, gradient, numbers(tf, (4, 4)), numbers(tf, (2, 4))))
    assert "AddN" in found and "RealDiv" not in found


def squared(tf):
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x + x
        return tape.gradient(y, x)

    return gradient


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_other_floats(tf, dtype):
    x = numbers(tf, dtype=dtype)
    plain, ours = (traced(tf, squared(tf), x, once=once) for once in (False, True))
    assert "RealDiv" in types(ours) and ours(x).numpy().tobytes() == plain(x).numpy().tobytes()


def test_complex_sums_stay(tf):
    assert "RealDiv" not in types(traced(tf, squared(tf), numbers(tf, dtype="complex64")))


def test_rows_of_a_table_stay(tf):
    table = tf.Variable(numbers(tf, (6, 2)))

    def gradient(rows):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.gather(table, rows) ** 2) + tf.reduce_sum(tf.gather(table, rows + 1))
        found = tape.gradient(y, table)
        return found.values, found.indices

    rows = tf.constant([1, 3])
    plain, ours = (traced(tf, gradient, rows, once=once) for once in (False, True))
    for mine, theirs in zip(ours(rows), plain(rows), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_second_derivative(tf):
    inner = recurrence(tf, 3)

    def second(state, given):
        with tf.GradientTape() as tape:
            tape.watch(state)
            slope = tf.reduce_sum(inner(state, given) ** 2)
        return tape.gradient(slope, state)

    arguments = numbers(tf), numbers(tf)
    plain, ours = (traced(tf, second, *arguments, once=once) for once in (False, True))
    assert ours(*arguments).numpy().tobytes() == plain(*arguments).numpy().tobytes()


def test_an_accumulator_that_outlives_the_block(tf):
    """It crashed as it was collected: it points to what sums its gradients."""
    kept = []

    def product(x):
        kept.append(tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)))
        with kept[-1] as forward:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = x * x * x + x
            slope = tape.gradient(y, x)
        return forward.jvp(slope)

    x = numbers(tf)
    found = [traced(tf, product, x)(x) for _ in range(3)]
    kept.clear()
    gc.collect()
    for each in found:
        np.testing.assert_allclose(each, 6 * x, rtol=1e-6)


def test_a_jacobian(tf):
    def jacobian(state, given):
        with tf.GradientTape() as tape:
            tape.watch(state)
            y = state * given + tf.tanh(state)
        return tape.jacobian(y, state)

    arguments = numbers(tf, (4,)), numbers(tf, (4,))
    plain, ours = (traced(tf, jacobian, *arguments, once=once) for once in (False, True))
    assert ours(*arguments).numpy().tobytes() == plain(*arguments).numpy().tobytes()


def test_a_loop_within(tf):
    inner = recurrence(tf, 2)

    def repeated(state, given):
        return tf.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, inner(x, given)), (0, state))[1]

    arguments = numbers(tf), numbers(tf)
    plain, ours = (traced(tf, repeated, *arguments, once=once, jit_compile=True) for once in (False, True))
    np.testing.assert_allclose(ours(*arguments), plain(*arguments), rtol=1e-5)


def test_a_users_function_that_was_traced_here_is_used_elsewhere(tf):
    """It keeps the one, which so must not belong to the graph around it."""
    own = tf.function(recurrence(tf, 3), autograph=False)
    arguments = numbers(tf), numbers(tf)
    first = traced(tf, lambda *given: own(*given) + 1.0, *arguments)
    second = traced(tf, lambda *given: own(*given) + 1.0, *arguments, once=False)
    expected = recurrence(tf, 3)(*arguments) + 1.0
    for function in (first, second, lambda *given: own(*given) + 1.0):
        np.testing.assert_allclose(function(*arguments), expected, rtol=1e-6)


def test_a_gradient_that_is_a_constant(tf):
    upper = tf.ones(SHAPE)

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y, z = tf.identity(x), tf.identity(x)
        return tape.gradient([y, z], x, [upper, upper])

    np.testing.assert_array_equal(traced(tf, gradient, numbers(tf))(numbers(tf)), 2 * upper)


def test_not_in_eager_execution_and_not_after_the_block(tf):
    arguments = numbers(tf), numbers(tf)
    expected = recurrence(tf, 3)(*arguments).numpy().tobytes()
    with pytest.raises(RuntimeError), computed_once.sums_of_gradients():
        assert recurrence(tf, 3)(*arguments).numpy().tobytes() == expected
        raise RuntimeError
    assert "RealDiv" not in types(traced(tf, recurrence(tf, 3), *arguments, once=False))
