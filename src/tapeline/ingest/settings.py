"""The entries of `datasets:` in `params.yaml`, one model per kind of source. No TensorFlow here."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Source(BaseModel):
    """What every dataset entry has."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    needs: str
    """The input that DVC watches: the user's raw file or folder, a builder's file, else `src/tapeline/ingest`."""
    validation: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Fraction of `train` moved to `val`, chosen by a hash of each example's key."""
    columns: tuple[str, ...] | None = None
    """Features to keep; all when absent."""


class TfdsSource(Source):
    """A dataset of the TFDS catalogue, by name: `mnist`, `cifar10`, `imagenette/320px`."""

    source: Literal["tfds"]
    name: str
    splits: dict[Literal["train", "val", "test"], str] = {"train": "train", "test": "test"}
    """Our splits as TFDS split expressions."""


class BuilderSource(Source):
    """A TFDS `GeneratorBasedBuilder` of one's own, the only one in the file `needs`."""

    source: Literal["builder"]


class ImageFolderSource(Source):
    """A folder `needs/<split>/<class>/<image>`, as TFDS's `ImageFolder` reads it; every image becomes `size`."""

    source: Literal["images"]
    size: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]]
    """Height and width in pixels."""


class TableSource(Source):
    """A CSV or Parquet file `needs`. Several table columns can make one feature."""

    source: Literal["table"]
    features: dict[str, str | tuple[str, ...]]
    """Feature name → table column (a scalar feature) or columns (a vector)."""
    label: str | None = None
    """The feature that holds class names or integer class ids; stored as int64."""
    split: str | None = None
    """The table column that says train, val or test; all rows are `train` when absent."""


IngestSettings = Annotated[
    TfdsSource | BuilderSource | ImageFolderSource | TableSource, Field(discriminator="source")
]
