"""What a user writes: models, losses, optimizers, and one training and one evaluation step.

from tapeline.recipe import RecipeParams, Supervised, field
"""

from tapeline.config.hyperparameters import RecipeParams, field
from tapeline.recipe import schedules
from tapeline.recipe.context import Context
from tapeline.recipe.contract import Batch, Metrics, Recipe
from tapeline.recipe.noise import Noise
from tapeline.recipe.optimizers import optimizer
from tapeline.recipe.saved_models import saved_model
from tapeline.recipe.supervised import Supervised
from tapeline.runtime.records import Hook, LoopEnded, Record, Skipped, Started, Stop, Stopping, Validated

__all__ = [
    "Batch",
    "Context",
    "Hook",
    "LoopEnded",
    "Metrics",
    "Noise",
    "Recipe",
    "RecipeParams",
    "Record",
    "Skipped",
    "Started",
    "Stop",
    "Stopping",
    "Supervised",
    "Validated",
    "field",
    "optimizer",
    "saved_model",
    "schedules",
]
