"""What a `dvc.lock` records about a pipeline: the dataset and no other input, and no path out of a wrong hash."""

import pytest

from tapeline.repository.recorded import Recorded
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
    assert Recorded.read(LOCK, "tiny", name="main", cache=tmp_path).training_data() == f"{MD5}.dir"
    assert Recorded.read(LOCK, "other", name="main", cache=tmp_path).training_data() is None


@pytest.mark.parametrize("wrong", ["../../../etc/passwd", "", "A" * 32, "a" * 31, "a" * 32 + ".dirs"])
def test_a_hash_that_is_none_becomes_no_path(tmp_path, wrong):
    record = Recorded.read(LOCK.replace(f"md5: {MD5}}}", f"md5: '{wrong}'}}"), "tiny", name="main", cache=tmp_path)
    with pytest.raises(
        InputError, match=r"dvc.lock of main: runs/tiny/validate/metrics.json has '.*', which is not an MD5"
    ):
        record.metrics()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("stages: [", "dvc.lock of main was truncated or altered"),
        ("stages: 3", "no stages"),
        ("stages: {train@tiny: 3}", "the stage train@tiny is not a mapping"),
        ("stages: {train@tiny: {outs: 3}}", "outs of train@tiny are not a list"),
        ("stages: {train@tiny: {deps: [{md5: x}]}}", "one of deps of train@tiny has no path"),
        ("stages: {train@tiny: {params: [a]}}", "params of train@tiny are not values by key"),
    ],
)
def test_an_altered_lock_is_one_line_with_the_reason(content, reason):
    with pytest.raises(InputError, match="`tapeline repair` restores the committed one") as refusal:
        Recorded.read(content, "tiny", name="main")
    assert reason in str(refusal.value) and "\n" not in str(refusal.value)


def test_an_empty_lock_records_nothing():
    recorded = Recorded.read("", "tiny", name="main")
    assert (recorded.chain(), recorded.metrics(), recorded.dataset) == ([], {}, None)
    with pytest.raises(InputError, match="records no models/tiny of export@tiny"):
        assert recorded.model
