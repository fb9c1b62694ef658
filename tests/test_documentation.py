"""The Python of README and docs does what it says: each block is run as it stands there."""

import json
import re

import numpy as np
import pytest
from chains import Chain
from PIL import Image
from pydantic import TypeAdapter
from ruamel.yaml import YAML
from sklearn.datasets import load_iris
from trainings import Run

from tapeline.config.ingest import BuilderSource, IngestSettings
from tapeline.dataset.columns import Dataset
from tapeline.ingest.stage import ingest


@pytest.fixture(scope="module")
def block(root):
    """Return a function that gives the one block of a language with a text in it."""
    text = "\n".join(document.read_text() for document in (root / "README.md", *sorted((root / "docs").glob("*.md"))))
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)

    def find(language, holding):
        (found,) = [text for kind, text in blocks if kind == language and holding in text]
        return found

    return find


def chain(folder, source, data, **settings):
    """Train a recipe and return the stages after it."""
    recipe = folder / "recipe.py"
    recipe.write_text(source)
    return Chain(Run(folder / "run", recipe, data, **settings)())


@pytest.mark.slow
def test_the_whole_recipe_keeps_its_threshold_and_is_served_without_tapeline(block, root, tmp_path, monkeypatch, tf):
    data = tmp_path / "data" / "digits"
    source = BuilderSource(source="builder", needs="optdigits.py", validation=0.1)
    ingest("digits", source, project=root / "src/tapeline/builders", out=data, work=tmp_path / "work")
    entry = YAML(typ="safe").load(block("yaml", "softmax:"))["pipelines"]["softmax"]
    made = chain(tmp_path, block("python", "class Softmax"), data, **entry["train"])
    metrics = made.validate(**entry["validate"]["thresholds"])
    assert metrics["accuracy"] >= entry["validate"]["thresholds"]["accuracy"]["min"]
    made.export()
    (tmp_path / "serving/digits").mkdir(parents=True)
    (tmp_path / "serving/digits/1").symlink_to(made.model / "saved_model")
    monkeypatch.chdir(tmp_path)
    plain = block("python", "tf.saved_model.load")
    assert "tapeline" not in plain.replace("models/", "")
    names = {}
    exec(plain, names)
    assert np.array_equal(names["answers"]["class"], np.load(made.validated / "predictions.npz")["class"][:5])


@pytest.fixture(scope="module")
def irises(tmp_path_factory):
    """Half of the irises of one species, a fifth of all rows distrusted, as a table."""
    folder = tmp_path_factory.mktemp("irises")
    flowers = load_iris()
    rows = [
        (*flowers.data[n], flowers.target_names[kind], 0.2 if n % 5 == 0 else 1.0)
        for n, kind in enumerate(flowers.target)
        if kind != 1 or n % 2
    ]
    (folder / "irises.csv").write_text("a,b,c,d,species,weight\n" + "".join(f"{','.join(map(str, r))}\n" for r in rows))
    settings = {"source": "table", "needs": "irises.csv", "label": "species", "test": 0.3, "validation": 0.1}
    settings["features"] = {"x": ["a", "b", "c", "d"], "species": "species", "weight": "weight"}
    checked = TypeAdapter(IngestSettings).validate_json(json.dumps(settings))
    ingest("irises", checked, project=folder, out=folder / "data", work=folder / "work")
    return folder / "data"


def test_the_whole_builder_reads_pictures_with_further_columns(block, tmp_path):
    own = tmp_path / "inputs" / "own"
    own.mkdir(parents=True)
    (own / "own.py").write_text(block("python", "class Own("))
    for split, count in (("train", 6), ("test", 2)):
        rows = []
        for number in range(count):
            picture = Image.fromarray(np.full((8, 8), 10 * number, np.uint8))
            picture.save(own / f"{split}{number}.png")
            rows.append(f"{split}{number}.png,{number / 2},{'well' if number % 2 else 'ill'}\n")
        (own / f"{split}.csv").write_text("".join(rows))
    source = BuilderSource(source="builder", needs="inputs/own")
    ingest("own", source, project=tmp_path, out=tmp_path / "data", work=tmp_path / "work")
    data = Dataset.open(tmp_path / "data")
    assert sorted(zip(data.column("train", "age"), data.column("train", "label"), strict=True)) == [
        (number / 2, number % 2) for number in range(6)
    ]
    assert sorted(data.column("test", "image")[:, 0, 0, 0]) == [0, 10]


def test_class_and_sample_weights_are_factors_of_the_loss(block, irises, tmp_path, tf):
    from tapeline.dataset.statistics import TrainStatistics
    from tapeline.recipe import loading

    made = chain(tmp_path, block("python", "class Irises"), irises, epochs=30, batch_size=16)
    assert made.validate()["accuracy"] > 0.8
    assert list(made.export()["signatures"]["serving_default"]["inputs"]) == ["x"]

    data = Dataset.open(irises)
    recipe = loading.build(made.run.recipe, {}, data.features, statistics=TrainStatistics(data))
    train = {name: np.asarray(column) for name, column in data.columns("train").items()}
    losses, _ = recipe.loss({name: tf.constant(column) for name, column in train.items()}, training=True)
    chance = recipe.predict({"x": tf.constant(train["x"])})["probabilities"].numpy()
    counts = np.bincount(train["species"])
    assert counts[1] < min(counts[0], counts[2])
    weights = counts.mean() / counts[train["species"]] * train["weight"]
    plain = -np.log(chance[np.arange(len(chance)), train["species"]])
    assert losses.numpy() == pytest.approx(weights * plain, rel=1e-4)


def anchors(document):
    """Return the anchors that a host gives a document's headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_somewhere(root):
    documents = sorted([*root.glob("*.md"), *(root / "docs").glob("*.md"), root / "gallery/README.md"])
    links = 0
    for document in documents:
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", document.read_text()):
            links += 1
            path, _, anchor = target.partition("#")
            found = (document.parent / path).resolve() if path else document
            assert found.exists(), f"{document.relative_to(root)}: {target}"
            assert not anchor or anchor in anchors(found), f"{document.relative_to(root)}: {target}"
    assert links > 50


def test_the_files_that_the_documents_name_are_there(root):
    """`docs/architecture.md` follows an example through the code: a file that moves, or a name in it, moves there too."""
    files = {f"/{path.relative_to(root).as_posix()}": path for path in (root / "src" / "tapeline").rglob("*.py")}
    text = " ".join((root / "docs" / "architecture.md").read_text().split())
    named = re.findall(r"`([\w/]+\.py)(?:: ([\w.]+))?`", text)
    assert len(named) > 50
    for path, name in named:
        found = [files[one] for one in files if one.endswith(f"/{path}")]
        last = name.rpartition(".")[2]
        assert any(re.search(rf"\b{last}\b", file.read_text()) for file in found), f"{path}: {name}"


@pytest.mark.parametrize("document", ["README.md", "docs/production.md"])
def test_what_is_registered_was_pushed(root, document):
    """`register` refuses a model that the remote lacks."""
    lines = (root / document).read_text().splitlines()
    registers = next(at for at, line in enumerate(lines) if line.startswith("$ tapeline registry register digits"))
    assert lines[registers - 1].startswith("$ dvc push --with-deps export@digits ")
