"""How many trials run at once unless it is said: by cores, memory and GPUs."""

import pytest

from tapeline.orchestration.sweeps import capacity
from tapeline.orchestration.sweeps.capacity import usual
from tapeline.runtime import environment, files, memory


@pytest.mark.parametrize(
    ("cores", "gib", "gpus", "at_once"),
    [
        (2, 64, (), 2),
        (1, 64, (), 1),
        (64, 256, (), 8),
        (8, 16, (), 4),
        (8, 2, (), 1),
        (8, 9, (), 2),
        (8, 64, ("dev/nvidia0",), 1),
        (8, 64, ("dev/kfd",), 1),
        (8, 64, ("dev/nvidiactl", "dev/dxg"), 8),
        (8, 64, ("dev/dxg", "usr/lib/wsl/lib/libcuda.so.1"), 1),
    ],
)
def test_how_many_run_at_once_unless_it_is_said(monkeypatch, tmp_path, cores, gib, gpus, at_once):
    for name in gpus:
        files.write_text(tmp_path / name, "")
    monkeypatch.setattr(capacity, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "cores", lambda: cores)
    monkeypatch.setattr(memory, "usable", lambda: gib << 30)
    assert usual() == at_once


@pytest.mark.parametrize(
    ("group", "quotas", "at_once"),
    [
        ("/", {}, 8),
        ("/", {".": "100000 100000"}, 1),
        ("/", {".": "max 100000"}, 8),
        ("/", {".": "50000 100000"}, 1),
        ("/docker/a", {".": "350000 100000"}, 3),
        ("/jobs/a", {"jobs/a": "max 100000", "jobs": "200000 100000", ".": "400000 100000"}, 2),
    ],
)
def test_a_quota_of_the_cpus_counts_as_fewer_cores(monkeypatch, tmp_path, group, quotas, at_once):
    """In a container with one CPU of 64, eight trials shared it."""
    files.write_text(tmp_path / "proc/self/cgroup", f"0::{group}\n")
    for folder, quota in quotas.items():
        files.write_text(tmp_path / "sys/fs/cgroup" / folder / "cpu.max", f"{quota}\n")
    monkeypatch.setattr(capacity, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "cores", lambda: 64)
    monkeypatch.setattr(memory, "usable", lambda: 256 << 30)
    assert usual() == at_once
