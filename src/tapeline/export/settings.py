"""`pipelines.<name>.export` in `params.yaml`."""

from pydantic import BaseModel, ConfigDict, PositiveFloat


class ExportSettings(BaseModel):
    """How far the exported model may be from what validate saw."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    tolerance: PositiveFloat = 1e-5
    """Largest absolute difference of a floating-point output, in the output's own unit."""
