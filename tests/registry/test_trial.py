"""A version and its champion at a stage, with answers that no model gave: who is asked what, and what is judged."""

import hashlib
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest

from tapeline.config.registry import CheckSettings, GateSettings, ModelSettings, RegistrySettings, StageSettings
from tapeline.config.validate import Bound
from tapeline.registry import assess as module
from tapeline.registry.assess import assess
from tapeline.registry.contents import Contents
from tapeline.registry.gate.probing import Answer
from tapeline.registry.repository import Tag
from tapeline.registry.store import Store
from tapeline.registry.tags.state import Version
from tapeline.repository.dvc_lock import Lock
from tapeline.repository.recorded import Recorded
from tapeline.runtime.errors import InputError

LABELS = np.array([0, 0, 1, 1, 1, 1, 0, 1])
CLASSES, TURNED = ("ant", "bat"), ("bat", "ant")
FIGURES = {"latency_ms": {"p50": 1.0, "p99": 2.0}, "memory_mb": 300.0, "batch_sizes": [1, 8], "sandbox": "Landlock"}


class Registry:
    """What `assess` asks of a registry, over a cache in a folder; `live` is in `prod`."""

    def __init__(self, folder):
        self.folder, self.work, self.store = folder, folder / "work", Store(folder)
        self.live, self.versions, self.locks, self.answers, self.asked = None, {}, {}, {}, []
        stages = {"off": (False, False), "check": (False, True), "gate": (True, False), "both": (True, True)}
        self.stages = {name: StageSettings(gate=gate, check=check) for name, (gate, check) in stages.items()}
        self.model = ModelSettings(gate=GateSettings(bounds={"loss": Bound(max=9)}))
        pipeline = SimpleNamespace(
            export=SimpleNamespace(tolerance=0.5), validate_=SimpleNamespace(calibration_bins=10, split="test")
        )
        self.deciding, self.authority = SimpleNamespace(pipeline=lambda name: pipeline), None

    @property
    def settings(self):
        return RegistrySettings(stages=self.stages, models={"one": self.model})

    def stage(self, name):
        return name

    def state(self, name):
        return SimpleNamespace(live=lambda stage: self.live and SimpleNamespace(version=self.live))

    def version_numbered(self, name, number):
        return self.versions[number]

    def recorded(self, version):
        return self.locks[version.number]

    def contents(self, version):
        return Contents(self.recorded(version).model, None)

    def keep(self, content):
        ending, data = ("", content) if isinstance(content, bytes) else (".dir", json.dumps(content).encode())
        md5 = hashlib.md5(data).hexdigest() + ending
        (self.folder / "cache" / md5).write_bytes(data)
        return md5

    def folder_of(self, files):
        return self.keep([{"md5": self.keep(data), "relpath": name} for name, data in files.items()])

    def dataset(self, classes, kinds=()):
        """Keep a dataset whose label, and whose input, have these class names, or none."""
        label = {"shape": [], "dtype": "int64", **({"classes": classes} if classes else {})}
        features = {"x": {"shape": [1], "dtype": "float32", **({"classes": kinds} if kinds else {})}, "label": label}
        features["w"] = {"shape": [1], "dtype": "float32"}
        columns = {name: {"file": f"test/{name}.npy"} for name in features}
        index = {"name": "points", "source": {"kind": "test"}, "features": features}
        index["splits"] = {"test": {"examples": len(LABELS), "columns": columns}}
        arrays = {
            "x": np.zeros((len(LABELS), 1), np.float32),
            "label": LABELS,
            "w": np.ones((len(LABELS), 1), np.float32),
        }
        files = {columns[name]["file"]: npy(array) for name, array in arrays.items()}
        return self.folder_of({"dataset.json": json.dumps(index).encode(), **files})

    def version(
        self, number, *, answers, trained=CLASSES, output="class", input_="x", failures=(), own=(), kinds=(), **metrics
    ):
        """Add a version that was trained on a dataset with such classes and is tested on the first one's."""
        spec = {
            "inputs": {name: {"dtype": "float32", "shape": [None, 1]} for name in input_.split()},
            "outputs": {output: {"dtype": "int64", "shape": [None]}},
        }
        described = {"name": "one", "dataset": {"name": "points"}, "files": {}, "metrics": metrics}
        described |= {"signatures": {"serving_default": spec}, "own_inputs": [*own]}
        model = {"model.json": json.dumps(described).encode(), "saved_model/saved_model.pb": number.encode() * 2**18}
        made = {
            "export@one": {"outs": [{"path": "models/one", "md5": self.folder_of(model)}]},
            "validate@one": {
                "outs": [{"path": "runs/one/validate/predictions.npz", "md5": self.keep(number.encode())}]
            },
            "train@one": {"deps": [{"path": "data/points", "md5": self.dataset(trained, kinds)}]},
            "ingest@points": {"outs": [{"path": "data/points", "md5": self.dataset(CLASSES, kinds)}]},
        }
        self.locks[number] = Recorded("one", Lock.parsed({"stages": made}))
        self.answers[number] = Answer(tuple(failures), {} if failures else FIGURES, {output: np.array(answers)})
        tag = Tag(f"one@{number}", "0" * 40, 0, "Ann", "", "")
        self.versions[number] = Version("one", number, tag, {})
        return self.versions[number]

    def run(self, model, signatures, inputs, *, recorded, tolerance, settings):
        assert (model / "saved_model.pb").is_file() and (tolerance, settings) == (0.5, self.model.check)
        number = model.parent.name
        self.asked.append((number, list(signatures), list(inputs), recorded and recorded.read_bytes().decode()))
        return self.answers[number]


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def lines(verdict):
    return [(check["kind"], check["holds"]) for check in verdict.checks]


@pytest.fixture
def registry(tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir()
    made = Registry(tmp_path)
    monkeypatch.setattr(Store, "path", lambda self, md5: tmp_path / "cache" / md5)
    monkeypatch.setattr(module.probing, "run", made.run)
    return made


def test_a_stage_asks_for_the_gate_the_check_both_or_nothing(registry):
    registry.version("v1", answers=LABELS, loss=2.0)
    version = registry.version("v2", answers=LABELS, loss=1.0)
    registry.live = "v1"
    size = (
        2**19 + len(registry.store.bring(registry.store.listing(registry.locks["v2"].model)["model.json"]).read_bytes())
    ) / 2**20
    found = {name: assess(registry, version, name) for name in registry.stages}
    asked = ("v2", ["serving_default"], ["x"], "v2")
    assert registry.asked == [asked] * 2 + [("v1", [], ["x"], None)] + [asked] + [("v1", [], ["x"], None)]
    loads = ("infra", True)
    compared = [("bound", True), ("paired", False)]
    expected = {"off": [], "check": [loads, loads], "gate": compared, "both": [loads, loads, *compared]}
    assert {name: lines(verdict) for name, verdict in found.items()} == expected
    assert found["check"].checks[0]["said"] == "loads, and answers batches of 1, 8 as recorded; sandbox: Landlock"
    data = {"dataset": "points", "md5": registry.locks["v2"].data("points"), "split": "test", "examples": 8}
    for name, verdict in found.items():
        assert (verdict.name, verdict.version, verdict.stage, verdict.champion) == ("one", "v2", name, "v1")
        assert verdict.data == (data if name in ("gate", "both") else {})
        assert verdict.figures == ({**FIGURES, "size_mb": size} if name in ("check", "both") else {})
        assert (registry.work / "verdicts" / f"one@v2-{name}.json").is_file()


def test_without_a_champion_and_against_itself_nothing_is_compared(registry):
    version = registry.version("v1", answers=LABELS, loss=10.0)
    for registry.live in (None, "v1"):
        found = assess(registry, version, "gate")
        assert (found.champion, lines(found)) == (None, [("bound", False)])
    assert [number for number, *_ in registry.asked] == ["v1", "v1"]


def test_a_model_that_fails_is_asked_nothing_more(registry):
    registry.version("v1", answers=LABELS)
    registry.live = "v1"
    version = registry.version("v2", answers=LABELS, failures=["does not load", "and more"])
    registry.model = ModelSettings(check=CheckSettings(size_mb=0.1))
    found = assess(registry, version, "both")
    assert [(check["said"][:13], check["holds"]) for check in found.checks] == [
        ("does not load", False),
        ("and more", False),
        ("size_mb is 0.", False),
    ]
    assert found.data == {} and found.figures.keys() == {"size_mb"}
    found = assess(registry, version, "gate")
    assert (lines(found), found.champion) == ([("infra", False)] * 2, "v1")
    assert [number for number, *_ in registry.asked] == ["v2", "v2"]


def test_a_champion_of_other_classes_answers_by_their_names(registry):
    registry.version("v1", answers=1 - LABELS, trained=TURNED)
    version = registry.version("v2", answers=np.zeros(8, int))
    registry.live = "v1"
    registry.model = ModelSettings(gate=GateSettings(change={"accuracy": Bound(min=0)}, paired=None))
    note, change = assess(registry, version, "gate").checks
    assert note == {
        "kind": "classes",
        "said": "classes are in another order than those of one@v1: compared by name",
        "holds": True,
    }
    assert (change["champion"], change["challenger"], change["holds"]) == (1.0, 0.375, False)


@pytest.mark.parametrize(("theirs", "ours"), [("x w", "x"), ("x", "x w"), ("w", "x")])
def test_a_champion_of_other_features_is_given_its_own(registry, theirs, ours):
    registry.version("v1", answers=LABELS, input_=theirs)
    registry.live = "v1"
    found = assess(registry, registry.version("v2", answers=LABELS, input_=ours, loss=1.0), "gate")
    assert [(number, inputs) for number, _, inputs, _ in registry.asked] == [
        ("v2", ours.split()),
        ("v1", theirs.split()),
    ]
    assert not [check for check in found.checks if check["kind"] == "infra"]


@pytest.mark.parametrize(
    ("champion", "why"),
    [
        ({"answers": LABELS, "failures": ["does not load", "and more"]}, "does not load"),
        ({"answers": LABELS, "output": "z"}, "it does not predict label"),
        ({"answers": np.where(np.arange(8) % 2, np.nan, 1.0)}, "class is not finite for 4 of 8 examples"),
        ({"answers": LABELS, "trained": ()}, "the data that one@v1 was trained on has no class names of label"),
        ({"answers": LABELS + 1, "trained": TURNED}, "it answers class 2, and its dataset has 2 classes"),
        ({"answers": LABELS, "own": ["x"]}, "its input x is not the feature x"),
        ({"answers": LABELS, "kinds": TURNED}, "its input x has other classes"),
        ({"answers": LABELS, "input_": "x z"}, "its input z is not a feature of the test data"),
    ],
)
def test_a_champion_that_cannot_be_compared_is_a_no(registry, champion, why):
    registry.version("v1", **champion)
    version = registry.version("v2", answers=LABELS, kinds=CLASSES if "kinds" in champion else (), loss=1.0)
    registry.live = "v1"
    found = assess(registry, version, "gate")
    assert found.checks[0]["said"] == f"the champion one@v1 cannot be compared: {why}"
    assert (lines(found), found.champion) == ([("infra", False), ("bound", True)], "v1")


def test_a_challenger_whose_classes_are_unknown_is_an_error(registry):
    version = registry.version("v2", answers=LABELS, trained=())
    with pytest.raises(InputError, match="the data that one@v2 was trained on has no class names of label"):
        assess(registry, version, "gate")


@pytest.mark.parametrize("known", [{"output": "z"}, {"input_": "y"}])
def test_models_that_predict_no_feature_are_judged_by_what_was_recorded(registry, known):
    """Nothing is predicted, or the inputs are no features, so that the model answers requests of its own."""
    registry.version("v1", answers=LABELS, loss=1.0, **known)
    version = registry.version("v2", answers=LABELS, loss=3.0, **known)
    registry.live = "v1"
    registry.model = ModelSettings(gate=GateSettings(change={"loss": Bound(max=1)}, paired=None))
    found = assess(registry, version, "gate")
    assert found.reason == "change of loss is +2 (1 → 3), must be at most 1" and len(found.checks) == 1
    assert registry.asked == [("v2", ["serving_default"], ["x"] if "output" in known else [], "v2")]


def test_a_named_target_that_the_model_does_not_answer(registry):
    version = registry.version("v2", answers=LABELS, output="z")
    registry.model = ModelSettings(gate=GateSettings(target="label"))
    with pytest.raises(InputError, match="^gate.target is 'label', and the model answers z$"):
        assess(registry, version, "gate")
    registry.model = ModelSettings(gate=GateSettings(target="size"))
    with pytest.raises(InputError, match="the test data has no feature 'size': it has x, label"):
        assess(registry, version, "gate")


def test_by_a_policy_the_pipeline_s_thresholds_are_judged_again(registry):
    first = registry.version("v1", answers=LABELS, loss=1.0)
    pipeline = registry.deciding.pipeline("one")
    pipeline.validate_.thresholds = {"loss": Bound(max=0.5)}
    assert assess(registry, first, "gate").holds
    registry.authority = object()
    verdict = assess(registry, first, "gate")
    assert not verdict.holds and [c["metric"] for c in verdict.checks if c["kind"] == "threshold"] == ["loss"]
