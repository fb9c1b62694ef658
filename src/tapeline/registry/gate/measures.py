"""Measure an exported model's answers against the target: the metrics of `validate`, and a score for each example."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.config.validate import ValidateSettings
from tapeline.runtime.errors import InputError


@dataclass(frozen=True)
class Target:
    """What is to be predicted: values of shape (examples, ...), with class names if they are class indices."""

    name: str
    actual: NDArray[Any]
    classes: tuple[str, ...] = ()
    bins: int = ValidateSettings.model_fields["calibration_bins"].default
    """The number of bins of the expected calibration error."""

    @property
    def classifier(self) -> bool:
        """Whether an example is right or wrong, rather than near or far."""
        return bool(self.classes)

    def of_target(self, answers: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
        """Return the output that predicts the target, in the target's shape; None if the model has none.

        A column of one number is that number, as `validate` takes it. Raises `InputError` for other shapes: NumPy would
        compare each answer with every example.
        """
        name = "class" if self.classifier else self.name
        found = answers.get(name)
        if found is None or found.shape == self.actual.shape:
            return found
        if found.shape[:1] == self.actual.shape[:1] and found.size == self.actual.size:
            return found.reshape(self.actual.shape)
        raise InputError(f"its {name} has the shape {found.shape[1:]}, the target {self.actual.shape[1:]}")

    def part(self, chosen: NDArray[np.bool_]) -> "Target":
        """Return the target of the chosen examples."""
        return replace(self, actual=self.actual[chosen])

    def metrics(self, answers: Mapping[str, NDArray[Any]]) -> dict[str, float]:
        """Return the metrics over all examples, under the names that `validate` uses."""
        from tapeline.validate import classification, regression  # imports scikit-learn, which takes seconds

        found = self.of_target(answers)
        assert found is not None, "asked for a model that predicts the target"
        if not self.classifier:
            return regression.figures(self.actual, found)
        figures = classification.per_class(self.actual, found, self.classes)
        metrics = {"accuracy": float(np.mean(found == self.actual)), **classification.macro(figures)}
        if "probabilities" in answers:
            error, _ = classification.calibration(self.actual, answers["probabilities"], self.bins)
            metrics["calibration_error"] = error
        return metrics

    def scores(self, answers: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return one value per example: whether it is right (bool), else its mean absolute error (float64)."""
        found = self.of_target(answers)
        assert found is not None, "asked for a model that predicts the target"
        if self.classifier:
            right: NDArray[Any] = found == self.actual
            return right
        errors = np.abs(found.astype(np.float64) - self.actual.astype(np.float64))
        means: NDArray[Any] = errors.reshape(len(errors), -1).mean(axis=1)
        return means
