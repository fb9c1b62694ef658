"""The command line of the training flow.

The imports of the stages take the longest, so they begin before this process imports what it needs itself. Prefect is
imported after all checks, and only if there is a server.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapeline.cli.flows import COMMANDS
from tapeline.cli.flows.terminal import show, status
from tapeline.config.project import Project
from tapeline.orchestration.connection import discovery
from tapeline.orchestration.stages.likely import begin_imports, is_likely_stale
from tapeline.runtime import files, imports
from tapeline.runtime.arguments import Parser
from tapeline.runtime.disk_errors import blamed
from tapeline.runtime.errors import InputError
from tapeline.runtime.exit_status import teller

if TYPE_CHECKING:
    from tapeline.orchestration.reports.summary import Report
    from tapeline.orchestration.request import Request


def main(argv: Sequence[str] | None = None, *, program: str = "tapeline run") -> int:
    """Run the flow on one pipeline and return its exit status.

    0 if the pipeline is up to date, 2 for invalid input, 1 for a run that failed or a verdict "no", 128 + n if signal n
    ended it.
    """
    options = _parser(program).parse_args(argv)
    return status("training", lambda: _run(options))


def _parser(program: str) -> argparse.ArgumentParser:
    parser = Parser(
        prog=program,
        description=COMMANDS["run"][1],
    )
    parser.add_argument("--pipeline", metavar="NAME", help="a pipeline of params.yaml")
    parser.add_argument(
        "--retries", type=int, default=2, metavar="N", help="retries of a stage that was killed (default: %(default)d)"
    )
    parser.add_argument(
        "--timeout",
        action="append",
        default=[],
        metavar="STAGE=SECONDS",
        help="limit a stage's time, such as train=3600",
    )
    parser.add_argument(
        "--isolated", action="store_true", help="run in a Git worktree; commit the result to runs/FLOW-RUN"
    )
    parser.add_argument(
        "--ref", default="", help="what an isolated run trains: a branch, tag or commit (default: the main branch)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a setting of an isolated run, such as train.epochs=3",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="also write the result to this file, as JSON")
    parser.add_argument("--no-page", action="store_true", help="write no report with plots to .tapeline/reports")
    parser.add_argument("--tag", action="append", default=[], metavar="NAME", help="tag the flow run")
    parser.add_argument("--register", action="store_true", help="register an isolated run's model as the next version")
    parser.add_argument("--push", action="store_true", help="push an isolated run to the configured remotes")
    return parser


def _checked(options: argparse.Namespace) -> "tuple[Request, Project]":
    """Return the request and its project, checked as far as possible without a worktree."""
    from tapeline.orchestration.request import Request
    from tapeline.orchestration.stages.pipeline import checked

    if options.pipeline is None:
        checked(None)
    request = Request.of(
        pipeline=options.pipeline,
        isolated=options.isolated,
        ref=options.ref,
        overrides=pairs(options.set),
        push=options.push,
        registered=options.register,
        retries=options.retries,
        timeouts=pairs(options.timeout),
    )
    project = Project.find() if request.isolated else checked(request.pipeline)
    if options.report:
        _check_report(options.report)
    return request, project


def _check_report(path: Path) -> None:
    """Make the folder of `--report`. Raises `InputError` if no file can be written there, before training starts.

    A link to something other than a file is refused too: `/dev/stdout` is one, and would be replaced.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"--report is {str(path)!r}, which is not a file: give the name of a file")
    try:
        files.make_folder(path.parent)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}"):
            pass
    except OSError as error:
        raise InputError(f"--report is {str(path)!r}: cannot write a file there: {error.strerror}") from None


def pairs(texts: Iterable[str]) -> dict[str, Any]:
    """Return the values of options of the form KEY=VALUE. Raises `InputError`."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"{text!r} is not a pair: write KEY=VALUE, such as train.epochs=3")
        if key in found:
            raise InputError(f"{text!r} is a second value of {key}: give each key once")
        found[key] = _value(value)
    return found


def _value(text: str) -> Any:
    """Return a value parsed as in params.yaml."""
    from tapeline.parsing import yaml_text

    try:
        return yaml_text.parsed(text)
    except yaml_text.NotYaml as error:
        raise InputError(f"{text!r} is not a valid value in params.yaml: {error}") from None


def _run(options: argparse.Namespace) -> int:
    project = Project.find()
    with blamed(project.shared):
        url = discovery.server(project)
        is_here = not url and not options.isolated and options.pipeline
        if is_here and is_likely_stale(project, options.pipeline):
            begin_imports()
        request, project = _checked(options)
        if options.tag and not url:
            teller("training")("note: --tag has no effect without a Prefect server")
        flow = partial(_on_server, project, url, request, options.tag)
        return _shown(options, flow if url else partial(_here, request, project, page=not options.no_page))


def _on_server(project: Project, url: str, request: "Request", names: Iterable[str]) -> "Report":
    """Run the Prefect flow, and return its report."""
    with discovery.used(project, url):
        with imports.lasting():
            from tapeline.orchestration.flows.training import tagged

        return tagged(request, names)


def _here(request: "Request", project: Project, *, page: bool) -> "Report":
    """Do what the flow does, without Prefect."""
    with imports.lasting():
        from tapeline.orchestration.monitors.terminal import Terminal
        from tapeline.orchestration.runs.training import train

    return train(request, project, Terminal(project, page=page))


def _shown(options: argparse.Namespace, run: "Callable[[], Report]") -> int:
    """Print the report of a run, and return the exit status."""
    from tapeline.orchestration.reports.other_machine import advice
    from tapeline.orchestration.reports.summary import PipelineFailed, as_json, summary

    failure = None
    try:
        report = run()
    except PipelineFailed as failed:
        failure, report = failed, failed.report
    if options.report:
        files.write_json(options.report, as_json(report))
    show(summary(report))
    if not options.isolated and (told := advice(report.project, report.pipeline)):
        show(told)
    if failure:
        teller("training")(f"{failure.stage}: {failure}")
        return failure.status
    return 0
