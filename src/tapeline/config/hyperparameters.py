"""Hyperparameters that `params.yaml` gives a recipe: its own, and its gradient transforms. No TensorFlow here."""

from pydantic import BaseModel, ConfigDict, PositiveFloat
from pydantic import Field as field

__all__ = ["RecipeParams", "Transforms", "field"]


class RecipeParams(BaseModel):
    """Base of a recipe's `Params`. Its names, types and bounds are checked before TensorFlow is imported.

    >>> class Params(RecipeParams):
    ...     learning_rate: float = field(1e-3, gt=0)
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Transforms(BaseModel):
    """What `update` does to one optimizer's gradients before it applies them, in this order."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    clip_value: PositiveFloat | None = None
    """Clips each element to [-clip_value, +clip_value]."""
    clip_norm: PositiveFloat | None = None
    """Scales each tensor to at most this Euclidean norm."""
    clip_global_norm: PositiveFloat | None = None
    """Scales all tensors together to at most this Euclidean norm (Pascanu et al. 2013)."""
    weight_decay: PositiveFloat | None = None
    """Adds this times the weight to its gradient."""
    noise: PositiveFloat | None = None
    """Standard deviation of Gaussian noise, drawn from (seed, step) (Neelakantan et al. 2015)."""
