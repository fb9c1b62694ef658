"""The name of a first dataset: one that every reader of YAML takes for text, and under which nothing is replaced."""

import pytest
import yaml

from tapeline.config.params import NAME
from tapeline.parsing import yaml_text
from tapeline.parsing.yaml_flow import yaml_flow
from tapeline.runtime.errors import InputError
from tapeline.scaffold.naming import check_apart, free_name
from tapeline.scaffold.proposal import name_of


@pytest.mark.parametrize(
    ("there", "text", "name"),
    [
        ((), "Old Houses", "old-houses"),
        (("data/photos/train",), "photos", "photos-data"),
        (("data/Photos/train",), "photos", "photos-data"),
        (("data/photos", "models/photos-data", "runs/photos-data-2"), "photos", "photos-data-3"),
        (("serving/photos",), "photos", "photos-data"),
        ((), "raw", "raw-data"),
        (("data/raw",), "Raw", "raw-data"),
        (("data/data",), "data", "data-data"),
    ],
)
def test_a_name_is_taken_where_a_stage_would_replace_what_is_there(tmp_path, there, text, name):
    for place in there:
        (tmp_path / place).mkdir(parents=True)
    found, said = free_name(tmp_path, text)
    assert found == name
    assert [line.partition(":")[0] for line in said] == (
        [] if found == name_of(text) else [f"the dataset is called '{name}'"]
    )


def test_a_link_to_nothing_and_a_file_are_not_replaced_either(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/photos").symlink_to("nowhere")
    (tmp_path / "data/photos-data").write_text("mine")
    assert free_name(tmp_path, "photos")[0] == "photos-data-2"


@pytest.mark.parametrize("place", [".", "data", "runs", "recipes", ".."])
def test_data_into_which_something_is_written_are_refused(tmp_path, place):
    folder = tmp_path / "p"
    folder.mkdir()
    with pytest.raises(InputError, match="which Tapeline writes: move the data to data/raw/NAME"):
        check_apart(folder, (folder / place).resolve(), [folder / "recipes/a.py"])


def test_data_beside_what_is_written_are_not_refused(tmp_path):
    for place in ("data/photos", "data/raw", "photos", "models/photos", "recipes/a"):
        check_apart(tmp_path, tmp_path / place, [tmp_path / "recipes/a.py"])


TEXTS = [
    "2024",
    "null",
    "true",
    "1e3",
    "0x10",
    "0o7",
    "0b11",
    "010",
    "写真 (1)",
    "2024-01-02",
    "On",
    "no",
    "y",
    "3d",
    "写真",
]


@pytest.mark.parametrize("text", TEXTS)
def test_every_reader_of_yaml_takes_a_name_for_text(text):
    name = name_of(text)
    assert NAME.fullmatch(name)
    assert yaml_text.parsed(f"{name}: {name}") == yaml.safe_load(f"{name}: {name}") == {name: name}
    assert yaml.safe_load(yaml_flow([name])) == [name]


@pytest.mark.parametrize("text", ["\x7f", "a\x85b", "\u2028", "\ufeff", 'q: "[1]"', "no", "ä ö", "\t"])
def test_a_text_is_the_same_after_yaml(text):
    assert yaml_text.parsed(yaml_flow({text: [text]})) == {text: [text]}
