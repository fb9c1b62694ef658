"""A signal ends a process even when the exception that it raises is swallowed."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SWALLOWS = """
import os, sys, time
from tapeline.interruption import interruptible

def leave(interrupted):
    print(f"left: {interrupted}", flush=True)
    os._exit(interrupted.status)

with interruptible(leave, grace=0.2):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            print("ready", flush=True)
            time.sleep(60)
        except BaseException:
            if sys.argv[1] == "raises":
                raise SystemExit(7)
"""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("how", "status", "said"), [("swallows", 128, "left: stopped by"), ("raises", 7, "")])
def test_a_signal_ends_it(signum, how, status, said):
    command = [sys.executable, "-c", SWALLOWS, how]
    source = str(Path(__file__).resolve().parents[1] / "src")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": source}) as process:
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        process.send_signal(signum)
        rest, _ = process.communicate(timeout=30)
    assert process.returncode == (status + signum if status == 128 else status)
    assert said in rest
    assert time.monotonic() - began < 20
