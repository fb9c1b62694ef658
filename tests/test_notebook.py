"""A trained pipeline by hand: what a notebook opens is what training left."""

import csv

import datasets
import numpy as np
import pytest
import recipes
from trainings import Run

from tapeline.runtime.errors import InputError

PARAMS = """
datasets: {points: {source: table, needs: points.csv, features: {x: [a, b], y: [c]}}}
pipelines:
  fit:
    dataset: points
    recipe: recipe.py
    needs: data/points
    params: {learning_rate: 0.01}
    train: {epochs: 2, batch_size: 8, gradients: {optimizer: {clip_global_norm: 1.0}}}
    validate: {thresholds: {loss: {max: 1.0}}}
    export: {}
"""


@pytest.fixture
def project(tmp_path, tf):
    """A folder with a dataset and a recipe."""
    (tmp_path / "params.yaml").write_text(PARAMS)
    datasets.points(tmp_path / "data" / "points")
    recipes.write(tmp_path)
    return tmp_path


def test_the_recipe_has_the_trained_weights_and_can_go_on(project, tf):
    from tapeline.notebook import open_pipeline
    from tapeline.recipe import Context

    run = Run(
        project / "fit",
        project / "recipe.py",
        project / "data" / "points",
        {"learning_rate": 0.01},
        epochs=2,
        batch_size=8,
    )
    run.out = project / "runs" / "fit" / "train"
    run()
    before = run.outs()
    recipe, dataset = open_pipeline("fit", folder=project / "data")
    columns = dataset.columns("val")
    error = np.square(recipe.predict({"x": tf.constant(columns["x"])})["y"] - columns["y"]).mean()
    last = list(csv.DictReader(before["history.csv"].decode().splitlines()))[-1]
    assert error == pytest.approx(float(last["val_loss"]), rel=1e-5)
    batch = {name: tf.constant(values[: recipe.batch_size]) for name, values in dataset.columns("train").items()}
    weights = recipe.model.get_weights()
    losses = recipe.train_step(batch, Context(tf.constant(0, tf.int64), tf.constant([0, 0])))["loss"]
    assert losses.shape == [8] and (recipe.model.get_weights()[0] != weights[0]).any()
    assert run.outs() == before


def test_what_was_not_trained_is_said(project):
    from tapeline.notebook import open_pipeline

    with pytest.raises(InputError, match=r"runs/fit/train has no weights: run `tapeline train fit`"):
        open_pipeline("fit", folder=project)
    with pytest.raises(InputError, match="no pipeline 'fitt'"):
        open_pipeline("fitt", folder=project)
