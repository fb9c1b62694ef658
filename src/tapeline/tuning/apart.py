"""Measure a mode that needs another TensorFlow thread configuration, in a separate process."""

import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from typing import Any

from tapeline.runtime import exit_status, processes, startup
from tapeline.runtime.errors import InputError, RunError
from tapeline.tuning.choice import Measured


def apart(*asked: Any, threads: int, portable: bool = True, **effort: Any) -> Measured:
    """Return the result of `tapeline.tuning.measuring.measure` from a process with TensorFlow set up for it.

    threads, portable: as `startup.tensorflow` takes them.

    The process ends with this one. Raises `InputError` for a mode that the recipe does not have, `RunError` if the
    process dies.
    """
    spawning = multiprocessing.get_context("spawn")
    answers, theirs = spawning.Pipe(duplex=False)
    process = spawning.Process(
        target=_measure, args=(theirs, os.getpid(), (threads, portable), asked, effort), daemon=True
    )
    try:
        process.start()
        theirs.close()
        answer: Measured | InputError | RunError = answers.recv()
    except EOFError:
        process.join()
        raise RunError(f"its process ended with {_told(process.exitcode)}") from None
    finally:
        if process.pid is not None:
            process.kill()
            process.join()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _told(status: int | None) -> str:
    return f"status {status}" if status is None or status >= 0 else exit_status.signal_name(-status)


def _measure(
    answers: "Connection[Any, Any]",
    parent: int,
    started: tuple[int, bool],
    asked: tuple[Any, ...],
    effort: dict[str, Any],
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to both; the parent ends this process
    processes.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        return
    try:
        startup.tensorflow(threads=started[0], portable=started[1])
        from tapeline.tuning.measuring import measure

        answers.send(measure(*asked, **effort))
    except (InputError, RunError) as error:
        answers.send(error)
