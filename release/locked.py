"""The distributions of `requirements.lock`: versions, hashes, for which platforms, and who needs them.

    for one in read(Path("requirements.lock")):
        print(one.purl, one.licence)

The lock is a universal one, so what is read from it is the same on every machine.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
OWN, OWN_DEV = "tapeline (pyproject.toml)", "tapeline (pyproject.toml:dev)"
"""As uv names what asks for a distribution, where it is Tapeline itself, or its development."""
_ENTRY = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?==(?P<version>[^ ;\\]+)( ; (?P<marker>[^\\]+?))? ?\\?")
_HASH = re.compile(r" +--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Locked:
    """One distribution in one version. needed_by: names, or `OWN` and `OWN_DEV`."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]

    @property
    def purl(self) -> str:
        """The package URL, https://github.com/package-url/purl-spec."""
        return f"pkg:pypi/{self.name}@{self.version}"


def read(path: Path = LOCK) -> list[Locked]:
    """Return the lock's entries, in its order. Raises `ValueError` for a line of another kind."""
    return list(_entries(path.read_text(encoding="utf-8").splitlines()))


def at_run_time(entries: Sequence[Locked]) -> list[Locked]:
    """Return those that a released Tapeline needs on some platform, without what is for its development alone."""
    found: set[str] = set()
    new = {OWN}
    while new:
        found |= new
        new = {one.name for one in entries if found & set(one.needed_by)} - found
    return [one for one in entries if one.name in found]


def _entries(lines: Sequence[str]) -> Iterator[Locked]:
    starts = [number for number, line in enumerate(lines) if line and line[0] not in " #"]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        head = _ENTRY.fullmatch(lines[start])
        if not head:
            raise ValueError(f"line {start + 1} of the lock is no NAME==VERSION: {lines[start]}")
        rest = lines[start + 1 : end]
        hashes = tuple(sorted(found[1] for line in rest if (found := _HASH.match(line))))
        said = [line.strip().removeprefix("#").removeprefix(" via").strip() for line in rest if "#" in line]
        if not hashes or not any(said):
            raise ValueError(f"{lines[start]}: the lock says no hash, or not who needs it")
        yield Locked(head["name"], head["version"], head["marker"] or "", hashes, tuple(filter(None, said)))
