"""The audit finds what was tampered with, wherever it is, says what it could not check, and survives nonsense."""

import json
import shutil
import time

import pytest
from keys import opened, pushed_object, tag
from registries import Registry

from tapeline.registry.audit import Report, _Model
from tapeline.registry.repository import Tag


@pytest.fixture
def registry(governed, tmp_path):
    """A copy of `governed` of the test's own; Ana is there."""
    return governed.copy(tmp_path)


def audited(registry, status=1, *options):
    """Return what is wrong, what is unchecked, and the summary."""
    *lines, summary = registry("registry", "audit", *options, status=status).stdout.splitlines()
    wrong = [line.removeprefix("WRONG      ") for line in lines if line.startswith("WRONG")]
    unchecked = [line.removeprefix("unchecked  ") for line in lines if line.startswith("unchecked")]
    assert len(wrong) + len(unchecked) == len(lines)
    return wrong, unchecked, summary


def content(registry, name):
    return registry.git("cat-file", "tag", registry.git("rev-parse", f"refs/tags/{name}").strip()).encode()


@pytest.mark.slow
def test_nothing_is_wrong(registry):
    before = registry.state()
    wrong, unchecked, summary = audited(registry, 0)
    assert (wrong, unchecked) == ([], [])
    assert summary == (
        "verified: 3 tag objects, 2 links of the chain, 3 signatures, 1 versions as their commits record them, "
        "3 files by SHA-256, 1 verdicts, 1 rules of promotions, 1 served models; unchecked: 0; wrong: 0"
    )
    assert registry.state() == before


def test_a_clone_without_the_whole_history(registry, tmp_path):
    """What is older than the policy there, and which rules a promotion had, nobody could say."""
    registry.git("commit", "--quiet", "--allow-empty", "--message", "more")
    source = f"file://{registry.folder}"
    registry.git("clone", "--quiet", "--depth=1", source, str(tmp_path / "shallow"))
    shallow = Registry(tmp_path / "shallow")
    assert "this clone is shallow" in shallow("registry", "audit", status=2).stderr


def test_dvc_that_cannot_be_opened(registry):
    """It says nothing about the versions: none is called wrong."""
    (registry.folder / ".dvc" / "config").write_text("[core\n")
    done = registry("registry", "audit", status=2)
    assert done.stdout == "" and "config" in done.stderr and len(done.stderr.splitlines()) == 1


def cached(registry, text):
    cache = (path for path in (registry.folder / ".dvc" / "cache").rglob("*") if path.is_file())
    return next(path for path in cache if path.read_bytes() == text.encode())


@pytest.mark.slow
def test_an_object_of_the_cache(registry):
    path = cached(registry, "graph")
    path.chmod(0o644)
    path.write_text("grapf")
    (said,), _, _ = audited(registry)
    assert said.startswith("one@v1.0.0: ") and "was altered: its MD5 does not match its name" in said
    path.unlink()
    wrong, (said,), _ = audited(registry, 0)
    assert wrong == [] and said.startswith("one@v1.0.0: ") and "may be on DVC's remote (`--fetch` checks it)" in said
    assert audited(registry, 0, "--fetch")[1] == []


@pytest.mark.slow
def test_what_is_served(registry):
    (registry.folder / "serving" / "one" / "1" / "saved_model.pb").write_text("grapf")
    (said,), _, _ = audited(registry)
    assert "has nothing complete, but by the tags v1.0.0 is in prod" in said
    registry("registry", "sync")
    assert audited(registry, 0)[0] == []


@pytest.mark.slow
def test_a_tag_and_its_verdict(registry):
    whole = content(registry, "one#prod#1")
    pushed_object(registry, "one#prod#1", whole.replace(b'"verdict": "yes"', b'"verdict": "no"'))
    (said, seen), _, _ = audited(registry)
    assert said == "one#prod#1, which is about prod, does not count: its signature does not match its content"
    assert seen.startswith("the tag one#prod#1, which counted here, is a different tag now")
    made = json.loads(whole.decode().partition("\n\n")[2].partition("\n")[2].partition("-----BEGIN")[0])
    registry.git("tag", "--delete", "one#prod#1")
    commit = registry.commit_of()
    for number, change in enumerate(({"verdict": "no"}, {"rules": {**made["rules"], "sha256": "0" * 64}}, {}), 1):
        text = f"x\n\n{json.dumps({**made, **change})}\n"
        tag(registry, f"one#prod#{number}", commit, text, "--sign", time=int(time.time()) + number)
    wrong, _, _ = audited(registry)
    rules = made["rules"]["commit"][:10]
    assert wrong[:2] == [
        "one#prod#1, which is about prod, does not count: its record has the verdict 'no', not 'yes'",
        f"one#prod#2 was decided by rules that differ from those of {rules}",
    ]


@pytest.mark.slow
def test_the_branch_of_a_run(registry, people):
    registry.git("branch", "runs/of-another", "HEAD^")
    head = registry.git("rev-parse", "HEAD").strip()
    wrong, (said,), _ = audited(registry, 0)
    assert wrong == [] and said.startswith(
        "runs/of-another: it was not built here, and by the policy of main, it is not"
    )
    registry.git("branch", "--force", "runs/of-another", head)
    assert audited(registry)[0][0].startswith("runs/of-another: it was not built here")
    registry.git("switch", "--quiet", "runs/of-another")
    registry.git("commit", "--quiet", "--amend", "--no-edit", "-S")
    registry.git("switch", "--quiet", "main")
    assert "1 branches of runs" in audited(registry, 0)[2]


@pytest.mark.slow
def test_what_was_deleted_or_replaced(registry, people):
    """The approval is deleted, which stands in the middle of the chain; then made again, by Ben himself."""
    ben = people[1]
    (approval,) = registry.git("tag", "--list", "tapeline/*").split()
    registry.git("tag", "--delete", approval)
    wrong, _, _ = audited(registry)
    assert wrong[0] == f"one#prod#1 was made after {approval}, which is gone"
    assert any("nobody else of ana@example.org, ben@example.org has approved" in line for line in wrong)
    gone = f"the tag {approval}, which counted here, is gone"
    assert wrong[-1].startswith(gone)
    ben.at(registry)("registry", "approve", "one@v1.0.0", "--stage", "prod")
    (chain, late, seen), _, _ = audited(registry)
    assert late.startswith("one#prod#1 is older than its approval tapeline/approved/one/v1.0.0/prod/")
    assert chain == f"one#prod#1 was made after {approval}, which is gone" and seen.startswith(gone)


NONSENSE = [
    {"before": "x"},
    {"before": {"tag": "one@v1.0.0", "object": "../../x"}},
    {"rules": {"ref": 1, "commit": "--help", "sha256": []}, "action": "promote", "verdict": "yes"},
    {"rules": {"ref": "x", "commit": "\u001b[2J", "off": []}, "action": "promote", "verdict": "yes"},
    {"version_tag": "x" * 5000, "commit": "y"},
    {"sha256": {"model": {"../../x": "0" * 64}}},
    {"approval": 7, "stage": {}, "version": []},
]


@pytest.mark.slow
def test_nonsense_in_tags(registry):
    commit = registry.commit_of()
    for number, record in enumerate(NONSENSE):
        text = f"x\n\n{json.dumps(record)}\n"
        tag(registry, f"one@v2.0.{number}", commit, text, "--sign")
        tag(registry, f"one#prod#{number + 2}", commit, text, "--sign")
        tag(registry, f"tapeline/approved/one/v1.0.0/prod/{number}", commit, text, "--sign")
    pushed_object(registry, "one#prod#40", b"")
    pushed_object(registry, "one#prod#41", content(registry, "one#prod#1").replace(b"tagger", b"tagged"))
    registry.git("update-ref", "refs/tags/one@v3.0.0", "HEAD^{tree}")
    answer = registry("registry", "audit", status=1)
    assert "Traceback" not in answer.stderr and "\x1b" not in answer.stdout
    assert answer.stdout.count("WRONG") > len(NONSENSE)


@pytest.mark.long
def test_without_a_policy(released, tmp_path):
    registry = released.copy(tmp_path)
    wrong, unchecked, summary = audited(registry, 0)
    assert wrong == [] and "signatures" not in summary
    assert unchecked == [f"one#prod#{number}: gate off, infra check off" for number in (1, 2)]
    registry.git("tag", "--delete", "one#prod#1")
    shutil.rmtree(registry.folder / ".dvc" / "cache")
    shutil.rmtree(registry.folder.parent / "remote")
    wrong, unchecked, _ = audited(registry)
    assert "one#prod#2 was made after one#prod#1, which is gone" in wrong
    assert "one has no tag #1, but has #2: was it deleted?" in wrong
    assert sum("not in the cache" in line for line in unchecked) == 3


@pytest.mark.slow
def test_two_people_promote_at_once(released, tmp_path):
    """Each has the tag `one#prod#3`; the audit of the second, who made another tag after his, named no way out."""
    registry = released.copy(tmp_path / "first")
    bare = str(tmp_path / "origin.git")
    registry.git("init", "--quiet", "--bare", bare)
    registry.git("remote", "add", "origin", bare)
    registry.git("push", "--quiet", "origin", "main", "--tags")
    second = registry.copy(tmp_path / "second")
    for clone, stages in ((second, ("prod", "staging")), (registry, ("prod",))):
        for stage in stages:
            clone("registry", "promote", "one@v1.0.2", stage)
        clone.git("push", "--quiet", "origin", "one#prod#3") if clone is registry else None
    second.git("fetch", "--quiet", "--tags", "--force")
    wrong, _, _ = audited(second)
    lines = second.folder / ".git" / "tapeline" / "tags"
    assert wrong[0] == (
        "one#staging#4 was made after one#prod#3, which is a different tag now: if two people made one#prod#3 at once, "
        f"remove the lines of one#prod#3 and one#staging#4 from {lines}, `git tag --delete 'one#staging#4'`, also on "
        "the remote, and run again what made one#staging#4"
    )
    kept = [line for line in lines.read_text().splitlines() if line.split()[1] not in ("one#prod#3", "one#staging#4")]
    lines.write_text("".join(f"{line}\n" for line in kept))
    second.git("tag", "--delete", "one#staging#4")
    assert "(one#staging#4)" in second("registry", "promote", "one@v1.0.2", "staging").stdout
    assert audited(second, 0)[0] == []


def test_many_tags(governed):
    """Each link of the chain was looked up among all tags: 20,000 took a minute."""
    one = opened(governed)
    found, report = one.state("one"), Report()
    tags = [Tag("one@v1.0.0", "c" * 40, 0, "Ana", "", "x", f"{0:040x}")]
    for number in range(1, 20_000):
        record = {"before": {"tag": tags[-1].name, "object": tags[-1].object}}
        text = f"x\n\n{json.dumps(record)}\n"
        tags.append(Tag(f"one#prod#{number}", "c" * 40, number, "Ana", "", text, f"{number:040x}"))
    started = time.process_time()
    model = _Model(one, found, tags, report, fetch=False)
    for made in tags:
        model._check_chain(made)
    assert report.verified == {"links of the chain": 19_999} and not report.wrong
    assert time.process_time() - started < 8
