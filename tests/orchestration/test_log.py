"""What a flow's log leaves out of Prefect's lines, by the names that Prefect gives its loggers."""

import logging

from tapeline.orchestration.connection import log


def test_what_prefect_still_has_to_send_is_no_news(caplog):
    from prefect.events.worker import EventsWorker

    logger = logging.getLogger(EventsWorker.__name__)
    log.drop_remaining()
    logger.warning("Still processing items: 1 items remaining...")
    logger.warning("an event was lost")
    assert [record.getMessage() for record in caplog.records] == ["an event was lost"]
