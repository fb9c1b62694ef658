"""The bounds on what the infra check measured."""

from tapeline.registry.assess import within
from tapeline.registry_settings import CheckSettings


def test_each_figure_is_held_against_its_bound_and_memory_by_its_peak():
    figures = {"latency_ms": {"p50": 1.0, "p99": 9.0}, "memory_mb": 700.5, "size_mb": 2.0}
    asked = CheckSettings(memory_mb=700, latency_p99_ms=9.0, size_mb=1.5)
    assert [(check["said"], check["holds"]) for check in within(asked, figures)] == [
        ("latency_p99_ms is 9, asked at most 9", True),
        ("memory_mb is 700.5, asked at most 700", False),
        ("size_mb is 2, asked at most 1.5", False),
    ]


def test_what_was_not_measured_has_no_check():
    assert [check["metric"] for check in within(CheckSettings(size_mb=3.0), {"size_mb": 2.0})] == ["size_mb"]
