"""`tapeline verify` finds what does not repeat, names the file and the bytes, and touches nothing."""

import json
import re
import shutil

import pytest
from damaged import lose
from repositories import Repository

from tapeline.config.project import Project
from tapeline.repository.dvc_lock import Lock
from tapeline.repository.rebuilding import byte_range
from tapeline.repository.verify import stale, verify
from tapeline.runtime.environment import has_portable_bits, machine
from tapeline.runtime.errors import InputError, RunError

# DVC itself uses what pygtrie is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")

# Differs each time: its process id in a fixed width.
OTHER_EACH_TIME = "printf %08d $$"


def verified(repository, *targets):
    lines = []
    same = verify(Project.find(repository.folder), targets or ("export@one",), say=lines.append)
    return same, lines


def test_what_repeats(tmp_path):
    repository = Repository(tmp_path / "ordner mit ö")
    before = repository.git("status", "--porcelain")
    same, lines = verified(repository)
    assert same
    table = {line.split()[0]: line.split()[-1] for line in lines[2:-1]}
    assert table == {"data/near": "yes", "runs/one.weights": "yes", "runs/one.json": "yes", "models/one": "yes"}
    assert repository.git("status", "--porcelain") == before
    assert re.fullmatch("SHA-256 of all outputs: [0-9a-f]{64}", lines[-1])
    assert verified(repository)[1][-1] == lines[-1]


def test_a_file_that_differs_is_named_with_its_bytes(tmp_path):
    same, lines = verified(Repository(tmp_path, train=OTHER_EACH_TIME))
    assert not same
    assert [line.split()[0] for line in lines if line.endswith("NO")] == ["runs/one.weights"]
    assert lines[-1].startswith("runs/one.weights differs: bytes ")


@pytest.mark.slow
def test_a_recipe_in_a_submodule_is_said(tmp_path):
    """A clone does not have its files; DVC said that a stage failed."""
    repository, other = Repository(tmp_path / "own"), Repository(tmp_path / "other")
    add = ("submodule", "--quiet", "add", str(other.folder), "shared")
    repository.git("-c", "protocol.file.allow=always", *add)
    params = (repository.folder / "params.yaml").read_text()
    (repository.folder / "params.yaml").write_text(params.replace("recipe: recipe.py", "recipe: shared/recipe.py"))
    repository.dvc("repro", "--quiet", "export@one")
    repository.commit()
    with pytest.raises(InputError, match="^shared/recipe.py is in the Git submodule shared, whose files neither a"):
        verified(repository)


@pytest.mark.slow
def test_a_file_inside_a_folder_too(tmp_path):
    same, lines = verified(Repository(tmp_path, export=OTHER_EACH_TIME))
    assert not same
    assert lines[-1].startswith("models/one/graph differs: bytes ")


@pytest.mark.slow
def test_without_the_recorded_bytes_it_still_says_which_out(tmp_path):
    repository = Repository(tmp_path, train=OTHER_EACH_TIME)
    shutil.rmtree(tmp_path / ".dvc" / "cache")
    same, lines = verified(repository)
    assert not same
    assert lines[-1] == (
        "runs/one.weights differs; where is unknown, as its recorded bytes are not in the cache: run `dvc pull`"
    )


def recorded_elsewhere(repository, bits):
    recorded = {"machine": {**machine(), "cpu": "Another CPU"}, "libraries": {}}
    made = repository.folder / "runs" / "one" / "environment.json"
    made.parent.mkdir(parents=True)
    made.write_text(json.dumps(recorded))
    repository.git("add", "--force", "runs/one/environment.json")
    params = repository.folder / "params.yaml"
    params.write_text(params.read_text().replace("batch_size: 1}", f"batch_size: 1, bits: {bits}}}"))
    repository.commit()


@pytest.mark.slow
def test_the_record_of_another_machine_is_compared_too(tmp_path):
    repository = Repository(tmp_path)
    recorded_elsewhere(repository, "native")
    same, lines = verified(repository)
    assert same and lines[-1].startswith("SHA-256 of all outputs: ")


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [True, False])
def test_two_rebuilds_are_compared_where_another_machine_s_bits_are_its_own(tmp_path, repeats):
    """A result that repeats, and is not the recorded one, is said to be just that."""
    (tmp_path / "once").write_text("recorded")
    repository = Repository(tmp_path / "one", train=f"cat {tmp_path}/once" if repeats else OTHER_EACH_TIME)
    recorded_elsewhere(repository, "native")
    (tmp_path / "once").write_text("rebuilt")
    same, lines = verified(repository)
    assert same == repeats
    said = "comparing two rebuilds with each other, which says nothing about the record"
    assert any(line.startswith("recorded on Another CPU") and line.endswith(said) for line in lines)
    assert any(line.startswith("runs/one.weights") and line.endswith("NO") for line in lines)


@pytest.mark.skipif(not has_portable_bits(), reason="this CPU has no portable bits")
def test_a_record_that_only_says_it_is_another_machine_s_is_not_excused(tmp_path):
    """Who changes a figure can change what the record says of the machine, too."""
    repository = Repository(tmp_path, train=OTHER_EACH_TIME)
    recorded_elsewhere(repository, "portable")
    same, lines = verified(repository)
    assert not same
    assert lines[-1].endswith("; bits are portable, so they must be the same on this machine")


@pytest.mark.slow
def test_an_old_record_that_does_not_repeat_says_what_it_does_not_say(tmp_path):
    repository = Repository(tmp_path, train=OTHER_EACH_TIME)
    told = {key: machine()[key] for key in ("cpu", "architecture", "threads", "python", "system") if key in machine()}
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "environment.json").write_text(json.dumps({"machine": told}))
    repository.git("add", "--force", "runs/one/environment.json")
    repository.commit()
    same, lines = verified(repository)
    assert not same
    assert lines[-1].startswith("the record lacks its ")


def reading(repository, path, *, inside=""):
    """Have the dataset be a copy of raw data, and commit; `inside` is the project's folder in the repository."""
    file = repository.folder / inside / "dvc.yaml"
    text = file.read_text().replace("&& echo ${key} > data/${key}", f"&& cp {path} data/${{key}}")
    file.write_text(text.replace('outs: ["data/${key}"]', f'deps: ["{path}"], outs: ["data/${{key}}"]'))
    repository.dvc("repro", "--quiet", f"{file}:export@one")
    repository.commit()


@pytest.mark.slow
@pytest.mark.parametrize(("path", "committed"), [("houses.csv", False), ("data/raw/own.csv", True)])
def test_raw_data_comes_from_the_cache_that_dvc_uses(tmp_path, path, committed):
    repository = Repository(tmp_path / "it")
    cache = tmp_path / "a cache"
    repository.dvc("cache", "dir", *([] if committed else ["--local"]), str(cache))
    (repository.folder / path).parent.mkdir(parents=True, exist_ok=True)
    (repository.folder / path).write_text("1,2\n")
    repository.dvc("add", "--quiet", path)
    reading(repository, path)
    before = {file: file.stat().st_mtime_ns for file in cache.rglob("*")}
    assert verified(repository)[0]
    assert {file: file.stat().st_mtime_ns for file in cache.rglob("*")} == before, "the rebuild has a cache of its own"
    for file in (cache / "files").rglob("*"):
        file.is_file() and file.unlink()
    with pytest.raises(RunError) as said:
        verified(repository)
    assert re.fullmatch(
        f"DVC's cache lacks some of the raw data: dvc checkout in .*: Checkout failed for following targets: {path}; "
        "run `dvc fetch`",
        str(said.value),
    )


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True], ids=["one DVC", "a DVC of its own"])
def test_a_project_in_a_folder_of_the_repository(tmp_path, own):
    repository = Repository(tmp_path / "it")
    inside = tmp_path / "it" / "project"
    inside.mkdir()
    for name in ("recipe.py", "other.py", "dvc.yaml", "params.yaml"):
        (tmp_path / "it" / name).rename(inside / name)
    (tmp_path / "it" / "dvc.lock").unlink()
    path = "raw.csv" if own else "../elsewhere/raw.csv"
    (inside / path).parent.mkdir(exist_ok=True)
    (inside / path).write_text("1,2\n")
    if own:
        repository.folder = inside
        repository.dvc("init", "--quiet", "--subdir")
        repository.dvc("add", "--quiet", path)
        reading(repository, path)
    else:
        repository.dvc("add", "--quiet", str(inside / path))
        reading(repository, path, inside="project")
    assert verify(Project.find(inside), ["export@one"], say=print)


@pytest.mark.slow
def test_imported_raw_data_need_no_source(tmp_path):
    source = Repository(tmp_path / "source")
    repository = Repository(tmp_path / "it")
    repository.dvc("import", "--quiet", "--out", "graph", str(source.folder), "models/one/graph")
    reading(repository, "graph")
    shutil.rmtree(source.folder)
    assert verified(repository)[0]


@pytest.mark.long
def test_what_is_imported_without_a_download_comes_from_its_source(tmp_path):
    source = Repository(tmp_path / "source")
    repository = Repository(tmp_path / "it")
    repository.dvc("import", "--quiet", "--no-download", "--out", "graph", str(source.folder), "models/one/graph")
    repository.commit()
    unread = (repository.folder / "graph.dvc").read_text()
    reading(repository, "graph")
    (repository.folder / "graph.dvc").write_text(unread)
    repository.commit()
    assert verified(repository)[0]


def test_a_lock_that_is_not_committed_or_that_git_cannot_read(tmp_path):
    repository = Repository(tmp_path)
    lose(tmp_path, "HEAD:dvc.lock")
    with pytest.raises(RunError, match="git cat-file: "):
        verified(repository)
    repository.git("rm", "--quiet", "--cached", "dvc.lock")
    repository.git("commit", "--quiet", "--message", "no lock")
    with pytest.raises(
        InputError, match="dvc.lock at [0-9a-f]+ does not record export@one: run `dvc repro export@one`"
    ):
        verified(repository)


def test_there_is_nothing_to_compare_with(tmp_path):
    repository = Repository(tmp_path)
    with pytest.raises(InputError, match="does not record export@two: run `dvc repro export@two` and commit dvc.lock"):
        verified(repository, "export@one", "export@two")
    with pytest.raises(InputError, match="every pipeline needs a network"):
        verify(Project.find(tmp_path), [], say=print)
    (tmp_path / "params.yaml").write_text("pipelines: {}\n")
    repository.git("commit", "--quiet", "--all", "--message", "none")
    with pytest.raises(InputError, match="^params.yaml of HEAD has no pipelines: commit some$"):
        verify(Project.find(tmp_path), [], say=print)


@pytest.mark.slow
def test_what_is_not_committed_is_said(tmp_path):
    repository = Repository(tmp_path)
    (tmp_path / "recipe.py").write_text("'''Other.'''\n")
    same, lines = verified(repository)
    assert same
    assert "without uncommitted changes" in lines[0]


@pytest.mark.slow
def test_a_stage_that_fails_and_a_folder_without_git(tmp_path):
    repository = Repository(tmp_path / "fails")
    text = (repository.folder / "dvc.yaml").read_text().replace("echo ${key} > runs/${key}.json", "false")
    (repository.folder / "dvc.yaml").write_text(text)
    repository.commit()
    with pytest.raises(RunError, match="failed to reproduce 'validate@one'"):
        verified(repository)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "params.yaml").write_text("")
    with pytest.raises(InputError, match="is not in a Git repository"):
        verify(Project.find(tmp_path / "none"), ["export@one"], say=print)


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (b"same", b"same", ""),
        (b"abcdef", b"abXdeX", "bytes 2 to 5, 2 of them"),
        (b"abc", b"abcd", "3 bytes against 4"),
        (b"abc", b"Xbcd", "bytes 0 to 0, 1 of them; 3 bytes against 4"),
        (b"", b"a", "0 bytes against 1"),
    ],
)
def test_the_range_of_bytes(one, other, said):
    assert byte_range(one, other) == said


def test_a_lock_of_other_parameters_is_stale():
    stages = {"train@a": {"params": {"params.yaml": {"pipelines.a.train": {"epochs": 3}}}}, "ingest@d": {}}
    lock = Lock.parsed({"stages": stages})
    parameters = {"pipelines": {"a": {"dataset": "d", "train": {"epochs": 3}}, "b": {"dataset": "d"}}}
    assert stale(lock, parameters, ["export@a"]) == ""
    parameters["pipelines"]["a"]["train"] = {"epochs": 4}
    assert stale(lock, parameters, ["export@a"]) == (
        'train@a was recorded with pipelines.a.train {"epochs": 3}, and params.yaml has {"epochs": 4}'
    )
    assert stale(lock, parameters, ["export@b"]) == "", "not asked for"
