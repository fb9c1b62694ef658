from typing import Any

import pytest

from tapeline.ingest.progress import ExampleCounter


def test_reports_are_few_and_the_last_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    told: list[Any] = []
    counter = ExampleCounter(told.append, 1000, clock=lambda: now)
    for _ in range(100):
        now += 0.1
        counter.add(10)
    counter.finish()
    assert len(told) < 40
    assert told[0] == {"event": "progress", "done": 30, "unit": "examples", "total": 1000}
    assert told[-1] == {"event": "progress", "done": 1000, "unit": "examples", "total": 1000}
    assert capsys.readouterr().err in ("", "1,000 of 1,000 examples\n")


def test_a_line_is_printed_when_reading_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    counter = ExampleCounter(lambda record: None, None, clock=lambda: now)
    for _ in range(25):
        now += 1
        counter.add(100)
    assert capsys.readouterr().err.splitlines() == ["1,000 examples", "2,000 examples"]
