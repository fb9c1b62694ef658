"""What made a model is in the commit: each dependency as it was read, each parameter as it was recorded."""

import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from tapeline.registry import inputs
from tapeline.runtime.errors import InputError


STALE = "its stage is stale; `dvc repro`\n"


def test_a_stage_that_read_other_bytes_than_the_one_before_it_made(fresh):
    """Only `train` was reproduced: the tag had its parameters and weights, and the model of those before."""
    fresh.git("switch", "--quiet", "-c", "feat")
    pipeline = fresh.folder / "dvc.yaml"
    pipeline.write_text(pipeline.read_text().replace("train ${key} ${item.params.value}", "train ${key} 7"))
    fresh.dvc("repro", "--quiet", "train@one")
    fresh.git("commit", "--quiet", "--all", "--message", "only train")
    head = fresh.git("rev-parse", "HEAD")[:10]
    fresh.git("switch", "--quiet", "main")
    said = fresh("registry", "register", "one", "--rev", "feat", status=2).stderr
    assert said == f"tapeline: runs/one/train/weights of {head} is not what made the model: {STALE}"
    assert fresh.tags() == []


@pytest.mark.parametrize(
    ("files", "alone"),
    [
        ([], False),
        (["code/a.py", "code/b/c.py"], True),
        (["code/a.py", "code/b.dvc"], False),
        (["code/a.py", "code/.gitignore"], False),
        (["code/a.dvc.py"], True),
    ],
)
def test_a_folder_that_git_has_as_a_whole(files, alone):
    assert inputs._of_git_alone(files) is alone


def test_the_md5_of_a_folder_is_that_of_its_list_as_dvc_writes_it():
    digests = {"code/b": "2", "code/a": "1", "code/left": "3"}
    repository = SimpleNamespace(top=Path("/top"), digests=lambda commit, folder: digests)
    store = SimpleNamespace(ignores=lambda path: path == Path("/top/code/left"))
    found = inputs._folder_digest(SimpleNamespace(repository=repository, store=store), "c", "code", list(digests))
    listing = b'[{"md5": "1", "relpath": "a"}, {"md5": "2", "relpath": "b"}]'
    assert found == hashlib.md5(listing).hexdigest() + ".dir"


ENGINE = '# of a stage\ntrain: "f00d"\nexport: "1"\nlibraries:\n  keras: "2.1"\n'


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, ""),
        ({"params.yaml": "a: {b: {c: 2}}\nd: 0"}, "a.b.c of 0123456789 is not what made the model"),
        ({"params.yaml": "a: {b: 1}\nd: 0"}, "a.b.c of 0123456789 is not what made the model"),
        ({"params.yaml": "a: {b: {c: 1}}"}, "d of 0123456789 is not what made the model"),
        ({"params.yaml": None}, "a.b.c of 0123456789 is not what made the model"),
        ({"params.yaml": "a: ["}, "params.yaml of 0123456789 cannot be read: fix it and run `dvc repro`"),
        ({"engine.lock": '# of a stage\ntrain: "f00e"\n'}, "engine.lock of 0123456789 is not what made the model"),
        ({"engine.lock": '# train: "f00d"\n'}, "engine.lock of 0123456789 is not what made the model"),
        ({"engine.lock": "train: ["}, "engine.lock of 0123456789 is not what made the model"),
        ({"engine.lock": ENGINE.replace("2.1", "2.2")}, "engine.lock of 0123456789 is not what made the model"),
        ({"engine.lock": None}, "engine.lock of 0123456789 is not what made the model"),
    ],
)
def test_a_commit_has_the_parameters_and_the_code_of_the_lock(files, said):
    there = {"params.yaml": "a: {b: {c: 1}}\nd: 0", "engine.lock": ENGINE, **files}
    registry = SimpleNamespace(repository=SimpleNamespace(read=lambda commit, path: there[path]))
    recorded = SimpleNamespace(
        parameters=lambda: {"a.b.c": 1, "d": 0}, engine=lambda: {"train": "f00d", "libraries": {"keras": "2.1"}}
    )
    if not said:
        inputs._check_parameters(registry, "0123456789abcdef", recorded)
    else:
        with pytest.raises(InputError, match=f"^{said}"):
            inputs._check_parameters(registry, "0123456789abcdef", recorded)


def test_what_another_folders_lock_records_is_made_there():
    locks = {
        "c:a/dvc.lock": "schema: '2.0'\nst",
        "c:b/dvc.lock": "schema: '2.0'\nstages:\n  nothing: {cmd: x}\n  made: {cmd: x, outs: [{path: one}, {path: two}]}\n",
    }
    repository = SimpleNamespace(
        top=Path("/top"),
        tracked=lambda commit: ["a/dvc.lock.txt", "a/dvc.lock", "b/dvc.lock"],
        git=lambda command, name: locks[name],
    )
    registry = SimpleNamespace(repository=repository)
    for path, made in (("b/two", True), ("b/one/inner", True), ("b/three", False), ("two", False), ("b/twos", False)):
        assert inputs._made_elsewhere(registry, "c", Path("/top") / path) is made, path
