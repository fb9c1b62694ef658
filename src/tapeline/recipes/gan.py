"""A generative adversarial network: two models, two tapes and two optimizers in one step (Goodfellow et al. 2014).

A generator turns noise (batch, latent) into images; a discriminator says how real an image looks. Both learn from
the same step, each from a loss of its own. Images of any shape with integer values from 0 to `white`.
https://arxiv.org/abs/1406.2661

With a `judge`, an exported classifier of such images that also returns `features`, the samples are measured: the
share of the rarest class among them, and how far they are from real images, in all and against an untrained generator
(Fréchet distance of the features as Gaussians, Heusel et al. 2017, https://arxiv.org/abs/1706.08500).
"""

import math

import keras
import numpy as np
import tensorflow as tf

from tapeline.recipe import Recipe, RecipeParams, field, saved_model


class TwoLayers(tf.Module):
    """Outputs of shape (batch, sizes[2]) for x of shape (batch, sizes[0]), through a hidden layer."""

    def __init__(self, sizes, activation=tf.identity):
        super().__init__()
        inputs, hidden, outputs = sizes
        self.w1 = tf.Variable(tf.random.normal([inputs, hidden]) / math.sqrt(inputs), name="w1")
        self.b1 = tf.Variable(tf.zeros([hidden]), name="b1")
        self.w2 = tf.Variable(tf.random.normal([hidden, outputs]) / math.sqrt(hidden), name="w2")
        self.b2 = tf.Variable(tf.zeros([outputs]), name="b2")
        self.activation = activation

    def __call__(self, x):
        return self.activation(tf.nn.relu(x @ self.w1 + self.b1) @ self.w2 + self.b2)


class Gan(Recipe):
    inputs = ("noise",)
    modes = {"graph": ("float32",), "xla": ("float32",), "eager": ("float32",)}

    class Params(RecipeParams):
        learning_rate: float = field(0.0002, gt=0)
        beta_1: float = field(0.9, ge=0, lt=1)
        latent: int = field(100, gt=0)
        hidden: int = field(128, gt=0)
        white: int = field(255, gt=0)
        judge: str = ""  # folder of the exported classifier

    def build(self):
        self.shape = self.features["image"].shape
        pixels, params = math.prod(self.shape), self.params
        self.generator = TwoLayers((params.latent, params.hidden, pixels), tf.tanh)
        self.discriminator = TwoLayers((pixels, params.hidden, 1))
        self.generator_optimizer = keras.optimizers.Adam(params.learning_rate, beta_1=params.beta_1)
        self.discriminator_optimizer = keras.optimizers.Adam(params.learning_rate, beta_1=params.beta_1)
        self.untrained = self.samples(1000)

    def prepare(self, batch, context):
        size = tf.shape(batch["image"])[0]
        return {**batch, "noise": tf.random.stateless_normal([size, self.params.latent], context.seed)}

    def train_step(self, batch, context):
        with tf.GradientTape() as generator_tape, tf.GradientTape() as discriminator_tape:
            generator_losses, discriminator_losses = self.losses(batch["image"], batch["noise"])
            generator_loss = tf.reduce_mean(generator_losses)
            discriminator_loss = tf.reduce_mean(discriminator_losses)
        for loss, tape, model, optimizer in (
            (generator_loss, generator_tape, self.generator, self.generator_optimizer),
            (discriminator_loss, discriminator_tape, self.discriminator, self.discriminator_optimizer),
        ):
            variables = model.trainable_variables
            self.update(optimizer, variables, tape.gradient(loss, variables))
        return {"generator_loss": generator_losses, "discriminator_loss": discriminator_losses}

    def eval_step(self, batch, context):
        noise = tf.random.stateless_normal([tf.shape(batch["image"])[0], self.params.latent], context.seed)
        generator_losses, discriminator_losses = self.losses(batch["image"], noise)
        return {"generator_loss": generator_losses, "discriminator_loss": discriminator_losses}

    def losses(self, images, noise):
        """Return the generator's and the discriminator's loss of each pair of a real and a made image."""
        half = self.params.white / 2
        real = tf.reshape(tf.cast(images, tf.float32) / half - 1.0, [tf.shape(images)[0], -1])
        of_real, of_fake = self.discriminator(real)[:, 0], self.discriminator(self.generator(noise))[:, 0]
        # -log sigmoid(x) is softplus(-x): the cross-entropy against "real", and softplus(x) the one against "made".
        return tf.nn.softplus(-of_fake), tf.nn.softplus(-of_real) + tf.nn.softplus(of_fake)

    def predict(self, inputs):
        pixels = (self.generator(inputs["noise"]) + 1.0) * (self.params.white / 2)
        image = tf.cast(tf.round(tf.reshape(pixels, [-1, *self.shape])), tf.uint8)
        return {"image": image}

    def served(self, data):
        return {"noise": self.noise(1000).numpy()}

    def signatures(self):
        noise = tf.TensorSpec((None, self.params.latent), tf.float32, name="noise")
        serve = tf.function(lambda noise: self.predict({"noise": noise}), input_signature=[noise])
        return {"serving_default": serve}

    def samples(self, count):
        """Return images from the same noise at each call."""
        return self.predict({"noise": self.noise(count)})["image"].numpy()

    def noise(self, count):
        return tf.random.stateless_normal([count, self.params.latent], [0, 0])

    def pictures(self, data):
        framed = np.pad(self.samples(100) * (255 // self.params.white), [(0, 0), (1, 1), (1, 1), (0, 0)])
        height, width, colours = framed.shape[1:]
        grid = framed.reshape(10, 10, height, width, colours).swapaxes(1, 2)
        return {"samples": grid.reshape(10 * height, 10 * width, colours)}

    def evaluate(self, data):
        if not self.params.judge:
            return {}
        judge = saved_model(self.params.judge).signatures["serving_default"]  # refused if it does more than compute
        seen = [judge(image=tf.constant(images)) for images in (self.samples(1000), self.untrained, data["image"])]
        made, before, real = seen
        share = np.bincount(made["class"], minlength=10) / len(made["class"])
        distance, at_first = (frechet_distance(some["features"], real["features"]) for some in (made, before))
        return {"rarest_class": share.min(), "frechet": distance, "frechet_ratio": distance / at_first}


def frechet_distance(made, real):
    """Return |m1 - m2|² + tr(C1 + C2 - 2 sqrt(C1 C2)) of two sets of features, shape (examples, features)."""
    (mean_1, cov_1), (mean_2, cov_2) = ((x.mean(0), np.cov(x.T)) for x in (made.numpy(), real.numpy()))
    root = np.sqrt(np.maximum(np.linalg.eigvals(cov_1 @ cov_2).real, 0.0)).sum()
    return np.square(mean_1 - mean_2).sum() + np.trace(cov_1 + cov_2) - 2 * root
