"""The `tapeline registry …` commands. What a command calls is imported when it runs."""

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tapeline.cli.standard_streams import tell
from tapeline.runtime.errors import plain

if TYPE_CHECKING:
    from tapeline.registry.registry import Registry
    from tapeline.registry.tags.state import Version

Command = Callable[["Registry", argparse.Namespace], int]


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `registry` and its subcommands."""
    what = "manage model versions: what is live, where, and how it got there"
    parser = commands.add_parser("registry", help=what, description=what)
    inner = parser.add_subparsers(metavar="COMMAND", required=True)

    register = _command(inner, "register", _register, "tag a commit as the next version of a model")
    register.add_argument("name", metavar="NAME", help="a pipeline of params.yaml")
    number = register.add_mutually_exclusive_group()
    number.add_argument(
        "--bump",
        default="patch",
        choices=("patch", "minor", "major"),
        help="which part of the version to raise (default: %(default)s)",
    )
    number.add_argument("--version", metavar="X.Y.Z", help="use this version number instead")
    register.add_argument(
        "--rev", metavar="REV", help="a commit, such as runs/NAME; it need not be checked out (default: HEAD)"
    )

    gate = _command(
        inner, "gate", _gate, "check whether a version may go into a stage, without changing anything; status 1 if not"
    )
    promote = _command(
        inner, "promote", _promote, "make a version live in a stage, if the gate allows it; status 1 if not"
    )
    for command in (gate, promote):
        command.add_argument("model", metavar="NAME[@V|#STAGE]", help="the version (default: the highest)")
        command.add_argument("stage", metavar="STAGE", help="a stage of params.yaml")
    promote.add_argument(
        "--approved-by", metavar="PERSON", help="who approved it, if the stage requires a person's approval"
    )

    rollback = _command(inner, "rollback", _rollback, "make the previously live version live again")
    rollback.add_argument("name", metavar="NAME", help="the model")
    rollback.add_argument("stage", metavar="STAGE", help="a stage of params.yaml")
    rollback.add_argument("--to", metavar="V", help="roll back to this version instead")

    _add_trust(inner)
    show = _command(inner, "show", _show, "list the versions, and the stages in which they are live")
    show.add_argument("name", metavar="NAME", nargs="?", help="one model (default: all)")
    history = _command(
        inner, "history", _history, "list every registration, promotion, rollback and revocation of a model"
    )
    history.add_argument("name", metavar="NAME", help="the model")
    lineage = _command(
        inner, "lineage", _lineage, "show where a version comes from: run, parameters, data, code, gates"
    )
    lineage.add_argument("model", metavar="NAME[@V|#STAGE]", help="the version (default: the highest)")
    for command in (show, history, lineage):
        command.add_argument("--json", action="store_true", help="print JSON")


def _add_trust(inner: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands about trust."""
    sync = _command(
        inner, "sync", _sync, "verify the tags, then update serving/ to match them, such as after a `git fetch`"
    )
    sync.add_argument("name", metavar="NAME", nargs="?", help="one model (default: all)")
    revoke = _command(inner, "revoke", _revoke, "withdraw a version for good; this cannot be undone")
    revoke.add_argument("model", metavar="NAME@V", help="the version")
    revoke.add_argument("--because", metavar="WHY", required=True, help="the reason, which the tag records")

    approve = _command(inner, "approve", _approve, "sign, as a second person, that a version may go into a stage")
    approve.add_argument("model", metavar="NAME@V", help="the version")
    approve.add_argument("--stage", metavar="STAGE", required=True, help="a stage of params.yaml")
    vouch = _command(
        inner,
        "vouch",
        _vouch,
        "sign for a version registered before the trust policy, or with a key that no longer counts",
    )
    vouch.add_argument("model", metavar="NAME@V", help="the version")

    audit = _command(
        inner,
        "audit",
        _audit,
        "check the whole history: signatures, verdicts, bytes, branches, serving/; status 1 if anything is wrong",
    )
    audit.add_argument("--fetch", action="store_true", help="also fetch and check what is only in DVC's remote")


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, run: Command, what: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=what, description=what)

    def call(options: argparse.Namespace) -> int:
        from tapeline.config.params import Params
        from tapeline.config.project import Project
        from tapeline.registry.registry import Registry

        project = Project.find()
        model = getattr(options, "name", None) or getattr(options, "model", None)
        opened = Registry.for_model(project, model) if model else Registry.open(project, Params.load(project.folder))
        return run(opened, options)

    parser.set_defaults(command=call)
    return parser


def _register(registry: "Registry", options: argparse.Namespace) -> int:
    from tapeline.registry.register import register

    asked = {"bump": options.bump, "version": options.version, "revision": options.rev}
    made = register(registry, options.name, **asked, flow_run=_flow_run())
    print(f"registered {made.tag.name} on {made.commit[:10]}{_sharing(registry, made.tag.name)}")
    return 0


def _gate(registry: "Registry", options: argparse.Namespace) -> int:
    from tapeline.registry import fetched
    from tapeline.registry.assess import assess
    from tapeline.registry.tags import names

    registry.stage(options.stage)
    version = registry.version(names.parse(options.model))
    fetched.check(registry.repository, version.name)
    verdict = assess(registry, version, options.stage)
    print(verdict.table())
    return 0 if verdict.holds else 1


def _promote(registry: "Registry", options: argparse.Namespace) -> int:
    from tapeline.registry.assess import assess
    from tapeline.registry.promote import check, promote, settle
    from tapeline.registry.tags import names

    version = registry.version(names.parse(options.model))
    if live := check(registry, version, options.stage, approved_by=options.approved_by):
        with registry.alone():
            settle(registry, version, options.stage)
        print(f"{version.tag.name} is already live in {options.stage} ({live.tag.name})")
        return 0
    verdict = assess(registry, version, options.stage)
    print(verdict.table(), flush=True)
    made = promote(registry, version, options.stage, verdict, approved_by=options.approved_by, flow_run=_flow_run())
    print(f"{version.tag.name} is live in {options.stage} ({made.tag.name}){_sharing(registry, made.tag.name)}")
    return 0


def _rollback(registry: "Registry", options: argparse.Namespace) -> int:
    from tapeline.registry.rollback import rollback
    from tapeline.registry.tags import names

    to = names.check_version(options.to) if options.to else None
    before, made = rollback(registry, names.check_name(options.name), options.stage, to=to)
    shared = _sharing(registry, made.tag.name)
    print(f"{options.name} in {options.stage}: {before} → {made.version} ({made.tag.name}){shared}")
    return 0


def _sync(registry: "Registry", options: argparse.Namespace) -> int:
    from tapeline.registry import fetched
    from tapeline.registry.sync import sync
    from tapeline.registry.tags import names
    from tapeline.runtime.errors import InputError, TapelineError

    registry = replace(registry, quiet=True)  # an error names what does not count
    wanted = [names.check_name(options.name)] if options.name else sorted(registry.states())
    if options.name:
        registry.check_registered(options.name)
    fetched.tell(registry.repository, options.name or "")
    refused: list[str] = []
    for name in wanted:
        try:
            print(plain(sync(registry, name)), flush=True)
        except TapelineError as error:
            if len(wanted) == 1:
                raise
            refused.append(f"{name}: {error}")
    if refused:
        raise InputError("; ".join(refused))
    return 0


def _revoke(registry: "Registry", options: argparse.Namespace) -> int:
    from tapeline.registry.revoke import revoke

    version = _numbered(registry, options.model, "a revocation is permanent")
    revoked, was = revoke(registry, version, options.because)
    print(plain(f"{version.tag.name} is {revoked}{_sharing(registry, revoked.tag.name)}"))
    for stage in was:
        print(
            f"nothing is live in {stage} now: `tapeline registry rollback {version.name} {stage}`, or promote another; "
            "until then GTO and DVC, which do not know revocations, still find it there"
        )
    return 0


def _audit(registry: "Registry", options: argparse.Namespace) -> int:
    from tapeline.registry.audit import audit

    report = audit(replace(registry, quiet=True), fetch=options.fetch)
    for line in report.lines():
        print(plain(line))
    return 1 if report.wrong else 0


def _approve(registry: "Registry", options: argparse.Namespace) -> int:
    from tapeline.registry.attest import approve

    version = _numbered(registry, options.model, "an approval is for one version")
    tag = approve(registry, version, options.stage)
    print(f"{version.tag.name} is approved for {options.stage} ({tag}){_sharing(registry, tag)}")
    return 0


def _vouch(registry: "Registry", options: argparse.Namespace) -> int:
    from tapeline.registry.attest import vouch

    version = _numbered(registry, options.model, "you vouch for one version")
    tag = vouch(registry, version)
    print(f"{version.tag.name} is vouched for ({tag}){_sharing(registry, tag)}")
    return 0


def _numbered(registry: "Registry", model: str, why: str) -> "Version":
    """Return the version `NAME@V`. Raises `InputError` for a model without a number."""
    from tapeline.registry.tags import names
    from tapeline.runtime.errors import InputError

    asked = names.parse(model)
    if asked.version is None:
        raise InputError(f"{model!r} does not name a version: give NAME@v1.0.0, since {why}")
    return registry.version(asked)


def _tell_unserved(registry: "Registry", name: str) -> None:
    """Warn on stderr if the serving folder does not match the tags; commands that only show change nothing."""
    from tapeline.registry.alignment import served_otherwise

    if said := served_otherwise(registry, name):
        tell(f"tapeline: {plain(said)}: `tapeline registry sync {name}`")


def _show(registry: "Registry", options: argparse.Namespace) -> int:
    from tapeline.registry import fetched, tables
    from tapeline.registry.tags import names

    states = registry.states()
    if options.name:
        registry.check_registered(names.check_name(options.name))
    fetched.tell(registry.repository, options.name or "")
    chosen = [state for name, state in sorted(states.items()) if options.name in (None, name)]
    for state in chosen:
        _tell_unserved(registry, state.artifact.name)
    rows = tables.versions(chosen, list(registry.settings.stages), registry.why_unusable)
    print(json.dumps(rows, indent=2) if options.json else tables.table(rows) or "no versions yet")
    return 0


def _history(registry: "Registry", options: argparse.Namespace) -> int:
    from tapeline.registry import fetched, tables
    from tapeline.registry.tags import names

    registry.check_registered(names.check_name(options.name))
    fetched.tell(registry.repository, options.name)
    _tell_unserved(registry, options.name)
    rows = tables.history(registry.state(options.name))
    print(json.dumps(rows, indent=2) if options.json else tables.table(rows))
    return 0


def _lineage(registry: "Registry", options: argparse.Namespace) -> int:
    from tapeline.registry.lineage import lineage, tree
    from tapeline.registry.tags import names

    version = registry.version(names.parse(options.model))
    _tell_unserved(registry, version.name)
    found = lineage(registry, version)
    print(json.dumps(found, indent=2, ensure_ascii=False) if options.json else tree(found))
    return 0


def _sharing(registry: "Registry", tag: str) -> str:
    """Return a hint on how to push a tag, or nothing without a remote."""
    remote = registry.repository.git.remote()
    return f"; for others: git push {remote} '{tag}'" if remote else ""


def _flow_run() -> str | None:
    return os.environ.get("PREFECT__FLOW_RUN_ID")
