"""The peers of a workload learn what Tapeline learns: the same mean loss over the first steps."""

import math
import pkgutil
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest

import benchmarks
from benchmarks.catalogue import NAMES, workload
from benchmarks.comparison import disagreements
from benchmarks.process import Process
from benchmarks.workload import ROOT

WITHOUT_PEERS = ("functional_mlp",)
"""Workloads that are compared with Keras alone where the others are not installed: the rest takes minutes each."""


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_is_named_as_its_file_and_its_contenders_apart(name):
    one = workload(name)
    names = [contender.name for contender in one.contenders]
    assert one.name == name
    assert len(set(names)) == len(names)
    assert names[0].startswith("tapeline")
    assert set(one.targets) <= {contender.family for contender in one.contenders}
    assert one.recipe.path.is_file()


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(benchmarks.__path__)])
def test_every_program_finds_what_it_uses(name):
    import_module(f"benchmarks.{name}")


def test_no_peer_has_tapelines_tensorflow():
    peers = [path for path in (ROOT / "benchmarks" / "peers").glob("*.py") if path.name != "engine.py"]
    assert len(peers) > 5
    assert not [path.name for path in peers if "startup" in path.read_text()], "portable bits are not a peer's choice"


def test_the_counted_operations_are_the_layers_own(tf):
    from benchmarks.recipes.resnet import network
    from benchmarks.workloads import cnn, resnet

    shapes = [(3, 3, 3, 32), (32,), (3, 3, 32, 64), (64,), (3, 3, 64, 64), (64,), (1024, 64), (64,), (64, 10), (10,)]
    weights = {str(number): np.zeros(shape, "f4") for number, shape in enumerate(shapes)}
    for model, counted in ((cnn.network(weights), cnn.LAYERS), (network(), resnet.LAYERS)):
        layers = [layer for layer in model.layers if hasattr(layer, "kernel")]
        sizes = [math.prod(layer.output.shape[1:-1]) * math.prod(layer.kernel.shape) for layer in layers]
        assert sorted(sizes) == sorted(counted)
        assert sizes[0] == counted[0]


def learned(name, contender, folder):
    process = Process(name, contender, folder)
    try:
        return process.learned()["losses"]
    finally:
        process.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("mlp", "cnn") else [pytest.mark.long]) for name in NAMES]
)
def test_every_peer_that_is_installed_learns_the_same(name, tmp_path):
    from benchmarks.measure import own_folder, write_inputs

    one = workload(name)
    wanted = [contender for contender in one.contenders if contender.learns]
    missing = {module for contender in wanted for module in contender.needs if find_spec(module) is None}
    if missing and name not in WITHOUT_PEERS:
        pytest.skip(f"{', '.join(sorted(missing))} is not installed here: `make bench` installs it")
    write_inputs(one, tmp_path / "inputs")
    losses = {
        contender.name: learned(name, contender.name, own_folder(tmp_path / "inputs", number))
        for number, contender in enumerate(wanted)
        if not missing.intersection(contender.needs)
    }
    tolerance = {contender.name: contender.tolerance or one.tolerance for contender in one.contenders}
    assert len(losses) > 1
    assert disagreements(losses, one.contenders[0].name, tolerance) == {}
