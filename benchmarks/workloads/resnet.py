"""ResNet-18 on 32×32 images, batches of 64, momentum: many small kernels and normalizations."""

from typing import Any

from benchmarks.images import images
from benchmarks.peers import ceiling, engine, keras_fit, torch_loop
from benchmarks.peers.torch_classifier import classifier, linear
from benchmarks.workload import OWN_RECIPES, Arrays, Recipe, Workload
from benchmarks.workloads.cnn import channels_first, convolution

RATE, MOMENTUM, EPSILON = 0.02, 0.9, 1e-3
RECIPE = Recipe(path=OWN_RECIPES / "resnet.py", train={"batch_size": 64})
FUSED = RECIPE.having(fused=True)
SHARDED = FUSED.having(shards=2)
INNER = 32**2 * 9 * 16**2
LAYERS = [32**2 * 27 * 16, *13 * [INNER], *3 * [INNER // 2], *3 * [INNER // 18], 128 * 10]
"""The multiply-adds of each layer for one image, forward. Each stage has half the height and width of the one before
and twice its channels, so that its convolutions cost the same, but for its first and for its shortcut.
"""


def keras_model(weights: Arrays) -> tuple[Any, dict[str, Any]]:
    """Return the recipe's own network, from uint8 images."""
    import keras

    from benchmarks.recipes.resnet import network

    model = network(scale=1 / 255)
    named = by_layer(weights)
    for variable in model.variables:
        variable.assign(named[tuple(variable.path.split("/")[-2:])])
    optimizer = keras.optimizers.SGD(RATE, MOMENTUM)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return model, {"loss": loss, "optimizer": optimizer, "metrics": ["accuracy"]}


def by_layer(weights: Arrays) -> dict[tuple[str, ...], Any]:
    """Return the weights by (layer, weight)."""
    return {tuple(name.split("/")[-2:]): value for name, value in weights.items()}


def torch_model(weights: Arrays) -> Any:
    """Return the same as modules, in channels-last memory."""
    import torch

    named = by_layer(weights)

    def convolved(name: str, stride: int) -> Any:
        kernel = named[f"{name}_convolution", "kernel"]
        layer = convolution(kernel, None, stride=stride, padding=kernel.shape[0] // 2)
        norm = torch.nn.BatchNorm2d(kernel.shape[3], eps=EPSILON, momentum=0.01)
        return torch.nn.Sequential(layer, norm)

    class Block(torch.nn.Module):
        def __init__(self, name: str, stride: int) -> None:
            super().__init__()
            self.first, self.second = convolved(f"{name}_first", stride), convolved(f"{name}_second", 1)
            self.shortcut = convolved(f"{name}_shortcut", 2) if stride == 2 else torch.nn.Identity()

        def forward(self, x: Any) -> Any:
            inner = self.second(torch.relu(self.first(x)))
            return torch.relu(inner + self.shortcut(x))

    blocks = [Block(f"block_{s}_{b}", 2 if s and not b else 1) for s in range(4) for b in range(2)]
    logits = linear(named["logits", "kernel"], named["logits", "bias"])
    pooled = (torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    module = torch.nn.Sequential(convolved("stem", 1), torch.nn.ReLU(), *blocks, *pooled, logits)
    return module.to(memory_format=torch.channels_last)


def torch_momentum(parameters: Any) -> Any:
    """Return SGD with momentum, with one kernel for all parameters."""
    import torch

    return torch.optim.SGD(parameters, lr=RATE, momentum=MOMENTUM, fused=True)


WORKLOAD = Workload(
    name="resnet",
    title="ResNet-18, quarter width, 32×32, batch 64",
    recipe=RECIPE,
    columns=images(6_400, (32, 32, 3)),
    contenders=[
        engine.contender(RECIPE),
        engine.contender(FUSED),
        engine.contender(SHARDED),
        *keras_fit.contenders(keras_model, jit=(False,), executions=(1, 10)),
        *torch_loop.contenders(classifier(torch_model, torch_momentum, images=channels_first), note="channels last"),
        ceiling.matmul(ceiling.training_flops(RECIPE.train["batch_size"], LAYERS)),
    ],
    steps=20,
    tolerance=1e-2,  # normalization makes rounding errors grow fast
    targets={keras_fit.FAMILY: 1.3, torch_loop.FAMILY: 1.3},
)
