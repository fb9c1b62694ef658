"""Attacks that worked: by one who may push tags and branches of runs, and by one whose key has expired or was lost."""

import json
import time

import pytest
from keys import POLICY, govern, opened, tag

from tapeline.registry.tags import names
from tapeline.runtime.errors import InputError

DAY = 86_400


@pytest.fixture
def registry(governed, tmp_path):
    """A copy of `governed` of the test's own; Ana is there."""
    return governed.copy(tmp_path)


def promotion(registry, stage, version="v1.0.0", **more):
    """Return a message that has all that a promotion's must have."""
    made = registry.git("rev-parse", f"refs/tags/one@{version}").strip()
    record = {"action": "promote", "version": version, "stage": stage, "verdict": "yes", "checks": []}
    return f"x\n\n{json.dumps({**record, 'version_tag': made, **more})}\n"


@pytest.mark.slow
def test_a_stage_before_that_only_an_unsigned_tag_says(registry, people):
    """Dated back behind another promotion, it decided nothing in that stage, and was counted all the same."""
    params = registry.folder / "params.yaml"
    params.write_text(params.read_text().replace("prod: {gate: false, ", "prod: {gate: false, previous: true, "))
    registry.git("commit", "--quiet", "--all", "--message", "prod is after staging")
    registry.versions(2)
    people[1].at(registry)("registry", "approve", "one@v1.0.1", "--stage", "prod")
    people[0].at(registry)("registry", "promote", "one@v1.0.0", "staging")
    old = int(time.time()) - DAY
    tag(registry, "one#staging#9", registry.commit_of("v1.0.1"), promotion(registry, "staging", "v1.0.1"), time=old)
    said = registry("registry", "promote", "one@v1.0.1", "prod", status=2).stderr
    assert (
        "one@v1.0.1 was not promoted to staging, which prod requires, by a tag that counts: it is not signed\n" in said
    )


@pytest.mark.slow
def test_steps_that_a_rollback_goes_back(registry, people):
    """An unsigned tag in the middle of the history decided what the version before was."""
    registry.versions(2, 3)
    middle = 0
    for version in ("v1.0.1", "v1.0.2"):
        people[1].at(registry)("registry", "approve", f"one@{version}", "--stage", "prod")
        people[0].at(registry)("registry", "promote", f"one@{version}", "prod")
        middle = middle or int(time.time())
    tag(registry, "one#prod#9", registry.commit_of(), promotion(registry, "prod", action="rollback"), time=middle)
    back = registry("registry", "rollback", "one", "prod")
    assert back.stdout.startswith("one in prod: v1.0.2 → v1.0.1 ")
    assert "tapeline: skipping one#prod#9: it is not signed\n" in back.stderr


def test_an_expired_key_that_dates_back(registry, people):
    """It ended yesterday, and nothing was promoted since the day before: a tag of then would be the latest."""
    ana, ben, _ = people
    (registry.folder / "signers").write_text(ana.line() + ben.line(f'valid-before="{day(-1)}"'))
    registry.git("commit", "--quiet", "--all", "--message", "Ben has left")
    commit, before = registry.commit_of(), int(time.time()) - 2 * DAY
    text = registry.git("for-each-ref", "--format=%(contents:subject)%0a%0a%(contents:body)", "refs/tags/one@v1.0.0")
    for name in registry.tags():
        registry.git("tag", "--delete", name)
    (registry.folder / ".git" / "tapeline" / "tags").unlink()
    govern_staging(registry)
    tag(registry, "one@v1.0.0", commit, text, "--sign", time=before - DAY)
    ana.at(registry)
    tag(registry, "one#staging#1", commit, promotion(registry, "staging"), "--sign", time=before)
    with opened(registry).alone():
        opened(registry).note("one")
    ben.at(registry)
    tag(registry, "one#staging#2", commit, promotion(registry, "staging"), "--sign", time=before + 60)
    one = opened(registry)
    found = one.state("one")
    assert [made.name for made in found.disputed["staging"]] == ["one#staging#2"]
    assert "has expired" in found.aside[found.disputed["staging"][0]]
    assert "this clone did not see it earlier" in found.aside[found.disputed["staging"][0]]


def test_an_expired_key_of_gpg_that_dates_back(built, people, gnupg, tmp_path):
    """As above: gpg itself dates a signature as it is told to, and says of it that the key has expired since."""
    ana = people[0]
    registry = built.copy(tmp_path / "copy")
    policy = POLICY.replace("    signers: signers\n", "    signers: signers\n    gpg_keys: keys.asc\n")
    policy = policy.replace("staging: [ana@example.org]", "staging: [ana@example.org, zoe@example.org]")
    lines = ana.line() + people[1].line() + f"zoe@example.org gpg {gnupg.fingerprint}\n"
    govern(registry, lines, policy, **{"keys.asc": gnupg.exported})
    ana.at(registry)("registry", "register", "one")
    text = registry.git("for-each-ref", "--format=%(contents:subject)%0a%0a%(contents:body)", "refs/tags/one@v1.0.0")
    commit, valid = registry.commit_of(), gnupg.made + 100
    registry.git("tag", "--delete", "one@v1.0.0")
    (registry.folder / ".git" / "tapeline" / "tags").unlink(missing_ok=True)
    tag(registry, "one@v1.0.0", commit, text, "--sign", time=valid - 50)
    tag(registry, "one#staging#1", commit, promotion(registry, "staging"), "--sign", time=valid)
    with opened(registry).alone():
        opened(registry).note("one")
    config = gnupg.signing(tmp_path, valid + 10)
    tag(registry, "one#staging#2", commit, promotion(registry, "staging"), "--sign", time=valid + 10, config=config)
    one = opened(registry)
    found = one.state("one")
    assert [made.name for made in found.disputed["staging"]] == ["one#staging#2"]
    why = found.aside[found.disputed["staging"][0]]
    assert f"its GPG key {gnupg.fingerprint} is revoked or had expired; this clone did not see it earlier" in why
    (registry.folder / ".git" / "tapeline" / "tags").unlink()
    assert opened(registry).state("one").live("staging").tag.name == "one#staging#2", "a fresh clone cannot tell"


def govern_staging(registry):
    """Let Ben promote to staging too."""
    params = registry.folder / "params.yaml"
    params.write_text(
        params.read_text().replace("staging: [ana@example.org]", "staging: [ana@example.org, ben@example.org]")
    )
    registry.git("commit", "--quiet", "--all", "--message", "Ben may promote to staging")


def day(offset):
    return time.strftime("%Y%m%d", time.gmtime(time.time() + offset * DAY))


def test_an_approval_and_a_promotion_from_before_the_version(registry, people):
    """They name the version's tag, so they were made after it, whatever they say."""
    commit, old = registry.commit_of(), int(time.time()) - DAY
    tag(registry, "one#staging#2", commit, promotion(registry, "staging"), "--sign", time=old)
    found = opened(registry).state("one")
    assert list(found.aside.values()) == ["it claims to be older than one@v1.0.0, to which it refers"]
    registry.git("tag", "--delete", "one#staging#2")
    (approval,) = registry.git("tag", "--list", "tapeline/approved/*").split()
    text = registry.git("for-each-ref", "--format=%(contents:subject)%0a%0a%(contents:body)", f"refs/tags/{approval}")
    registry.git("tag", "--delete", approval)
    people[1].at(registry)
    tag(registry, approval, commit, text, "--sign", time=old)
    found = opened(registry).state("one")
    assert f"{approval} does not count: it claims to be older than one@v1.0.0" in next(iter(found.aside.values()))


def test_tags_of_a_lost_key_are_deleted_and_not_missed(registry, people):
    """They counted here until its line was taken out; who cleans up need not go to every clone."""
    _, ben, eve = people
    signers = registry.folder / "signers"
    signers.write_text(ben.line() + eve.line().replace("eve@", "ana@"))
    registry.git("commit", "--quiet", "--all", "--message", "Ana has lost her key, and has another")
    registry.git("tag", "--delete", "one#prod#1", "one@v1.0.0")
    assert opened(registry).lost("one") == {}
    registry.git("tag", "--delete", *registry.git("tag", "--list", "tapeline/*").split())
    (said,) = opened(registry).lost("one").values()
    assert said.startswith("the tag tapeline/approved/one/v1.0.0/prod/")  # of Ben, whose key is good


def test_the_largest_number_is_taken(fresh):
    """By anybody's tag: what was said was that the next is below it."""
    fresh.git("tag", "--annotate", "one@v1.0.999999999", "HEAD^{commit}", "--message", "x")
    fresh.git("commit", "--quiet", "--allow-empty", "--message", "more")
    said = fresh("registry", "register", "one", status=2).stderr
    assert "no patch version comes after v1.0.999999999: give a number, or delete that tag" in said
    assert fresh.tags() == ["one@v1.0.999999999"]
    assert names.bumped(["v1.0.999999999"], "minor") == "v1.1.0"
    with pytest.raises(InputError, match="no major version comes after"):
        names.bumped(["v999999999.0.0"], "major")


def test_a_tag_with_the_name_of_a_run_s_branch(fresh):
    """Git would take the tag, which may be on an older commit of one's own."""
    fresh.git("branch", "runs/brave-owl")
    fresh.git("tag", "runs/brave-owl", "HEAD")
    said = fresh("registry", "register", "one", "--rev", "runs/brave-owl", status=2).stderr
    assert said == "tapeline: runs/brave-owl is a branch and a tag: give refs/heads/runs/brave-owl, or delete the tag\n"
