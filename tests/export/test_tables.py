"""A signature that takes texts and looks them up: tables and their files are part of the export."""

import io
import json
import subprocess
import sys
import types
from collections import deque
from functools import partial
from pathlib import Path

import datasets
import numpy as np
import pytest
import recipes
from chains import Chain
from trainings import Run

from tapeline.config.registry import CheckSettings
from tapeline.prediction import inputs
from tapeline.prediction.lines import Lines
from tapeline.prediction.sandboxed import Sandboxed
from tapeline.prediction.signature import Signature
from tapeline.registry.gate import probing
from tapeline.registry.gate.examples import Examples

LOOKUPS = {
    "keras": "self.look = {'up': keras.layers.StringLookup(vocabulary=['b', 'a'])}",
    "hash": (
        "self.look = {'up': tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer("
        "tf.constant(['b', 'a']), tf.constant([1, 2], tf.int64)), 0)}"
    ),
    "file": (
        "self.look = {'up': tf.lookup.StaticVocabularyTable(tf.lookup.TextFileInitializer(FILE, tf.string, "
        "tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), 1)}"
    ),
}
CALLS = {
    "keras": "self.look['up'](word)",
    "hash": "self.look['up'].lookup(word)",
    "file": "self.look['up'].lookup(word)",
}

SIGNATURES = """
    def served(self, data):
        return {"x": np.array([b"a", b"b", b"zz"] * 3)}

    def signatures(self):
        def serve(word):
            number = CALL
            row = tf.one_hot(tf.cast(number, tf.int32) % 2, 2)
            known = tf.strings.upper(word)
            return {"y": self.model(row, training=False), "number": number, "known": known}

        return {"serving_default": tf.function(serve, input_signature=[tf.TensorSpec((None,), tf.string, name="x")])}

"""
PREDICT = "    def predict(self"


def build(folder: Path, kind: str, *more: tuple[str, str]) -> Chain:
    """Train, validate and export a recipe that reads a table; the table's file is beside the folder."""
    words = folder.parent / "words.txt"
    words.write_text("b\na\n")
    head = "import keras, tensorflow as tf"
    edits = [
        (head, f"import keras, numpy as np, tensorflow as tf\nFILE = {str(words)!r}"),
        ("    def build(self):\n", f"    def build(self):\n        {LOOKUPS[kind]}\n"),
        (PREDICT, SIGNATURES.replace("CALL", CALLS[kind]) + PREDICT),
        ('"y"\n', "None\n"),
        *more,
    ]
    data = datasets.points(folder / "points").folder
    chain = Chain(Run(folder / "run", recipes.write(folder, recipes.LINE, *edits), data, epochs=1, batch_size=8)())
    chain.validate()
    chain.export()
    words.unlink()
    return chain


@pytest.mark.slow
def test_a_layer_that_leads_to_a_module_hides_no_table(tmp_path, tf):
    """Keras' Dropout keeps the module of its backend, and from there leads a way to all that the process has."""
    dropout = ("keras.layers.Dense(1)", "keras.layers.Dropout(0.1), keras.layers.Dense(1)")
    chain = build(tmp_path / "dropout", "keras", dropout)
    assert (chain.model / "saved_model" / "saved_model.pb").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOOKUPS)
def test_a_lookup_table_is_exported_and_texts_are_answered(tmp_path, tf, kind):
    chain = build(tmp_path / "made", kind)
    model = json.loads((chain.model / "model.json").read_text())
    assert model["own_inputs"] == ["x"], "x is a feature, and the model is given something else by this name"
    recorded = np.load(chain.validated / "predictions.npz")
    serve = tf.saved_model.load(str(chain.model / "saved_model")).signatures["serving_default"]
    taken = Signature.of(model["signatures"]["serving_default"]["inputs"], {})
    (tmp_path / "a.csv").write_text("x\na\nb\nzz\n")
    (tmp_path / "a.jsonl").write_text('"a"\n"b"\n{"x": "zz"}\n')
    np.save(tmp_path / "a.npy", np.array(["a", "b", "zz"]))
    for name in ("a.csv", "a.jsonl", "a.npy"):
        (piece,) = inputs.pieces([tmp_path / name], taken, 9)
        answers = serve(**{key: tf.constant(values) for key, values in piece.inputs.items()})
        assert np.array_equal(answers["number"], recorded["number"][:3]), name
    assert len(set(recorded["number"][:3].tolist())) == 3
    assert recorded["known"].tolist() == [b"A", b"B", b"ZZ"] * 3, "texts are answers like any other"

    file = io.BytesIO()
    lines = Lines(file, "csv")
    with Sandboxed(chain.model / "saved_model") as answer:
        lines.write(lines.render([piece], answer(piece.inputs, answer.outputs)))
    rows = file.getvalue().decode().splitlines()
    assert rows[0] == "file,row,known,number,y.0" and [row.split(",")[2] for row in rows[1:]] == ["A", "B", "ZZ"]


@pytest.mark.slow
def test_the_infra_check_of_a_model_of_texts(tmp_path, tf):
    chain = build(tmp_path / "made", "keras")
    model = json.loads((chain.model / "model.json").read_text())
    answer = probing.run(
        chain.model / "saved_model",
        model["signatures"],
        {},
        recorded=chain.validated / "predictions.npz",
        tolerance=1e-5,
        settings=CheckSettings(),
    )
    assert answer.failures == ()
    assert answer.predictions["known"].tolist() == [b"A", b"B", b"ZZ"] * 3


class Slotted:
    __slots__ = ("table",)

    def __init__(self, table):
        self.table = table


@pytest.mark.parametrize(
    "held", [lambda t: deque([t]), Slotted, lambda t: partial(str.upper, t), lambda t: {t}, lambda t: {"a": [(t,)]}]
)
def test_a_table_is_found_wherever_a_recipe_has_it(tf, held):
    """Training and validation found it everywhere: the export ended with an untracked resource."""
    from tapeline.export import tables

    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["b", "a"], [1, 2]), 0)
    read = tf.function(table.lookup).get_concrete_function(tf.TensorSpec((None,), tf.string))
    assert tables.read_by([read], types.SimpleNamespace(kept=held(table)), ()) == [table]


def test_tables_of_a_set_have_the_order_in_which_they_are_read(tf):
    from tapeline.export import tables

    every = [tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [n]), 0) for n in range(9)]
    read = tf.function(lambda word: [table.lookup(word) for table in every])
    concrete = read.get_concrete_function(tf.TensorSpec((None,), tf.string))
    assert tables.read_by([concrete], types.SimpleNamespace(kept=set(every)), ()) == every


PROGRAM = """
import json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[3])
from test_tables import build
build(Path(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", list(LOOKUPS))
def test_the_bytes_of_an_export_with_a_table_repeat(tmp_path, kind):
    here = Path(__file__).resolve()
    paths = [str(here.parent), str(here.parents[1] / "support"), str(here.parents[2] / "src")]
    files = []
    for name in ("one", "other"):
        folder = tmp_path / name / "made"
        folder.mkdir(parents=True)
        command = [sys.executable, "-c", PROGRAM, str(folder), kind, json.dumps(paths)]
        subprocess.run(command, check=True, timeout=300, capture_output=True)
        files.append(json.loads((folder / "run" / "model" / "model.json").read_text())["files"])
    assert files[0] == files[1]


def test_an_input_that_is_no_feature_is_not_fed_a_feature_of_its_name(tmp_path):
    signature = {"inputs": {"x": {}}}
    examples = Examples("0", "test", {"x": {}}, {"x": tmp_path / "x.npy"})
    assert examples.inputs(signature) == {"x": tmp_path / "x.npy"}
    assert examples.inputs(signature, ["x"]) is None, "the model's own warm-up requests are answered instead"
