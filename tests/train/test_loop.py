"""The loop: compiled once, whatever is asked of it; the article's own updates."""

import gc
import os
import re
from pathlib import Path

import datasets
import numpy as np
import pytest
import recipes
from trainings import Lengths, Run

from tapeline.config.train import TrainSettings
from tapeline.runtime.records import LoopEnded
from tapeline.train.data.batches import Batches


def assembled(tmp_path, recipe=None, dataset=None, **settings):
    from tapeline.train.run import assemble

    path = recipe or recipes.write(tmp_path)
    dataset = dataset or datasets.points(tmp_path / "points", examples=64)
    values = {"epochs": 100, "batch_size": 8, **settings}
    return assemble(path, {"learning_rate": 0.01}, TrainSettings(**values), dataset)


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_one_trace_whatever_the_length(tmp_path, tf, mode):
    parts = assembled(tmp_path, compile=mode)
    for chunk in parts.feed.chunks(0, 100):
        for start, end in ((0, 1), (1, 4), (4, 50), (50, 99), (99, 100)):
            reached, *_ = parts.loop(chunk, start, end, tf.zeros([1, 2], tf.float64))
            assert reached == end
    assert parts.loop._compiled.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_a_row_of_the_table_adds_up_an_epoch_and_the_first_one_goes_on(tmp_path, tf, mode):
    parts = assembled(tmp_path, compile=mode)  # eight steps an epoch
    chunk = next(iter(parts.feed.chunks(0, 100)))
    reached, table, finite = parts.loop(chunk, 5, 18, tf.constant([[100.0, 40.0]], tf.float64))
    assert (reached, finite, table.shape) == (18, True, (257, 1, 2))
    assert table[:4, 0, 1].numpy().tolist() == [64, 64, 16, 0]
    assert table[0, 0, 0] > 100 and (table[1:3, 0, 0].numpy() > 0).all() and not table[3:].numpy().any()
    assert [parts.loop.next_stop(step) for step in (0, 7, 8)] == [256 * 8, 256 * 8, 257 * 8]


def test_streamed_chunks_have_one_shape(tmp_path, tf, monkeypatch):
    """The last chunk too, so that it does not compile again."""
    from tapeline.train.data import feed

    monkeypatch.setattr(feed, "CHUNK_STEPS", 7)
    parts = assembled(tmp_path)
    chunks = list(parts.feed.chunks(3, 40))
    assert [(c.first, c.end) for c in chunks][:2] == [(3, 10), (10, 17)]
    assert chunks[-1].end == 40
    assert len({tuple(tuple(row.shape) for row in c.rows.values()) for c in chunks}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"data": "stream"}, {"compile": "eager"}], ids=str)
def test_a_training_keeps_no_data_of_its_own_afterwards(tmp_path, tf, settings):
    """Whoever trains again and again in one process runs out of neither memory nor file descriptors."""
    from tapeline.train.data.feed import Feed

    dataset = datasets.points(tmp_path / "points").folder
    for number in range(2):  # the second one finds what is imported
        Run(tmp_path / str(number), recipes.write(tmp_path), dataset, epochs=1, batch_size=8, **settings)()
    gc.collect()
    kept = [link for link in Path("/proc/self/fd").iterdir() if os.path.lexists(link)]
    assert not [path for path in map(os.path.realpath, kept) if path.startswith(str(dataset))]
    assert not [feed for feed in gc.get_objects() if isinstance(feed, Feed)]


def test_a_chunk_holds_no_more_bytes_than_it_may(tmp_path, tf, monkeypatch):
    from tapeline.train.data import feed

    data = datasets.points(tmp_path / "points", examples=64)
    recipe = recipes.write(tmp_path)
    step = 8 * (2 + 1) * 4  # bytes of a batch: x of shape (2,) and y of shape (1,), float32
    for limit, steps in ((10 * step, 10), (10 * step - 1, 9), (step - 1, 1), (1 << 40, feed.CHUNK_STEPS)):
        monkeypatch.setattr(feed, "CHUNK_BYTES", limit)
        assert assembled(tmp_path, recipe, data, data="stream").feed.chunk_steps == steps


def test_streamed_chunks_share_memory_only_when_they_are_not_held(tmp_path, tf, monkeypatch):
    from tapeline.train.data import feed

    monkeypatch.setattr(feed, "CHUNK_STEPS", 4)
    dataset = datasets.points(tmp_path / "points", examples=64)
    parts = assembled(tmp_path, dataset=dataset, data="stream")

    def chunks():
        return (np.asarray(memoryview(chunk.rows["x"])) for chunk in parts.feed.chunks(0, 800))  # not a copy

    column = dataset.column("train", "x")
    numbers = Batches.plan(64, batch_size=8, seed=TrainSettings(epochs=1, batch_size=8).seed, shuffle=True).indices(
        0, 800
    )
    held = list(chunks())
    assert len({array.ctypes.data for array in held}) == 200
    assert np.array_equal(np.concatenate(held), column[numbers])
    assert len({array.ctypes.data for array in chunks()}) < 20


def test_a_stop_ends_a_graph_loop_and_the_step_is_told(tmp_path, tf):
    parts = assembled(tmp_path)
    chunk = next(iter(parts.feed.chunks(0, 100)))
    parts.loop.stop.assign(0)
    reached, *_ = parts.loop(chunk, 0, 50, tf.zeros([1, 2], tf.float64))
    assert reached == 0


@pytest.mark.parametrize("mode", ["graph", "xla", "eager"])
def test_linear_regression_follows_the_articles_eager_loop(root, tmp_path, tf, mode):
    """Forward, mean of squares, `tape.gradient`, `SGD(0.01).apply_gradients`, over two points, 200 times."""
    import keras

    x = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    y = x.sum(1, keepdims=True)
    split = {"x": x, "y": y}
    data = datasets.write(tmp_path / "line", {"train": split, "test": split})
    recipe = root / "src" / "tapeline" / "recipes" / "linear_regression.py"
    parts = assembled(tmp_path, recipe, data, epochs=200, batch_size=2, shuffle=False, compile=mode)

    weights = tf.Variable(parts.recipe.model.weights)
    bias = tf.Variable(parts.recipe.model.bias)
    optimizer = keras.optimizers.SGD(0.01)
    for _ in range(200):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.constant(y) - (tf.matmul(tf.constant(x), weights) + bias)))
        gradients = tape.gradient(loss, [weights, bias])
        optimizer.apply_gradients(zip(gradients, [weights, bias], strict=True))

    sums = tf.zeros([1, 2], tf.float64)
    for chunk in parts.feed.chunks(0, 200):
        for start in range(chunk.first, chunk.end, 50):
            parts.loop(chunk, start, start + 50, sums)
    assert np.abs(parts.recipe.model.weights.numpy() - weights.numpy()).max() <= 1e-5
    assert np.abs(parts.recipe.model.bias.numpy() - bias.numpy()).max() <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("length", [63, 64, 65, 1000])
def test_epochs_of_one_step_in_one_loop(tmp_path, tf, length):
    """As many epochs as the loop's table has rows, one less, one more: every epoch has its row in the history."""
    data = datasets.points(tmp_path / "points", examples=8)
    run = Run(tmp_path / "run", recipes.write(tmp_path), data.folder, epochs=200, batch_size=8, validate_every=200)
    run(pace=Lengths(length))
    rows = run.outs()["history.csv"].decode().splitlines()[1:]
    assert [int(row.split(",")[0]) for row in rows] == list(range(1, 201))
    assert all(row.split(",")[2] for row in rows)


def test_an_epochs_metric_is_the_exact_mean_over_its_examples(tmp_path, tf):
    """The learning rate is so small that nothing changes: the epoch's loss is the loss over the permutation's batches."""
    data = datasets.points(tmp_path / "points", examples=64)
    records = []
    run = Run(tmp_path / "run", recipes.write(tmp_path), data.folder, {"learning_rate": 1e-30}, epochs=1, batch_size=8)
    run(hooks=[lambda r: records.append(r) if isinstance(r, LoopEnded) else None], pace=Lengths(3))
    from tapeline.recipe import loading

    built = loading.build(run.recipe, run.params, data.features)
    losses, _ = built.loss({n: tf.constant(data.column("train", n)) for n in ("x", "y")}, training=False)
    assert records[-1].metrics["loss"] == pytest.approx(float(tf.reduce_mean(losses)), rel=1e-6)


def test_what_happens_rarely_is_a_callable_that_the_loop_knows_nothing_of(root):
    """A checkpoint, a validation, a console or a profile is a hook; neither loop imports one."""
    rare = {"checkpoints", "observers", "limit", "starting", "run", "engine.validation", "engine.averaging"}
    package = root / "src/tapeline/train"
    assert all(
        (package / name.replace(".", "/")).is_dir() or (package / f"{name.replace('.', '/')}.py").is_file()
        for name in rare
    )
    for loop in ("host", "loop"):
        source = (package / "engine" / f"{loop}.py").read_text()
        found = set(re.findall(r"from tapeline\.train\.([\w.]+) import", source))
        for parent, names in re.findall(r"from tapeline\.train((?:\.\w+)?) import (.*)", source):
            found |= {f"{parent[1:]}.{name.strip()}".strip(".") for name in names.split(",")}
        assert found and not [name for name in found for one in rare if name == one or name.startswith(f"{one}.")]


@pytest.mark.parametrize("column", ["x", "y"])
def test_prepare_gets_the_columns_that_it_reads(tmp_path, tf, column):
    prepare = f"    def prepare(self, batch, context):\n        return {{**batch, '{column}': batch['{column}'] * 2.0}}\n\n    def loss(self"
    parts = assembled(tmp_path, recipes.write(tmp_path, recipes.LINE, ("    def loss(self", prepare)), data="stream")
    assert parts.feed._preparation.read == [column]


@pytest.mark.parametrize("data", ["ram", "stream"])
def test_a_prepare_that_only_checks_is_called_for_every_step(tmp_path, tf, data):
    """It returns the batch as it came, so tf.data would have nothing to compute."""
    check = "tf.debugging.assert_less(context.step, tf.constant(3, tf.int64), 'too far')"
    prepare = f"    def prepare(self, batch, context):\n        {check}\n        return batch\n\n    def loss(self"
    parts = assembled(tmp_path, recipes.write(tmp_path, recipes.LINE, ("    def loss(self", prepare)), data=data)
    assert parts.feed._preparation.made == {}
    assert next(iter(parts.feed.chunks(0, 3))).end == 3
    with pytest.raises(tf.errors.InvalidArgumentError, match="too far"):
        list(parts.feed.chunks(0, 4))


@pytest.mark.parametrize("data", ["ram", "stream"])
def test_prepare_is_told_of_no_step_after_the_last(tmp_path, tf, data):
    """The last chunk is as long as the others, so it has rows that no step reads."""
    drawn = "tf.gather(tf.range(6), context.step)"
    prepare = f"    def prepare(self, batch, context):\n        return {{**batch, 'n': {drawn}}}\n\n    def loss(self"
    parts = assembled(tmp_path, recipes.write(tmp_path, recipes.LINE, ("    def loss(self", prepare)), data=data)
    parts.feed.chunk_steps = 4
    chunks = list(parts.feed.chunks(0, 6))
    assert [(chunk.first, chunk.end) for chunk in chunks] == [(0, 4), (4, 6)]
    assert [chunk.rows["n"].numpy().tolist() for chunk in chunks] == [[0, 1, 2, 3], [4, 5, 5, 5]]


@pytest.mark.parametrize(("made", "repeats"), [("itertools.repeat('x')", True), ("map(str, itertools.count())", False)])
def test_whether_prepare_repeats_its_texts(tmp_path, tf, made, repeats):
    """What a function of Python's returns is only known from two calls; texts are compared as texts."""
    drawn = "tf.reshape(tf.numpy_function(lambda step: next(texts).encode(), [context.step], tf.string, stateful=False), [])"
    prepare = (
        f"    def prepare(self, batch, context):\n        return {{**batch, 'text': {drawn}}}\n\n    def loss(self"
    )
    texts = f"import itertools\ntexts = {made}\n\nclass Line"
    parts = assembled(
        tmp_path, recipes.write(tmp_path, recipes.LINE, ("class Line", texts), ("    def loss(self", prepare))
    )
    assert parts.feed.is_repeatable(0) is repeats


ORDERED = (
    ("    def predict", """    def train_step(self, batch, context):
        slow = matrix = tf.zeros([600, 600]) + tf.reduce_mean(batch["x"]) * 0.0
        for _ in range(4):
            slow = tf.matmul(slow, matrix)
        with tf.control_dependencies([slow]):
            seen = tf.reduce_sum(self.count.read_value())
        first, second = tf.identity_n([tf.ones([]), seen])
        self.count.assign_add(first)
        self.other.assign_add(second)
        return {**super().train_step(batch, context), "seen": seen + tf.zeros([8])}

    def predict"""),
    ("        self.optimizer =", """        self.count, self.other = tf.Variable(0.0), tf.Variable(0.0)
        self.optimizer ="""),
)  # fmt: skip


@pytest.mark.parametrize("mode", ["graph", "xla", "eager"])
def test_a_step_reads_what_the_step_before_has_written(tmp_path, tf, mode):
    parts = assembled(tmp_path, recipes.write(tmp_path, recipes.LINE, *ORDERED), compile=mode)
    (chunk, *_) = parts.feed.chunks(0, 8)
    seen = parts.loop.names.index("seen")
    _, table, _ = parts.loop(chunk, 0, 4, tf.zeros([len(parts.loop.names), 2], tf.float64))
    assert table[0, seen].numpy().tolist() == [8 * (0 + 1 + 2 + 3), 8 * 4]
