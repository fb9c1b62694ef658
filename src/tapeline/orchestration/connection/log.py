"""Filters for noise in a flow's log."""

import logging

from tapeline.runtime.errors import TapelineError


def drop_address() -> None:
    """Drop `View at http://…`: a temporary server has no user interface there."""
    logging.getLogger("prefect.flow_runs").addFilter(_is_no_address)


def drop_repetition() -> None:
    """Drop what repeats `Finished in state …`: of tasks, an empty traceback; of a flow, that of Prefect's engine."""
    logging.getLogger("prefect.task_runs").addFilter(_is_no_empty_traceback)
    logging.getLogger("prefect.flow_runs").addFilter(_is_not_told)


def drop_remaining() -> None:
    """Drop `Still processing items: …` of the event worker; a flow's end waits for that worker anyway."""
    logging.getLogger("EventsWorker").addFilter(_is_no_rest)


def _is_no_rest(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Still processing items: ")


def _is_no_address(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("View at ")


def _is_no_empty_traceback(record: logging.LogRecord) -> bool:
    return record.exc_info != (None, None, None)


def _is_not_told(record: logging.LogRecord) -> bool:
    """Return whether a record is not the engine's `exited with unexpected exception` for a run that ended in order."""
    from prefect.exceptions import CancelledRun

    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, TapelineError | CancelledRun) and "unexpected exception" in record.getMessage())
