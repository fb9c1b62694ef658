"""Worktrees of isolated runs: which of them stay, and what they need not compile again."""

import os
import py_compile
import shutil
import subprocess
import sys

import pytest

from tapeline.config.project import Project
from tapeline.orchestration.isolation.byte_code import share_byte_code
from tapeline.orchestration.isolation.worktree import clean, worktree
from tapeline.repository.dvc.settings import Settings
from tapeline.repository.worktrees import FAILED, LOCK, beside, leftovers
from tapeline.runtime.errors import InputError, Interrupted, RunError


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (RunError("it failed"), True),
        (ValueError(), True),
        (InputError("train.epoch: no such setting"), False),
        (Interrupted("stopped", signum=15), False),
    ],
)
def test_what_failed_is_kept_and_a_mistake_is_not(project, error, kept):
    folder, said = project(), []
    subprocess.run(["git", "branch", "-M", "main"], cwd=folder, check=True)
    with pytest.raises(type(error)), worktree(Project.find(folder), "main", name="a", say=said.append) as tree:
        assert tree.project.folder.is_dir()
        raise error
    assert [p.name for p in (folder / ".tapeline/worktrees").iterdir() if p.is_dir()] == ["a"] * kept
    assert any("is kept for inspection" in line for line in said) == kept


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ('new "dvc.lock"', "new-dvc-lock"),
        ("a.lock.", "a-lock"),
        ("a.failed-", "a-failed"),
        (".lock", "lock"),
        ("a.lock.lock", "a.lock-lock"),
        ("a..b/c", "a-.b-c"),
        ("...", "run"),
        ("é" * 300, "run"),
        ("a" * 99 + "." + "a" * 200, "a" * 99),
    ],
)
def test_any_name_of_a_run_is_one_of_a_branch_and_of_a_folder(project, wanted, name):
    folder = project()
    for expected in (name, f"{name}-2"):
        with worktree(Project.find(folder), "HEAD", name=wanted, say=print) as tree:
            assert (tree.name, tree.project.folder.name) == (expected, expected)
            subprocess.run(["git", "branch", tree.branch], cwd=folder, check=True)
    assert leftovers(folder / ".tapeline/worktrees") == []


@pytest.mark.parametrize("suffix", [LOCK, FAILED])
def test_a_worktree_that_is_called_as_a_lock_is_blocks_no_run(project, suffix):
    """An earlier version made such a one, and each run after it ended at what it took for a lock."""
    folder = project()
    trees, said = folder / ".tapeline/worktrees", []
    left = trees / f"new-dvc{suffix}"
    subprocess.run(["git", "worktree", "add", "-q", "--detach", str(left)], cwd=folder, check=True)
    beside(left, LOCK).touch()
    beside(left, FAILED).write_text("it failed\n")
    assert [(one.folder, one.held, one.failed) for one in leftovers(trees)] == [(left, False, True)]
    with worktree(Project.find(folder), "HEAD", name="new-dvc", say=said.append) as tree:
        assert tree.name == "new-dvc-2"
        assert left.is_dir()
    beside(left, FAILED).unlink()
    clean(Project.find(folder), say=said.append)
    assert said == [f"removing the worktree of a crashed run: new-dvc{suffix}"]
    assert [path.name for path in trees.iterdir()] == [".lock"]


def test_it_has_every_file_whatever_the_checkout_leaves_out(project):
    """In a sparse checkout a worktree is sparse: the recipe was missing, or the one of the checkout above was found."""
    folder = project()
    for command in (["status"], ["sparse-checkout", "set", "--no-cone", "/*", "!/recipe.py"]):  # a copy's times are new
        subprocess.run(["git", *command], cwd=folder, check=True)
    assert not (folder / "recipe.py").exists()
    with worktree(Project.find(folder), "HEAD", name="a", say=print) as tree:
        assert (tree.project.folder / "recipe.py").is_file()
        assert tree.checkout("-C", str(tree.project.folder), "status", "--porcelain", "--untracked-files=no") == ""


def test_settings_of_dvc_that_cannot_be_read_are_named(project):
    folder = project()
    (folder / ".dvc" / "config.local").write_text("[core\n")
    with (
        pytest.raises(InputError, match="^DVC: config file error: Invalid line"),
        worktree(Project.find(folder), "HEAD", name="a", say=print),
    ):
        pass


def test_in_a_submodule_it_is_refused(committed, tmp_path):
    """DVC would look for the repository in the folder of Git's that the submodule shares with all its worktrees."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    allowed = ["-c", "protocol.file.allow=always"]
    subprocess.run(["git", *allowed, "submodule", "--quiet", "add", str(committed), "inner"], cwd=tmp_path, check=True)
    project = Project.find(tmp_path / "inner")
    with pytest.raises(InputError, match="is in a submodule"), worktree(project, "HEAD", name="a", say=print):
        pass
    assert not project.worktrees.exists()


def test_where_a_branch_is_called_runs_it_is_refused_before_anything_is_made(project):
    folder = project()
    subprocess.run(["git", "branch", "runs"], cwd=folder, check=True)
    said = "^a branch is called runs, so that none can be called runs/NAME: rename it$"
    with pytest.raises(InputError, match=said), worktree(Project.find(folder), "HEAD", name="a", say=print):
        pass
    assert not [*(folder / ".tapeline/worktrees").glob("*")]


def test_what_is_made_in_a_worktree_of_the_user_s_own_is_in_the_main_checkout_s_cache(committed, tmp_path):
    """One that is removed would take its own cache along, and with it what a branch of a run records."""
    main, own = tmp_path / "main", tmp_path / "own"
    shutil.copytree(committed, main)
    subprocess.run(["git", "worktree", "add", "-q", "-b", "mine", str(own)], cwd=main, check=True)
    cache, said = main / ".dvc" / "cache", []
    with worktree(Project.find(own), "HEAD", name="a", say=said.append) as tree:
        assert Settings.around(tree.project.folder).cache == str(cache)
    assert said == [
        f"uses the DVC cache of the main checkout, {cache}; `dvc cache dir --local {cache}` has DVC use it here"
    ]
    for named in (tmp_path / "named", cache):
        with Settings(own / ".dvc").edit_local() as local:
            local["cache"]["dir"] = str(named)
        with worktree(Project.find(own), "HEAD", name="a", say=said.append) as tree:
            assert Settings.around(tree.project.folder).cache == str(named)
    with worktree(Project.find(main), "HEAD", name="a", say=said.append) as tree:
        assert Settings.around(tree.project.folder).cache == str(cache)
    assert len(said) == 1


@pytest.fixture
def sources(project):
    """Make a repository with Python files and their byte code, which answers what no source says."""

    def commit(folder, **files):
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        subprocess.run(["git", "add", "-f", "."], cwd=folder, check=True)
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *who, "commit", "-qm", "sources"], cwd=folder, check=True)

    folder = project()
    commit(folder, same="ANSWER = 1\n", other="ANSWER = 1\n", late="ANSWER = 1\n", far="ANSWER = 1\n")
    subprocess.run(["git", "branch", "-M", "main"], cwd=folder, check=True)
    for name in ("same", "other", "late", "far"):
        source = folder / f"{name}.py"
        times = source.stat()
        source.write_text("ANSWER = 2\n")
        os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
        py_compile.compile(str(source))
        source.write_text("ANSWER = 1\n")
        os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    (folder / "other.py").write_text("ANSWER = 3\n")  # not what the commit has
    os.utime(folder / "late.py", (1, 1))  # later than its byte code, or earlier
    return folder


def test_a_worktree_has_the_byte_code_of_what_is_the_same(sources):
    with worktree(Project.find(sources), "main", name="a", say=print) as tree:
        code = "import same, other, late; print(same.ANSWER, other.ANSWER, late.ANSWER, sep='')"
        run = [sys.executable, "-c", code]
        said = subprocess.run(run, cwd=tree.project.folder, capture_output=True, text=True, check=True).stdout
        assert said == "211\n"


def test_byte_code_is_written_through_no_link(sources, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    subprocess.run(["git", "worktree", "add", "-q", "--detach", str(tmp_path / "w")], cwd=sources, check=True)
    (tmp_path / "w" / "__pycache__").symlink_to(outside)
    share_byte_code(sources, tmp_path / "w")
    assert list(outside.iterdir()) == []
    (tmp_path / "w" / "__pycache__").unlink()
    (tmp_path / "w" / "far.py").unlink()
    (tmp_path / "w" / "far.py").symlink_to(sources / "far.py")
    share_byte_code(sources, tmp_path / "w")
    names = {path.name.partition(".")[0] for path in (tmp_path / "w" / "__pycache__").iterdir()}
    assert names == {"same"}
