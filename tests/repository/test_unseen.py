"""A `.dvc` file that DVC overlooks is refused in one line that names it, the pattern and its file."""

import os
import subprocess
import sys
from contextlib import closing

import pytest
from raw_data import RawData

from tapeline.repository.dvc.repository import Dvc
from tapeline.repository.unseen import check_all, check_source
from tapeline.runtime.errors import InputError

HIDING = "/data/*\n!/data/raw/\n"


@pytest.fixture
def repository(tmp_path):
    """One file that came in with `dvc add`, before any pattern hides it."""
    made = RawData(tmp_path / "here")
    file = made.write("data/raw/own.csv", "a\n1\n")
    with pytest.warns(DeprecationWarning, match=r"_NoneStep\.value"):  # DVC calls pygtrie so
        made.dvc("add", [str(file)])
    made.commit()
    return made


def check(repository, *dependencies):
    with closing(Dvc(repository.folder)) as dvc:
        check_all(dvc, [repository.folder / path for path in dependencies])


def test_what_dvc_sees_is_fine(repository):
    check(repository, "data/raw/own.csv")
    check_source(repository.folder / "data/raw/own.csv")
    check_source(repository.folder / "none.csv")


def test_links_that_dvc_passes_over_are_refused(repository):
    own = repository.folder / "own"
    (own / "inner").mkdir(parents=True)
    (own / "inner" / "a.csv").symlink_to("../../data/raw/own.csv")
    check_source(own)
    (own / "inner" / "raw").symlink_to("../../data/raw")
    with pytest.raises(InputError, match=r"^own/inner/raw is a link to a folder: DVC follows only links to files; put"):
        check_source(own)
    (own / "inner" / "raw").unlink()
    (own / "b.csv").symlink_to("nowhere")
    with pytest.raises(InputError, match=r"^own/b.csv is a link to nothing: .*; fix or remove it$"):
        check_source(own)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (".gitignore", HIDING, "`/data/*` in line 1 of .gitignore hides data/ from it (`/data/?*` does not)"),
        (
            "data/.gitignore",
            "# x\n/raw/*\n!/raw/*.dvc\n",
            "`/raw/*` in line 2 of data/.gitignore hides data/raw/ from it",
        ),
        (".gitignore", "own.*\n", "`own.*` in line 1 of .gitignore hides data/raw/own.csv.dvc from it"),
    ],
)
def test_an_ignore_file_of_git(repository, file, text, said):
    repository.write(file, text)
    assert not repository.git("ls-files", "--deleted"), "Git has it"
    for checked in (lambda: check(repository), lambda: check_source(repository.folder / "data/raw/own.csv")):
        with pytest.raises(InputError) as refusal:
            checked()
        assert str(refusal.value).startswith("DVC does not see data/raw/own.csv.dvc") and said in str(refusal.value)
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("needed", ["data/raw/own.csv", "data/raw", "data/raw/own.csv/part"])
def test_a_dvcignore_that_hides_what_a_stage_needs(repository, needed):
    repository.write(".dvcignore", "/data/raw\n")
    check(repository, "other.csv")
    with pytest.raises(InputError, match=r"`/data/raw` in line 1 of \.dvcignore hides data/raw/ from it"):
        check(repository, needed)


def test_this_project_and_its_gallery(root):
    with closing(Dvc(root)) as dvc:
        check_all(dvc, [])


PARAMS = """datasets:
  own: {source: table, needs: data/raw/own.csv, features: {x: a}}
pipelines: {}
"""


def test_ingest_refuses_before_it_reads(repository, root):
    repository.write("params.yaml", PARAMS)
    repository.write(".gitignore", HIDING)
    command = [sys.executable, "-m", "tapeline", "ingest", "own"]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    answer = subprocess.run(
        command, cwd=repository.folder, env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2
    assert answer.stderr.startswith("tapeline: DVC does not see data/raw/own.csv.dvc")
    assert len(answer.stderr.splitlines()) == 1
    assert not (repository.folder / "data/own").exists()
