"""A clone that does not get all tags says so, and makes none, until it has them: one of those may be what is live."""

import pytest
from registries import Registry

SHALLOW = (
    "tapeline: this clone is shallow, and lacks origin's tag one@v1.0.1 (and 3 more): run `git fetch --tags origin`"
)


def clone(registry, *options):
    made = Registry(registry.folder.parent / "clone")
    registry.git("clone", "--quiet", *options, f"file://{registry.folder}", str(made.folder))
    for key, value in {"user.email": "ben@example.org", "user.name": "Ben"}.items():
        made.git("config", key, value)
    return made


@pytest.mark.slow
def test_a_shallow_clone(registry):
    """It has the tag of its one commit, which says nothing of what is live."""
    shallow = clone(registry, "--depth=1")
    assert shallow.tags() == ["one@v1.0.2"]
    before = shallow.state()
    for command in ("register one", "gate one prod", "promote one prod", "rollback one prod"):
        assert shallow("registry", *command.split(), status=2).stderr == f"{SHALLOW}\n"
    assert shallow.state() == before
    for command in ("show", "history one", "sync"):
        assert SHALLOW in shallow("registry", *command.split()).stderr.splitlines()
    assert f"{SHALLOW}\n" in shallow("registry", "lineage", "one#prod", status=2).stderr
    shallow.git("fetch", "--quiet", "--depth=1", "--tags")
    assert shallow.git("rev-parse", "--is-shallow-repository") == "true\n"
    assert "v1.0.1 → " not in shallow("registry", "show").stderr
    shallow("registry", "promote", "one", "prod")
    shallow.build(9)
    assert "registered one@v1.0.3" in shallow("registry", "register", "one").stdout


@pytest.mark.slow
def test_a_clone_without_tags(registry):
    other = clone(registry, "--no-tags")
    said = "tapeline: this clone fetches no tags (remote.origin.tagOpt), and lacks origin's tag one@v1.0.2 (and 4 more)"
    for command in ("audit", "gate one prod", "register one"):
        assert other("registry", *command.split(), status=2).stderr.startswith(said)
    other.git("fetch", "--quiet", "--tags")
    assert other("registry", "show").stderr == ""
    for remote in (("remote", "add", "far", "nowhere"), ("remote", "add", "--mirror=push", "further", "nowhere")):
        registry.git(*remote)  # a whole one asks nobody
        registry.git("config", "remote.pushDefault", remote[-2])
        assert registry("registry", "show").stderr == ""


@pytest.mark.slow
def test_a_clone_of_one_branch(registry):
    """A version may be on another."""
    registry.git("switch", "--quiet", "--create", "runs/brave-owl")
    registry.build(9)
    registry("registry", "register", "one")
    registry("registry", "promote", "one", "prod")
    registry.git("switch", "--quiet", "main")
    one = clone(registry, "--single-branch")
    said = "tapeline: this clone has not all branches, and lacks origin's tag one@v1.0.3 (and 1 more): "
    assert one("registry", "rollback", "one", "prod", status=2).stderr.startswith(said)
    registry.folder.rename(registry.folder.with_name("gone"))
    said = "tapeline: this clone has not all branches, and may lack tags of one, which origin does not say: "
    assert one("registry", "rollback", "one", "prod", status=2).stderr.startswith(said)
    one.git("remote", "remove", "origin")
    assert one("registry", "show").stderr == ""


@pytest.mark.slow
def test_a_promotion_without_its_version(registry):
    """Somebody pushed that tag alone, or another tag of the version's name was there first; GTO follows it."""
    other = clone(registry)
    commit = other.commit_of("v1.0.1")[:10]
    said = (
        f"tapeline: the tag one#prod#2 does not count: its commit {commit} is no version of one here: "
        "`git fetch --tags` brings the version's tag, if the remote has it\n"
    )
    for move in ("--delete", "one@v1.0.1"), ("--annotate", "--message=other", "one@v1.0.1", "one@v1.0.2^{commit}"):
        other.git("tag", *move)
        for command in ("show", "history one", "sync"):
            assert said in other("registry", *command.split()).stderr
    assert "one#prod#2" not in registry("registry", "show").stderr
