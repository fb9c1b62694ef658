"""Each locked distribution has a licence that somebody has looked at, and that may be used beside Apache-2.0."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from release import licences, locked

SPDX = json.loads((Path(__file__).with_name("schema") / "spdx.SNAPSHOT.schema.json").read_bytes())["enum"]


@pytest.fixture(scope="module")
def entries():
    return locked.read()


@pytest.fixture(scope="module")
def known():
    return licences.read()


def test_the_list_is_the_lock_s(entries, known):
    assert list(known) == sorted({one.name for one in entries})


def test_none_is_unknown_or_forbidden(known):
    bad = {name: one.expression for name, one in known.items() if not licences.permitted(one.expression)}
    assert not bad, "run `python -m release.licences`, and look at what it names"


def test_each_word_is_spdx(known):
    words = {word for one in known.values() for word in re.findall(r"[A-Za-z0-9.-]+", one.expression)}
    odd = words - set(SPDX) - {"AND", "OR", "WITH"}
    assert odd == {"LicenseRef-matplotlib"}


def test_the_distributions_declare_what_was_looked_at(entries, known):
    several = {name for name, count in Counter(one.name for one in entries).items() if count > 1}
    changed = {
        name: (said, one.declared)
        for name, one in known.items()
        if name not in several and (said := licences.declared(name)) not in (one.declared, licences.ABSENT)
    }
    assert not changed, "run `python -m release.licences`, and look at what it names"


def test_what_changed_is_unknown_until_somebody_looks():
    before = {
        "numpy": licences.Licence("numpy", "MIT", "something else"),  # declares an expression now
        "tqdm": licences.Licence("tqdm", "MIT", "something else"),  # declares words
        "none-such": licences.Licence("none-such", "ISC", "ISC"),  # of another platform
    }
    found = {one.name: one for one in licences.current(["tqdm", "numpy", "none-such", "new-one"], before)}
    assert found["numpy"].expression == found["numpy"].declared == licences.declared("numpy")
    assert found["tqdm"].expression == licences.UNKNOWN and found["tqdm"].declared == licences.declared("tqdm")
    assert found["none-such"] == before["none-such"]
    assert found["new-one"] == licences.Licence("new-one", licences.UNKNOWN, licences.ABSENT)


@pytest.mark.parametrize(
    ("expression", "may"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("AGPL-3.0-or-later OR MIT", True),
        ("MIT AND GPL-2.0-only", False),
        ("MPL-2.0 AND (Apache-2.0 OR GPL-2.0-only)", True),
        ("(GPL-2.0-only OR MIT) AND GPL-2.0-only", False),
        ("GPL-2.0-only WITH GCC-exception-2.0", True),
        ("GPL-2.0-only WITH Bison-exception-2.2", False),
        ("MIT MIT", False),
        ("(MIT", False),
        ("MIT AND", False),
        ("UNKNOWN", False),
        ("", False),
    ],
)
def test_which_expressions_are_permitted(expression, may):
    assert licences.permitted(expression) is may
