"""`pipelines.<name>.validate` in `params.yaml`."""

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator


class Bound(BaseModel):
    """The range of values that a metric may have."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    min: float | None = None
    max: float | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "Bound":
        if self.min is None and self.max is None:
            raise ValueError("a bound needs `min`, `max` or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"no value is at least {self.min:g} and at most {self.max:g}: `min` must not exceed `max`")
        return self

    def holds(self, value: float) -> bool:
        """Return whether a value is within the bound. A NaN is within none."""
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)


class ValidateSettings(BaseModel):
    """How a trained model is judged on the test split."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    split: str = "test"
    batch_size: PositiveInt = 256
    calibration_bins: PositiveInt = 15
    """Equal-width confidence bins of the expected calibration error (Guo et al. 2017)."""
    thresholds: dict[str, Bound] = Field(default={})
    """Metric → bound. The verdict is yes if all of them hold."""
