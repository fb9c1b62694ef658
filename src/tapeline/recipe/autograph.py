"""AutoGraph for the user's functions only: ours are traced as written, which is faster and keeps error lines right."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import tensorflow as tf

from tapeline.runtime import tensorflow_private

Ours = TypeVar("Ours", bound=Callable[..., Any])


def convert(function: Any) -> Any:
    """Return a user's function converted by AutoGraph, so that Python `if` and `for` over tensors work in a graph.

    Call this outside any graph: inside one, AutoGraph inherits the setting of the enclosing function. One of ours that
    is `as_written` only gets the setting, in whichever thread it is called.
    """
    return tensorflow_private.autograph_convert(function)


def as_written(function: Ours) -> Ours:
    """Decorate a function of ours that a user's function calls: converting it takes 20 to 50 ms, and changes nothing.

    It calls what may be the user's through `theirs`.
    """
    marked: Ours = tensorflow_private.autograph_as_written(function)
    return marked


def theirs(function: Any) -> Any:
    """Return a function, to be called by one that is `as_written`, as a user's function would call it."""
    return function if tf.executing_eagerly() else partial(tensorflow_private.autograph_call, function)
