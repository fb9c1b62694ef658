"""Operations whose threads add in any order are refused by name; those like them that repeat are not."""

import pytest

from tapeline.runtime.errors import InputError

CODE = """
import tensorflow as tf
raw = tf.raw_ops
boxes = tf.constant([[0.1, 0.1, 0.8, 0.9]])
image = tf.ones([1, 8, 8, 1])
table = tf.Variable(tf.zeros([5, 2]))
counts = tf.Variable(tf.zeros([5], tf.int32))
few, many = tf.zeros([1023], tf.int32), tf.zeros([1024], tf.int32)
one = tf.ones([1024, 2])

def crop(image):
    with tf.GradientTape() as tape:
        tape.watch(image)
        crops = tf.image.crop_and_resize(image, boxes, [0], [3, 3])
    return tape.gradient(crops, image)

def crop_of_gathered():
    with tf.GradientTape() as tape:
        tape.watch(image)
        crops = tf.gather(tf.gather(image, [1, 3, 5], axis=1), [2, 4, 6], axis=2)
    return tape.gradient(crops, image)

def sparse():
    given = tf.sparse.from_dense(tf.ones([4, 5]))
    return raw.SparseTensorToCSRSparseMatrix(
        indices=given.indices, values=given.values, dense_shape=given.dense_shape
    )

@tf.function
def step():
    return {step}
"""


def traced(step):
    names = {}
    exec(CODE.replace("{step}", step), names)
    found = [names["table"], names["counts"]]
    return names["step"].python_function, {str(n): variable for n, variable in enumerate(found)}


@pytest.fixture
def check(tf):
    from tapeline.train.checks import completeness

    def call(step, **options):
        function, tracked = traced(step)
        completeness.check(tf.function(function, autograph=False).get_concrete_function(), tracked, **options)

    return call


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("crop(image)", r"train_step uses CropAndResizeGradImage \(.*tf.stop_gradient\(image\)"),
        (
            "table.scatter_add(tf.IndexedSlices(one, many))",
            "uses ResourceScatterAdd .*: use the variable's scatter_nd_add",
        ),
        (
            "table.scatter_sub(tf.IndexedSlices(one, many))",
            "uses ResourceScatterSub .*: use the variable's scatter_nd_sub",
        ),
        ("table.scatter_mul(tf.IndexedSlices(one, many))", "uses ResourceScatterMul .*unsorted_segment_prod"),
        ("table.scatter_div(tf.IndexedSlices(one, many))", "uses ResourceScatterDiv .*unsorted_segment_prod"),
        ("tf.math.bincount(many, weights=one[:, 0])", "uses DenseBincount .*unsorted_segment_sum"),
        ("raw.SparseMatrixMatMul(a=sparse(), b=tf.ones([4, 3]), transpose_a=True)", "tf.sparse.sparse_dense_matmul"),
        ("tf.map_fn(lambda number: tf.reduce_sum(crop(image)) * number, tf.ones([3]))", "CropAndResizeGradImage"),
    ],
)
def test_an_operation_that_adds_in_any_order_is_refused_by_name(check, step, said):
    with pytest.raises(InputError, match=said) as raised:
        check(step)
    assert str(raised.value).endswith("; or set train.threads to 1")
    check(step, in_order=True)


@pytest.mark.parametrize(
    "step",
    [
        "crop_of_gathered()",
        "tf.image.crop_and_resize(image, boxes, [0], [3, 3])",
        "table.scatter_add(tf.IndexedSlices(one[:1023], few))",
        "table.scatter_nd_add(many[:, None], one)",
        "table.scatter_update(tf.IndexedSlices(one, many))",
        "counts.scatter_add(tf.IndexedSlices(many, many))",
        "tf.math.bincount(many)",
        "tf.math.bincount(many, minlength=5, maxlength=5, dtype=tf.float32)",
        "tf.math.bincount(tf.reshape(many, [2, 512]), weights=tf.ones([2, 512]), axis=-1)",
        "tf.math.unsorted_segment_sum(one, many, 5)",
        "raw.SparseMatrixMatMul(a=sparse(), b=tf.ones([5, 3]))",
    ],
)
def test_one_that_repeats_is_not_refused(check, step):
    check(step)
