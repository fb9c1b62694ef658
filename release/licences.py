"""Under which licences the locked distributions are: `licences.tsv`, which a person has looked at.

    python -m release.licences    # after `make lock`: asks the installed distributions, and keeps what was decided

A line has a name, an SPDX expression, and what the distribution itself declares. Where that changes, or a distribution
is new, the expression is `UNKNOWN` unless the distribution gives one, and a test fails until somebody has looked.
"""

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from release import locked

FILE = Path(__file__).with_name("licences.tsv")
UNKNOWN = "UNKNOWN"
ABSENT = "not installed here"
_PERMITTED = """
0BSD Apache-2.0 Artistic-1.0-Perl BSD-2-Clause BSD-3-Clause CC0-1.0 CNRI-Python EPL-1.0 EPL-2.0 ISC
LicenseRef-matplotlib MIT MIT-0 MIT-CMU MPL-2.0 PSF-2.0 ZPL-2.1 Zlib
"""
PERMITTED = frozenset(_PERMITTED.split())
"""What may be used beside Tapeline's own Apache-2.0: what permits, and what binds its own files alone."""
PERMITTED_WITH = frozenset({"GPL-2.0-only WITH GCC-exception-2.0"})
"""What binds whoever links it, but for its exception."""


@dataclass(frozen=True)
class Licence:
    """One line. declared: in the words of the distribution."""

    name: str
    expression: str
    declared: str


def read(path: Path = FILE) -> dict[str, Licence]:
    """Return name → licence."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {line.split("\t")[0]: Licence(*line.split("\t")) for line in lines[1:]}


def declared(name: str) -> str:
    """Return what an installed distribution says of its licence, in one line; `ABSENT` if it is not installed."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ABSENT
    if "License-Expression" in found:
        return str(found["License-Expression"])
    words = str(found["License"]) if "License" in found else ""
    text = next((line.strip() for line in words.splitlines() if re.search(r"\w", line)), "")
    classifiers = [one.rpartition(" :: ")[2] for one in found.get_all("Classifier") or [] if one.startswith("License")]
    return "; ".join(filter(None, [text[:80], *classifiers])) or "nothing"


def current(names: Iterable[str], known: dict[str, Licence]) -> list[Licence]:
    """Return the lines for these names, in their order. known: what was decided before."""
    found = []
    for name in sorted(set(names)):
        said, before = declared(name), known.get(name)
        if before and said in (before.declared, ABSENT):
            found.append(before)
        elif said != ABSENT and "License-Expression" in metadata.metadata(name):
            found.append(Licence(name, said, said))
        else:
            found.append(Licence(name, UNKNOWN, said))
    return found


def permitted(expression: str) -> bool:
    """Return whether an SPDX expression leaves a way that is in `PERMITTED`. False for what is no expression."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression)[::-1]
    try:
        holds = _any(tokens)
    except IndexError:
        return False
    return holds and not tokens


def _any(tokens: list[str]) -> bool:
    return _chain(tokens, "OR", _all, any)


def _all(tokens: list[str]) -> bool:
    return _chain(tokens, "AND", _one, all)


def _chain(tokens: list[str], word: str, part: Callable[[list[str]], bool], of: Callable[[list[bool]], bool]) -> bool:
    found = [part(tokens)]
    while tokens and tokens[-1] == word:
        tokens.pop()
        found.append(part(tokens))
    return of(found)


def _one(tokens: list[str]) -> bool:
    first = tokens.pop()
    if first == "(":
        holds = _any(tokens)
        return tokens.pop() == ")" and holds
    if tokens and tokens[-1] == "WITH":
        tokens.pop()
        return f"{first} WITH {tokens.pop()}" in PERMITTED_WITH
    return first in PERMITTED


def main() -> int:
    """Write the file; return 1 where something is unknown."""
    found = current((one.name for one in locked.read()), read() if FILE.exists() else {})
    lines = ["name\tlicence\tdeclared", *(f"{one.name}\t{one.expression}\t{one.declared}" for one in found)]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for one in found:
        if one.expression == UNKNOWN:
            print(f"{one.name} declares {one.declared!r}: look at it, and write its SPDX expression into {FILE.name}")
    return 1 if any(one.expression == UNKNOWN for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
