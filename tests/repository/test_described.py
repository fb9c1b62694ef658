"""The machine's description of a training that was restored comes from the run that has trained it."""

import pytest

from tapeline.repository.described import bring, path
from tapeline.repository.git import Git

LOCK = """schema: '2.0'
stages:
  train@one:
    cmd: train
    deps:
    - path: data
      md5: {data}
    outs:
    - path: runs/one/train
      md5: 1234
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A repository with two runs of one training, a damaged one, and one of other data."""
    folder = tmp_path_factory.mktemp("runs")
    git = Git(folder)
    git("init", "--quiet", "--initial-branch=main")
    for name, lock in {"a": LOCK.format(data="5"), "b": LOCK.format(data="6"), "c": "stages: ["}.items():
        (folder / "dvc.lock").write_text(lock)
        (folder / path("one")).parent.mkdir(parents=True, exist_ok=True)
        (folder / path("one")).write_text(f'{{"machine": "{name}"}}\n')
        git("add", "--force", "dvc.lock", path("one"))
        git("-c", "user.name=t", "-c", "user.email=t@e.org", "commit", "--quiet", "--message", name)
        git("branch", f"runs/{name}")
    (folder / "dvc.lock").write_text(LOCK.format(data="5"))
    (folder / path("one")).write_text("{")
    git("add", "dvc.lock", path("one"))
    git("-c", "user.name=t", "-c", "user.email=t@e.org", "commit", "--quiet", "--message", "cut")
    git("branch", "runs/cut")
    return folder


@pytest.mark.parametrize(("data", "name"), [("5", "a"), ("6", "b")])
def test_it_is_that_of_the_same_training(runs, data, name):
    (runs / "dvc.lock").write_text(LOCK.format(data=data))
    assert bring(runs, "one") == f"runs/{name}"
    assert (runs / path("one")).read_bytes() == f'{{"machine": "{name}"}}\n'.encode()


@pytest.mark.parametrize("lock", [LOCK.format(data="7"), "stages: [", ""])
def test_without_such_a_run_nothing_is_written(runs, lock):
    (runs / "dvc.lock").write_text(lock)
    before = (runs / path("one")).read_bytes()
    assert bring(runs, "one") == "" and (runs / path("one")).read_bytes() == before


@pytest.fixture
def checkout(tmp_path):
    """A project in a subfolder, with a worktree beside the repository and the lock of one training there."""
    git = Git(tmp_path / "top")
    git.folder.mkdir()
    git("init", "--quiet", "--initial-branch=main")
    git("-c", "user.name=t", "-c", "user.email=t@e.org", "commit", "--quiet", "--allow-empty", "--message", "empty")
    git("worktree", "add", "--quiet", "--detach", str(tmp_path / "tree"))
    for top in ("top", "tree"):
        (tmp_path / top / "inside/runs/one").mkdir(parents=True)
        (tmp_path / top / "inside/dvc.lock").write_text(LOCK.format(data="5"))
    return tmp_path / "top/inside"


def test_it_is_that_of_another_checkout_whose_results_are_not_committed(checkout, tmp_path):
    (checkout / path("one")).write_text('{"machine": "here"}\n')
    there = tmp_path / "tree/inside"
    assert bring(there, "one") == str(checkout)
    assert (there / path("one")).read_bytes() == b'{"machine": "here"}\n'
    (checkout / "dvc.lock").write_text(LOCK.format(data="6"))
    assert bring(there, "one") == "", "its own file is not that of another"


@pytest.mark.parametrize("ref", ["refs/heads/other", "refs/exps/ab/cdef/warm-boa"])
def test_it_is_that_of_a_branch_or_of_an_experiment(checkout, ref):
    git = Git(checkout)
    (checkout / path("one")).write_text('{"machine": "that"}\n')
    git("add", "--force", ".")
    git("-c", "user.name=t", "-c", "user.email=t@e.org", "commit", "--quiet", "--message", "results")
    git("update-ref", ref, "HEAD")
    git("reset", "--quiet", "--soft", "HEAD~1")
    (checkout / path("one")).unlink()
    assert bring(checkout, "one") == ref.removeprefix("refs/heads/")
    assert (checkout / path("one")).read_bytes() == b'{"machine": "that"}\n'
