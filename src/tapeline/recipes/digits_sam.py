"""Sharpness-aware minimisation: step with the gradient at the worst point nearby (Foret et al. 2021).

Two tapes a step. The first finds the direction e = rho g / |g| in which the loss grows fastest; the weights move
there, the second takes the gradient, and the optimizer applies it to the weights as they were.
https://arxiv.org/abs/2010.01412, equation 3. Images of shape (batch, 8, 8, 1); two gradient evaluations a step.
"""

import tensorflow as tf

from tapeline.recipe import field
from tapeline.recipes import digits_cnn


class DigitsSam(digits_cnn.DigitsCnn):
    class Params(digits_cnn.DigitsCnn.Params):
        rho: float = field(0.05, gt=0)  # radius of the neighbourhood

    def train_step(self, batch, context):
        gradients, metrics = self.gradients(batch)
        weights = [tf.identity(variable) for variable in self.variables]
        scale = self.params.rho / (tf.linalg.global_norm(gradients) + 1e-12)
        for variable, gradient in zip(self.variables, gradients, strict=True):
            variable.assign_add(scale * gradient)
        worst, _ = self.gradients(batch)
        for variable, weight in zip(self.variables, weights, strict=True):
            variable.assign(weight)
        self.update(self.optimizer, self.variables, worst)
        return metrics
