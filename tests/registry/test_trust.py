"""What others push, or put into a store, is not served unseen: each test is an attack that worked, or a revocation."""

import hashlib
import json
import subprocess
import time

import clones
import pytest

from tapeline.registry import contents
from tapeline.registry.serving import Serving
from tapeline.registry.store import Store
from tapeline.runtime.errors import InputError

# Two files of the same MD5 (X. Wang and others, 2004).
ONE = bytes.fromhex(
    "d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f89"
    "55ad340609f4b30283e488832571415a085125e8f7cdc99fd91dbdf280373c5b"
    "d8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0"
    "e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70"
)
OTHER = bytes(byte ^ (0x80 if at in (19, 45, 59, 83, 109, 123) else 0) for at, byte in enumerate(ONE))


def served(registry):
    folder = registry.folder / "serving" / "one"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def everything(registry):
    """Return every file of the checkout with its content, DVC's and Git's included."""
    return {path: path.read_bytes() for path in registry.folder.rglob("*") if path.is_file()}


def tag(registry, name, commit, record):
    text = "x\n\n" + json.dumps(record)
    later = f"@{int(time.time()) + 2} +0000"  # Git counts seconds, and the last tag may be of this one
    command = ["git", "-c", "user.name=Mallory", "tag", "--annotate", name, f"{commit}^{{}}", "--message", text]
    env = {**clones.environment(), "GIT_COMMITTER_DATE": later}
    subprocess.run(command, cwd=registry.folder, env=env, check=True)


@pytest.mark.parametrize("command", [("show",), ("history", "one"), ("lineage", "one")])
def test_a_command_that_shows_writes_nothing(registry, command):
    """Mallory's tag came with a fetch: before, `show` alone served it."""
    tag(registry, "one#prod#9", "one@v1.0.2", {})
    before = everything(registry)
    said = registry("registry", *command).stderr
    assert everything(registry) == before
    assert "has v1.0.1, but by the tags v1.0.2 is in prod: `tapeline registry sync one`\n" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"action": "promote", "verdict": "no"}, "its record has the verdict 'no', not 'yes'"),
        ({"action": "promote"}, "its record has the verdict 'None', not 'yes'"),
        ({"version": "v1.0.1"}, "its record is about the version 'v1.0.1', not v1.0.2"),
        ({"checks": [{"kind": "infra", "said": "x", "holds": False}]}, "a check that does not hold (infra)"),
    ],
)
def test_sync_refuses_an_assignment_that_no_gate_allowed(registry, record, why):
    tag(registry, "one#prod#9", "one@v1.0.2", record)
    before = served(registry)
    said = registry("registry", "sync", status=2).stderr
    assert said.startswith("tapeline: the tag one#prod#9 of Mallory has no effect: ") and why in said
    assert said.count("\n") == 1 and served(registry) == before


def test_a_tag_that_contradicts_its_commit(registry):
    registry.git("commit", "--quiet", "--allow-empty", "--message", "more")
    tag(registry, "one@v1.0.9", "HEAD", {"model": {"md5": "0" * 32 + ".dir"}})
    tag(registry, "one#prod#9", "HEAD", {})
    before = served(registry)
    said = registry("registry", "sync", status=2).stderr
    assert "one@v1.0.9 contradicts its commit" in said and "Mallory made it" in said
    assert served(registry) == before


@pytest.mark.slow
def test_a_rewritten_history_is_not_called_a_forgery(registry):
    """Whoever removed a large file from the history is told what helps."""
    message = ("--msg-filter", "sed s/^/x-/", "--tag-name-filter", "cat", "--", "--all")
    registry.git("-c", "advice.detachedHead=false", "filter-branch", "--force", *message)
    said = registry("registry", "sync", status=2).stderr
    assert "the history was rewritten, or somebody moved the tag" in said and "forged" not in said
    for name in registry.git("tag", "--list", "one@*", "one#*").split():
        registry.git("tag", "-d", name)
    registry("registry", "register", "one")


@pytest.mark.slow
def test_other_bytes_of_the_same_md5(fresh):
    """An object of DVC's cache and remote is replaced by another of its MD5; the tag knows the SHA-256."""
    (fresh.folder / "graph").mkdir()
    (fresh.folder / "graph" / "saved_model.pb").write_bytes(ONE)
    fresh.build(2)
    fresh("registry", "register", "one")
    record = json.loads(fresh.git("tag", "--list", "--format=%(contents:body)", "one@v1.0.0"))
    assert sorted(record["sha256"]["model"]) == ["model.json", "saved_model/saved_model.pb"]
    fresh("registry", "promote", "one", "prod")
    cache = (path for path in (fresh.folder / ".dvc" / "cache").rglob("*") if path.is_file())
    [cached] = [path for path in cache if path.read_bytes() == ONE]
    cached.chmod(0o644)
    cached.write_bytes(OTHER)
    (fresh.folder / "serving" / "one" / "1" / "saved_model.pb").unlink()
    (fresh.folder / "x.npy").write_bytes(b"")
    for command in (("registry", "sync"), ("registry", "promote", "one", "staging"), ("predict", "one", "x.npy")):
        said = fresh(*command, status=2).stderr
        assert "saved_model/saved_model.pb is not what was registered, although its MD5 is" in said, said
    assert OTHER not in served(fresh).values()


def test_served_bytes_and_their_index_are_replaced_together(registry):
    """The index beside the files has MD5s only of itself: whoever changes both is found by the tag's SHA-256."""
    folder = registry.folder / "serving" / "one" / "2"
    (folder / "saved_model.pb").write_text("forged")
    index = json.loads((folder / "version.json").read_text())
    index["files"]["saved_model.pb"] = hashlib.md5(b"forged", usedforsecurity=False).hexdigest()
    (folder / "version.json").write_text(json.dumps(index))
    registry("registry", "sync")
    top = max((registry.folder / "serving" / "one").iterdir(), key=lambda path: int(path.name))
    assert (top / "saved_model.pb").read_text() == "graph"


@pytest.mark.slow
def test_a_revoked_version_is_never_live_again(registry):
    said = registry("registry", "revoke", "one@v1.0.1", "--because", "leaks names").stdout
    assert said.startswith("one@v1.0.1 is revoked by Ann (leaks names)\nnothing is live in prod now: ")
    assert served(registry) == {}
    (registry.folder / "x.npy").write_bytes(b"")
    before = registry.state()
    said = "tapeline: one@v1.0.1 is revoked by Ann (leaks names): use another version, or register a new one\n"
    for command in (
        ("registry", "promote", "one@v1.0.1", "prod"),
        ("registry", "gate", "one@v1.0.1", "prod"),
        ("registry", "rollback", "one", "prod", "--to", "v1.0.1"),
        ("predict", "one@v1.0.1", "x.npy"),
    ):
        assert registry(*command, status=2).stderr == said
    assert "`tapeline registry rollback one prod`" in registry("predict", "one#prod", "x.npy", status=2).stderr
    shown = {row["version"]: row for row in json.loads(registry("registry", "show", "--json").stdout)}
    assert (shown["v1.0.1"]["stages"], shown["v1.0.1"]["notes"]) == ("", "revoked by Ann (leaks names)")
    assert "revoke" in registry("registry", "history", "one").stdout
    assert registry.state() == before
    registry("registry", "revoke", "one@v1.0.1", "--because", "another")
    assert registry.tags().count("tapeline/revoked/one/v1.0.1") == 1


@pytest.mark.slow
def test_a_rollback_steps_over_what_is_revoked(registry):
    registry("registry", "promote", "one@v1.0.2", "prod")
    registry("registry", "revoke", "one@v1.0.1", "--because", "x")
    assert [
        json.loads(text)["version"] for name, text in served(registry).items() if name.endswith("version.json")
    ] == ["v1.0.2"]
    back = registry("registry", "rollback", "one", "prod")
    assert back.stdout == "one in prod: v1.0.2 → v1.0.0 (one#prod#4)\n"
    assert "skipping one@v1.0.1 (revoked by Ann (x)), to v1.0.0" in back.stderr


def test_a_fetched_revocation_takes_the_version_down_by_sync(registry):
    registry.git("tag", "--annotate", "tapeline/revoked/one/v1.0.1", "one@v1.0.1^{}", "--message", "no record")
    assert "has v1.0.1, but by the tags nothing is in prod" in registry("registry", "show").stderr
    said = registry("registry", "sync").stdout
    assert said == "one: one@v1.0.1 is revoked by Ann, so no version is served in prod\n"
    assert served(registry) == {}


@pytest.mark.slow
def test_gto_ignores_a_revocation(registry):
    before = registry.gto("show", "one"), registry.gto("history", "one")
    registry("registry", "revoke", "one@v1.0.2", "--because", "x")
    assert (registry.gto("show", "one"), registry.gto("history", "one")) == before


@pytest.mark.slow
def test_a_gate_switched_off_without_a_commit_stands_in_the_tag(registry):
    params = registry.folder / "params.yaml"
    text = params.read_text()
    params.write_text(text.replace("prod: {gate: false, check: false}", "prod: {check: false}"))
    registry.git("commit", "--all", "--quiet", "--message", "A gate for prod")
    params.write_text(text)
    registry("registry", "promote", "one@v1.0.2", "prod")
    record = json.loads(registry.git("tag", "--list", "--format=%(contents:body)", "one#prod#3"))
    assert (record["rules"]["committed"], record["rules"]["off"]) == (False, ["gate", "infra check"])
    note = "gate off, infra check off, rules not committed"
    assert f"prod: {note}" in registry("registry", "show").stdout
    assert note in registry("registry", "history", "one").stdout.splitlines()[1]
    assert note in registry("registry", "lineage", "one@v1.0.2").stdout


def test_the_store_tells_bytes_of_the_same_md5_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(Store, "path", lambda self, md5: tmp_path / md5)
    md5 = hashlib.md5(ONE, usedforsecurity=False).hexdigest()
    assert hashlib.md5(OTHER, usedforsecurity=False).hexdigest() == md5 and ONE != OTHER
    listing = json.dumps([{"md5": md5, "relpath": "saved_model/a"}]).encode()
    folder = f"{hashlib.md5(listing, usedforsecurity=False).hexdigest()}.dir"
    (tmp_path / folder).write_bytes(listing)
    (tmp_path / md5).write_bytes(ONE)
    store = Store(tmp_path)
    sums = contents.measured(store, folder)
    store.check(folder, sums)
    (tmp_path / md5).write_bytes(OTHER)
    for call in (
        lambda: store.check(folder, sums),
        lambda: store.write(folder, tmp_path / "out", sums=sums),
        lambda: store.kept(folder, tmp_path / "kept", sums=sums),
        lambda: Serving(tmp_path / "serving" / "one").put("v1.0.0", folder, store, sums=sums),
    ):
        with pytest.raises(InputError, match="saved_model/a is not what was registered, although its MD5 is"):
            call()
    assert not (tmp_path / "kept").exists() and Serving(tmp_path / "serving" / "one").integers() == []
    with pytest.raises(InputError, match="'more' is a file of what was registered: the list"):
        store.check(folder, {**sums, "more": "0" * 64})
