"""The entries of `datasets:` in `params.yaml`, one model per kind of source. No TensorFlow here."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Positive = Annotated[int, Field(gt=0)]
Names = Annotated[tuple[str, ...], Field(min_length=1)]


class DatasetSettings(BaseModel):
    """What every dataset entry has."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    needs: str
    """The input that DVC watches: the user's raw file or folder, a builder's file, else `src/tapeline/ingest`."""
    validation: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Fraction of `train` moved to `val`, chosen by a hash of each example's key."""
    columns: Names | None = None
    """Features to keep; all when absent."""


class TfdsSource(DatasetSettings):
    """A dataset of the TFDS catalogue, by name: `mnist`, `imagenette/320px`, `cifar10:3.0.2`."""

    source: Literal["tfds"]
    name: str
    splits: dict[Literal["train", "val", "test"], str] = {"train": "train", "test": "test"}
    """Our splits as TFDS split expressions."""

    @model_validator(mode="after")
    def _splits_fit(self) -> "TfdsSource":
        if "train" not in self.splits:
            raise ValueError("splits has no train: it is the one that is trained on")
        if self.validation and "val" in self.splits:
            raise ValueError("splits has val, and validation would cut another: give one of the two")
        return self


class BuilderSource(DatasetSettings):
    """A TFDS `GeneratorBasedBuilder` of one's own, the only one in the file `needs`.

    An example's key is its place in its split: the order of generation with `disable_shuffling`, else TFDS's own.
    """

    source: Literal["builder"]


class ImageFolderSource(DatasetSettings):
    """A folder `needs/<split>/<class>/<image>`, as TFDS's `ImageFolder` reads it; every image becomes `size`."""

    source: Literal["images"]
    size: tuple[Positive, Positive]
    """Height and width in pixels."""


class TableSource(DatasetSettings):
    """A CSV or Parquet file `needs`. Several table columns can make one feature."""

    source: Literal["table"]
    features: dict[str, str | Names] = Field(min_length=1)
    """Feature name → table column (a scalar feature) or columns (a vector)."""
    label: str | None = None
    """The feature that holds class names or integer class ids; stored as int64."""
    split: str | None = None
    """The table column that says train, val or test; all rows are `train` when absent."""

    @model_validator(mode="after")
    def _label_fits(self) -> "TableSource":
        if self.label is not None and not isinstance(self.features.get(self.label), str):
            raise ValueError(f"label is {self.label!r}: it must be a feature that is made of one table column")
        return self


class IngestedSource(DatasetSettings):
    """A folder `needs` that ingest has written for another project, such as `../data/digits`."""

    source: Literal["dataset"]


IngestSettings = Annotated[
    TfdsSource | BuilderSource | ImageFolderSource | TableSource | IngestedSource, Field(discriminator="source")
]
