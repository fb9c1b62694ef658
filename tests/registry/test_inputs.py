"""What made a model is in the commit: each dependency as it was read, each parameter as it was recorded."""

import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from tapeline.registry import inputs
from tapeline.registry.repository import LINK
from tapeline.repository.dvc_lock import Entry
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


def test_a_file_that_git_stores_with_other_bytes_than_it_checks_out(fresh):
    """It was said to be stale, and `dvc repro` had nothing to do."""
    (fresh.folder / ".gitattributes").write_text("recipe.py ident\n")
    recipe = fresh.folder / "recipe.py"
    recipe.write_text('"""A recipe. $Id$"""\n')
    fresh.git("add", "--all")
    recipe.unlink()
    fresh.git("checkout", "recipe.py")
    assert "$Id: " in recipe.read_text()
    fresh.build(2)
    head = fresh.git("rev-parse", "HEAD")[:10]
    said = fresh("registry", "register", "one", status=2).stderr
    assert said == (
        f"tapeline: Git stores recipe.py with other bytes than it checks out, so {head} has not those that made the "
        "model: `git check-attr --all -- recipe.py` shows the filter, `ident` or encoding; exclude the file from it in "
        ".gitattributes, and `git add --renormalize` it\n"
    )
    recipe.write_text('"""Another recipe."""\n')
    fresh.git("commit", "--quiet", "--all", "--message", "another")
    assert STALE in fresh("registry", "register", "one", status=2).stderr


def changed(registry, name):
    """Change raw data on a branch, without `dvc repro`."""
    registry.git("switch", "--quiet", "-c", f"of-{name.replace('/', '-')}", "main")
    (registry.folder / name).write_text("changed")
    registry.dvc("add", "--quiet", "raw")
    registry.git("commit", "--quiet", "--all", "--message", f"another {name}")
    head = registry.git("rev-parse", "HEAD").strip()
    registry.git("switch", "--quiet", "main")
    (registry.folder / name).write_text(name)
    return head


@pytest.mark.slow
def test_raw_data_that_are_links_to_the_cache(fresh):
    fresh.dvc("config", "cache.type", "symlink")
    (fresh.folder / "table").write_text("1")
    fresh.dvc("add", "--quiet", "table")
    assert (fresh.folder / "table").is_symlink()
    pipeline = fresh.folder / "dvc.yaml"
    pipeline.write_text(pipeline.read_text().replace('"${item.recipe}"', '"${item.recipe}", table'))
    fresh.build(5)
    recorded = (fresh.folder / "table.dvc").read_text()
    (fresh.folder / "table.dvc").write_text("outs: []")
    said = fresh("registry", "register", "one", status=2).stderr
    assert said == "tapeline: table.dvc is not committed: a version is a commit; commit or restore it\n"
    (fresh.folder / "table.dvc").write_text(recorded)
    fresh("registry", "register", "one")
    assert fresh.tags() == ["one@v1.0.0"]


@pytest.mark.slow
def test_what_is_in_a_folder_of_raw_data(fresh):
    """Of an earlier state of the data a model was registered, if it was not checked out; of a file in it, never one."""
    for name in ("raw/a.csv", "raw/b.csv", "raw/sub/c.csv"):
        (fresh.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (fresh.folder / name).write_text(name)
    fresh.dvc("add", "--quiet", "raw")
    pipeline = fresh.folder / "dvc.yaml"
    pipeline.write_text(pipeline.read_text().replace('"${item.recipe}"', '"${item.recipe}", raw/a.csv, raw/sub'))
    fresh.build(5)
    heads = {name: changed(fresh, name) for name in ("raw/a.csv", "raw/b.csv", "raw/sub/c.csv")}
    for name, dep in (("raw/a.csv", "raw/a.csv"), ("raw/sub/c.csv", "raw/sub")):
        said = fresh("registry", "register", "one", "--rev", heads[name], status=2).stderr
        assert said == f"tapeline: {dep} of {heads[name][:10]} is not what made the model: {STALE}"
    (fresh.folder / "raw.dvc").write_text("outs: []")
    said = fresh("registry", "register", "one", status=2).stderr
    assert said == "tapeline: raw.dvc is not committed: a version is a commit; commit or restore it\n"
    fresh.git("rm", "--quiet", "--cached", "raw.dvc")
    fresh.git("commit", "--quiet", "--message", "lost")
    said = fresh("registry", "register", "one", status=2).stderr
    assert said == "tapeline: raw.dvc is not committed, but the model depends on it: `git add` it\n"
    fresh("registry", "register", "one", "--rev", heads["raw/b.csv"])
    assert fresh.tags() == ["one@v1.0.0"]


def depend_on_inputs(registry):
    """Have the training depend on a folder, and make it with one file."""
    pipeline = registry.folder / "dvc.yaml"
    pipeline.write_text(pipeline.read_text().replace('"${item.recipe}"', '"${item.recipe}", inputs'))
    (registry.folder / "inputs").mkdir()
    (registry.folder / "inputs" / "own.py").write_text("x = 1\n")


def test_a_link_in_a_folder(fresh):
    """DVC reads what it leads to, and Git has only where that is."""
    depend_on_inputs(fresh)
    (fresh.folder / "shared.csv").write_text("a,b\n")
    (fresh.folder / "inputs" / "rows.csv").symlink_to("../shared.csv")
    fresh.build(5)
    fresh("registry", "register", "one")
    assert fresh.tags() == ["one@v1.0.0"]


@pytest.mark.slow
def test_a_file_in_a_folder_that_was_not_committed(fresh):
    """`dvc repro` would find nothing to do."""
    depend_on_inputs(fresh)
    fresh.build(5)
    for name in ("rows.csv", ".DS_Store", "left.pyc"):
        (fresh.folder / "inputs" / name).write_text(name)
    with (fresh.folder / ".git" / "info" / "exclude").open("a") as file:
        file.write(".DS_Store\n*.pyc\n")
    (fresh.folder / ".dvcignore").write_text("*.pyc\n")
    fresh.git("add", ".dvcignore")
    fresh.dvc("repro", "--quiet", "export@one")
    fresh.git("commit", "--quiet", "--all", "--message", "not all")
    said = "tapeline: inputs/.DS_Store is not committed (and 1 more), but the model depends on all of inputs: "
    assert fresh("registry", "register", "one", status=2).stderr.startswith(said)
    (fresh.folder / "inputs" / "own.py").write_text("x = 2\n")
    fresh.git("commit", "--quiet", "--all", "--message", "stale, too")
    head = fresh.git("rev-parse", "HEAD")[:10]
    said = f"tapeline: inputs of {head} is not what made the model: {STALE}"
    assert fresh("registry", "register", "one", status=2).stderr == said


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
    assert inputs._of_git_alone(dict.fromkeys(files, "100644")) is alone
    assert not inputs._of_git_alone({**dict.fromkeys(files, "100644"), "code/link": LINK})


def test_the_md5_of_a_folder_is_that_of_its_list_as_dvc_writes_it():
    digests = {"code/b": "2", "code/a": "1", "code/left": "3"}
    repository = SimpleNamespace(top=Path("/top"), digests=lambda commit, folder: digests)
    store = SimpleNamespace(ignores=lambda path: path == Path("/top/code/left"))
    found = inputs._files(SimpleNamespace(repository=repository, store=store), "c", "code", list(digests))
    listing = b'[{"md5": "1", "relpath": "a"}, {"md5": "2", "relpath": "b"}]'
    assert inputs._folder_digest(found) == hashlib.md5(listing).hexdigest() + ".dir"


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


def test_what_a_lock_or_a_dvc_file_records():
    """Of the path itself, or of a folder around it; `dvc import-db` writes no path of what it read."""
    one = "outs: [{md5: '1', hash: md5, path: one}]"
    contents = {
        "c:a/dvc.lock": "schema: '2.0'\nst",
        "c:b/dvc.lock": "schema: '2.0'\nstages:\n  nothing: {cmd: x}\n  made: {cmd: x, outs: [{path: one}, {path: two}]}\n",
        "c:raw/one.dvc": f"deps: [{{db: {{}}}}]\n{one}",
        "c:raw/cut.dvc": one[:9],
        "c:raw/odd.dvc": "[]",
        "c:raw/none.dvc": "deps: []",
    }
    repository = SimpleNamespace(
        top=Path("/top"),
        tracked=lambda commit: dict.fromkeys(["a/dvc.lock.txt", *(name.partition(":")[2] for name in contents)]),
        git=lambda command, name: contents[name],
    )
    registry = SimpleNamespace(repository=repository)
    for path, place in (
        *(("b/two", "b/two"), ("b/one/inner", "b/one"), ("b/three", ""), ("two", ""), ("b/twos", "")),
        *(("raw/one", "raw/one"), ("raw/one/a/b", "raw/one"), ("raw/ones", ""), ("raw", ""), ("raw/cut", "")),
        *(("raw/odd", ""), ("raw/none", "")),
    ):
        found = [made for made, _ in inputs._recorded(registry, "c", Path("/top") / path)]
        assert found == ([Path("/top") / place] if place else []), path


@pytest.mark.parametrize(
    ("recorded", "path", "md5", "is_same"),
    [
        (Entry("raw", "1" * 32), "raw", "1" * 32, True),
        (Entry("raw", "1" * 32), "raw", "2" * 32, False),
        (Entry("raw", "1" * 32, is_of_bytes=False), "raw", "2" * 32, True),
        (Entry("raw", None), "raw", "2" * 32, True),
        (Entry("raw", "1" * 32), "raw/a", "1" * 32, False),
    ],
)
def test_the_md5_that_dvc_has_of_a_path(recorded, path, md5, is_same):
    store = SimpleNamespace(listing=lambda md5: {"": md5})
    registry, top = SimpleNamespace(store=store), Path("/top")
    assert inputs._is_same(registry, top / path, md5, top / "raw", recorded) is is_same
