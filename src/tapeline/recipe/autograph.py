"""AutoGraph for the user's functions only: ours are traced as written, which is faster and keeps error lines right."""

from typing import Any

from tapeline.runtime import tensorflow_private


def convert(function: Any) -> Any:
    """Return a user's function converted by AutoGraph, so that Python `if` and `for` over tensors work in a graph.

    Call this outside any graph: inside one, AutoGraph inherits the setting of the enclosing function.
    """
    return tensorflow_private.autograph_convert(function)
