"""Which tags count by the trust policy. Each is verified once, and only when something depends on it.

authority = Authority.of(repository, "digits")   # None without a policy
authority.sift(state, ["prod"])          # what is in force is by one who may
authority.version(state, version)        # the record that counts; raises Untrusted
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from tapeline.registry import judged
from tapeline.registry.repository import Repository, Tag
from tapeline.registry.tags import seen
from tapeline.registry.tags.record import recorded
from tapeline.registry.tags.state import Assignment, Attestation, State, Version
from tapeline.registry.trust import signed as objects
from tapeline.registry.trust import signing, verify
from tapeline.registry.trust.policy import Policy, in_force
from tapeline.registry.trust.signed import Untrusted
from tapeline.registry.trust.verify import Signer
from tapeline.runtime.errors import InputError, RunError, plain


class Authority:
    """The policy of a repository, and what was verified by it."""

    def __init__(self, repository: Repository, policy: Policy) -> None:
        self._git, self.policy, self._common = repository.git, policy, repository.common
        self._head = repository.head
        self._known: dict[str, Signer | Untrusted] = {}
        self._own: Signer | None = None

    @classmethod
    def of(cls, repository: Repository, pipeline: str) -> "Authority | None":
        """Return that of the policy in force; None without one. pipeline, and what is raised: as for `in_force`."""
        found = in_force(repository, pipeline)
        return cls(repository, found) if found else None

    def signer(self, tag: Tag) -> Signer:
        """Return who signed a tag. Raises `Untrusted` unless it is a key of the signers, for this name and commit."""
        return self._once(f"{tag.object} {tag.name}", lambda: self._signer(tag))

    def commit_signer(self, commit: str) -> Signer:
        """Return who signed a commit. Raises `Untrusted` unless it is one who may register."""
        who = self._once(commit, lambda: verify.verified(self.policy.signers, objects.commit(self._git, commit)))
        return self._may(who, self.policy.settings.register_, "register versions")

    def _once(self, key: str, ask: Callable[[], Signer]) -> Signer:
        if key not in self._known:
            try:
                self._known[key] = ask()
            except Untrusted as why:
                self._known[key] = why
        found = self._known[key]
        if isinstance(found, Untrusted):
            raise Untrusted(str(found))
        return found

    def _signer(self, tag: Tag) -> Signer:
        signed = objects.tag(self._git, tag.object)
        named = signed.headers["tag"].decode("utf-8", "replace")
        if named != tag.name:
            raise Untrusted(f"it was created as {named[:80]!r} and then renamed")
        if (signed.headers["type"], signed.headers["object"]) != (b"commit", tag.commit.encode()):
            raise Untrusted("it is not on a commit")
        return verify.verified(self.policy.signers, signed)

    def own(self, people: Iterable[str], what: str) -> Signer:
        """Return who this user is by the key that Git signs with.

        Raises `InputError` without a usable key, and if it is not one of `people`, who may do `what`.
        """
        try:
            self._own = self._own or self._asked()
            return self._may(self._own, people, what)
        except Untrusted as why:
            raise InputError(f"by the policy of {self.policy.name}, {why}") from None

    def _asked(self) -> Signer:
        """Have Git sign a commit that is on no branch, and return by which key it did."""
        if not signing.configured(self._git):
            raise InputError(
                f"the policy of {self.policy.name} requires signed tags, but Git has no key here: {signing.HOW}"
            )
        tree = self._git("rev-parse", f"{self._head}^{{tree}}")
        try:
            made = self._git.commit("Whose key is this?", tree=tree, parent=self._head, sign=True)
        except RunError as error:
            raise InputError(f"Git cannot sign with its key: {error}; {signing.HOW} configures another") from None
        try:
            return verify.verified(self.policy.signers, objects.commit(self._git, made))
        except Untrusted as why:
            said = f"your signature would not count: {why}"
            raise Untrusted(f"{said}; `git config user.signingKey` says which key Git signs with") from None

    def _may(self, who: Signer, people: Iterable[str], what: str) -> Signer:
        if not who.people & set(people):
            raise Untrusted(f"{who} may not {what}: {', '.join(people)} may")
        return who

    def promoters(self, stage: str) -> tuple[str, ...]:
        """Return who may put versions into a stage. Raises `Untrusted` if nobody may."""
        people = self.policy.settings.promote.get(stage)
        if people is None:
            raise Untrusted(f"nobody may promote to {stage}: registry.trust.promote does not name it")
        return people

    def version(self, found: State, version: Version) -> Mapping[str, Any]:
        """Return the record of a version that counts: its tag's, or that of one who vouched for it.

        Raises `Untrusted` for a version that nobody signed who may register.
        """
        people, what = self.policy.settings.register_, "register versions"
        try:
            self._may(self.signer(version.tag), people, what)
            return version.record
        except Untrusted as why:
            for one in found.attested:
                is_so = (one.kind, one.version) == ("vouched", version.number) and not _fault_about(one, version)
                if is_so and not self._fault(lambda tag: self._may(self.signer(tag), people, what), one.tag):
                    return {**version.record, **one.record}
            raise Untrusted(str(why)) from None

    def approval(self, found: State, version: Version, stage: str, promoter: Signer) -> Tag | None:
        """Return the first tag by which somebody other than the promoter approved a version; None if none is asked for.

        It may be later than the promotion, which counts from then on. Raises `Untrusted` if there is none.
        """
        people = self.policy.settings.approve.get(stage)
        if people is None:
            return None
        refused = []
        for one in found.attested:
            if (one.kind, one.version, one.stage) != ("approved", version.number, stage):
                continue
            try:
                who = self._may(self.signer(one.tag), people, f"approve for {stage}")
                if why := _fault_about(one, version):
                    raise Untrusted(why)
                if not who.is_other_than(promoter):
                    raise Untrusted(f"{who} is the one who promotes it, and may not approve it too")
            except Untrusted as why:
                refused.append(f"; {one.tag.name} does not count: {why}")
            else:
                return one.tag
        raise Untrusted(
            f"nobody else of {', '.join(people)} has approved {version.tag.name} for {stage}: one of them must run "
            f"`tapeline registry approve {version.tag.name} --stage {stage}`{''.join(refused)}"
        )

    def assignment(self, found: State, event: Assignment) -> Signer:
        """Return who made an assignment. Raises `Untrusted` unless it may be followed."""
        who = self._may(self.signer(event.tag), self.promoters(event.stage), f"promote to {event.stage}")
        if event.back:
            return who
        if not event.record:
            raise Untrusted("it records no verdict: plain GTO made it")
        if why := judged.fault(event):
            raise Untrusted(why)
        version = found.versions.get(event.version)
        if version is None:
            return who  # it was taken back, so this is in force nowhere
        if "version_tag" not in event.record:
            raise Untrusted("its record does not say which tag was promoted: promote it again")
        if event.record["version_tag"] != version.tag.object:
            raise Untrusted(f"{version.tag.name} is no longer the tag that was promoted")
        if event.tag.time < version.tag.time:
            raise Untrusted(f"it claims to be older than {version.tag.name}, to which it refers")
        if event.record.get("action") == "rollback":
            if why := self.promoted(found, version, event.stage):
                raise Untrusted(f"{version.tag.name} was not promoted to {event.stage} by a tag that counts: {why}")
        else:
            self.approval(found, version, event.stage, who)
        return who

    def approved_late(self, found: State, event: Assignment) -> Tag | None:
        """Return the approval of a promotion that counts, and that was made before it; None for any other."""
        version = found.versions.get(event.version)
        if version is None or event.record.get("action") != "promote" or self.fault_of(found, event):
            return None
        approval = self.approval(found, version, event.stage, self.signer(event.tag))
        return approval if approval and approval.time > event.tag.time else None

    def promoted(self, found: State, version: Version, stage: str) -> str:
        """Return why no promotion of a version to a stage counts; empty if one does."""
        events = [one for one in found.put(version.number, stage) if one.record.get("action") == "promote"]
        faults = [self.fault_of(found, one) for one in reversed(events)]
        return "" if "" in faults else (faults or [f"{version.tag.name} was never promoted there"])[0]

    def late(self, found: State, event: Assignment) -> str:
        """Return why an assignment is not followed whose key has expired since; empty if this clone saw it in time.

        Who holds an expired key can still date a tag back. A clone that has noted no tag of the model cannot tell.
        """
        noted = seen.noted(self._common, found.artifact.tag)
        if not noted or (event.tag.name, event.tag.object) in noted:
            return ""
        return self._fault(self._signs_now, event.tag)

    def _signs_now(self, tag: Tag) -> Signer:
        signed = replace(objects.tag(self._git, tag.object), time=int(time.time()))
        try:
            return self._once(f"{tag.object} now", lambda: verify.verified(self.policy.signers, signed))
        except Untrusted as why:
            raise Untrusted(f"{why}; this clone did not see it earlier: promote it again") from None

    def counted(self, object_id: str) -> bool:
        """Return whether somebody of the signers signed a tag that is on no ref any more; true if it cannot be read."""
        if self._git.raw("tag", object_id) is None:
            return True
        try:
            self._once(object_id, lambda: verify.verified(self.policy.signers, objects.tag(self._git, object_id)))
        except Untrusted:
            return False
        return True

    def revocation(self, found: State, number: str, tag: Tag) -> Signer:
        """Return who revoked a version. Raises `Untrusted` for one who may not, and for another commit's version.

        Signers may be those of another repository too, which has a model of this name.
        """
        who = self._may(self.signer(tag), self.policy.settings.revoke, "revoke versions")
        about, version = recorded(tag).get("commit"), found.versions.get(number)
        if about is not None and version is not None and about != version.commit:
            raise Untrusted(f"it is about a commit other than that of {version.tag.name}")
        return who

    def known(self, tag: Tag) -> bool:
        """Return whether somebody of the signers signed a tag, for whatever."""
        return not self.why_unknown(tag)

    def why_unknown(self, tag: Tag) -> str:
        """Return why a tag is by none of the signers; empty if it is by one."""
        return self._fault(self.signer, tag)

    def sift(self, found: State, stages: Iterable[str]) -> None:
        """Move tags that do not count to `found.aside`: of those that decide what is live in `stages`, or revoked."""
        for number, tags in found.said.items():
            if len(tags) > 1:
                self._sift_said(found, number, tags)
        for number, (version, back) in list(found.gone.items()):
            if why := self._fault(self.taken_back, back.tag):
                found.aside[back.tag] = why
                del found.gone[number]
                found.restore(version)
        found.assignments = [one for one in found.assignments if not one.back or found.is_on_its_commit(one)]
        for number, claims in found.claimed.items():
            found.revoked.pop(number, None)
            for one in reversed(claims):
                if why := self._fault(partial(self.revocation, found, number), one.tag):
                    found.aside[one.tag] = why
                else:
                    found.revoked[number] = one
        for stage in stages:
            while bad := {one.tag: why for one in found.deciding(stage) if (why := self.fault(found, one))}:
                found.aside |= bad
                found.disputed.setdefault(stage, []).extend(bad)
                found.assignments = [one for one in found.assignments if one.tag not in bad]

    def _sift_said(self, found: State, number: str, tags: list[tuple[Version, bool]]) -> None:
        """Set aside what does not count of several tags that register a number, or take it back, if any does."""
        faults = [self._fault_said(found, *one) for one in tags]
        good = [one for one, why in zip(tags, faults, strict=True) if not why]
        if any(not back for _, back in good) and len(good) < len(tags):
            found.aside |= {one.tag: why for (one, _), why in zip(tags, faults, strict=True) if why}
            found.resaid(number, good)

    def _fault_said(self, found: State, version: Version, back: bool) -> str:
        return self._fault(self.taken_back if back else lambda _: self.version(found, version), version.tag)

    def attested(self, one: Attestation) -> Signer:
        """Return who approved or vouched. Raises `Untrusted` for one who may not."""
        trust = self.policy.settings
        people = trust.register_ if one.stage is None else trust.approve.get(one.stage, ())
        return self._may(self.signer(one.tag), people, f"approve for {one.stage}" if one.stage else "register versions")

    def taken_back(self, tag: Tag) -> Signer:
        """Return who took a version back, or deregistered it. Raises `Untrusted` for one who may not."""
        people = (*self.policy.settings.register_, *self.policy.settings.revoke)
        return self._may(self.signer(tag), people, "take versions back")

    def fault(self, found: State, event: Assignment) -> str:
        """Return why an assignment that decides what is live is not followed; empty if it is."""
        return self.fault_of(found, event) or self.late(found, event)

    def fault_of(self, found: State, event: Assignment) -> str:
        """Return why an assignment does not count; empty if it does."""
        return self._fault(lambda tag: self.assignment(found, event), event.tag)

    def _fault(self, ask: Callable[[Tag], object], tag: Tag) -> str:
        try:
            ask(tag)
        except Untrusted as why:
            return plain(str(why))
        return ""


def _fault_about(one: Attestation, version: Version) -> str:
    """Return why an attestation is not about exactly this tag; empty if it is. A tag names no later one's object."""
    if (one.record.get("version_tag"), one.record.get("version")) != (version.tag.object, version.number):
        return "it is about a different tag of this version"
    return "" if one.tag.time >= version.tag.time else f"it claims to be older than {version.tag.name}"
