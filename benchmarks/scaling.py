"""How the cost of a step grows with the model, the batch and the dataset: Tapeline and JAX on one perceptron.

    python -m benchmarks.scaling [AXIS ...] [--repeats 3] [--seconds 2]

One hidden layer; each axis is varied by itself. Writes `results/other/scaling.json` and a plot for each axis. A flat
line means that the axis costs nothing; where a line levels off at its left end, the remaining time is overhead.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import program
from benchmarks.images import images
from benchmarks.measure import measure
from benchmarks.peers import engine, jax_scan
from benchmarks.workload import OWN_RECIPES, Recipe, Workload
from benchmarks.workloads import mlp

STANDARD = {"hidden": 128, "batch": 128, "examples": 51_200}
AXES: Mapping[str, tuple[int, ...]] = {
    "hidden": (32, 128, 512, 2048),
    "batch": (16, 64, 256, 1024),
    "examples": (6_400, 51_200, 409_600),
}
UNITS = {"hidden": "hidden units", "batch": "examples in a batch", "examples": "examples in the dataset"}


def point(axis: str, value: int) -> Workload:
    """Return the workload at one point of one axis."""
    at = {**STANDARD, axis: value}
    recipe = Recipe(
        path=OWN_RECIPES / "perceptron.py",
        params={"hidden": at["hidden"]},
        train={"batch_size": at["batch"], "compile": "xla"},
    )
    return replace(
        mlp.WORKLOAD,
        name=f"scaling-{axis}-{value}",
        title=f"{value:,} {UNITS[axis]}",
        recipe=recipe,
        columns=images(at["examples"], (28, 28, 1)),
        contenders=[engine.contender(recipe), jax_scan.contender(mlp.jax_model)],
        steps=5,
        tolerance=5e-3,  # where epsilon is added matters most in the first steps
        targets={},
    )


def main() -> int:
    """Measure every point of the axes and plot them."""
    parser = program.parser(__doc__, repeats=3)
    parser.add_argument("axes", nargs="*", metavar="AXIS", help=f"of {', '.join(AXES)}; all by default")
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    if unknown := set(options.axes) - set(AXES):
        parser.error(f"unknown axis {', '.join(sorted(unknown))}: there are {', '.join(AXES)}")
    records: dict[str, dict[str, Any]] = {}
    for axis in options.axes or AXES:
        for value in AXES[axis]:
            record = measure(
                point(axis, value),
                repeats=options.repeats,
                seconds=options.seconds,
                warm_up=options.seconds,
                wanted=lambda contender: True,
                say=lambda line: print(line, file=sys.stderr, flush=True),
            )
            records.setdefault(axis, {})[str(value)] = record
            speeds = "  ".join(f"{name} {one['median']:,.0f} steps/s" for name, one in record["contenders"].items())
            print(f"{value:>9,} {UNITS[axis]}: {speeds}", flush=True)
        _draw(axis, records[axis], options.out / f"scaling_{axis}.png")
    program.write(options.out, {"workload": "scaling", "axes": records})
    return int(any(record["disagree"] for axis in records.values() for record in axis.values()))


def _draw(axis: str, records: Mapping[str, Any], path: Path) -> None:
    """Plot microseconds per step over the axis, both logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    names = list(next(iter(records.values()))["contenders"])
    for name in names:
        found = {int(value): one["contenders"].get(name) for value, one in records.items()}
        line = {value: 1e6 / one["median"] for value, one in found.items() if one}
        axes.plot(list(line), list(line.values()), marker="o", label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(UNITS[axis])
    axes.set_ylabel("µs a step")
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    sys.exit(main())
