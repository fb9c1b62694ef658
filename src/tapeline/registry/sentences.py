"""Render a verdict's check as a sentence with its numbers."""

import math
from collections.abc import Mapping
from typing import Any


def sentence(check: Mapping[str, Any]) -> str:
    """Return a check as a sentence. Raises `KeyError`, `TypeError` or `ValueError` for a malformed check."""
    if "said" in check:
        return str(check["said"])
    # In JSON, null stands for a non-finite number; only in a bound does it mean that there is none.
    check = {key: math.nan if value is None and key not in ("min", "max") else value for key, value in check.items()}
    if check["kind"] == "paired":
        return _paired_sentence(check)
    where = f" of {check['slice']} ({check['examples']} examples)" if "slice" in check else ""
    limits = [
        f"{word} {check[key]:g}" for key, word in (("min", "at least"), ("max", "at most")) if check[key] is not None
    ]
    value = f"{check['value']:.6g}"
    if "change" in check["kind"]:
        value = f"{check['value']:+.6g} ({check['champion']:.6g} → {check['challenger']:.6g})"
    what = f"change of {check['metric']}" if "change" in check["kind"] else check["metric"]
    unjudged = "" if check.get("judged", True) else ", too few to judge"
    return f"{what}{where} is {value}, must be {' and '.join(limits)}{unjudged}"


def _paired_sentence(check: Mapping[str, Any]) -> str:
    sure = f"at {check['confidence']:.0%} confidence, {check['examples']} examples"
    if "lower_bound" in check:
        counts = f"{check['only_challenger_right']} examples right only now, {check['only_champion_right']} only before"
        if check["asks"] == "better":
            return f"better: {counts}, p {check['p_better']:.3g} ({sure})"
        few = check["examples"] < check["needed_examples"] and not check["holds"]
        hint = (
            f"; {check['needed_examples']} examples are needed to show it, or a larger `paired.margin`" if few else ""
        )
        said = f"accuracy {check['difference']:+.4f}, by the test at least {check['lower_bound']:+.4f}"
        return f"not worse by more than {check['margin']:g}: {said}; {counts} ({sure}){hint}"
    said = f"mean absolute error {check['difference']:+.4g}, by the test at most {check['upper_bound']:+.4g}"
    if check["asks"] == "better":
        return f"better: {said} ({sure})"
    return f"not worse by more than {check['margin']:.4g}: {said} ({sure})"
