"""Child processes: their lines, and that none of them stays."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tapeline.orchestration.stages.child import Child, environment
from tapeline.runtime import processes

# Starts a process that ignores polite signals, says its id, and waits.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""

# The handler does not `print`: the signal may come while "ready" is still being printed.
POLITE = """
import os, signal, time
def end(*_):
    os.write(1, b"last words\\n")
    os._exit(3)
signal.signal(signal.SIGINT, end)
print("ready", flush=True)
time.sleep(600)
"""


def python(code, folder, **options):
    return Child([sys.executable, "-c", code], cwd=folder, env=os.environ, **options)


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"no end", ["no end"]),
        (b"windows\r\n", ["windows"]),
        (b"10%\r50%\r100%\nnext", ["100%", "next"]),
        ("größer\n".encode(), ["größer"]),
        (b"\xff\n", ["�"]),
        (b"", []),
    ],
)
def test_lines(tmp_path, written, lines):
    code = f"import sys; sys.stdout.buffer.write({written!r})"
    with python(code, tmp_path) as child:
        assert [line for line in child.lines() if line is not None] == lines
        assert child.returncode == 0


def test_what_a_flow_starts_has_the_hash_seed_of_a_stage(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "5")
    code = "import sys; print(sys.flags.hash_randomization)"
    with Child([sys.executable, "-c", code], cwd=tmp_path, env=environment()) as child:
        assert "0" in list(child.lines())


def test_quiet_is_told(tmp_path):
    with python("input = __import__('time').sleep(1)", tmp_path) as child:
        assert None in list(child.lines(quiet=0.05))


def test_leaving_ends_the_child_and_hears_its_last_words(tmp_path):
    heard = []
    with python(POLITE, tmp_path, last_words=heard.append) as child:
        assert next(child.lines(quiet=60)) == "ready"
    assert heard == ["last words"]
    assert child.returncode == 3


def test_what_does_not_end_is_killed_and_so_is_what_it_started(tmp_path):
    with python(STUBBORN, tmp_path, grace=0.3) as child:
        grandchild = int(next(child.lines(quiet=60)))
        assert alive(grandchild)
    assert child.returncode == -signal.SIGKILL
    assert not alive(grandchild)


def test_a_killed_parent_takes_its_child_with_it(tmp_path, root, until):
    code = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(root)!r})
from tapeline.orchestration.stages.child import Child, environment
with Child([sys.executable, "-c", {POLITE!r}], cwd=Path("."), env=os.environ) as child:
    for line in child.lines():
        if line:
            print(child.session, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.kill()
    until(lambda: not alive(child), limit=60)


# Counts how often it is asked to end, and writes that down when it was quiet for a while.
COUNTS = """
import pathlib, signal, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(time.monotonic()))
print("ready", flush=True)
while not asked or time.monotonic() < asked[-1] + 0.5:
    time.sleep(0.001)
pathlib.Path("asked").write_text(str(len(asked)))
"""


def test_the_death_of_a_parent_with_threads_is_told_once(tmp_path, root, until):
    """The kernel tells it for each thread; a second signal would end a stage before its checkpoint is saved."""
    code = f"""
import os, sys, threading, time
from pathlib import Path
sys.path.insert(0, {str(root)!r})
from tapeline.orchestration.stages.child import Child, environment
for _ in range(8):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
with Child([sys.executable, "-c", {COUNTS!r}], cwd=Path("."), env=os.environ) as child:
    for line in child.lines():
        if line:
            print(child.session, flush=True)
"""
    for _ in range(3):
        (tmp_path / "asked").unlink(missing_ok=True)
        with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as parent:
            guard = int(parent.stdout.readline())
            parent.kill()
        until(lambda guard=guard: not alive(guard), limit=60)
        assert (tmp_path / "asked").read_text() == "1"


@pytest.mark.parametrize("end", [3, -signal.SIGSEGV, -signal.SIGKILL])
def test_the_exit_status_is_the_command_s(tmp_path, end):
    code = f"import os; os._exit({end}) if {end} > 0 else os.kill(os.getpid(), -{end})"
    with python(code, tmp_path) as child:
        list(child.lines())
    assert child.returncode == end


@pytest.mark.parametrize("death", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_ignores_the_signals_that_it_would_ignore_if_it_were_started_directly(tmp_path, death):
    """With SIGPIPE ignored, `yes | head` does not end in every shell."""
    command = ["grep", "SigIgn", "/proc/self/status"]
    with Child(command, cwd=tmp_path, env=os.environ, at_our_death=death) as child:
        found = [line for line in child.lines() if line]
    assert found == subprocess.check_output(command, text=True).splitlines()


def test_the_exit_status_where_whoever_started_us_ignores_the_end_of_children():
    program = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    leash = [processes.__file__, str(int(signal.SIGTERM)), str(os.getpid())]
    answer = subprocess.run([sys.executable, "-c", program, *leash, "sh", "-c", "exit 3"], timeout=60, check=False)
    assert answer.returncode == 3
