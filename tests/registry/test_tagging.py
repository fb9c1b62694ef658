"""Tags of one model are seconds apart, whatever the clock says; a killed process's lock does not stay."""

import os
import re
import subprocess
from types import SimpleNamespace

import pytest
from keys import pushed_object
from registries import PARAMS

from tapeline.config.project import Project
from tapeline.registry.register import register
from tapeline.registry.registry import Registry
from tapeline.registry.repository import Repository
from tapeline.registry.tags import state, tagging
from tapeline.registry.tags.names import Artifact
from tapeline.runtime.errors import InputError

NOW = 1_000_000_000.5
TAG = "one#dev#1"
NEXT = "one#prod#2"


@pytest.fixture
def clock(monkeypatch):
    """A clock that only sleeping moves; what was slept."""
    slept = []
    monkeypatch.setattr(tagging.time, "time", lambda: NOW + sum(slept))
    monkeypatch.setattr(tagging.time, "monotonic", lambda: sum(slept))
    monkeypatch.setattr(tagging.time, "sleep", slept.append)
    return slept


@pytest.fixture
def tagged(tmp_path):
    """Return a repository with a tag so many seconds after the whole second of `NOW`; none for None."""

    def make(seconds):
        time = {"GIT_COMMITTER_DATE": f"@{int(NOW) + (seconds or 0)} +0000"}
        who = [("config", f"user.{key}", "Ann") for key in ("name", "email")]
        commands = [("init", "--quiet"), *who, ("commit", "--quiet", "--allow-empty", "-m", "x")]
        for command in [*commands, *([("tag", "-a", TAG, "-m", "x")] if seconds is not None else [])]:
            subprocess.run(["git", *command], cwd=tmp_path, env={**os.environ, **time}, check=True)
        return Repository(tmp_path)

    return make


@pytest.mark.parametrize(("ahead", "waits"), [(None, 0.0), (-1, 0.0), (0, 0.5), (1, 1.5), (5, 5.5)])
def test_it_waits_until_a_later_second_than_the_newest_tags(tagged, clock, ahead, waits):
    tagging.wait_for_next_second(tagged(ahead), NEXT)
    assert sum(clock) == pytest.approx(waits, abs=0.03)


def test_a_tag_more_than_five_seconds_ahead_is_a_clock_that_is_wrong(tagged, clock):
    with pytest.raises(
        InputError, match="^the newest tag, [^ ]+, is 6 s in the future: set this machine's clock, or delete it$"
    ):
        tagging.wait_for_next_second(tagged(6), NEXT)  # 5.5
    assert clock == []


@pytest.mark.parametrize("tag", ["two#prod#2", "sub=one@v1.0.0", "tapeline/revoked/two/v1.0.0"])
def test_a_tag_that_is_not_about_this_model_is_not_waited_for(tagged, clock, tag):
    """A release of the application may be dated ahead."""
    repository = tagged(5000)
    tagging.make(repository, tag, "HEAD", "x\n")
    assert tag in repository.tag_names() and clock == []


def test_a_lock_is_waited_for_a_second_and_then_removed(tagged, clock):
    repository = tagged(None)
    lock = repository.common / "refs" / "tags" / "one@v1.0.0.lock"
    other = lock.with_name("one@v1.0.1.lock")
    for path in (lock, other):
        path.touch()
    tagging._clear(repository, "one@v1.0.0")
    assert sum(clock) == pytest.approx(1.0, abs=0.06)
    assert not lock.exists() and other.exists()
    clock.clear()
    tagging._clear(repository, "one@v1.0.0")
    assert clock == []


YEAR_11000 = 284_990_000_000


def test_a_tag_dated_beyond_the_years_is_no_newest_one(tagged, clock):
    """GTO fails on such a tag of a model before it does anything."""
    repository = tagged(YEAR_11000 - int(NOW))
    repository.git("tag", "one@v1.0.8", TAG)
    message = "one v1.0.9\n\n# no comment\n{}\n"
    tagging.make(repository, "one@v1.0.9", repository.head, message)
    (made,) = (tag for tag in repository.tags() if tag.name == "one@v1.0.9")
    assert (made.commit, made.message, clock) == (repository.head, message, [])


@pytest.mark.parametrize("folder", ["exp@home", "proj#2", "my models", "a..b", "x~1", "a.lock/", "-"])
def test_a_folder_whose_name_no_tag_can_have(tmp_path, folder):
    """The tag was made, and `register` ended in a KeyError; or Git's refusal was told as one to sign."""
    place = tmp_path / folder
    place.mkdir(parents=True)
    (place / "params.yaml").write_text(PARAMS)
    who = [("config", f"user.{key}", "Ann") for key in ("name", "email")]
    for command in [("init", "--quiet"), *who, ("add", "--all"), ("commit", "--quiet", "-m", "x")]:
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    registry = Registry.for_model(Project.find(place), "one")
    inside = folder.removesuffix("/")
    said = f"^no tag can be called '.*one@v1.0.0': rename the folder '{re.escape(inside)}'$"
    if inside in ("-", "a.lock"):
        tagging.check_artifact(registry.repository, registry.artifact("one"))
    else:
        with pytest.raises(InputError, match=said):
            register(registry, "one")
    assert registry.repository.tag_names() == []


def test_gto_s_settings_may_allow_few_stages(tagged):
    repository = tagged(None)
    (repository.top / ".gto").write_text("stages: [dev, live]\n")
    with pytest.raises(InputError, match=r"^\.gto allows the stages dev, live: add prod there$"):
        tagging.check_stage(repository, "prod")
    (repository.top / ".gto").write_text("- dev\n")
    with pytest.raises(InputError, match="which GTO reads, is not a YAML mapping"):
        tagging.check_stage(repository, "prod")
    assert repository.tag_names() == []


def test_a_tag_that_git_cannot_read_hides_no_other(tagged):
    """Anybody may push such an object, and Git then reads no tag at all."""
    repository = tagged(0)
    repository.git("tag", "--annotate", "--message", "y", "one@v1.0.0")
    pushed_object(SimpleNamespace(folder=repository.top), "one@v1.0.1", b"")
    for read in (repository, Repository(repository.top)):
        kinds = {tag.name: tag.kind for tag in read.tags()}
        assert kinds == {TAG: "commit", "one@v1.0.0": "commit", "one@v1.0.1": "damaged object"}
    found = state.read(repository.tags(), Artifact("one", ""))
    assert list(found.versions) == ["v1.0.0"] and [one.tag.name for one in found.quarantined] == ["one@v1.0.1"]
    tagging.make(repository, "one@v1.0.2", "HEAD", "z\n")
    assert "one@v1.0.2" in repository.tag_names()
