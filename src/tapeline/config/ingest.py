"""The entries of `datasets:` in `params.yaml`, one model per kind of source. No TensorFlow here."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Side = Annotated[int, Field(gt=0, le=2**14)]
"""Height or width of an image, in pixels. Larger images fill the memory: one of 2**14 by 2**14 has 805 MB in RGB."""
Names = Annotated[tuple[str, ...], Field(min_length=1)]


def _one_path(value: Any) -> Any:
    """Refuse a list: DVC's templates take one path for a dependency; of a folder, DVC hashes every file."""
    if isinstance(value, list):
        raise ValueError(
            f"needs is a list, but `dvc.yaml` takes one path: put {' and '.join(map(str, value[:2])) or 'the files'}"
            f"{' and the others' if len(value) > 2 else ''}, or links to them, into one folder, and give that"
        )
    return value


def _possible_path(value: str) -> str:
    """Refuse what no path can hold: `Path.exists` and others raise `ValueError` for it."""
    if "\0" in value:
        raise ValueError(f"needs is {value!r}, which has a null byte, as no path may: remove it")
    return value


Needs = Annotated[str, BeforeValidator(_one_path), AfterValidator(_possible_path)]


class DatasetSettings(BaseModel):
    """Settings that all datasets have."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    needs: Needs
    """The stage's DVC dependency: the user's raw file or folder, a builder's file, or the folder with it and its data;
    for a dataset of the TFDS catalogue a file `.tfds` with its name, which `tapeline lock` writes."""
    validation: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Fraction of `train` moved to `val`, chosen by a hash of each example's key, or of its content without one."""
    columns: Names | None = None
    """The features to keep; default: all."""


class TfdsSource(DatasetSettings):
    """A dataset of the TFDS catalogue, by name: `mnist`, `imagenette/320px`, `cifar10:3.0.2`."""

    source: Literal["tfds"]
    name: str
    splits: dict[Literal["train", "val", "test"], str] = {"train": "train", "test": "test"}
    """Split name → TFDS split expression."""

    @model_validator(mode="after")
    def _splits_fit(self) -> "TfdsSource":
        if "train" not in self.splits:
            raise ValueError("splits has no train, on which a model is trained: add it")
        if self.validation and "val" in self.splits:
            raise ValueError("splits has val, and validation would cut another one: give only one of the two")
        return self


class BuilderSource(DatasetSettings):
    """A user-defined TFDS `GeneratorBasedBuilder`, the only one in the file that `needs` names.

    Alternatively, `needs` is a folder with that file and its data: the only Python file there, or one named like the
    folder, with or without the suffix `_dataset_builder`.

    The validation split is chosen by an example's content: adding examples moves no others, and copies stay together.
    """

    source: Literal["builder"]


class ImageFolderSource(DatasetSettings):
    """A folder `needs/<split>/<class>/<image>`, as TFDS's `ImageFolder` reads it; every image is resized to `size`."""

    source: Literal["images"]
    size: tuple[Side, Side]
    """Height and width in pixels."""


class TableSource(DatasetSettings):
    """A CSV or Parquet file `needs`. Several table columns can form one feature."""

    source: Literal["table"]
    features: dict[str, str | Names] = Field(min_length=1)
    """Feature name → table column (a scalar feature) or columns (a vector)."""
    label: str | None = None
    """The feature that holds class names or integer class ids; stored as int64."""
    integers: tuple[str, ...] = ()
    """Features stored as int64; the others are float32, which is exact for integers up to 2**24."""
    split: str | None = None
    """The table column that holds train, val or test; default: all rows are `train`."""
    key: str | None = None
    """The table column (names or integers) that groups rows: rows with the same key move to another split together.
    Default: the row's content."""
    test: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Fraction of the rows that become `test`, chosen like `validation`, which then applies to the rest."""
    stratify: str | None = None
    """The table column to stratify by: `test` and `validation` take their fraction of each value, to the nearest row.
    The row's content decides which rows, so copies of a row stay together."""

    @model_validator(mode="after")
    def _label_fits(self) -> "TableSource":
        if self.label is not None and not isinstance(self.features.get(self.label), str):
            raise ValueError(f"label is {self.label!r}: it must be a feature with a single table column")
        if self.test and self.split is not None:
            raise ValueError("split says which rows are test, and test would cut others: give only one of the two")
        if self.stratify is not None and (self.split is not None or not (self.test or self.validation)):
            raise ValueError("stratify needs a fraction to cut (`test` or `validation`) and no split column")
        if self.stratify is not None and self.key is not None:
            raise ValueError("key keeps rows together, but stratify separates them: give only one of the two")
        for name in self.integers:
            if name not in self.features or name == self.label:
                raise ValueError(f"integers has {name!r}: it must be a feature other than the label")
        return self


class IngestedSource(DatasetSettings):
    """A folder `needs` that ingest wrote for another project, such as `../data/digits`."""

    source: Literal["dataset"]


IngestSettings = Annotated[
    TfdsSource | BuilderSource | ImageFolderSource | TableSource | IngestedSource, Field(discriminator="source")
]
