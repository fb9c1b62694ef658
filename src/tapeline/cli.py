"""The command line: what the stages in `dvc.yaml` and people call.

Nothing here imports TensorFlow, so that `--help` and a mistake in `params.yaml` answer at once.
"""

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tapeline import files, prediction_command, processes, registry_command
from tapeline.disk_errors import disk_error
from tapeline.environment import check_versions, library_versions, machine
from tapeline.errors import InputError, Interrupted, TapelineError
from tapeline.initial_weights import initial_weights
from tapeline.interpreter import use_tree_code
from tapeline.interruption import SIGNALS, interrupt, interruptible
from tapeline.params import Params, Pipeline, check_recipe
from tapeline.project import Project
from tapeline.report import Progress, Report, write_outcome


@dataclass(frozen=True)
class Call:
    """One stage called on one name."""

    project: Project
    params: Params
    name: str
    options: argparse.Namespace


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = _parser().parse_args(argv)
    if argv is None:
        use_tree_code(Path.cwd())
    try:
        status: int = options.command(options)
        sys.stdout.flush()  # here, where a full disk can still be said
    except (TapelineError, Interrupted) as error:
        return _say(error)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            _drop_output()
            return 1
        failure = disk_error(error)
        _drop_output()
        return _say(failure)
    return status


def _drop_output() -> None:
    """Let the interpreter's last flush succeed: what could not be written has been dealt with."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tapeline",
        description="Custom TensorFlow training loops: fast, exactly resumable, repeatable, promotable.",
    )
    parser.add_argument("--version", action="version", version=f"tapeline {metadata.version('tapeline')}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    what = "show each pipeline: its data, whether it needs a network, whether it is up to date, what it teaches"
    listing = commands.add_parser("list", help=what, description=what)
    listing.add_argument("--offline", action="store_true", help="only those that need no network")
    listing.add_argument("--targets", action="store_true", help="print what `dvc repro` takes, one a line")
    listing.set_defaults(command=_list)
    what = "rebuild HEAD in a temporary clone and compare every out with dvc.lock; status 1 on a difference"
    verifying = commands.add_parser("verify", help=what, description=what)
    verifying.add_argument("names", metavar="NAME", nargs="*", help="a pipeline (all that need no network)")
    verifying.set_defaults(command=_verify)
    what = "mend a cut dvc.lock or .dvc/tmp/rwlock and clear locks of processes that were killed"
    repairing = commands.add_parser("repair", help=what, description=what)
    repairing.set_defaults(command=_repair)
    what = "show what old runs hold and what keeps it: branches runs/*, worktrees, checkpoints, DVC's cache"
    pruning = commands.add_parser("prune", help=what, description=f"{what}; --apply removes what nothing keeps")
    pruning.add_argument("--runs", type=int, default=20, metavar="N", help="keep the newest N branches (%(default)d)")
    pruning.add_argument("--days", type=float, default=30.0, metavar="N", help="keep what is younger (%(default)g)")
    pruning.add_argument("--apply", action="store_true", help="remove it; remotes are not touched")
    pruning.set_defaults(command=_prune)
    for stage, what in (
        ("ingest", "write a dataset's columns to data/NAME/"),
        ("train", "train a pipeline; goes on from its checkpoint"),
        ("validate", "measure the test split and give a verdict"),
        ("export", "write a checked SavedModel to models/NAME/"),
    ):
        command = commands.add_parser(stage, help=what, description=what)
        command.add_argument(
            "name", metavar="NAME", help=f"a {'dataset' if stage == 'ingest' else 'pipeline'} of params.yaml"
        )
        command.set_defaults(command=_stage, stage=stage)
        if stage == "train":
            where = command.add_mutually_exclusive_group()
            where.add_argument("--fresh", action="store_true", help="drop the checkpoints and start at step 0")
            where.add_argument("--extend", action="store_true", help="go on from a run that had fewer epochs")
            command.add_argument("--profile", metavar="FIRST:LAST", help="trace these steps for TensorBoard's profiler")
    _add_tuning(commands)
    registry_command.add(commands)
    prediction_command.add(commands)
    return parser


def _add_tuning(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    for tool, what in (
        ("lr-find", "find a learning rate by a range test, with a picture"),
        ("tune", "measure the compile modes and precisions of a pipeline on this machine"),
    ):
        command = commands.add_parser(tool, help=what, description=f"{what}; changes nothing of the project")
        command.add_argument("name", metavar="NAME", help="a pipeline of params.yaml")
        command.set_defaults(command=_tuning, tool=tool)
        if tool == "lr-find":
            command.add_argument("--low", type=float, default=1e-6, help="the first rate (%(default)g)")
            command.add_argument("--high", type=float, default=10.0, help="the last rate (%(default)g)")
            command.add_argument("--steps", type=int, default=200, help="how many steps (%(default)d)")
            command.add_argument("--metric", help="the step's metric to look at (loss, else the first)")
            command.add_argument("--picture", type=Path, help="the PNG (.tapeline/lr-find/NAME.png)")
        else:
            command.add_argument(
                "--steps", type=int, default=50, help="steps to the loss that is compared (%(default)d)"
            )
            command.add_argument("--seconds", type=float, default=3.0, help="how long to measure a mode (%(default)g)")


def _list(options: argparse.Namespace) -> int:
    from tapeline.listing import entries

    project = Project.find()
    params = Params.load(project.folder)
    chosen = [entry for entry in entries(project, params) if not (options.offline and entry.network)]
    if options.targets:
        print(*(f"export@{entry.name}" for entry in chosen), sep="\n")
        return 0
    rows = [("pipeline", "data", "network", "state", "teaches")]
    rows += [(e.name, e.dataset, "needed" if e.network else "no", e.state, e.idea) for e in chosen]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _verify(options: argparse.Namespace) -> int:
    from tapeline.ingest.settings import TfdsSource
    from tapeline.verify import verify

    project = Project.find()
    params = Params.load(project.folder)
    offline = [n for n, p in params.pipelines.items() if not isinstance(params.datasets[p.dataset], TfdsSource)]
    for name in options.names:
        params.pipeline(name)
    targets = [f"export@{name}" for name in options.names or offline]
    return 0 if verify(project, targets, say=lambda line: print(line, flush=True)) else 1


def _repair(options: argparse.Namespace) -> int:
    from tapeline.repair import repair

    for line in repair(Project.find()):
        print(line)
    return 0


def _prune(options: argparse.Namespace) -> int:
    from tapeline.retention.item import Limits
    from tapeline.retention.prune import prune

    if options.runs < 0 or not options.days >= 0:
        raise InputError(f"--runs {options.runs} --days {options.days:g}: a limit is 0 or more")
    project = Project.find()
    pipelines = Params.load(project.folder).pipelines
    limits = Limits(runs=options.runs, days=options.days)
    for line in prune(project, pipelines=pipelines, limits=limits, apply=options.apply, now=time.time(), waiting=_wait):
        print(line, flush=True)
    return 0


def _stage(options: argparse.Namespace) -> int:
    """Run a stage as a process of its own: dies with DVC, tells its progress, leaves its outcome."""
    if "DVC_STAGE" in os.environ:
        processes.die_with_parent()
    project = Project.find()
    outcome = project.outcome(options.stage, options.name)
    try:
        outcome.unlink(missing_ok=True)
        with (
            interruptible(lambda interrupted: _leave(outcome, interrupted)),
            Progress(project.progress(options.stage, options.name)) as report,
        ):
            params = Params.load(project.folder)
            STAGES[options.stage](Call(project, params, options.name, options), report)
    except OSError as error:
        failure: TapelineError | Interrupted = disk_error(error)
    except (TapelineError, Interrupted) as error:
        failure = error
    else:
        write_outcome(outcome, outcome="ok", status=0, message="")
        return 0
    return _failed(outcome, failure)


def _failed(outcome: Path, failure: TapelineError | Interrupted) -> int:
    try:
        write_outcome(outcome, outcome=failure.outcome, status=failure.status, message=str(failure))
    except OSError as error:
        print(f"tapeline: the outcome could not be left for the flow: {error}", file=sys.stderr)
    return _say(failure)


def _leave(outcome: Path, interrupted: Interrupted) -> None:
    """End this process and what it has started, from any thread."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        child.kill()
    status = _failed(outcome, interrupted)
    sys.stderr.flush()
    os._exit(status)


def _tuning(options: argparse.Namespace) -> int:
    """Measure something of a pipeline, and print lines as they come."""
    for number in SIGNALS:
        signal.signal(number, interrupt)
    project = Project.find()
    call = Call(project, Params.load(project.folder), options.name, options)
    try:
        for line in TOOLS[options.tool](call):
            print(line, flush=True)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise disk_error(error) from None
    return 0


def _say(error: TapelineError | Interrupted) -> int:
    print(f"tapeline: {error}", file=sys.stderr)
    return error.status


def _known_pipeline(call: Call) -> Pipeline:
    pipeline = call.params.pipeline(call.name)
    check_versions(call.params.environment.model_dump())
    check_recipe(call.project.folder, call.name, pipeline)
    return pipeline


def _ingest(call: Call, report: Report) -> None:
    settings = call.params.dataset(call.name)
    check_versions(call.params.environment.model_dump())
    from tapeline.ingest.stage import ingest

    work = call.project.local / "ingest" / call.name
    with processes.exclusive(work / "lock", waiting=_wait):
        ingest(
            call.name,
            settings,
            project=call.project.folder,
            out=call.project.data(call.name),
            work=work,
            report=report,
        )


def _wait(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _train(call: Call, report: Report) -> None:
    pipeline = _known_pipeline(call)
    from tapeline.train.options import Options, steps
    from tapeline.train.stage import train

    profile = steps(call.options.profile) if call.options.profile else None
    options = Options(fresh=call.options.fresh, extend=call.options.extend, profile=profile)
    source = pipeline.train.init_from
    needs, data = call.project.folder / pipeline.needs, call.project.data(pipeline.dataset)
    train(
        recipe=call.project.folder / pipeline.recipe,
        params=pipeline.params,
        settings=pipeline.train,
        data=data,
        out=call.project.run(call.name, "train"),
        checkpoints=call.project.checkpoints(call.name),
        traces=call.project.local / "train" / call.name,
        options=options,
        weights=initial_weights(call.project, source) if source else None,
        needs=None if needs.resolve() == data.resolve() else needs,
        report=report,
        leave=lambda interrupted: _leave(call.project.outcome("train", call.name), interrupted),
    )
    described = {"machine": machine(), "libraries": library_versions()}
    files.write_json(call.project.folder / "runs" / call.name / "environment.json", described)


def _validate(call: Call, report: Report) -> None:
    pipeline = _known_pipeline(call)
    from tapeline.validate.stage import validate

    validate(
        recipe=call.project.folder / pipeline.recipe,
        params=pipeline.params,
        settings=pipeline.validate_,
        data=call.project.data(pipeline.dataset),
        trained=call.project.run(call.name, "train"),
        out=call.project.run(call.name, "validate"),
        report=report,
    )


def _export(call: Call, report: Report) -> None:
    pipeline = _known_pipeline(call)
    from tapeline.export.stage import export

    export(
        name=call.name,
        recipe=call.project.folder / pipeline.recipe,
        params=pipeline.params,
        settings=pipeline.export,
        data=call.project.data(pipeline.dataset),
        trained=call.project.run(call.name, "train"),
        validated=call.project.run(call.name, "validate"),
        out=call.project.model(call.name),
        report=report,
    )


STAGES: dict[str, Callable[[Call, Report], None]] = {
    "ingest": _ingest,
    "train": _train,
    "validate": _validate,
    "export": _export,
}


def _lr_find(call: Call) -> Iterator[str]:
    from tapeline.tuning.learning_rate import Range, find

    asked = call.options
    tried = Range(low=asked.low, high=asked.high, steps=asked.steps, metric=asked.metric)
    picture = asked.picture or call.project.local / "lr-find" / f"{call.name}.png"
    return find(call.name, **_trained(call), tried=tried, picture=picture)


def _tune(call: Call) -> Iterator[str]:
    from tapeline.tuning.modes import Effort, tune

    effort = Effort(steps=call.options.steps, seconds=call.options.seconds)
    return tune(call.name, **_trained(call), effort=effort)


def _trained(call: Call) -> dict[str, Any]:
    """Return what training and tuning have in common."""
    pipeline = _known_pipeline(call)
    return {
        "recipe": call.project.folder / pipeline.recipe,
        "params": pipeline.params,
        "settings": pipeline.train,
        "data": call.project.data(pipeline.dataset),
    }


TOOLS: dict[str, Callable[[Call], Iterator[str]]] = {"lr-find": _lr_find, "tune": _tune}
