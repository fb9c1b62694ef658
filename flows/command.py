"""The command line of the training flow. Prefect is imported when everything that can be checked is."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from flows.api import prefect_api
from flows.pipeline import checked
from tapeline.disk_errors import blamed, disk_error
from tapeline.errors import Interrupted, TapelineError

READABLE = {
    "PREFECT_LOGGING_FORMATTERS_STANDARD_FLOW_RUN_FMT": "%(asctime)s  %(message)s",
    "PREFECT_LOGGING_FORMATTERS_STANDARD_TASK_RUN_FMT": "%(asctime)s  %(task_run_name)s  %(message)s",
}
"""Prefect's own prefix takes half a line. Who has set another one keeps it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the flow on one pipeline and return the exit status that its stages deserve.

    0 when the pipeline is up to date, 2 for a mistake of the user's, 1 for a run that failed or a verdict "no",
    128 + n when signal n ended it.
    """
    parser = argparse.ArgumentParser(
        prog="python -m flows.training",
        description="Bring a pipeline up to date: one Prefect task per stage; what is not stale is not run.",
    )
    parser.add_argument("--pipeline", metavar="NAME", help="a pipeline of the working directory's params.yaml")
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        project = checked(options.pipeline)
        for name, value in READABLE.items():
            os.environ.setdefault(name, value)
        with prefect_api(project, say=_say) as connect, blamed(project.shared):
            return _train(options.pipeline, connect)
    except (TapelineError, Interrupted) as error:
        _say(str(error))
        return error.status
    except OSError as error:
        failure = disk_error(error)
        _say(str(failure))
        return failure.status
    except KeyboardInterrupt:
        _say("stopped by SIGINT; run again to go on")
        return 128 + signal.SIGINT


def _train(pipeline: str, connect: Callable[[], None]) -> int:
    from flows.report import PipelineFailed, Report, summary
    from flows.training import training

    connect()
    try:
        report = training(pipeline)
    except PipelineFailed as failure:
        print(summary(failure.report), flush=True)
        _say(f"{failure.stage}: {failure}")
        return failure.status
    assert isinstance(report, Report), "the flow returns its report, or raises"
    print(summary(report))
    return 0


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise Interrupted(f"stopped by {signal.Signals(signum).name}; run again to go on", signum=signum)


def _say(message: str) -> None:
    print(f"training: {message}", file=sys.stderr, flush=True)
