"""Each name of DVC that Tapeline uses and DVC does not document is still there and still answers.

A test that fails here says what an upgrade of DVC took away; everything that depends on it is in one module.
"""

import ast
import importlib
import inspect
import os
import shutil
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest
from dvc.exceptions import ReproductionError
from repositories import Repository

from tapeline.repository import dvc_internals
from tapeline.repository.dvc_internals import Dvc, LockError, NotDvcRepoError, Settings, file_lock, is_lock, merged

MODULE = Path(dvc_internals.__file__)
SOURCE = Path(__file__).parents[2] / "src" / "tapeline"

# DVC itself uses what pygtrie is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")


def imported():
    """Return (module, name) for all that the adapter imports from DVC."""
    found = [node for node in ast.parse(MODULE.read_text()).body if isinstance(node, ast.ImportFrom)]
    return [(n.module, a.name) for n in found if n.module.split(".")[0] in ("dvc", "voluptuous") for a in n.names]


def gone(name):
    return f"DVC {version('dvc')} no longer has {name}: adapt {MODULE.relative_to(SOURCE.parents[1])}"


@pytest.mark.parametrize(("module", "name"), imported(), ids=lambda given: given)
def test_an_imported_name_is_there(module, name):
    assert hasattr(importlib.import_module(module), name), gone(f"{module}.{name}")


def test_nothing_is_written_to_a_terminal_at_the_end():
    """Each command that asked DVC ended with `\\x1b[0m`, which resets colours."""
    ours, theirs = os.openpty()
    try:
        subprocess.run(
            [sys.executable, "-c", f"import {dvc_internals.__name__}; print('end')"], stdout=theirs, check=True
        )
        assert os.read(ours, 1000) == b"end\r\n"
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("callable_", "argument"),
    [
        (lambda: dvc_internals.Repo.__init__, "_wait_for_lock"),
        (lambda: dvc_internals.Repo.status, "with_deps"),
        (lambda: dvc_internals.Repo.reproduce, "single_item"),
        (lambda: dvc_internals.make_lock, "hardlink_lock"),
        (lambda: dvc_internals.make_lock, "tmp_dir"),
        (lambda: dvc_internals.Config.__init__, "validate"),
        (lambda: dvc_internals.Config.edit, "validate"),
        (lambda: importlib.import_module("dvc.stage").Stage.changed, "allow_missing"),
        (lambda: importlib.import_module("dvc.stage").Stage.changed, "upstream"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_an_argument_is_there(callable_, argument):
    parameters = inspect.signature(callable_()).parameters
    taken = argument in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    assert taken, gone(f"the argument {argument} of {callable_().__qualname__}")


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


@pytest.mark.parametrize("name", ["made", "größe 写"])
def test_settings_are_read_and_written(tmp_path, name):
    made = Repository(tmp_path / name)
    made.dvc("remote", "add", "--default", "store", str(tmp_path / "store"))
    settings = Settings.around(made.folder / "data")
    assert (settings.remotes, settings.default_remote, settings.cache) == (["store"], "store", None)
    assert settings.level("repo")["remote"]["store"]["url"] == str(tmp_path / "store")
    with settings.edit_local() as local:
        merged(local, {"cache": {"dir": str(made.folder / "cache")}})
    assert Settings.around(made.folder).cache == str(made.folder / "cache")
    assert made.dvc("cache", "dir").strip() == str(made.folder / "cache"), gone("Config._save_config")
    with pytest.raises(NotDvcRepoError):
        Settings.around(tmp_path)


def test_a_lock_that_another_holds(tmp_path):
    with file_lock(tmp_path / "lock"), pytest.raises(LockError), file_lock(tmp_path / "lock"):
        pass
    with file_lock(tmp_path / "lock"):
        pass


@pytest.mark.parametrize(
    ("tree", "valid"), [({"schema": "2.0", "stages": {}}, True), ({"schema": "2.0", "stages": 3}, False), (None, False)]
)
def test_the_schema_of_a_lock(tree, valid):
    assert is_lock(tree) == valid


def test_no_other_module_imports_dvc():
    """The import contract says so too; here for what is imported inside a string of code or under a condition."""
    words = ("from dvc", "import dvc", "from dvc_", "import dvc_")
    lines = {
        path.relative_to(SOURCE).as_posix(): line.strip()
        for path in SOURCE.rglob("*.py")
        if path != MODULE
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip().startswith(words)
    }
    assert not lines


def test_the_exit_status_in_the_message_of_a_failed_command():
    error = dvc_internals.StageCmdFailedError("exec python stage.py, exited with 7", -9)
    assert dvc_internals._status(error) == -9, gone("the exit status at the end of the message")


@pytest.mark.parametrize(
    ("path", "lost"), [(f"/a b/.dvc/cache/runs/b0/b0{'9' * 62}/.r7AzerVe.tmp", True), ("/a b/runs/points.tmp", False)]
)
def test_a_run_that_another_process_removed_is_no_failure(path, lost):
    error = ReproductionError("failed to reproduce 'ingest@points'")
    error.__cause__ = FileNotFoundError(2, "No such file or directory", path)
    assert dvc_internals.FailedStage(error).was_busy is lost
