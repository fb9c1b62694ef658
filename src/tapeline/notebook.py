"""A trained pipeline in a notebook, or in a script of one's own: its recipe and its dataset.

from tapeline.notebook import open_pipeline

recipe, dataset = open_pipeline("digits")
columns = dataset.columns("test")
answers = recipe.predict({"image": tf.constant(columns["image"][:8])})
"""

from pathlib import Path
from typing import TYPE_CHECKING

from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.dataset.columns import Dataset
from tapeline.runtime import startup
from tapeline.runtime.errors import InputError

if TYPE_CHECKING:
    from tapeline.recipe import Recipe


def open_pipeline(name: str, *, folder: Path | None = None) -> tuple["Recipe", Dataset]:
    """Return a pipeline's recipe, built, with the weights that training kept, and its dataset.

    folder: of the project, or one inside it; the working directory by default. Nothing that is done with them changes a
    result of the pipeline, and what they compute need not have a stage's last bits. Raises `InputError` for an unknown
    pipeline, if it was not trained, if its data or weights are not those of its recipe, and if Keras was imported with
    another backend than TensorFlow.
    """
    project = Project.find(folder)
    pipeline = Params.load_for(project.folder, pipeline=name).pipeline(name)
    dataset, out = Dataset.open(project.data(pipeline.dataset)), project.run(name, "train")
    if not (out / "weights").is_dir():
        raise InputError(f"{out} has no weights: run `tapeline train {name}`")
    with startup.keras_as_it_comes():
        from tapeline.recipe import trained

    recipe = trained.load(project.folder / pipeline.recipe, pipeline.params, dataset, out)
    recipe.configure(batch_size=pipeline.train.batch_size, transforms=pipeline.train.gradients)
    return recipe, dataset
