"""Tags that counted here once and are gone: who may delete tags on the remote hides nothing from a clone that saw them."""

import pytest
from keys import opened, tag

from tapeline.registry.sync import sync
from tapeline.registry.tags import seen
from tapeline.runtime.errors import InputError


@pytest.fixture
def registry(governed, tmp_path):
    """A copy of `governed` of the test's own; Ana is there."""
    return governed.copy(tmp_path)


def journal(registry):
    return registry.folder / ".git" / "tapeline" / "tags"


def test_the_latest_promotion_is_deleted_on_the_remote(registry, tmp_path):
    """What is left looks whole: no counter is missing and every link of the chain is there."""
    registry.git("init", "--quiet", "--bare", str(tmp_path / "origin.git"))
    registry.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    registry.git("push", "--quiet", "origin", "main", "--tags")
    made = registry.git("rev-parse", "refs/tags/one#prod#1").strip()
    registry.git("push", "--quiet", "origin", ":refs/tags/one#prod#1")
    registry.git("fetch", "--quiet", "--prune", "--prune-tags", "origin")
    assert "one#prod#1" not in registry.tags()
    with pytest.raises(InputError, match=r"the tag one#prod#1, which counted here, is gone: `git fetch") as gone:
        sync(opened(registry), "one")
    assert f"else `git update-ref 'refs/tags/one#prod#1' {made}`; if it was deleted on purpose" in str(gone.value)
    report = registry("registry", "audit", status=1).stdout
    assert report.count("WRONG") == 1 and "WRONG      the tag one#prod#1, which counted here, is gone" in report
    registry.git("update-ref", "refs/tags/one#prod#1", made)
    assert "is v1.0.0 (one#prod#1)" in sync(opened(registry), "one")


def test_every_tag_is_deleted(registry):
    registry.git("tag", "--delete", *registry.tags())
    said = registry("registry", "sync", status=2).stderr
    assert "which counted here, is gone" in said and said.count("\n") == 1
    assert registry("registry", "show").stdout == "no versions yet\n"
    assert registry("registry", "audit", status=1).stdout.count("counted here, is gone") == 3
    assert (registry.folder / "serving" / "one" / "1" / "saved_model.pb").exists()


@pytest.mark.slow
def test_a_revocation_is_cut_off(registry, people):
    """Without its tag the version would be promoted, and served, anew."""
    registry("registry", "revoke", "one@v1.0.0", "--because", "leaks names")
    registry.git("tag", "--delete", "tapeline/revoked/one/v1.0.0")
    for command in (("sync",), ("promote", "one", "prod"), ("rollback", "one", "prod", "--to", "v1.0.0")):
        said = registry("registry", *command, status=2).stderr
        assert "the tag tapeline/revoked/one/v1.0.0, which counted here, is gone" in said


def test_what_never_counted_is_not_missed(registry):
    """Anybody's tags come and go: a stage that the project does not have, and a signature of nobody."""
    one = opened(registry)
    commit = registry.commit_of()
    for name in ("one#canary#7", "tapeline/revoked/one/v1.0.0"):
        tag(registry, name, commit, "x\n")
    before = journal(registry).read_text()
    sync(one, "one")
    assert journal(registry).read_text() == before
    registry.git("tag", "--delete", "one#canary#7", "tapeline/revoked/one/v1.0.0")
    assert opened(registry).lost("one") == {}


def test_a_tag_that_is_replaced(registry):
    """By an older one of Ana's own, which has a signature that counts."""
    registry.git("update-ref", "refs/tags/one#prod#1", registry.git("rev-parse", "refs/tags/one@v1.0.0").strip())
    with pytest.raises(InputError, match="one#prod#1, which counted here, is a different tag now"):
        sync(opened(registry), "one")


def test_without_a_policy_it_is_said_and_nothing_is_refused(released, tmp_path, capsys):
    registry = released.copy(tmp_path)
    registry.git("tag", "--delete", "one#prod#2")
    assert "is now v1.0.0 (one#prod#1)" in sync(opened(registry), "one")
    said = capsys.readouterr().err
    assert "tapeline: the tag one#prod#2, which counted here, is gone: " in said
    kept = [line for line in journal(registry).read_text().splitlines() if not line.endswith(" one#prod#2")]
    journal(registry).write_text("\n".join(kept) + "\n")  # it was to go
    sync(opened(registry), "one")
    assert "counted here" not in capsys.readouterr().err


def test_a_journal_that_others_may_write_and_one_of_nonsense(registry, capsys):
    journal(registry).chmod(0o666)
    assert opened(registry).lost("one") == {}
    assert "tags: others can write to it: `chmod 600` it" in capsys.readouterr().err
    journal(registry).chmod(0o600)
    journal(registry).write_bytes(b"\xff\xfe\n\n \nx\nx one@\n0 other#prod#1\n0 ../one#prod#1")
    assert opened(registry).lost("one") == {}
    assert seen.artifacts(registry.folder / ".git") == {"other", "../one"}
    assert "one: serving/one/1 is v1.0.0" in sync(opened(registry), "one")
    assert journal(registry).read_bytes().endswith(b" one#prod#1\n")
    journal(registry).unlink()
    journal(registry).mkdir()
    assert "one: serving/one/1 is v1.0.0" in sync(opened(registry), "one")
    assert "tapeline: could not note in Git's folder which tags count: " in capsys.readouterr().err
