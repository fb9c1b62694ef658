"""A tag that nobody could list is ignored by name, and blocks nothing; plain Git made them."""

import json
import os
import subprocess

import pytest

YEAR_11000 = "@284990000000 +0000"


def tag(registry, name, commit="HEAD", *, message="x", date=None):
    environment = {**os.environ, **({"GIT_COMMITTER_DATE": date} if date else {})}
    command = ["git", "tag", "--annotate", name, commit, "--message", message]
    subprocess.run(command, cwd=registry.folder, env=environment, check=True, capture_output=True)


def record(**content):
    return "one\n\n" + json.dumps(content)


def live(registry, stage="prod"):
    shown = json.loads(registry("registry", "show", "--json").stdout)
    return [row["version"] for row in shown if stage in row["stages"]]


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"date": YEAR_11000}, "its date, 284990000000 s after 1970, is in no year from 1 to 9999"),
        ({"message": record(metrics={"loss": "low"})}, 'its record\'s metrics.loss is "low": must be a valid number'),
        ({"message": record(metrics=[1])}, "its record's metrics is [1]: must be a mapping"),
        ({"message": record(data="x")}, 'its record\'s data is "x": must be a mapping'),
        ({"message": record(data={"source": "x"})}, 'its record\'s data.source is "x": must be a mapping'),
        ({"message": record(checks=[{"kind": "bound"}])}, "its record's checks.0.holds is missing"),
    ],
)
def test_a_version_that_cannot_be_listed(registry, made, why):
    registry.git("commit", "--quiet", "--allow-empty", "--message", "more")
    tag(registry, "one@v1.0.7", **made)
    shown = registry("registry", "show")
    assert "v1.0.2" in shown.stdout and "v1.0.7" not in shown.stdout
    assert shown.stderr.startswith(f"tapeline: the tag one@v1.0.7 is ignored: {why}")
    assert shown.stderr.count("is ignored: ") == 1 and "Traceback" not in shown.stderr
    for command in ("history", "lineage"):
        assert "one@v1.0.7" not in registry("registry", command, "one").stdout
    registry("registry", "promote", "one@v1.0.2", "prod")
    back = registry("registry", "rollback", "one", "prod")
    assert "v1.0.2 → v1.0.1" in back.stdout
    assert "tapeline: skipping one@v1.0.7, to v1.0.1\n" in back.stderr
    assert live(registry) == ["v1.0.1"]


@pytest.mark.first(1)
@pytest.mark.parametrize("made", [{"date": YEAR_11000}, {"message": record(action=7)}])
def test_an_assignment_that_cannot_be_read(registry, made):
    tag(registry, "one#prod#9", "one@v1.0.2^{}", **made)
    assert live(registry) == ["v1.0.1"]
    back = registry("registry", "rollback", "one", "prod")
    assert back.stdout == "one in prod: v1.0.1 → v1.0.0 (one#prod#10)\n"
    assert "skipping one#prod#9, to v1.0.0" in back.stderr
    assert live(registry) == ["v1.0.0"]
    assert registry.git("cat-file", "-t", "one#prod#10").strip() == "tag"


@pytest.mark.first(1)
@pytest.mark.parametrize("made", [{"date": YEAR_11000}, {"message": record(metrics={"loss": "low"})}])
def test_the_next_version_has_the_number_after_it(fresh, made):
    fresh.git("commit", "--quiet", "--allow-empty", "--message", "more")
    tag(fresh, "one@v1.0.7", **made)
    fresh.git("commit", "--quiet", "--allow-empty", "--message", "more")
    fresh("registry", "register", "one")
    assert fresh.tags() == ["one@v1.0.7", "one@v1.0.8"]
    found = json.loads(fresh.git("tag", "--list", "--format=%(contents:body)", "one@v1.0.8"))
    assert found["metrics"] == {"loss": 1.0}


def test_looking_serves_no_other_version(registry):
    """The version that is live cannot be read any more: only a command that changes something changes what is served."""
    served = registry.folder / "serving" / "one"
    before = sorted(path.relative_to(served) for path in served.rglob("*"))
    commit = registry.commit_of("v1.0.1")
    registry.git("tag", "--delete", "one@v1.0.1")
    tag(registry, "one@v1.0.1", commit, message=record(metrics={"loss": "low"}))
    assert "`tapeline registry sync one`" in registry("registry", "show").stderr
    assert sorted(path.relative_to(served) for path in served.rglob("*")) == before
