"""What stands in for slow kernels in a step of training has their bits, or those that its description says."""

import numpy as np
import pytest

from tapeline.runtime import faster

HALVES = 8
"""So few different values that many windows have their largest twice."""


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    monkeypatch.setattr(faster, "LEAST", 0)


def differentiated(tf, size, strides=None, padding="VALID"):
    def gradient(images, upper):
        with tf.GradientTape() as tape:
            tape.watch(images)
            pooled = tf.nn.max_pool2d(images, size, strides or size, padding)
        return tape.gradient(pooled, images, upper)

    return gradient


def given(tf, shape, size, dtype="float32"):
    random = np.random.default_rng(0)
    images = np.maximum(random.integers(-HALVES, HALVES, shape) / 2, 0)
    rows, columns = size
    upper = random.normal(size=(shape[0], shape[1] // rows, shape[2] // columns, shape[3]))
    upper[0, 0] = -0.0
    return tf.cast(images, dtype), tf.cast(upper, dtype)


def traced(tf, function, *arguments, mode="graph"):
    with faster.kernels():
        return tf.function(function, jit_compile=mode == "xla").get_concrete_function(*arguments)


def called(concrete):
    """Return the types of a function's own operations, as TensorFlow runs them."""
    return {node.op for node in concrete.function_def.node_def}


@pytest.mark.parametrize("mode", ["graph", "xla"])
@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((3, 8, 8, 5), (2, 2)),
        ((2, 7, 9, 3), (2, 2)),
        ((2, 11, 7, 4), (3, 2)),
        ((1, 9, 8, 1), (4, 4)),
        ((2, 5, 5, 2), (1, 5)),
    ],
)
def test_the_gradient_of_max_pooling_has_the_same_bits(tf, mode, shape, size):
    arguments = given(tf, shape, size)
    function = traced(tf, differentiated(tf, size), *arguments, mode=mode)
    assert "MaxPoolGrad" not in called(function)
    assert function(*arguments).numpy().tobytes() == differentiated(tf, size)(*arguments).numpy().tobytes()


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_other_types(tf, dtype):
    arguments = given(tf, (2, 6, 6, 3), (2, 2), dtype)
    function = traced(tf, differentiated(tf, (2, 2)), *arguments)
    assert function(*arguments).numpy().tobytes() == differentiated(tf, (2, 2))(*arguments).numpy().tobytes()


def test_shapes_that_are_known_late(tf):
    specs = [tf.TensorSpec([None, None, None, 3]), tf.TensorSpec([None, None, None, 3])]
    function = traced(tf, differentiated(tf, (2, 2)), *specs)
    for shape in ((2, 6, 6, 3), (3, 9, 4, 3)):
        arguments = given(tf, shape, (2, 2))
        assert function(*arguments).numpy().tobytes() == differentiated(tf, (2, 2))(*arguments).numpy().tobytes()


@pytest.mark.parametrize(("size", "strides", "padding"), [(3, 2, "VALID"), (2, 2, "SAME"), (5, 5, "VALID")])
def test_other_poolings_stay(tf, size, strides, padding):
    images = tf.ones((2, 20, 20, 3))
    pooled = tf.nn.max_pool2d(images, size, strides, padding)
    assert "MaxPoolGrad" in called(traced(tf, differentiated(tf, size, strides, padding), images, pooled))


def test_what_is_no_number_is_passed_on(tf):
    images = np.zeros((1, 2, 2, 1), np.float32)
    images[0, 1, 0, 0] = np.nan
    upper = tf.constant(np.full((1, 1, 1, 1), np.nan, np.float32))
    found = traced(tf, differentiated(tf, (2, 2)), tf.constant(images), upper)(tf.constant(images), upper)
    assert np.isnan(found).any()


def test_a_second_derivative(tf):
    def second(images):
        with tf.GradientTape() as outer:
            outer.watch(images)
            with tf.GradientTape() as inner:
                inner.watch(images)
                pooled = tf.reduce_sum(tf.nn.max_pool2d(images, 2, 2, "VALID") ** 3)
            slope = tf.reduce_sum(inner.gradient(pooled, images) ** 2)
        return outer.gradient(slope, images)

    images, _ = given(tf, (2, 6, 6, 3), (2, 2))
    assert traced(tf, second, images)(images).numpy().tobytes() == second(images).numpy().tobytes()


def test_in_no_other_function(tf):
    arguments = given(tf, (2, 6, 6, 3), (2, 2))
    traced(tf, differentiated(tf, (2, 2)), *arguments)
    assert "MaxPoolGrad" in called(tf.function(differentiated(tf, (2, 2))).get_concrete_function(*arguments))


@pytest.mark.parametrize(
    ("shape", "stays"), [((19, 16, 16, 64), False), ((16, 16, 16, 64), True), ((None, 16, 16, 64), True)]
)
def test_what_is_small_or_of_unknown_size_stays(tf, monkeypatch, shape, stays):
    monkeypatch.undo()
    batch, rows, columns, channels = shape
    specs = [tf.TensorSpec(shape), tf.TensorSpec([batch, rows // 2, columns // 2, channels])]
    assert ("MaxPoolGrad" in called(traced(tf, differentiated(tf, (2, 2)), *specs))) == stays


KERNELS, IMAGES = "Conv2DBackpropFilter", "Conv2DBackpropInput"


@pytest.fixture
def one_thread(tf, monkeypatch):
    monkeypatch.setattr(tf.config.threading, "get_intra_op_parallelism_threads", lambda: 1)
    monkeypatch.setattr(faster, "LEAST_PRODUCTS", 0)


def convolved(tf, **how):
    def gradients(images, kernel):
        with tf.GradientTape() as tape:
            tape.watch([images, kernel])
            squares = tf.nn.conv2d(images, kernel, **{"strides": 1, "padding": "SAME", **how}) ** 2
        return tape.gradient(squares, [images, kernel])

    return gradients


def numbers(tf, *shape, dtype="float32"):
    return tf.constant(np.random.default_rng(len(shape)).normal(size=shape), dtype)


@pytest.mark.parametrize(
    ("how", "channels", "size", "compiled"),
    [
        ({}, 16, 3, {KERNELS, IMAGES}),
        ({"strides": 2}, 17, (3, 2), {KERNELS, IMAGES}),
        ({"strides": 2, "padding": "VALID"}, 16, 5, {KERNELS, IMAGES}),
        ({"padding": "VALID"}, 16, 3, {KERNELS}),
        ({}, 3, 3, {KERNELS}),
        ({}, 16, 1, {IMAGES}),
        ({"padding": [[0, 0], [1, 2], [0, 1], [0, 0]]}, 16, 3, set()),
    ],
)
def test_the_gradients_of_a_convolution_are_compiled_where_that_is_faster(
    tf, one_thread, how, channels, size, compiled
):
    rows, columns = size if isinstance(size, tuple) else (size, size)
    images, kernel = numbers(tf, 4, 9, 8, channels), numbers(tf, rows, columns, channels, 8)
    function = traced(tf, convolved(tf, **how), images, kernel)
    assert {KERNELS, IMAGES} - called(function) == compiled
    for own, theirs in zip(function(images, kernel), convolved(tf, **how)(images, kernel), strict=True):
        np.testing.assert_allclose(own, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())


def test_convolutions_in_float64_stay(tf, one_thread):
    images, kernel = numbers(tf, 4, 9, 8, 16, dtype="float64"), numbers(tf, 3, 3, 16, 8, dtype="float64")
    assert {KERNELS, IMAGES} <= called(traced(tf, convolved(tf), images, kernel))


STRIDES, SAME = [1, 1, 1, 1], "SAME"
NARROW = {
    KERNELS: (
        lambda raw, x, u: raw(input=x, filter_sizes=[3, 3, 16, 8], out_backprop=u, strides=STRIDES, padding=SAME),
        [(4, 9, 8, 16), (4, 9, 8, 8)],
    ),
    IMAGES: (
        lambda raw, k, u: raw(input_sizes=[4, 9, 8, 16], filter=k, out_backprop=u, strides=STRIDES, padding=SAME),
        [(3, 3, 16, 8), (4, 9, 8, 8)],
    ),
    "DepthwiseConv2dNativeBackpropFilter": (
        lambda raw, x, u: raw(input=x, filter_sizes=[3, 3, 5, 1], out_backprop=u, strides=STRIDES, padding=SAME),
        [(4, 9, 8, 5), (4, 9, 8, 5)],
    ),
    "Conv3D": (
        lambda raw, x, k: raw(input=x, filter=k, strides=[1, 2, 1, 1, 1], padding="VALID"),
        [(2, 5, 6, 7, 3), (2, 3, 3, 3, 4)],
    ),
    "Conv3DBackpropFilterV2": (
        lambda raw, x, u: raw(
            input=x, filter_sizes=[3, 3, 3, 3, 4], out_backprop=u, strides=[1, *STRIDES], padding=SAME
        ),
        [(2, 5, 6, 7, 3), (2, 5, 6, 7, 4)],
    ),
    "Conv3DBackpropInputV2": (
        lambda raw, k, u: raw(
            input_sizes=[2, 5, 6, 7, 3], filter=k, out_backprop=u, strides=[1, *STRIDES], padding=SAME
        ),
        [(3, 3, 3, 3, 4), (2, 5, 6, 7, 4)],
    ),
    "Einsum": (lambda raw, a, b: raw(inputs=[a, b], equation="bthd,bshd->bhts"), [(2, 5, 3, 4), (2, 6, 3, 4)]),
}
"""Operation → a call of it, and its arguments' shapes."""


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", NARROW)
def test_in_16_bits_they_are_computed_in_float32_and_rounded_once(tf, name, dtype):
    call, shapes = NARROW[name]
    arguments = [numbers(tf, *shape, dtype=dtype) for shape in shapes]

    def narrow(*given):
        return call(getattr(tf.raw_ops, name), *given)

    @tf.function
    def wide(*given):
        return tf.cast(narrow(*(tf.cast(each, tf.float32) for each in given)), dtype)

    function = traced(tf, narrow, *arguments)
    assert name not in called(function)
    assert function(*arguments).numpy().tobytes() == wide(*arguments).numpy().tobytes()
    assert name in called(traced(tf, narrow, *(tf.cast(each, tf.float32) for each in arguments))), "float32 stays"


def test_equations_that_differ_in_their_dots_alone_are_told_apart(tf):
    """The first one's function was called for the second."""
    a, b, v = (numbers(tf, *shape, dtype="bfloat16") for shape in ((2, 3, 4), (4, 5), (2, 4, 5)))

    def both(a, b, v):
        return tf.einsum("...ab,bc->...ac", a, b), tf.einsum("...ab,...bc->...ac", a, v)

    function = traced(tf, both, a, b, v)
    assert "Einsum" not in called(function)
    expected = both(*(tf.cast(each, tf.float32) for each in (a, b, v)))
    for found, wide in zip(function(a, b, v), expected, strict=True):
        np.testing.assert_array_equal(found, tf.cast(wide, tf.bfloat16))


def test_the_gradients_of_a_convolution_in_16_bits_are_compiled_where_those_of_float32_are(tf, one_thread):
    images, kernel = numbers(tf, 4, 9, 8, 16, dtype="bfloat16"), numbers(tf, 3, 3, 16, 8, dtype="bfloat16")
    wide = traced(tf, convolved(tf), *(tf.cast(each, tf.float32) for each in (images, kernel)))
    function = traced(tf, convolved(tf), images, kernel)
    assert (_compilations(function), _compilations(wide)) == (2, 2)
    found, expected = function(images, kernel), convolved(tf)(images, kernel)
    for own, theirs in zip(found, expected, strict=True):
        own, theirs = tf.cast(own, tf.float32).numpy(), tf.cast(theirs, tf.float32).numpy()
        np.testing.assert_allclose(own, theirs, rtol=0.05, atol=0.05 * np.abs(theirs).max())


def _compilations(concrete):
    """Return how many of a function's own operations XLA compiles."""
    return sum(node.attr["_XlaMustCompile"].b for node in concrete.function_def.node_def)


def test_an_operation_that_is_called_as_a_scope_of_others(tf):
    """A function's operations are named after the call where they are put in its place: their names must be free."""

    def both(a, b):
        with tf.name_scope("product/"):
            a = tf.cast(a, tf.bfloat16, name="Cast")
        return tf.raw_ops.Einsum(inputs=[a, b], equation="ij,jk->ik", name="product")

    a, b = numbers(tf, 3, 4), numbers(tf, 4, 5, dtype="bfloat16")
    function = traced(tf, both, a, b)
    assert "Einsum" not in called(function)
    looped = tf.function(
        lambda: tf.while_loop(lambda n, _: n < 2, lambda n, _: (n + 1, function(a, b)), (0, both(a, b)))
    )
    np.testing.assert_allclose(tf.cast(looped()[1], tf.float32), tf.cast(both(a, b), tf.float32), rtol=0.05, atol=0.05)


def test_convolutions_stay_that_are_small_or_of_unknown_size_or_have_several_threads(tf, one_thread, monkeypatch):
    images, kernel = tf.TensorSpec([4, 9, 8, 16]), tf.TensorSpec([3, 3, 16, 8])
    assert {KERNELS, IMAGES} <= called(traced(tf, convolved(tf), tf.TensorSpec([None, 9, 8, 16]), kernel))
    monkeypatch.setattr(faster, "LEAST_PRODUCTS", 4 * 9 * 8 * 8 * 3 * 3 * 16)
    assert not {KERNELS, IMAGES} & called(traced(tf, convolved(tf), images, kernel))
    monkeypatch.setattr(faster, "LEAST_PRODUCTS", 4 * 9 * 8 * 8 * 3 * 3 * 16 + 1)
    assert {KERNELS, IMAGES} <= called(traced(tf, convolved(tf), images, kernel))
    monkeypatch.undo()
    assert tf.config.threading.get_intra_op_parallelism_threads() != 1
    monkeypatch.setattr(faster, "LEAST_PRODUCTS", 0)
    assert {KERNELS, IMAGES} <= called(traced(tf, convolved(tf), images, kernel))


def test_a_second_derivative_of_a_convolution(tf, one_thread):
    def second(images, kernel):
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            slope = tf.reduce_sum(convolved(tf)(images, kernel)[0] ** 2)
        return tape.gradient(slope, kernel)

    images, kernel = numbers(tf, 4, 9, 8, 16), numbers(tf, 3, 3, 16, 8)
    found = traced(tf, second, images, kernel)(images, kernel)
    expected = second(images, kernel)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
