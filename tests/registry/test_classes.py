"""Two models with other class lists: a class is the one of its name, whatever its id is in either dataset."""

import json

import numpy as np
import pytest
from registries import Registry

from tapeline.config.registry import GateSettings
from tapeline.config.validate import Bound
from tapeline.registry.gate import classes, decision
from tapeline.registry.gate.decision import Contender
from tapeline.registry.gate.measures import Target
from tapeline.registry.gate.verdict import Verdict
from tapeline.registry.sentences import sentence
from tapeline.runtime.errors import InputError

OLD, NEW = ("bat", "cat", "dog"), ("ant", "bat", "cat", "dog")


def answers(ids, count):
    chosen = np.array(ids, np.int64)
    return {"class": chosen, "probabilities": np.eye(count, dtype=np.float32)[chosen], "x": chosen}


def test_ids_and_columns_are_put_in_their_place_by_name():
    found = classes.aligned(answers([0, 1, 2], 3), OLD, NEW)
    assert found["class"].tolist() == [1, 2, 3] and found["class"].dtype == np.int64
    np.testing.assert_array_equal(found["probabilities"], np.eye(4)[[1, 2, 3]])
    assert found["x"].tolist() == [0, 1, 2]


def test_a_class_that_is_no_more_is_never_right_and_keeps_its_probability():
    found = classes.aligned(answers([0, 3], 4), NEW, ("dog", "bat"))
    assert found["class"].tolist() == [2, 0]
    np.testing.assert_array_equal(found["probabilities"], np.eye(4)[[2, 0]])
    measured = Target("label", np.array([1, 0]), ("dog", "bat")).metrics(found)
    assert (measured["accuracy"], measured["calibration_error"]) == (0.5, 0.5)


def test_the_same_classes_leave_the_answers_as_they_are():
    given = {"class": np.array([7])}
    assert classes.aligned(given, OLD, OLD) == given and list(classes.changes(OLD, OLD, "v1")) == []


def test_what_is_not_of_the_classes():
    with pytest.raises(InputError, match="it answers class 3, and its dataset has 3 classes"):
        classes.aligned({"class": np.array([3])}, OLD, NEW)
    with pytest.raises(InputError, match="it answers 2 probabilities, and its dataset has 3 classes"):
        classes.aligned({"class": np.array([1]), "probabilities": np.ones((1, 2))}, OLD, NEW)


def test_how_they_differ_is_said():
    assert list(classes.changes(OLD, NEW, "a@v1")) == [
        "classes that a@v1 does not know, so it cannot be right there: ant"
    ]
    assert list(classes.changes(NEW, OLD, "a@v1")) == ["classes of a@v1 that the test data no longer has: ant"]
    assert list(classes.changes(OLD, OLD[::-1], "a@v1")) == [
        "classes are in another order than those of a@v1: compared by name"
    ]


def test_the_label_is_that_of_the_name_or_the_only_one():
    features = {"image": {"shape": [1]}, "kind": {"classes": ["a"]}}
    assert classes.label(features, "kind") == classes.label(features, "label") == ("a",)
    assert classes.label({**features, "size": {"classes": ["b"]}}, "label") is None


def test_the_bins_are_those_of_validate():
    labels, given = np.array([0, 0, 1, 1]), {"class": np.zeros(4, int)}
    given["probabilities"] = np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    errors = [Target("label", labels, ("a", "b"), bins).metrics(given)["calibration_error"] for bins in (1, 10)]
    assert errors == pytest.approx([0.25, 0.35])


def test_answers_that_are_not_finite_are_a_no_that_is_kept_as_null(tmp_path):
    given = {"class": np.zeros(4, np.int64), "probabilities": np.full((4, 2), 0.5)}
    given["probabilities"][1:3] = np.nan
    settings = GateSettings(bounds={"calibration_error": Bound(max=1.0)}, paired=None)
    target = Target("label", np.zeros(4, int), ("a", "b"))
    found = decision.judge(settings, Contender("v2", {}, given), None, target, {})
    assert found[0] == {
        "kind": "infra",
        "said": "v2 fails: probabilities is not finite for 2 of 4 examples",
        "holds": False,
    }
    verdict = Verdict("one", "v2", "prod", None, {}, tuple(found), {})
    kept = json.loads(verdict.write(tmp_path).read_text())
    assert kept["verdict"] == "no" and [sentence(check) for check in kept["checks"]] == [
        sentence(check) for check in found
    ]


INGEST = """
import json, sys
from pathlib import Path
import numpy as np

names, data = json.loads(Path("classes.json").read_text()), Path("data", "points")
(data / "test").mkdir(parents=True)
label = np.repeat(np.arange(len(names)), 50)
known = {name: place for place, name in enumerate(["ant", "bat", "cat", "dog"])}
np.save(data / "test" / "x.npy", np.array([known[names[kind]] for kind in label], np.float32)[:, None])
np.save(data / "test" / "label.npy", label)
features = {"x": {"shape": [1], "dtype": "float32"}, "label": {"shape": [], "dtype": "int64", "classes": names}}
columns = {name: {"file": f"test/{name}.npy"} for name in features}
index = {"name": "points", "source": {"kind": "test"}, "features": features}
(data / "dataset.json").write_text(json.dumps({**index, "splits": {"test": {"examples": len(label), "columns": columns}}}))
"""
VALIDATE = """
import json, sys
from pathlib import Path
import numpy as np

count, wrong = len(json.loads(Path("classes.json").read_text())), int(sys.argv[3])
label = np.repeat(np.arange(count), 50)
Path("runs/one/validate").mkdir(parents=True, exist_ok=True)
np.savez("runs/one/validate/predictions.npz", **{"class": np.where(label < wrong, (label + 1) % count, label)})
"""
EXPORT = """
import json, sys
from pathlib import Path
import numpy as np, tensorflow as tf

names, wrong = json.loads(Path("classes.json").read_text()), int(sys.argv[3])
known = {name: place for place, name in enumerate(["ant", "bat", "cat", "dog"])}
table = tf.constant([names.index(name) if name in names else 0 for name in known], tf.int64)

@tf.function(input_signature=[tf.TensorSpec((None, 1), tf.float32, name="x")])
def serve(x):
    kind = tf.gather(table, tf.cast(x[:, 0], tf.int32))
    return {"class": tf.where(kind < wrong, (kind + 1) % len(names), kind)}

folder = Path("models/one/saved_model")
tf.saved_model.save(tf.Module(), str(folder), signatures=serve.get_concrete_function())
spec = {"inputs": {"x": {"dtype": "float32", "shape": [None, 1]}}, "outputs": {"class": {"dtype": "int64", "shape": [None]}}}
described = {"name": "one", "dataset": {"name": "points", "sha256": "0", "source": {"kind": "test"}}, "files": {}}
described |= {"metrics": {}, "signatures": {"serving_default": spec}}
(folder.parent / "model.json").write_text(json.dumps(described))
"""


@pytest.mark.long
def test_a_class_that_sorts_first_does_not_let_a_worse_model_through(tmp_path):
    """The champion is right on every class that it knows; the challenger is wrong on two of four."""
    made = Registry.make(tmp_path / "project")
    (made.folder / "ingest.py").write_text(INGEST)
    (made.folder / "export.py").write_text(EXPORT)
    (made.folder / "validate.py").write_text(VALIDATE)
    pipeline = made.folder / "dvc.yaml"
    text = pipeline.read_text().replace("python make.py ingest ${key} 0", "python ingest.py")
    text = text.replace("deps: [make.py]", "deps: [ingest.py, classes.json]").replace("make.py export", "export.py x")
    text = text.replace("make.py validate", "validate.py x")
    pipeline.write_text(text)
    params = made.folder / "params.yaml"
    gated = "prod: {gate: true, check: false}\n  models: {one: {gate: {change: {accuracy: {min: 0}}, paired: null}}}"
    params.write_text(params.read_text().replace("prod: {gate: false, check: false}", gated))
    for names, wrong in ((OLD, 0), (NEW, 2)):
        (made.folder / "classes.json").write_text(json.dumps(names))
        made.build(wrong)
        made("registry", "register", "one")
        if not wrong:
            made("registry", "promote", "one", "prod")
    said = made("registry", "promote", "one", "prod", status=1).stdout
    assert "change of accuracy is -0.25 (0.75 → 0.5), must be at least 0" in said
    assert "classes that one@v1.0.0 does not know, so it cannot be right there: ant" in said
    (made.folder / "classes.json").write_text(json.dumps(NEW[:3]))
    made.build(0)
    made("registry", "register", "one")
    said = made("registry", "promote", "one", "prod").stdout
    assert "classes of one@v1.0.0 that the test data no longer has: dog" in said
    assert "change of accuracy is +0.333333 (0.666667 → 1)" in said
