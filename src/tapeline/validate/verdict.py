"""Compare metrics with bounds, in a pure function, and explain which bound was missed."""

from collections.abc import Iterable, Mapping
from typing import Any

from tapeline.config.validate import Bound
from tapeline.runtime.errors import InputError


def judge(metrics: Mapping[str, float], thresholds: Mapping[str, Bound], faults: Iterable[str] = ()) -> dict[str, Any]:
    """Return `{"verdict": "yes" | "no", "reason", "checks"}`, including every number.

    faults: reasons for a "no" regardless of the metrics, a phrase each.
    Raises `InputError` for a threshold on a metric that was not measured. A NaN metric misses every bound.
    """
    checks = []
    for name, bound in sorted(thresholds.items()):
        if name not in metrics:
            raise InputError(
                f"validate.thresholds names {name!r}, which was not measured: choose from {', '.join(sorted(metrics))}"
            )
        value = metrics[name]
        checks.append({"metric": name, "value": value, "min": bound.min, "max": bound.max, "holds": bound.holds(value)})
    reasons = [*faults, *(_sentence(check) for check in checks if not check["holds"])]
    return {"verdict": "no" if reasons else "yes", "reason": "; ".join(reasons), "checks": checks}


def _sentence(check: Mapping[str, Any]) -> str:
    low = check["min"] is not None and not check["value"] >= check["min"]
    bound = f"below its minimum {check['min']:g}" if low else f"above its maximum {check['max']:g}"
    return f"{check['metric']} is {check['value']:.6g}, {bound}"
