"""A step reads a variable before it writes it, also after TensorFlow has optimized its graph.

Grappler's dependency optimization drops the edge from a read to a write where a way through an `IdentityN` implies it,
and then may take the `IdentityN` away (TensorFlow 2.21). Keras' SGD with momentum has one, and so has what
`tf.custom_gradient` makes: where a gradient does not depend on its variable, as in a critic that is linear in its last
layer, the update can come first. So it is off where variables are trained. It changes no operation, and elsewhere stays
as TensorFlow has it: models name the options that they were made with.
"""

import tensorflow as tf

_OPTION = "dependency_optimization"


def keep() -> None:
    """Keep the order in functions that are called from now on."""
    tf.config.optimizer.set_experimental_options({_OPTION: False})


def as_it_comes() -> None:
    """Let TensorFlow do as it does."""
    tf.config.optimizer.set_experimental_options({_OPTION: None})
