"""The progress file is followed, and what of it is shown as a bar."""

import json

import pytest

from tapeline.orchestration.reports import progress_artifact
from tapeline.orchestration.reports.progress_artifact import ProgressArtifact, describe
from tapeline.orchestration.stages.progress_file import ProgressFile


def record(done, **more):
    return {"event": "progress", "done": done, "total": 10, "unit": "steps", **more}


def test_an_earlier_run_s_records_are_not_told(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps(record(10)) + "\n")
    progress = ProgressFile(path)
    assert list(progress.records()) == []
    path.write_text(json.dumps(record(1)) + "\n")
    assert [found["done"] for found in progress.records()] == [1]
    assert list(progress.records()) == []


def test_a_line_that_is_not_complete_waits(tmp_path):
    path = tmp_path / "train.jsonl"
    progress = ProgressFile(path)
    assert list(progress.records()) == []
    whole = json.dumps(record(3)) + "\n"
    path.write_text(whole + whole[:10])
    assert len(list(progress.records())) == 1
    path.write_text(whole + whole)
    assert len(list(progress.records())) == 1


def test_a_stage_that_begins_again_is_told_from_the_start(tmp_path):
    path = tmp_path / "train.jsonl"
    progress = ProgressFile(path)
    path.write_text((json.dumps(record(3)) + "\n") * 3)
    assert len(list(progress.records())) == 3
    path.write_text(json.dumps(record(1)) + "\n")
    assert [found["done"] for found in progress.records()] == [1]


@pytest.fixture
def shown(monkeypatch):
    calls = []
    monkeypatch.setattr(progress_artifact, "create_progress_artifact", lambda p, **_: calls.append(p) or "id")
    monkeypatch.setattr(progress_artifact, "update_progress_artifact", lambda _, p, **__: calls.append(p))
    return calls


def test_the_bar_is_updated_once_a_second_and_at_the_end(shown):
    times = iter([0.0, 0.0, 0.5, 0.9, 1.1, 1.1, 1.2, 1.2])
    bar = ProgressArtifact("train-tiny", clock=lambda: next(times))
    for done in (1, 2, 3, 4, 10):
        bar.follow(record(done))
    assert shown == [10, 40, 100]


def test_the_newest_record_is_shown_when_the_stage_ends_early(shown):
    bar = ProgressArtifact("train-tiny", clock=lambda: 0.0)
    bar.follow(record(1))
    bar.follow(record(7))
    bar.show()
    bar.show()
    assert shown == [10, 70]


def test_what_cannot_be_a_bar_is_none(shown):
    bar = ProgressArtifact("ingest-tiny")
    bar.follow({"event": "progress", "done": 5, "unit": "examples"})
    bar.follow({"event": "note", "text": "hello"})
    bar.show()
    assert shown == []


def test_a_record_as_a_line():
    line = describe(record(3, epoch=2, metrics={"loss": 0.123456, "accuracy": 1.0}))
    assert line == "3 of 10 steps, epoch 2, loss 0.1235, accuracy 1"
    assert describe(record(3, metrics={"loss": None, "accuracy": 1.0})) == "3 of 10 steps, accuracy 1"


@pytest.mark.parametrize(("done", "texts"), [(0, "10 of 10 steps"), (7, "7 of 10 steps"), (10, "10 of 10 steps")])
def test_a_stage_that_ended_well_is_complete(shown, monkeypatch, done, texts):
    said = []
    monkeypatch.setattr(
        progress_artifact, "create_progress_artifact", lambda p, description, **_: said.append((p, description)) or "id"
    )
    bar = ProgressArtifact("train-tiny", clock=lambda: 0.0)
    monkeypatch.setattr(
        progress_artifact, "update_progress_artifact", lambda _, p, description: said.append((p, description))
    )
    bar.follow(record(done))
    bar.complete()
    assert said[-1] == (100, texts)
