"""Learning rates as pure functions of the step, for any optimizer or for your own arithmetic.

    from tapeline.recipe import schedules
    keras.optimizers.SGD(schedules.Cyclic(1e-4, 1e-2, step_size=500))
    rate = schedules.OneCycle(0.1, total_steps=2_000)(context.step)

Each is a `keras.optimizers.schedules.LearningRateSchedule`: it maps an integer scalar step, starting at 0, to a float32
scalar, in eager, graph and XLA mode alike. Step arithmetic is int64, so that periods stay exact at step 10⁹, where
float32 can no longer distinguish consecutive steps.

| rate | class |
|---|---|
| constant | `Constant` |
| step (piecewise constant) | `PiecewiseConstantDecay` (Keras) |
| polynomial | `PolynomialDecay` (Keras) |
| cosine, with a linear warm-up | `CosineDecay` (Keras) |
| cosine with restarts | `CosineDecayRestarts` (Keras); `WarmupCosineRestarts` with a warm-up |
| triangular, triangular2, exp_range | `Cyclic` |
| one cycle | `OneCycle` |

Only a recipe that imports this module depends on it; the stages do not.
"""

import itertools
import math
from typing import Any

import keras
import tensorflow as tf
from keras.optimizers.schedules import (
    CosineDecay,
    CosineDecayRestarts,
    LearningRateSchedule,
    PiecewiseConstantDecay,
    PolynomialDecay,
)

__all__ = [
    "Constant",
    "CosineDecay",
    "CosineDecayRestarts",
    "Cyclic",
    "LearningRateSchedule",
    "OneCycle",
    "PiecewiseConstantDecay",
    "PolynomialDecay",
    "WarmupCosineRestarts",
]


@keras.saving.register_keras_serializable(package="tapeline")
class Constant(LearningRateSchedule):
    """The same rate at every step, for code that needs a schedule rather than a number."""

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = _positive("learning_rate", learning_rate)

    def __call__(self, step: Any) -> tf.Tensor:
        """Return the rate, whatever the step."""
        return tf.constant(self.learning_rate, tf.float32)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        return {"learning_rate": self.learning_rate}


@keras.saving.register_keras_serializable(package="tapeline")
class WarmupCosineRestarts(LearningRateSchedule):
    """A linear warm-up, then cosine cycles with warm restarts.

        step < warmup_steps:   warmup_start + (learning_rate - warmup_start) * step / warmup_steps
        else, in cycle i:      learning_rate * (alpha + (1 - alpha) * m_mul^i * (1 + cos(pi * t / T_i)) / 2)

    where T_i = first_decay_steps * t_mul^i, and t is the number of steps since the cycle began. Without a warm-up it
    matches Keras' `CosineDecayRestarts`, which finds the cycle with a float32 logarithm and so may restart a step late.

    learning_rate: the peak of the first cycle. first_decay_steps: its length in steps, without the warm-up.
    warmup_steps: 0 for none. warmup_start: the rate at step 0, at most `learning_rate`.
    t_mul: ratio of a cycle's length to the previous one's, an integer of at least 1.
    m_mul: ratio of a cycle's peak to the previous one's. alpha: the lowest rate / `learning_rate`.

    Raises `ValueError` for an argument outside its range.
    Loshchilov & Hutter 2017, https://arxiv.org/abs/1608.03983; warm-up: Goyal et al. 2017,
    https://arxiv.org/abs/1706.02677.
    """

    def __init__(
        self,
        learning_rate: float,
        first_decay_steps: int,
        *,
        warmup_steps: int = 0,
        warmup_start: float = 0.0,
        t_mul: int = 1,
        m_mul: float = 1.0,
        alpha: float = 0.0,
    ) -> None:
        self.learning_rate = _positive("learning_rate", learning_rate)
        self.first_decay_steps = _whole("first_decay_steps", first_decay_steps, least=1)
        self.warmup_steps = _whole("warmup_steps", warmup_steps, least=0)
        self.warmup_start = _between("warmup_start", warmup_start, 0.0, self.learning_rate)
        self.t_mul = _whole("t_mul", t_mul, least=1)
        self.m_mul = _positive("m_mul", m_mul)
        self.alpha = _between("alpha", alpha, 0.0, 1.0)

    def __call__(self, step: Any) -> tf.Tensor:
        """Return the rate at an integer scalar step: float32, shape ()."""
        step = _step(step)
        cycle, fraction = self._cycle(tf.maximum(step - self.warmup_steps, 0))
        top = tf.pow(tf.constant(self.m_mul, tf.float32), cycle)
        cosine = 0.5 * (1.0 + tf.cos(math.pi * fraction))
        decayed = self.learning_rate * (self.alpha + (1.0 - self.alpha) * top * cosine)
        warmed = self.warmup_start + (self.learning_rate - self.warmup_start) * _ratio(step, max(1, self.warmup_steps))
        return tf.where(step < self.warmup_steps, warmed, decayed)

    def _cycle(self, step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the cycle's number and the completed fraction of it, in [0, 1), both float32."""
        first, growth = self.first_decay_steps, self.t_mul
        if growth == 1:
            return tf.cast(step // first, tf.float32), _ratio(step % first, first)
        begins, length = [0], first
        while begins[-1] + length < 2**62:
            begins.append(begins[-1] + length)
            length *= growth
        cycle = tf.reduce_sum(tf.cast(step >= tf.constant(begins, tf.int64), tf.int32)) - 1
        done = step - tf.gather(tf.constant(begins, tf.int64), cycle)
        lengths = tf.constant([float(first * growth**number) for number in range(len(begins))], tf.float32)
        return tf.cast(cycle, tf.float32), tf.cast(done, tf.float32) / tf.gather(lengths, cycle)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        names = ("learning_rate", "first_decay_steps", "warmup_steps", "warmup_start", "t_mul", "m_mul", "alpha")
        return {name: getattr(self, name) for name in names}


@keras.saving.register_keras_serializable(package="tapeline")
class Cyclic(LearningRateSchedule):
    """A rate that rises from `low` to `high` over `step_size` steps, falls back over as many, and repeats.

        rate = low + (high - low) * (1 - |t / step_size - 1|) * scale,   t = step mod (2 * step_size)

    mode: how the amplitude scales: "triangular", scale = 1; "triangular2", scale = 1 / 2^cycle, halved each
    cycle; "exp_range", scale = gamma^step.
    step_size: half a cycle, in steps; Smith recommends 2 to 10 epochs. `tapeline lr-find` suggests `low` and `high`.
    gamma: in (0, 1]; used only by "exp_range".

    Raises `ValueError` for an argument outside its range.
    Smith 2017, Cyclical Learning Rates for Training Neural Networks, https://arxiv.org/abs/1506.01186.
    """

    MODES = ("triangular", "triangular2", "exp_range")

    def __init__(
        self, low: float, high: float, *, step_size: int, mode: str = "triangular", gamma: float = 0.99994
    ) -> None:
        self.high = _positive("high", high)
        self.low = _between("low", low, 0.0, self.high)
        self.step_size = _whole("step_size", step_size, least=1)
        self.mode = _among("mode", mode, self.MODES)
        self.gamma = _between("gamma", _positive("gamma", gamma), 0.0, 1.0)

    def __call__(self, step: Any) -> tf.Tensor:
        """Return the rate at an integer scalar step: float32, shape ()."""
        step = _step(step)
        height = 1.0 - tf.abs(_ratio(step % (2 * self.step_size), self.step_size) - 1.0)
        if self.mode == "triangular2":
            height *= tf.pow(0.5, tf.cast(step // (2 * self.step_size), tf.float32))
        elif self.mode == "exp_range":
            # Not pow(gamma, step): rounding gamma to float32 makes it 3e-3 off after 10⁵ steps, unlike its logarithm.
            height *= tf.exp(tf.cast(step, tf.float32) * math.log(self.gamma))
        return self.low + (self.high - self.low) * height

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        return {name: getattr(self, name) for name in ("low", "high", "step_size", "mode", "gamma")}


@keras.saving.register_keras_serializable(package="tapeline")
class OneCycle(LearningRateSchedule):
    """One rise to `learning_rate`, then one fall far below the initial rate; constant after `total_steps`.

        from learning_rate / div_factor, up to learning_rate at step pct_start * total_steps,
        down to learning_rate / div_factor / final_div_factor at step total_steps

    With `three_phase`, the paper's form, the fall has two parts: back to the initial rate in as many steps as the rise
    took, then to the final rate in the remaining steps. Corners are rounded to whole steps.

    learning_rate: the peak. total_steps: of the whole run, at least 3. pct_start: the rise as a fraction, in (0, 1);
    with `three_phase` at most 0.5. div_factor, final_div_factor: at least 1. anneal: "cos" or "linear" between corners.

    Raises `ValueError` for an argument outside its range.
    Smith & Topin 2018, Super-Convergence, https://arxiv.org/abs/1708.07120; the two-phase form is fastai's.
    """

    ANNEALS = ("cos", "linear")

    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        *,
        pct_start: float = 0.3,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        anneal: str = "cos",
        three_phase: bool = False,
    ) -> None:
        self.learning_rate = _positive("learning_rate", learning_rate)
        self.total_steps = _whole("total_steps", total_steps, least=3)
        self.pct_start = _between("pct_start", _positive("pct_start", pct_start), 0.0, 0.5 if three_phase else 1.0)
        self.div_factor = _between("div_factor", div_factor, 1.0, math.inf)
        self.final_div_factor = _between("final_div_factor", final_div_factor, 1.0, math.inf)
        self.anneal = _among("anneal", anneal, self.ANNEALS)
        self.three_phase = bool(three_phase)

    def corners(self) -> list[tuple[int, float]]:
        """Return (step, rate) at each corner, in order."""
        peak = min(max(1, round(self.pct_start * self.total_steps)), self.total_steps - (2 if self.three_phase else 1))
        start = self.learning_rate / self.div_factor
        back = [(min(2 * peak, self.total_steps - 1), start)] if self.three_phase else []
        return [(0, start), (peak, self.learning_rate), *back, (self.total_steps, start / self.final_div_factor)]

    def __call__(self, step: Any) -> tf.Tensor:
        """Return the rate at an integer scalar step: float32, shape ()."""
        step = _step(step)
        corners = self.corners()
        rate = tf.constant(corners[0][1], tf.float32)
        for (begin, before), (end, after) in itertools.pairwise(corners):
            done = _ratio(tf.clip_by_value(step - begin, 0, end - begin), end - begin)
            if self.anneal == "cos":
                done = 0.5 * (1.0 - tf.cos(math.pi * done))
            # Not before + (after - before) * done, which leaves the rounding error of `before` in a far lower end rate.
            rate = tf.where(step >= begin, before * (1.0 - done) + after * done, rate)
        return rate

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        names = ("learning_rate", "total_steps", "pct_start", "div_factor", "final_div_factor", "anneal", "three_phase")
        return {name: getattr(self, name) for name in names}


def _step(step: Any) -> tf.Tensor:
    return tf.cast(keras.ops.convert_to_tensor(step), tf.int64)


def _ratio(steps: tf.Tensor, of: int) -> tf.Tensor:
    return tf.cast(steps, tf.float32) / float(of)


def _positive(name: str, value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{name} is {value!r}: it must be a finite number greater than 0")
    return float(value)


def _between(name: str, value: float, low: float, high: float) -> float:
    if not (low <= value <= high and math.isfinite(value)):
        rule = f"at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
        raise ValueError(f"{name} is {value!r}: it must be {rule}")
    return float(value)


def _whole(name: str, value: int, *, least: int) -> int:
    if isinstance(value, bool) or value != int(value) or value < least:
        raise ValueError(f"{name} is {value!r}: it must be a whole number of at least {least}")
    return int(value)


def _among(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"{name} is {value!r}: it must be one of {', '.join(known)}")
    return value
