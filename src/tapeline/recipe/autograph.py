"""AutoGraph for the user's functions alone: ours are traced as they are written, which is faster and blames right."""

from typing import Any

import tensorflow as tf


def convert(function: Any) -> Any:
    """Return a user's function as AutoGraph sees it, so that Python `if` and `for` over tensors work in a graph.

    Call this outside of any graph: inside one, AutoGraph takes over what was chosen for the function around it.
    """
    autograph = tf.__internal__.autograph
    return autograph.tf_convert(function, autograph.control_status_ctx())
