"""Balance a pole: REINFORCE with a baseline, its environment inside the graph (Williams 1992).

Each step plays a batch of episodes at once. The dynamics are those of Gymnasium's CartPole-v1, written as tensor
operations on states (episodes, 4), so that playing and learning are one compiled step; Gymnasium's own environment
has the last word in `evaluate`. The policy learns from how much better an episode went on than the baseline foresaw.
https://doi.org/10.1007/BF00992696
"""

import gymnasium
import keras
import numpy as np
import tensorflow as tf

from tapeline.recipe import Recipe, RecipeParams, field

LONGEST = 500


class CartpoleReinforce(Recipe):
    inputs = ("state",)
    modes = {"graph": ("float32",), "xla": ("float32",)}  # eager would take seconds a step

    class Params(RecipeParams):
        learning_rate: float = field(0.01, gt=0)
        hidden: int = field(32, gt=0)
        discount: float = field(0.99, gt=0, le=1)
        decay_steps: int = field(200, gt=0)

    def build(self):
        def network():
            hidden = keras.layers.Dense(self.params.hidden, activation="tanh")
            return keras.Sequential([keras.Input((4,)), hidden, keras.layers.Dense(1)])

        rate = keras.optimizers.schedules.CosineDecay(self.params.learning_rate, self.params.decay_steps)
        self.policy, self.baseline = network(), network()
        self.policy_optimizer, self.baseline_optimizer = keras.optimizers.Adam(rate), keras.optimizers.Adam(rate)

    def prepare(self, batch, context):
        start, play = tf.unstack(tf.random.split(context.seed, 2))
        return {
            "state": tf.random.stateless_uniform([self.batch_size, 4], start, -0.05, 0.05),
            "draws": tf.random.stateless_uniform([LONGEST, self.batch_size], play),
        }

    def train_step(self, batch, context):
        states, pushes, alive = self.play(batch["state"], batch["draws"])
        returns = self.discounted(alive)
        with tf.GradientTape() as tape:
            expected = self.over_time(self.baseline, states)
            baseline_loss = average(tf.square(returns - expected), alive)
        self.update(*step_of(tape, baseline_loss, self.baseline, self.baseline_optimizer))
        with tf.GradientTape() as tape:
            logits = self.over_time(self.policy, states)
            surprise = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(pushes, tf.float32), logits)
            policy_loss = average((returns - expected) * surprise, alive)
        self.update(*step_of(tape, policy_loss, self.policy, self.policy_optimizer))
        return {"return": tf.reduce_sum(alive, 0), "baseline_loss": (baseline_loss, 1.0)}

    def eval_step(self, batch, context):
        _, _, alive = self.play(batch["state"], tf.fill([LONGEST, tf.shape(batch["state"])[0]], 0.5))
        return {"return": tf.reduce_sum(alive, 0)}

    def play(self, state, draws):
        """Return states (500, episodes, 4), whether each was pushed right, and 1.0 where an episode still went on."""
        states, pushes, alive = (tf.TensorArray(dtype, LONGEST) for dtype in (tf.float32, tf.bool, tf.float32))
        going = tf.ones(tf.shape(state)[:1])
        for time in tf.range(LONGEST):
            right = draws[time] < tf.sigmoid(self.policy(state)[:, 0])
            states, pushes = states.write(time, state), pushes.write(time, right)
            alive = alive.write(time, going)
            state = moved(state, right)
            going *= tf.cast((tf.abs(state[:, 0]) <= 2.4) & (tf.abs(state[:, 2]) <= 12 * np.pi / 180), tf.float32)
        return states.stack(), pushes.stack(), alive.stack()

    def discounted(self, rewards):
        """Return the sum of each step's and all later rewards, discounted: shape (500, episodes)."""
        gap = np.arange(LONGEST)[None, :] - np.arange(LONGEST)[:, None]
        return tf.constant(np.where(gap >= 0, self.params.discount ** np.maximum(gap, 0), 0.0), tf.float32) @ rewards

    def over_time(self, model, states):
        return tf.reshape(model(tf.reshape(states, [-1, 4])), [LONGEST, -1])

    def predict(self, inputs):
        right = tf.sigmoid(self.policy(inputs["state"]))[:, 0]
        return {"action": tf.cast(right > 0.5, tf.int64), "right": right}

    def evaluate(self, data):
        worlds = [gymnasium.make("CartPole-v1") for _ in data["seed"]]
        states = np.stack([world.reset(seed=int(seed))[0] for world, seed in zip(worlds, data["seed"])])
        act = tf.function(lambda states: self.predict({"state": states})["action"])
        returns, going = np.zeros(len(worlds)), np.full(len(worlds), True)
        while going.any():
            actions = act(tf.constant(states)).numpy()
            for number in np.flatnonzero(going):
                states[number], reward, fell, over, _ = worlds[number].step(actions[number])
                returns[number] += reward
                going[number] = not (fell or over)
        return {"gymnasium_return": returns.mean()}


def moved(state, right):
    """Return the states a fiftieth of a second later, by Gymnasium's equations (Barto, Sutton and Anderson 1983)."""
    place, speed, angle, turning = tf.unstack(state, axis=1)
    force, sin, cos = tf.where(right, 10.0, -10.0), tf.sin(angle), tf.cos(angle)
    push = (force + 0.05 * tf.square(turning) * sin) / 1.1
    turned = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * tf.square(cos) / 1.1))
    moved = push - 0.05 * turned * cos / 1.1
    return tf.stack([place + 0.02 * speed, speed + 0.02 * moved, angle + 0.02 * turning, turning + 0.02 * turned], 1)


def average(values, alive):
    return tf.reduce_sum(values * alive) / tf.reduce_sum(alive)


def step_of(tape, loss, model, optimizer):
    variables = model.trainable_variables
    return optimizer, variables, tape.gradient(loss, variables)
