"""A GAN of two two-layer perceptrons, batches of 128: two tapes and two optimizers in one step."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.images import images
from benchmarks.peers import eager, engine, jax_scan, keras_fit, torch_loop
from benchmarks.peers.torch_classifier import linear
from benchmarks.workload import PACKAGE_RECIPES, Arrays, Recipe, Workload

RATE, EPSILON, LATENT = 0.0002, 1e-7, 100
RECIPE = Recipe(path=PACKAGE_RECIPES / "gan.py", train={"batch_size": 128, "compile": "xla"})
TWO_THREADS = RECIPE.having(threads=2)
GENERATOR = tuple(f"generator/{name}" for name in ("w1", "b1", "w2", "b2"))
DISCRIMINATOR = tuple(f"discriminator/{name}" for name in ("w1", "b1", "w2", "b2"))


def one_batch(columns: Sequence[Any], size: int) -> Iterator[tuple[Any, ...]]:
    """Yield the first batch, as the tutorial does in each of its epochs."""
    yield tuple(column[:size] for column in columns)


def tutorial(columns: Arrays, weights: Arrays) -> Any:
    """Return the tutorial's step: sigmoid cross-entropies against ones and zeros, two tapes, two optimizers in turn."""
    import tensorflow as tf

    g = [tf.Variable(weights[name]) for name in GENERATOR]
    d = [tf.Variable(weights[name]) for name in DISCRIMINATOR]
    g_optimizer, d_optimizer = tf.optimizers.Adam(RATE), tf.optimizers.Adam(RATE)
    entropy = tf.nn.sigmoid_cross_entropy_with_logits

    def layers(x: Any, variables: Any) -> Any:
        w1, b1, w2, b2 = variables
        return tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2) + b2

    def step(x: Any, noise: Any = None) -> Mapping[str, Any]:
        noise = tf.random.normal([len(x), LATENT]) if noise is None else noise
        with tf.GradientTape() as g_tape, tf.GradientTape() as d_tape:
            real, fake = layers(x, d), layers(tf.nn.tanh(layers(noise, g)), d)
            g_loss = tf.reduce_mean(entropy(labels=tf.ones_like(fake), logits=fake))
            of_real = tf.reduce_mean(entropy(labels=tf.ones_like(real), logits=real))
            d_loss = of_real + tf.reduce_mean(entropy(labels=tf.zeros_like(fake), logits=fake))
        g_optimizer.apply_gradients(zip(g_tape.gradient(g_loss, g), g, strict=True))
        d_optimizer.apply_gradients(zip(d_tape.gradient(d_loss, d), d, strict=True))
        return {"generator_loss": g_loss, "discriminator_loss": d_loss}

    return (columns["image"].reshape(-1, 784).astype("float32") / 127.5 - 1.0,), step


def keras_model(weights: Arrays) -> tuple[Any, dict[str, Any]]:
    """Return a model with its own `train_step`, as in Keras's guide to customizing `fit`."""
    import keras
    import tensorflow as tf

    class Gan(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.generator = keras.Sequential(
                [keras.Input((LATENT,)), keras.layers.Dense(128, "relu"), keras.layers.Dense(784, "tanh")]
            )
            self.discriminator = keras.Sequential(
                [keras.Input((784,)), keras.layers.Dense(128, "relu"), keras.layers.Dense(1)]
            )
            self.means = {name: keras.metrics.Mean(name=f"{name}_loss") for name in ("generator", "discriminator")}
            self.built = True

        def compile(self, g_optimizer: Any, d_optimizer: Any, **options: Any) -> None:
            super().compile(**options)
            self.g_optimizer, self.d_optimizer = g_optimizer, d_optimizer
            self.g_optimizer.build(self.generator.trainable_variables)
            self.d_optimizer.build(self.discriminator.trainable_variables)

        @property
        def metrics(self) -> list[Any]:
            return list(self.means.values())

        def train_step(self, data: Any) -> dict[str, Any]:
            (given,) = data if isinstance(data, tuple) and len(data) == 1 else (data,)
            image, noise = given if isinstance(given, (tuple, list)) else (given, None)
            noise = tf.random.normal([tf.shape(image)[0], LATENT]) if noise is None else noise
            x = tf.reshape(tf.cast(image, tf.float32) / 127.5 - 1.0, [-1, 784])
            with tf.GradientTape() as g_tape, tf.GradientTape() as d_tape:
                real, fake = self.discriminator(x), self.discriminator(self.generator(noise))
                g_loss = tf.reduce_mean(tf.nn.softplus(-fake))
                d_loss = tf.reduce_mean(tf.nn.softplus(-real)) + tf.reduce_mean(tf.nn.softplus(fake))
            g, d = self.generator.trainable_variables, self.discriminator.trainable_variables
            self.g_optimizer.apply_gradients(zip(g_tape.gradient(g_loss, g), g, strict=True))
            self.d_optimizer.apply_gradients(zip(d_tape.gradient(d_loss, d), d, strict=True))
            self.means["generator"].update_state(g_loss)
            self.means["discriminator"].update_state(d_loss)
            return {mean.name: mean.result() for mean in self.metrics}

    model = Gan()
    model.generator.set_weights([weights[name] for name in GENERATOR])
    model.discriminator.set_weights([weights[name] for name in DISCRIMINATOR])
    adam = keras.optimizers.Adam
    return model, {"g_optimizer": adam(RATE), "d_optimizer": adam(RATE)}


def torch_build(weights: Arrays, compiled: Any) -> Any:
    """Return the step with two modules and two fused optimizers; each loss has gradients only for its own model."""
    import torch

    def module(names: tuple[str, ...], *last: Any) -> Any:
        w1, b1, w2, b2 = (weights[name] for name in names)
        return torch.nn.Sequential(linear(w1, b1), torch.nn.ReLU(), linear(w2, b2), *last)

    generator, discriminator = module(GENERATOR, torch.nn.Tanh()), module(DISCRIMINATOR)
    g, d = list(generator.parameters()), list(discriminator.parameters())
    g_optimizer, d_optimizer = (torch.optim.Adam(p, lr=RATE, eps=EPSILON, fused=True) for p in (g, d))
    softplus = torch.nn.functional.softplus

    def losses(image: Any, noise: Any) -> Any:
        x = image.reshape(-1, 784).float() / 127.5 - 1.0
        real, fake = discriminator(x), discriminator(generator(noise))
        return softplus(-fake).mean(), softplus(-real).mean() + softplus(fake).mean()

    forward = compiled(losses)

    def step(image: Any, noise: Any = None) -> Mapping[str, Any]:
        noise = torch.randn(len(image), LATENT) if noise is None else noise
        g_loss, d_loss = forward(image, noise)
        g_gradients = torch.autograd.grad(g_loss, g, retain_graph=True)
        d_gradients = torch.autograd.grad(d_loss, d)
        for parameters, gradients in ((g, g_gradients), (d, d_gradients)):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
        g_optimizer.step()
        d_optimizer.step()
        return {"generator_loss": g_loss.detach(), "discriminator_loss": d_loss.detach()}

    return step


def jax_model(weights: Arrays) -> Any:
    """Return the state and the update: two losses, each differentiated for its own parameters; noise is an input."""
    import jax
    import jax.numpy as jnp
    import optax

    optimizer = optax.adam(RATE, eps=EPSILON)
    g, d = ([jnp.asarray(weights[name]) for name in names] for names in (GENERATOR, DISCRIMINATOR))

    def layers(x: Any, parameters: Any) -> Any:
        w1, b1, w2, b2 = parameters
        return jax.nn.relu(x @ w1 + b1) @ w2 + b2

    def update(state: Any, image: Any, noise: Any) -> Any:
        g, d, g_moments, d_moments = state
        x = image.reshape(-1, 784).astype(jnp.float32) / 127.5 - 1.0

        def g_loss_of(g: Any) -> Any:
            made = jnp.tanh(layers(noise, g))
            return jax.nn.softplus(-layers(made, d)).mean(), made

        (g_loss, made), g_gradients = jax.value_and_grad(g_loss_of, has_aux=True)(g)

        def d_loss_of(d: Any) -> Any:
            return jax.nn.softplus(-layers(x, d)).mean() + jax.nn.softplus(layers(made, d)).mean()

        d_loss, d_gradients = jax.value_and_grad(d_loss_of)(d)
        g_updates, g_moments = optimizer.update(g_gradients, g_moments)
        d_updates, d_moments = optimizer.update(d_gradients, d_moments)
        state = (optax.apply_updates(g, g_updates), optax.apply_updates(d, d_updates), g_moments, d_moments)
        return state, {"generator_loss": g_loss, "discriminator_loss": d_loss}

    return (g, d, optimizer.init(g), optimizer.init(d)), update


def noise_ahead(random: np.random.Generator, steps: int, batch: int) -> Arrays:
    """Draw an epoch's noise at once: JAX's own generator inside the scan costs more than the step's matrix products."""
    return {"noise": random.standard_normal((steps, batch, LATENT), np.float32)}


def noise_inside(update: Any) -> Any:
    """Return an update that draws its noise with JAX's generator, from a key in its state."""
    import jax

    def drawing(state: Any, image: Any, noise: Any = None) -> Any:
        inner, key = state
        if noise is None:
            key, own = jax.random.split(key)
            noise = jax.random.normal(own, (image.shape[0], LATENT))
        inner, losses = update(inner, image, noise)
        return (inner, key), losses

    return drawing


def jax_drawing(weights: Arrays) -> Any:
    """Return the same, with the noise drawn inside."""
    import jax

    state, update = jax_model(weights)
    return (state, jax.random.key(0)), noise_inside(update)


WORKLOAD = Workload(
    name="gan",
    title="GAN of two MLPs, batch 128",
    recipe=RECIPE,
    columns=lambda: {"image": images(12_800, (28, 28, 1))()["image"]},
    contenders=[
        engine.contender(RECIPE),
        engine.contender(TWO_THREADS),
        eager.contender(tutorial, batches=one_batch),
        *keras_fit.contenders(keras_model, target=None),
        *torch_loop.contenders(torch_build, names=("image",)),
        jax_scan.contender(jax_model, names=("image",), draw=noise_ahead, setting="scan, noise drawn ahead"),
        jax_scan.contender(jax_drawing, names=("image",), setting="scan, noise drawn inside"),
    ],
    targets={keras_fit.FAMILY: 1.3, torch_loop.FAMILY: 1.3, jax_scan.FAMILY: 1},
)
