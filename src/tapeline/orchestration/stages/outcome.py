"""How a stage went, according to its outcome file, DVC's output and DVC's exit status.

DVC exits with 255 whatever the stage's status was, so the stage leaves an outcome file; a missing file means that the
stage was killed, or ended before any code of ours ran.
"""

import itertools
import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapeline.parsing import json_text
from tapeline.runtime import files

ERROR = "ERROR: "
STATUS = re.compile(r"exited with (-?\d+)$")
ADVICE = re.compile(r"Is your cache up to date|<?https?://|Having any troubles")
BUSY = re.compile(r"is busy, it is being blocked by|Unable to acquire lock")
LOST = re.compile(r"No such file or directory: '.*/runs/[0-9a-f]{2}/[0-9a-f]{64}/\.[^/]+\.tmp'")
"""DVC lost a file that it was writing into its run cache: another DVC process that shares the cache, and was reading
the entries of the same stage, took the file for a damaged entry and removed it."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a stage went.

    `word` is one of unchanged, restored, recorded, ran; or input, failed, verdict, limit, interrupted, killed, timeout.
    `status` is the matching exit status, `message` the stage's own final message.
    """

    word: str
    message: str = ""
    status: int = 0

    @property
    def may_go_on(self) -> bool:
        """Whether the same stage, started again, would resume: it was killed from outside, with no known error."""
        return self.word == "killed"

    @property
    def ok(self) -> bool:
        """Whether the next stage may run."""
        return self.status == 0


UNCHANGED = Outcome(word="unchanged", message="nothing that it depends on has changed")


def was_busy(lines: Sequence[str]) -> bool:
    """Return whether DVC failed because of another process that uses the files, or was saving the same run."""
    return any(BUSY.search(line) or LOST.search(line) for line in lines)


def judge(stage: str, *, returncode: int, lines: Iterable[str], left: dict[str, Any] | None) -> Outcome:
    """Return the outcome of a `dvc repro` of one stage.

    `lines` is the end of its output, `left` the outcome file's content if this run wrote one.
    """
    lines = list(lines)
    if returncode == 0:
        return _succeeded(lines)
    if returncode < 0:
        return _killed(f"dvc, which ran {stage},", -returncode)
    if left:
        return Outcome(word=left["outcome"], message=left["message"], status=left["status"])
    at = next((index for index in reversed(range(len(lines))) if lines[index].startswith(ERROR)), len(lines))
    error = " ".join(lines[at : at + 1]).removeprefix(ERROR)
    status = STATUS.search(error)
    if status is None:
        return Outcome(word="failed", message=f"DVC: {error or f'exit status {returncode}'}", status=1)
    signum = _signal_number(int(status[1]))
    if signum:
        return _killed(stage, signum)
    own = [line for line in lines[:at] if not line.startswith(("> ", "Running stage "))]
    return Outcome(word="failed", message=own[-1] if own else error, status=1)


def error_line(output: str) -> str:
    """Return what went wrong, in one line, from a DVC command's output: its first error, without the advice.

    >>> error_line("ERROR: failed to pull data\\nIs your cache up to date?\\n<https://error.dvc.org/missing-files>")
    'failed to pull data'
    """
    lines = [line.strip() for line in output.strip().splitlines()]
    at = next((index for index, line in enumerate(lines) if line.startswith(ERROR)), len(lines) - 1)
    said = itertools.takewhile(lambda line: line and not ADVICE.match(line), lines[max(at, 0) :])
    return " ".join(said).removeprefix(ERROR) or "it failed and printed nothing"


def timed_out(kind: str, name: str, seconds: float | None) -> Outcome:
    """Return the outcome of a stage that was stopped because it took too long."""
    message = (
        f"{kind}@{name} took longer than timeouts.{kind}, which is {seconds:g} s: give it more; "
        "training resumes from its checkpoint"
    )
    return Outcome(word="timeout", message=message, status=1)


def read_outcome(path: Path, *, session: int) -> dict[str, Any] | None:
    """Return the outcome file that a stage of this process session left, or None."""
    try:
        left = json_text.mapping(files.read_bytes(path))
    except (FileNotFoundError, json_text.NotJson):
        return None
    typed = {"outcome": str, "message": str, "status": int}
    sound = all(isinstance(left.get(key), kind) for key, kind in typed.items())
    return left if sound and left.get("session") == session else None


def _succeeded(lines: Sequence[str]) -> Outcome:
    text = "\n".join(lines)
    if "Running stage " in text:
        return Outcome(word="ran")
    if "is cached - skipping run" in text:
        return Outcome(word="restored", message="DVC's cache had the outputs of these inputs")
    if "didn't change, skipping" in text:
        return UNCHANGED
    return Outcome(word="recorded", message="DVC has taken the files as they are")


def _signal_number(status: int) -> int:
    """Return the signal of DVC's `exited with STATUS`: -9, or 137 with a shell in between; 0 for none."""
    return -status if status < 0 else status - 128 if 128 < status < 160 else 0


def _killed(what: str, signum: int) -> Outcome:
    name = signal.Signals(signum).name if signum in set(signal.Signals) else f"signal {signum}"
    hint = " (out of memory?)" if signum == signal.SIGKILL else ""
    return Outcome(word="killed", message=f"{what} was killed by {name}{hint}: run again", status=128 + signum)
