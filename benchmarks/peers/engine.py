"""Tapeline through its real engine: guard, snapshots, exact metrics, history, progress file, checkpoints, all on."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from benchmarks.turn import Turn
from benchmarks.workload import Contender, Inputs, Recipe, Workload
from tapeline.runtime.progress import Progress
from tapeline.runtime.records import LoopEnded, Record
from tapeline.train.engine.pace import Pace
from tapeline.train.job import Job
from tapeline.train.observers.standard import standard
from tapeline.train.stage import train

FAMILY = "tapeline"


def contender(recipe: Recipe, setting: str | None = None) -> Contender:
    """Return the engine with a recipe, trained as its file defines."""

    def contend(inputs: Inputs, turn: Turn) -> None:
        steps = len(inputs.indices)
        with Progress(inputs.folder / "progress.jsonl") as report:
            train(
                Job(
                    recipe=recipe.path,
                    params=recipe.params,
                    settings=recipe.settings(),
                    data=inputs.folder / "data",
                    out=inputs.folder / "out",
                    checkpoints=inputs.folder / "checkpoints",
                    traces=inputs.folder / "traces",
                    observers=standard(report),
                    hooks=[_Hook(turn, steps)],
                    pace=_Pace(steps),
                )
            )

    train_settings = recipe.settings()
    modes = [train_settings.compile]
    modes += [train_settings.precision] if "precision" in recipe.train else []
    modes += ["fused"] if train_settings.fused else []
    modes += [f"{train_settings.shards} shards"] if train_settings.shards > 1 else []
    modes += [f"{train_settings.threads} threads"] if "threads" in recipe.train else []
    modes += ["native"] if train_settings.bits == "native" else []
    return Contender(family=FAMILY, setting=setting or " ".join(modes), contend=contend, recipe=recipe)


def with_native(workload: Workload) -> Workload:
    """Return a workload in which the engine has each of its settings with native bits, too."""
    own = [
        one.recipe for one in workload.contenders if one.recipe and not {"bits", "threads"} & one.recipe.train.keys()
    ]
    native = [contender(recipe.having(bits="native")) for recipe in own]
    return replace(workload, contenders=[*workload.contenders, *native])


class _Pace(Pace):
    """The engine's own pace, with a loop that ends at the last of the common steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._steps = steps

    def end(self, start: int, stops: Iterable[int]) -> int:
        return super().end(start, [*stops, *([self._steps] if start < self._steps else [])])


class _Hook:
    """The last hook: while it waits for its turn, the engine waits."""

    def __init__(self, turn: Turn, steps: int) -> None:
        self._turn, self._steps = turn, steps

    def __call__(self, record: Record) -> None:
        if not isinstance(record, LoopEnded):
            return
        self._turn.stepped()
        if record.step == self._steps:
            self._turn.learned(losses(record.metrics))
        elif record.step > self._steps:
            self._turn.done(record.step - record.start)


def losses(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics that are losses."""
    return {name: value for name, value in metrics.items() if name.endswith("loss")}
