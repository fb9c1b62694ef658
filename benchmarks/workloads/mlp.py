"""A tutorial's perceptron, 784-128-10, batches of 128, Adam: its step is mostly overhead."""

from collections.abc import Mapping
from typing import Any

from benchmarks.images import images
from benchmarks.peers import ceiling, eager, engine, jax_scan, keras_fit, torch_loop
from benchmarks.peers.torch_classifier import classifier, linear
from benchmarks.workload import PACKAGE_RECIPES, Arrays, Recipe, Workload

RATE, EPSILON = 0.001, 1e-7
"""Keras's defaults; the other libraries' epsilon is 1e-8."""
RECIPE = Recipe(path=PACKAGE_RECIPES / "mnist_mlp_module.py", train={"batch_size": 128, "compile": "xla"})
TWO_THREADS = RECIPE.having(threads=2)
FLOPS = 6 * 128 * (784 * 128 + 128 * 10)
"""The usual count, three products per matrix. Only two thirds are computed: the images' gradient is not needed."""
WEIGHTS = ("model/w1", "model/b1", "model/w2", "model/b2")


def tutorial(columns: Arrays, weights: Arrays) -> Any:
    """Return the tutorial's step: one-hot labels, plain variables, a tape, `apply_gradients`."""
    import tensorflow as tf

    x = columns["image"].reshape(-1, 784).astype("float32") / 255.0
    y = tf.keras.utils.to_categorical(columns["label"], 10)
    variables = w1, b1, w2, b2 = [tf.Variable(weights[name]) for name in WEIGHTS]
    optimizer = tf.optimizers.Adam(RATE)

    def step(x: Any, y: Any) -> Mapping[str, Any]:
        with tf.GradientTape() as tape:
            logits = tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2) + b2
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(y, logits))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return {"loss": loss}

    return (x, y), step


def keras_model(weights: Arrays) -> tuple[Any, dict[str, Any]]:
    """Return the same as layers."""
    import keras

    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Flatten(),
            keras.layers.Dense(128, "relu"),
            keras.layers.Dense(10),
        ]
    )
    model.set_weights([weights[name] for name in WEIGHTS])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return model, {"loss": loss, "optimizer": keras.optimizers.Adam(RATE), "metrics": ["accuracy"]}


def torch_model(weights: Arrays) -> Any:
    """Return the same as modules."""
    import torch

    w1, b1, w2, b2 = (weights[name] for name in WEIGHTS)
    return torch.nn.Sequential(torch.nn.Flatten(), linear(w1, b1), torch.nn.ReLU(), linear(w2, b2))


def torch_adam(parameters: Any) -> Any:
    """Return Adam with one kernel for all parameters."""
    import torch

    return torch.optim.Adam(parameters, lr=RATE, eps=EPSILON, fused=True)


def jax_model(weights: Arrays) -> Any:
    """Return the same as a pure function, with Optax's Adam."""
    import jax
    import jax.numpy as jnp
    import optax

    optimizer = optax.adam(RATE, eps=EPSILON)
    parameters = [jnp.asarray(weights[name]) for name in WEIGHTS]

    def loss_of(parameters: Any, image: Any, label: Any) -> Any:
        w1, b1, w2, b2 = parameters
        x = image.reshape(-1, 784).astype(jnp.float32) / 255.0
        logits = jax.nn.relu(x @ w1 + b1) @ w2 + b2
        return optax.softmax_cross_entropy_with_integer_labels(logits, label).mean()

    def update(state: Any, image: Any, label: Any) -> Any:
        parameters, moments = state
        loss, gradients = jax.value_and_grad(loss_of)(parameters, image, label)
        updates, moments = optimizer.update(gradients, moments)
        return (optax.apply_updates(parameters, updates), moments), {"loss": loss}

    return (parameters, optimizer.init(parameters)), update


WORKLOAD = Workload(
    name="mlp",
    title="MLP 784-128-10, batch 128",
    recipe=RECIPE,
    columns=images(51_200, (28, 28, 1)),
    contenders=[
        engine.contender(RECIPE),
        engine.contender(TWO_THREADS),
        eager.contender(tutorial),
        *keras_fit.contenders(keras_model, executions=(1, 100)),
        *torch_loop.contenders(classifier(torch_model, torch_adam)),
        jax_scan.contender(jax_model),
        ceiling.matmul(FLOPS),
    ],
    targets={"matmul ceiling": 0.7, keras_fit.FAMILY: 1.3, torch_loop.FAMILY: 1.3, jax_scan.FAMILY: 1},
)
