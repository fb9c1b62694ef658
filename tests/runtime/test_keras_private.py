"""Each private name of Keras that is used is still there, and does what is relied on."""

import re
from functools import partial

import numpy as np
import private_names
import pytest

hint = partial(private_names.hint, "keras")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("keras", "Layer._flatten_layers"),
        ("keras", "optimizers.Optimizer._get_variable_index"),
        ("keras", "layers.BatchNormalization._moments"),
        ("keras", "random.SeedGenerator.next"),
        ("keras.src.layers.rnn.dropout_rnn_cell", "DropoutRNNCell.get_dropout_mask"),
        ("keras.src.layers.rnn.dropout_rnn_cell", "DropoutRNNCell.get_recurrent_dropout_mask"),
        ("keras.src.backend.common.global_state", "get_global_attribute"),
        ("keras.src.backend.common.global_state", "GLOBAL_STATE_TRACKER"),
        ("keras.src.random.seed_generator", "GLOBAL_SEED_GENERATOR"),
    ],
)
def test_the_name_is_there(tf, module, name):
    private_names.find("keras", module, name)


def test_the_layers_of_a_layer(tf):
    import keras

    from tapeline.runtime.keras_private import layers_in

    inner = keras.Sequential([keras.layers.Dense(1, name="a"), keras.layers.Dropout(0.5, name="b")], name="inner")
    outer = keras.Sequential([inner, keras.layers.Dense(2, name="c")], name="outer")
    assert [layer.name for layer in layers_in(outer)] == ["outer", "inner", "b", "a", "c"]  # bits depend on the order
    assert [layer.name for layer in layers_in(outer, include_self=False)] == ["inner", "b", "a", "c"]


def test_where_a_layer_lists_its_metrics(tf):
    import keras

    from tapeline.runtime import keras_private

    listed, of_loss, compiled = keras_private.METRICS
    model = keras.Sequential([keras.layers.Dense(1)])
    model.seen = keras.metrics.Mean()
    model.compile(metrics=["mae"])
    assert model.seen in vars(model).get(listed, []), hint(f"Layer.{listed}")
    for name in (of_loss, compiled):
        assert isinstance(vars(model).get(name), keras.Metric), hint(f"Model.{name}")


def test_updates_that_only_accumulate_are_counted(tf):
    import keras

    from tapeline.runtime import keras_private

    optimizer, variable = keras.optimizers.SGD(1.0, gradient_accumulation_steps=3), keras.Variable(0.0)
    for _ in range(4):
        optimizer.apply([tf.constant(1.0)], [variable])
    assert int(keras_private.updates(optimizer)) == 4, hint("Optimizer._iterations")


def test_adams_moments_of_a_variable(tf):
    import keras

    from tapeline.runtime import keras_private

    one, other = keras.Variable([1.0]), keras.Variable([[2.0, 3.0]])
    adam = keras.optimizers.Adam(beta_1=0.75, beta_2=0.5)
    adam.build([one, other])
    for name in ("_momentums", "_velocities"):
        assert hasattr(adam, name), hint(f"optimizers.Adam.{name}")
    adam.apply([tf.constant([4.0]), tf.constant([[8.0, 0.0]])])
    moments = [keras_private.adam_moments(adam, keras_private.slot_index(adam, v)) for v in (other, one)]
    assert [[np.asarray(m).tolist() for m in pair] for pair in moments] == [
        [[[2.0, 0.0]], [[32.0, 0.0]]],
        [[1.0], [8.0]],
    ]


def test_what_an_optimizer_trains(tf):
    import keras

    from tapeline.runtime.keras_private import trained_by

    one, sgd = keras.Variable([1.0]), keras.optimizers.SGD()
    assert list(trained_by(sgd)) == []
    sgd.build([one])
    assert [variable is one for variable in trained_by(sgd)] == [True], hint("Optimizer._trainable_variables")


def test_the_state_behind_keras_random(tf):
    import keras

    from tapeline.runtime.keras_private import global_seed_state

    keras.backend.clear_session()
    assert global_seed_state() is None
    keras.random.normal([1])
    before = np.asarray(global_seed_state())
    keras.random.normal([1])
    assert before.shape == (2,) and (np.asarray(global_seed_state()) != before).any()


def test_the_losses_that_layers_have_added(tf):
    import keras

    from tapeline.runtime import keras_private

    class Adds(keras.layers.Layer):
        def call(self, x):
            self.add_loss(tf.reduce_sum(x))
            return x

    layer = Adds()
    layer(tf.constant([1.0]))
    restore = keras_private.losses([layer])
    layer(tf.constant([2.0]))
    assert [float(one) for one in layer.losses] == [2.0]
    restore()
    assert [float(one) for one in layer.losses] == [1.0]


def test_a_batch_normalization_with_other_moments(tf):
    import keras

    from tapeline.runtime import keras_private

    layer = keras.layers.BatchNormalization(epsilon=0.0, momentum=0.0)
    own = keras_private.replace_moments(layer, lambda inputs, mask: (tf.constant([1.0]), tf.constant([4.0])))
    np.testing.assert_allclose(layer(tf.constant([[3.0], [5.0]]), training=True), [[1.0], [2.0]])
    assert float(layer.moving_mean[0]) == 1.0 and float(layer.moving_variance[0]) == 4.0
    np.testing.assert_allclose(own(tf.constant([[3.0], [5.0]]), None), [[4.0], [1.0]])


def test_seed_generators_draw_from_another_state(tf):
    from contextlib import contextmanager

    import keras

    from tapeline.runtime import keras_private

    one, other = keras.random.SeedGenerator(1), keras.random.SeedGenerator(2)
    expected, before = np.asarray(keras.random.SeedGenerator(2).next()), np.asarray(one.state)

    @contextmanager
    def instead(state):
        assert state is one.state
        yield other.state

    with keras_private.draws(instead):
        assert (np.asarray(one.next()) == expected).all()
    assert (np.asarray(one.state) == before).all() and (np.asarray(one.next()) != expected).any()


def test_what_keras_keeps_for_a_thread_goes_to_another(tf):
    import threading

    import keras

    from tapeline.runtime.keras_private import Shared

    def inside():
        shared.adopt()
        found.append(keras.config.dtype_policy().name)
        keras.random.normal([1])
        shared.hand_over()

    keras.backend.clear_session()
    found = []
    shared = Shared()
    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    shared.take_over()
    from tapeline.runtime.keras_private import global_seed_state

    assert found == [keras.config.dtype_policy().name] and global_seed_state() is not None


PRIVATE = r"layer\._moments\b|\bkeras\.src\.|\btensorflow\.python\b|__internal__|\._(flatten_layers|get_variable_index|momentums|velocities|functions|shared_name|losses|loss_ids|control_inputs_val|seen_nodes)\b"


def test_no_other_module_uses_a_private_name(root):
    sources = {path: path.read_text() for path in (root / "src/tapeline").rglob("*.py")}
    found = {path.stem for path, text in sources.items() if re.search(PRIVATE, text)}
    assert found == {"keras_private", "replaced_operations", "tensorflow_private"}


@pytest.mark.parametrize("kind", ["GRU", "LSTM", "SimpleRNN", "Bidirectional"])
def test_a_recurrent_layer_draws_its_dropout_in_training_alone(tf, kind):
    import keras

    from tapeline.runtime import keras_private

    keras_private.no_masks_in_inference()
    inner = keras.layers.GRU(4, dropout=0.5, recurrent_dropout=0.5)
    layer = (
        keras.layers.Bidirectional(inner) if kind == "Bidirectional" else getattr(keras.layers, kind)(4, dropout=0.5)
    )
    model = keras.Sequential([keras.Input((5, 3)), layer])
    seeds = [variable for variable in model.variables if "seed" in variable.path]
    before = [seed.numpy().tolist() for seed in seeds]
    x = tf.ones([2, 5, 3])
    same = model(x, training=False).numpy()
    assert seeds and [seed.numpy().tolist() for seed in seeds] == before, hint("DropoutRNNCell.get_dropout_mask")
    assert (model(x).numpy() == same).all() and (layer(x, training=None).numpy() == same).all()
    assert [seed.numpy().tolist() for seed in seeds] == before
    assert (model(x, training=True).numpy() != same).any()
    assert [seed.numpy().tolist() for seed in seeds] != before
