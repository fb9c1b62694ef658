"""A Git object apart: its headers, what was signed, and the signature. Nothing is trusted here.

Stricter than Git: an object with headers that Git does not write, or with two signatures, is refused.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tapeline.repository.git import Git

BEGIN = re.compile(rb"^-----BEGIN (?:SSH SIGNATURE|PGP SIGNATURE|PGP MESSAGE|SIGNED MESSAGE)-----", re.MULTILINE)
TIME = re.compile(rb"[^<>\n]*<[^<>\n]*> (\d{1,12}) [+-]\d{4}")
"""One address and one date: Git reads the first of several dates, and a last one would be the key's."""


class Untrusted(ValueError):
    """Why a signature does not count, as the end of a sentence about what was signed."""


@dataclass(frozen=True)
class Signed:
    """One object that is signed."""

    headers: Mapping[str, bytes]
    payload: bytes
    """What the signature is about: everything else in the object."""
    signature: bytes
    time: int
    """When it says it was made, in seconds since 1970."""


def tag(git: Git, object_id: str) -> Signed:
    """Read a tag's object. Raises `Untrusted` for one that is unsigned, damaged, or nothing that Git would make."""
    raw = _checked(git, "tag", object_id)
    headers = _headers(raw)
    if list(headers) != ["object", "type", "tag", "tagger"]:
        raise Untrusted("it has headers that Git does not write")
    begins = [found.start() for found in BEGIN.finditer(raw)]
    if not begins:
        raise Untrusted("it is not signed")
    if len(begins) > 1:
        raise Untrusted(f"it has {len(begins)} signatures, and must have one")
    return Signed(headers, raw[: begins[0]], raw[begins[0] :], _time(headers["tagger"]))


def name(git: Git, object_id: str) -> str:
    """Return the name in a tag's object. Raises `Untrusted` for one that is damaged."""
    return _headers(_checked(git, "tag", object_id)).get("tag", b"").decode("utf-8", "replace")


def commit(git: Git, object_id: str) -> Signed:
    """Read a commit. Raises `Untrusted` as `tag` does."""
    raw = _checked(git, "commit", object_id)
    head, _, _ = raw.partition(b"\n\n")
    found = re.findall(rb"^gpgsig(?:-sha256)? .*\n(?: .*\n)*", head + b"\n", re.MULTILINE)
    if not found:
        raise Untrusted("it is not signed")
    if len(found) > 1 or not found[0].startswith(b"gpgsig "):
        raise Untrusted(f"it has {len(found)} signatures, and must have one of its SHA-1")
    signature = found[0].removeprefix(b"gpgsig ").replace(b"\n ", b"\n")
    payload = raw.replace(found[0], b"", 1)
    return Signed({}, payload, signature, _time(_headers(payload).get("committer", b"")))


def _checked(git: Git, kind: str, object_id: str) -> bytes:
    """Return an object's bytes, which must be what its id says: a damaged disk, or a local hand, may differ."""
    raw = git.raw(kind, object_id)
    if raw is None:
        raise Untrusted(f"its object {object_id[:10]} is not a readable {kind}")
    algorithm = "sha1" if len(object_id) == 40 else "sha256"
    content = b"%s %d\0%s" % (kind.encode(), len(raw), raw)
    if hashlib.new(algorithm, content, usedforsecurity=False).hexdigest() != object_id:
        raise Untrusted(f"its object {object_id[:10]} was altered on this disk")
    return raw


def _headers(raw: bytes) -> dict[str, bytes]:
    head, _, _ = raw.partition(b"\n\n")
    found: dict[str, bytes] = {}
    for line in head.split(b"\n"):
        name, _, value = line.partition(b" ")
        key = name.decode("ascii", "replace")
        if key in found and key != "parent":
            raise Untrusted(f"it has two headers {key!r}")
        found[key] = value
    return found


def _time(who: bytes) -> int:
    found = TIME.fullmatch(who)
    if found is None:
        raise Untrusted("it has no date that can be read")
    return int(found[1])
