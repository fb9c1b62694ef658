"""`tapeline lr-find`, `tune` and `metric-names`: measure a pipeline without changing the project."""

import argparse
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tapeline.cli.call import Call
from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.registry.initial_weights import initial_classes, initial_weights
from tapeline.runtime.disk_errors import disk_error
from tapeline.runtime.interruption import SIGNALS, interrupt


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the three commands."""
    for tool, what in (
        ("lr-find", "find a learning rate with a range test, and plot it"),
        (
            "tune",
            "measure what trains a pipeline fastest on this machine: modes, precisions, fused kernels, shards, threads",
        ),
        ("metric-names", "list the metrics that `best` and sweeps can use, one per line, without training"),
    ):
        command = commands.add_parser(tool, help=what, description=f"{what}; changes nothing in the project")
        command.add_argument("name", metavar="NAME", help="a pipeline of params.yaml")
        command.set_defaults(command=_tuning, tool=tool)
        if tool == "lr-find":
            command.add_argument("--low", type=float, default=1e-6, help="the first rate (default: %(default)g)")
            command.add_argument("--high", type=float, default=10.0, help="the last rate (default: %(default)g)")
            command.add_argument("--steps", type=int, default=200, help="number of steps (default: %(default)d)")
            command.add_argument(
                "--metric", help="the metric of train_step to minimize (default: loss, else the first)"
            )
            command.add_argument(
                "--picture", metavar="FILE", type=Path, help="the PNG to write (default: .tapeline/lr-find/NAME.png)"
            )
        elif tool == "tune":
            command.add_argument(
                "--steps", type=int, default=50, help="compare losses after this many steps (default: %(default)d)"
            )
            command.add_argument(
                "--seconds", type=float, default=3.0, help="how long to measure each mode (default: %(default)g)"
            )


def _tuning(options: argparse.Namespace) -> int:
    """Run a tool, and print its lines as they come."""
    for number in SIGNALS:
        signal.signal(number, interrupt)
    project = Project.find()
    call = Call(project, Params.load_for(project.folder, pipeline=options.name), options.name, options)
    try:
        for line in TOOLS[options.tool](call):
            print(line, flush=True)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise disk_error(error) from None
    return 0


def _lr_find(call: Call) -> Iterator[str]:
    from tapeline.tuning.learning_rate import Range, find

    asked = call.options
    tried = Range(low=asked.low, high=asked.high, steps=asked.steps, metric=asked.metric)
    picture = asked.picture or call.project.local / "lr-find" / f"{call.name}.png"
    source = call.pipeline().train.init_from
    weights = initial_weights(call.project, source) if source else None
    classes = initial_classes(call.project, source, weights) if source and weights else None
    return find(call.name, **_arguments(call), tried=tried, picture=picture, weights=weights, classes=classes)


def _tune(call: Call) -> Iterator[str]:
    from tapeline.tuning.modes import Effort, tune

    effort = Effort(steps=call.options.steps, seconds=call.options.seconds)
    return tune(call.name, **_arguments(call), effort=effort)


def _metric_names(call: Call) -> Iterator[str]:
    from tapeline.tuning.metric_names import measured

    return measured(call.name, **_arguments(call))


def _arguments(call: Call) -> dict[str, Any]:
    """Return the arguments that all tools take."""
    pipeline = call.pipeline()
    return {
        "recipe": call.project.folder / pipeline.recipe,
        "params": pipeline.params,
        "settings": pipeline.train,
        "data": call.project.data(pipeline.dataset),
    }


TOOLS: dict[str, Callable[[Call], Iterator[str]]] = {"lr-find": _lr_find, "tune": _tune, "metric-names": _metric_names}
