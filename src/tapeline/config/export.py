"""`pipelines.<name>.export` in `params.yaml`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat

Precision = Literal["float32", "int8"]
"""A LiteRT file's weights; `int8` quantizes them and computes in float32 where it must ("dynamic range")."""


class ExportSettings(BaseModel):
    """How far the exported model may be from what validate saw, and what is exported besides it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    tolerance: PositiveFloat = 1e-5
    """How far a floating-point output may be from the recorded one: this times (1 + |recorded|), which is absolute
    for small values and relative for large ones. The registry's check of a version goes by the same rule.
    """
    examples: Annotated[int, Field(ge=1, le=1000)] = 100
    """Real examples that the SavedModel keeps as warm-up requests; TensorFlow Serving takes at most 1 000."""
    litert: tuple[Precision, ...] = ()
    """LiteRT files to write beside the SavedModel, each with its measured accuracy."""
