"""Who may push tags and has no key that counts can take names, numbers and dates: nobody is kept from doing what he may."""

import json
import time
from dataclasses import replace

import pytest
from keys import opened, tag

from tapeline.registry import making, register
from tapeline.registry.attest import approve
from tapeline.registry.revoke import revoke
from tapeline.registry.tags import names, state, tagging
from tapeline.registry.tags.names import Artifact
from tapeline.runtime.errors import InputError

DAY = 86_400
PLAIN = "tapeline/revoked/one/v1.0.0"


@pytest.fixture
def registry(governed, tmp_path):
    """A copy of `governed` of the test's own; Ana is there."""
    return governed.copy(tmp_path)


def unsigned(registry, name, commit, record=None, *, time=None):
    """Make a tag that nobody has signed, though Git has a key."""
    tag(registry, name, commit, f"x\n\n{json.dumps(record or {})}\n", "--no-sign", time=time)


SQUATS = {
    "unsigned": lambda registry, eve: unsigned(registry, PLAIN, registry.commit_of()),
    "signed": lambda registry, eve: tag(eve.at(registry), PLAIN, registry.commit_of(), "x\n", "--sign"),
    "lightweight": lambda registry, eve: registry.git("tag", PLAIN, registry.commit_of()),
    "a folder": lambda registry, eve: unsigned(registry, f"{PLAIN}/x", registry.commit_of()),
    "a file": lambda registry, eve: unsigned(registry, "tapeline/revoked/one", registry.commit_of()),
}


@pytest.mark.parametrize("squat", SQUATS.values(), ids=SQUATS)
def test_a_revocation_whose_name_is_taken(registry, people, squat):
    """It is made under another name, and is found in this clone and in one that fetches it."""
    squat(registry, people[2])
    people[0].at(registry)
    one = opened(registry)
    assert one.state("one").revoked == {} and one.state("one").live("prod").version == "v1.0.0"
    revoked, was = revoke(one, one.version_numbered("one", "v1.0.0"), "leaks names")
    assert str(revoked) == "revoked by Ana (leaks names)" and was == ["prod"]
    assert names.revokes(revoked.tag.name, Artifact("one", ""), "v1.0.0") and revoked.tag.name != PLAIN
    again = opened(registry)
    assert str(again.state("one").revoked["v1.0.0"]) == str(revoked)
    assert again.states()["one"].live("prod") is None
    with pytest.raises(InputError, match=r"^one@v1.0.0 is revoked by Ana \(leaks names\): use another version"):
        again.check_usable(again.version_numbered("one", "v1.0.0"))
    assert revoke(again, again.version_numbered("one", "v1.0.0"), "more") == (revoked, ["prod"]), "safe to repeat"
    registry.git("tag", "--delete", revoked.tag.name)
    with pytest.raises(InputError, match=f"the tag {revoked.tag.name}, which counted here, is gone"):
        one = opened(registry)
        one.check_usable(one.version_numbered("one", "v1.0.0"))


def test_a_revocation_has_its_plain_name_where_it_is_free(registry):
    one = opened(registry)
    assert revoke(one, one.version_numbered("one", "v1.0.0"), "leaks names")[0].tag.name == PLAIN


def test_the_audit_sees_each_revocation(registry):
    unsigned(registry, PLAIN, registry.commit_of())
    one = opened(registry)
    revoked, _ = revoke(one, one.version_numbered("one", "v1.0.0"), "leaks names")
    report = registry("registry", "audit", status=1).stdout
    assert f"WRONG      {PLAIN}, which revokes v1.0.0, does not count: it is not signed" in report
    assert report.count("WRONG") == 1 and revoked.tag.name not in report


def test_an_approval_for_which_there_is_no_room(registry, people):
    """The tag of Ben's first approval keeps `tapeline/approved` from being a file; in a new clone it could be one."""
    for name in registry.git("tag", "--list", "tapeline/*").split():
        registry.git("tag", "--delete", name)
    (registry.folder / ".git" / "tapeline" / "tags").unlink()
    registry.git("tag", "tapeline", "HEAD")
    people[1].at(registry)
    made = approve(one := opened(registry), one.version_numbered("one", "v1.0.0"), "prod")
    assert made.startswith("tapeline-") and made.partition("/")[2].startswith("approved/one/v1.0.0/prod/")
    assert [said.tag.name for said in opened(registry).state("one").attested] == [made]
    assert opened(registry).state("one").live("prod").tag.name == "one#prod#1"


def test_a_revocation_of_another_repository_s_version(registry):
    """Ana has signed it there, where a model has this name, and the numbers begin with v1.0.0 too."""
    record = {"action": "revoke", "version": "v1.0.0", "commit": "1" * 40, "because": "x"}
    tag(registry, PLAIN, registry.commit_of(), f"x\n\n{json.dumps(record)}\n", "--sign")
    found = opened(registry).state("one")
    assert found.revoked == {} and list(found.aside.values()) == ["it is about a commit other than that of one@v1.0.0"]


def test_without_a_policy_the_first_revocation_stands(released, tmp_path):
    registry = released.copy(tmp_path)
    registry.git("tag", "--annotate", PLAIN, registry.commit_of(), "--message", "x")
    one = opened(registry)
    assert revoke(one, one.version_numbered("one", "v1.0.0"), "more")[0].tag.name == PLAIN
    registry.git("tag", "tapeline/revoked/one/v1.0.2", registry.commit_of("v1.0.2"))
    one = opened(registry)
    with pytest.raises(InputError, match="the tag tapeline/revoked/one/v1.0.2 already exists"):
        revoke(one, one.version_numbered("one", "v1.0.2"), "more")


def test_a_second_tag_of_a_version(registry, people):
    """GTO reads `one@v1.0.0#7` as the version v1.0.0 too: it took its place, and nothing was served any more."""
    registry.build(5)
    head = registry.git("rev-parse", "HEAD").strip()
    unsigned(registry, "one@v1.0.0#7", head)
    tag(people[2].at(registry), "one@v1.0.0!#8", head, "x\n", "--sign", time=int(time.time()) + 2)
    unsigned(registry, "one@v1.0.0#9", head, time=int(time.time()) + 3)
    found = opened(registry).state("one")
    assert found.versions["v1.0.0"].tag.name == "one@v1.0.0" and found.live("prod").tag.name == "one#prod#1"
    assert not found.disputed and {one.name for one in found.aside} == {"one@v1.0.0#7", "one@v1.0.0!#8", "one@v1.0.0#9"}
    people[0].at(registry)
    assert "is v1.0.0 (one#prod#1)" in registry("registry", "sync").stdout


def test_a_version_on_the_commit_of_one_that_was_unassigned(registry):
    """GTO's tag has no record: it was taken to be about the later version, and v1.0.0 was live again."""
    now, commit = int(time.time()), registry.commit_of()
    tag(registry, "one#prod!#2", commit, "x\n", "--sign", time=now + 1)
    assert opened(registry).state("one").live("prod") is None
    unsigned(registry, "one@v9.0.0", commit, time=now + 2)
    assert opened(registry).state("one").live("prod") is None


def test_a_second_tag_of_what_is_live_where_another_was_unassigned(registry):
    registry.git("commit", "--quiet", "--allow-empty", "--message", "more")
    now = int(time.time())
    tag(registry, "one@v1.0.1", "HEAD", "x\n", "--sign", time=now + 1)
    tag(registry, "one#prod!#2", "HEAD", "x\n", "--sign", time=now + 2)
    unsigned(registry, "one@v1.0.0#7", "HEAD", time=now + 3)
    found = opened(registry).state("one")
    assert found.live("prod").tag.name == "one#prod#1"
    assert [(one.version, one.back) for one in found.assignments] == [("v1.0.0", False), ("v1.0.1", True)]


def test_a_number_above_is_not_the_default_of_any_command(registry):
    """`promote one prod`, `gate` and `predict one` took it, and advised to vouch for it."""
    unsigned(registry, "one@v9.0.0", "HEAD")
    answer = registry("registry", "promote", "one", "prod")
    assert answer.stdout == "one@v1.0.0 is already live in prod (one#prod#1)\n"
    assert answer.stderr == "tapeline: the tag one@v9.0.0 does not count: it is not signed\n"
    rows = {row["version"]: row["notes"] for row in json.loads(registry("registry", "show", "--json").stdout)}
    assert rows["v9.0.0"] == "does not count: it is not signed" and "count" not in rows["v1.0.0"]


def test_taking_back_and_registering_anew_by_who_may(registry):
    """Of several tags that count the last one does."""
    commit = registry.commit_of()
    tag(registry, "one@v1.0.0!", commit, "x\n", "--sign", time=int(time.time()) + 1)
    unsigned(registry, "one@v1.0.0#7", commit, time=int(time.time()) + 2)
    found = opened(registry).state("one")
    assert "v1.0.0" not in found.versions and found.gone["v1.0.0"][1].tag.name == "one@v1.0.0!"
    tag(registry, "one@v1.0.0#8", commit, "x\n", "--sign", time=int(time.time()) + 3)
    found = opened(registry).state("one")
    assert found.versions["v1.0.0"].tag.name == "one@v1.0.0#8" and found.gone == {}


@pytest.mark.slow
def test_a_number_above_and_a_tag_on_the_same_commit(registry):
    """Neither keeps who may from registering: not the commit that somebody else has tagged, and not a lower number."""
    registry.build(5)
    unsigned(registry, "one@v7.0.0", "HEAD")
    unsigned(registry, "one@v8.0.0", registry.commit_of())
    assert "registered one@v1.0.1" in registry("registry", "register", "one", "--version", "1.0.1").stdout
    said = registry("registry", "register", "one", "--version", "1.0.2", status=2).stderr
    assert "is already one@v1.0.1" in said


@pytest.mark.slow
def test_a_number_that_is_taken_by_no_version(registry):
    registry.build(5)
    registry.git("tag", "one@v1.0.1", "HEAD~1")
    registry.git("tag", "one@v1.0.2/x", "HEAD~1")
    assert "registered one@v1.0.3" in registry("registry", "register", "one").stdout


@pytest.mark.slow
def test_what_others_tagged_goes_and_the_chain_is_whole(registry, people):
    """The record of the next tag named the latest, whoever had made it."""
    unsigned(registry, "one@v9.0.0", "HEAD")
    people[1].at(registry)
    approve(one := opened(registry), one.version_numbered("one", "v1.0.0"), "prod")
    registry.git("tag", "--delete", "one@v9.0.0")
    people[0].at(registry)
    assert "wrong: 0" in registry("registry", "audit").stdout


def test_a_tag_of_the_future(registry):
    """Nobody could register, promote, approve or revoke any more until somebody deleted it."""
    later = int(time.time()) + 365 * DAY
    unsigned(registry, "one@v8.0.0", "HEAD", time=later)
    unsigned(registry, "one#prod#2", "HEAD", time=later)
    one = opened(registry)
    revoked, _ = revoke(one, one.version_numbered("one", "v1.0.0"), "leaks names")
    assert revoked.tag.time < later and "v1.0.0" in opened(registry).state("one").revoked
    tag(registry, "one@v9.0.0", "HEAD", "x\n", "--sign", time=later)
    with pytest.raises(InputError, match="^the newest tag, one@v9.0.0, is 3153"):
        tagging.make(one.repository, "one@v1.0.9", "HEAD", "x\n", counts=making.counts(one))


@pytest.mark.slow
def test_a_name_that_leaves_no_room_for_the_next_promotion(registry, people):
    """Git cannot have `one#prod#2` beside `one#prod#2/x`: serving/ was changed before, and the tag was not made."""
    registry.versions(2)
    people[1].at(registry)("registry", "approve", "one@v1.0.1", "--stage", "prod")
    unsigned(registry, "one#prod#2/x", "HEAD")
    people[0].at(registry)
    assert "is live in prod (one#prod#3)" in registry("registry", "promote", "one@v1.0.1", "prod").stdout
    assert "is v1.0.1 (one#prod#3)" in registry("registry", "sync").stdout


@pytest.mark.slow
def test_numbers_after_which_there_is_no_room(registry, people):
    """A counter that no name is long enough for, and a version after which none is."""
    unsigned(registry, f"one#prod#{'9' * 200}", "HEAD")
    unsigned(registry, "one@v999999999.999999999.999999999", "HEAD")
    registry.versions(2)
    people[1].at(registry)("registry", "approve", "one@v1.0.1", "--stage", "prod")
    people[0].at(registry)
    assert "is live in prod (one#prod#2)" in registry("registry", "promote", "one@v1.0.1", "prod").stdout
    assert "v1.0.1 → v1.0.0 (one#prod#3)" in registry("registry", "rollback", "one", "prod").stdout


@pytest.mark.slow
@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "said"), [("one@v1.0.1/x';touch$IFS'pwned", "'one@v1.0.1/x'\"'\"';touch"), ("one@v1.0.1", "")]
)
def test_a_name_that_leaves_no_room_for_a_version_is_told_for_a_shell(fresh, name, said):
    fresh("registry", "register", "one")
    fresh.build(2)
    fresh.git("tag", name, "HEAD")
    answer = fresh("registry", "register", "one", status=2).stderr
    assert f"`git tag --delete {said or name}" in answer and answer.count("\n") == 1


def test_a_name_that_leaves_no_room_for_any_version(registry):
    """Of a project two folders deep: every next number was tried, for ever."""
    unsigned(registry, "a", "HEAD")
    one = opened(registry)
    found = replace(one.state("one"), artifact=Artifact("one", "a/b"))
    wanted = register._next(one, found, "patch")
    with pytest.raises(InputError, match="^the tag a leaves no room for a/b=one@v"):
        tagging.check_free(one.repository, f"{found.artifact.tag}@{wanted}")


@pytest.mark.parametrize("name", ["../one", "/etc/one", "a/b", "One", "one;touch"])
def test_a_tag_about_what_is_no_model_s_name(name):
    """A name becomes a folder's: `gallery=/etc/x@v1.0.0` is a tag that Git takes."""
    from tapeline.registry.repository import Tag

    tags = [
        Tag(tag.replace("NAME", f"gallery={name}"), "1" * 40, 1, "Eve", "", "", "2" * 40)
        for tag in ("NAME@v1.0.0", "NAME#prod#1", "tapeline/revoked/NAME/v1.0.0", "tapeline/vouched/NAME/v1.0.0/a")
    ]
    assert state.read_all(tags) == {}


@pytest.mark.slow
def test_the_audit_names_them(fresh):
    fresh.git("tag", "--annotate", "a/b@v1.0.0", "HEAD", "--message", "x")
    assert "unchecked  a/b@v1.0.0 names a/b, which is not a valid model name" in fresh("registry", "audit").stdout
    assert fresh("registry", "show").stdout == "no versions yet\n" and fresh("registry", "sync").stdout == ""


PROMOTED = {"action": "promote", "version": "v1.0.1", "stage": "prod", "verdict": "yes", "checks": []}


@pytest.mark.slow
def test_a_promotion_counts_from_its_approval_on(registry, people):
    """Ana makes it by hand, before Ben agrees: it is not followed, then it is, and the audit names it for ever."""
    registry.versions(2)
    record = {**PROMOTED, "version_tag": registry.git("rev-parse", "refs/tags/one@v1.0.1").strip()}
    text = f"x\n\n{json.dumps(record)}\n"
    tag(registry, "one#prod#2", registry.commit_of("v1.0.1"), text, "--sign", time=int(time.time()) + 1)
    said = registry("registry", "sync", status=2).stderr
    assert "the tag one#prod#2, supposedly by Ana, has no effect: nobody else of" in said
    assert "has no effect" in registry("predict", "one#prod", "make.py", status=2).stderr
    people[1].at(registry)("registry", "approve", "one@v1.0.1", "--stage", "prod")
    assert "is now v1.0.1 (one#prod#2)" in registry("registry", "sync").stdout
    report = registry("registry", "audit", status=1).stdout
    wrong = [line for line in report.splitlines() if line.startswith("WRONG")]
    assert len(wrong) == 1 and wrong[0].startswith(
        "WRONG      one#prod#2 is older than its approval tapeline/approved/one/v1.0.1/prod/"
    )
