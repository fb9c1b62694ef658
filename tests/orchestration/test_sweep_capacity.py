"""How many trials run at once unless it is said: by cores, memory and GPUs."""

from types import SimpleNamespace

import psutil
import pytest

from tapeline.orchestration.sweeps import capacity
from tapeline.orchestration.sweeps.capacity import usual
from tapeline.runtime import environment


@pytest.mark.parametrize(
    ("cores", "memory", "limit", "gpus", "at_once"),
    [
        (2, 64, "max", (), 2),
        (1, 64, "max", (), 1),
        (64, 256, "max", (), 8),
        (8, 16, "max", (), 4),
        (8, 2, "max", (), 1),
        (8, 64, str(9 << 30), (), 2),
        (8, 64, None, (), 8),
        (8, 64, "max", ("nvidia0",), 1),
        (8, 64, "max", ("kfd",), 1),
        (8, 64, "max", ("nvidiactl",), 8),
    ],
)
def test_how_many_run_at_once_unless_it_is_said(monkeypatch, tmp_path, cores, memory, limit, gpus, at_once):
    for name in gpus:
        (tmp_path / name).touch()
    if limit:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
    monkeypatch.setattr(capacity, "DEVICES", tmp_path)
    monkeypatch.setattr(capacity, "CGROUP_LIMIT", tmp_path / "memory.max")
    monkeypatch.setattr(environment, "cores", lambda: cores)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=memory << 30))
    assert usual() == at_once
