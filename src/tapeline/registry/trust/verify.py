"""Verify a signature with `ssh-keygen` or `gpg`, called directly: Git's settings could name another program.

A signature counts if its key was valid at the time that the object says, as for `git verify-tag`: a key that has
expired since has signed well. Who has lost a key takes its line out; then nothing counts that it ever signed.
"""

import base64
import binascii
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tapeline.registry.trust.signed import Signed, Untrusted
from tapeline.registry.trust.signers import NAMESPACE, Key, Signers, identifier
from tapeline.runtime.errors import InputError, plain

ARMOR = re.compile(rb"-----BEGIN SSH SIGNATURE-----([A-Za-z0-9+/=\s]+)-----END SSH SIGNATURE-----\s*")
SECONDS = 60.0
LATEST = 253402300799
"""The end of the year 9999."""


@dataclass(frozen=True)
class Signer:
    """Who signed: all the names that the signers file has for the key, and the key."""

    people: frozenset[str]
    key: str

    def __str__(self) -> str:
        return f"{', '.join(sorted(self.people))} ({self.key[:19]}…)"

    def is_other_than(self, other: "Signer") -> bool:
        """Return whether this is another person with another key."""
        return self.key != other.key and not self.people & other.people


def verified(signers: Signers, signed: Signed) -> Signer:
    """Return who signed an object. Raises `Untrusted` with the reason if nobody of the signers did."""
    if signed.time > LATEST:
        raise Untrusted("its date is outside the years in which a key can be valid")
    if signed.signature.startswith(b"-----BEGIN SSH "):
        return _by_ssh(signers, signed)
    return _by_gpg(signers, signed)


def _by_ssh(signers: Signers, signed: Signed) -> Signer:
    key, namespace = _parts(signed.signature)
    lines = signers.of(key)
    if not lines:
        raise Untrusted(f"its key {key[:19]}… is not among the signers")
    if namespace != NAMESPACE:
        raise Untrusted(f"its signature is for {namespace[:20]!r}, not for {NAMESPACE!r}")
    refused = [_ssh_refusal(line, signed) for line in lines]
    people = [line.people for line, why in zip(lines, refused, strict=True) if not why]
    if not people:
        raise Untrusted(refused[0])
    return Signer(frozenset().union(*people), key)


def _ssh_refusal(line: Key, signed: Signed) -> str:
    """Return why `ssh-keygen` takes a signature for none by a line's key; empty if it does."""
    moment = datetime.fromtimestamp(signed.time, UTC).strftime("%Y%m%d%H%M%S")
    with tempfile.TemporaryDirectory(prefix="tapeline-") as made:
        allowed, signature = Path(made, "signers"), Path(made, "signature")
        allowed.write_text(line.line + "\n", encoding="utf-8")
        signature.write_bytes(signed.signature)
        who = min(line.people)
        answer = _run(
            "ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", who, "-n", NAMESPACE, "-s", str(signature),
            "-O", f"verify-time={moment}", given=signed.payload,
        )  # fmt: skip
    if answer.returncode == 0:
        return ""
    said = (answer.stderr + answer.stdout).decode("utf-8", "replace").splitlines()
    told = next((one.split(": ", 1)[-1] for one in said if "expired" in one or "not yet valid" in one), "")
    told = told or next((one for one in said if "not permitted" in one or "namespace" in one), "") or " ".join(said)
    if any("incorrect signature" in one for one in said):
        return "its signature does not match its content"
    return plain(f"the key of {who} was not valid for it: {told}"[:200])


def _parts(armored: bytes) -> tuple[str, str]:
    """Return key and namespace of an SSH signature: `SSHSIG`, version, key, namespace, ..."""
    found = ARMOR.fullmatch(armored)
    try:
        blob = base64.b64decode(b"".join(found[1].split()), validate=True) if found else b""
    except binascii.Error:
        blob = b""
    if not blob.startswith(b"SSHSIG\0\0\0\1"):
        raise Untrusted("its SSH signature cannot be read")
    rest, strings = blob[10:], []
    for _ in range(2):
        size = int.from_bytes(rest[:4])
        strings.append(rest[4 : 4 + size])
        rest = rest[4 + size :]
    return identifier(strings[0]), strings[1].decode("utf-8", "replace")


def _by_gpg(signers: Signers, signed: Signed) -> Signer:
    with tempfile.TemporaryDirectory(prefix="tapeline-") as home:
        Path(home, "signature").write_bytes(signed.signature)
        Path(home, "keys").write_bytes(signers.gpg_keys)
        common = ("gpg", "--batch", "--no-tty", "--quiet", "--homedir", home, "--no-autostart", "--status-fd", "1")
        if signers.gpg_keys:
            _run(*common, "--import", str(Path(home, "keys")))
        answer = _run(
            *common, "--no-auto-key-retrieve", "--verify", str(Path(home, "signature")), "-", given=signed.payload
        )
    lines = [line.split()[1:] for line in answer.stdout.decode("utf-8", "replace").splitlines() if "[GNUPG:]" in line]
    return _judged(signers, [line for line in lines if line], signed.time)


def _judged(signers: Signers, status: Sequence[Sequence[str]], made: int) -> Signer:
    """Return the signer according to the lines of gpg's status."""
    by_word: dict[str, list[Sequence[str]]] = {}
    for word, *rest in status:
        by_word.setdefault(word, []).append(rest)
    valid = by_word.get("VALIDSIG", [])
    if len(valid) != 1 or len(valid[0]) < 10:
        missing = by_word.get("NO_PUBKEY") or by_word.get("ERRSIG")
        if missing and missing[0]:
            raise Untrusted(plain(f"its GPG key {missing[0][0]} is not in the policy's `gpg_keys`"))
        raise Untrusted("its GPG signature does not match its content")
    signing, primary, at = valid[0][0], valid[0][9], int(valid[0][2])
    lines = [*signers.of(signing), *signers.of(primary)]
    if not lines:
        raise Untrusted(f"its GPG key {primary} is not among the signers")
    if "KEYREVOKED" in by_word:  # of a key that has expired too, gpg says EXPKEYSIG, and this in a line of its own
        raise Untrusted(f"its GPG key {primary} is revoked")
    if "GOODSIG" not in by_word:
        ends = [int(rest[0]) for rest in by_word.get("KEYEXPIRED", []) if rest and rest[0].isdecimal()]
        if "EXPKEYSIG" not in by_word or not ends or max(made, at) >= min(ends):
            raise Untrusted(f"its GPG key {primary} is revoked or had expired")
    return Signer(frozenset().union(*(line.people for line in lines)), primary)


def _run(*command: str, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Run a program with nothing of this environment but PATH; its time zone is UTC, as are a signers file's dates."""
    clean: Mapping[str, str] = {"PATH": os.environ.get("PATH", ""), "TZ": "UTC", "LC_ALL": "C"}
    try:
        return subprocess.run(command, input=given, env=clean, capture_output=True, timeout=SECONDS, check=False)
    except FileNotFoundError:
        needed = {"gpg": "GnuPG", "ssh-keygen": "OpenSSH"}[command[0]]
        raise InputError(f"{command[0]}, which signatures need, is not on the PATH: install {needed}") from None
    except subprocess.TimeoutExpired:
        raise Untrusted(f"{command[0]} did not finish within {SECONDS:g} s") from None
