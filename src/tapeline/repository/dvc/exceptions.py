"""DVC's exceptions, and what is to be known of a stage that failed."""

import re
from collections.abc import Iterator

from dvc.config import ConfigError
from dvc.exceptions import DvcException, NotDvcRepoError, ReproductionError
from dvc.lock import LockError
from dvc.stage.exceptions import MissingDataSource, StageCmdFailedError

__all__ = ["ConfigError", "DvcException", "FailedStage", "LockError", "NotDvcRepoError"]


class FailedStage(Exception):
    """`Dvc.reproduce` failed; the message is DVC's.

    status: the exit status of the stage's command, negative for a signal; None if something else failed.
    was_busy: another process used the files, so the same call may succeed later.
    lacks_data: the files of a `.dvc` file are not here.
    """

    def __init__(self, error: ReproductionError) -> None:
        causes = list(_causes(error))
        super().__init__(": ".join(map(str, causes)))
        last = causes[-1]
        self.status = _status(last) if isinstance(last, StageCmdFailedError) else None
        self.lacks_data = isinstance(last, MissingDataSource)
        self.was_busy = any(isinstance(cause, LockError) or _is_lost_run(cause) for cause in causes)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _status(error: StageCmdFailedError) -> int | None:
    """Return the exit status, which DVC keeps in the message alone."""
    found = re.search(r"exited with (-?\d+)$", str(error))
    return int(found[1]) if found else None


def _is_lost_run(error: BaseException) -> bool:
    """Return whether DVC lost a file that it was writing into its run cache.

    Another DVC process that shares the cache and was reading the entries of the same stage took it for a damaged entry
    and removed it.
    """
    lost = r"/runs/[0-9a-f]{2}/[0-9a-f]{64}/\.[^/]+\.tmp$"
    return isinstance(error, FileNotFoundError) and bool(re.search(lost, str(error.filename)))
