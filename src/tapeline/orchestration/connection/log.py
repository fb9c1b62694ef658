"""What Prefect says in a flow's log and nobody needs."""

import logging


def drop_address() -> None:
    """Leave out `View at http://…`: a temporary server has no user interface there."""
    logging.getLogger("prefect.flow_runs").addFilter(_is_no_address)


def drop_repetition() -> None:
    """Leave out `Task run failed with state: …` and a traceback of nothing; `Finished in state …` says it as well."""
    logging.getLogger("prefect.task_runs").addFilter(_is_no_empty_traceback)


def drop_remaining() -> None:
    """Leave out `Still processing items: …` of the worker that sends events, for which a flow's end waits anyway."""
    logging.getLogger("EventsWorker").addFilter(_is_no_rest)


def _is_no_rest(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Still processing items: ")


def _is_no_address(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("View at ")


def _is_no_empty_traceback(record: logging.LogRecord) -> bool:
    return record.exc_info != (None, None, None)
