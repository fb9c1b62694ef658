"""What a flow's log leaves out of Prefect's lines, by the names that Prefect gives its loggers."""

import logging

from prefect.exceptions import CancelledRun
from prefect.settings import PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW, temporary_settings

from tapeline.orchestration.connection import log
from tapeline.runtime.errors import InputError


def test_what_prefect_still_has_to_send_is_no_news(caplog):
    from prefect.events.worker import EventsWorker

    logger = logging.getLogger(EventsWorker.__name__)
    log.drop_remaining()
    logger.warning("Still processing items: 1 items remaining...")
    logger.warning("an event was lost")
    assert [record.getMessage() for record in caplog.records] == ["an event was lost"]


def test_a_run_that_has_said_how_it_ended_is_no_unexpected_exception(caplog):
    logger = logging.getLogger("prefect.flow_runs")
    log.drop_repetition()
    with temporary_settings({PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW: "ignore"}):
        for error in (InputError("a mistake"), CancelledRun("cancelled"), KeyError("a bug")):
            try:
                raise error
            except type(error):
                logger.exception("Engine execution exited with unexpected exception")
    assert [record.exc_info[0] for record in caplog.records] == [KeyError]
