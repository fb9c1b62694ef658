"""Changes that cannot change a result, so that no test could tell: none of their places is drawn."""

import re

EQUIVALENT: tuple[tuple[str, str, str], ...] = (
    ("*", r"^@dataclass\(.*\bfrozen=(True)", "nothing assigns to a field of these classes, and mypy sees to it"),
    ("*", r"\bzip\(.*\bstrict=(True)", "what is taken side by side is of one length"),
    ("train/engine/loop.py", r"\btf\.function\(self\._run, .*\bautograph=(False)", "no Python branch is in it"),
    ("train/data/feed.py", r"^CHUNK_BYTES = (\d+) << (\d+)", "how many steps travel at once"),
    ("train/data/feed.py", r"^CHUNK_STEPS = (\d+)", "how many steps travel at once"),
    ("train/data/feed.py", r"^MAPPED_BYTES = (\d+) << (\d+)", "how much of a file is kept in memory"),
    ("train/data/feed.py", r"\bnum_parallel_calls=(2), deterministic=True", "how many chunks are made at once"),
    ("train/data/feed.py", r"\bdata\.prefetch\((1)\)", "how many chunks are made ahead"),
    ("train/data/batches.py", r"^    NUMBERS = (\d+)", "how many numbers are worked out ahead"),
    ("train/data/permutation.py", r"^AT_ONCE = (\d+) << (\d+)", "how many numbers are worked on at once"),
    ("train/data/permutation.py", r"^SMALL = (\d+) << (\d+)", "which epochs get a table; the numbers are the same"),
)
"""A file of `src/tapeline`, or all of them; a pattern of a line, whose groups are what changes; and why none matters."""


def is_equivalent(file: str, text: str, column: int) -> bool:
    """Return whether what stands in a line at a column, counted from 0, is in the list."""
    found = (re.search(pattern, text) for of, pattern, _ in EQUIVALENT if of in ("*", file))
    return any(start <= column < end for match in found if match for start, end in match.regs[1:])
