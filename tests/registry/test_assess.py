"""What is asked of a version for a stage: real models answer on recorded data, and figures are held to bounds."""

import numpy as np
import pytest

from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.config.registry import CheckSettings
from tapeline.export import check
from tapeline.registry.assess import assess, within
from tapeline.registry.registry import Registry as Opened


def test_each_figure_is_held_against_its_bound_and_memory_by_its_peak():
    figures = {"latency_ms": {"p50": 1.0, "p99": 9.0}, "memory_mb": 700.5, "size_mb": 2.0}
    asked = CheckSettings(memory_mb=700, latency_p99_ms=9.0, size_mb=1.5)
    assert [(check["said"], check["holds"]) for check in within(asked, figures)] == [
        ("latency_p99_ms is 9, must be at most 9", True),
        ("memory_mb is 700.5, must be at most 700", False),
        ("size_mb is 2, must be at most 1.5", False),
    ]


def test_what_was_not_measured_has_no_check():
    assert [check["metric"] for check in within(CheckSettings(size_mb=3.0), {"size_mb": 2.0})] == ["size_mb"]


def model(tf, registry, output):
    """Have the next build export a model whose only output is zeros under a name."""
    serve = tf.function(
        lambda x: {output: 0 * tf.reduce_sum(x, 1)}, input_signature=[tf.TensorSpec((None, 2), name="x")]
    )
    tf.saved_model.save(tf.Module(), str(registry.folder / "graph"), signatures=serve.get_concrete_function())


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # dvc-data, of pygtrie
def test_a_champion_that_answers_and_one_that_does_not(fresh, tf):
    make = fresh.folder / "make.py"
    column = 'columns = {"x": {"file": "test/x.npy"}, "y": {"file": "test/y.npy"}}'
    source = make.read_text().replace('columns = {"x": {"file": "test/x.npy"}}', column)
    source = source.replace('features = {"x": {', 'features = {"y": {"shape": [], "dtype": "float32"}, "x": {')
    save = '    np.save(folder / "test" / "y.npy", np.ones(3, np.float32))\n    columns = '
    make.write_text(source.replace("    columns = ", save, 1))
    for value, output in ((1, "z"), (2, "y"), (3, "y")):  # the first one answers otherwise than its record says
        model(tf, fresh, output)
        fresh.versions(value)
    fresh("registry", "promote", "one@v1.0.0", "prod")
    fresh("registry", "promote", "one@v1.0.1", "staging")
    params = fresh.folder / "params.yaml"
    asked = "  models:\n    one: {gate: {bounds: {mean_absolute_error: {max: 1}}, change: {loss: {max: 0.5}}}}\n"
    gated = params.read_text().replace("staging: {gate: false", "staging: {gate: true")
    params.write_text(gated.replace("prod: {gate: false", "prod: {gate: true") + asked)
    project = Project.find(fresh.folder)
    opened = Opened.open(project, Params.load(project.folder))
    versions = opened.state("one").versions

    good = assess(opened, versions["v1.0.2"], "staging")
    assert (good.champion, good.data["examples"], good.data["split"], good.figures) == ("v1.0.1", 3, "test", {})
    assert [(check["kind"], check["holds"]) for check in good.checks] == [
        ("bound", True),
        ("change", False),
        ("paired", True),
    ]
    assert good.reason == "change of loss is +1 (2 → 3), must be at most 0.5"

    mute = assess(opened, versions["v1.0.2"], "prod")
    assert mute.reason == "the champion one@v1.0.0 cannot be compared: it does not predict y"
    assert [check["kind"] for check in mute.checks] == ["infra", "bound"]

    unasked = assess(opened, versions["v1.0.2"], "dev")
    assert (unasked.champion, unasked.checks, unasked.data, unasked.holds) == (None, (), {}, True)
    itself = assess(opened, versions["v1.0.1"], "staging")
    assert itself.champion is None and [check["kind"] for check in itself.checks] == ["bound"]
    assert itself.table().startswith("one@v1.0.1 for staging, where it is live itself: ")
    assert unasked.table() == "one@v1.0.2 for dev, no champion: yes"


def versions_of_columns(registry, tf, *made):
    """Make a version for each (columns, place of the number that is the answer, what is added to it, split)."""
    make = registry.folder / "make.py"
    source = make.read_text().replace(
        'columns = {"x": {"file": "test/x.npy"}}', 'columns = {n: {"file": f"test/{n}.npy"} for n in ("x", "y")}'
    )
    source = source.replace('features = {"x": {', 'features = {"y": {"shape": [], "dtype": "float32"}, "x": {')
    source = source.replace('{"dtype": "float32", "shape": [None]}}}', '{"dtype": "float32", "shape": [None, 1]}}}')
    splits = '"splits": {name: {"examples": 3, "columns": columns} for name in ("test", "train")}'
    source = source.replace('"splits": {"test": {"examples": 3, "columns": columns}}', splits)
    save = '    np.save(folder / "test" / "y.npy", np.array([0, 2, 4], np.float32))\n    columns = '
    source = source.replace("    columns = ", save, 1)
    for value, (columns, place, added, split) in enumerate(made, 1):

        @tf.function(input_signature=[tf.TensorSpec((None, 2), name="x")])
        def serve(x, place=place, added=added):
            return {"y": x[:, place, None] + added}  # a column of one number, as Keras has it

        tf.saved_model.save(tf.Module(), str(registry.folder / "graph"), signatures=serve.get_concrete_function())
        of_table = (
            f'"source": {{"kind": "table", "columns": {{"x": {list(columns)}}}}}}}, "verdict": {{"split": "{split}"}}'
        )
        text = source.replace('"source": {"kind": "test"}}', of_table)
        answers = f"y=np.array([[0], [2], [4]], np.float32) + np.float32({added})"
        make.write_text(text.replace("y=np.zeros(3, np.float32)", answers))
        registry.versions(value)
    registry("registry", "promote", "one@v1.0.0", "prod")
    params = registry.folder / "params.yaml"
    gate = "  models:\n    one: {gate: {}}\n"
    params.write_text(params.read_text().replace("prod: {gate: false", "prod: {gate: true") + gate)
    opened = Opened.for_model(Project.find(registry.folder), "one")
    return {number: assess(opened, version, "prod") for number, version in opened.state("one").versions.items()}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # dvc-data, of pygtrie
def test_a_champion_gets_its_columns_in_its_own_order(fresh, tf):
    worse, equal, other, easier = [
        *versions_of_columns(
            fresh,
            tf,
            ("ba", 1, 0.0, "test"),
            ("ab", 0, 0.5, "test"),
            ("ab", 0, 0.0, "test"),
            ("ac", 0, 0.0, "test"),
            ("ab", 0, 0.0, "train"),
        ).values()
    ][1:]
    assert worse.reason.startswith("not worse by more than 0: mean absolute error +0.5")
    assert equal.holds, equal.reason
    missing = "the champion one@v1.0.0 cannot be compared: its x has the column b, which the challenger's lacks"
    assert other.reason == missing
    assert easier.reason == "was validated on train, and params.yaml asks for test"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # dvc-data, of pygtrie
def test_a_champion_is_measured_against_its_columns_of_the_target(fresh, tf):
    make = fresh.folder / "make.py"
    source = make.read_text()
    for old, text in {
        'columns = {"x": {"file": "test/x.npy"}}': 'columns = {n: {"file": f"test/{n}.npy"} for n in ("x", "y")}',
        'features = {"x": {': 'features = {"y": {"shape": [2], "dtype": "float32"}, "x": {',
        '{"dtype": "float32", "shape": [None]}}}': '{"dtype": "float32", "shape": [None, 2]}}}',
        "y=np.zeros(3, np.float32)": 'y=np.load("data/points/test/y.npy") + np.float32(ADDED)',
        '"source": {"kind": "test"}}': '"source": {"kind": "table", "columns": {"y": COLUMNS}}}',
        "    columns = ": '    np.save(folder / "test" / "y.npy", np.float32([[0, 1], [2, 3], [4, 5]])[:, PLACES])\n'
        "    columns = ",
    }.items():
        assert old in source
        source = source.replace(old, text, 1)
    made = ((["count", "cost"], [0, 1], 0.0), (["cost", "count"], [1, 0], 0.5), (["cost", "euro"], [1, 0], 0.0))
    for value, (columns, places, added) in enumerate(made, 1):

        @tf.function(input_signature=[tf.TensorSpec((None, 2), name="x")])
        def serve(x, places=places, added=added):
            return {"y": tf.gather(x, places, axis=1) + added}

        tf.saved_model.save(tf.Module(), str(fresh.folder / "graph"), signatures=serve.get_concrete_function())
        text = source.replace("COLUMNS", str(columns)).replace("PLACES", str(places)).replace("ADDED", str(added))
        make.write_text(text)
        fresh.versions(value)
    fresh("registry", "promote", "one@v1.0.0", "prod")
    params = fresh.folder / "params.yaml"
    gate = "  models:\n    one: {gate: {}}\n"
    params.write_text(params.read_text().replace("prod: {gate: false", "prod: {gate: true") + gate)
    opened = Opened.for_model(Project.find(fresh.folder), "one")
    _, worse, other = (assess(opened, version, "prod") for version in opened.state("one").versions.values())
    assert worse.reason.startswith("not worse by more than 0: mean absolute error +0.5")
    lacking = "the champion one@v1.0.0 cannot be compared: its y lacks the column euro, which the challenger's has"
    assert other.reason == lacking


CLASSIFIER = {
    'columns = {"x": {"file": "test/x.npy"}}': 'columns = {n: {"file": f"test/{n}.npy"} for n in ("x", "label")}',
    'features = {"x": {': 'features = {"label": {"shape": [], "dtype": "int64", "classes": ["a", "b"]}, "x": {',
    "    columns = ": '    np.save(folder / "test" / "label.npy", np.array([0, 0, 1]))\n    columns = ',
    "y=np.zeros(3, np.float32)": '**{"class": np.zeros(3, int), "probabilities": np.array([[.9, .1], [.6, .4], [.6, .4]], np.float32)}',
    '"outputs": {"y": {"dtype": "float32", "shape": [None]}}': '"outputs": {"class": {"dtype": "int64", "shape": [None]}, '
    '"probabilities": {"dtype": "float32", "shape": [None, 2]}}',
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # dvc-data, of pygtrie
def test_the_gate_counts_in_the_bins_that_validate_is_told(fresh, tf):
    make, params = fresh.folder / "make.py", fresh.folder / "params.yaml"
    source = make.read_text()
    for old, new in CLASSIFIER.items():
        assert old in source
        source = source.replace(old, new, 1)
    make.write_text(source)

    @tf.function(input_signature=[tf.TensorSpec((None, 2), name="x")])
    def serve(x):
        sure = tf.where(x[:, 0] < 1, 0.9, 0.6)
        return {"class": tf.zeros_like(sure, tf.int64), "probabilities": tf.stack([sure, 1 - sure], 1)}

    tf.saved_model.save(tf.Module(), str(fresh.folder / "graph"), signatures=serve.get_concrete_function())
    fresh.versions(2)
    gate = "  models:\n    one: {gate: {bounds: {calibration_error: {max: 0.05}}, paired: null}}\n"
    text = params.read_text().replace("prod: {gate: false", "prod: {gate: true") + gate
    project, reasons = Project.find(fresh.folder), {}
    for bins in (1, 10):
        params.write_text(text.replace("validate: {}", f"validate: {{calibration_bins: {bins}}}"))
        opened = Opened.for_model(project, "one")
        verdict = assess(opened, opened.state("one").versions["v1.0.0"], "prod")
        reasons[bins] = (verdict.holds, verdict.reason)
    assert reasons[1][0], reasons
    assert reasons[10] == (False, "calibration_error is 0.1, must be at most 0.05")


def test_a_tolerance_is_absolute_for_small_values_and_relative_for_large_ones():
    recorded = np.array([0.0, 1000.0], np.float64)
    assert check.close(recorded + np.array([0.9e-5, 0.9e-2]), recorded, 1e-5)
    assert not check.close(recorded + np.array([1.1e-5, 0.0]), recorded, 1e-5)
    assert not check.close(recorded + np.array([0.0, 1.1e-2]), recorded, 1e-5)
    assert not check.close(np.array([np.nan]), np.array([np.nan]), 1e-5)
