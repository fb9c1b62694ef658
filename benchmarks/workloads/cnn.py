"""Three convolutions, two pooling layers, two dense layers, 122 570 parameters, batches of 64, in float32."""

from collections.abc import Mapping
from typing import Any

from benchmarks.images import images
from benchmarks.peers import ceiling, eager, engine, keras_fit, torch_loop
from benchmarks.peers.torch_classifier import classifier, linear
from benchmarks.workload import PACKAGE_RECIPES, Arrays, Recipe, Workload

RATE, EPSILON = 0.001, 1e-7
SHAPE = (32, 32, 3)
RECIPE = Recipe(path=PACKAGE_RECIPES / "cifar10_cnn.py", train={"batch_size": 64})
FUSED = RECIPE.having(fused=True)
SHARDED = FUSED.having(shards=2)
LAYERS = [30**2 * 27 * 32, 13**2 * 288 * 64, 4**2 * 576 * 64, 1024 * 64, 64 * 10]
"""The multiply-adds of each layer for one image, forward."""


def network(weights: Arrays, *first: Any) -> Any:
    """Return the tutorial's network, preceded by the layers `first`."""
    import keras
    from keras import layers

    model = keras.Sequential(
        [
            keras.Input(SHAPE),
            *first,
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10, dtype="float32"),
        ]
    )
    model.set_weights(list(weights.values()))
    return model


def tutorial(columns: Arrays, weights: Arrays) -> Any:
    """Return the tutorial's step: images / 255.0, so float64; a Keras model in a tape, two Keras metrics per step."""
    import tensorflow as tf

    model = network(weights)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.keras.optimizers.Adam()
    mean, accuracy = tf.keras.metrics.Mean(), tf.keras.metrics.SparseCategoricalAccuracy()

    def step(images: Any, labels: Any) -> Mapping[str, Any]:
        with tf.GradientTape() as tape:
            predictions = model(images, training=True)
            loss = loss_of(labels, predictions)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        mean(loss)
        accuracy(labels, predictions)
        return {"loss": loss}

    return (columns["image"] / 255.0, columns["label"][:, None]), step


def keras_model(weights: Arrays) -> tuple[Any, dict[str, Any]]:
    """Return the same from uint8 images, for `fit`."""
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = network(weights, keras.layers.Rescaling(1 / 255))
    return model, {"loss": loss, "optimizer": keras.optimizers.Adam(RATE), "metrics": ["accuracy"]}


def torch_model(weights: Arrays) -> Any:
    """Return the same as modules in channels-last memory; features are flattened in TensorFlow's order."""
    import torch

    k1, c1, k2, c2, k3, c3, w1, b1, w2, b2 = weights.values()
    relu, pool = torch.nn.ReLU(), torch.nn.MaxPool2d(2)

    class InTheirOrder(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.permute(0, 2, 3, 1).flatten(1)

    module = torch.nn.Sequential(
        *(convolution(k1, c1), relu, pool, convolution(k2, c2), relu, pool, convolution(k3, c3), relu),
        *(InTheirOrder(), linear(w1, b1), relu, linear(w2, b2)),
    )
    return module.to(memory_format=torch.channels_last)


def convolution(kernel: Any, bias: Any, *, stride: int = 1, padding: int = 0) -> Any:
    """Return a convolution with TensorFlow's weights, whose kernels are (height, width, inputs, outputs)."""
    import torch

    height, width, inputs, outputs = kernel.shape
    layer = torch.nn.Conv2d(inputs, outputs, (height, width), stride=stride, padding=padding, bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(kernel).permute(3, 2, 0, 1))
        if bias is not None:
            layer.bias.copy_(torch.from_numpy(bias))
    return layer


def torch_adam(parameters: Any) -> Any:
    """Return Adam with one kernel for all parameters."""
    import torch

    return torch.optim.Adam(parameters, lr=RATE, eps=EPSILON, fused=True)


def channels_first(images: Any) -> Any:
    """Return a view of stored images: (batch, height, width, channels) in memory is already channels-last."""
    return images.permute(0, 3, 1, 2)


WORKLOAD = Workload(
    name="cnn",
    title="CNN 32×32×3, batch 64, float32",
    recipe=RECIPE,
    columns=images(12_800, SHAPE),
    contenders=[
        engine.contender(RECIPE),
        engine.contender(FUSED),
        engine.contender(SHARDED),
        eager.contender(tutorial),
        *keras_fit.contenders(keras_model, jit=(False,)),
        *torch_loop.contenders(classifier(torch_model, torch_adam, images=channels_first), note="channels last"),
        ceiling.matmul(ceiling.training_flops(RECIPE.train["batch_size"], LAYERS)),
    ],
    tolerance=5e-3,  # rounding errors grow with each step of a convolutional network
    targets={keras_fit.FAMILY: 1.3, torch_loop.FAMILY: 1.3},
)
