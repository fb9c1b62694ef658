"""A trust policy with real keys: who may, by which signature, and what others' tags are worth. Each refusal says why."""

import json
import time

import keys
import pytest
from keys import Person, govern, tag

from tapeline.registry.repository import Repository
from tapeline.registry.trust import policy

PROD = ("registry", "promote", "one", "prod")


@pytest.fixture
def registry(governed, tmp_path):
    """A copy of `governed` of the test's own; Ana is there."""
    return governed.copy(tmp_path)


def refused(registry, *command):
    """Return the one line by which a command is refused; nothing has changed."""
    before = registry.state()
    said = registry(*command, status=2).stderr
    assert registry.state() == before
    *before, line = said.splitlines()
    assert all(one.startswith("tapeline: the tag ") and " does not count: " in one for one in before), said
    return line.removeprefix("tapeline: ")


def record(registry, name):
    return json.loads(registry.git("for-each-ref", "--format=%(contents:body)", f"refs/tags/{name}"))


@pytest.mark.slow
def test_two_persons(registry, people):
    """The story: one promotes, another approves; a third may neither, and nobody approves what he promotes."""
    _, ben, eve = people
    registry.versions(2)
    said = refused(registry, *PROD)
    assert said.startswith("one@v1.0.1 is not promoted to prod: nobody else of ana@example.org, ben@example.org has ")
    registry("registry", "approve", "one@v1.0.1", "--stage", "prod")
    assert "ana@example.org (SHA256:" in refused(registry, *PROD)
    assert "promotes it, and may not approve it too" in refused(registry, *PROD)
    eve.at(registry)
    assert "eve@example.org (SHA256:" in refused(registry, *PROD)
    assert refused(registry, "registry", "approve", "one@v1.0.1", "--stage", "prod").endswith(
        "may not approve for prod: ana@example.org, ben@example.org may"
    )
    ben.at(registry)  # Ana has approved
    assert "is live in prod (one#prod#2)" in registry(*PROD).stdout
    made = record(registry, "one#prod#2")
    assert made["approval"]["by"] == ["ana@example.org"] and made["rules"]["committed"]
    assert made["version_tag"] == registry.git("rev-parse", "refs/tags/one@v1.0.1").strip()
    assert made["before"]["object"] == registry.git("rev-parse", f"refs/tags/{made['approval']['tag']}").strip()
    back = registry("registry", "rollback", "one", "prod")  # needs no approval of its own: it was promoted by two
    assert back.stdout == "one in prod: v1.0.1 → v1.0.0 (one#prod#3)\n" and back.stderr == ""
    assert registry("registry", "sync").stdout.startswith("one: serving/one/3 is v1.0.0 (one#prod#3)")
    assert json.loads(registry.gto("show", "--json"))["one"]["stage"]["prod"] == "v1.0.0"


def now():
    return int(time.time()) + 2


ASSIGNED = {"action": "promote", "version": "v1.0.0", "stage": "prod", "verdict": "yes", "checks": []}


def message(registry, **more):
    made = registry.git("rev-parse", "refs/tags/one@v1.0.0").strip()
    return "x\n\n" + json.dumps({**ASSIGNED, "version_tag": made, **more}) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "more", "why"),
    [
        ((), {}, "it is not signed"),
        (("--sign",), {}, "eve@example.org (SHA256:"),
    ],
)
def test_a_fetched_assignment_of_one_who_may_not(registry, people, tmp_path, options, more, why):
    """Eve pushes a tag with a verdict of her own; a clone that fetches it does not serve it."""
    registry.git("init", "--quiet", "--bare", str(tmp_path / "origin.git"))
    registry.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    registry.git("push", "--quiet", "origin", "main", "--tags")
    eve = type(registry)(tmp_path / "eve")
    registry.git("clone", "--quiet", str(tmp_path / "origin.git"), str(eve.folder))
    people[2].at(eve)
    tag(eve, "one#prod#2", "one@v1.0.0^{}", message(registry, **more), *options, time=now())
    eve.git("push", "--quiet", "origin", "refs/tags/one#prod#2")
    registry.git("fetch", "--quiet", "--tags", "origin")
    said = refused(registry, "registry", "sync")
    assert said.startswith("the tag one#prod#2, supposedly by Eve, has no effect: ") and why in said
    (registry.folder / "x.npy").write_bytes(b"")
    assert "the tag one#prod#2" in registry("predict", "one#prod", "x.npy", status=2).stderr
    shown = registry("registry", "show")
    assert why in shown.stderr
    report = registry("registry", "audit", status=1).stdout
    assert f"WRONG      one#prod#2, which is about prod, does not count: {why}" in report
    assert report.count("WRONG") == 1


@pytest.mark.slow
def test_an_approval_under_another_name(registry, people):
    """Ana makes Ben's approval herself: the tagger's name is anybody's, the key is not."""
    registry.versions(2)
    made = registry.git("rev-parse", "refs/tags/one@v1.0.1").strip()
    registry.git("config", "user.name", "Ben")
    registry.git("config", "user.email", "ben@example.org")
    text = json.dumps({"action": "approve", "version": "v1.0.1", "stage": "prod", "version_tag": made})
    tag(registry, "tapeline/approved/one/v1.0.1/prod/0", "one@v1.0.1^{}", f"x\n\n{text}\n", "--sign", time=now())
    said = refused(registry, *PROD)
    assert "tapeline/approved/one/v1.0.1/prod/0 does not count: ana@example.org" in said
    assert "promotes it, and may not approve it too" in said
    assert "promote" in refused(registry, *PROD, "--approved-by", "Ben")  # what is claimed satisfies no policy


@pytest.mark.slow
def test_an_approval_is_of_one_version_s_tag(registry, people):
    """The approved version is taken away, and another one gets its number."""
    _, ben, _ = people
    registry.versions(2)
    ben.at(registry)("registry", "approve", "one@v1.0.1", "--stage", "prod")
    registry.git("tag", "--delete", "one@v1.0.1")
    registry.build(3)
    people[0].at(registry)("registry", "register", "one")
    assert "it is about a different tag of this version" in refused(registry, *PROD)
    report = registry("registry", "audit", status=1).stdout
    assert "refers to a tag other than the present v1.0.1" in report
    assert "which is a different tag now" in report  # the chain: the approval was made after the first one@v1.0.1


@pytest.mark.slow
def test_the_rules_are_those_of_the_policy_s_ref(registry, people):
    """Neither an edited tree, nor a commit on a branch, nor a fetched main switches the gate off or lets Eve in."""
    ana, ben, eve = people
    params = registry.folder / "params.yaml"
    registry.versions(2)
    ben.at(registry)("registry", "approve", "one@v1.0.1", "--stage", "prod")
    strict = params.read_text().replace("prod: {gate: false, check: false}", "prod: {gate: false, previous: true}")
    params.write_text(strict)
    registry.git("commit", "--quiet", "--all", "--message", "prod is after staging")
    loose = strict.replace("previous: true", "check: false").replace("prod: [ana", "prod: [eve")
    registry.git("switch", "--quiet", "-c", "work")
    params.write_text(loose)
    assert "was never in staging, which prod requires" in refused(ana.at(registry), *PROD)
    registry.git("commit", "--quiet", "--all", "--message", "loose")
    registry.git("update-ref", "refs/remotes/origin/main", "HEAD")
    registry.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    assert "was never in staging, which prod requires" in refused(registry, *PROD)
    assert "eve@example.org (SHA256:" in refused(eve.at(registry), *PROD)
    registry.git("config", "tapeline.policyRef", "work")  # who owns the clone says so
    registry.git("tag", "work", "main")  # Git would prefer a tag of that name, which anybody may push
    assert "is live in prod (one#prod#2)" in registry(*PROD).stdout


def test_a_tag_in_the_folders_of_branches_is_no_policys_ref(governed, people, tmp_path):
    """To `git rev-parse`, `refs/heads/X` is also a tag called `refs/heads/X`, which Eve may push, where X is no branch."""
    registry, eve = governed.copy(tmp_path), people[2]
    ours, signers = registry.git("rev-parse", "main").strip(), registry.folder / "signers"
    whole, whose = signers.read_text(), f"ana@example.org,ben@example.org {eve.public}\n"
    signers.write_text(whose)
    registry.git("commit", "--quiet", "--all", "--message", "every key is Eve's")
    evil = registry.git("rev-parse", "HEAD").strip()
    registry.git("reset", "--quiet", "--hard", ours)
    for ref in ("refs/heads/main", "main", ours, "gone"):
        registry.git("update-ref", f"refs/tags/refs/heads/{ref}", evil)
        registry.git("config", "tapeline.policyRef", ref)
        if ref == "gone":
            assert "'gone', but there is no such commit" in refused(registry, "registry", "sync")
        else:
            repository = Repository(registry.folder)
            found = policy.in_force(repository, "one")
            assert found is not None and found.commit == ours, ref
    assert signers.read_text() == whole


def test_policies_that_cannot_be_read(governed, tmp_path):
    """A broken policy is never no policy: each is one line, and nothing is promoted."""
    registry = governed.copy(tmp_path)
    params, signers = registry.folder / "params.yaml", registry.folder / "signers"
    whole, lines = params.read_text(), signers.read_text()
    cases = [
        (whole.replace("    revoke:", "    revokes:"), lines, "registry.trust.revokes: no such setting"),
        (whole.replace("revoke: [ana@example.org]", "revoke: []"), lines, "registry.trust.revoke is []: must"),
        (whole.replace("revoke: [ana", "revoke: [zoe"), lines, "names 'zoe@example.org', who has no key in signers"),
        (whole.replace("signers: signers", "signers: nobody"), lines, "names 'nobody', which is not a file in"),
        (whole.replace("staging: [ana", "canary: [ana"), lines, "trust names the stage 'canary'"),
        (whole[: whole.index("  trust:")] + "  trust:\n", lines, "registry.trust is empty"),
        (whole, lines + "x\n", "signers of refs/heads/main, line 4: not `PERSON"),
        (whole + "\tx", lines, "not YAML"),
    ]
    blobs = {}
    for text, known, why in cases:
        params.write_text(text)
        signers.write_text(known)
        registry.git("add", "--all")
        registry.git("commit", "--quiet", "--message", why)
        blobs[why] = registry.git("rev-parse", "HEAD").strip()
        params.write_text(whole)
        signers.write_text(lines)
        assert why in registry("registry", "sync", status=2).stderr
    registry.git("reset", "--quiet", "--hard", blobs["not YAML"] + f"~{len(cases)}")
    registry.git("config", "tapeline.policyRef", "gone")
    assert "'gone', but there is no such commit" in refused(registry, "registry", "sync")
    registry.git("config", "--unset", "tapeline.policyRef")
    registry.git("checkout", "--quiet", "--detach")
    registry.git("branch", "--quiet", "-D", "main")
    assert refused(registry, "registry", "sync").startswith("HEAD has a trust policy, but there is no branch main")


def test_a_policy_that_is_only_in_the_tree(fresh):
    params = fresh.folder / "params.yaml"
    params.write_text(params.read_text().rstrip("\n") + keys.POLICY)
    assert refused(fresh, "registry", "register", "one").startswith("registry.trust is in params.yaml and not on main")


def test_without_a_key_one_line_says_what_to_configure(registry):
    registry.git("config", "--unset", "user.signingKey")
    said = refused(registry, "registry", "rollback", "one", "prod")
    assert said.startswith(
        "the policy of main requires signed tags, but Git has no key here: `git config gpg.format ssh`"
    )
    registry.git("config", "user.signingKey", "/nowhere")
    assert "Git cannot sign with its key" in refused(registry, "registry", "rollback", "one", "prod")


@pytest.mark.slow
def test_a_signer_who_leaves_and_one_whose_key_is_lost(registry, people):
    """`valid-before` keeps what was signed before; a line that is taken out takes everything with it, until vouched."""
    ana, ben, _ = people
    signers = registry.folder / "signers"
    lines = signers.read_text()
    later = time.strftime("%Y%m%d%H%M%S", time.gmtime(time.time() + 1))
    signers.write_text(ana.line(f'valid-before="{later}Z"') + ben.line())
    registry.git("commit", "--quiet", "--all", "--message", "Ana leaves")
    assert "is v1.0.0 (one#prod#1)" in registry("registry", "sync").stdout
    registry.build(2)
    time.sleep(2)
    assert "key has expired" in refused(registry, "registry", "register", "one")
    assert "one#prod#1" in registry("registry", "sync").stdout
    signers.write_text(Person("Ana", people[2].key).line() + ben.line())
    registry.git("commit", "--quiet", "--all", "--message", "Ana has lost her key, and has another")
    assert "is not among the signers" in refused(registry, "registry", "sync")
    ben.at(registry)
    assert "one@v1.0.0 does not count: its key SHA256:" in refused(registry, *PROD)
    registry("registry", "vouch", "one@v1.0.0")
    Person("Ana", people[2].key).at(registry)
    registry("registry", "approve", "one@v1.0.0", "--stage", "prod")
    ben.at(registry)
    assert "is live in prod (one#prod#2)" in registry(*PROD).stdout
    assert "(one#prod#2)" in registry("registry", "sync").stdout
    assert lines


@pytest.mark.slow
def test_a_registry_of_plain_gto_gets_a_policy(built, people, tmp_path):
    ana, ben, _ = people
    registry = built.copy(tmp_path)
    registry.gto("register", "one", "HEAD", "--version", "v1.0.0")
    registry.gto("assign", "one", "--version", "v1.0.0", "--stage", "prod")
    time.sleep(1.1)
    govern(registry, ana.line() + ben.line())
    ana.at(registry)
    assert "one#prod#1" in refused(registry, "registry", "sync") and "it is not signed" in refused(
        registry, "registry", "sync"
    )
    assert "`tapeline registry vouch one@v1.0.0`" in refused(registry, *PROD)
    registry("registry", "vouch", "one@v1.0.0")
    ben.at(registry)("registry", "approve", "one@v1.0.0", "--stage", "prod")
    ana.at(registry)(*PROD)
    assert "is v1.0.0 (one#prod#2)" in registry("registry", "sync").stdout
    audited = registry("registry", "audit")
    assert "unchecked  one#prod#1 claims to be older than the policy: it is not signed" in audited.stdout
    assert "wrong: 0" in audited.stdout
    assert json.loads(registry.gto("show", "--json"))["one"]["stage"]["prod"] == "v1.0.0"


@pytest.mark.slow
def test_what_others_tags_cannot_do(registry, people):
    """A second version on the commit, taking back, revoking, a renamed tag, a lightweight one, a tag of a tag."""
    eve = people[2].at(registry)
    commit = registry.commit_of()
    signed_by_ana = registry.git("rev-parse", "refs/tags/one#prod#1").strip()
    tag(eve, "one@v1.0.7", commit, "x\n", "--sign", time=now())
    tag(eve, "one@v1.0.0!", commit, "x\n", "--sign", time=now())
    tag(eve, "one#prod!#5", commit, "x\n", "--sign", time=now())
    tag(eve, "tapeline/revoked/one/v1.0.0", commit, "x\n", "--sign", time=now())
    registry.git("tag", "one#prod#6", commit)
    registry.git("update-ref", "refs/tags/one#prod#7", signed_by_ana)
    tag(eve, "one#prod#8", "refs/tags/one@v1.0.0", "x\n", time=now())
    shown = registry("registry", "show")
    rows = {row["version"]: row["stages"] for row in json.loads(registry("registry", "show", "--json").stdout)}
    assert rows["v1.0.0"] == "prod"
    for name in ("one@v1.0.0!", "one#prod!#5", "tapeline/revoked/one/v1.0.0", "one#prod#7"):
        assert f"the tag {name} does not count: " in shown.stderr
    assert "it was created as 'one#prod#1' and then renamed" in shown.stderr
    assert "the tag one#prod#8 is ignored: it is on a tag, not on a commit" in shown.stderr
    (registry.folder / "x.npy").write_bytes(b"")
    assert "one@v1.0.7 does not count: eve@example.org" in registry("predict", "one@v1.0.7", "x.npy", status=2).stderr
    report = registry("registry", "audit", status=1).stdout
    for name in ("one@v1.0.7", "one@v1.0.0!", "one#prod!#5", "tapeline/revoked/one/v1.0.0", "one#prod#7", "one#prod#8"):
        assert f"WRONG      {name}" in report, name
    assert "unchecked  one#prod#6 is not an annotated tag" in report
    assert "WRONG      one has no tag #2 to #4, but has #5: was it deleted?" in report
