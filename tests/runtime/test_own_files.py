"""What a recipe reads of its repository must be what DVC compares; what is no person's is left out."""

import os
import sys

import numpy as np
import pytest

from tapeline.runtime import own_files, own_modules
from tapeline.runtime.errors import InputError


@pytest.fixture
def top(tmp_path, monkeypatch):
    """Return a repository, the working directory, with a recipe."""
    top = tmp_path / "project"
    (top / ".git").mkdir(parents=True)
    write(top, "recipes/own.py", "recipes/helper.py")
    monkeypatch.chdir(top)
    return top


def write(top, *names):
    for name in names:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("")


def check(top, *names, needs=None, known=()):
    """Check files of which each is there, but for what ends in `gone.txt`."""
    write(top, *(name for name in names if not name.endswith("gone.txt") and not (top / name).exists()))
    known = [top / "recipes" / "own.py", *known]
    own_files.check(top / "recipes" / "own.py", {top / name for name in names}, needs and top / needs, known=known)


@pytest.mark.parametrize(
    ("names", "needs", "said"),
    [
        (
            ["words/one.txt"],
            None,
            "own.py reads words/one.txt, whose changes DVC would not see: set `needs: words/one.txt`",
        ),
        (
            ["words/one.txt", "words/in/two.txt"],
            None,
            "reads words/in/two.txt, .*: set `needs: words` for the pipeline",
        ),
        (
            ["words/one.txt", "other/two.txt"],
            None,
            "set `needs` to a folder that holds all that .*, or links to the files",
        ),
        (["words/one.txt"], "other", "move it into other, which the pipeline `needs`, or link to it there"),
        (["words/one.txt"], "recipes/helper.py", "set `needs` to a folder that holds all that the recipe needs"),
        (["models/iris/saved_model/saved_model.pb", "models/iris/a.json"], None, "set `needs: models/iris` for"),
        (["runs/iris/train/weights/weights.index"], None, "set `needs: runs/iris/train/weights` for"),
        (["data/iris/train/x.npy"], None, "set `needs: data/iris` for"),
        (["data/raw/words/one.txt"], None, "set `needs: data/raw/words/one.txt` for"),
        (
            ["dvc.yaml", "params.yaml", ".dvc/config", ".dvcignore"],
            None,
            "dvc.yaml, .*: take what it needs from self.params",
        ),
        (["recipes/plugin.py"], None, "reads recipes/plugin.py"),
        (["recipes/plugin.py", "recipes/__pycache__/plugin.cpython-311.pyc"], None, "reads recipes/plugin.py"),
    ],
)
def test_what_dvc_would_not_see_is_refused_with_what_to_name(top, names, needs, said):
    (top / "other").mkdir()
    with pytest.raises(InputError, match=said):
        check(top, *names, needs=needs)


def test_what_dvc_compares_is_none_of_it(top):
    check(top, "words/one.txt", "words/in/two.txt", needs="words")
    check(top, "words/one.txt", needs="words/one.txt")
    check(top, "data/iris/x.npy", "recipes/own.py", known=[top / "data" / "iris"])
    (top / "links").mkdir()
    (top / "links" / "linked.txt").symlink_to(top / "words" / "one.txt")
    check(top, "words/one.txt", needs="links")
    (top / "links" / "folder").symlink_to(top / "words")
    with pytest.raises(InputError, match=r"reads words/in/two.txt"):  # DVC follows no link to a folder
        check(top, "words/in/two.txt", needs="links")


@pytest.mark.parametrize(
    "name",
    [
        "words/gone.txt",
        ".git/HEAD",
        ".dvc/config",
        "sub/.dvc/tmp/lock",
        ".dvcignore",
        "sub/.gitignore",
        ".cache/tapeline/modules/one",
        ".config/matplotlib/matplotlibrc",
        "src/mine.egg-info/entry_points.txt",
        "src/mine-1.0.dist-info/METADATA",
        "fonts/fontlist.json",
        "environment/lib/python3.11/site-packages/some/data.txt",
        "environment/share/data.txt",
    ],
)
def test_what_no_person_has_written_is_left_out(top, monkeypatch, name):
    monkeypatch.setenv("MPLCONFIGDIR", str(top / "fonts"))
    monkeypatch.setattr(sys, "prefix", str(top / "environment"))
    check(top, name)


def test_what_was_opened_in_vain_is_left_out(top):
    read = {top / ("x" * 5000), top / "recipes", top / "recipes" / "__pycache__" / "odd.pyc"}
    own_files.check(top / "recipes" / "own.py", read, None, known=[])


def test_a_link_to_what_a_stage_writes_is_noted(top, capsys):
    write(top, "models/iris/a", "words/one.txt", "links/own.txt", "data/raw/two.txt")
    for name in ("models/iris/a", "words/one.txt", "data/raw/two.txt"):
        (top / "links" / name.replace("/", "_")).symlink_to(top / name)
    own_files.note_outputs(top / "recipes" / "own.py", top / "links")
    own_files.note_outputs(top / "recipes" / "own.py", top / "words" / "one.txt")
    assert capsys.readouterr().err.splitlines() == [
        "note: own.py needs links/models_iris_a, a link to models/iris/a, which a stage writes: DVC does not run that "
        "stage first"
    ]


def test_a_file_of_secrets_is_noted(top, capsys):
    check(top, ".env", "sub/.env.local")
    assert capsys.readouterr().err.splitlines() == [
        "note: own.py reads .env: DVC will not see it change",
        "note: own.py reads sub/.env.local: DVC will not see it change",
    ]


def test_a_file_whose_content_is_in_a_cache_counts_where_it_is(top):
    cached = ".dvc/cache/files/md5/0/1"
    write(top, cached)
    for name in ("data/iris/x.npy", "words/one.txt"):
        (top / name).parent.mkdir(parents=True)
        (top / name).symlink_to(top / cached)
    iris = [top / "data" / "iris"]
    check(top, "data/iris/x.npy", known=iris)
    with pytest.raises(InputError, match=r"reads words/one.txt"):
        check(top, "words/one.txt", known=iris)
    check(top, "words/one.txt", needs="words/one.txt")
    (top / "links").mkdir()
    (top / "links" / "one.txt").symlink_to(top / "words" / "one.txt")
    check(top, "words/one.txt", needs="links")
    with pytest.raises(InputError, match=r"reads words/one.txt"):  # of the same content
        check(top, "words/one.txt", needs="data/iris")


def test_the_data_s_folder_may_be_a_link(top, tmp_path, capsys):
    write(tmp_path, "disk/iris/x.npy")
    (top / "data").mkdir()
    (top / "data" / "iris").symlink_to(tmp_path / "disk" / "iris")
    check(top, "data/iris/x.npy", known=[top / "data" / "iris"])
    assert not capsys.readouterr().err


def test_a_file_elsewhere_is_noted_unless_it_is_of_the_system(top, tmp_path, monkeypatch, capsys):
    names = ("home/.config/some.ini", "home/.cache/hub/some.h5", "home/.cache/matplotlib/fonts.json", "disk/words.txt")
    write(tmp_path, *names)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(own_files.tempfile, "gettempdir", lambda: str(tmp_path / "none"))
    read = {*(tmp_path / name for name in names), *map(type(tmp_path), ("/etc/passwd", np.__file__))}
    own_files.check(top / "recipes" / "own.py", read, None, known=[])
    assert capsys.readouterr().err.splitlines() == [
        f"note: own.py reads {tmp_path}/{name}, which is outside this repository: DVC will not see it change"
        for name in ("disk/words.txt", "home/.cache/hub/some.h5")
    ]


def test_of_many_files_elsewhere_a_few_are_named(top, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(own_files.tempfile, "gettempdir", lambda: str(tmp_path / "none"))
    names = [f"disk/{number:04}.png" for number in range(2000)]
    write(tmp_path, *names)
    own_files.check(top / "recipes" / "own.py", {tmp_path / name for name in names}, None, known=[])
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 4
    assert said[-1].startswith(f"note: own.py reads 1,997 more, such as {tmp_path}/disk/1999.png, which is outside")


def test_a_repository_inside_python_s_own_folder_is_none_of_it(top, monkeypatch):
    """As /usr/src/app in a container."""
    monkeypatch.setattr(sys, "prefix", str(top.parent))
    with pytest.raises(InputError, match=r"reads words.txt"):
        check(top, "words.txt")


def test_without_git_the_project_is_what_counts(top, tmp_path):
    (top / ".git").rmdir()
    assert own_modules.tree_of(top) is None, "no folder above is a repository"
    with pytest.raises(InputError, match=r"reads words.txt"):
        check(top, "words.txt")
    os.chdir(top / "recipes")
    check(top, "words.txt")
