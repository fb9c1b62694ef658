"""The mean loss and what is added to it, whatever their types."""

import datasets
import numpy as np
import pytest
import recipes
import trainings


@pytest.mark.parametrize(
    ("regularizers", "loss"),
    [
        ("kernel_regularizer='l2'", "tf.bfloat16"),
        ("activity_regularizer='l2'", "tf.float32"),
        ("activity_regularizer='l2', kernel_regularizer='l2'", "tf.bfloat16"),
        ("", "tf.float64"),
        ("kernel_regularizer='l2'", "tf.float64"),
    ],
)
def test_losses_of_any_type_are_added(tmp_path, tf, regularizers, loss):
    """To nearly the weights that float32 alone gives."""
    data = datasets.points(tmp_path / "points").folder
    found = []
    for dtype, policy in ((loss, "mixed_bfloat16"), ("tf.float32", "float32")):
        edits = (
            ("Dense(1)", f"Dense(1, {regularizers})"),
            ('tf.reduce_mean(tf.square(batch["y"] - ', 'tf.reduce_mean(tf.square(batch["y"] - tf.cast('),
            ("training=training)), -1)", "training=training), tf.float32)), -1)"),
            ("return tf.reduce_mean(", "return tf.cast(tf.reduce_mean("),
            ("-1), {}", f"-1), {dtype}), {{}}"),
        )
        parts = trainings.steps(recipes.write(tmp_path, recipes.LINE, *edits), data, 2, batch_size=8, precision=policy)
        found.append(np.concatenate([value.numpy().ravel() for value in parts.recipe.model.trainable_variables]))
    assert np.allclose(*found, rtol=0.02, atol=0.02)
