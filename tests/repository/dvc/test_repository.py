"""What is asked of DVC about stages, cache and remote still has its answer."""

import shutil
from contextlib import closing

import pytest
from repositories import Repository
from undocumented import gone

from tapeline.repository.dvc.repository import Dvc

# DVC itself uses what pygtrie is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return Repository(tmp_path_factory.mktemp("a repository"))


@pytest.fixture(scope="module")
def dvc(repository):
    with closing(Dvc(repository.folder, wait=True)) as opened, opened.locked():
        yield opened


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("Repo.root_dir", lambda dvc, top: dvc.top == top),
        ("Repo.scm.root_dir", lambda dvc, top: dvc.git_top == top),
        ("Repo.cache.local.path", lambda dvc, top: dvc.cache == top / ".dvc/cache/files/md5"),
        ("Repo.index.stages", lambda dvc, top: {"train@one", "train@two"} <= {stage.name for stage in dvc.stages()}),
        ("Repo.index.graph", lambda dvc, top: [s.name for s in dvc.upstream(one(dvc, top))] == CHAIN),
        ("Repo.stage.load_one", lambda dvc, top: one(dvc, top).name == "export@one"),
        ("Repo.status", lambda dvc, top: dvc.status(top / "dvc.yaml", "export@one") == {}),
        ("Repo.dvcignore.is_ignored_file", lambda dvc, top: not dvc.ignores(top / "recipe.py")),
        ("Repo.dvcignore.check_ignore", lambda dvc, top: dvc.ignored_by(str(top / "recipe.py")) is None),
        ("Repo.cloud.get_remote_odb", lambda dvc, top: dvc.remote() is None),
        ("Stage.path", lambda dvc, top: one(dvc, top).file == top / "dvc.yaml"),
        ("Stage.is_data_source", lambda dvc, top: not one(dvc, top).is_raw_data),
        ("Stage.deps", lambda dvc, top: one(dvc, top).dependencies == [top / "runs/one.json"]),
        ("Stage.outs", lambda dvc, top: one(dvc, top).outputs == [top / "models/one"]),
        ("Output.hash_info", lambda dvc, top: one(dvc, top).recorded == [True]),
        ("Stage.changed", lambda dvc, top: not one(dvc, top).is_stale() and dvc.stage(*other(top)).is_stale()),
        (
            "Stage.changed(upstream)",
            lambda dvc, top: not one(dvc, top).is_stale(missing_ok=True, upstream=dvc.stages()),
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_an_attribute_still_answers(dvc, repository, name, ask):
    try:
        answers = ask(dvc, repository.folder)
    except AttributeError as error:
        pytest.fail(f"{gone(name)} ({error})")
    assert answers, gone(f"{name} as it was")


CHAIN = ["ingest@near", "train@one", "validate@one", "export@one"]


def one(dvc, top):
    return dvc.stage(top / "dvc.yaml", "export@one")


def other(top):
    return top / "dvc.yaml", "export@two"


def test_a_dvcignore_line_is_named(tmp_path):
    made = Repository(tmp_path / "made")
    (made.folder / ".dvcignore").write_text("# ours\n*.log\n")
    with closing(Dvc(made.folder)) as dvc:
        assert dvc.ignored_by(str(made.folder / "x.log")) == (".dvcignore", "2", "*.log"), gone("pattern_infos")
        assert dvc.ignores(made.folder / "x.log")


def test_a_remote_gives_what_was_pushed(tmp_path):
    made = Repository(tmp_path / "made")
    made.dvc("remote", "add", "--default", "store", str(tmp_path / "store"))
    made.dvc("push", "--quiet", "export@one")
    with closing(Dvc(made.folder)) as dvc:
        remote = dvc.remote()
        listing = next(path for path in dvc.cache.glob("??/*.dir"))
        md5 = listing.parent.name + listing.name
        assert remote.has(md5) and not remote.has("0" * 32), gone("RemoteODB.exists")
        remote.fetch(md5, tmp_path / "fetched")
    assert (tmp_path / "fetched").read_bytes() == listing.read_bytes(), gone("RemoteODB.oid_to_path and fs.get_file")


@pytest.mark.first(1)
@pytest.mark.parametrize("lost", ["??/*.dir", "??/??????????????????????????????"])
def test_what_neither_cache_nor_remote_has_is_named(tmp_path, lost):
    """A folder's list, and one of its files; the list on the remote stands for all of them."""
    made = Repository(tmp_path / "made")
    made.dvc("remote", "add", "--default", "store", str(tmp_path / "store"))
    made.dvc("push", "--quiet", "export@one")
    with closing(Dvc(made.folder)) as dvc, dvc.locked():
        stages = [one(dvc, made.folder), dvc.stage(*other(made.folder))]
        assert dvc.lost(stages) == [], gone("Output.cache")
        for path in dvc.cache.glob(lost):
            path.unlink()
        assert dvc.lost(stages) == [], gone("Output.remote and hash_name")
        for path in (tmp_path / "store").rglob("*.dir"):
            path.unlink()
        whole = [] if lost.endswith("?") else [made.folder / "models/one"]
        assert dvc.lost(stages) == whole, gone("Output.get_obj")
        shutil.rmtree(tmp_path / "store")
        assert dvc.lost(stages) == [made.folder / "models/one"], gone("Output.use_cache, or Stage.is_import")
