"""TensorFlow's fused update kernels for the optimizers with an exact counterpart: one operation per variable.

Keras computes an update in a dozen operations. The kernels here compute the same formula but round at other points,
so the last bits differ.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tapeline.recipe.autograph import as_written, theirs
from tapeline.runtime import keras_private
from tapeline.runtime.errors import InputError

_UNFUSED = (
    "amsgrad",
    "clipnorm",
    "clipvalue",
    "global_clipnorm",
    "gradient_accumulation_steps",
    "loss_scale_factor",
    "use_ema",
    "weight_decay",
)
"""Options of Keras optimizers that the kernels lack."""


@as_written
def apply(optimizer: Any, gradients: Sequence[tf.Tensor], variables: Sequence[Any]) -> None:
    """Do what `optimizer.apply` does, with fused kernels. Raises `InputError` for an optimizer without one."""
    kernel = _KERNELS.get(type(optimizer))
    if kernel is None:
        known = ", ".join(sorted(kind.__name__ for kind in _KERNELS))
        raise InputError(
            f"train.fused: {type(optimizer).__name__} has no fused kernel: use {known}, or set train.fused to false"
        )
    if asked := [name for name in _UNFUSED if getattr(optimizer, name, None)]:
        raise InputError(
            f"train.fused: {type(optimizer).__name__} with {asked[0]} has no fused kernel: use train.gradients instead"
        )
    if not optimizer.built:
        with tf.init_scope():
            optimizer.build(variables)
    rate = tf.cast(optimizer.learning_rate, tf.float32)
    step = tf.cast(optimizer.iterations.value, tf.float32) + 1.0
    update = kernel(optimizer, rate, step)
    for variable, gradient in zip(variables, gradients, strict=True):
        raw = getattr(variable, "value", variable)
        raw = raw if isinstance(raw, tf.Variable) else variable
        update(raw, tf.cast(gradient, raw.dtype), keras_private.slot_index(optimizer, variable))
    for variable in variables:
        if variable.constraint is not None:
            variable.assign(theirs(variable.constraint)(variable))
    optimizer.iterations.value.assign_add(1)


Update = Callable[[tf.Variable, tf.Tensor, int], None]


def _adam(optimizer: Any, rate: tf.Tensor, step: tf.Tensor) -> Update:
    """Return Adam's update: Kingma and Ba 2015, in the form of section 2, last paragraph, as in Keras."""
    beta_1, beta_2 = (tf.constant(beta, tf.float32) for beta in (optimizer.beta_1, optimizer.beta_2))
    powers = {"beta1_power": tf.pow(beta_1, step), "beta2_power": tf.pow(beta_2, step)}

    def update(variable: tf.Variable, gradient: tf.Tensor, index: int) -> None:
        momentum, velocity = keras_private.adam_moments(optimizer, index)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=momentum.value.handle,
            v=velocity.value.handle,
            lr=rate,
            beta1=beta_1,
            beta2=beta_2,
            epsilon=tf.constant(optimizer.epsilon, tf.float32),
            grad=gradient,
            **powers,
        )

    return update


def _sgd(optimizer: Any, rate: tf.Tensor, _step: tf.Tensor) -> Update:
    def update(variable: tf.Variable, gradient: tf.Tensor, index: int) -> None:
        if optimizer.momentum:
            tf.raw_ops.ResourceApplyKerasMomentum(
                var=variable.handle,
                accum=optimizer.momentums[index].value.handle,
                lr=rate,
                grad=gradient,
                momentum=tf.constant(optimizer.momentum, tf.float32),
                use_nesterov=optimizer.nesterov,
            )
        else:
            tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=rate, delta=gradient)

    return update


_KERNELS: dict[type, Callable[[Any, tf.Tensor, tf.Tensor], Update]] = {
    keras.optimizers.Adam: _adam,
    keras.optimizers.SGD: _sgd,
}
