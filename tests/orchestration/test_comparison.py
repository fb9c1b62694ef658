"""What a run is compared with: the last run's metrics and those of the version that is live in production."""

import json

import pytest
import registries
from damaged import lose
from keys import Person, govern

from tapeline.config.project import Project
from tapeline.orchestration.reports.comparison import compared

MD5, OTHER = "a" * 32, "b" * 32
LOCK = f"""
stages:
  train@tiny:
    deps:
    - {{path: data/a-table, md5: {OTHER}}}
    - {{path: data/digits, md5: {MD5}.dir}}
    params: {{params.yaml: {{pipelines.tiny.dataset: digits, pipelines.tiny.params: {{}}}}}}
  validate@tiny:
    outs:
    - {{path: runs/tiny/validate/metrics.json, md5: {MD5}}}
"""


def test_production_is_the_last_stage_whatever_its_name(registry, tmp_path):
    cache = tmp_path / "cache"
    (cache / MD5[:2]).mkdir(parents=True)
    (cache / MD5[:2] / MD5[2:]).write_text(json.dumps({"accuracy": 0.5}))
    params = registry.folder / "params.yaml"
    params.write_text(params.read_text().replace("    prod: {", "    prod: {gate: false}\n    live: {"))
    (registry.folder / "dvc.lock").write_text(LOCK)
    registry.git("add", "--all")
    registry.git("commit", "--quiet", "--message", "tiny")
    registry.git("tag", "--annotate", "tiny@v1.0.0", "--message", "x")
    registry.git("tag", "--annotate", "tiny#live#7", "--message", "x")
    registry.git("tag", "--annotate", "tiny#prod#8", "--message", "x")
    found = compared(Project.find(registry.folder), "tiny", cache)
    assert found == {"last run (HEAD)": {"accuracy": 0.5}, "production (tiny#live#7)": {"accuracy": 0.5}}


def test_metrics_of_other_data_are_said_to_be(registry, tmp_path):
    (tmp_path / MD5[:2]).mkdir()
    (tmp_path / MD5[:2] / MD5[2:]).write_text(json.dumps({"accuracy": 0.5}))
    lock = registry.folder / "dvc.lock"
    lock.write_text(LOCK)
    registry.git("add", "--all")
    registry.git("commit", "--quiet", "--message", "tiny")
    project = Project.find(registry.folder)
    for text, title in (
        (LOCK.replace(OTHER, MD5), "last run (HEAD)"),  # of another pipeline's dataset
        (LOCK.replace(f"{MD5}.dir", f"{OTHER}.dir"), "last run, on other data (HEAD)"),
        ("stages: {}", "last run (HEAD)"),
        ("not a lock", "last run (HEAD)"),
    ):
        lock.write_text(text)
        assert compared(project, "tiny", tmp_path) == {title: {"accuracy": 0.5}}
    lock.unlink()
    assert [*compared(project, "tiny", tmp_path)] == ["last run (HEAD)"]


def test_under_a_policy_a_tag_that_anybody_may_push_is_not_production(registry, tmp_path, capsys):
    ana, ben = (Person.made(tmp_path, name) for name in ("Ana", "Ben"))
    (tmp_path / MD5[:2]).mkdir()
    (tmp_path / MD5[:2] / MD5[2:]).write_text(json.dumps({"accuracy": 0.5}))
    (registry.folder / "dvc.lock").write_text(LOCK)
    govern(registry, ana.line() + ben.line())
    for tag in ("tiny@v1.0.0", "tiny#prod#9"):
        registry.git("tag", "--annotate", tag, "--message", "x")
    found = compared(Project.find(registry.folder), "tiny", tmp_path)
    assert found == {"last run (HEAD)": {"accuracy": 0.5}} and capsys.readouterr().err == ""
    (registry.folder / "signers").write_text("not a key\n")
    registry.git("commit", "--quiet", "--all", "--message", "x")
    assert compared(Project.find(registry.folder), "tiny", tmp_path) == found
    assert "not compared: " in capsys.readouterr().err


def test_nothing_is_in_production_once_it_was_taken_out(registry, tmp_path):
    """GTO's rule: the version that was live before is live again, and here there is none."""
    (registry.folder / "dvc.lock").write_text(LOCK)
    registry.git("add", "--all")
    registry.git("commit", "--quiet", "--message", "tiny")
    for second, tag in enumerate(["tiny@v1.0.0", "tiny#prod#1", "tiny#prod!#2"]):
        registry.git("-c", f"user.name=Ann {second}", "tag", "--annotate", tag, "--message", "x")
    assert "production" not in str(compared(Project.find(registry.folder), "tiny", tmp_path))


def test_without_git_there_is_nothing_to_compare_with(tmp_path):
    (tmp_path / "params.yaml").write_text(registries.PARAMS)
    (tmp_path / "recipe.py").write_text('"""A recipe."""\n')
    assert compared(Project.find(tmp_path), "tiny", tmp_path) == {}


def test_an_altered_record_is_left_out_and_said(registry, tmp_path, capsys):
    (registry.folder / "dvc.lock").write_text(LOCK.replace(f"md5: {MD5}}}", "md5: ../x}"))
    registry.git("add", "--all")
    registry.git("commit", "--quiet", "--message", "tiny")
    assert compared(Project.find(registry.folder), "tiny", tmp_path) == {}
    assert "not compared: dvc.lock of HEAD: runs/tiny/validate/metrics.json" in capsys.readouterr().err


def test_a_record_that_git_cannot_read_is_left_out_and_said(registry, tmp_path, capsys):
    (registry.folder / "dvc.lock").write_text(LOCK)
    registry.git("add", "--all")
    registry.git("commit", "--quiet", "--message", "tiny")
    lose(registry.folder, "HEAD:dvc.lock")
    assert compared(Project.find(registry.folder), "tiny", tmp_path) == {}
    assert "not compared: git cat-file: " in capsys.readouterr().err


@pytest.fixture
def registry(tmp_path):
    from registries import Registry

    made = Registry(tmp_path / "project")
    made.folder.mkdir()
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("config", "user.email", "ann@example.org")
    made.git("config", "user.name", "Ann")
    (made.folder / "params.yaml").write_text(registries.PARAMS)
    (made.folder / "recipe.py").write_text('"""A recipe."""\n')
    return made
