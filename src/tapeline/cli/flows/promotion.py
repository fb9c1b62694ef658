"""The command line of the promotion flow. Prefect is imported only after all checks."""

import argparse
from collections.abc import Sequence

from tapeline.cli.flows import COMMANDS
from tapeline.cli.flows.terminal import show, status
from tapeline.config.project import Project
from tapeline.orchestration.connection.api import prefect_api
from tapeline.orchestration.request import YEAR
from tapeline.registry.registry import Registry
from tapeline.registry.tags import names
from tapeline.runtime.arguments import Parser
from tapeline.runtime.disk_errors import blamed
from tapeline.runtime.errors import InputError
from tapeline.runtime.exit_status import teller


def main(argv: Sequence[str] | None = None, *, program: str = "tapeline promote") -> int:
    """Run the flow and return its exit status: 0 live, 1 refused by the gate or a person, 2 invalid input."""
    options = _parser(program).parse_args(argv)
    return status("promotion", lambda: _run(options))


def _parser(program: str) -> argparse.ArgumentParser:
    parser = Parser(
        prog=program,
        description=COMMANDS["promote"][1],
    )
    parser.add_argument("--pipeline", metavar="NAME", required=True, help="a pipeline of params.yaml")
    parser.add_argument("--stage", metavar="STAGE", required=True, help="a stage of params.yaml")
    parser.add_argument(
        "--version", metavar="X.Y.Z", help="a registered version (default: that of HEAD, registered if needed)"
    )
    parser.add_argument(
        "--bump",
        default="patch",
        choices=names.BUMPS,
        help="which part of a new version to raise (default: %(default)s)",
    )
    parser.add_argument(
        "--wait-seconds",
        type=int,
        default=86_400,
        metavar="N",
        help="how long to wait for the approval (default: %(default)d)",
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    project = Project.find()
    registry = Registry.for_model(project, options.pipeline)
    registry.params.pipeline(names.check_name(options.pipeline))
    registry.stage(options.stage)
    if not 1 <= options.wait_seconds <= YEAR:
        raise InputError(f"--wait-seconds is {options.wait_seconds}: it must be from 1 to {YEAR}, a year")
    number = names.check_version(options.version) if options.version else None
    with blamed(project.shared), prefect_api(project, say=teller("promotion")) as connect:
        from tapeline.orchestration.flows.monitor import as_interrupted
        from tapeline.orchestration.flows.promotion import promotion

        connect()
        with as_interrupted():
            tag = promotion(options.pipeline, options.stage, number, options.bump, options.wait_seconds)
        show(f"{options.pipeline} is live in {options.stage} ({tag})")
    return 0
