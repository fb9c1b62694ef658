"""Filters for noise in a flow's log."""

import logging


def drop_address() -> None:
    """Drop `View at http://…`: a temporary server has no user interface there."""
    logging.getLogger("prefect.flow_runs").addFilter(_is_no_address)


def drop_repetition() -> None:
    """Drop `Task run failed with state: …` and its empty traceback; `Finished in state …` says the same."""
    logging.getLogger("prefect.task_runs").addFilter(_is_no_empty_traceback)


def drop_remaining() -> None:
    """Drop `Still processing items: …` of the event worker; a flow's end waits for that worker anyway."""
    logging.getLogger("EventsWorker").addFilter(_is_no_rest)


def _is_no_rest(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Still processing items: ")


def _is_no_address(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("View at ")


def _is_no_empty_traceback(record: logging.LogRecord) -> bool:
    return record.exc_info != (None, None, None)
