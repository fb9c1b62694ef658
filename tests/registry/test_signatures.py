"""Whose signature a tag or a commit has, with real keys and plain Git: what does not count, and the reason."""

import os
import subprocess
import sys

import clones
import pytest
from keys import Person, pushed_object, tag

from tapeline.registry.trust import signed, signers, verify
from tapeline.registry.trust.signed import Untrusted
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError

NOW = 1_700_000_000  # 2023-11-14; a GPG key of the future is none


class Place:
    """A repository with one commit; Git signs with Ana's key."""

    def __init__(self, folder, ana):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.git("init", "--quiet")
        ana.at(self)
        self.git("commit", "--quiet", "--allow-empty", "--message", "x")

    def git(self, *arguments, given=None):
        command = ["git", *arguments]
        environment = clones.environment()
        answer = subprocess.run(
            command, cwd=self.folder, env=environment, input=given, capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def object(self, name):
        return self.git("rev-parse", f"refs/tags/{name}").strip()

    def who(self, name, known):
        return verify.verified(known, signed.tag(Git(self.folder), self.object(name)))

    def content(self, name):
        return subprocess.run(
            ["git", "cat-file", "tag", self.object(name)], cwd=self.folder, capture_output=True, check=True
        ).stdout


@pytest.fixture(scope="module")
def ana(tmp_path_factory):
    return Person.made(tmp_path_factory.mktemp("keys"), "Ana")


@pytest.fixture
def place(tmp_path, ana):
    return Place(tmp_path / "place", ana)


def known(*lines):
    return signers.read("".join(lines), "signers")


@pytest.mark.parametrize("message", ["x\n\n{}\n", "x\r\n\r\n{\r\n}\r\n", "# no comment\n\n\n", "ü\n"])
def test_a_signature_of_ssh(place, ana, message):
    tag(place, "t", "HEAD", message, "--sign", time=NOW)
    who = place.who("t", known("# a comment\n\n", ana.line()))
    assert who.people == {"ana@example.org"} and who.key.startswith("SHA256:")
    assert str(who) == f"ana@example.org ({who.key[:19]}…)"


def test_that_git_cannot_sign_is_told_even_to_nobody(place):
    """The tag was not made where the reader of stderr had gone."""
    place.git("config", "gpg.ssh.program", "false")
    code = (
        "import sys; from pathlib import Path; from tapeline.registry.trust import signing\n"
        "from tapeline.repository.git import Git\n"
        "git = Git(Path.cwd()); signing.tag(git, 't', 'HEAD', 'x')\n"
        "print(signing.commit(git, 'x', tree=git('rev-parse', 'HEAD^{tree}'), parent=git('rev-parse', 'HEAD')))"
    )
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as nobody:
        made = subprocess.run(
            [sys.executable, "-c", code], cwd=place.folder, stdout=subprocess.PIPE, stderr=nobody, text=True, check=True
        )
    assert place.object("t") and place.git("cat-file", "-t", made.stdout.strip()) == "commit\n"


def test_a_commit_s_signature(place, ana):
    place.git("commit", "--quiet", "--allow-empty", "-S", "--message", "one\n\ntwo")
    head = place.git("rev-parse", "HEAD").strip()
    who = verify.verified(known(ana.line()), signed.commit(Git(place.folder), head))
    assert who.people == {"ana@example.org"}
    with pytest.raises(Untrusted, match="^it is not signed$"):
        signed.commit(Git(place.folder), place.git("rev-parse", "HEAD^").strip())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ('valid-before="20230101"', "key has expired"),
        ('valid-after="20240101"', "key is not yet valid"),
        ('namespaces="file,git",valid-after="20230101",valid-before="20240101"', ""),
    ],
)
def test_a_key_counts_at_the_tag_s_time_as_ssh_keygen_has_it(place, ana, options, why):
    tag(place, "t", "HEAD", "x\n", "--sign", time=NOW)
    if not why:
        assert place.who("t", known(ana.line(options))).people == {"ana@example.org"}
        return
    with pytest.raises(Untrusted, match=f"^the key of ana@example.org was not valid for it: .*{why}"):
        place.who("t", known(ana.line(options)))


def test_who_is_not_among_the_signers(place, ana, tmp_path):
    tag(place, "t", "HEAD", "x\n", "--sign", time=NOW)
    eve = Person.made(tmp_path, "Eve")
    with pytest.raises(Untrusted, match=r"^its key SHA256:[^ ]{12}… is not among the signers$"):
        place.who("t", known(eve.line()))
    assert place.who("t", known(eve.line(), f"Ana,ana@work {ana.public}\n")).people == {"Ana", "ana@work"}


def test_what_is_changed_after_the_signature(place, ana):
    tag(place, "t", "HEAD", "x\n\nverdict: no\n", "--sign", time=NOW)
    pushed_object(place, "u", place.content("t").replace(b"verdict: no", b"verdict: yes"))
    with pytest.raises(Untrusted, match="^its signature does not match its content$"):
        place.who("u", known(ana.line()))


def test_one_signature_and_no_more(place, ana):
    tag(place, "t", "HEAD", "x\n", "--sign", time=NOW)
    content = place.content("t")
    pushed_object(place, "u", content + content[content.index(b"-----BEGIN") :])
    with pytest.raises(Untrusted, match="^it has 2 signatures, and must have one$"):
        place.who("u", known(ana.line()))
    pushed_object(place, "v", content + b"more\n")
    with pytest.raises(Untrusted, match="cannot be read"):
        place.who("v", known(ana.line()))


def test_a_signature_for_a_file(place, ana, tmp_path):
    """`ssh-keygen -Y sign -n file`, as of a document, of the very bytes of a tag."""
    tag(place, "t", "HEAD", "x\n", time=NOW)
    (tmp_path / "payload").write_bytes(place.content("t"))
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", str(ana.key), str(tmp_path / "payload")]
    subprocess.run(command, check=True, capture_output=True)
    pushed_object(place, "u", place.content("t") + (tmp_path / "payload.sig").read_bytes())
    with pytest.raises(Untrusted, match="^its signature is for 'file', not for 'git'$"):
        place.who("u", known(ana.line()))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text.replace(b"tagger", b"parent x\ntagger", 1), "it has headers that Git does not write"),
        (lambda text: text.replace(b"\ntagger", b"\ntag other\ntagger", 1), "it has two headers 'tag'"),
        (lambda text: text.partition(b"-----BEGIN")[0], "it is not signed"),
        (lambda text: text.replace(b" +0000", b"000000000 +0000", 1), "it has no date that can be read"),
        (lambda text: text.replace(b"SSH SIGNATURE", b"PGP SIGNATURE"), "its GPG signature does not match its content"),
        (lambda text: b"", "it has headers that Git does not write"),
    ],
)
def test_objects_that_git_would_not_make(place, ana, change, why):
    tag(place, "t", "HEAD", "x\n", "--sign", time=NOW)
    pushed_object(place, "u", change(place.content("t")))
    with pytest.raises(Untrusted, match=f"^{why}$"):
        place.who("u", known(ana.line()))


def test_a_signature_that_never_ends(place, ana):
    """A pushed tag of a megabyte held every command for an hour."""
    tag(place, "t", "HEAD", "x\n", "--sign", time=NOW)
    head = place.content("t").partition(b"SIGNATURE-----")[0]
    pushed_object(place, "u", head + b"SIGNATURE-----" + b"\n" * 10**6)
    with pytest.raises(Untrusted, match="^its SSH signature cannot be read$"):
        place.who("u", known(ana.line()))


def test_two_dates(place, ana, tmp_path):
    """Git orders tags by the first date; the key counted at the last one, and so an expired key signed as if today."""
    tag(place, "t", "HEAD", "x\n", time=NOW + 10**8)
    payload = tmp_path / "payload"
    payload.write_bytes(place.content("t").replace(b" +0000\n", b" +0000> %d +0000\n" % NOW, 1))
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", str(ana.key), str(payload)]
    subprocess.run(command, check=True, capture_output=True)
    pushed_object(place, "u", payload.read_bytes() + payload.with_suffix(".sig").read_bytes())
    moment = place.git("for-each-ref", "--format=%(taggerdate:unix)", "refs/tags/u")
    assert int(moment) == NOW + 10**8
    with pytest.raises(Untrusted, match="^it has no date that can be read$"):
        place.who("u", known(ana.line()))


def test_an_object_that_was_altered_on_the_disk(place, ana):
    """Git itself checks a loose object's id only when it is asked to."""
    tag(place, "t", "HEAD", "x\n", "--sign", time=NOW)
    tag(place, "u", "HEAD", "y\n", "--sign", time=NOW)
    path, other = (
        place.folder / ".git" / "objects" / place.object(name)[:2] / place.object(name)[2:] for name in ("t", "u")
    )
    path.chmod(0o644)
    path.write_bytes(other.read_bytes())
    with pytest.raises(Untrusted, match=r"was altered on this disk$|is not a readable tag$"):
        place.who("t", known(ana.line()))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ana@example.org", "not `PERSON"),
        ("ana@example.org {key}", "not `PERSON"),
        ("ana@example.org ssh-ed25519 !!!", "the key is not of the type ssh-ed25519"),
        ("ana@example.org ssh-rsa {key}", "the key is not of the type ssh-rsa"),
        ("*@example.org ssh-ed25519 {key}", "'\\*@example.org' is not a person's name: patterns are not supported"),
        ("a,!b ssh-ed25519 {key}", "'!b' is not a person's name"),
        ("a cert-authority ssh-ed25519 {key}", "the option cert-authority is not supported"),
        ('a verify-required="x" ssh-ed25519 {key}', "the option verify-required"),
        ("a gpg 0123", "'0123' is not a GPG fingerprint"),
        ('a valid-before="2027" gpg ' + "0" * 40, "the option valid-before"),
        ('a valid-before="2027" ssh-ed25519 {key}', 'valid-before="2027" is not a date: write YYYYMMDD'),
        ('a valid-after="20261301" ssh-ed25519 {key}', 'valid-after="20261301" is not a date'),
        ('a valid-after="20260101",valid-after="20270101" ssh-ed25519 {key}', "the option valid-after is given twice"),
        (
            'a namespaces="file" ssh-ed25519 {key}',
            "namespaces=\"file\" does not include 'git', for which tags are signed",
        ),
    ],
)
def test_a_line_of_signers_that_cannot_be_followed(ana, line, why):
    with pytest.raises(InputError, match=f"^signers, line 2: {why}"):
        known("# first\n", line.format(key=ana.public.split()[1]), "\n")


def test_a_signers_file_of_windows(ana):
    assert signers.read("\ufeff" + ana.line().replace("\n", "\r\n"), "signers").people == {"ana@example.org"}


def test_a_signature_of_gpg_by_fingerprint(place, gnupg, tmp_path):
    moment = gnupg.expires - 500
    tag(place, "t", "HEAD", "x\n", "--sign", time=moment, config=gnupg.signing(tmp_path, moment))
    tag(place, "late", "HEAD", "x\n", "--sign", time=gnupg.expires + 5, config=gnupg.signing(tmp_path, moment))
    line, exported = f"ana@example.org gpg {gnupg.fingerprint}\n", gnupg.exported.encode()
    who = place.who("t", signers.read(line, "signers", gpg_keys=exported))
    assert (who.people, who.key) == ({"ana@example.org"}, gnupg.fingerprint)
    with pytest.raises(Untrusted, match=r"is revoked or had expired$"):
        place.who("late", signers.read(line, "signers", gpg_keys=exported))
    with pytest.raises(Untrusted, match="is not in the policy's `gpg_keys`$"):
        place.who("t", signers.read(line, "signers"))
    with pytest.raises(Untrusted, match=f"^its GPG key {gnupg.fingerprint} is not among the signers$"):
        place.who("t", signers.read(f"ana gpg {'0' * 40}\n", "signers", gpg_keys=exported))
    pushed_object(place, "u", place.content("t").replace(b"\nx\n", b"\ny\n"))
    with pytest.raises(Untrusted, match="^its GPG signature does not match its content$"):
        place.who("u", signers.read(line, "signers", gpg_keys=exported))


def test_a_key_of_gpg_that_was_revoked(place, gnupg, tmp_path):
    """Nothing counts that it ever signed: when it was lost, nobody knows. Once it had expired, gpg's word was another."""
    moment = gnupg.expires - 500
    tag(place, "t", "HEAD", "x\n", "--sign", time=moment, config=gnupg.signing(tmp_path, moment))
    line = f"ana@example.org gpg {gnupg.fingerprint}\n"
    with pytest.raises(Untrusted, match=f"^its GPG key {gnupg.fingerprint} is revoked$"):
        place.who("t", signers.read(line, "signers", gpg_keys=gnupg.revoked().encode()))


def test_git_s_settings_name_no_program_that_verifies(place, ana, tmp_path):
    """A repository's own configuration could say that everything is well signed."""
    tag(place, "t", "HEAD", "x\n", "--sign", time=NOW)
    program = tmp_path / "yes"
    program.write_text("#!/bin/sh\necho Good\nexit 0\n")
    program.chmod(0o755)
    for key in ("gpg.program", "gpg.ssh.program"):
        place.git("config", key, str(program))
    place.git("config", "gpg.ssh.allowedSignersFile", os.devnull)
    pushed_object(place, "u", place.content("t").replace(b"\nx\n", b"\ny\n"))
    with pytest.raises(Untrusted, match="^its signature does not match its content$"):
        place.who("u", known(ana.line()))
    assert place.who("t", known(ana.line())).people == {"ana@example.org"}
