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
