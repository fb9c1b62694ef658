"""Train, validate and export a small classifier: the files, the refusals, the bytes."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pytest
import recipes
from chains import Chain
from disks import files_of_at_most, folders_of_one, in_a_group
from trainings import Run

from tapeline.runtime.errors import InputError, RunError, VerdictNo


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tf):
    folder = tmp_path_factory.mktemp("chain")
    data = datasets.blobs(folder / "blobs")
    recipe = recipes.write(folder, recipes.EVERYTHING)
    return Run(folder, recipe, data.folder, epochs=6, batch_size=16)()


@pytest.fixture
def chain(trained, tmp_path):
    """The same weights in a folder of the test's own."""
    shutil.copytree(trained.folder, tmp_path, dirs_exist_ok=True)
    return Chain(Run(tmp_path, tmp_path / "recipe.py", tmp_path / "blobs", epochs=6, batch_size=16))


def test_metrics_plots_predictions_and_verdict(chain, trained):
    metrics = chain.validate(accuracy={"min": 0.0})
    predictions = np.load(chain.validated / "predictions.npz")
    label = np.load(trained.dataset / "test" / "label.npy")
    assert metrics["accuracy"] == np.mean(predictions["class"] == label)
    assert metrics["classes"].keys() == {"0", "1", "2"}
    assert np.sum(metrics["confusion"]["counts"]) == len(label) == 31
    assert sorted(path.name for path in (chain.validated / "plots").iterdir()) == ["calibration.csv", "confusion.csv"]
    assert json.loads((chain.validated / "verdict.json").read_text())["verdict"] == "yes"


def test_the_model_answers_in_a_process_of_tensorflow_alone(chain):
    chain.validate()
    model = chain.export()
    assert model["signatures"]["serving_default"]["inputs"] == {"image": {"dtype": "uint8", "shape": [None, 8, 8, 1]}}
    assert set(model) >= {"name", "dataset", "files", "metrics", "run", "signatures", "verdict"}
    assert "commit" not in json.dumps(model)
    program = (
        "import sys, numpy as np, tensorflow as tf\n"
        f"serve = tf.saved_model.load({str(chain.model / 'saved_model')!r}).signatures['serving_default']\n"
        f"recorded = np.load({str(chain.validated / 'predictions.npz')!r})\n"
        f"images = np.load({str(chain.run.dataset / 'test' / 'image.npy')!r})\n"
        "for count in (0, 1, 31):\n"
        "    answer = serve(image=tf.constant(images[:count]))\n"
        "    assert (answer['class'].numpy() == recorded['class'][:count]).all()\n"
        "    assert np.abs(answer['probabilities'].numpy() - recorded['probabilities'][:count]).max(initial=0) < 1e-5\n"
        "assert 'tapeline' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-I", "-c", program], check=True, timeout=120)


@pytest.mark.slow
def test_pairs_of_many_classes_are_not_counted(tmp_path, tf, capfd):
    numbers = {"train": 320, "val": 20, "test": 310}
    columns = {}
    for split, count in numbers.items():
        label = np.arange(count) % 301
        columns[split] = {"x": np.stack([label, label], 1).astype(np.float32), "label": label}
    names = [f"kind {number}" for number in range(301)]
    data = datasets.write(tmp_path / "many", columns, {"label": names})
    source = recipes.EVERYTHING.replace('"image"', '"x"').replace("keras.Input((8, 8, 1))", "keras.Input((2,))")
    source = source.replace("if training:\n            image = ", "if False:\n            image = ").replace(
        "Dense(3,", "Dense(301,"
    )
    (tmp_path / "recipe.py").write_text(source)
    chain = Chain(Run(tmp_path, tmp_path / "recipe.py", data.folder, epochs=1, batch_size=16)())
    metrics, said = chain.validate(), capfd.readouterr().out
    assert metrics["confusion"] == {"classes": names} and len(metrics["classes"]) == 301
    note = "note: metrics.json counts no pairs of more than 300 classes: plots/confusion.csv has each example"
    assert note in said.splitlines()
    assert len((chain.validated / "plots" / "confusion.csv").read_text().splitlines()) == 311
    assert chain.export()["metrics"]["confusion"] == {"classes": names}


@pytest.mark.slow
def test_a_model_that_answers_in_bfloat16_is_exported(chain):
    source = chain.run.recipe.read_text()
    chain.run.recipe.write_text(source.replace("tf.nn.softmax(logits)", "tf.cast(tf.nn.softmax(logits), tf.bfloat16)"))
    chain.validate()
    assert np.load(chain.validated / "predictions.npz")["probabilities"].dtype == np.float32
    model = chain.export()
    assert model["signatures"]["serving_default"]["outputs"]["probabilities"]["dtype"] == "bfloat16"


def test_a_metric_with_a_name_of_validates_own_is_refused(chain):
    source = chain.run.recipe.read_text()
    assert '"accuracy":' in source
    chain.run.recipe.write_text(source.replace('"accuracy":', '"macro_recall":'))
    with pytest.raises(InputError, match="metrics.json has validate's own macro_recall under that name"):
        chain.validate()


def test_a_verdict_of_no_exports_nothing_and_keeps_the_old_model(chain):
    chain.validate()
    chain.export()
    before = {path: path.read_bytes() for path in chain.model.rglob("*") if path.is_file()}
    metrics = chain.validate(accuracy={"min": 1.01}, loss={"max": 1000})
    with pytest.raises(VerdictNo) as raised:
        chain.export()
    assert str(raised.value) == f"blobs is not exported: accuracy is {metrics['accuracy']:.6g}, below its minimum 1.01"
    assert before == {path: path.read_bytes() for path in chain.model.rglob("*") if path.is_file()}


def test_no_old_verdict_stands_beside_the_metrics_of_a_validation_that_was_stopped(chain):
    """A model with verdict "no" was exported by the "yes" of the one before."""
    chain.validate()
    (chain.validated / "metrics.json").unlink()
    (chain.validated / "metrics.json").mkdir()
    with pytest.raises(IsADirectoryError):
        chain.validate(accuracy={"min": 1.01})
    with pytest.raises(InputError, match=r"verdict\.json is missing: run `tapeline validate"):
        chain.export()


def test_answers_that_are_no_numbers_are_a_no_and_are_recorded_as_null(chain):
    answer = '"probabilities": tf.nn.softmax(logits)'
    broken = '"probabilities": tf.where(inputs["image"][:, 0, :3, 0] == 4, float("nan"), tf.nn.softmax(logits))'
    chain.run.recipe.write_text(chain.run.recipe.read_text().replace(answer, broken))
    metrics = chain.validate()
    wrong = np.any(np.load(chain.run.dataset / "test" / "image.npy")[:, 0, :3, 0] == 4, axis=1).sum()
    assert 0 < wrong < 31 and metrics["calibration_error"] is None
    said = f"probabilities is not finite for {wrong} of 31 examples"
    assert json.loads((chain.validated / "verdict.json").read_text())["reason"] == said
    with pytest.raises(VerdictNo, match=f"blobs is not exported: {said}"):
        chain.export()
    chain.validate(calibration_error={"max": 1.0})
    verdict = json.loads((chain.validated / "verdict.json").read_text())
    assert verdict["reason"] == f"{said}; calibration_error is nan, above its maximum 1"
    assert verdict["checks"][0]["value"] is None


@pytest.mark.slow
def test_a_model_that_answers_otherwise_is_not_exported(chain):
    chain.validate()
    file = chain.validated / "predictions.npz"
    recorded = dict(np.load(file))
    recorded["probabilities"][3, 1] += 3e-5
    np.savez(file, **recorded)
    with pytest.raises(RunError, match="the exported model failed its check: probabilities differs by (2.99|3)"):
        chain.export()
    assert not chain.model.exists()
    chain.export(tolerance=1e-3)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda c: shutil.rmtree(c.run.out / "weights"), "has no weights: run `tapeline train"),
        (
            lambda c: (c.run.out / "weights" / "weights.index").write_bytes(b""),
            "weights.index was truncated or altered",
        ),
        (
            lambda c: (c.run.dataset / "test" / "image.npy").unlink(),
            "image.npy is missing: run `tapeline ingest blobs`",
        ),
        (lambda c: flip(c.run.dataset / "test" / "image.npy"), "image.npy was altered"),
        (lambda c: cut(c.run.dataset / "train" / "label.npy"), "label.npy has"),
        (lambda c: (c.run.dataset / "dataset.json").write_text("{"), "is not JSON, so it was truncated or altered"),
        (lambda c: c.run.recipe.write_text(c.run.recipe.read_text().replace("Dense(16", "Dense(17")), "train again"),
        (
            lambda c: c.run.recipe.write_text(c.run.recipe.read_text().replace('"class":', '"klass":')),
            "must return class",
        ),
        (
            lambda c: c.run.recipe.write_text(
                c.run.recipe.read_text().replace(
                    '{"class": tf.argmax(logits, -1)', '{"class": tf.argmax(logits, -1) - 1'
                )
            ),
            "predict returns the class -1 for ",
        ),
        (
            lambda c: c.run.recipe.write_text(
                c.run.recipe.read_text().replace("tf.nn.softmax(logits)", "logits[:, :1]")
            ),
            "predict returns `probabilities` of shape (31, 1): it must be (31, 3), one for each of the classes of 'label'",
        ),
    ],
)
def test_missing_and_altered_inputs(chain, damage, said):
    damage(chain)
    with pytest.raises(InputError) as raised:
        chain.validate()
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not chain.validated.exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:(?s).*tf.lite.Interpreter is deprecated:UserWarning")
def test_litert_files_with_their_measured_accuracy(chain, tf):
    recorded = chain.validate()
    model = chain.export(litert=("float32", "int8"))
    sizes = {name: (chain.model / "litert" / f"{name}.tflite").stat().st_size for name in model["litert"]}
    assert sizes == {name: entry["bytes"] for name, entry in model["litert"].items()}
    assert sizes.keys() == {"float32", "int8"} and sizes["int8"] < sizes["float32"]
    assert model["litert"]["float32"]["accuracy"] == recorded["accuracy"]
    assert model["litert"]["float32"]["largest_difference.probabilities"] < 1e-5
    assert abs(model["litert"]["int8"]["accuracy"] - recorded["accuracy"]) < 0.1
    assert {"litert/float32.tflite", "litert/int8.tflite"} < model["files"].keys()
    runner = tf.lite.Interpreter(str(chain.model / "litert" / "int8.tflite")).get_signature_runner("serving_default")
    images, labels = (np.load(chain.run.dataset / "test" / f"{name}.npy") for name in ("image", "label"))
    assert model["litert"]["int8"]["accuracy"] == np.mean(runner(image=images)["class"] == labels)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:(?s).*tf.lite.Interpreter is deprecated:UserWarning")
def test_a_column_of_one_number_is_measured_against_its_own_example(tmp_path, tf):
    columns = {split: datasets.points(tmp_path / "columns").columns(split) for split in ("train", "val", "test")}
    numbers = {split: {"x": found["x"], "y": found["y"][:, 0]} for split, found in columns.items()}
    data = datasets.write(tmp_path / "numbers", numbers)
    recipe = recipes.write(tmp_path, recipes.LINE, ('batch["y"] -', 'batch["y"][:, None] -'))
    chain = Chain(Run(tmp_path, recipe, data.folder, epochs=9, batch_size=8)())
    recorded, model = chain.validate(), chain.export(litert=("float32",))
    assert model["signatures"]["serving_default"]["outputs"]["y"]["shape"] == [None, 1]
    measured = model["litert"]["float32"]["mean_absolute_error"]
    assert measured == pytest.approx(recorded["mean_absolute_error"], rel=1e-4) and measured < 0.05


def test_answers_of_another_shape_than_the_target_are_refused(tf):
    from tapeline.export import litert

    answers = {"y": np.zeros((3, 2), np.float32)}
    with pytest.raises(InputError, match=r"its LiteRT file's y has the shape \(2,\), the target \(\)$"):
        litert.measured(answers, answers, np.zeros(3, np.float32), "y")
    classes = {"class": np.array([[0], [1], [1]])}
    assert litert.measured(classes, classes, np.array([0, 1, 0]), "label")["accuracy"] == pytest.approx(2 / 3)


def test_what_refuses_an_empty_batch_answers_it(tf):
    """Which kernels refuse one depends on the CPU; this function does on each."""
    import keras

    from tapeline.export import empty_batches

    convolutions = [keras.layers.Conv2D(4, 3, padding="same", use_bias=False) for _ in range(2)]
    model = keras.Sequential([keras.Input((8, 8, 1)), *convolutions, keras.layers.BatchNormalization()])
    specs = [tf.TensorSpec((None, 8, 8, 1), tf.uint8, name="image"), tf.TensorSpec((None,), tf.string, name="name")]

    def serve(image, name):
        tf.debugging.assert_greater(tf.shape(image)[0], 0)
        return {"x": model(tf.cast(image, tf.float32), training=False), "name": name, "count": tf.constant(3)}

    serve = tf.function(serve, input_signature=specs)
    with pytest.raises(tf.errors.InvalidArgumentError):
        serve(tf.zeros([0, 8, 8, 1], tf.uint8), tf.fill([0], "a"))
    answering = empty_batches.answering(serve)
    for count in (0, 1, 5):
        images, names = tf.fill([count, 8, 8, 1], tf.constant(9, tf.uint8)), tf.fill([count], "a")
        found = answering(images, names)
        assert found["x"].shape == (count, 8, 8, 4) and found["name"].shape == (count,) and found["count"] == 3
        if count:
            assert np.array_equal(found["x"], serve(images, names)["x"])
    assert [spec.name for spec in answering.input_signature] == ["image", "name"]
    fixed = tf.function(lambda image: {"x": image}, input_signature=[tf.TensorSpec((2, 3), name="image")])
    assert empty_batches.answering(fixed) is fixed


NUMBERS = """
    def served(self, data):
        return {"row": np.array([b"1.5", b"2", b"3"] * 3)}

    def signatures(self):
        def serve(row):
            number = tf.strings.to_number(row)
            return {"y": self.model(tf.stack([number, number], 1), training=False)}

        return {"serving_default": tf.function(serve, input_signature=[tf.TensorSpec((None,), tf.string, name="row")])}

    def predict("""


@pytest.mark.slow
def test_a_signature_that_refuses_an_empty_text_answers_an_empty_batch_by_itself(tmp_path, tf):
    """It was given one empty text in its place, and failed: the gate let no version pass."""
    data = datasets.points(tmp_path / "points").folder
    head = ("import keras, ", "import keras, numpy as np, ")
    recipe = recipes.write(tmp_path, recipes.LINE, head, ('"y"\n', "None\n"), ("\n    def predict(", NUMBERS))
    chain = Chain(Run(tmp_path, recipe, data, epochs=1, batch_size=8)())
    chain.validate()
    chain.export()
    serve = tf.saved_model.load(str(chain.model / "saved_model")).signatures["serving_default"]
    assert [serve(row=tf.fill([count], "2.5"))["y"].shape for count in (0, 3)] == [(0, 1), (3, 1)]


def test_the_saved_model_keeps_examples_for_warming_up(chain, tf):
    from tapeline.runtime.untuned import untuned

    chain.validate()
    model = chain.export(examples=7)
    file = "saved_model/assets.extra/tf_serving_warmup_requests"
    assert model["files"].keys() > {file}
    assert len(list(untuned(tf.data.TFRecordDataset(str(chain.model / file))))) == 7


@pytest.mark.slow
def test_every_folder_of_a_model_is_the_groups_where_the_umask_says_so(chain):
    chain.validate()
    chain.model = chain.folder / "shared" / "model"
    with in_a_group(chain.model.parent):
        chain.export()
    assert (chain.model / "saved_model" / "variables").is_dir()
    assert not folders_of_one(chain.model.parent)
    assert all(path.stat().st_mode & 0o777 == 0o664 for path in chain.model.rglob("*") if path.is_file())


@pytest.mark.parametrize("size", [100, 5000])
def test_a_disk_without_room_for_the_model_is_said_with_the_file(chain, size):
    chain.validate()
    with files_of_at_most(size), pytest.raises(OSError, match="File too large") as raised:
        chain.export()
    assert "/saved_model/" in raised.value.filename
    assert not chain.model.exists()


@pytest.mark.slow
def test_a_model_that_answers_text_too(chain):
    recipe = chain.run.recipe
    named = """
    def predict(self, inputs):
        found = self.plain(inputs)
        return {**found, "name": tf.gather(tf.constant(["null", "eins", "zwölf"]), found["class"])}
"""
    recipe.write_text(recipe.read_text().replace("def predict(", "def plain(").rstrip() + "\n" + named)
    chain.validate()
    recorded = np.load(chain.validated / "predictions.npz")
    assert {name.decode() for name in recorded["name"]} == {"null", "eins", "zwölf"}
    model = chain.export()
    assert model["signatures"]["serving_default"]["outputs"]["name"] == {"dtype": "string", "shape": [None]}
    altered = {name: recorded[name] for name in recorded.files}
    altered["name"][0] = b"another"
    np.savez(chain.validated / "predictions.npz", **altered)
    with pytest.raises(RunError, match="name "):
        chain.export()


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


PROGRAM = """
import json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[2])
from chains import Chain
from trainings import Run
folder = Path(sys.argv[1])
run = Run(folder, folder / "recipe.py", folder / "blobs", epochs=6, batch_size=16)
run()
chain = Chain(run)
chain.validate()
chain.export()
"""


@pytest.mark.long
def test_the_same_bytes_whatever_the_hash_seed_the_place_and_the_locale(trained, tmp_path):
    here = Path(__file__).resolve()
    paths = [str(here.parent), str(here.parents[1] / "support"), str(here.parents[2] / "src")]
    outs = []
    for name, changes in {
        "plain": {"PYTHONHASHSEED": "1"},
        "ordner mit ö": {"PYTHONHASHSEED": "77", "TZ": "Asia/Tokyo", "LC_ALL": "C", "HOME": str(tmp_path)},
    }.items():
        folder = tmp_path / name
        shutil.copytree(trained.dataset, folder / "blobs")
        shutil.copy(trained.recipe, folder)
        command = [sys.executable, "-c", PROGRAM, str(folder), json.dumps(paths)]
        subprocess.run(command, check=True, env={**os.environ, **changes}, timeout=250)
        outs.append(
            {
                p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
                for part in ("out", "validate", "model")
                for p in sorted((folder / part).rglob("*"))
                if p.is_file()
            }
        )
    assert outs[0] == outs[1]
