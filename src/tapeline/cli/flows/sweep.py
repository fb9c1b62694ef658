"""The command line of the sweep flow. Prefect and Optuna are imported only after all checks."""

import argparse
from collections.abc import Sequence
from typing import Any

from tapeline.cli.flows import COMMANDS
from tapeline.cli.flows.terminal import show, status
from tapeline.cli.flows.training import pairs
from tapeline.config.project import Project
from tapeline.orchestration.connection import discovery
from tapeline.orchestration.sweeps.request import SweepRequest
from tapeline.repository.git import Git
from tapeline.runtime import imports
from tapeline.runtime.arguments import Parser
from tapeline.runtime.disk_errors import blamed


def main(argv: Sequence[str] | None = None, *, program: str = "tapeline sweep") -> int:
    """Run the sweep, print the ranked table and the winner's command, and return the exit status."""
    options = _parser(program).parse_args(argv)
    return status("sweep", lambda: _run(options))


def _parser(program: str) -> argparse.ArgumentParser:
    parser = Parser(prog=program, description=COMMANDS["sweep"][1])
    parser.add_argument("--pipeline", metavar="NAME", required=True, help="a pipeline of params.yaml")
    parser.add_argument(
        "--over",
        action="append",
        required=True,
        metavar="KEY=SPACE",
        help="what to vary: 'params.learning_rate={low: 0.0005, high: 0.01, log: true}' or 'train.batch_size=[32, 64]'",
    )
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--max", metavar="METRIC", help="the validation metric to maximize")
    goal.add_argument("--min", metavar="METRIC", help="the validation metric to minimize")
    parser.add_argument(
        "--trials", type=int, default=20, metavar="N", help="number of trials in total (default: %(default)d)"
    )
    parser.add_argument(
        "--parallel",
        type=int,
        metavar="N",
        help="number of concurrent trials (default: one per core and 4 GiB, at most 8; one with a GPU)",
    )
    parser.add_argument("--ref", default="", help="the branch, tag or commit to train (default: the main branch)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting that all trials share"
    )
    parser.add_argument("--name", default="", help="the name of the sweep (default: that of the pipeline)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the search (default: %(default)d)")
    return parser


def _run(options: argparse.Namespace) -> int:
    request = SweepRequest.of(
        pipeline=options.pipeline,
        over=pairs(options.over),
        metric=options.max or options.min,
        goal="max" if options.max else "min",
        trials=options.trials,
        parallel=options.parallel,
        ref=options.ref,
        overrides=pairs(options.set),
        name=options.name,
        seed=options.seed,
    )
    project = Project.find()
    git = Git(project.folder)
    git.commit_of(request.ref or git.main_branch())
    url = discovery.server(project)
    with blamed(project.shared):
        ranked = _on_server(project, url, request) if url else _here(request, project)
        from tapeline.orchestration.runs.sweep import repeatable
        from tapeline.orchestration.sweeps.page import summary

        show(summary(repeatable(git, request, ranked), ranked))
    return 0


def _on_server(project: Project, url: str, request: SweepRequest) -> list[Any]:
    """Run the Prefect flow, and return the trials, the best first."""
    with discovery.used(project, url):
        with imports.lasting():
            from tapeline.orchestration.flows.monitor import as_interrupted
            from tapeline.orchestration.flows.sweep import sweep

        with as_interrupted():
            ranked = sweep(**request.model_dump())
    assert isinstance(ranked, list), "the flow returns its trials, or raises"
    return ranked


def _here(request: SweepRequest, project: Project) -> list[Any]:
    """Do what the flow does, without Prefect."""
    with imports.lasting():
        from tapeline.orchestration.monitors.terminal import Terminal
        from tapeline.orchestration.runs.sweep import search

    return search(request, project, Terminal(project))
