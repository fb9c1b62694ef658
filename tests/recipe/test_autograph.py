"""Python's `if` over tensors works in all that is a user's, wherever a function of ours calls it; ours stay as written."""

import datasets
import numpy as np
import pytest
import recipes
import trainings

DECAYING = """
class Decaying(keras.optimizers.SGD):
    def apply(self, grads, trainable_variables=None):
        if tf.reduce_sum(grads[1]) > 1e9:
            grads = [tf.zeros_like(one) for one in grads]
        else:
            grads = [one * 0.5 for one in grads]
        return super().apply(grads, trainable_variables)

    def scale_loss(self, loss):
        if loss > 1e9:
            loss = loss * 0.0
        return super().scale_loss(loss)

class Line(Supervised):"""

BRANCHES = {
    "loss": (
        "        return tf.reduce_mean(",
        """        if tf.reduce_mean(batch["y"]) > 1e9:
            batch = {name: tf.zeros_like(one) for name, one in batch.items()}
        else:
            batch = {**batch, "y": batch["y"] * 2.0}
        return tf.reduce_mean(""",
    ),
    "gradients": (
        "    def predict",
        """    def gradients(self, batch):
        found, metrics = super().gradients(batch)
        found = list(found)
        if tf.reduce_sum(found[1]) < 1e9:
            found[1] = found[1] * 0.5
        return found, metrics

    def predict""",
    ),
    "regularization": (
        "    def predict",
        """    def regularization(self):
        total = super().regularization()
        share = 0.0
        if tf.reduce_sum(self.model.trainable_variables[1]) < 1e9:
            share = 1.0
        return total + share * tf.reduce_sum(tf.square(self.model.trainable_variables[0]))

    def predict""",
    ),
    "update": (
        "    def predict",
        """    def update(self, optimizer, variables, gradients):
        first = gradients[0]
        if tf.reduce_sum(first) < 1e9:
            first = first * 0.5
        super().update(optimizer, variables, [first, *gradients[1:]])

    def predict""",
    ),
    "optimizer": ("keras.optimizers.SGD(self.params.learning_rate)", "Decaying(0.1, loss_scale_factor=4.0)"),
}
MODES = {
    "graph": {},
    "xla": {"compile": "xla"},
    "fused": {"fused": True},
    "shards": {"shards": 2},
}


@pytest.fixture
def trained(tmp_path, tf):
    """Return a function: edits, settings → a line's weights after three steps."""
    data = datasets.points(tmp_path / "points").folder

    def call(*edits, **settings):
        recipe = recipes.write(tmp_path, recipes.LINE, ("\nclass Line(Supervised):", DECAYING), *edits)
        parts = trainings.steps(recipe, data, 3, batch_size=8, **settings)
        return [variable.numpy() for variable in parts.recipe.model.trainable_variables]

    return call


@pytest.mark.first(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", BRANCHES)
def test_a_branch_over_tensors_is_taken_as_in_python(trained, where, mode):
    if (where, mode) == ("optimizer", "fused"):
        pytest.skip("no optimizer of one's own has a fused kernel")
    without, expected = trained(), trained(BRANCHES[where], compile="eager")
    found = trained(BRANCHES[where], **MODES[mode])
    for name, one, other in zip(("kernel", "bias"), found, expected, strict=True):
        assert np.allclose(one, other, rtol=1e-5, atol=1e-6), name
    assert not all(np.allclose(one, other, rtol=1e-3) for one, other in zip(expected, without, strict=True))


def test_the_exported_function_takes_branches_too(tf, tmp_path):
    edit = (
        '        return {"y": self.model(inputs["x"], training=False)}',
        '        x = inputs["x"]\n        if tf.reduce_sum(x) > 0.0:\n            x = -x\n        return {"y": self.model(x)}',
    )
    data = datasets.points(tmp_path / "points").folder
    parts = trainings.steps(recipes.write(tmp_path, recipes.LINE, edit), data, 1, batch_size=8)
    serve = parts.recipe.signatures()["serving_default"]
    x = np.ones([2, 2], np.float32)
    assert np.array_equal(serve(x)["y"], serve(-x)["y"])


@pytest.mark.parametrize("settings", MODES.values(), ids=MODES)
def test_no_function_of_ours_is_converted(trained, monkeypatch, settings):
    from tensorflow.python.autograph.pyct.transpiler import PyToPy

    seen, convert = [], PyToPy.transform_function

    def spy(self, function, *rest):
        seen.append(function.__module__)
        return convert(self, function, *rest)

    monkeypatch.setattr(PyToPy, "transform_function", spy)
    trained(**settings)
    assert {name.partition(".")[0] for name in seen} == {"tapeline_recipe_recipe"}
