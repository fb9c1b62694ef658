"""A classifier's step in PyTorch: cross-entropy from logits, uint8 images scaled inside the step."""

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.peers.torch_loop import Build
from benchmarks.workload import Arrays


def classifier(
    model: Callable[[Arrays], Any],
    optimizer: Callable[[Any], Any],
    *,
    images: Callable[[Any], Any] = lambda images: images,
    bfloat16: bool = False,
) -> Build:
    """Return a builder of steps. model: initial weights → module. images: reshapes a batch of float32 images."""

    def build(weights: Arrays, compiled: Callable[[Any], Any]) -> Callable[..., Mapping[str, Any]]:
        import torch

        module = model(weights)
        updates = optimizer(module.parameters())

        def loss_of(image: Any, label: Any) -> Any:
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                logits = module(images(image.float() / 255.0))
            return torch.nn.functional.cross_entropy(logits.float(), label)

        forward = compiled(loss_of)

        def step(image: Any, label: Any) -> Mapping[str, Any]:
            updates.zero_grad(set_to_none=True)
            loss = forward(image, label)
            loss.backward()
            updates.step()
            return {"loss": loss.detach()}

        return step

    return build


def linear(kernel: Any, bias: Any) -> Any:
    """Return a linear layer with TensorFlow's weights, whose kernels are (inputs, outputs)."""
    import torch

    layer = torch.nn.Linear(*kernel.shape)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(kernel.T.copy()))
        layer.bias.copy_(torch.from_numpy(bias))
    return layer
