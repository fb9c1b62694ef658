"""`tapeline tune`: measure a recipe's compile modes, precisions, fused kernels, shards and threads on this machine.

The project is not changed. Times are this machine's: measure again on another.
"""

import gc
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tapeline.config.train import TrainSettings
from tapeline.runtime import environment, startup
from tapeline.runtime.arithmetic import THREADS
from tapeline.runtime.errors import InputError, RunError
from tapeline.train.stage import opened
from tapeline.tuning import choice
from tapeline.tuning.apart import apart
from tapeline.tuning.choice import Measured


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long to measure. Raises `InputError` for too little."""

    steps: int = 50
    seconds: float = 3.0

    def __post_init__(self) -> None:
        if self.steps < 2:
            raise InputError(f"--steps is {self.steps}: comparing losses needs at least 2")
        if not (self.seconds > 0 and math.isfinite(self.seconds)):
            raise InputError(f"--seconds is {self.seconds:g}: it must be a finite number greater than 0")


def tune(
    name: str, *, recipe: Path, params: Mapping[str, Any], settings: TrainSettings, data: Path, effort: Effort
) -> Iterator[str]:
    """Measure all modes, and yield the lines to print as they come.

    Raises `InputError` for errors before the first step, `RunError` if no mode trains.
    """
    dataset = opened(data, settings)
    startup.tensorflow()
    from tapeline.recipe import loading
    from tapeline.tuning.measuring import measure

    yield f"{name}: batches of {settings.batch_size}, {effort.seconds:g} s per mode, losses after {effort.steps} steps"
    yield HEADER
    every: list[Measured] = []

    def tried(mode: choice.Mode) -> Iterator[str]:
        take = measure if mode.operation_threads == THREADS else partial(apart, threads=mode.operation_threads)
        try:
            one = take(recipe, params, settings, dataset, mode, steps=effort.steps, seconds=effort.seconds)
        except (InputError, RunError) as error:
            if not every:
                raise
            unasked = mode.fused and take is measure  # its optimizers need not have fused kernels
            if isinstance(error, RunError) or not unasked:
                yield f"{_named(mode)}  {error}"
            return
        every.append(one)
        yield _row(one, every[0], effort.steps)

    for mode in choice.candidates(loading.load(recipe).modes):
        yield from tried(mode)
        gc.collect()
    if more := choice.sharded(every, environment.cores()):
        if settings.batch_size % more.shards:
            yield f"{_named(more)}  not tried: {settings.batch_size} examples do not divide into {more.shards} parts"
        else:
            yield from tried(more)
    if more := choice.cut(every, environment.cores()):
        yield from tried(more)
    best = choice.winner(every)
    if best is None:
        raise RunError("no mode trained to a finite loss: lower the learning rate (see `tapeline lr-find`)")
    plain = best.mode._replace(threads=THREADS)  # native bits are cut for all cores
    yield from _native(best, (recipe, params, settings, dataset, plain), effort)
    yield from _verdict(name, best, every[0], settings)


def _native(best: Measured, asked: tuple[Any, ...], effort: Effort) -> Iterator[str]:
    """Measure the best mode with native bits too, in a process of its own, and yield what the same bits cost here."""
    if best.mode.compile == "eager":
        return
    try:
        threads = asked[-1].operation_threads
        native = apart(*asked, threads=threads, portable=False, steps=effort.steps, seconds=effort.seconds)
    except (InputError, RunError) as error:
        yield f"{asked[-1]} with `bits: native` was not measured: {error}"
    else:
        yield _cost(best, native)


HEADER = (
    f"{'compile':8}{'precision':16}{'fused':6}{'shards':7}{'threads':8}"
    f"{'compiling s':>12}{'examples/s':>14}{'loss':>12}{'difference':>12}"
)


def _named(mode: choice.Mode) -> str:
    named = f"{mode.compile:8}{mode.precision:16}{'yes' if mode.fused else 'no':6}"
    return f"{named}{mode.shards:<7}{mode.operation_threads:<8}"


def _row(one: Measured, reference: Measured, steps: int) -> str:
    row = f"{_named(one.mode)}{one.compiling:12.2f}{one.examples_per_second:14,.0f}"
    if one.loss is None:
        return f"{row}{'–':>12}{'–':>12}  too slow: stopped after {one.steps} of {steps} steps"
    row += f"{one.loss:12.5g}"
    if reference is one or reference.loss is None:
        return f"{row}{'–':>12}"
    verdict = "" if choice.is_good(one, reference) else "  worse than float32"
    return f"{row}{one.loss - reference.loss:+12.2g}{verdict}"


def _cost(portable: Measured, native: Measured) -> str:
    """Return what the same bits on every machine cost on this one."""
    speed = native.examples_per_second
    gain = speed / portable.examples_per_second
    what = f"{native.mode} with `bits: native`: {speed:,.0f} examples/s here, {gain:.2f} × as many"
    return f"{what}; only this CPU type repeats the result"


def _verdict(name: str, best: Measured, reference: Measured, settings: TrainSettings) -> Iterator[str]:
    limit = choice.allowed(reference)
    if math.isfinite(limit):
        share = f"{choice.TOLERANCE:.0%} of that loss, or of how far it fell"
        yield f"a loss up to {limit:.5g} counts as good as that of {reference.mode}: within {share}"
    gain = best.examples_per_second / reference.examples_per_second
    yield f"winner: {best.mode}, {gain:.2f} × {reference.mode}"
    chosen = best.mode._asdict()
    if all(getattr(settings, key) == value for key, value in chosen.items()):
        yield f"params.yaml, pipelines.{name}.train, already says:"
    else:
        yield f"for params.yaml, pipelines.{name}.train:"
    yield from (f"      {key}: {str(value).lower()}" for key, value in chosen.items())
