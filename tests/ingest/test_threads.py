"""How many threads ingest works in."""

import pytest

from tapeline.ingest.threads import MOST, threads
from tapeline.runtime import environment


@pytest.mark.parametrize(
    ("cores", "per_core", "most", "expected"), [(1, 1, 32, 1), (2, 2, 32, 4), (2, 2, 3, 3), (200, 1, 99, MOST)]
)
def test_so_many_threads_for_each_core_and_no_more(
    cores: int, per_core: int, most: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "cores", lambda: cores)
    assert threads(per_core=per_core, most=most) == expected
