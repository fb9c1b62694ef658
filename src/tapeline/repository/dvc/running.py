"""A stage's command that is run by a process which waits for it, and not by a new shell."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dvc.stage.run
from dvc.stage.exceptions import StageCmdFailedError

from tapeline.repository.spare import Order, Spare


@contextmanager
def run_by(waiting: Spare | None) -> Iterator[None]:
    """In the block, DVC has a waiting process run a stage's command; None: a shell, as always."""
    if waiting is None:
        yield
        return
    run = dvc.stage.run._run

    def instead(executable: str, command: str, **options: Any) -> None:
        if not waiting.waits:  # the second command of a list
            run(executable, command, **options)
            return
        shell = dvc.stage.run._make_cmd(executable, command)
        order = Order(command=command, shell=shell, folder=options["cwd"], environment=options["env"])
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as DVC does: the command decides what it means
        try:
            status = waiting.run(order)
        finally:
            signal.signal(signal.SIGINT, before)
        if status:
            raise StageCmdFailedError(command, status)

    dvc.stage.run._run = instead
    try:
        yield
    finally:
        dvc.stage.run._run = run
        waiting.close()
