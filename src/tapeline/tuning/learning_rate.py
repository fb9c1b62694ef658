"""`tapeline lr-find`: a range test, its table, its picture, and the line for `params.yaml`.

Smith 2017, https://arxiv.org/abs/1506.01186, section 3.3. The project is not changed: no output, no checkpoint; the
caller chooses where the picture goes.
"""

import errno
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapeline.config.train import TrainSettings
from tapeline.runtime import startup
from tapeline.runtime.disk_errors import check_writable
from tapeline.runtime.errors import InputError, RunError
from tapeline.train.stage import opened

if TYPE_CHECKING:
    from tapeline.tuning.ramp import Curve
    from tapeline.tuning.suggestion import Suggestion


@dataclass(frozen=True, kw_only=True)
class Range:
    """The rates to try. Raises `InputError` for an invalid range."""

    low: float = 1e-6
    high: float = 10.0
    steps: int = 200
    metric: str | None = None
    """The step's metric to observe; by default `loss`, else the first."""

    def __post_init__(self) -> None:
        if not (0 < self.low < self.high and math.isfinite(self.high)):
            raise InputError(f"--low is {self.low:g} and --high is {self.high:g}: 0 < low < high, both finite")
        if self.steps < 20:
            raise InputError(f"--steps is {self.steps}: a range test needs at least 20")


def find(
    name: str,
    *,
    recipe: Path,
    params: Mapping[str, Any],
    settings: TrainSettings,
    data: Path,
    tried: Range,
    picture: Path,
    weights: Path | None = None,
    classes: Mapping[str, tuple[str, ...]] | None = None,
) -> Iterator[str]:
    """Run the test, yield the lines to print, and write the picture, whose place is tried before the first step.

    weights, classes: as for `ramp.climb`.
    Raises `InputError` for errors before the first step, `RunError` if the loss falls at no rate.
    """
    _check_place(picture)
    dataset = opened(data, settings)
    startup.tensorflow(threads=settings.operation_threads, portable=settings.bits == "portable")
    from tapeline.tuning import ramp, suggestion

    yield f"{name}: {tried.steps} steps, learning rate {tried.low:g} to {tried.high:g}"
    taken: list[str] = []
    curve = ramp.climb(
        recipe, params, settings, dataset, **asdict(tried), weights=weights, classes=classes, say=taken.append
    )
    yield from taken
    suggested = suggestion.suggest(curve.rates, curve.losses)
    if curve.losses:
        yield from _table(curve, suggestion.smooth(curve.losses))
        if suggested is not None:
            yield from _advice(name, curve, suggested)
        _draw(picture, name, curve, suggested)
        yield f"picture: {picture}"
    if suggested is None:
        raise RunError(
            f"no learning rate from {tried.low:g} to {tried.high:g} makes {curve.metric} fall clearly in "
            f"{tried.steps} steps: try more --steps, a lower --low or a larger train.batch_size"
        )


def _check_place(picture: Path) -> None:
    """Raise `InputError` if the picture could not be written after the steps."""
    folder = next(path for path in picture.absolute().parents if os.path.lexists(path))
    try:
        if picture.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        check_writable(folder)
    except OSError as error:
        raise InputError(f"{picture} cannot be written ({error.strerror}): give another file by --picture") from None


def _draw(picture: Path, name: str, curve: "Curve", suggested: "Suggestion | None") -> None:
    from tapeline.tuning import plot

    plot.write(
        picture,
        title=f"{name}: learning-rate range test",
        metric=curve.metric,
        rates=curve.rates,
        losses=curve.losses,
        diverged=curve.diverged,
        suggestion=suggested,
    )


def _table(curve: "Curve", smoothed: Any) -> Iterator[str]:
    """Yield a line for the first step of each decade of the rate, and for the last step."""
    yield f"{'rate':>9}  {curve.metric} (smoothed)"
    decades = [math.floor(math.log10(rate) + 1e-9) for rate in curve.rates]
    for index, (rate, decade) in enumerate(zip(curve.rates, decades, strict=True)):
        if index == 0 or decade != decades[index - 1] or index == len(decades) - 1:
            yield f"{rate:9.1e}  {smoothed[index]:.4g}"
    if curve.diverged is not None:
        yield f"{curve.diverged:9.1e}  diverged"


def _advice(name: str, curve: "Curve", found: "Suggestion") -> Iterator[str]:
    from tapeline.tuning.suggestion import rounded

    low, rate, high = (f"{rounded(value):g}" for value in (found.low, found.rate, found.high))
    yield f"{curve.metric} falls fastest at {rate}; bounds of a cyclic rate: {low} to {high}"
    if curve.diverged is None:
        yield "the loss did not diverge: try a higher --high"
    if len(curve.optimizers) > 1:
        yield f"the rates of these optimizers rose together: {', '.join(curve.optimizers)}"
    if curve.current is None:
        yield "the recipe has no parameter learning_rate: set the rate where it creates its optimizer"
    else:
        yield f"for params.yaml, pipelines.{name}.params (now {curve.current:g}):"
        yield f"      learning_rate: {rounded(found.rate)!r}"
