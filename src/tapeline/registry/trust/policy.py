"""The trust policy in force: `registry.trust` of `params.yaml`, and the signers file, as they are at the policy's ref.

The ref is the local branch `main`, else `master`, or what `git config tapeline.policyRef` says. Neither an edited
working tree nor a fetch changes any of these; a merge into that branch does.
"""

import hashlib
from dataclasses import dataclass

from tapeline.config.params import Params
from tapeline.config.project import PARAMS
from tapeline.config.registry import TrustSettings
from tapeline.parsing import yaml_text
from tapeline.registry.repository import Repository
from tapeline.registry.trust import signers as signers_file
from tapeline.registry.trust.signers import Signers
from tapeline.repository.git import ID
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

SETTING = "tapeline.policyRef"
DEFAULTS = ("refs/heads/main", "refs/heads/master")
ELSEWHERE = ("HEAD", "refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master")
"""Where a policy may be that is not in force, if there is no policy's ref."""


@dataclass(frozen=True)
class Policy:
    """Who may do what, and by which settings promotions are decided."""

    ref: str
    commit: str
    settings: TrustSettings
    signers: Signers
    params: Params
    """All of `params.yaml` at the ref."""
    sha256: str
    """Of the rules and the keys."""

    @property
    def name(self) -> str:
        """The ref as people call it."""
        return self.ref.removeprefix("refs/heads/")


def in_force(repository: Repository, pipeline: str) -> Policy | None:
    """Return the policy; None if the repository has none. pipeline: whose mistakes in `params.yaml` matter.

    Raises `InputError` for a policy that cannot be read, for a ref that does not exist, and for a policy that is in the
    working tree only.
    """
    ref = _ref(repository)
    if ref is None:
        _check_none_elsewhere(repository)
        return None
    commit = repository.git.commit_of(ref)
    raw = _file(repository, commit, PARAMS)
    text = None if raw is None else raw.decode("utf-8", "surrogateescape")
    if text is None or not _mentioned(text):
        _check_not_in_tree(repository, ref)
        return None
    params = Params.load_for(repository.git.folder, pipeline=pipeline, text=text)
    settings = params.registry.trust
    if settings is None:
        raise InputError(f"{PARAMS} of {ref}: registry.trust is empty: say who may do what, or remove it")
    known = _signers(repository, commit, ref, settings)
    _check_people(settings, known)
    content = {"trust": settings.model_dump(mode="json"), "signers": [key.line for key in known.keys]}
    content["gpg_keys"] = hashlib.sha256(known.gpg_keys).hexdigest()
    sha256 = hashlib.sha256(files.canonical_json(content).encode()).hexdigest()
    return Policy(ref, commit, settings, known, params, sha256)


def _ref(repository: Repository) -> str | None:
    """Return the policy's ref, whole; None if there is no such branch. Raises `InputError` for one that is gone."""
    git = repository.git
    asked = git.ask("config", SETTING)
    if asked is not None:
        # No short name of a tag: Git prefers it to a branch of that name, and anybody may push one.
        whole = [asked] if asked.startswith("refs/") else []
        if ID.fullmatch(asked) and git.ask("rev-parse", "--verify", "--quiet", f"{asked}^{{commit}}") is not None:
            return asked
        if ref := next(filter(git.has, (*whole, f"refs/heads/{asked}")), None):
            return ref
        raise InputError(
            f"`git config {SETTING}` is {asked!r}, but there is no such commit: give a local branch, a full ref, or "
            "the id of a commit"
        )
    return next(filter(git.has, DEFAULTS), None)


def _check_none_elsewhere(repository: Repository) -> None:
    texts = {ref: repository.read(ref, PARAMS) for ref in ELSEWHERE}
    where = [ref for ref, text in texts.items() if text and _mentioned(text)]
    if where or _in_tree(repository):
        raise InputError(
            f"{where[0] if where else PARAMS} has a trust policy, but there is no branch main or master to read it "
            f"from: `git config {SETTING} BRANCH` names one"
        )


def _in_tree(repository: Repository) -> bool:
    """Return whether `params.yaml` as it is checked out has a policy; one that is not YAML is reported elsewhere."""
    try:
        text = files.read_bytes(repository.git.folder / PARAMS)
        return _mentioned(text.decode()) and yaml_text.parsed_or_none(text) is not None
    except (OSError, UnicodeDecodeError):
        return False


def _check_not_in_tree(repository: Repository, ref: str) -> None:
    if _in_tree(repository):
        raise InputError(
            f"registry.trust is in {PARAMS} and not on {ref.removeprefix('refs/heads/')}, where it is read: commit it "
            f"there, or `git config {SETTING}` another branch"
        )


def _mentioned(text: str) -> bool:
    """Return whether a `params.yaml` has a policy, or may have: one that is not YAML does."""
    try:
        content = yaml_text.parsed(text)
    except yaml_text.NotYaml:
        return True
    registry = content.get("registry") if isinstance(content, dict) else None
    return isinstance(registry, dict) and "trust" in registry


def _file(repository: Repository, commit: str, path: str) -> bytes | None:
    return repository.git.blob(commit, f"{repository.inside}/{path}" if repository.inside else path)


def _signers(repository: Repository, commit: str, ref: str, settings: TrustSettings) -> Signers:
    found: dict[str, bytes] = {}
    for path in filter(None, (settings.signers, settings.gpg_keys)):
        content = _file(repository, commit, path)
        if content is None:
            raise InputError(f"registry.trust names {path!r}, which is not a file in {ref}: commit it there")
        found[path] = content
    keys = found.get(settings.gpg_keys or "", b"")
    text = found[settings.signers].decode("utf-8", "replace")
    return signers_file.read(text, f"{settings.signers} of {ref}", gpg_keys=keys)


def _check_people(settings: TrustSettings, known: Signers) -> None:
    for person in settings.people:
        if person not in known.people:
            raise InputError(f"registry.trust names {person!r}, who has no key in {settings.signers}: add a line there")
    if any(key.kind == "gpg" for key in known.keys) and not known.gpg_keys:
        raise InputError(
            f"{settings.signers} has GPG keys by fingerprint: registry.trust.gpg_keys must name a file "
            "with the public keys (`gpg --armor --export`)"
        )
