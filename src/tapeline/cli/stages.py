"""`tapeline ingest`, `train`, `validate`, `export`: called by `dvc.yaml`, each in its own process."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tapeline.cli.call import Call
from tapeline.cli.standard_streams import EscapedLog, fail, tell
from tapeline.config import engine_lock
from tapeline.config.params import Params, Pipeline
from tapeline.config.project import Project
from tapeline.config.validate import ValidateSettings
from tapeline.registry.initial_weights import check_compared, initial_classes, initial_weights, moved_columns
from tapeline.repository import catalogue, described, ignored
from tapeline.repository.machines import compare, recorded_machine
from tapeline.repository.unseen import check_source
from tapeline.runtime import files, interpreter, processes, streams
from tapeline.runtime.disk_errors import disk_error
from tapeline.runtime.environment import library_versions, machine, recordable
from tapeline.runtime.errors import InputError, Interrupted, TapelineError
from tapeline.runtime.interruption import interruptible
from tapeline.runtime.progress import Progress, Report, write_outcome

if TYPE_CHECKING:
    from tapeline.train.checks.rehearsal import Rehearsed


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the four stages."""
    for stage, what in (
        ("ingest", "read a dataset, check it, and write its columns to data/NAME/"),
        ("train", "train a pipeline; resume from its checkpoint, if there is one"),
        (
            "validate",
            "measure a trained pipeline, on the test split unless params.yaml names another, and give a verdict",
        ),
        ("export", "write a SavedModel to models/NAME/, and check it in a fresh process"),
    ):
        command = commands.add_parser(stage, help=what, description=what)
        command.add_argument(
            "name", metavar="NAME", help=f"a {'dataset' if stage == 'ingest' else 'pipeline'} of params.yaml"
        )
        command.set_defaults(command=_stage, stage=stage)
        if stage == "train":
            where = command.add_mutually_exclusive_group()
            where.add_argument("--fresh", action="store_true", help="discard the checkpoints and start at step 0")
            where.add_argument("--extend", action="store_true", help="continue a run that had fewer epochs")
            command.add_argument("--profile", metavar="FIRST:LAST", help="trace these steps for TensorBoard's profiler")


def _stage(options: argparse.Namespace) -> int:
    """Run a stage in this process: it dies with DVC, reports its progress and writes its outcome.

    One call at a time writes the outputs of a name; others wait.
    """
    if "DVC_STAGE" in os.environ:
        processes.die_with_parent()
    project = Project.find()
    outcome = project.outcome(options.stage, options.name)
    try:
        outcome.unlink(missing_ok=True)
        with (
            interruptible(lambda interrupted: _leave(outcome, interrupted)),
            processes.exclusive(project.lock(options.stage, options.name), waiting=tell),
            Progress(project.progress(options.stage, options.name)) as report,
        ):
            if pattern := next((one for one in "[\\" if one in str(project.folder)), ""):
                raise InputError(
                    f"{project.folder} contains a {pattern}, which TensorFlow reads as a file pattern: rename the "
                    "folder"
                )
            engine_lock.check(project.folder, options.stage)
            kind = "dataset" if options.stage == "ingest" else "pipeline"
            params = Params.load_for(project.folder, **{kind: options.name})
            STAGES[options.stage](Call(project, params, options.name, options), report)
    except OSError as error:
        failure: TapelineError | Interrupted = disk_error(error)
    except (TapelineError, Interrupted) as error:
        failure = error
    else:
        _ignore(project, options.stage, options.name)
        write_outcome(outcome, outcome="ok", status=0, message="")
        return 0
    return _failed(outcome, failure)


def _ignore(project: Project, stage: str, name: str) -> None:
    """Keep the stage's outputs out of Git. A failure is reported, but does not fail the stage."""
    try:
        ignored.ignore(project, ignored.outputs(project, stage, name))
    except (TapelineError, OSError) as error:
        tell(f"tapeline: `git add` may pick up the outputs of {stage}: {error}")


def _failed(outcome: Path, failure: TapelineError | Interrupted) -> int:
    try:
        write_outcome(outcome, outcome=failure.outcome, status=failure.status, message=str(failure))
    except (OSError, InputError) as error:
        tell(f"tapeline: the outcome could not be passed to the flow: {error}")
    return fail(failure)


def _leave(outcome: Path, interrupted: Interrupted) -> None:
    from tapeline.cli.leaving import leave

    leave(interrupted, last=lambda: _failed(outcome, interrupted))


def _ingest(call: Call, report: Report) -> None:
    settings = call.params.dataset(call.name)
    catalogue.check(call.project.folder, call.name, settings)
    check_source(call.project.folder / settings.needs)
    from tapeline.ingest.stage import ingest

    with contextlib.redirect_stdout(EscapedLog(sys.stdout)):  # names of classes and columns are anybody's
        ingest(
            call.name,
            settings,
            project=call.project.folder,
            out=call.project.data(call.name),
            work=call.project.local / "ingest" / call.name,
            report=report,
        )


def _train(call: Call, report: Report) -> None:
    pipeline = call.pipeline()
    if pipeline.train.bits == "native" and interpreter.is_fork():
        interpreter.begin_anew()
    from tapeline.dataset.columns import Dataset
    from tapeline.train.job import Job
    from tapeline.train.observers.standard import standard
    from tapeline.train.options import Options, steps
    from tapeline.train.stage import train
    from tapeline.validate.stage import check_split

    recorded = recorded_machine(call.project.folder, call.name)
    if recorded and (other := compare(recorded, machine())).differing:
        differs = f"recorded on another machine type ({other}): the last bits of what follows may differ"
        streams.say(differs, sys.stdout)
    profile = steps(call.options.profile) if call.options.profile else None
    options = Options(fresh=call.options.fresh, extend=call.options.extend, profile=profile)
    source = pipeline.train.init_from
    weights = initial_weights(call.project, source) if source else None
    data = call.project.data(pipeline.dataset)
    if source:
        check_compared(call.project, source, [data, call.project.folder / pipeline.needs])
    check_source(call.project.folder / pipeline.needs)
    dataset = Dataset.open(data)
    check_split(dataset, pipeline.validate_)
    if source and weights:
        for line in moved_columns(call.project, source, weights, dataset.index["source"].get("columns", {})):
            streams.say(line, sys.stdout)
    train(
        Job(
            recipe=call.project.folder / pipeline.recipe,
            params=pipeline.params,
            settings=pipeline.train,
            data=data,
            out=call.project.run(call.name, "train"),
            checkpoints=call.project.checkpoints(call.name),
            traces=call.project.local / "train" / call.name,
            options=options,
            weights=weights,
            weights_classes=initial_classes(call.project, source, weights) if source and weights else None,
            needs=_needs(call, pipeline),
            expect=partial(_expect, pipeline.validate_, dataset.examples(pipeline.validate_.split)),
            predicted=pipeline.validate_.split,
            observers=standard(report),
            leave=lambda interrupted: _leave(call.project.outcome("train", call.name), interrupted),
        )
    )
    made_by = {"machine": recordable(pipeline.train.promised_bits), "libraries": library_versions()}
    files.write_json(call.project.folder / described.path(call.name), made_by)


def _needs(call: Call, pipeline: Pipeline) -> Path | None:
    """Return what a pipeline needs besides its data; None if that is nothing, which is said by naming the data."""
    needs = call.project.folder / pipeline.needs
    return None if needs.resolve() == call.project.data(pipeline.dataset).resolve() else needs


def _expect(settings: ValidateSettings, examples: int, rehearsed: "Rehearsed") -> None:
    """Fail before hours of training, rather than after, if validate would refuse the recipe."""
    from tapeline.validate import expected

    expected.check_answers(rehearsed.target, rehearsed.kind, rehearsed.answers)
    if rehearsed.measured is not None:
        classes = rehearsed.kind.classes if rehearsed.kind else None
        expected.check_thresholds(settings, rehearsed.target, classes, rehearsed.measured, examples)


def _validate(call: Call, report: Report) -> None:
    pipeline = call.pipeline()
    from tapeline.validate.stage import validate

    validate(
        recipe=call.project.folder / pipeline.recipe,
        params=pipeline.params,
        settings=pipeline.validate_,
        data=call.project.data(pipeline.dataset),
        trained=call.project.run(call.name, "train"),
        out=call.project.run(call.name, "validate"),
        needs=_needs(call, pipeline),
        report=report,
    )


def _export(call: Call, report: Report) -> None:
    pipeline = call.pipeline()
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
        batch_size=pipeline.validate_.batch_size,
        report=report,
    )


STAGES: dict[str, Callable[[Call, Report], None]] = {
    "ingest": _ingest,
    "train": _train,
    "validate": _validate,
    "export": _export,
}
