import threading

import pytest

from tapeline.ingest import in_order
from tapeline.ingest.in_order import in_order as computed


@pytest.mark.parametrize(("cores", "per_core", "most", "expected"), [(1, 1, 32, 1), (2, 2, 32, 4), (2, 2, 3, 3)])
def test_so_many_threads_for_each_core_and_no_more(
    cores: int, per_core: int, most: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_order, "threads", lambda: cores)
    together = threading.Barrier(expected)

    def work(number: int) -> tuple[int, int]:
        together.wait(30)  # else not all of them run at once
        return number, threading.get_ident()

    found = list(computed(range(12), work, per_core=per_core, most=most))
    assert [number for number, _ in found] == list(range(12))
    assert len({thread for _, thread in found}) == expected
