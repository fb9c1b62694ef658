"""What cannot be done in shards is refused by name."""

import threading

import pytest
from sharding import KEEPING, LOOPED, MODES, NORMALIZED, PENALTY, RATE, RATED, SEEN, STEP, TABLE

from tapeline.runtime.errors import InputError

ONES = "self.seen.assign(tf.ones([4])) + 0"
SET = "self.seen.assign("
SETS = f"            {SET}tf.ones([4]))\n"
INNER = f"tf.cond(context.step > 2, lambda: {ONES}, lambda: tf.zeros([4]))"
COUNTS = [
    "tf.cast(tf.shape(batch['label'])[0], tf.float32)",
    "(1 / batch['image'].shape[0])",
    "len(batch['label'])",
    "self.batch_size",
    "tf.reduce_sum(tf.ones([self.batch_size]))",
    "tf.while_loop(lambda n: n < self.batch_size, lambda n: [n + 1.0], [0.0])[0]",
]
UNNAMED = ("        rate = keras", "        self.sums = {'seen': [tf.Variable(tf.zeros([4]))]}\n        rate = keras")
SUM = "tf.reduce_sum(tf.cast(batch['image'], tf.float32))"
OWN_OPTIMIZER = (
    "        with tf.GradientTape() as tape:\n"
    "            losses, _ = self.loss(batch, training=True)\n"
    "            mean = tf.reduce_mean(losses)\n"
    "        gradients = tape.gradient(mean, self.variables)\n"
    "        self.optimizer.apply(gradients, self.variables)\n"
    "        metrics = {'loss': losses}\n"
)


@pytest.mark.first(6)
@pytest.mark.parametrize(
    ("edits", "said"),
    [
        (
            [UNNAMED, (STEP, f"{STEP}        self.sums['seen'][0].assign_add(tf.ones([4]) * {SUM})\n")],
            "train_step changes sums/seen/0 by a value that depends on its examples",
        ),
        (
            [UNNAMED, (STEP, f"{STEP}        self.sums['seen'][0].assign_add(tf.ones([4]) * self.batch_size)\n")],
            "train_step changes sums/seen/0 by a value or in a branch that depends on the number of examples",
        ),
        (
            [SEEN, (STEP, f"{STEP}        self.seen.assign_add(tf.ones([4]) * {SUM})\n")],
            "train_step changes seen by a value that depends on its examples",
        ),
        (
            [SEEN, (STEP, f"{STEP}        self.seen.assign(tf.random.stateless_uniform([4], context.seed))\n")],
            "train_step changes seen by a value that depends on its examples",
        ),
        (
            [SEEN, (STEP, f"{STEP}        for _ in tf.range(2):\n            self.seen.assign_add(tf.ones([4]))\n")],
            "the change of seen is inside a loop, a tf.switch_case or a tf.function inside the step",
        ),
        (
            [SEEN, (STEP, f"{STEP}        tf.switch_case(tf.cast(context.step, tf.int32), [lambda: {ONES}] * 2)\n")],
            "the change of seen is inside a loop, a tf.switch_case or a tf.function inside the step",
        ),
        (
            [
                SEEN,
                (
                    STEP,
                    f"{STEP}        one = tf.ones([4]) * {SUM}\n        if context.step > 5:\n            {SET}one)\n",
                ),
            ],
            "train_step changes seen by a value that depends on its examples",
        ),
        (
            [
                SEEN,
                (STEP, f"{STEP}        own = {SUM} > 5\n        if context.step > 0:\n            if own:\n    {SETS}"),
            ],
            "the change of seen is inside a branch whose condition depends on the examples",
        ),
        (
            [
                SEEN,
                (
                    STEP,
                    f"{STEP}        if context.step > 0:\n            if context.step > 1:\n    {SETS[:-2]}*{SUM})\n",
                ),
            ],
            "train_step changes seen by a value that depends on its examples",
        ),
        (
            [SEEN, (STEP, f"{STEP}        tf.switch_case(tf.cast(context.step, tf.int32), [lambda: {INNER}] * 2)\n")],
            "the change of seen is inside a loop, a tf.switch_case or a tf.function inside the step",
        ),
        (
            [SEEN, (STEP, f"{STEP}        if {SUM} > 5:\n            self.seen.assign(tf.ones([4]))\n")],
            "the change of seen is inside a branch whose condition depends on the examples",
        ),
        (
            [SEEN, (STEP, f"{STEP}        if context.step > 5:\n            self.seen.assign(tf.ones([4]) * {SUM})\n")],
            "train_step changes seen by a value that depends on its examples",
        ),
        *(
            (
                [SEEN, (STEP, f"{STEP}        self.seen.assign_add(tf.ones([4]) * {count})\n")],
                "the number of examples",
            )
            for count in COUNTS
        ),
        (
            [SEEN, (STEP, f"{STEP}        if context.step > 5:\n            {SET}tf.ones([4]) * {COUNTS[0]})\n")],
            "train_step changes seen by a value or in a branch that depends on the number of examples",
        ),
        (
            [
                SEEN,
                (STEP, f"{STEP}        {SET}tf.ones([4]))\n        tf.reshape(batch['image'], [4, 64])\n"),
            ],
            "changes seen, so it must give the same for a shard's 4 examples and the batch's 16, but fails for these: "
            "make it accept both, or set train.shards to 1: ValueError: Cannot reshape a tensor with 1024 elements",
        ),
        (
            [SEEN, (STEP, f"{STEP}        if tf.shape(batch['label'])[0] > 8:\n{SETS}")],
            "train_step changes seen by a value or in a branch that depends on the number of examples",
        ),
        (
            [SEEN, (STEP, f"{STEP}{RATE}            rate = {COUNTS[0]}\n{RATED}")],
            "train_step changes seen by a value or in a branch that depends on the number of examples",
        ),
        (
            [SEEN, (STEP, f"{STEP}{RATE}            rate = {SUM}\n{RATED}")],
            "train_step changes seen by a value that depends on its examples",
        ),
        (
            [SEEN, (STEP, f"{STEP}{LOOPED.replace('rate + k', f'rate + {SUM}')}{RATED}")],
            "train_step changes seen by a value that depends on its examples",
        ),
        (
            [
                SEEN,
                (STEP, f"{STEP}        self.count += 1\n        {SET}self.count * tf.ones([4]))\n"),
                ("        rate = keras", "        self.count = 0\n        rate = keras"),
            ],
            "train_step changes the Python attribute self.count",
        ),
        (
            [SEEN, (STEP, f"{STEP}        self.seen.scatter_nd_add([[1]], [1.0])\n")],
            "train_step changes seen once for each shard of the batch",
        ),
        (
            [(STEP, OWN_OPTIMIZER)],
            "by a value that depends on its examples",
        ),
        (
            [(STEP, "        metrics = tf.function(lambda: super(Everything, self).train_step(batch, context))()\n")],
            "is inside a loop, a tf.switch_case or a tf.function inside the step",
        ),
        (
            [('return {**batch, "flip": flips}', 'return {**batch, "flip": flips, "pair": tf.zeros([2, 16])}')],
            "train.shards is 4: prepare returns 'pair' of shape (2, 16), which cannot be cut",
        ),
        (
            [
                (
                    STEP,
                    "        metrics = {'loss': self.loss(batch, training=True)[0]}\n"
                    "        if len(NUMBERS) % 2:\n            metrics['more'] = metrics['loss']\n"
                    "        NUMBERS.append(1)\n",
                ),
                ("class Everything", "NUMBERS = []\n\nclass Everything"),
            ],
            "one shard of a step returns the metrics loss, but another loss, more",
        ),
    ],
)
def test_what_shards_cannot_do_is_refused_by_name(blobs, edits, said):
    with pytest.raises(InputError) as refused:
        blobs(*edits, shards=4)
    assert said in str(refused.value)
    assert not [one for one in threading.enumerate() if one.name.startswith("shard ")]


def test_a_gradient_of_rows_cannot_be_differentiated_again(blobs):
    with pytest.raises(InputError, match=r"self.gradients of rows of a table, which cannot be differentiated again"):
        blobs(PENALTY[3], ("tf.square(one)", "tf.square(tf.convert_to_tensor(one))"), source=TABLE, shards=4)


@pytest.mark.parametrize(
    "edit",
    [
        ("logits = self.model(x,", "SEEN.append(x)\n        logits = self.model(x + SEEN[0],"),
        ("logits = self.model(x,", "logits = self.model(self.scaled(x),"),
    ],
)
@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_what_one_shard_computes_and_another_uses_is_refused_by_name(blobs, edit, mode):
    with pytest.raises(InputError, match=r"shard 1 uses shard_0/\S+, which shard 0 computed: train_step keeps it"):
        blobs(edit, source=KEEPING, compile=mode, shards=4)
    assert not [one for one in threading.enumerate() if one.name.startswith("shard ")]


FORWARD = (
    "        values = [one.value for one in self.variables]\n"
    "        with tf.autodiff.ForwardAccumulator(values, [tf.ones_like(one) for one in values]) as forward:\n"
    "            gradients, metrics = self.gradients(batch)\n"
    "        products = forward.jvp(gradients)\n"
    "        self.update(self.optimizer, self.variables, [g + 0.1 * p for g, p in zip(gradients, products)])\n"
)
PARALLEL = "tf.vectorized_map(lambda k: self.model(x * k, training=True), tf.constant([0.5, 1.0]))"
JACOBIAN = (
    "        with tf.GradientTape() as tape:\n"
    "            tape.watch(x)\n"
    "            logits = self.model(x, training=True)\n"
    "        tape.batch_jacobian(logits, x)\n"
)
AS_FLOATS = "        x = tf.reshape(tf.cast(batch['image'], tf.float32) / 16, [-1, 64])\n"
PLAIN_STEP = "        gradients, metrics = self.gradients(batch)\n"


@pytest.mark.first(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("step", "said"),
    [
        (FORWARD, "is inside a tf.autodiff.ForwardAccumulator, whose derivatives would be those of one shard"),
        (f"{AS_FLOATS}        {PARALLEL}\n{PLAIN_STEP}", "is inside a tf.vectorized_map or a tape's jacobian"),
        (f"{AS_FLOATS}{JACOBIAN}{PLAIN_STEP}", "is inside a tf.vectorized_map or a tape's jacobian"),
    ],
)
def test_derivatives_that_do_not_meet_are_refused_by_name(blobs, step, said, mode):
    body = f"    def train_step(self, batch, context):\n{step}        return metrics\n\n    def predict"
    edits = (*PENALTY[:3], NORMALIZED, ("    def predict", body))
    blobs(*edits, source=TABLE, compile=mode)
    with pytest.raises(InputError, match=said):
        blobs(*edits, source=TABLE, compile=mode, shards=4)
