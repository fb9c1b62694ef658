"""Branches of a step in shards: all take it together, or each its own."""

import pytest
from sharding import MODES, NO_DROPOUT, STEEP, STEP

from tapeline.runtime.errors import InputError

CRITIC = '''
"""A critic takes each step and a generator each third one, as in WGAN; the branch has its tapes and an own counter."""
import keras, tensorflow as tf
from tapeline.recipe import Recipe

class Critic(Recipe):
    inputs = ("image",)

    def build(self):
        self.generator = keras.Sequential(
            [keras.Input((4,)), keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dense(64)]
        )
        self.critic = keras.Sequential([keras.Input((64,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
        self.generates, self.criticizes = keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.1, momentum=0.9)
        self.count = tf.Variable(0)

    def train_step(self, batch, context):
        images = tf.reshape(tf.cast(batch["image"], tf.float32) / 16, [-1, 64])
        noise = images[:, :4]
        with tf.GradientTape() as tape:
            losses = (self.critic(self.generator(noise)) - self.critic(images))[:, 0]
            loss = tf.reduce_mean(losses)
        variables = self.critic.trainable_variables
        self.update(self.criticizes, variables, tape.gradient(loss, variables))
        generated = tf.zeros(tf.shape(noise)[:1])
        if context.step % 3 == 1:
            with tf.GradientTape() as tape:
                generated = -self.critic(self.generator(noise, training=True))[:, 0]
                mean = tf.reduce_mean(generated)
            variables = self.generator.trainable_variables
            self.update(self.generates, variables, tape.gradient(mean, variables))
            self.count.assign_add(1)
        return {"critic": losses, "generator": generated}

    def eval_step(self, batch, context):
        return {"loss": tf.zeros(tf.shape(batch["label"]))}

    def predict(self, inputs):
        return {"image": self.critic(tf.reshape(tf.cast(inputs["image"], tf.float32), [-1, 64]))}
'''


@pytest.mark.in_ci(1)
@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_shards_take_a_branch_together_if_they_meet_in_it(blobs, mode):
    large = blobs(source=CRITIC, compile=mode, steps=5)
    assert large.state["count"] == 2
    for shards in (2, 4):
        assert blobs(source=CRITIC, compile=mode, steps=5, shards=shards).agrees(large)


TAPE_BEFORE = (
    STEP,
    "        with tf.GradientTape() as tape:\n"
    "            losses, _ = self.loss(batch, training=True)\n"
    "            mean = tf.reduce_mean(losses)\n"
    "        if context.step % 2 == 0:\n"
    "            self.update(self.optimizer, self.variables, tape.gradient(mean, self.variables))\n"
    "        metrics = {'loss': losses}\n",
)


@pytest.mark.parametrize("mode", MODES)
def test_a_tape_that_ended_before_the_branch_gives_its_gradients_inside(blobs, mode):
    large = blobs(STEEP, NO_DROPOUT, TAPE_BEFORE, compile=mode, steps=3)
    assert blobs(STEEP, NO_DROPOUT, TAPE_BEFORE, compile=mode, steps=3, shards=4).agrees(large)


GUARDED = (
    STEP,
    "        gradients, metrics = self.gradients(batch)\n"
    "        self.flags = tf.ones([4])\n"
    "        if tf.linalg.global_norm(gradients) < 1e4:\n"
    "            if context.step > 0:\n"
    "                self.update(self.optimizer, self.variables, gradients)\n"
    "                self.kept.assign(self.flags * 2)\n",
)
KEPT = ("        rate = keras", "        self.kept = tf.Variable(tf.zeros([4]), name='kept')\n        rate = keras")


@pytest.mark.in_ci(1)
@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_condition_may_depend_on_what_shards_have_met_over_and_be_in_another(blobs, mode):
    large = blobs(STEEP, NO_DROPOUT, GUARDED, KEPT, compile=mode, steps=3)
    assert large.state["kept"].tolist() == [2, 2, 2, 2]
    for more in ({}, {"at_once": 1}):
        assert blobs(STEEP, NO_DROPOUT, GUARDED, KEPT, compile=mode, steps=3, shards=4, **more).agrees(large)


OWN_BRANCH = (
    STEP,
    f"        more = tf.zeros([tf.shape(batch['label'])[0]])\n{STEP}"
    "        if tf.reduce_any(batch['label'] == 2):\n            more += 1.0\n"
    "        metrics['more'] = more\n",
)


def test_a_branch_without_a_meeting_stays_each_shards_own(blobs):
    total, count = blobs(OWN_BRANCH, NO_DROPOUT, batch_size=16, shards=16).metrics["more"]
    assert count == 16 and 0 < total < 16, "some have an example of the class"


AROUND = (
    STEP,
    "        with tf.GradientTape() as tape:\n"
    "            losses, _ = self.loss(batch, training=False)\n"
    "            if context.step > 0:\n"
    "                self.kept.assign_add(tf.ones([4]))\n"
    "                losses = losses * 2\n"
    "            mean = tf.reduce_mean(losses)\n"
    "        self.update(self.optimizer, self.variables, tape.gradient(mean, self.variables))\n"
    "        metrics = {'loss': losses}\n",
)


def test_a_meeting_in_a_branch_within_a_tape_is_refused_by_name(blobs):
    with pytest.raises(
        InputError, match=r"the change of kept is inside a branch inside the block of a tf.GradientTape"
    ):
        blobs(AROUND, KEPT, shards=4)


BODY = (
    "        loss = tf.zeros(tf.shape(batch['label']))",
    "        WHEN:",
    "            gradients, found = self.gradients(batch)",
    "            noise = keras.random.uniform([4], seed=self.drawn) + tf.random.stateless_uniform([4], context.seed)",
    "            self.update(self.optimizer, self.variables, gradients)",
    "            loss = found['loss'] + tf.reduce_sum(noise)",
    "        metrics = {'loss': loss}\n",
)
DRAWN = ("        rate = keras", "        self.drawn = keras.random.SeedGenerator(3)\n        rate = keras")


@pytest.mark.in_ci(1)
@pytest.mark.parametrize("mode", MODES)
def test_a_branch_that_is_always_taken_changes_no_bit(blobs, mode):
    """With dropout and draws, whose seeds are each shard's own, and with batch normalization."""
    trained = [
        blobs(STEEP, DRAWN, (STEP, "\n".join(BODY).replace("WHEN", when)), compile=mode, steps=3, shards=4)
        for when in ("if True", "if context.step >= 0")
    ]
    plain, branch = trained
    assert plain.moved > 1e-4
    for name, value in plain.state.items():
        assert value.tobytes() == branch.state[name].tobytes(), name
    assert plain.metrics["loss"] == pytest.approx(branch.metrics["loss"], rel=1e-6)
