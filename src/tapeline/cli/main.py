"""The command line, called by the stages in `dvc.yaml` and by people.

Nothing here imports TensorFlow, so that `--help` and errors in `params.yaml` appear at once.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from tapeline.cli import flows
from tapeline.cli.standard_streams import EscapedTerminal, open_missing, print_any_name
from tapeline.runtime import caps, checkout_code, exit_status, forks, streams, user
from tapeline.runtime.arguments import Parser
from tapeline.runtime.errors import InputError
from tapeline.runtime.interpreter import fix_interpreter
from tapeline.runtime.interruption import interrupt

COMPUTING = ("ingest", "train", "validate", "export", "lr-find", "tune", "metric-names")
"""The commands that run a recipe's or a source's code in this process."""
STARTING = ("run", "sweep", "serve", "predict")
"""The commands that start what computes, with this environment."""


def run() -> NoReturn:
    """Run one command, and end this process with its exit status."""
    fix_interpreter(computing=_command(sys.argv[1:]) in COMPUTING)
    forks.finish(lambda: sys.exit(main()))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    open_missing()
    user.known()
    ignored = caps.apply()
    if _command(sys.argv[1:] if argv is None else argv) in (*COMPUTING, *STARTING):
        caps.note(ignored, why="NumPy, OpenBLAS and Arrow compute the same on every CPU")
    return exit_status.of("tapeline", lambda: _call(argv))


def _call(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = _command(arguments)
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise InputError("the working directory no longer exists: `cd` into one that does") from None
    if argv is None:
        if command not in COMPUTING:  # TensorFlow may keep Python's handlers waiting; a stage has its own
            signal.signal(signal.SIGTERM, interrupt)
        print_any_name()
        EscapedTerminal.where_there_is_one()
        checkout_code.use(here, having="upgrade" if command == "upgrade" else "")
    if command in flows.COMMANDS:
        return flows.call(command, arguments[1:])
    options = _parser().parse_args(arguments)
    try:
        status: int = options.command(options)
        sys.stdout.flush()  # here, where a full disk can still be reported
    except BrokenPipeError:
        streams.drop(sys.stdout)
        return 1
    return status


def _command(arguments: Sequence[str]) -> str:
    """Return the command that arguments begin with; empty if there are none."""
    return next(iter(arguments), "")


def import_for(stage: str) -> None:
    """Import what a stage's command will import in any case."""
    _parser()
    import_module(f"tapeline.{stage}.stage")


def _parser() -> argparse.ArgumentParser:
    # Imported here: the flow commands, which have parsers of their own, start without NumPy and the registry.
    from importlib import metadata

    from tapeline.cli import prediction, registry, scaffold, stages, tuning, upkeep

    parser = Parser(
        prog="tapeline",
        description="Custom TensorFlow training loops: fast, exactly resumable, repeatable, promotable.",
        epilog='Exit status: 0 success, 1 failure or the verdict "no", 2 invalid input, 128 + n ended by signal n.',
    )
    parser.add_argument("--version", action="version", version=f"tapeline {metadata.version('tapeline')}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for topic in (scaffold, upkeep, stages, tuning, registry, prediction):
        topic.add(commands)
    for name, (_, what) in flows.COMMANDS.items():
        commands.add_parser(name, help=what)
    return parser
