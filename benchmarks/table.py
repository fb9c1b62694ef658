"""A workload's record as a table: one line per contender, fastest first, then the ratios."""

from collections.abc import Mapping
from typing import Any

from benchmarks.comparison import STEADY


def lines(record: Mapping[str, Any]) -> str:
    """Return the table. A contender that disagrees on the loss has a `!` and a line with its own loss."""
    rows = [("contender", "steps/s", "±", "first step", "peak memory")]
    contenders = sorted(record["contenders"].items(), key=lambda item: -item[1]["median"])
    for name, one in contenders:
        speed = f"{one['median']:,.1f}"
        figures = (speed, f"{one['spread']:.1%}", f"{one['first_step']:.1f} s", f"{one['peak_mb']:,.0f} MB")
        rows.append(((" !" if name in record["disagree"] else "  ") + name, *figures))
    for family, ratio in record["ratios"].items():
        target = record["targets"].get(family)
        mark = "" if target is None else f"asked {target:g} ×" + ("" if ratio >= target else "  MISSED")
        rows.append((f"tapeline / {family}", f"{ratio:.2f} ×", "", mark, ""))
    families = dict.fromkeys(one["family"] for one in record["contenders"].values())
    for family in (family for family in families if family not in ("tapeline", *record["ratios"])):
        rows.append((f"tapeline / {family}", "no ratio", "", f"a spread is over {STEADY:.0%}", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    text = [_aligned(row, widths) for row in rows]
    if record["again"]:
        text.append(f"  {record['again']} turns were taken again, other virtual machines were busy in them")
    if record["stolen"]:
        text.append(f"  up to {record['stolen']:.1%} of the CPU's time was stolen in a turn that counts")
    text += [f"  {name}: {why}" for name, why in (*record["disagree"].items(), *record["left_out"].items())]
    return "\n".join(text)


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    first, *others = row
    cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
    return "  ".join(cells).rstrip()
