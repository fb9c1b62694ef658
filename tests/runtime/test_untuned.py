"""No iterator of tf.data may be made with autotuning on, whose thread holds the iterator's end."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "flows", "gallery", "benchmarks", "tests")
AS_ADVISED = {"benchmarks/peers/tfds_pipeline.py", "benchmarks/ingesting.py"}
"""Peers that are measured as their guides advise, with `tf.data.AUTOTUNE`."""

MAKERS = {
    "as_dataset", "as_numpy", "image_dataset_from_directory", "text_dataset_from_directory",
    "audio_dataset_from_directory", "timeseries_dataset_from_array", "make_csv_dataset",
}  # fmt: skip
"""What makes a dataset or an iterator without naming `tf.data`."""


def dotted(node):
    """Return `a.b.c` for such an expression."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def tuned(source):
    """Return the lines that make a dataset outside of `untuned(...)`."""
    tree = ast.parse(source)
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and dotted(node.func) == "untuned")
    inside = {id(part) for call in calls for argument in call.args for part in ast.walk(argument)}
    found = set()
    for node in ast.walk(tree):
        name = dotted(node).split(".")
        makes = name[-1] in MAKERS or name == ["tfds", "load"]
        if name[0] in ("tf", "tensorflow") and "data" in name[1:-1] and name[-1][:1].isupper():
            makes |= name[-1] not in ("Options", "Dataset")
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tensorflow"):
            makes |= ".data" in f"{node.module}." or any(alias.name == "data" for alias in node.names)
        if len(name) > 3 and name[-3:-1] == ["data", "Dataset"]:
            makes = True
        if makes and id(node) not in inside:
            found.add(node.lineno)
    return sorted(found)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_dataset_is_made_untuned(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    sources = {path.relative_to(ROOT).as_posix(): path for path in files if ".venv" not in path.parts}
    found = {name: tuned(path.read_text(encoding="utf-8")) for name, path in sources.items()}
    assert {name for name, lines in found.items() if lines} == {name for name in AS_ADVISED if name in sources}, (
        "make the dataset inside `untuned(...)`: tapeline/runtime/untuned.py says why"
    )


@pytest.mark.parametrize(
    "line",
    [
        "tf.data.Dataset.range(3)",
        "tf.data.TFRecordDataset(path).map(untuned)",
        "tf.data.experimental.make_csv_dataset(path)",
        "builder.as_dataset(split='train')",
        "tfds.load('mnist')",
        "tfds.as_numpy(data)",
        "make = tf.data.Dataset.from_tensor_slices",
        "from tensorflow.data import Dataset",
        "from tensorflow import data",
        "keras.utils.image_dataset_from_directory(path)",
    ],
)
def test_a_tuned_one_is_found(line):
    assert tuned(line) == [1]
    assert tuned(f"untuned({line})" if line.startswith("tf.data.Dataset") else "data: tf.data.Dataset") == []


def test_what_is_made_of_it_is_untuned_too(tf):
    from tapeline.runtime.untuned import untuned

    data = untuned(tf.data.Dataset.range(6))
    made = data.shuffle(3).map(lambda x: x + 1, num_parallel_calls=2).batch(2).prefetch(1)
    assert made.options().autotune.enabled is False
    assert sorted(int(x) for pair in made for x in pair) == [1, 2, 3, 4, 5, 6]
