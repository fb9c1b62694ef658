"""`tapeline metric-names`: a validation's metrics before any training, and what of a recipe is refused then."""

import datasets
import numpy as np
import recipes

EVALUATE = "    def evaluate(self, data):\n        return {'worst': float(len(data['x']))}\n\n    def predict("


def test_the_names_are_those_of_a_validation_and_nothing_is_left(project):
    project.save()
    before = project.files()
    assert project.call("metric-names", "fit") == (0, ["loss"], "")
    assert project.files() == before
    project.save(recipes.LINE, ("    def predict(", EVALUATE))
    assert project.call("metric-names", "fit") == (0, ["loss", "worst"], "")


def test_what_training_would_refuse_is_refused(project):
    project.save(recipes.LINE, ('"y"\n', '"z"\n'))
    said = "tapeline: Line.target is 'z': the features of points are x, y\n"
    assert project.call("metric-names", "fit") == (2, [], said)


def test_a_failing_evaluate_is_told_with_its_line(project):
    project.save(recipes.LINE, ("    def predict(", EVALUATE.replace("data['x']", "data['z']")))
    status, lines, err = project.call("metric-names", "fit")
    assert (status, lines) == (2, [])
    assert "recipe.py, line " in err and "fails in evaluate: KeyError: 'z'" in err and err.count("\n") == 1


def test_without_a_validation_split_there_is_none(project):
    values = {"x": np.zeros((64, 2), np.float32), "y": np.zeros((64, 1), np.float32)}
    datasets.write(project.folder / "data" / "points", {"train": values, "test": values}, {})
    said = "tapeline: fit has no metrics of a validation split: set datasets.….validation\n"
    assert project.save().call("metric-names", "fit") == (2, [], said)
