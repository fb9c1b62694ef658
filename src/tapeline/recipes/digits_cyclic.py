"""A learning rate that goes up and down, so that nobody has to find the one that is right (Smith 2017).

The digits' network with momentum; the rate climbs from `low` to `high` and falls back every `half_cycle` steps. Two
equal rates are a constant one: what the cyclic rate is measured against. https://arxiv.org/abs/1506.01186
"""

import keras

from tapeline.recipe import field, schedules
from tapeline.recipes import digits_cnn


class DigitsCyclic(digits_cnn.DigitsCnn):
    class Params(digits_cnn.DigitsCnn.Params):
        low: float = field(0.01, gt=0)
        high: float = field(0.3, gt=0)
        half_cycle: int = field(60, gt=0)  # steps
        momentum: float = field(0.9, ge=0, lt=1)

    def build(self):
        super().build()
        rate = schedules.Cyclic(self.params.low, self.params.high, step_size=self.params.half_cycle)
        self.optimizer = keras.optimizers.SGD(rate, momentum=self.params.momentum)
