"""A real program in the sandbox: it gets what it was given, and nothing else of the machine."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from tapeline.runtime import sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock, seccomp and namespaces are Linux's")

ATTEMPTS = """
import ctypes, json, os, resource, socket, sys
outside, given, parent, port = sys.argv[1:]
def read(path): return lambda: open(path).read()
def keyring():
    number, libc = {"x86_64": 250, "aarch64": 219}[os.uname().machine], ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, 6, -3, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "keyctl")
attempts = {
    "read": read(outside), "list": lambda: os.listdir(os.path.dirname(outside)),
    "write": lambda: open(outside, "w"), "append": lambda: open(outside, "a"), "delete": lambda: os.remove(outside),
    "truncate": lambda: os.truncate(outside, 0), "link": lambda: os.link(outside, "linked"),
    "through a link": lambda: (os.symlink(outside, "link"), open("link").read()),
    "write given": lambda: open(given, "a"), "environment of the parent": read(f"/proc/{parent}/environ"),
    "tcp": lambda: socket.create_connection(("127.0.0.1", int(port)), 5),
    "unix socket": lambda: socket.socket(socket.AF_UNIX), "datagram": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "mode": lambda: os.chmod(outside, 0o777), "own mode": lambda: os.chmod(given, 0o777),
    "times": lambda: os.utime(outside, (1, 1)), "owner": lambda: os.chown(outside, os.getuid(), -1),
    "attribute": lambda: os.setxattr(outside, "user.x", b"1"), "no attribute": lambda: os.removexattr(outside, "user.y"),
    "limit of the parent": lambda: resource.prlimit(int(parent), resource.RLIMIT_CORE, (0, 0)),
    "keyring": lambda: keyring(),
    "own limit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)),
    "read given": read(given), "own file": lambda: open("own", "w").write("x"), "home": lambda: open(os.path.expanduser("~/h"), "w"),
}
done = {}
for name, attempt in attempts.items():
    try:
        attempt()
        done[name] = True
    except OSError:
        done[name] = False
limits = {n: resource.getrlimit(getattr(resource, f"RLIMIT_{n}"))[0] for n in ("CORE", "FSIZE", "DATA", "CPU")}
print(json.dumps({"done": done, "environment": dict(os.environ), "limits": limits}))
"""
ALLOWED = {"read given", "own file", "home", "own limit"}


def rules(folder, *read, **more):
    return sandbox.Rules(read=tuple(map(str, read)), folder=str(folder), file_bytes=2**20, **more)


def ran(folder, given, program, *arguments):
    command = [
        *sandbox.command(rules(folder, given, memory_bytes=2**28, seconds=9.5)),
        sys.executable,
        "-I",
        "-c",
        program,
    ]
    return subprocess.run(
        [*command, *map(str, arguments)],
        env=sandbox.environment(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


@pytest.fixture
def attempts(tmp_path, folder, monkeypatch):
    """What became of each attempt."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("TF_TOKEN_app_terraform_io", "hidden")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2")
    outside, given = tmp_path / "secret.txt", tmp_path / "given.txt"
    outside.write_text("hidden")
    given.write_text("model")
    with socket.create_server(("127.0.0.1", 0)) as server:
        result = ran(folder, given, ATTEMPTS, outside, given, os.getpid(), server.getsockname()[1])
    assert result.returncode == 0, result.stderr
    assert outside.read_text() == "hidden" and given.read_text() == "model"
    return json.loads(result.stdout)


def test_only_what_was_given_is_within_reach(attempts):
    used = attempts["environment"]["TAPELINE_SANDBOX"]
    if "Landlock" not in used or "seccomp" not in used:
        pytest.skip(f"this kernel or container lacks a part of it: {used}")
    assert {name for name, done in attempts["done"].items() if done} == ALLOWED


def test_no_secret_of_the_environment_is_passed_on(attempts, folder):
    environment = attempts["environment"]
    assert "hidden" not in json.dumps(environment)
    assert environment["XLA_FLAGS"] == "--xla_cpu_max_isa=AVX2", "it decides the bits"
    assert environment["HOME"] == environment["TMPDIR"] == str(folder)
    assert set(environment) <= sandbox.KEPT | {"HOME", "TMPDIR", "TAPELINE_SANDBOX"}


def test_resources_are_limited_and_no_core_is_left(attempts):
    assert attempts["limits"]["CORE"] == 0 and attempts["limits"]["FSIZE"] == 2**20
    assert attempts["limits"]["DATA"] == 2**28 + sandbox.DATA
    assert attempts["limits"]["CPU"] == 10 * (os.cpu_count() or 1)


def test_a_file_ends_at_its_limit(folder):
    result = ran(folder, folder, "open('big', 'wb').write(bytes(2**21))")
    assert "File too large" in result.stderr and (folder / "big").stat().st_size <= 2**20


def test_a_command_that_a_lower_limit_holds_already_keeps_it(folder):
    limited = [
        "sh",
        "-c",
        'ulimit -f 8 && exec "$@"',
        "sh",
        *sandbox.command(rules(folder)),
        sys.executable,
        "-I",
        "-c",
    ]
    program = "import resource; print(resource.getrlimit(resource.RLIMIT_FSIZE)[0])"
    result = subprocess.run(
        [*limited, program], env=sandbox.environment(folder), capture_output=True, text=True, check=False
    )
    assert int(result.stdout) <= 8 * 1024, result.stderr


PYTHON = shutil.which("python3", path="/usr/bin:/bin")


@pytest.mark.skipif(os.getuid() != 0 or PYTHON is None, reason="only root can become another user, who needs a Python")
def test_a_user_without_rights_has_the_same_sandbox():
    """The kernel asks for no rights, but for `no_new_privs`."""
    with tempfile.TemporaryDirectory() as made:  # pytest's own folders are closed to other users
        folder = Path(made)
        folder.chmod(0o755)
        (folder / "scratch").mkdir()
        program = Path(shutil.copy(sandbox.__file__, folder))
        os.chown(folder / "scratch", 65534, 65534)
        said = "import os; print(os.environ['TAPELINE_SANDBOX'])"
        command = [PYTHON, "-I", str(program), sandbox.command(rules(folder / "scratch"))[-1], PYTHON, "-I", "-c", said]
        run = partial(
            subprocess.run, command, env=sandbox.environment(folder), capture_output=True, text=True, check=False
        )
        assert run(user=65534, group=65534, extra_groups=[]).stdout == run().stdout != ""


def test_a_kernel_that_has_nothing_of_it_is_said_and_limits_hold(folder, tmp_path):
    """An older kernel answers ENOSYS: here a filter of system calls does, set before."""
    program = tmp_path / "older.py"
    program.write_text(
        f"import ctypes, os, struct, sys\nsys.path.insert(0, {str(Path(sandbox.__file__).parent)!r})\nimport sandbox\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "machine = sandbox.MACHINES[os.uname().machine]\n"
        "unshare = {'x86_64': 272, 'aarch64': 97}[os.uname().machine]\n"
        "steps = [(0x20, 0, 0, 0), (0x15, 2, 0, unshare), (0x15, 1, 0, 444), (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050026)]\n"
        "code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))\n"
        "filters = ctypes.create_string_buffer(struct.pack('HP', len(steps), ctypes.addressof(code)))\n"
        "libc.prctl(38, 1, 0, 0, 0)\nassert libc.prctl(22, 2, ctypes.byref(filters), 0, 0) == 0\n"
        "os.execvp(sys.argv[1], sys.argv[1:])\n"
    )
    said = "import os, resource; print(os.environ['TAPELINE_SANDBOX'], resource.getrlimit(resource.RLIMIT_CORE)[0])"
    command = [sys.executable, "-I", str(program), *sandbox.command(rules(folder)), sys.executable, "-I", "-c", said]
    result = subprocess.run(command, env=sandbox.environment(folder), capture_output=True, text=True, check=False)
    assert result.stdout == "seccomp 0\n", result.stderr
