"""The README's chart: Tapeline's speed relative to each peer's best setting, a group of bars for each workload."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COLOURS = {
    "tutorial loop": "#9aa5b1",
    "Keras fit": "#d1495b",
    "PyTorch": "#edae49",
    "JAX": "#30638e",
    "TFDS and tf.data": "#00798c",
    "PyTorch DataLoader": "#c98a1b",
}
BAR = 0.8


def _peers(record: Mapping[str, Any]) -> list[tuple[str, float]]:
    return [(family, ratio) for family, ratio in record["ratios"].items() if not family.endswith("ceiling")]


def draw(records: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the PNG, if there are records. The axis is logarithmic: 1 is as fast as Tapeline, 10 ten times slower."""
    if not records:
        return
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    groups = [(record["title"], family, ratio) for record in records for family, ratio in _peers(record)]
    if not groups:
        return
    figure = Figure(figsize=(9, 1.1 + 0.2 * len(groups) + 0.18 * len(records)), layout="constrained")
    axes = figure.subplots()
    place, ticks, labelled = 0.0, [], set()
    for record in records:
        ratios = sorted(_peers(record), key=lambda item: -item[1])
        ticks.append((place + (len(ratios) - 1) / 2, record["title"]))
        for family, ratio in ratios:
            label = family if family not in labelled else None
            labelled.add(family)
            axes.barh(place, ratio - 1, BAR, left=1, color=COLOURS.get(family, "#777777"), label=label)
            text = f"{ratio:.0f} ×" if ratio >= 10 else f"{ratio:.2f} ×" if ratio < 2 else f"{ratio:.1f} ×"
            axes.annotate(text, (max(ratio, 1), place), (4, 0), textcoords="offset points", va="center", fontsize=8)
            place += 1
        place += 0.8
    axes.set_yticks([tick for tick, _ in ticks], [title for _, title in ticks])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("times as fast as the best setting of …")
    axes.margins(x=0.1, y=0.01)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside lower center", ncols=len(labelled) if len(labelled) < 5 else 3)
    figure.savefig(path, dpi=150, metadata={"Software": None})
