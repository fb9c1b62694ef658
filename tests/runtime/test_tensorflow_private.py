"""Each private name of TensorFlow that is used is still there, and does what is relied on."""

import sys
import tempfile
from functools import partial

import private_names
import pytest

hint = partial(private_names.hint, "tensorflow")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("tensorflow", "__internal__.autograph.tf_convert"),
        ("tensorflow", "__internal__.autograph.control_status_ctx"),
        ("tensorflow.python.ops.image_ops_impl", "random_ops.random_uniform"),
        ("tensorflow.python.ops.random_crop_ops", "random_ops.random_uniform"),
        ("tensorflow.python.ops.resource_variable_ops", "BaseResourceVariable.assign"),
        ("tensorflow.python.ops.resource_variable_ops", "ResourceVariable.assign"),
        ("tensorflow.python.ops.cond_v2", "cond_v2"),
        ("tensorflow.python.eager.backprop", "gen_math_ops.add_n"),
        ("tensorflow.python.eager.record", "could_possibly_record"),
        ("tensorflow.python.eager.record", "stop_recording"),
        ("tensorflow.python.eager.execute", "execute"),
        ("tensorflow.python.eager.core", "_FallbackException"),
        ("tensorflow.python.pywrap_tfe", "TFE_Py_FastPathExecute"),
        ("tensorflow.python.autograph.pyct.loader", "load_source"),
        ("tensorflow.python.lib.io.file_io", "_pywrap_file_io.BufferedInputStream"),
        ("tensorflow.python.training.py_checkpoint_reader", "NewCheckpointReader"),
        ("tensorflow.python.util._pywrap_util_port", "IsMklEnabled"),
        ("tensorflow.python.eager.forwardprop_util", "pack_tangents"),
        ("tensorflow.python.ops.parallel_for.control_flow_ops", "pfor"),
        ("tensorflow.python.framework.ops", "gradient_registry._registry"),
        ("tensorflow.python.framework.type_spec_registry", "_NAME_TO_TYPE_SPEC"),
        ("tensorflow.python.framework.type_spec_registry", "_TYPE_SPEC_TO_NAME"),
    ],
)
def test_the_name_is_there(tf, module, name):
    private_names.find("tensorflow", module, name)


def test_a_users_function_is_converted(tf):
    from tapeline.runtime.tensorflow_private import autograph_convert

    def absolute(x):
        if x < 0:
            x = -x
        return x

    traced = tf.function(autograph_convert(absolute), autograph=False)
    assert [int(traced(tf.constant(x))) for x in (-2, 3)] == [2, 3]


def test_autograph_leaves_no_file_and_names_the_lines_of_the_user(tf, tmp_path, monkeypatch):
    from tapeline.runtime import startup

    startup.tensorflow()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def positive(x):
        if x > 0:
            return tf.sqrt(x)
        raise_here = tf.reshape(x, (7,))  # the line to name
        return raise_here[0]

    with pytest.raises(ValueError) as said:
        tf.function(positive)(tf.constant(2.0))
    assert "raise_here = tf.reshape(x, (7,))  # the line to name" in str(said.value)
    assert __file__ in str(said.value)
    assert float(tf.function(lambda x: tf.sqrt(x) if x > 0 else x)(tf.constant(4.0))) == 2
    assert not list(tmp_path.iterdir())


def test_only_what_a_module_itself_registers_is_registered_anew(tf, tmp_path, monkeypatch):
    from tensorflow.python.framework import ops

    from tapeline.recipe import loading
    from tapeline.runtime.errors import InputError

    registered = "import tensorflow as tf\n@tf.RegisterGradient('{}')\ndef gradient(op, given): return given\n"
    (tmp_path / "helper_registering.py").write_text(registered.format("OfTheHelper"))
    (tmp_path / "own.py").write_text(f"import helper_registering\n{registered.format('OfTheRecipe')}")
    monkeypatch.setattr(sys, "path", [*sys.path])
    for _ in range(3):
        with pytest.raises(InputError, match="must define exactly one class"):
            loading.load(tmp_path / "own.py")
        assert {"OfTheHelper", "OfTheRecipe"} <= ops.gradient_registry._registry.keys()


def test_the_functions_of_a_graph(tf):
    from tapeline.runtime.tensorflow_private import functions_in

    inner = tf.function(lambda x: x + 1, autograph=False)
    outer = tf.function(lambda x: inner(x) * 2, autograph=False).get_concrete_function(tf.TensorSpec([]))
    assert hasattr(outer.graph, "_functions"), hint("FuncGraph._functions")
    (called,) = functions_in(outer.graph).values()
    assert "AddV2" in {operation.type for operation in called.graph.get_operations()}


def test_the_functions_that_an_operation_calls(tf):
    from tapeline.runtime.tensorflow_private import called_by, functions_in

    def chosen(x):
        x = tf.cond(x > 0, lambda: x, lambda: -x)
        return tf.switch_case(tf.cast(x, tf.int32), [lambda: x, lambda: x + 1, lambda: x + 2])

    graph = tf.function(chosen, autograph=False).get_concrete_function(tf.TensorSpec([])).graph
    nodes = [operation.node_def for operation in graph.get_operations()]
    found = {node.op: [name for value in node.attr.values() for name in called_by(value)] for node in nodes}
    assert {kind: len(names) for kind, names in found.items() if names} == {"StatelessIf": 2, "StatelessCase": 3}
    assert {name for names in found.values() for name in names} == functions_in(graph).keys()


def test_a_function_of_tensorflow_1_has_a_graph(tf):
    """`tf.nn.ctc_loss` makes some, for its loops."""
    from tapeline.runtime.tensorflow_private import functions_in

    def loss(logits):
        labels = tf.constant([[1, 2]])
        return tf.nn.ctc_loss(labels, logits, [2], [5], logits_time_major=False, blank_index=3)

    traced = tf.function(loss, autograph=False).get_concrete_function(tf.TensorSpec((1, 5, 4)))
    found, again = ({name: one.graph for name, one in functions_in(traced.graph).items()} for _ in range(2))
    assert any(not hasattr(one, "graph") for one in traced.graph._functions.values()), "none is left: drop it"
    loops = [operation for operation in traced.graph.get_operations() if operation.type == "While"]
    for loop in loops:
        for name in ("cond", "body"):
            graph = found[loop.get_attr(name).name]
            assert len(graph.inputs) == len(loop.inputs)
            assert graph is again[loop.get_attr(name).name]
    assert loops


def test_a_branch_of_a_condition_is_told_from_a_loop(tf):
    from tapeline.runtime.tensorflow_private import is_branch

    seen = {}

    def look(name, x):
        seen[name] = is_branch(tf.compat.v1.get_default_graph())
        return x + 1

    def both(x):
        look("function", x)
        x = tf.cond(x < 0, lambda: look("branch", x), lambda: x)
        return tf.while_loop(lambda y: y < 5, lambda y: (look("loop", y),), (x,))

    tf.function(both, autograph=False).get_concrete_function(tf.TensorSpec([], tf.int32))
    assert seen == {"function": False, "branch": True, "loop": False}, hint("CondBranchFuncGraph")


def test_the_shared_name_of_a_table(tf):
    from tapeline.runtime.tensorflow_private import RANDOM_NAME, rename, shared_name

    with tf.Graph().as_default():  # a table that is made eagerly has a number for a name
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), -1)
    assert hasattr(table, "_shared_name"), hint("StaticHashTable._shared_name")
    assert shared_name(table).startswith(RANDOM_NAME)
    rename(table, "mine")
    assert shared_name(table) == "mine" and shared_name(object()) == ""


def test_what_image_operations_draw_from(tf):
    from tapeline.runtime.tensorflow_private import image_draws

    calls = []

    def uniform(shape, minval=0, maxval=None, dtype=tf.float32, seed=None):
        calls.append((minval, maxval))
        return tf.cast(tf.fill(shape, minval), dtype)

    with image_draws(uniform):
        tf.image.random_brightness(tf.zeros([2, 2, 3]), 0.5)
        assert tf.image.random_crop(tf.range(9), [2]).numpy().tolist() == [0, 1]
    assert len(calls) == 2 and calls[0] == (-0.5, 0.5), hint("random_ops.random_uniform behind tf.image.random_…")
    from tensorflow.python.ops import image_ops_impl, random_crop_ops, random_ops

    assert image_ops_impl.random_ops is random_ops is random_crop_ops.random_ops


def test_each_write_to_a_variable_is_intercepted_once(tf):
    import keras

    from tapeline.runtime import tensorflow_private

    seen = []

    def doubled(variable, value, write):
        seen.append(variable.name)
        return write(2 * value)

    plain, kept = tf.Variable(1.0, name="plain"), keras.Variable(1.0, name="kept")
    with tensorflow_private.writes(doubled):
        assert float(plain.assign_add(1.0)) == 3.0
        plain.assign_sub(0.5)
        kept.assign(5.0)
    plain.assign_add(1.0)
    assert (float(plain), float(kept)) == (3.0, 10.0)
    assert [name.split(":")[0] for name in seen] == ["plain", "plain", "kept"]


def test_a_thread_adds_to_the_graph_of_another_and_waits_there(tf):
    import threading

    from tapeline.runtime import tensorflow_private

    def add(graph, first):
        with tensorflow_private.inside(graph, "there") as wait_for:
            made.append(tf.constant(1))
            wait_for([first.op])
            made.append(tf.constant(2))

    made = []
    with tf.Graph().as_default() as graph:
        first = tf.constant(5)
        thread = threading.Thread(target=add, args=(graph, first))
        thread.start()
        thread.join()
        last = tf.constant(6)
    assert all(one.graph is graph and one.name.startswith("there/") for one in made)
    assert not made[0].op.control_inputs and made[1].op.control_inputs == [first.op] and not last.op.control_inputs


def test_conditions_of_a_graph_and_tapes_of_a_thread(tf):
    from tapeline.runtime import tensorflow_private

    seen = []

    def intercept(condition, yes, no, build):
        seen.append((condition.dtype, tensorflow_private.is_recording()))
        return build(condition, yes, no)

    def step(x):
        if x > 0:
            x = x * 2
        with tf.GradientTape():
            return tf.cond(x > 3, lambda: x, lambda: -x)

    with tensorflow_private.conditions(intercept):
        traced = tf.function(tensorflow_private.autograph_convert(step), autograph=False)
        assert [float(traced(tf.constant(x))) for x in (1.0, 2.0)] == [-2.0, 4.0]
    assert seen == [(tf.bool, False), (tf.bool, True)]
    tf.function(lambda x: tf.cond(x > 0, lambda: x, lambda: -x))(tf.constant(1.0))
    assert len(seen) == 2


def test_what_a_forward_accumulator_follows(tf):
    from tapeline.runtime.tensorflow_private import has_tangents

    x, other = tf.constant(2.0), tf.constant(3.0)
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)):
        assert has_tangents([other, x * x]), hint("forwardprop_util.pack_tangents")
        assert not has_tangents([other]) and not has_tangents([])
    assert not has_tangents([x])


def test_what_is_vectorized_is_traced_within_a_context(tf):
    from contextlib import contextmanager

    from tapeline.runtime.tensorflow_private import vectorizations

    seen = []

    @contextmanager
    def within():
        seen.append("in")
        yield
        seen.append("out")

    def step(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = tf.vectorized_map(lambda one: seen.append("map") or one * one, x)
        seen.append("jacobian")
        return tape.jacobian(y, x), tape.batch_jacobian(y[:, None], x[:, None])

    with vectorizations(within):
        tf.function(step, autograph=False).get_concrete_function(tf.TensorSpec([3]))
    assert seen[:4] == ["in", "map", "out", "jacobian"] and seen.count("in") == 3, hint("control_flow_ops.pfor")
    tf.vectorized_map(lambda one: one, tf.ones([3]))
    assert seen.count("in") == 3


def test_an_operation_as_a_function_of_its_inputs_and_attributes(tf):
    from tapeline.runtime.replaced_operations import function_of

    row, column = tf.constant([[1.0, 2.0]]), tf.constant([[3.0], [4.0]])
    product = function_of("MatMul")(row, column, T=tf.float32, transpose_a=True, transpose_b=True)
    assert product.numpy().tolist() == [[3, 4], [6, 8]]
    assert function_of("Einsum")(row, column, N=2, T=tf.float32, equation="ij,jk->ik").numpy().tolist() == [[11]]
