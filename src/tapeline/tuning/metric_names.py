"""`tapeline metric-names`: the names of a pipeline's validation metrics, before any training.

for name in measured("digits", recipe=…, params=…, settings=…, data=…):
    print(name)
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tapeline.config.train import TrainSettings
from tapeline.runtime import startup
from tapeline.runtime.errors import InputError
from tapeline.train.stage import opened


def measured(
    name: str, *, recipe: Path, params: Mapping[str, Any], settings: TrainSettings, data: Path
) -> Iterator[str]:
    """Yield the names of the metrics of pipeline `name`: from `eval_step`, then from the recipe's `evaluate`.

    The recipe is built and traced, and its `evaluate` is called on the initial weights. Raises `InputError` for errors
    that would end training before its first step, and for a dataset without a validation split.
    """
    dataset = opened(data, settings)
    if "val" not in dataset.splits:
        raise InputError(f"{name} has no metrics of a validation split: set datasets.….validation")
    startup.tensorflow(threads=settings.operation_threads, portable=settings.bits == "portable")
    from tapeline.recipe import loading
    from tapeline.train.assembly import assemble

    evaluation = assemble(recipe, params, settings, dataset).evaluation
    assert evaluation is not None, "there is a validation split"
    with loading.blaming(recipe, InputError, "fails in evaluate"):
        more = evaluation.on_host(dataset.examples("val"))
    yield from [*evaluation.names, *more]
