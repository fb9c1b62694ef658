"""`tapeline list`, `metrics`, `lock`, `verify`, `repair`, `upgrade`, `prune`: commands for a whole project."""

import argparse
import itertools
import signal
import time

from tapeline.cli.standard_streams import tell
from tapeline.config import engine_lock
from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.runtime.errors import InputError, Interrupted, plain
from tapeline.runtime.text_table import aligned


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands."""
    what = "list the pipelines: their data, whether they need a network, whether they are up to date, what they teach"
    listing = commands.add_parser("list", help=what, description=what)
    listing.add_argument("--offline", action="store_true", help="list only those that need no network")
    listing.add_argument("--targets", action="store_true", help="print the targets for `dvc repro`, one per line")
    listing.set_defaults(command=_list)
    what = "show the metrics of each pipeline: a line for each metric, a column for each split"
    measuring = commands.add_parser("metrics", help=what, description=what)
    measuring.add_argument("names", metavar="NAME", nargs="*", help="a pipeline (default: all)")
    measuring.set_defaults(command=_metrics)
    what = "rebuild HEAD in a temporary clone and compare every output with dvc.lock; status 1 if any differs"
    verifying = commands.add_parser("verify", help=what, description=what)
    verifying.add_argument("names", metavar="NAME", nargs="*", help="a pipeline (default: all that need no network)")
    verifying.set_defaults(command=_verify)
    what = "repair a truncated dvc.lock or .dvc/tmp/rwlock, clear locks of killed processes, merge where Git could not"
    repairing = commands.add_parser("repair", help=what, description=what)
    repairing.set_defaults(command=_repair)
    what = (
        "record each stage's code hash and the library versions in engine.lock, write the .tfds files, "
        "and list the stages that this makes stale"
    )
    locking = commands.add_parser("lock", help=what, description=what)
    locking.add_argument("--check", action="store_true", help="write nothing; status 1 if a file is not current")
    locking.set_defaults(command=_lock)
    what = (
        "migrate a project from an older version: rebuild each stage elsewhere, and keep the results that are identical"
    )
    upgrading = commands.add_parser("upgrade", help=what, description=f"{what}; status 1 if a result differs")
    upgrading.add_argument(
        "names", metavar="PIPELINE", nargs="*", help="rebuild only these (default: all that have results)"
    )
    upgrading.add_argument("--dry-run", action="store_true", help="rebuild and compare, but write nothing")
    upgrading.add_argument(
        "--accept",
        metavar="PIPELINE",
        action="append",
        default=[],
        help="accept the new results of this pipeline where they differ",
    )
    upgrading.set_defaults(command=_upgrade)
    what = (
        "show the disk space of old runs and what still needs it: branches runs/*, worktrees, checkpoints, DVC's cache"
    )
    pruning = commands.add_parser("prune", help=what, description=f"{what}; --apply removes what nothing needs")
    pruning.add_argument(
        "--runs", type=int, default=20, metavar="N", help="keep the newest N branches (default: %(default)d)"
    )
    pruning.add_argument(
        "--days",
        type=float,
        default=30.0,
        metavar="N",
        help="keep everything younger than N days (default: %(default)g)",
    )
    pruning.add_argument("--apply", action="store_true", help="remove what nothing needs; remotes are not touched")
    pruning.set_defaults(command=_prune)


def _list(options: argparse.Namespace) -> int:
    from tapeline.repository.listing import entries

    project = Project.find()
    params, mistakes = Params.sound(project.folder)
    chosen = [entry for entry in entries(project, params) if not (options.offline and entry.network)]
    if options.targets:
        lines = [f"export@{entry.name}" for entry in chosen]
    else:
        rows = [("pipeline", "data", "network", "state", "teaches")]
        rows += [(e.name, e.dataset, "needed" if e.network else "no", e.state, plain(e.idea)) for e in chosen]
        lines = aligned(rows)
    for line in lines:
        print(line)
    for mistake in dict.fromkeys(mistakes.values()):
        tell(f"tapeline: left out: {mistake}")
    return InputError.status if mistakes else 0


def _lock(options: argparse.Namespace) -> int:
    from tapeline.repository import catalogue

    folder = Project.find().folder
    if options.check:
        found = engine_lock.differences(folder)
        if found:
            tell(f"{engine_lock.LOCK} is not current: {', '.join(found)}: run `tapeline lock`")
        other = catalogue.changed(folder, Params.sound(folder)[0])
        for path in other:
            tell(f"{path.relative_to(folder)} does not match params.yaml: run `tapeline lock`")
        return int(bool(found or other))
    try:
        engine_lock.recorded(folder)
    except InputError:  # such as one with a conflict of Git's
        engine_lock.write(folder)
        print(f"{engine_lock.LOCK} could not be read and was rewritten: `tapeline list` shows what is stale")
    else:
        stages = engine_lock.write(folder)
        print(f"stale now: {', '.join(stages)}" if stages else f"{engine_lock.LOCK} is current")
    for path in catalogue.write(folder, Params.sound(folder)[0]):
        print(f"written: {path.relative_to(folder)}")
    return 0


def _metrics(options: argparse.Namespace) -> int:
    from tapeline.repository.measured import measured, table

    project = Project.find()
    params = Params.load(project.folder)
    for name in options.names:
        params.pipeline(name)
    for number, name in enumerate(options.names or params.pipelines):
        metrics = measured(project, name)
        shown = table(metrics) if metrics else "no metrics: it is not built, or its files are not here"
        print(*([""] if number else []), name, shown, sep="\n")
    return 0


def _verify(options: argparse.Namespace) -> int:
    from tapeline.config.ingest import TfdsSource
    from tapeline.repository.verify import verify

    project = Project.find()
    params = Params.load(project.folder)
    offline = [n for n, p in params.pipelines.items() if not isinstance(params.datasets[p.dataset], TfdsSource)]
    for name in options.names:
        params.pipeline(name)
    targets = [f"export@{name}" for name in options.names or offline]
    return 0 if verify(project, targets, say=lambda line: print(line, flush=True)) else 1


def _repair(options: argparse.Namespace) -> int:
    from tapeline.repository.repair import merge, repair

    project = Project.find()
    for line in itertools.chain(merge(project), repair(project)):
        print(line)
    return 0


def _upgrade(options: argparse.Namespace) -> int:
    from tapeline.upgrade.run import upgrade

    def say(line: str) -> None:
        print(line, flush=True)

    try:
        done = upgrade(Project.find(), options.names, accept=options.accept, dry_run=options.dry_run, say=say)
    except KeyboardInterrupt:
        raise Interrupted("stopped; run `tapeline upgrade` again", signum=signal.SIGINT) from None
    return 0 if done else 1


def _prune(options: argparse.Namespace) -> int:
    from tapeline.repository.retention.item import Limits
    from tapeline.repository.retention.prune import prune

    if options.runs < 0 or not options.days >= 0:
        raise InputError(f"--runs {options.runs} --days {options.days:g}: both must be at least 0")
    project = Project.find()
    pipelines = Params.load(project.folder).pipelines
    limits = Limits(runs=options.runs, days=options.days)
    for line in prune(project, pipelines=pipelines, limits=limits, apply=options.apply, now=time.time(), waiting=tell):
        print(line, flush=True)
    return 0
