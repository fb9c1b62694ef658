"""What a commit records: the dataset and no other input, the last stage's version, and no path out of a wrong hash."""

import json

import pytest

from tapeline.config.project import Project
from tapeline.orchestration.reports.comparison import compared
from tapeline.orchestration.stages.recorded import Record
from tapeline.runtime.errors import InputError

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


def test_the_data_is_the_dataset_and_no_other_input_below_data(tmp_path):
    assert Record.of(LOCK, name="main", cache=tmp_path).data("tiny") == f"{MD5}.dir"
    assert Record.of(LOCK, name="main", cache=tmp_path).data("other") is None


@pytest.mark.parametrize("wrong", ["../../../etc/passwd", "", "A" * 32, "a" * 31, "a" * 32 + ".dirs"])
def test_a_hash_that_is_none_becomes_no_path(tmp_path, wrong):
    record = Record.of(LOCK.replace(f"md5: {MD5}}}", f"md5: '{wrong}'}}"), name="main", cache=tmp_path)
    with pytest.raises(
        InputError, match=r"dvc.lock of main: runs/tiny/validate/metrics.json has '.*', which is not an MD5"
    ):
        record.metrics("tiny")


def test_production_is_the_last_stage_whatever_its_name(registry, tmp_path):
    cache = tmp_path / "cache"
    (cache / MD5[:2]).mkdir(parents=True)
    (cache / MD5[:2] / MD5[2:]).write_text(json.dumps({"accuracy": 0.5}))
    params = registry.folder / "params.yaml"
    params.write_text(params.read_text().replace("    prod: {", "    prod: {gate: false}\n    live: {"))
    (registry.folder / "dvc.lock").write_text(LOCK)
    registry.git("add", "--all")
    registry.git("commit", "--quiet", "--message", "tiny")
    registry.git("tag", "--annotate", "tiny#live#7", "--message", "x")
    registry.git("tag", "--annotate", "tiny#prod#8", "--message", "x")
    found = compared(Project.find(registry.folder), "tiny", cache)
    assert found == {"last run (HEAD)": {"accuracy": 0.5}, "production (tiny#live#7)": {"accuracy": 0.5}}


def test_an_altered_record_is_left_out_and_said(registry, tmp_path, capsys):
    (registry.folder / "dvc.lock").write_text(LOCK.replace(f"md5: {MD5}}}", "md5: ../x}"))
    registry.git("add", "--all")
    registry.git("commit", "--quiet", "--message", "tiny")
    assert compared(Project.find(registry.folder), "tiny", tmp_path) == {}
    assert "left out of the comparison: dvc.lock of HEAD: runs/tiny/validate/metrics.json" in capsys.readouterr().err


@pytest.fixture
def registry(tmp_path):
    from registries import Registry

    made = Registry(tmp_path / "project")
    made.folder.mkdir()
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("config", "user.email", "ann@example.org")
    made.git("config", "user.name", "Ann")
    import registries

    (made.folder / "params.yaml").write_text(registries.PARAMS)
    (made.folder / "recipe.py").write_text('"""A recipe."""\n')
    return made
