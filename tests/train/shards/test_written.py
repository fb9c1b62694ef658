"""What a step in shards writes that comes from no example is written, once."""

import pytest
from sharding import LOOPED, NO_DROPOUT, RATE, RATED, SEEN, STEEP, STEP


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_what_does_not_depend_on_examples_is_written_once(blobs, mode):
    counting = ("        metrics = dict(", "        self.count.assign_add(1)\n        metrics = dict(")
    made = ("        rate = keras", "        self.count = tf.Variable(0)\n        rate = keras")
    trained = blobs(counting, made, compile=mode, shards=4, steps=3)
    assert trained.state["count"] == 3


MORE = ("        rate = keras", "        self.more = tf.Variable(tf.zeros([4]), name='more')\n        rate = keras")
MEETS = (
    "        rate = tf.constant(0.0)\n"
    "        more = tf.zeros(tf.shape(batch['label']))\n"
    "        if context.step >= 0:\n"
    "            gradients, found = self.gradients(batch)\n"
    "            rate = tf.linalg.global_norm(gradients)\n"
    "            self.update(self.optimizer, self.variables, gradients)\n"
    "            more = found['loss']\n"
    "        metrics = {'loss': more}\n"
)
COSINE = "keras.optimizers.schedules.CosineDecay(0.1, 5, warmup_target=0.3, warmup_steps=2)"
PYTHONS = "tf.numpy_function(lambda x: x + 1, [self.seen], tf.float32, stateful=False)"
HELPER = ("class Everything", "class Helper:\n    kept = None\n\nHELPER = Helper()\n\nclass Everything")
HOLDS = ("        rate = keras", "        self.helper = HELPER\n        rate = keras")
HELPED = (
    "        if self.helper.kept is None:\n"
    "            self.helper.kept = tf.cast(context.step, tf.float32)\n"
    "        self.seen.assign(self.seen + self.helper.kept)\n"
)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "edits",
    [
        [(STEP, f"{STEP}{RATE}            rate = 0.1 + self.seen[0]\n{RATED}")],
        [(STEP, f"{STEP}{LOOPED}{RATED}")],
        [(STEP, f"{MEETS}{RATED}")],
        [(STEP, f"{STEP}        self.seen.assign({COSINE}(context.step) * tf.ones([4]))\n")],
        [(STEP, f"{STEP}        self.more.assign(self.seen.assign_add(tf.ones([4])))\n"), MORE],
        [(STEP, f"{STEP}        self.seen.assign(tf.ensure_shape({PYTHONS}, [4]))\n")],
        [(STEP, f"{STEP}{HELPED}"), HELPER, HOLDS],
    ],
    ids=["branch", "loop", "meeting", "schedule", "write", "python", "kept"],
)
def test_a_value_that_comes_another_way_than_from_examples_is_written(blobs, edits):
    large = blobs(STEEP, NO_DROPOUT, SEEN, *edits, steps=3)
    assert large.state["seen"].any()
    assert blobs(STEEP, NO_DROPOUT, SEEN, *edits, steps=3, shards=4).agrees(large)
