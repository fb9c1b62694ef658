"""The gallery in a clean clone: everything that needs no network is built, and every verdict is yes."""

import json
import sys

import pytest
from clones import BIN, ROOT, call, cloned, sums


def listed(folder, *options):
    return call(folder, sys.executable, "-m", "tapeline", "list", *options).stdout.splitlines()


@pytest.mark.slow
def test_what_needs_a_network_is_named(root):
    rows = {line.split()[0]: line.split()[2] for line in listed(root / "gallery")[1:]}
    assert {name for name, network in rows.items() if network == "needed"} == {
        "mnist-mlp-module",
        "mnist-mlp",
        "cifar10-cnn",
        "mnist-gan",
    }


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(2400)
def test_a_clean_clone_builds_it_all(tmp_path):
    clone = cloned(ROOT, tmp_path / "tapeline")
    gallery = clone / "gallery"
    targets = listed(gallery, "--offline", "--targets")
    call(gallery, BIN / "dvc", "repro", *targets, timeout=2400)
    verdicts = {
        file.parts[-3]: json.loads(file.read_text())["verdict"] for file in gallery.glob("runs/*/validate/verdict.json")
    }
    assert verdicts == {target.removeprefix("export@"): "yes" for target in targets}
    assert {line.split("  ")[0] for line in listed(gallery, "--offline") if "up to date" in line} == set(verdicts)

    call(clone, BIN / "dvc", "repro", "train@digits")
    ordinary = {file: value for file, value in sums(clone).items() if file.startswith("runs/digits/train/weights/")}
    inside = {file: value for file, value in sums(gallery).items() if file.startswith("runs/in-graph/train/weights/")}
    assert list(inside.values()) == list(ordinary.values()), "ten epochs a call give the bytes of the ordinary loop"
