"""What else a trust policy governs: weights to start from, commits of runs, thresholds, dates, and the notice."""

import json
import shutil
import time
from types import SimpleNamespace

import pytest
from keys import govern, tag

from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.registry.assess import _Trial
from tapeline.registry.initial_weights import initial_weights
from tapeline.registry.model import Model
from tapeline.registry.registry import Registry
from tapeline.registry.tags.names import Reference
from tapeline.runtime.errors import InputError


@pytest.fixture
def registry(governed, tmp_path):
    """A copy of `governed` of the test's own; Ana is there."""
    return governed.copy(tmp_path)


def with_weights(registry):
    """Register v1.0.1, whose weights are a folder, and return the project."""
    make = registry.folder / "make.py"
    file = 'Path("runs", name, "train", "weights")'
    text = make.read_text().replace(f"{file}.write_text", f'{file}.mkdir(exist_ok=True); ({file} / "all").write_text')
    make.write_text(text)
    registry.versions(2)
    return Project.find(registry.folder)


@pytest.mark.slow
def test_weights_to_start_from(registry, people):
    """Of a version that counts; not of one that Eve, or nobody, has signed, nor of one without the SHA-256 of them."""
    project = with_weights(registry)
    assert (initial_weights(project, "one@v1.0.1") / "all").read_text() == "2" * 50
    commit = registry.commit_of("v1.0.1")
    text = registry.git("for-each-ref", "--format=%(contents:subject)%0a%0a%(contents:body)", "refs/tags/one@v1.0.1")
    people[2].at(registry)
    tag(registry, "one@v1.0.7", commit, text, "--sign")
    tag(registry, "one@v1.0.8", commit, text)
    people[0].at(registry)
    made = json.loads(text.partition("\n")[2])
    del made["sha256"]["weights"]
    tag(registry, "one@v1.0.9", commit, f"x\n\n{json.dumps(made)}\n", "--sign")
    registry.git("tag", "one@v1.0.10", commit)
    for version, why in {
        "v1.0.7": r"one@v1.0.7 does not count: eve@example.org \(SHA256:.* may not register versions",
        "v1.0.8": "one@v1.0.8 does not count: it is not signed",
        "v1.0.9": "no signed record has the SHA-256 of its weights",
        "v1.0.10": "no signed record has the SHA-256 of its weights",
    }.items():
        with pytest.raises(InputError, match=f"train.init_from is 'one@{version}': .*{why}"):
            initial_weights(project, f"one@{version}")


@pytest.mark.slow
def test_weights_of_a_version_whose_revocation_is_cut_off(registry):
    """Nobody starts from a revoked version, not even where the tag that says so was deleted, nor vouches for it."""
    project = with_weights(registry)
    registry("registry", "revoke", "one@v1.0.1", "--because", "leaks names")
    with pytest.raises(InputError, match="'one@v1.0.1': one@v1.0.1 is revoked by Ana \\(leaks names\\): use another"):
        initial_weights(project, "one@v1.0.1")
    registry.git("tag", "--delete", "tapeline/revoked/one/v1.0.1")
    gone = "the tag tapeline/revoked/one/v1.0.1, which counted here, is gone"
    with pytest.raises(InputError, match=f"^train.init_from is 'one@v1.0.1': {gone}"):
        initial_weights(project, "one@v1.0.1")
    assert gone in registry("registry", "vouch", "one@v1.0.1", status=2).stderr


@pytest.mark.slow
def test_the_branch_of_a_run_of_another(registry, people):
    """It came with a fetch: Eve's signature does not count, nor none, nor Ben's on her content; Ben's own does."""
    ana, ben, eve = people
    registry.git("switch", "--quiet", "-c", "runs/of-another")
    registry.build(7)
    ben.at(registry).git("commit", "--quiet", "--amend", "--no-edit", "-S")
    signed = registry.git("rev-parse", "HEAD").strip()
    registry.git("commit", "--quiet", "--amend", "--no-edit", "--no-gpg-sign")
    unsigned = registry.git("rev-parse", "HEAD").strip()
    eve.at(registry).git("commit", "--quiet", "--amend", "--no-edit", "-S")
    of_eve = registry.git("rev-parse", "HEAD").strip()
    on_his = registry.git("commit-tree", f"{signed}^{{tree}}", "-p", signed, "-m", "x").strip()
    ana.at(registry).git("switch", "--quiet", "main")
    for commit, why in {of_eve: "eve@example.org (SHA256:", unsigned: "it is not signed", on_his: "it is not "}.items():
        registry.git("update-ref", "refs/heads/runs/of-another", commit)
        said = registry("registry", "register", "one", "--rev", "runs/of-another", status=2).stderr
        assert "runs/of-another is not registered: it was not built here, and by the policy of main, " in said
        assert why in said and said.count("\n") == 1
    registry.git("update-ref", "refs/heads/runs/of-another", signed)
    assert "registered one@v1.0.1" in registry("registry", "register", "one", "--rev", "runs/of-another").stdout


def thresholds(registry):
    """Return which thresholds are judged at a promotion of v1.0.0, whose loss is 1."""
    project = Project.find(registry.folder)
    opened = Registry.open(project, Params.load(project.folder), pipeline="one")
    version = opened.version_numbered("one", "v1.0.0")
    trial = SimpleNamespace(_registry=opened, _version=version, _model=Model.of(opened, version))
    return [(check["kind"], check["metric"], check["holds"]) for check in _Trial.thresholds(trial)]


def test_thresholds_are_those_of_the_policy_s_ref(registry):
    """Neither an edited tree, nor another branch, nor a fetched main lets a model in that is too bad."""
    params = registry.folder / "params.yaml"
    loose = params.read_text()
    assert thresholds(registry) == []
    params.write_text(loose.replace("validate: {}", "validate: {thresholds: {loss: {max: 0.5}}}"))
    assert thresholds(registry) == []  # not committed, in either direction
    registry.git("commit", "--quiet", "--all", "--message", "at most 0.5")
    no = [("threshold", "loss", False)]
    assert thresholds(registry) == no
    params.write_text(loose)
    assert thresholds(registry) == no
    registry.git("switch", "--quiet", "-c", "work")
    registry.git("commit", "--quiet", "--all", "--message", "loose")
    registry.git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert thresholds(registry) == no
    registry.git("branch", "--force", "main", "work")
    assert thresholds(registry) == []


@pytest.mark.slow
def test_a_tag_that_says_it_is_older_than_the_one_before_it(registry):
    """Ana dates a promotion back: it is in force nowhere, and the audit names it."""
    made = json.loads(registry.git("for-each-ref", "--format=%(contents:body)", "refs/tags/one#prod#1"))
    before = {"tag": "one#prod#1", "object": registry.git("rev-parse", "refs/tags/one#prod#1").strip()}
    commit = registry.commit_of()
    text = f"x\n\n{json.dumps({**made, 'before': before})}\n"
    tag(registry, "one#prod#2", commit, text, "--sign", time=int(time.time()) - 86_400)
    assert "is v1.0.0 (one#prod#1)" in registry("registry", "sync").stdout
    wrong = [line for line in registry("registry", "audit", status=1).stdout.splitlines() if line.startswith("WRONG")]
    assert wrong == ["WRONG      one#prod#2 names one#prod#1 as the tag before it, but claims to be older"]


@pytest.mark.slow
def test_that_tags_are_not_verified_is_said_once_in_a_repository(fresh):
    notice = "tapeline: tags are not verified here; "
    assert fresh("registry", "register", "one").stderr.startswith(notice)
    for command in (("promote", "one", "prod"), ("sync",), ("rollback", "one", "prod", "--to", "v1.0.0")):
        assert notice not in fresh("registry", *command).stderr


def test_what_only_asks_for_a_model_verifies_no_signature(fresh, people, tmp_path, monkeypatch):
    """`history` did not run where there is no `ssh-keygen`."""
    govern(fresh, "".join(one.line() for one in people))
    tag(people[0].at(fresh), "one@v1.0.0", "HEAD", "x\n\n{}\n", "--sign")
    opened = Registry.for_model(Project.find(fresh.folder), "one")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to(shutil.which("git"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    opened.check_registered("one")
    with pytest.raises(InputError, match="ssh-keygen, which signatures need, is not on the PATH"):
        opened.version(Reference("one"))
    with pytest.raises(InputError, match="two has no version"):
        opened.check_registered("two")
