"""The request for a sweep: the search space, the metric, and how many trials at once.

SweepRequest.of(pipeline="digits", over={"params.dropout": {"low": 0.1, "high": 0.6}}, metric="accuracy", goal="max")
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from tapeline.config.params import checked
from tapeline.orchestration.request import Name, Override, Overrides, Ref
from tapeline.orchestration.storable import storable

Number = Annotated[int | float, AfterValidator(storable)]
Value = str | Number | bool


class Range(BaseModel):
    """Numbers between two inclusive bounds: integers when both bounds are."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    low: Number
    high: Number
    log: bool = False

    @model_validator(mode="after")
    def _is_a_range(self) -> "Range":
        if self.low >= self.high:
            raise ValueError(f"low is {self.low:g} and high {self.high:g}: low must be below high")
        if self.log and self.low <= 0:
            raise ValueError(f"low is {self.low:g}: with log it must be above 0")
        return self


Choices = Annotated[tuple[Value, ...], Field(min_length=2)]
Dimension = Range | Choices
Space = Annotated[
    dict[Override, Dimension],
    Field(min_length=1, examples=[{"params.learning_rate": {"low": 0.0001, "high": 0.01, "log": True}}]),
]
Goal = Literal["max", "min"]
Trials = Annotated[int, Field(ge=1, le=10_000)]
Parallel = Annotated[int, Field(ge=1, le=64)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]


class SweepRequest(BaseModel):
    """One call of the sweep flow."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pipeline: Name
    over: Space
    metric: Annotated[str, Field(min_length=1)]
    goal: Goal
    trials: Trials = 20
    parallel: Parallel | None = None
    ref: Ref = ""
    overrides: Overrides = {}
    name: Name = ""
    seed: Seed = 0

    @classmethod
    def of(cls, **parameters: Any) -> "SweepRequest":
        """Return the request, or raise `InputError` that names the first wrong parameter, its value and the rule."""
        given = dict(parameters)
        given["name"] = given.get("name") or given.get("pipeline")
        if isinstance(over := given.get("over"), Mapping):
            given["over"] = {key: of.model_dump() if isinstance(of, Range) else of for key, of in over.items()}
        return checked(cls, given, where="parameters")

    @model_validator(mode="after")
    def _searched_or_set(self) -> "SweepRequest":
        if both := sorted(self.over.keys() & self.overrides.keys()):
            raise ValueError(f"{', '.join(both)}: both searched over and set; leave out one of the two")
        return self

    def definition(self, commit: str) -> dict[str, Any]:
        """Return what must be unchanged for a sweep to resume; more trials do not make it another sweep."""
        return {"commit": commit, **self.model_dump(mode="json", exclude={"trials", "parallel", "ref", "name"})}


def corners(space: Mapping[str, Dimension]) -> list[dict[str, Value]]:
    """Return points of the space that together contain every bound and every choice.

    >>> corners({"a": Range(low=1, high=2), "b": ("x", "y", "z")})
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'y'}, {'a': 1, 'b': 'z'}]
    """
    ends = {key: (of.low, of.high) if isinstance(of, Range) else of for key, of in space.items()}
    return [{key: of[n % len(of)] for key, of in ends.items()} for n in range(max(map(len, ends.values())))]
