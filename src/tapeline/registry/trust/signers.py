"""The signers file: whose key is whose, in the format of `ssh-keygen`'s allowed signers, with lines for GPG keys.

    ana@example.org namespaces="git" ssh-ed25519 AAAAC3Nza…
    ben@example.org valid-before="20270101" ssh-ed25519 AAAAC3Nza…
    eve@example.org gpg 0123456789ABCDEF0123456789ABCDEF01234567

Stricter than `ssh-keygen`: a line that cannot be read is an error, and so are patterns of names and certificates, for
a rule of the policy names a person.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tapeline.runtime.errors import InputError

_OPTION = r'[^\s"=,]+(?:="[^"]*")?'
LINE = re.compile(
    rf'(?P<who>"[^"]+"|[^\s"]+)[ \t]+(?:(?P<options>{_OPTION}(?:,{_OPTION})*,?)[ \t]+)??'
    r"(?P<kind>gpg|(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-\S+)[ \t]+(?P<key>\S+)(?:[ \t].*)?"
)
OPTION = re.compile(r'(?P<name>namespaces|valid-after|valid-before)="(?P<value>[^"]*)"')
NAMESPACE = "git"
"""What Git signs for."""
DATE = re.compile(r"([0-9]{8})([0-9]{4})?([0-9]{2})?Z?")
FINGERPRINT = re.compile(r"[0-9A-F]{40}")


@dataclass(frozen=True)
class Key:
    """One line: a key, and whose it is."""

    people: frozenset[str]
    kind: str
    """`ssh` or `gpg`."""
    id: str
    """As it is told: `SHA256:…` of an SSH key, the fingerprint of a GPG key."""
    line: str
    """The line as `ssh-keygen` reads it."""


@dataclass(frozen=True)
class Signers:
    """The keys of a signers file, and the public GPG keys that belong to its fingerprints."""

    keys: tuple[Key, ...]
    gpg_keys: bytes = b""

    @property
    def people(self) -> frozenset[str]:
        """Everybody who has a key."""
        return frozenset(person for key in self.keys for person in key.people)

    def of(self, identifier: str) -> list[Key]:
        """Return the lines with a key."""
        return [key for key in self.keys if key.id == identifier]


def read(text: str, name: str, *, gpg_keys: bytes = b"") -> Signers:
    """Read a signers file. name: where it is, for messages. Raises `InputError` for a line that cannot be read."""
    return Signers(tuple(_keys(text, name)), gpg_keys)


def _keys(text: str, name: str) -> Iterator[Key]:
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            yield _key(stripped)
        except ValueError as error:
            raise InputError(f"{name}, line {number}: {error}") from None


def _key(line: str) -> Key:
    found = LINE.fullmatch(line)
    if found is None:
        raise ValueError("not `PERSON[,PERSON] [OPTIONS] KEYTYPE KEY`, nor `PERSON gpg FINGERPRINT`")
    people = frozenset(found["who"].strip('"').split(","))
    if odd := sorted(person for person in people if not re.fullmatch(r"[^\s*?!]+", person)):
        raise ValueError(f"{odd[0]!r} is not a person's name: patterns are not supported")
    options = re.findall(_OPTION, found["options"] or "")
    _check_options(options, may=found["kind"] != "gpg")
    if found["kind"] == "gpg":
        if not FINGERPRINT.fullmatch(found["key"]):
            raise ValueError(f"{found['key'][:60]!r} is not a GPG fingerprint: write 40 upper-case hexadecimal digits")
        return Key(people, "gpg", found["key"], line)
    return Key(people, "ssh", identifier(_blob(found["kind"], found["key"])), line)


def _check_options(options: list[str], *, may: bool) -> None:
    """Raise `ValueError` for options that `ssh-keygen` would not follow, or would only refuse at each signature."""
    given = set()
    for option in options:
        found = OPTION.fullmatch(option)
        if found is None or not may:
            raise ValueError(f"the option {option} is not supported: namespaces, valid-after and valid-before are")
        name, value = found["name"], found["value"]
        if name in given:
            raise ValueError(f"the option {name} is given twice")
        given.add(name)
        if name == "namespaces" and NAMESPACE not in value.split(","):
            raise ValueError(f"{option} does not include {NAMESPACE!r}, for which tags are signed")
        if name != "namespaces" and not _is_date(value):
            raise ValueError(
                f"{option} is not a date: write YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, with Z or in UTC"
            )


def _is_date(text: str) -> bool:
    found = DATE.fullmatch(text)
    try:
        return found is not None and bool(datetime.strptime(text.rstrip("Z").ljust(14, "0"), "%Y%m%d%H%M%S"))
    except ValueError:
        return False


def _blob(kind: str, text: str) -> bytes:
    try:
        blob = base64.b64decode(text, validate=True)
    except binascii.Error:
        blob = b""
    size = int.from_bytes(blob[:4])
    if blob[4 : 4 + size] != kind.encode():
        raise ValueError(f"the key is not of the type {kind}: copy the line of the public key as it is")
    return blob


def identifier(blob: bytes) -> str:
    """Return how a public SSH key is told, as `ssh-keygen -l` does."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
