"""Datasets whose output would replace what a dataset needs are mistakes of `params.yaml`."""

import pytest

from tapeline.config.params import Params
from tapeline.config.places import overlap, overlaps
from tapeline.runtime.errors import InputError


def test_raw_data_beside_the_output_and_another_dataset_as_a_whole_are_fine(tmp_path):
    assert overlaps(tmp_path, {"a": "data/raw/a.csv", "b": "data/a", "c": "c.csv", "d": "../data/d", "ab": "ab"}) == {}


@pytest.mark.parametrize("needs", ["data/a", "data/a/", "./data/b/../a", "data/a/raw/x.csv", "linked", "linked/x.csv"])
def test_what_is_needed_in_the_own_output(tmp_path, needs):
    (tmp_path / "linked").symlink_to("data/a")
    said = overlap("a", needs, tmp_path, tmp_path / "data" / "a")
    assert said.startswith(f"dataset 'a' needs {needs}, ") and "its own output, which ingest would replace" in said


@pytest.mark.parametrize("needs", [".", "data", ".."])
def test_an_output_in_what_is_needed(tmp_path, needs):
    said = overlap("a", needs, tmp_path, tmp_path / "data" / "a")
    assert said.startswith(f"dataset 'a' needs {needs}, but its own output, data/a, is in there")


def test_the_mistake_is_that_of_the_dataset_whose_output_it_is(tmp_path):
    (tmp_path / "params.yaml").write_text(
        "datasets:\n"
        "  raw: {source: table, needs: raw.csv, features: {x: x}}\n"
        "  line: {source: table, needs: data/raw/line.csv, features: {x: x}}\n"
        "pipelines: {}\n"
    )
    said = (
        "params.yaml: dataset 'raw' is written to data/raw, which ingest would replace, but dataset 'line' needs "
        "data/raw/line.csv: rename dataset 'raw', or move what is in data/raw to another place"
    )
    with pytest.raises(InputError) as caught:
        Params.load(tmp_path)
    assert str(caught.value) == said
    params, mistakes = Params.sound(tmp_path)
    assert list(params.datasets) == ["line"] and mistakes == {"datasets.raw": said}
    with pytest.raises(InputError) as caught:
        Params.load_for(tmp_path, dataset="raw")
    assert str(caught.value) == said
