"""How much memory this process may use: a container's limit counts, not the machine's size."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

CGROUPS = Path("/sys/fs/cgroup")


def usable(*, cgroups: Path = CGROUPS, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Return how many bytes this process may use: the machine's memory, or a container's limit if it is lower.

    A limit also applies to the control groups below it, so the lowest on the way up counts. cgroups: the mounted tree
    of version 1 or 2. A process above the limit is killed even if the machine has memory left.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(cgroups, membership)])


def _limits(cgroups: Path, membership: Path) -> Iterator[int]:
    try:
        lines = membership.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            roots, file = (cgroups, cgroups / "unified"), "memory.max"
        elif "memory" in controllers.split(","):
            roots, file = (cgroups / "memory", cgroups / controllers), "memory.limit_in_bytes"
        else:
            continue
        # In a container the path may be the host's, while the container sees its own group as the root.
        inside = PurePosixPath(group).relative_to("/") if group.startswith("/") else PurePosixPath(group)
        for root in roots:
            for folder in (inside, *inside.parents):
                with contextlib.suppress(OSError, ValueError):  # not there, or "max"
                    yield int((root / folder / file).read_text())
