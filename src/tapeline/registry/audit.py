"""Check the whole history of a registry: what is right, what is wrong, and what could not be verified.

report = audit(registry)
report.wrong            # empty if nothing is
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from tapeline.config.params import Params
from tapeline.config.project import PARAMS, RUN_BRANCHES
from tapeline.registry import alignment, contents, fetched, judged, rules
from tapeline.registry.contents import Contents
from tapeline.registry.ours import Ours
from tapeline.registry.registry import Registry
from tapeline.registry.repository import Tag
from tapeline.registry.tags import names, seen, state
from tapeline.registry.tags.record import recorded
from tapeline.registry.tags.state import Assignment, Attestation, State, Version
from tapeline.registry.trust import signed
from tapeline.registry.trust.signed import Untrusted
from tapeline.repository.git import ID
from tapeline.runtime.errors import InputError, RunError, TapelineError


@dataclass
class Report:
    """What an audit found: lines, and counts of what was verified."""

    wrong: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    verified: dict[str, int] = field(default_factory=dict)

    def count(self, what: str, number: int = 1) -> None:
        """Add to what was verified."""
        self.verified[what] = self.verified.get(what, 0) + number

    def lines(self) -> Iterator[str]:
        """Yield the report, a summary last."""
        yield from (f"WRONG      {line}" for line in self.wrong)
        yield from (f"unchecked  {line}" for line in self.unchecked)
        said = ", ".join(f"{number} {what}" for what, number in self.verified.items()) or "nothing"
        yield f"verified: {said}; unchecked: {len(self.unchecked)}; wrong: {len(self.wrong)}"


def audit(registry: Registry, *, fetch: bool = False) -> Report:
    """Check every tag, version, promotion, run's branch and served folder of a project. Changes nothing.

    fetch: bring bytes that are only in DVC's remote, to check them too. Raises `InputError` in a shallow clone,
    where tags are missing, and where DVC cannot be opened.
    """
    if fetched.is_shallow(registry.repository.git):
        raise InputError(
            "this clone is shallow, but an audit needs the whole history: run `git fetch --unshallow --tags`"
        )
    fetched.check(registry.repository)
    report = Report()
    tags = registry.repository.tags()
    models = [one for one in state.read_all(tags).values() if one.artifact.folder == registry.repository.inside]
    if any(one.versions for one in models):
        registry.store.open()
    for found in models:
        _Model(registry, found, tags, report, fetch).check()
    report.unchecked.extend(
        f"{tag.name} names {artifact}, which is not a valid model name: ignored"
        for tag in tags
        if (artifact := names.artifact_of(tag.name))
        and not names.is_model(artifact)
        and artifact.rpartition("=")[0] == registry.repository.inside
    )
    _check_seen(registry, tags, report)
    _check_branches(registry, report)
    if replaced := registry.repository.git.lines("for-each-ref", "--format=%(refname)", "refs/replace"):
        report.unchecked.append(
            f"{len(replaced)} objects are replaced in Git (refs/replace): replacements are not followed here"
        )
    return report


class _Model:
    """One model's tags, all of them: nothing is set aside here."""

    def __init__(self, registry: Registry, found: State, tags: list[Tag], report: Report, fetch: bool) -> None:
        self._registry, self._found, self._report, self._fetch = registry, found, report, fetch
        prefixes = f"{found.artifact.tag}@", f"{found.artifact.tag}#"
        extra = [one.tag for claims in found.claimed.values() for one in claims] + [one.tag for one in found.attested]
        self._tags = sorted([t for t in tags if t.name.startswith(prefixes)] + extra, key=lambda tag: tag.time)
        self._by_object = {tag.object: tag for tag in self._tags}
        self._names = {tag.name for tag in self._tags}
        standing = (found.standing(stage) for stage in registry.settings.stages)
        self._in_force = {event.tag for event in standing if event}
        self._since = _policy_since(registry)

    def check(self) -> None:
        """Check everything of the model."""
        for one in self._found.quarantined:
            self._report.wrong.append(f"{one.tag.name} cannot be read: {one.why}")
        self._check_lightweight()
        for tag in self._tags:
            self._check_object(tag)
            self._check_chain(tag)
        self._check_counters()
        for version in self._found.versions.values():
            self._check_version(version)
        for event in {event.tag: event for event in self._found.assignments}.values():
            self._check_assignment(event)
        for attested in self._found.attested:
            self._check_attestation(attested)
        if authority := self._registry.authority:
            for number, (_, back) in self._found.gone.items():
                self._by_policy(back.tag, partial(authority.taken_back, back.tag), f"takes {number} back")
            for number, claims in self._found.claimed.items():
                for claim in claims:
                    ask = partial(authority.revocation, self._found, number, claim.tag)
                    self._by_policy(claim.tag, ask, f"revokes {number}")
        self._check_serving()

    def _by_policy(self, tag: Tag, ask: Callable[[], object], what: str) -> None:
        """Check by the policy, if there is one, that a tag is by one who may."""
        if self._registry.authority is None:
            return
        try:
            ask()
            self._report.count("signatures")
        except Untrusted as why:
            if tag.time < self._since and tag not in self._in_force:
                self._report.unchecked.append(f"{tag.name} claims to be older than the policy: {why}")
            else:
                self._report.wrong.append(f"{tag.name}, which {what}, does not count: {why}")

    def _check_lightweight(self) -> None:
        annotated = self._names | {one.tag.name for one in self._found.quarantined}
        for name in self._registry.repository.tag_names(*names.patterns(self._found.artifact)):
            if name not in annotated and (names.EVENT.fullmatch(name) or name.startswith("tapeline")):
                self._report.unchecked.append(f"{name} is not an annotated tag on a commit: ignored")

    def _check_object(self, tag: Tag) -> None:
        """Check that an object is what its id says, and that its name is the ref's."""
        try:
            named = signed.name(self._registry.repository.git, tag.object)
        except Untrusted as why:
            self._report.wrong.append(f"{tag.name}: {why}")
            return
        if named != tag.name:
            self._report.wrong.append(f"{tag.name} was created as {named[:80]!r} and then renamed")
        else:
            self._report.count("tag objects")

    def _check_chain(self, tag: Tag) -> None:
        before = recorded(tag).get("before")
        if before is None:
            return
        found = self._by_object.get(before["object"])
        if found is None:
            last, common = before["tag"][:80], self._registry.repository.common
            is_there = before["tag"] in self._names
            why = f"is a different tag now: {seen.way_out(common, tag.name, last)}" if is_there else "is gone"
            self._report.wrong.append(f"{tag.name} was made after {last}, which {why}")
        elif found.time >= tag.time:
            self._report.wrong.append(f"{tag.name} names {found.name} as the tag before it, but claims to be older")
        else:
            self._report.count("links of the chain")

    def _check_counters(self) -> None:
        there = self._registry.repository.tag_names(names.patterns(self._found.artifact)[1])
        matches = [match for name in there if (match := names.EVENT.fullmatch(name)) and match["counter"]]
        numbers = sorted({int(match["counter"]) for match in matches})
        for one, after in zip([0, *numbers], numbers, strict=False):
            if after > one + 1:
                lost = f"#{one + 1}" if after == one + 2 else f"#{one + 1} to #{after - 1}"
                self._report.wrong.append(
                    f"{self._found.artifact.tag} has no tag {lost}, but has #{after}: was it deleted?"
                )

    def _check_version(self, version: Version) -> None:
        name, trusted = version.tag.name, version
        if self._registry.authority:
            authority = self._registry.authority
            self._by_policy(version.tag, lambda: authority.version(self._found, version), "registers a version")
            with suppress(Untrusted):
                trusted = replace(version, record=dict(authority.version(self._found, version)))
        try:
            found = contents.of_model(trusted, self._registry.recorded(version))
            self._report.count("versions as their commits record them")
            self._check_bytes(name, found)
        except TapelineError as error:
            self._report.wrong.append(f"{name}: {error}")

    def _check_bytes(self, name: str, found: Contents) -> None:
        store = self._registry.store
        missing = store.missing(found.md5)
        if missing and not self._fetch:
            where = "not in the cache, but may be on DVC's remote (`--fetch` checks it)"
            self._report.unchecked.append(f"{name}: {missing[0]} is {where}")
        elif found.sums is None:
            for part in store.listing(found.md5).values():
                store.bring(part)
            self._report.unchecked.append(f"{name} has no SHA-256: only the MD5s in dvc.lock say what its bytes are")
        else:
            store.check(found.md5, found.sums)
            self._report.count("files by SHA-256", len(found.sums))

    def _check_assignment(self, event: Assignment) -> None:
        authority = self._registry.authority
        if authority:
            self._by_policy(event.tag, lambda: authority.assignment(self._found, event), f"is about {event.stage}")
            counts = event.tag in self._in_force and not authority.fault_of(self._found, event)
            if counts and (why := authority.late(self._found, event)):
                self._report.wrong.append(f"{event.tag.name} has no effect: {why}")
            if approval := authority.approved_late(self._found, event):
                lines = self._report.unchecked if event.tag.time < self._since else self._report.wrong
                lines.append(
                    f"{event.tag.name} is older than its approval {approval.name}: to whatever does not verify tags it "
                    "was live before two people had agreed"
                )
        elif why := judged.fault(event):
            self._report.wrong.append(f"{event.tag.name}: {why}")
        if not event.record and not event.back:
            self._report.unchecked.append(f"{event.tag.name} has no verdict: plain GTO made it")
        elif event.record.get("action") == "promote" and not judged.fault(event):
            self._report.count("verdicts")
            self._check_rules(event)

    def _check_rules(self, event: Assignment) -> None:
        """Check that a promotion was decided by rules that are in the history of the policy's ref."""
        said, authority = event.record.get("rules") or {}, self._registry.authority
        if authority is None or not said.get("ref"):
            if notes := rules.notes(event.record):
                self._report.unchecked.append(f"{event.tag.name}: {', '.join(notes)}")
            return
        git, commit = self._registry.repository.git, str(said.get("commit"))
        is_id = ID.fullmatch(commit)  # a record may have an option of Git's there
        if not is_id or git.ask("merge-base", "--is-ancestor", commit, authority.policy.commit) is None:
            self._report.wrong.append(
                f"{event.tag.name} was decided by the rules of {commit[:10]}, which is not on {said['ref']}"
            )
            return
        try:
            text = self._registry.repository.read(commit, PARAMS) or ""
            params = Params.load_for(git.folder, pipeline=self._found.artifact.name, text=text)
            same = said.get("sha256") == rules.digest(params, self._found.artifact.name, event.stage)
        except (InputError, RunError, KeyError) as error:
            self._report.unchecked.append(f"{event.tag.name}: its rules can no longer be read: {error}")
            return
        if same:
            self._report.count("rules of promotions")
        else:
            self._report.wrong.append(f"{event.tag.name} was decided by rules that differ from those of {commit[:10]}")

    def _check_attestation(self, one: Attestation) -> None:
        version = self._found.versions.get(one.version)
        if version is None or one.record.get("version_tag") != version.tag.object:
            self._report.wrong.append(f"{one.tag.name} refers to a tag other than the present {one.version}")
        elif self._registry.authority:
            authority = self._registry.authority
            self._by_policy(one.tag, lambda: authority.attested(one), f"is about {one.version}")

    def _check_serving(self) -> None:
        name, registry = self._found.artifact.name, self._registry
        serving = alignment.serving(registry, name)
        if not serving.exists:
            return
        try:
            if otherwise := alignment.served_otherwise(registry, name):
                self._report.wrong.append(otherwise)
                return
            live = registry.state(name).live(registry.settings.served)
            if live is None or not serving.integers():
                return
            found = registry.contents(registry.state(name).versions[live.version])
            if serving.served_as(found.md5, registry.store, sums=found.sums):
                self._report.count("served models")
            else:
                self._report.wrong.append(
                    f"{serving.folder} does not have the bytes of {live.version}: run `tapeline registry sync`"
                )
        except (TapelineError, OSError) as error:
            self._report.wrong.append(f"{serving.folder}: {error}")


def _check_seen(registry: Registry, tags: list[Tag], report: Report) -> None:
    """Check that what counted in this clone once is there: of the latest tags no other says so."""
    inside = registry.repository.inside
    report.wrong.extend(registry.lost_of(tags, lambda artifact: artifact.rpartition("=")[0] == inside).values())


def _check_branches(registry: Registry, report: Report) -> None:
    """Check whose the branches of runs are."""
    ours, since = Ours(registry.project.folder, ""), _policy_since(registry)
    patterns = (f"refs/heads/{RUN_BRANCHES}", f"refs/remotes/*/{RUN_BRANCHES}*")
    form = "--format=%(objectname) %(committerdate:unix) %(refname:short)"
    for line in registry.repository.git.lines("for-each-ref", form, *patterns):
        commit, moment, branch = line.split(" ", 2)
        if not (why := ours.why_not(commit)):
            report.count("branches of runs")
        elif registry.authority and int(moment or 0) >= since:
            report.wrong.append(f"{branch}: {why}")
        else:
            report.unchecked.append(f"{branch}: {why}")


def _policy_since(registry: Registry) -> int:
    """Return when the policy's ref first had a policy, as the commit says; 0 without one."""
    if registry.authority is None:
        return 0
    path = f":(top){registry.repository.inside}/{PARAMS}" if registry.repository.inside else f":(top){PARAMS}"
    form, commit = "--format=%ct", registry.authority.policy.commit
    times = registry.repository.git(
        "log", form, "--extended-regexp", r"-G^\s*[\"']?trust[\"']?\s*:", commit, "--", path
    )
    return int((times.splitlines() or ["0"])[-1])
