"""Any Keras optimizer by name, so that `params.yaml` can choose it."""

import difflib
from typing import Any

import keras

from tapeline.recipe.autograph import as_written
from tapeline.runtime.errors import InputError


def optimizer(name: str, learning_rate: Any, **options: Any) -> Any:
    """Return a Keras optimizer.

    name: its class, case-insensitive: "adam", "AdamW", "sgd". learning_rate: a number or a schedule. options: further
    arguments. Raises `InputError` for a name or an option unknown to Keras.

    >>> optimizer("sgd", 0.1, momentum=0.9).momentum
    0.9
    """
    known = {kind.__name__.lower(): kind for kind in vars(keras.optimizers).values() if _is_optimizer(kind)}
    if name.lower() not in known:
        near = difflib.get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(sorted(known))}"
        raise InputError(f"no optimizer {name!r} in Keras {keras.__version__}; {hint}")
    try:
        return known[name.lower()](learning_rate=learning_rate, **options)
    except (TypeError, ValueError) as error:
        raise InputError(f"optimizer {name!r}: {str(error).splitlines()[0]}") from None


@as_written
def scales_loss(optimizer: Any) -> bool:
    """Return whether an optimizer expects gradients of a scaled loss, and divides them by the scale."""
    dynamic = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    return dynamic or getattr(optimizer, "loss_scale_factor", None) is not None


@as_written
def refuse_averages(optimizer: Any, called: str) -> None:
    """Raise `InputError` for averages of the weights that only Keras' `fit` would put into them."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    if getattr(optimizer, "use_ema", False) and not getattr(optimizer, "ema_overwrite_frequency", None):
        raise InputError(
            f"{called} has use_ema, but its averages would never reach the weights: set train.ema, or "
            "ema_overwrite_frequency"
        )


def _is_optimizer(kind: Any) -> bool:
    base = keras.optimizers.Optimizer
    return isinstance(kind, type) and issubclass(kind, base) and kind not in (base, keras.optimizers.LossScaleOptimizer)
