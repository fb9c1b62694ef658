"""Start from weights that another run left: those with the same name and shape are taken, the others are named."""

from collections.abc import Callable, Mapping
from pathlib import Path

import tensorflow as tf

from tapeline import files
from tapeline.errors import InputError
from tapeline.recipe import variables


def content(folder: Path) -> str:
    """Return the SHA-256 over the weights' files, for the fingerprint."""
    return files.sha256_of_files(sorted(folder.glob(f"{variables.BUNDLE}.*")))


def take(folder: Path, weights: Mapping[str, tf.Variable], say: Callable[[str], None]) -> None:
    """Assign the weights in `folder` that fit. Raises `InputError` when none does, or it holds none."""
    prefix = folder / variables.BUNDLE
    try:
        stored = tf.train.load_checkpoint(str(prefix))
        shapes = stored.get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError) as error:
        raise InputError(f"train.init_from: {folder} holds no weights: {str(error).splitlines()[0]}") from None
    fitting = {name for name, weight in weights.items() if shapes.get(name) == weight.shape.as_list()}
    if not fitting:
        raise InputError(
            f"train.init_from: none of the {len(shapes)} weights in {folder} fits this recipe; it has {_few(weights)}, "
            f"they are {_few(shapes)}"
        )
    for name in sorted(fitting):
        weights[name].assign(tf.cast(stored.get_tensor(name), weights[name].dtype))
    say(f"{len(fitting)} of {len(weights)} weights are taken from {folder}")
    if left := weights.keys() - fitting:
        say(f"left as initialized, because none there has their name and shape: {', '.join(sorted(left))}")
    if unused := shapes.keys() - weights.keys():
        say(f"not used, because the recipe has none of their name: {', '.join(sorted(unused))}")


def _few(names: Mapping[str, object]) -> str:
    first = sorted(names)[:3]
    return ", ".join(first) + (" …" if len(names) > len(first) else "")
