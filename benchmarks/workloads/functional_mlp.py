"""Keras's functional API, 784-64-64-10, batches of 64, plain stochastic gradient descent: the guide's own example."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.images import images
from benchmarks.peers import eager, engine, jax_scan, keras_fit, torch_loop
from benchmarks.peers.torch_classifier import classifier, linear
from benchmarks.workload import PACKAGE_RECIPES, Arrays, Recipe, Workload

RATE = 0.001
RECIPE = Recipe(path=PACKAGE_RECIPES / "mnist_mlp.py", train={"batch_size": 64, "compile": "xla"})
TWO_THREADS = RECIPE.having(threads=2)


def layers(weights: Arrays) -> list[Any]:
    """Return kernels and biases in the order of the layers."""
    return list(weights.values())


def shuffled(columns: tuple[Any, ...], size: int) -> Iterator[tuple[Any, ...]]:
    """Yield an epoch as the tutorial's dataset does: a shuffle buffer of 1024, then batches."""
    import tensorflow as tf

    from tapeline.runtime.untuned import untuned

    data = untuned(tf.data.Dataset.from_tensor_slices(columns))  # otherwise the end of an epoch may take seconds
    yield from data.shuffle(buffer_size=1024).batch(size, drop_remainder=True)


def tutorial(columns: Arrays, weights: Arrays) -> Any:
    """Return the tutorial's step: a functional model called inside a tape."""
    import keras
    import tensorflow as tf

    model = functional(weights, keras.Input((784,)))
    optimizer = keras.optimizers.SGD(RATE)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x: Any, y: Any) -> Mapping[str, Any]:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights, strict=True)
        )
        return {"loss": loss}

    return (columns["image"].reshape(-1, 784).astype("float32") / 255.0, columns["label"]), step


def functional(weights: Arrays, inputs: Any, x: Any = None) -> Any:
    """Return the model. x: the input of the first layer, derived from `inputs`; by default `inputs` itself."""
    import keras

    for units, activation in ((64, "relu"), (64, "relu"), (10, None)):
        x = keras.layers.Dense(units, activation=activation)(inputs if x is None else x)
    model = keras.Model(inputs, x)
    model.set_weights(layers(weights))
    return model


def keras_model(weights: Arrays) -> tuple[Any, dict[str, Any]]:
    """Return the same from uint8 images, for `fit`."""
    import keras

    inputs = keras.Input((28, 28, 1))
    model = functional(weights, inputs, keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(inputs)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return model, {"loss": loss, "optimizer": keras.optimizers.SGD(RATE), "metrics": ["accuracy"]}


def torch_model(weights: Arrays) -> Any:
    """Return the same as modules."""
    import torch

    w1, b1, w2, b2, w3, b3 = layers(weights)
    relu = torch.nn.ReLU()
    return torch.nn.Sequential(torch.nn.Flatten(), linear(w1, b1), relu, linear(w2, b2), relu, linear(w3, b3))


def torch_sgd(parameters: Any) -> Any:
    """Return SGD with one kernel for all parameters."""
    import torch

    return torch.optim.SGD(parameters, lr=RATE, fused=True)


def jax_model(weights: Arrays) -> Any:
    """Return the same as a pure function."""
    import jax
    import jax.numpy as jnp
    import optax

    optimizer = optax.sgd(RATE)
    parameters = [jnp.asarray(weight) for weight in layers(weights)]

    def loss_of(parameters: Any, image: Any, label: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = parameters
        x = image.reshape(-1, 784).astype(jnp.float32) / 255.0
        logits = jax.nn.relu(jax.nn.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3
        return optax.softmax_cross_entropy_with_integer_labels(logits, label).mean()

    def update(state: Any, image: Any, label: Any) -> Any:
        parameters, nothing = state
        loss, gradients = jax.value_and_grad(loss_of)(parameters, image, label)
        updates, nothing = optimizer.update(gradients, nothing)
        return (optax.apply_updates(parameters, updates), nothing), {"loss": loss}

    return (parameters, optimizer.init(parameters)), update


WORKLOAD = Workload(
    name="functional_mlp",
    title="functional MLP 784-64-64-10, batch 64",
    recipe=RECIPE,
    columns=images(51_200, (28, 28, 1)),
    contenders=[
        engine.contender(RECIPE),
        engine.contender(TWO_THREADS),
        eager.contender(tutorial, batches=shuffled),
        *keras_fit.contenders(keras_model, executions=(1, 100)),
        *torch_loop.contenders(classifier(torch_model, torch_sgd)),
        jax_scan.contender(jax_model),
    ],
    tolerance=2e-4,  # such a small rate changes little in fifty steps
    targets={keras_fit.FAMILY: 1.3, torch_loop.FAMILY: 1.3, jax_scan.FAMILY: 1},
)
