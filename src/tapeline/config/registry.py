"""`registry` in `params.yaml`: the stages that a version goes through, and the requirements of each."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

from tapeline.config.validate import Bound

STAGE = re.compile(r"[a-z][a-z0-9-]*[a-z0-9]")


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class SliceSettings(_Settings):
    """Bounds on a metric for each value of a feature (for the label: for each class)."""

    feature: str
    metric: str
    bound: Bound | None = None
    change: Bound | None = None
    """Bounds on challenger minus champion."""
    at_least: PositiveInt = 20
    """A value with fewer examples is shown but not judged."""

    @model_validator(mode="after")
    def _asks_something(self) -> "SliceSettings":
        if self.bound is None and self.change is None:
            raise ValueError("a slice needs `bound`, `change` or both")
        return self


class PairedSettings(_Settings):
    """The paired test of challenger and champion on the same examples."""

    asks: Literal["not-worse", "better"] = "not-worse"
    margin: Annotated[float, Field(ge=0, lt=1)] = 0.02
    """What "not worse" allows: accuracy for a classifier, else a fraction of the champion's mean absolute error."""
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    resamples: PositiveInt = 10_000
    """Bootstrap resamples, for models that are not classifiers."""


class GateSettings(_Settings):
    """Requirements on metrics of the test data. The exported model is measured; any other metrics are `validate`'s."""

    target: str | None = None
    """The predicted feature; inferred if one feature is a class, or if an output has its name."""
    bounds: dict[str, Bound] = Field(default={})
    change: dict[str, Bound] = Field(default={})
    """Metric → bounds on challenger minus champion."""
    slices: tuple[SliceSettings, ...] = ()
    paired: PairedSettings | None = PairedSettings()
    """`null` for no paired test, as for a model that predicts no feature."""


class CheckSettings(_Settings):
    """Requirements on the model in a fresh process that has only TensorFlow."""

    memory_mb: PositiveInt = 4096
    """Peak resident memory of that process, TensorFlow included."""
    seconds: PositiveFloat = 300.0
    latency_p50_ms: PositiveFloat | None = None
    """Bounds on the time of one call with one example."""
    latency_p99_ms: PositiveFloat | None = None
    size_mb: PositiveFloat | None = None
    """Bound on the total size of the model's files."""


class StageSettings(_Settings):
    """What a version needs in order to enter a stage."""

    gate: bool = True
    check: bool = True
    approval: bool = False
    """Whether a person must approve."""
    previous: bool = False
    """Whether the version must have been in the stage before this one."""


class ModelSettings(_Settings):
    """One pipeline's bounds."""

    gate: GateSettings = GateSettings()
    check: CheckSettings = CheckSettings()


Person = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\s,\"*?!]+$")]
"""A name as in the signers file, such as an address; no pattern."""
People = Annotated[tuple[Person, ...], Field(min_length=1)]


class TrustSettings(_Settings):
    """Who may do what, identified by their keys. Read at the policy's ref, never from the working tree."""

    signers: str
    """The file with each person's keys, in the format of `ssh-keygen`'s allowed signers; committed."""
    gpg_keys: str | None = None
    """A file with the public GPG keys, armored; committed."""
    register_: People = Field(alias="register")
    """Who may register versions; a run's commit that one of them signed counts as built here."""
    promote: dict[str, People] = Field(min_length=1)
    """Stage → who may put versions into it and take them back out. Nobody may for a stage that is not listed."""
    approve: dict[str, People] = Field(default={})
    """Stage → the people one of whom must have approved a version; the promoter's own approval does not count."""
    revoke: People

    @property
    def people(self) -> tuple[str, ...]:
        """All people who are named."""
        rules = (self.register_, *self.promote.values(), *self.approve.values(), self.revoke)
        return tuple(dict.fromkeys(person for people in rules for person in people))

    @model_validator(mode="after")
    def _can_be_kept(self) -> "TrustSettings":
        for stage, people in self.approve.items():
            if len({*people, *self.promote.get(stage, ())}) < 2:
                raise ValueError(
                    f"nobody could approve for {stage}: the only person who may is also the only one who may promote"
                )
        return self


def _stages(stages: dict[str, StageSettings]) -> dict[str, StageSettings]:
    if not stages:
        raise ValueError("there must be at least one stage, such as prod")
    for name in stages:
        if not STAGE.fullmatch(name):
            raise ValueError(
                f"{name!r} is not a stage name: use at least two lower-case letters, digits and inner hyphens"
            )
    return stages


def _default_stages() -> dict[str, StageSettings]:
    return {"dev": StageSettings(gate=False), "staging": StageSettings(), "prod": StageSettings()}


class RegistrySettings(_Settings):
    """The stages in order, of which the last is served, and each model's bounds."""

    stages: Annotated[dict[str, StageSettings], AfterValidator(_stages)] = Field(default_factory=_default_stages)
    models: dict[str, ModelSettings] = Field(default={})
    """Pipeline → its bounds; pipelines that are not listed have the defaults."""
    trust: TrustSettings | None = None
    """Who may do what; `null` for a registry whose tags are not verified."""

    @model_validator(mode="after")
    def _trusts_stages(self) -> "RegistrySettings":
        for stage in (*self.trust.promote, *self.trust.approve) if self.trust else ():
            if stage not in self.stages:
                raise ValueError(f"trust names the stage {stage!r}, but the stages are {', '.join(self.stages)}")
        return self

    @property
    def served(self) -> str:
        """The stage whose live version is in the serving folder: the last one."""
        return list(self.stages)[-1]

    def model(self, name: str) -> ModelSettings:
        """Return one pipeline's bounds."""
        return self.models.get(name, ModelSettings())
