"""A model in a folder: what it was made of is read from its description."""

import json

import pytest

from tapeline.prediction.verified_model import VerifiedModel
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

COLUMNS = {"x": ["length", "width"], "y": ["kind"]}


def exported(folder, source, shape=(None, 2), *, name="x", **more):
    """Write what export writes, with a model that nobody loads here. name: the input's."""
    (folder / "saved_model").mkdir(parents=True)
    (folder / "saved_model" / "saved_model.pb").write_bytes(b"model")
    x, y = {"dtype": "float32", "shape": list(shape)}, {"dtype": "int64", "shape": [None]}
    described = {
        "dataset": {"name": "kinds", "sha256": "0", "source": source},
        "metrics": {},
        "files": {"saved_model/saved_model.pb": files.sha256(folder / "saved_model" / "saved_model.pb")},
        "signatures": {"serving_default": {"inputs": {name: x}, "outputs": {"class": y}}},
        **more,
    }
    (folder / "model.json").write_text(json.dumps(described))
    return folder


def test_a_table_s_columns_are_those_of_its_feature(tmp_path):
    folder = exported(tmp_path / "model", {"kind": "table", "name": "kinds.csv", "columns": COLUMNS})
    assert VerifiedModel.at(folder).signature.columns == {"x": ["length", "width"]}


@pytest.mark.parametrize(
    ("source", "more"),
    [
        ({"kind": "builder", "name": "kinds"}, {}),
        ({"kind": "table", "columns": {"x": ["length"], "y": ["kind"]}}, {}),  # the recipe serves another x
        ({"kind": "table", "columns": COLUMNS}, {"own_inputs": ["x"]}),  # as here, of the same shape
        ({"kind": "table", "columns": {"y": ["kind"]}}, {}),
    ],
)
def test_what_is_no_feature_of_a_table_has_numbered_columns(tmp_path, source, more):
    found = VerifiedModel.at(exported(tmp_path / "model", source, **more))
    assert found.signature.columns == {"x": ["x.0", "x.1"]}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            {"kind": "table", "name": "kinds.csv"},
            "model.json does not name the table columns of kinds: export it again",
        ),
        ({"kind": "table", "columns": {"x": "length"}}, "is not a description of a model, so it was altered"),
    ],
)
def test_a_table_without_its_columns_is_not_guessed_at(tmp_path, source, said):
    with pytest.raises(InputError, match=said):
        VerifiedModel.at(exported(tmp_path / "model", source))


@pytest.mark.parametrize(
    ("source", "name", "more", "resized"),
    [
        ({"kind": "images", "name": "pets"}, "image", {}, {"image"}),
        ({"kind": "images", "name": "pets"}, "image", {"own_inputs": ["image"]}, set()),  # ingest did not make these
        ({"kind": "images", "name": "pets"}, "x", {}, set()),
        ({"kind": "dataset", "name": "pets", "made_of": "images"}, "image", {}, {"image"}),
        ({"kind": "dataset", "name": "pets"}, "image", {}, set()),
        ({"kind": "builder", "name": "pets"}, "image", {}, set()),  # who knows how it has resized them
    ],
)
def test_images_are_resized_where_ingest_did_it(tmp_path, source, name, more, resized):
    folder = exported(tmp_path / "model", source, (None, 8, 8, 3), name=name, **more)
    assert VerifiedModel.at(folder).signature.resized == resized
