"""How much memory this process may use: a container's limit counts, not the machine's size."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tapeline.runtime import memory

MIB = 2**20
MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("membership", "limits", "expected"),
    [
        ("0::/\n", {"memory.max": f"{64 * MIB}\n"}, 64 * MIB),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": f"{64 * MIB}\n"}, 64 * MIB),
        ("0::/a/b\n", {"a/b/memory.max": f"{32 * MIB}\n", "a/memory.max": f"{64 * MIB}\n"}, 32 * MIB),
        ("0::/a/b\n", {"a/b/memory.max": f"{64 * MIB}\n", "a/memory.max": f"{32 * MIB}\n"}, 32 * MIB),
        ("0::/../b\n", {"memory.max": f"{64 * MIB}\n"}, 64 * MIB),
        ("0::/a\n", {"memory.max": "max\n"}, MACHINE),
        ("0::/a\n", {}, MACHINE),
        ("0::/a\n", {"other/memory.max": f"{64 * MIB}\n"}, MACHINE),
        ("", {}, MACHINE),
        ("3:cpu:/x\n2:memory:/x\n0::/\n", {"memory/x/memory.limit_in_bytes": f"{64 * MIB}\n"}, 64 * MIB),
        ("2:memory:/docker/f00\n", {"memory/memory.limit_in_bytes": f"{64 * MIB}\n"}, 64 * MIB),
        ("2:cpu,memory:/x\n", {"cpu,memory/x/memory.limit_in_bytes": f"{64 * MIB}\n"}, 64 * MIB),
        ("2:memory:/x\n", {"memory/x/memory.limit_in_bytes": "9223372036854771712\n"}, MACHINE),
        ("1:name=systemd:/\n0::/s\n", {"unified/s/memory.max": f"{64 * MIB}\n"}, 64 * MIB),
    ],
)
def test_the_lowest_limit_of_the_groups_above_counts(
    tmp_path: Path, membership: str, limits: dict[str, str], expected: int
) -> None:
    tree = tmp_path / "cgroup"
    for name, limit in limits.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(limit)
    (tmp_path / "self").write_text(membership)
    assert memory.usable(cgroups=tree, membership=tmp_path / "self") == expected


def test_where_there_are_no_control_groups_the_machine_counts(tmp_path: Path) -> None:
    assert memory.usable(cgroups=tmp_path, membership=tmp_path / "none") == MACHINE


IN_GROUP = """
import os, sys
from pathlib import Path
(Path(sys.argv[1]) / "cgroup.procs").write_text(str(os.getpid()))
from tapeline.runtime import memory
from tapeline.train.data.memory import fits_in_ram
print(memory.usable(), fits_in_ram(15 * 2**20), fits_in_ram(70 * 2**20))
"""


def test_a_real_control_group_is_obeyed() -> None:
    """In a group below this process' own, with a limit of 256 MiB."""
    own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    if "memory" in own:
        parent, file = Path("/sys/fs/cgroup/memory") / own["memory"].lstrip("/"), "memory.limit_in_bytes"
    else:
        parent, file = Path("/sys/fs/cgroup") / own.get("", "/").lstrip("/"), "memory.max"
    group = parent / f"tapeline-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        try:
            (group / file).write_text(str(256 * MIB))
        except OSError as error:
            pytest.skip(f"no limit can be set here: {error}")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", IN_GROUP, str(group)]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    finally:
        group.rmdir()
    assert answer.stdout.split() == [str(256 * MIB), "True", "False"]
