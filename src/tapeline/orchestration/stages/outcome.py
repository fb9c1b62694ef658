"""How a stage went, according to its outcome file and to the process that ran it for DVC.

A missing outcome file means that the stage was killed, ended before any code of ours ran, or is somebody else's.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapeline.parsing import json_text
from tapeline.repository.reproduction import Reproduction
from tapeline.runtime import exit_status, files


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
    def may_resume(self) -> bool:
        """Whether the same stage, started again, would resume: it was killed from outside, with no known error."""
        return self.word == "killed"

    @property
    def ok(self) -> bool:
        """Whether the next stage may run."""
        return self.status == 0


MESSAGES = {
    "unchanged": "its dependencies are unchanged",
    "restored": "its outputs were in DVC's cache",
    "recorded": "DVC recorded the existing files",
    "ran": "",
}
UNCHANGED = Outcome(word="unchanged", message=MESSAGES["unchanged"])


def judge(
    stage: str,
    found: Reproduction | None,
    *,
    returncode: int,
    lines: Sequence[str],
    left: dict[str, Any] | None,
) -> Outcome:
    """Return the outcome of a `dvc repro` of one stage.

    found: what the process that ran it said, which ended with `returncode`; None if it said nothing. lines: the end of
    its output. left: the outcome file's content if this run wrote one.
    """
    if returncode < 0:
        return _killed(f"dvc, which ran {stage},", -returncode)
    if found is None:
        return Outcome(word="failed", message=f"DVC: {lines[-1] if lines else f'exit status {returncode}'}", status=1)
    if found.word in MESSAGES:
        return Outcome(word=found.word, message=MESSAGES[found.word])
    if found.word == "missing":
        return Outcome(word="input", message=found.message, status=2)
    if left and (left["status"] or found.word == "ran"):  # else DVC has failed after the stage
        return Outcome(word=left["outcome"], message=left["message"], status=left["status"])
    if found.status is None:
        return Outcome(word="failed", message=f"DVC: {found.message}", status=1)
    if signum := _signal_number(found.status):
        return _killed(stage, signum)
    return Outcome(word="failed", message=lines[-1] if lines else f"exit status {found.status}", status=1)


def timed_out(kind: str, name: str, seconds: float | None) -> Outcome:
    """Return the outcome of a stage that was stopped because it took too long."""
    message = (
        f"{kind}@{name} took longer than timeouts.{kind}, {seconds:g} s: raise the timeout; "
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


def _signal_number(status: int) -> int:
    """Return the signal of a command's exit status: -9, or 137 with a shell in between; 0 for none."""
    return -status if status < 0 else status - 128 if 128 < status < 160 else 0


def _killed(what: str, signum: int) -> Outcome:
    hint = " (out of memory?)" if signum == signal.SIGKILL else ""
    by = exit_status.signal_name(signum)
    return Outcome(word="killed", message=f"{what} was killed by {by}{hint}: run again", status=128 + signum)
