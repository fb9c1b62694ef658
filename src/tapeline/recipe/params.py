"""A recipe's own hyperparameters: `pipelines.<name>.params`, typed by the recipe. No TensorFlow here."""

from pydantic import BaseModel, ConfigDict
from pydantic import Field as field

__all__ = ["RecipeParams", "field"]


class RecipeParams(BaseModel):
    """Base of a recipe's `Params`. Its names, types and bounds are checked before TensorFlow is imported.

    >>> class Params(RecipeParams):
    ...     learning_rate: float = field(1e-3, gt=0)
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
