"""`python -m tests.portable.operations`: one hash for each operation, in graph mode and under XLA, on this CPU.

Inputs come from integers, so they are the same everywhere, and stand in variables: a constant would be folded before it
is computed. With names as arguments, only operations that contain one of them. `operations.json` has what every CPU gives.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tapeline.runtime import startup

startup.tensorflow()

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

Case = Callable[[], Any]
MODES = ("graph", "xla")


def numbers(*shape: int, low: float = -1.0, high: float = 1.0, seed: int = 0, dtype: Any = np.float32) -> Any:
    """Return numbers in [low, high) from a counter: products and remainders of integers."""
    count = int(np.prod(shape))
    raw = (np.arange(count, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(97 * seed + 12345)) % np.uint64(65521)
    return (raw.astype(np.float64) / 65521 * (high - low) + low).astype(dtype).reshape(shape)


def variable(*shape: int, **how: Any) -> tf.Variable:
    """Return `numbers` in a variable."""
    return tf.Variable(numbers(*shape, **how))


def differentiated(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return a function's value and its gradients."""
    given = [tf.convert_to_tensor(each) for each in arguments]
    with tf.GradientTape() as tape:
        tape.watch(given)
        value = function(*given)
    return [value, *tape.gradient(value, given)]


def digest(values: Any) -> str:
    """Return a hash of all that a case returned; of NaNs only where they are."""
    known = hashlib.sha256()
    for value in tf.nest.flatten(values, expand_composites=True):
        if value is None:  # a gradient that does not exist
            continue
        array = np.asarray(value)
        known.update(str((array.dtype, array.shape)).encode())
        if array.dtype.kind == "f":
            array = np.where(np.isnan(array), np.asarray(np.nan, array.dtype), array)
        known.update(array.tobytes())
    return known.hexdigest()[:16]


def elementwise() -> Iterator[tuple[str, Case]]:
    """Yield the functions of one and of two numbers, in float32 and float64, with their gradients."""
    any_number = "Abs Asinh Atan Ceil Cos Cosh Erf Erfc Exp Expm1 Floor Neg Rint Sigmoid Sign Sin Sinh Square Tan Tanh"
    any_number += " Softplus Softsign Relu Relu6 Elu Selu LeakyRelu BesselI0e BesselI1e"
    fraction = "Acos Asin Atanh Erfinv Ndtri"
    positive = "Acosh Digamma Lgamma Log Log1p Reciprocal Rsqrt Sqrt Tan"
    for names, low, high in ((any_number, -4.0, 4.0), (fraction, 0.01, 0.99), (positive, 1.01, 30.0)):
        for name in names.split():
            operation = getattr(tf.raw_ops, name)
            argument = "features" if name in FEATURES else "x"
            for dtype in (np.float32, np.float64):
                x = variable(1003, low=low, high=high, seed=len(name), dtype=dtype)

                def one(x: Any = x, operation: Any = operation, argument: str = argument) -> Any:
                    return differentiated(lambda x: operation(**{argument: x}), x)

                yield f"{name}.{np.dtype(dtype).name}", one
    for name in [
        "AddV2",
        "Sub",
        "Mul",
        "RealDiv",
        "DivNoNan",
        "FloorMod",
        "Maximum",
        "Minimum",
        "Pow",
        "Atan2",
        "SquaredDifference",
        "Xlogy",
        "Xlog1py",
    ]:
        operation = getattr(tf.raw_ops, name)
        first = "y" if name == "Atan2" else "x"
        for dtype in (np.float32, np.float64):
            x, y = (variable(1003, low=0.1, high=9.0, seed=seed, dtype=dtype) for seed in (1, 2))

            def two(x: Any = x, y: Any = y, operation: Any = operation, first: str = first) -> Any:
                second = "x" if first == "y" else "y"
                return differentiated(lambda x, y: operation(**{first: x, second: y}), x, y)

            yield f"{name}.{np.dtype(dtype).name}", two
    rare = "BesselI0 BesselI1 BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1"
    rare += " Dawsn Expint FresnelCos FresnelSin Spence"
    x, y = (variable(1003, low=0.1, high=9.0, seed=seed) for seed in (3, 4))
    for name in rare.split():
        yield name, partial(getattr(tf.raw_ops, name), x=x)
    yield "Igamma", lambda: (tf.math.igamma(x, y), tf.math.igammac(x, y))
    yield "Zeta", lambda: tf.math.zeta(x + 1.0, y)
    yield "Betainc", lambda: tf.math.betainc(x, y, x / (x + y))
    yield "Complex", lambda: (tf.abs(tf.complex(x, y)), tf.math.angle(tf.complex(x, y)), tf.exp(tf.complex(x, y)))
    x = variable(1003, low=-3.0, high=3.0)
    yield "divided_by_3", lambda: x / 3.0
    yield "one_divided", lambda: differentiated(lambda x: 1.0 / (x + 5.0), x)
    yield "by_square_root", lambda: differentiated(lambda x: x / tf.sqrt(x * x + 0.1), x)
    yield "gelu", lambda: differentiated(tf.nn.gelu, x)
    yield "gelu_tanh", lambda: differentiated(lambda x: tf.nn.gelu(x, approximate=True), x)
    yield "swish", lambda: differentiated(tf.nn.swish, x)


FEATURES = frozenset(["Softplus", "Softsign", "Relu", "Relu6", "Elu", "Selu", "LeakyRelu"])


def reductions() -> Iterator[tuple[str, Case]]:
    """Yield what sums, scans, normalizes or sorts."""
    x = variable(37, 1003, low=0.5, high=1.5)
    for name in ["sum", "mean", "prod", "max", "min", "logsumexp", "std", "variance", "euclidean_norm"]:
        function = getattr(tf.math, f"reduce_{name}")
        for axis in (0, 1, None):
            yield f"reduce_{name}.{axis}", lambda f=function, axis=axis: differentiated(lambda x: f(x, axis), x)
    yield "cumsum", lambda: differentiated(lambda x: tf.cumsum(x, 1), x)
    yield "cumprod", lambda: tf.math.cumprod(x, 1)
    yield "sort", lambda: (tf.sort(x), tf.argsort(x, 1), tf.math.top_k(x, 5), tf.argmax(x, 1))
    segments = tf.Variable(np.arange(37) // 5)
    yield "segment_sum", lambda: differentiated(lambda x: tf.math.unsorted_segment_sum(x, segments, 8), x)
    yield "segment_mean", lambda: differentiated(lambda x: tf.math.unsorted_segment_mean(x, segments, 8), x)
    yield "gather", lambda: differentiated(lambda x: tf.gather(x, segments), x)
    logits, labels = variable(64, 10, low=-5.0, high=5.0), tf.Variable(np.arange(64) % 10)
    soft = tf.Variable(np.abs(numbers(64, 10, seed=3)) / 10)
    yield "softmax", lambda: differentiated(lambda x: tf.nn.softmax(x) ** 2, logits)
    yield "log_softmax", lambda: differentiated(tf.nn.log_softmax, logits)
    sparse = tf.nn.sparse_softmax_cross_entropy_with_logits
    yield "sparse_cross_entropy", lambda: differentiated(lambda x: sparse(labels, x), logits)
    yield "cross_entropy", lambda: differentiated(lambda x: tf.nn.softmax_cross_entropy_with_logits(soft, x), logits)
    yield "sigmoid_entropy", lambda: differentiated(lambda x: tf.nn.sigmoid_cross_entropy_with_logits(soft, x), logits)
    yield "l2_normalize", lambda: differentiated(lambda x: tf.nn.l2_normalize(x, 1), x)
    yield "clip_by_norm", lambda: differentiated(lambda x: tf.clip_by_norm(x, 1.0), x)
    yield "global_norm", lambda: tf.clip_by_global_norm([tf.convert_to_tensor(x), tf.convert_to_tensor(logits)], 1.0)


def linear() -> Iterator[tuple[str, Case]]:
    """Yield products, convolutions, pooling and decompositions."""
    for m, k, n in ((64, 784, 128), (16, 30, 10), (1, 128, 10), (300, 200, 1), (257, 1031, 65), (8, 4096, 16)):
        a, b = variable(m, k, seed=1), variable(k, n, low=-0.1, high=0.1, seed=2)
        yield f"matmul.{m}x{k}x{n}", lambda a=a, b=b: differentiated(tf.matmul, a, b)
    a, b = variable(64, 784, seed=1, dtype=np.float64), variable(784, 128, seed=2, dtype=np.float64)
    yield "matmul.float64", lambda: differentiated(tf.matmul, a, b)
    yield "matmul.bfloat16", lambda: tf.matmul(tf.cast(a, tf.bfloat16), tf.cast(b, tf.bfloat16))
    c, d = variable(6, 33, 47, seed=1), variable(6, 47, 20, seed=2)
    yield "batch_matmul", lambda: differentiated(tf.matmul, c, d)
    yield "einsum", lambda: differentiated(lambda c, d: tf.einsum("bij,bjk->bik", c, d), c, d)
    yield "tensordot", lambda: tf.tensordot(c, d, [[0, 2], [0, 1]])
    x, small = variable(16, 32, 32, 3, seed=3), variable(8, 16, 16, 32, seed=5)
    k, deep = variable(3, 3, 3, 32, seed=4), variable(3, 3, 32, 64, low=-0.1, high=0.1, seed=6)
    for padding in ("SAME", "VALID"):
        for s in (1, 2):
            yield (
                f"conv.{padding}.{s}",
                lambda p=padding, s=s: differentiated(lambda x, k: tf.nn.conv2d(x, k, s, p), x, k),
            )
    yield "conv.deep", lambda: differentiated(lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"), small, deep)
    one = variable(1, 1, 32, 16, seed=6)
    yield "conv.1x1", lambda: differentiated(lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"), small, one)
    across = variable(5, 5, 3, 2, seed=7)
    yield (
        "depthwise",
        lambda: differentiated(lambda x, k: tf.nn.depthwise_conv2d(x, k, [1, 1, 1, 1], "SAME"), x, across),
    )
    back = variable(3, 3, 16, 32, seed=8)
    transposed = tf.nn.conv2d_transpose
    yield "conv_transpose", lambda: differentiated(lambda x, k: transposed(x, k, [8, 32, 32, 16], 2), small, back)
    line, kernel = variable(8, 50, 12, seed=9), variable(5, 12, 20, seed=10)
    yield "conv1d", lambda: differentiated(lambda x, k: tf.nn.conv1d(x, k, 1, "SAME"), line, kernel)
    room, cube = variable(2, 8, 8, 8, 4, seed=11), variable(3, 3, 3, 4, 6, seed=12)
    yield "conv3d", lambda: differentiated(lambda x, k: tf.nn.conv3d(x, k, [1] * 5, "SAME"), room, cube)
    yield "max_pool", lambda: differentiated(lambda x: tf.nn.max_pool2d(x, 2, 2, "SAME"), small)
    yield "avg_pool", lambda: differentiated(lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"), small)
    square = variable(24, 24, seed=13)
    full = lambda: tf.matmul(square, square, transpose_b=True) + 3.0 * tf.eye(24)  # noqa: E731
    right = variable(24, 5, seed=14)
    yield "cholesky", lambda: differentiated(tf.linalg.cholesky, full())
    yield "qr", lambda: tf.linalg.qr(full())
    yield "solve", lambda: differentiated(tf.linalg.solve, full(), right)
    yield "inverse", lambda: tf.linalg.inv(full())
    yield "determinant", lambda: tf.linalg.slogdet(full())
    yield "eigh", lambda: tf.linalg.eigh(full())
    yield "svd", lambda: tf.linalg.svd(full())
    yield "triangular_solve", lambda: tf.linalg.triangular_solve(full(), right)


def drawn() -> Iterator[tuple[str, Case]]:
    """Yield random numbers, images and spectra."""
    seed = tf.Variable([1, 2])
    yield "uniform", lambda: tf.random.stateless_uniform([128, 100], seed)
    yield "normal", lambda: tf.random.stateless_normal([128, 100], seed)
    yield "threefry", lambda: tf.random.stateless_normal([128, 100], seed, alg="threefry")
    yield "truncated_normal", lambda: tf.random.stateless_truncated_normal([128, 100], seed)
    yield "integers", lambda: tf.random.stateless_uniform([1000], seed, 0, 77, tf.int64)
    yield "gamma", lambda: tf.random.stateless_gamma([100], seed, alpha=2.5)
    yield "categorical", lambda: tf.random.stateless_categorical(tf.zeros([3, 9]), 20, seed)
    yield "dropout", lambda: tf.nn.experimental.stateless_dropout(tf.ones([64, 64]), 0.4, seed)
    images = variable(4, 20, 24, 3, low=0.0, high=1.0, seed=15)
    for method in ("bilinear", "nearest", "bicubic", "area", "lanczos3"):
        yield f"resize.{method}", lambda m=method: tf.image.resize(images, [13, 31], m)
    yield "hue", lambda: tf.image.adjust_hue(images, 0.2)
    yield "saturation", lambda: tf.image.adjust_saturation(images, 1.7)
    yield "contrast", lambda: tf.image.adjust_contrast(images, 1.7)
    yield "hsv", lambda: tf.image.hsv_to_rgb(tf.image.rgb_to_hsv(images))
    yield "standardization", lambda: tf.image.per_image_standardization(images)
    turn = tf.Variable([[0.9, 0.1, 1.0, -0.1, 0.9, 2.0, 0.0, 0.0]])
    rotated = tf.raw_ops.ImageProjectiveTransformV3
    yield (
        "rotation",
        lambda: rotated(
            images=images, transforms=turn, output_shape=[20, 24], fill_value=0.0, interpolation="BILINEAR"
        ),
    )
    wave = variable(4, 256, seed=16)
    yield "fft", lambda: differentiated(lambda x: tf.abs(tf.signal.rfft(x)), wave)
    yield "stft", lambda: tf.abs(tf.signal.stft(wave, 64, 16))


def layers() -> Iterator[tuple[str, Case]]:
    """Yield Keras' layers with their gradients, and a few steps of each optimizer."""
    keras.utils.set_random_seed(0)
    sequence, images = variable(8, 12, 16, seed=17), variable(8, 10, 10, 8, seed=18)
    made: dict[str, tuple[Any, Any]] = {
        "dense": (keras.layers.Dense(16, activation="gelu"), sequence),
        "lstm": (keras.layers.LSTM(24, return_sequences=True), sequence),
        "gru": (keras.layers.GRU(24), sequence),
        "batch_normalization": (keras.layers.BatchNormalization(), images),
        "layer_normalization": (keras.layers.LayerNormalization(), sequence),
        "group_normalization": (keras.layers.GroupNormalization(4), images),
        "unit_normalization": (keras.layers.UnitNormalization(), sequence),
        "separable": (keras.layers.SeparableConv2D(12, 3), images),
        "prelu": (keras.layers.PReLU(), images),
        "softmax_layer": (keras.layers.Softmax(), sequence),
    }
    for name, (layer, given) in made.items():
        layer.build(given.shape)
        _fill(layer.variables)
        yield name, lambda layer=layer, given=given: _measured(layer, given)
    attention = keras.layers.MultiHeadAttention(2, 8)
    attention.build(sequence.shape, sequence.shape)
    _fill(attention.variables)
    yield "attention", lambda: differentiated(lambda x: attention(x, x), sequence)
    for name in [
        "SGD",
        "Adam",
        "AdamW",
        "RMSprop",
        "Adagrad",
        "Adadelta",
        "Adamax",
        "Nadam",
        "Ftrl",
        "Lion",
        "Lamb",
        "Adafactor",
    ]:
        yield f"optimizer.{name}", _optimizer(name)
    yield "fused_batch_norm", lambda: _fused(images)


def _fill(variables: Sequence[Any]) -> None:
    for number, each in enumerate(variables):
        if "float" in each.dtype:
            each.assign(numbers(*each.shape, low=0.1, high=0.5, seed=100 + number))


def _measured(layer: Any, given: Any) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(given, training=True) ** 2)
    return [loss, *tape.gradient(loss, layer.trainable_variables)]


def _optimizer(name: str) -> Case:
    """Return a function of two updates of two variables."""
    weights = [tf.Variable(numbers(40, 30, seed=seed)) for seed in (1, 2)]
    optimizer = getattr(keras.optimizers, name)(0.01)
    optimizer.build(weights)

    def updated() -> Any:
        for _ in range(2):
            optimizer.apply([tf.sin(each) for each in weights], weights)
        return [tf.identity(each) for each in weights]

    return updated


def _fused(images: Any) -> Any:
    scale = tf.constant(numbers(8, low=0.5, high=1.5))
    zeros = tf.zeros([8])

    def normalized(x: Any, scale: Any) -> Any:
        return tf.raw_ops.FusedBatchNormV3(x=x, scale=scale, offset=zeros, mean=zeros, variance=zeros + 1).y

    return differentiated(normalized, images, scale)


def on_the_host() -> Iterator[tuple[str, Case]]:
    """Yield what NumPy computes: metrics, statistics of a dataset."""
    for dtype in (np.float32, np.float64):
        x = numbers(10_007, low=0.01, high=5.0, dtype=dtype)
        for name in [
            "exp",
            "log",
            "log1p",
            "expm1",
            "sin",
            "cos",
            "tanh",
            "sqrt",
            "cbrt",
            "sum",
            "mean",
            "std",
            "cumsum",
            "arctan",
            "log2",
            "power",
        ]:
            given = (x, x) if name == "power" else (x,)
            yield f"numpy.{name}.{np.dtype(dtype).name}", partial(getattr(np, name), *given)
        a, b = numbers(70, 300, dtype=dtype), numbers(300, 50, seed=1, dtype=dtype)
        yield f"numpy.matmul.{np.dtype(dtype).name}", lambda a=a, b=b: a @ b


def hashes(only: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield each operation's name with its mode, and its hash, or the type of the error where a mode has it not."""
    for mode in MODES:
        for name, case in cases():
            if not only or any(each in f"{mode} {name}" for each in only):
                yield f"{mode} {name}", _hash(tf.function(case, jit_compile=mode == "xla", autograph=False))
    for name, case in on_the_host():
        if not only or any(each in name for each in only):
            yield name, digest(case())


def by_themselves() -> Iterator[tuple[str, str]]:
    """Yield each operation's name and its hash outside of any function."""
    for name, case in cases():
        yield name, _hash(case)


def cases() -> Iterator[tuple[str, Case]]:
    """Yield all that TensorFlow computes."""
    for group in (elementwise, reductions, linear, drawn, layers):
        yield from group()


def _hash(case: Case) -> str:
    try:
        return digest(case())
    except (tf.errors.OpError, LookupError, NotImplementedError) as error:
        return type(error).__name__


if __name__ == "__main__":
    for operation, value in hashes(sys.argv[1:]):
        print(f"{operation:40}{value}", flush=True)
