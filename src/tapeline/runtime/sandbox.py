"""Run a program that may read what it is given and write to one folder, without network and within limits.

    python sandbox.py RULES COMMAND...   # RULES: the JSON of `Rules`

Linux offers three ways that need no other program and no rights: Landlock limits files, a network namespace has no
network, and seccomp refuses sockets and what Landlock leaves out, such as `chmod`. Kernels and containers lack one or
another. What is there is used, and the command finds the list in the environment variable `TAPELINE_SANDBOX`. Limits
of resources hold everywhere.

This file is run by its path, and needs only the standard library.
"""

import contextlib
import ctypes
import json
import os
import platform
import resource
import stat
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

USED = "TAPELINE_SANDBOX"
"""The environment variable that says to the command what holds it."""
NOTHING = "none of Landlock, seccomp and network namespaces here"

_NAMES = """
PATH LANG LC_ALL LC_CTYPE TZ LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES TF_CPP_MIN_LOG_LEVEL TF_ENABLE_ONEDNN_OPTS
TF_DETERMINISTIC_OPS TF_CUDNN_DETERMINISTIC TF_FORCE_GPU_ALLOW_GROWTH TF_NUM_INTEROP_THREADS TF_NUM_INTRAOP_THREADS
TF_XLA_FLAGS XLA_FLAGS ONEDNN_MAX_CPU_ISA ONEDNN_DEFAULT_FPMATH_MODE OMP_NUM_THREADS
NPY_DISABLE_CPU_FEATURES OPENBLAS_CORETYPE OPENBLAS_NUM_THREADS ARROW_USER_SIMD_LEVEL
"""
KEPT = frozenset(_NAMES.split())
"""The variables that a command in here gets: where programs are, and what decides the bits of an answer."""
SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/proc", "/sys/devices", "/sys/fs/cgroup")
DEVICES = ("/dev/zero", "/dev/random", "/dev/urandom")
WRITABLE = ("null", "nvidia*")
"""In `/dev`."""
DATA = 4 * 2**30
"""Bytes of address space that a process may have beside what it uses: stacks of threads, reserves of allocators."""
PROCESSES = 1024
"""Processes and threads of this user beside those there are. The kernel does not count root's."""


@dataclass(frozen=True)
class Rules:
    """What a command may use."""

    read: tuple[str, ...]
    """Files and folders, beside those of Python and the system's libraries."""
    folder: str
    """The one folder it may write to; it is the working directory, the home and the place of temporary files."""
    file_bytes: int
    """The largest size of a file."""
    memory_bytes: int | None = None
    seconds: float | None = None
    """Wall-clock time; the limit is on the time on all CPUs."""


def command(rules: Rules) -> list[str]:
    """Return the beginning of a command line; what to run follows."""
    return [sys.executable, "-I", str(Path(__file__)), json.dumps(asdict(rules))]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return the variables for a command: of this process's those in `KEPT`, no secret."""
    home = {"HOME": str(folder), "TMPDIR": str(folder)}
    return {**{name: value for name, value in os.environ.items() if name in KEPT}, **home, **more}


def main() -> NoReturn:
    """Give up all that the rules do not name, and become the command."""
    given = json.loads(sys.argv[1])
    rules = Rules(**{**given, "read": tuple(given["read"])})
    os.chdir(rules.folder)
    limit(rules)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    used = ["network namespace"] if _namespaces(libc) else []
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    used += ["Landlock"] if _landlock(libc, rules) else []
    used += ["seccomp"] if _seccomp(libc) else []
    os.environ[USED] = ", ".join(used) or NOTHING
    os.execvp(sys.argv[2], sys.argv[2:])


def limit(rules: Rules) -> None:
    """Set the limits of resources, never above those there are."""
    asked = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: rules.file_bytes}
    if rules.memory_bytes is not None:
        asked[resource.RLIMIT_DATA] = rules.memory_bytes + DATA
    if rules.seconds is not None:
        asked[resource.RLIMIT_CPU] = int(rules.seconds + 1) * (os.cpu_count() or 1)
    asked[resource.RLIMIT_NPROC] = _threads() + PROCESSES
    for kind, most in asked.items():
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _threads() -> int:
    """Return how many threads this user has."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if process.stat().st_uid == os.getuid():
                count += len(list((process / "task").iterdir()))
    return count


CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x08000000, 0x10000000, 0x40000000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 38, 22


def _namespaces(libc: ctypes.CDLL) -> bool:
    """Leave the network; the user namespace makes that possible without rights, and takes root's."""
    return bool(libc.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC) == 0)


CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION = 1
"""A flag of `CREATE_RULESET`: return which version of Landlock the kernel has."""
PATH_BENEATH = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
RIGHTS = (0, 13, 14, 15, 15, 16)
"""How many rights on files each version knows; later ones know as many as the last here."""
BIND_TCP, CONNECT_TCP = 1, 2
SCOPE_SOCKETS, SCOPE_SIGNALS = 1, 2


def _landlock(libc: ctypes.CDLL, rules: Rules) -> bool:
    """Give up all files but those in the rules, and Python's and the system's; TCP and signals where they are known."""
    version = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)
    if version < 1:
        return False
    handled = (1 << RIGHTS[min(version, len(RIGHTS) - 1)]) - 1
    attributes = struct.pack("QQQ", handled, BIND_TCP | CONNECT_TCP, SCOPE_SOCKETS | SCOPE_SIGNALS)
    attributes = attributes[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return False
    for path, rights in _rights(rules).items():
        _allow(libc, ruleset, path, rights & handled)
    held = libc.syscall(RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return bool(held)


def _rights(rules: Rules) -> Mapping[str, int]:
    """Return the rights for each path, which need not exist."""
    readable = {*SYSTEM, *DEVICES, *_of_python(), *rules.read}
    writable = {rules.folder, *(str(path) for name in WRITABLE for path in Path("/dev").glob(name))}
    return {**dict.fromkeys(readable, EXECUTE | READ_FILE | READ_DIR), **dict.fromkeys(writable, ~EXECUTE)}


def _of_python() -> Iterator[str]:
    """Yield the folders of the interpreter, of its packages and of the libraries that it has loaded."""
    yield from (sys.prefix, sys.base_prefix, sys.exec_prefix, *filter(None, sys.path))
    yield from filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
            if ".so" in line:
                yield str(Path(line[line.index("/") :]).parent)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not stat.S_ISDIR(os.fstat(opened).st_mode):
        rights &= ON_FILES
    libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", rights, opened), 0)
    os.close(opened)


MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Machine → its number for seccomp."""
_OLD = {
    "x86_64": (41, *range(90, 95), 132, 235, 260, 261, 268, 280, *range(188, 191), *range(197, 200), *range(248, 251)),
    "aarch64": (198, *range(52, 56), 88, *range(5, 8), *range(14, 17), *range(217, 220)),
}
_NEW = (425, 452, 463, 466, 469)
REFUSED = {machine: (*numbers, *_NEW) for machine, numbers in _OLD.items()}
"""`socket`; what changes mode, owner, times or attributes of files, of which Landlock knows nothing; keyrings.

`io_uring_setup`, the first of the new ones, opens sockets without a call of `socket`.
"""
LIMIT = {"x86_64": 302, "aarch64": 261}
"""`prlimit64`, which may set limits of this process alone: a limit of no time ends any other of this user."""
X32 = 0x40000000
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, NOT_PERMITTED = 0x7FFF0000, 0x00050001


def _seccomp(libc: ctypes.CDLL) -> bool:
    """Refuse sockets of any kind, such as that of a container's daemon, which is a file to nobody, and `REFUSED`."""
    machine = platform.machine()
    if machine not in MACHINES or sys.maxsize < 2**32:
        return False
    refuse = (RETURN, 0, 0, NOT_PERMITTED)
    program = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, MACHINES[machine]), refuse]
    program += [(LOAD, 0, 0, 0), (AT_LEAST, 0, 1, X32), refuse]
    for number in REFUSED[machine]:
        program += [(EQUAL, 0, 1, number), refuse]
    program += [(EQUAL, 0, 3, LIMIT[machine]), (LOAD, 0, 0, 16), (EQUAL, 1, 0, 0), refuse, (RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    filters = ctypes.create_string_buffer(struct.pack("HP", len(program), ctypes.addressof(code)))
    return bool(libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(filters), 0, 0) == 0)


if __name__ == "__main__":
    main()
