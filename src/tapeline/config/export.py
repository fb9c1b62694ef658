"""`pipelines.<name>.export` in `params.yaml`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat

Precision = Literal["float32", "int8"]
"""Weights of a LiteRT file; `int8` quantizes them and computes in float32 where needed ("dynamic range")."""


class ExportSettings(BaseModel):
    """How far the exported model may deviate from what validate recorded, and what else is exported."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    tolerance: PositiveFloat = 1e-5
    """Largest deviation of a floating-point output from the recorded one: this times (1 + |recorded|), so absolute for
    small values and relative for large ones. The registry's check of a version uses the same rule.
    """
    examples: Annotated[int, Field(ge=1, le=1000)] = 100
    """Real examples stored in the SavedModel as warm-up requests; TensorFlow Serving takes at most 1 000."""
    litert: tuple[Precision, ...] = ()
    """LiteRT files to write alongside the SavedModel, each with its measured accuracy."""
