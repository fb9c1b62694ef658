"""The request for a training run: its parameters, typed, with their bounds; the types of other flows' parameters.

request = Request.of(pipeline="digits", isolated=True, overrides={"train.epochs": 3})
"""

import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tapeline.config.mistakes import pattern
from tapeline.config.params import NAME, checked
from tapeline.config.registry import STAGE
from tapeline.orchestration.storable import Storable
from tapeline.parsing.yaml_flow import yaml_flow
from tapeline.registry.tags.names import VERSION

Stage = Literal["ingest", "train", "validate", "export"]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Name = Annotated[
    str,
    Field(
        pattern=pattern(f"^{NAME.pattern}$", "be a name: small letters, digits, and hyphens between them"),
        examples=["digits"],
    ),
]
Ref = Annotated[
    str,
    Field(
        pattern=pattern(r"^([^-\s\x00-\x1f\x7f][^\s\x00-\x1f\x7f]*)?$", "be a branch, a tag or a commit"),
        max_length=250,
        examples=["main", "v1.2.0"],
    ),
]
Override = Annotated[
    str,
    Field(
        pattern=pattern(
            r"^(params|train|validate|export)(\.[^.\s]+)+$|^(dataset|recipe|needs)$",
            "name a setting of the pipeline, such as train.epochs or params.learning_rate",
        )
    ),
]
Overrides = Annotated[dict[Override, Storable], Field(examples=[{"train.epochs": 20, "params.learning_rate": 0.001}])]
Retries = Annotated[int, Field(ge=0, le=10)]
Timeouts = Annotated[dict[Stage, Seconds], Field(examples=[{"train": 3600}])]

YEAR = 31_536_000
RegistryStage = Annotated[
    str,
    Field(
        pattern=pattern(f"^{STAGE.pattern}$", "be a stage's name: a small letter, then small letters, digits, hyphens"),
        examples=["prod"],
    ),
]
Version = Annotated[
    str,
    Field(
        pattern=pattern(f"^v?{VERSION.pattern.removeprefix('v')}$", "be a version, such as v1.2.0"),
        examples=["v1.0.0"],
    ),
]
Wait = Annotated[int, Field(ge=1, le=YEAR)]
"""Seconds that a person may take."""

BatchSize = Annotated[int, Field(ge=1, lt=2**31)]

Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
"""An argument of a command, such as a file's name."""


class Request(BaseModel):
    """One call of the training flow. A parameter that cannot be honoured is refused, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pipeline: Name
    isolated: bool = False
    ref: Ref = ""
    overrides: Overrides = {}
    push: bool = False
    registered: bool = False
    retries: Retries = 2
    timeouts: Timeouts = {}

    @classmethod
    def of(cls, **parameters: Any) -> "Request":
        """Return the request, or raise `InputError` that names the first wrong parameter, its value and the rule."""
        return checked(cls, parameters, where="parameters")

    def command(self) -> str:
        """Return the equivalent command line.

        >>> Request(pipeline="digits", isolated=True, ref="v1", overrides={"train.epochs": 3}).command()
        'tapeline run --pipeline digits --isolated --ref v1 --set train.epochs=3'
        """
        parts = ["tapeline", "run", "--pipeline", self.pipeline]
        parts += ["--isolated"] if self.isolated else []
        parts += ["--ref", self.ref] if self.ref else []
        parts += settings(self.overrides)
        parts += ["--push"] if self.push else []
        parts += ["--register"] if self.registered else []
        parts += ["--retries", str(self.retries)] if self.retries != Request(pipeline=self.pipeline).retries else []
        limits = {stage: str(limit).removesuffix(".0") for stage, limit in self.timeouts.items()}
        parts += [part for stage, limit in limits.items() for part in ("--timeout", f"{stage}={limit}")]
        return shlex.join(parts)

    @model_validator(mode="after")
    def _in_place_takes_the_checkout_as_it_is(self) -> "Request":
        given = [name for name in ("ref", "overrides", "push", "registered") if getattr(self, name)]
        if given and not self.isolated:
            raise ValueError(
                f"{', '.join(given)} would have no effect: a run in place uses the checkout as it is and commits "
                "nothing; leave it out, or set isolated"
            )
        return self


def settings(overrides: Mapping[str, Any]) -> list[str]:
    """Return overrides as options of the training flow.

    >>> settings({"train.epochs": 3, "dataset": "a"})
    ['--set', 'train.epochs=3', '--set', 'dataset=a']
    """
    return [part for key, value in overrides.items() for part in ("--set", f"{key}={yaml_flow(value)}")]
