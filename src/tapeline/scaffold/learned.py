"""Which features of a dataset a new recipe learns from, and the text of a recipe that learns from several."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tapeline.config.ingest import ImageFolderSource, IngestSettings, TableSource
from tapeline.config.project import Project
from tapeline.dataset.columns import Dataset
from tapeline.runtime.errors import InputError

MOST_ON_A_LINE = 60
SEVERAL = (
    ("import keras\nimport tensorflow", "import keras\nimport numpy as np\nimport tensorflow"),
    ('("INPUT_",)', "INPUTS_"),
    ('self.statistics["INPUT_"]', "[self.statistics[name] for name in self.inputs]"),
    (
        "        layers = [\n",
        "        mean, std = np.hstack([one.mean for one in x]), np.hstack([one.std for one in x])\n"
        "        layers = [\n",
    ),
    ('self.features["INPUT_"].shape', "mean.shape"),
    ("mean=x.mean, variance=x.std**2", "mean=mean, variance=std**2"),
    ('batch["INPUT_"]', "self.columns(batch)"),
    ('inputs["INPUT_"]', "self.columns(inputs)"),
    (
        "    def predict(self, inputs):\n",
        "    def columns(self, batch):\n"
        '        """Return the columns of all inputs side by side, shape (batch, columns)."""\n'
        "        widths = {name: np.size(self.statistics[name].mean) for name in self.inputs}\n"
        "        columns = [tf.reshape(batch[name], [-1, width]) for name, width in widths.items()]\n"
        "        return tf.concat([tf.cast(column, tf.float32) for column in columns], -1)\n"
        "\n"
        "    def predict(self, inputs):\n",
    ),
)
"""What is otherwise in a recipe of columns that learns from several features, or from a single column."""
SCALAR = (
    ("y.std[0]", "y.std"),
    ("y.mean[0]", "y.mean"),
    ("training=training) - batch", "training=training)[:, 0] - batch"),
    ("tf.reduce_mean(tf.square(errors), -1)", "tf.square(errors)"),
    ("training=False)}", "training=False)[:, 0]}"),
)
"""What is otherwise in a recipe that predicts a number, not a vector of one."""


@dataclass(frozen=True)
class Known:
    """What is known of a dataset without ingesting it; nothing if it has no shapes."""

    shapes: Mapping[str, tuple[int, ...]]
    """The shape of each feature."""
    classes: Sequence[str] = ()
    """The features that hold class ids; the first is the label."""

    @property
    def label(self) -> str | None:
        """The label, if there is one."""
        return self.classes[0] if self.classes else None

    @property
    def numbers(self) -> list[str]:
        """The features that are a number or a vector of numbers."""
        return [name for name, shape in self.shapes.items() if len(shape) < 2 and name not in self.classes]

    @property
    def targets(self) -> list[str]:
        """The features that are one number."""
        return [name for name in self.numbers if math.prod(self.shapes[name]) == 1]

    def is_scalar(self, name: str | None) -> bool:
        """Return whether a feature is a number, and no vector."""
        return name is not None and self.shapes.get(name) == ()


def known(project: Project, dataset: str | None, source: IngestSettings | None) -> Known:
    """Return what is known of a dataset: by its settings, else by what ingest has written."""
    if isinstance(source, ImageFolderSource):
        return Known({"image": (*source.size, 3), "label": ()}, ["label"])
    if isinstance(source, TableSource):
        columns = {name: () if isinstance(of, str) else (len(of),) for name, of in source.features.items()}
        return Known(columns, [source.label] if source.label else [])
    if dataset is None:
        return Known({})
    try:
        features = Dataset.open(project.data(dataset)).features
    except InputError:  # not ingested yet
        return Known({})
    shapes = {name: feature.shape for name, feature in features.items()}
    return Known(shapes, [name for name, feature in features.items() if feature.classes])


def of_several(text: str) -> str:
    """Return a template of a recipe of columns for `INPUTS_`, side by side, instead of `INPUT_`."""
    return _replaced(text, SEVERAL)


def of_scalar(text: str) -> str:
    """Return a template of a recipe that predicts a number, for a target of shape () instead of (1,)."""
    return _replaced(text, SCALAR)


def names_of(inputs: Sequence[str]) -> str:
    """Return the names of several inputs as a tuple of a recipe's text, on one line if they are few."""
    if sum(map(len, inputs)) + 4 * len(inputs) <= MOST_ON_A_LINE:
        return f"({', '.join(map(_quoted, inputs))}{',' * (len(inputs) == 1)})"
    return "(\n" + "".join(f"        {_quoted(name)},\n" for name in inputs) + "    )"


def _replaced(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def _quoted(name: str) -> str:
    return f'"{name}"'
