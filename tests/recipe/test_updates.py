"""What `update` makes of gradients, against the formulas: tables, loss scales, constraints, noise."""

import datasets
import numpy as np
import pytest
import recipes
import trainings

from tapeline.runtime.errors import InputError

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


@pytest.mark.parametrize(
    "scaled", ["SGD(0.1, loss_scale_factor=128.0)", "LossScaleOptimizer(keras.optimizers.SGD(0.1))"]
)
def test_a_loss_scale_changes_no_update(line, scaled):
    for kernel, expected in zip(line((OPTIMIZER, f"keras.optimizers.{scaled}")), line(), strict=True):
        assert np.allclose(kernel, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("optimizer", "settings", "said"),
    [
        (
            "SGD(0.1, loss_scale_factor=8.0)",
            {"gradients": {"optimizer": {"clip_norm": 1.0}}},
            "^train.gradients names optimizer, which scales the loss",
        ),
        (
            "LossScaleOptimizer(keras.optimizers.SGD(0.1))",
            {"gradients": {"optimizer": {"clip_norm": 1.0}}},
            "^train.gradients names optimizer, which scales the loss",
        ),
        ("SGD(0.1, use_ema=True)", {}, "^self.optimizer has use_ema, .*: set train.ema, or ema_overwrite_frequency$"),
    ],
)
def test_what_an_optimizer_would_not_do_as_asked_is_refused(line, optimizer, settings, said):
    with pytest.raises(InputError, match=said):
        line((OPTIMIZER, f"keras.optimizers.{optimizer}"), **settings)
