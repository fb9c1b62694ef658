"""The command line of the inference flow. Prefect is imported only after all checks."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tapeline.cli.flows import COMMANDS
from tapeline.cli.flows.terminal import show, status
from tapeline.cli.prediction_options import BATCH_SIZE, FILES, MODEL, OUT, OUTPUTS, check_batch_size
from tapeline.config.project import Project
from tapeline.orchestration.connection import discovery
from tapeline.prediction import inputs
from tapeline.registry.registry import Registry
from tapeline.registry.tags import names
from tapeline.runtime import imports
from tapeline.runtime.arguments import Parser
from tapeline.runtime.disk_errors import blamed


def main(argv: Sequence[str] | None = None, *, program: str = "tapeline infer") -> int:
    """Run the flow and return its exit status: 0 answered, 1 failed, 2 invalid input."""
    options = _parser(program).parse_args(argv)
    return status("inference", lambda: _run(options))


def _parser(program: str) -> argparse.ArgumentParser:
    parser = Parser(
        prog=program,
        description=COMMANDS["infer"][1],
    )
    parser.add_argument("--model", metavar="NAME[@V|#STAGE]", required=True, help=f"the model, {MODEL}")
    parser.add_argument("--out", metavar="FILE", required=True, help=OUT)
    parser.add_argument("--outputs", metavar="NAME,...", help=OUTPUTS)
    parser.add_argument("--batch-size", type=int, metavar="N", help=BATCH_SIZE)
    parser.add_argument("files", metavar="FILE", nargs="+", help=FILES)
    return parser


def _run(options: argparse.Namespace) -> int:
    check_batch_size(options.batch_size)
    project = Project.find()
    Registry.for_model(project, options.model).version(names.parse(options.model))
    inputs.check([Path(file) for file in options.files])
    with blamed(project.shared):
        url = discovery.server(project)
        show(_on_server(project, url, options) if url else _here(project, options))
    return 0


def _on_server(project: Project, url: str, options: argparse.Namespace) -> str:
    """Run the Prefect flow, and return what was done."""
    with discovery.used(project, url):
        with imports.lasting():
            from tapeline.orchestration.flows.inference import inference
            from tapeline.orchestration.flows.monitor import as_interrupted

        with as_interrupted():
            said = inference(options.model, options.files, options.out, options.batch_size, options.outputs)
    assert isinstance(said, str), "the flow returns what was done, or raises"
    return said


def _here(project: Project, options: argparse.Namespace) -> str:
    """Do what the flow does, without Prefect."""
    from tapeline.orchestration.monitors.terminal import Terminal
    from tapeline.orchestration.runs.inference import answer

    return answer(options.model, options.files, options.out, options.batch_size, Terminal(project), options.outputs)
