"""A promotion, rollback, revocation or approval whose tag is not made, or does not count, has done nothing."""

import json
import shutil
import signal

import pytest
from keys import opened

from tapeline.registry import alignment
from tapeline.registry.sync import sync
from tapeline.registry.tags import seen
from tapeline.runtime import files


def served(registry):
    """Return the version that TensorFlow Serving serves; None if there is none."""
    folder = registry.folder / "serving" / "one"
    numbers = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.exists() else []
    return json.loads((folder / str(max(numbers)) / "version.json").read_text())["version"] if numbers else None


@pytest.fixture
def signs(people, governed, tmp_path):
    """A registry in which Ana may promote v1.0.1, and a function that lets her key sign so many times."""
    registry = governed.copy(tmp_path)
    registry.versions(2)
    people[1].at(registry)("registry", "approve", "one@v1.0.1", "--stage", "prod")
    people[0].at(registry)
    left = tmp_path / "left"
    program = tmp_path / "ssh-keygen"
    program.write_text(
        '#!/bin/sh\ncase "$*" in *"-Y sign"*)\n'
        f'  n=$(cat {left}); [ "$n" -gt 0 ] || {{ echo "device not touched" >&2; exit 1; }}; echo $((n - 1)) > {left};;\n'
        'esac\nexec ssh-keygen "$@"\n'
    )
    program.chmod(0o755)
    registry.git("config", "gpg.ssh.program", str(program))

    def times(number):
        left.write_text(f"{number}\n")
        return registry

    return times


@pytest.mark.parametrize("command", [("promote", "one@v1.0.2", "prod"), ("rollback", "one", "prod")], ids=" ".join)
def test_a_stage_that_gto_does_not_know(registry, command):
    (registry.folder / ".gto").write_text("stages: [dev]\n")
    before = registry.state()
    said = registry("registry", *command, status=2).stderr
    assert said.endswith("tapeline: .gto allows the stages dev: add prod there\n")
    assert registry.state() == before and served(registry) == "v1.0.1"


COMMANDS = {
    "promote": ("promote", "one@v1.0.1", "prod"),
    "revoke": ("revoke", "one@v1.0.0", "--because", "leaks names"),
    "approve": ("approve", "one@v1.0.1", "--stage", "prod"),
    "vouch": ("vouch", "one@v1.0.1"),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_key_that_signs_once(signs, command):
    """Whose key it is was seen by a first signature; the second is the tag's, and Git may make a tag without it."""
    registry = signs(1)
    tags = registry.tags()
    said = registry("registry", *command, status=2).stderr
    assert "cannot be signed" in said and "is live" not in said
    assert registry.tags() == tags and served(registry) == "v1.0.0"
    assert "is v1.0.0" in registry("registry", "sync").stdout
    signs(9)("registry", *command)


@pytest.mark.slow
def test_the_first_promotion_of_all(signs):
    registry = signs(9)
    registry.git("tag", "--delete", "one#prod#1")
    (registry.folder / ".git" / "tapeline" / "tags").unlink()
    shutil.rmtree(registry.folder / "serving")
    signs(1)("registry", "promote", "one@v1.0.1", "prod", status=2)
    assert served(registry) is None
    signs(9)("registry", "promote", "one@v1.0.1", "prod")
    assert served(registry) == "v1.0.1"


def test_ctrl_c_once_the_first_version_is_in_the_folder(fresh, monkeypatch):
    """The folder's name is flushed to the disk last."""
    fresh("registry", "register", "one")
    registry, flushed = opened(fresh), files.sync

    def interrupted(path):
        if path == fresh.folder / "serving" / "one":
            assert served(fresh) == "v1.0.0"
            raise KeyboardInterrupt
        flushed(path)

    monkeypatch.setattr(files, "sync", interrupted)
    with registry.alone(), pytest.raises(KeyboardInterrupt):
        alignment.assign(registry, registry.version_numbered("one", "v1.0.0"), "prod", {"action": "promote"})
    assert served(fresh) is None and fresh.tags() == ["one@v1.0.0"]


@pytest.mark.parametrize("command", [("promote", "one@v1.0.2", "prod"), ("rollback", "one", "prod")], ids=" ".join)
def test_sigterm_while_the_tag_is_signed(registry, people, tmp_path, command):
    """`docker stop` and systemd send it; the version is in the folder by then."""
    people[0].at(registry)
    program = tmp_path / "ssh-keygen"
    program.write_text("#!/bin/sh\nkill -TERM $(cut -d' ' -f4 /proc/$PPID/stat)\nexec sleep 3\n")
    program.chmod(0o755)
    registry.git("config", "gpg.ssh.program", str(program))
    before = registry.tags()
    said = registry("registry", *command, status=128 + signal.SIGTERM).stderr
    assert said.endswith("tapeline: stopped by SIGTERM\n")
    assert registry.tags() == before and served(registry) == "v1.0.1"


def test_what_a_first_promotion_left_that_was_killed_before_its_tag_is_named(fresh):
    fresh("registry", "register", "one")
    registry = opened(fresh)
    found = registry.contents(registry.version_numbered("one", "v1.0.0"))
    alignment.serving(registry, "one").put("v1.0.0", found.md5, registry.store, sums=found.sums)
    what = f"{fresh.folder}/serving/one has v1.0.0, but no tag that counts put it into a stage"
    assert sync(registry, "one") == f"one: nothing is live in prod, and {what}: promote a version, or remove it"
    assert what in fresh("registry", "show").stderr
    assert f"WRONG      {what}" in fresh("registry", "audit", status=1).stdout


def test_without_a_policy_a_key_that_does_not_sign_is_told(registry, people, tmp_path):
    ana = people[0].at(registry)
    program = tmp_path / "ssh-keygen"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    ana.git("config", "gpg.ssh.program", str(program))
    answer = ana("registry", "promote", "one@v1.0.2", "prod")
    assert "one#prod#3 is not signed, because Git cannot" in answer.stderr and served(ana) == "v1.0.2"
    ana.git("config", "tag.gpgSign", "true")
    assert "cannot be signed" in ana("registry", "rollback", "one", "prod", status=2).stderr
    assert served(ana) == "v1.0.2" and "one#prod#4" not in ana.tags()


def test_a_date_of_the_environment_is_not_the_tag_s(registry, monkeypatch):
    """It decides what is live, and a shell in which commits are dated back has one."""
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2020-01-01T00:00:00")
    assert "one@v1.0.2 is live in prod (one#prod#3)" in registry("registry", "promote", "one@v1.0.2", "prod").stdout
    assert opened(registry).state("one").live("prod").version == served(registry) == "v1.0.2"


def test_the_number_of_a_tag_that_is_gone_is_not_given_again(registry):
    registry.git("tag", "--delete", "one#prod#2")
    answer = registry("registry", "promote", "one@v1.0.2", "prod")
    assert "the tag one#prod#2, which counted here, is gone" in answer.stderr
    assert "one@v1.0.2 is live in prod (one#prod#3)" in answer.stdout
    one = opened(registry)
    assert {name for name, _ in seen.noted(one.repository.common, "one")} >= {"one#prod#2", "one#prod#3"}
