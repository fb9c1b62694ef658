"""A signal ends a process even when the exception that it raises is swallowed."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import os, sys, time
from tapeline.runtime import interruption

def leave(interrupted):
    print(f"left: {interrupted}", flush=True)
    os._exit(interrupted.status)

interruption.ECHO = 60
with interruption.interruptible(leave, grace=0.2 if sys.argv[1] == "swallows" else 30):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            print("ready", flush=True)
            time.sleep(60)
        except BaseException:
            if sys.argv[1] != "swallows":
                break
try:
    if sys.argv[1] == "echo":  # a parent's death is told once for each of its threads
        os.kill(os.getpid(), int(sys.argv[2]))
except BaseException:
    raise SystemExit(1)
raise SystemExit(7)
"""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("how", "status", "said"), [("swallows", 128, "left: stopped by"), ("raises", 7, ""), ("echo", 7, "")]
)
def test_a_signal_ends_it(signum, how, status, said):
    command = [sys.executable, "-c", PROGRAM, how, str(int(signum))]
    source = str(Path(__file__).resolve().parents[2] / "src")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": source}) as process:
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        process.send_signal(signum)
        rest, _ = process.communicate(timeout=30)
    assert process.returncode == (status + signum if status == 128 else status)
    assert said in rest
    assert time.monotonic() - began < 20
