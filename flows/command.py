"""The command line of the training flow. Prefect is imported when everything that can be checked is."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from flows.api import prefect_api
from flows.pipeline import checked
from flows.request import Request
from tapeline.disk_errors import blamed, disk_error
from tapeline.errors import InputError, Interrupted, TapelineError
from tapeline.project import Project

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
    options = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        request, project = _checked(options)
        for name, value in READABLE.items():
            os.environ.setdefault(name, value)
        with prefect_api(project, say=_say) as connect, blamed(project.shared):
            return _train(request, connect)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m flows.training",
        description="Bring a pipeline up to date: one Prefect task per stage; what is not stale is not run.",
    )
    parser.add_argument("--pipeline", metavar="NAME", help="a pipeline of the working directory's params.yaml")
    parser.add_argument("--retries", type=int, default=2, metavar="N", help="tries of a killed stage (%(default)d)")
    parser.add_argument(
        "--timeout", action="append", default=[], metavar="STAGE=SECONDS", help="how long a stage may take"
    )
    parser.add_argument("--isolated", action="store_true", help="in a Git worktree; ends as a commit on runs/FLOW-RUN")
    parser.add_argument("--ref", default="", help="what an isolated run trains (the main branch)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="another value, such as train.epochs=3"
    )
    parser.add_argument("--push", action="store_true", help="push an isolated run where remotes are set")
    return parser


def _checked(options: argparse.Namespace) -> tuple[Request, Project]:
    """Return what is asked for and where, checked as far as that takes no worktree."""
    if options.pipeline is None:
        checked(None)
    request = Request.of(
        pipeline=options.pipeline,
        isolated=options.isolated,
        ref=options.ref,
        overrides={key: _value(text) for key, text in map(_pair, options.set)},
        push=options.push,
        retries=options.retries,
        timeouts={key: _value(text) for key, text in map(_pair, options.timeout)},
    )
    return request, Project.find() if request.isolated else checked(request.pipeline)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"{text!r} is no pair: write KEY=VALUE, such as train.epochs=3")
    return key, value


def _value(text: str) -> Any:
    """Return a value as params.yaml would have it."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe").load(text)
    except YAMLError:
        raise InputError(f"{text!r} is no value as params.yaml could have it") from None


def _train(request: Request, connect: Callable[[], None]) -> int:
    from flows.report import PipelineFailed, Report, summary
    from flows.training import training

    connect()
    try:
        report = training(**request.model_dump())
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
