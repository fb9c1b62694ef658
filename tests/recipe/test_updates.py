"""What `update` makes of gradients, against the formulas: tables, loss scales, constraints, noise."""

import datasets
import numpy as np
import pytest
import recipes
import trainings

OPTIMIZER = "keras.optimizers.SGD(self.params.learning_rate)"


@pytest.fixture
def line(tmp_path, tf):
    """Return a function: edits, settings → the weights of a line before and after its first steps."""
    data = datasets.points(tmp_path / "points").folder

    def call(*edits, count=2, **settings):
        parts = trainings.steps(recipes.write(tmp_path, recipes.LINE, *edits), data, count, batch_size=8, **settings)
        return [variable.numpy() for variable in parts.recipe.model.trainable_variables]

    return call


@pytest.mark.parametrize("optimizer", ["Adam(0.1)", "SGD(0.1)"])
@pytest.mark.parametrize("settings", [{}, {"shards": 2}], ids=["whole", "shards"])
def test_fused_updates_obey_constraints(line, optimizer, settings):
    limits = "Dense(1, kernel_constraint=keras.constraints.MaxNorm(0.05), bias_constraint=keras.constraints.NonNeg())"
    edits = ((OPTIMIZER, f"keras.optimizers.{optimizer}"), ("Dense(1)", limits))
    kernel, bias = line(*edits, fused=True, **settings)
    assert np.linalg.norm(kernel) < 0.051 and bias.min() >= 0
    assert np.allclose(kernel, line(*edits, **settings)[0], atol=1e-5)
