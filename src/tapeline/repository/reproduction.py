"""A program: `dvc repro --single-item STAGE` in the current folder, through DVC's own classes.

    python -P -m tapeline.repository.reproduction STAGE DESCRIPTOR

Writes what happened to the file descriptor, as one JSON object: DVC's exit status is 255 whatever happened, and its
lines are written for people. Prints what the stage prints, and DVC's warnings. A separate process, because DVC keeps
SIGINT from the whole process while a stage runs.

When the flow is gone, this process gets SIGTERM, and ends the stage's command before itself: that may be anything, and
would otherwise stay.
"""

import json
import os
import shlex
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal, get_args

from tapeline.parsing import json_text
from tapeline.repository import spare
from tapeline.repository.dvc_errors import first_lines, in_one_line
from tapeline.repository.spare import Spare
from tapeline.runtime import processes
from tapeline.runtime.errors import TapelineError

Word = Literal["unchanged", "restored", "recorded", "ran", "busy", "missing", "failed"]


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """What `dvc repro` of one stage did.

    word: `restored` from DVC's cache; `recorded` as the files are, for raw data; `busy` if another process used the
    files, so that nothing was done; `missing` if raw data are not here.
    status: the exit status of the stage's command if that failed, negative or above 128 for a signal.
    message: the reason, in one line, for `missing`, and DVC's for `failed` without a status.
    """

    word: Word
    status: int | None = None
    message: str = ""


def reproduce(stage: str, waiting: Spare | None = None) -> Reproduction:
    """Bring a stage of the current folder up to date, or the raw data of a `.dvc` file.

    waiting: runs the stage's command, which otherwise gets a new process.
    """
    from tapeline.repository.dvc.exceptions import FailedStage
    from tapeline.repository.dvc.repository import Dvc

    try:
        with in_one_line(busy=_Busy):
            dvc = Dvc(Path(), wait=True)
            try:
                return Reproduction(word=dvc.reproduce(stage, waiting))
            except FailedStage as failed:
                if failed.was_busy:
                    return Reproduction(word="busy")
                if failed.lacks_data:
                    return Reproduction(word="missing", message=_lacking(Path(stage).absolute()))
                return Reproduction(word="failed", status=failed.status, message=first_lines(str(failed)))
            finally:
                dvc.close()
    except _Busy:
        return Reproduction(word="busy")
    except TapelineError as error:
        return Reproduction(word="failed", message=str(error).removeprefix("DVC: "))
    except OSError as error:
        return Reproduction(word="failed", message=str(error))
    except KeyboardInterrupt:
        return Reproduction(word="failed", message="interrupted")


def _lacking(file: Path) -> str:
    return f"the data of {file} are not here: `dvc pull {shlex.quote(str(file))}` brings them"


def read(content: bytes) -> Reproduction | None:
    """Return what the program wrote; None if it ended before that, or if this is nothing that it writes."""
    try:
        found = json_text.mapping(content)
    except json_text.NotJson:
        return None
    parts: list[Any] = [found.get(name) for name in ("word", "status", "message")]
    word, status, message = parts
    is_sound = word in get_args(Word) and isinstance(status, int | None) and isinstance(message, str)
    return Reproduction(word=word, status=status, message=message) if is_sound else None


class _Busy(Exception):
    """Another process holds the repository's lock."""


def _end_all(signum: int, frame: FrameType | None) -> None:
    """End the other processes of the session, a trainer after its checkpoint, and then this one, by the same signal.

    The session is this process's own, with its guard. A trainer may not be signalled twice, so this process, of whose
    death it would be told, outlives it.
    """
    signal.signal(signum, signal.SIG_IGN)  # the kernel sends it for each thread of the flow
    processes.end(processes.beside, signum)
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)


if __name__ == "__main__":
    descriptor = int(sys.argv[2])
    waiting = spare.forked(sys.argv[1], closing=[descriptor])
    if processes.is_leashed():
        signal.signal(signal.SIGTERM, _end_all)  # not before the fork, which is to die of it
    answer = reproduce(sys.argv[1], waiting)
    os.write(descriptor, json.dumps(asdict(answer)).encode())
    sys.exit(answer.word in ("busy", "missing", "failed"))
