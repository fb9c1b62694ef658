"""Persons with real keys, made for a test: who they are to Git, and their lines in a signers file."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import clones
from registries import PARAMS, Registry

from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.registry import registry as registry_of

POLICY = """
  trust:
    signers: signers
    register: [ana@example.org, ben@example.org]
    promote: {staging: [ana@example.org], prod: [ana@example.org, ben@example.org]}
    approve: {prod: [ana@example.org, ben@example.org]}
    revoke: [ana@example.org]
"""


@dataclass(frozen=True)
class Person:
    """One who has an SSH key."""

    name: str
    key: Path

    @property
    def email(self) -> str:
        return f"{self.name.lower()}@example.org"

    @property
    def public(self) -> str:
        """Type and key, as in a signers file."""
        return " ".join(self.key.with_suffix(".pub").read_text().split()[:2])

    def line(self, options: str = "") -> str:
        return " ".join(filter(None, (self.email, options, self.public))) + "\n"

    @classmethod
    def made(cls, folder: Path, name: str) -> "Person":
        key = folder / name
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)]
        subprocess.run(command, check=True)
        return cls(name, key)

    def at(self, registry: Registry) -> Registry:
        """Be at the keyboard: Git's identity and key in a repository are this person's."""
        settings = {"user.name": self.name, "user.email": self.email}
        settings |= {"gpg.format": "ssh", "user.signingKey": str(self.key.with_suffix(".pub"))}
        for name, value in settings.items():
            registry.git("config", name, value)
        return registry


@dataclass(frozen=True)
class Gpg:
    """A GPG key that was valid for 1000 s of 2023."""

    home: Path
    fingerprint: str
    made: int
    """In seconds since 1970."""

    @property
    def expires(self) -> int:
        return self.made + 1000

    @property
    def exported(self) -> str:
        """The public key."""
        return _gpg(self.home, "--armor", "--export")

    @classmethod
    def generated(cls, home: Path, made: int) -> "Gpg":
        home.chmod(0o700)
        key = ("--passphrase", "", "--quick-gen-key", "Ana <ana@example.org>", "ed25519", "sign", "seconds=1000")
        _gpg(home, "--faked-system-time", f"{made}!", *key)
        lines = _gpg(home, "--list-keys", "--with-colons").splitlines()
        return cls(home, next(line.split(":")[9] for line in lines if line.startswith("fpr:")), made)

    def signing(self, folder: Path, moment: int) -> list[str]:
        """Return options by which Git signs with this key, at a time that is claimed."""
        program = folder / "gpg"
        program.write_text(f'#!/bin/sh\nexec gpg --homedir {self.home} --faked-system-time {moment}! "$@"\n')
        program.chmod(0o755)
        settings = ("gpg.format=openpgp", f"gpg.program={program}", f"user.signingKey={self.fingerprint}")
        return [part for one in settings for part in ("-c", one)]

    def revoked(self) -> str:
        """Return the public key with the certificate that revokes it, which is kept beside each key."""
        text = (self.home / "openpgp-revocs.d" / f"{self.fingerprint}.rev").read_text()
        return f"{self.exported}-----BEGIN{text.partition(':-----BEGIN')[2]}"


def _gpg(home: Path, *arguments: str) -> str:
    command = ["gpg", "--batch", "--quiet", "--homedir", str(home), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def govern(registry: Registry, signers: str, policy: str = POLICY, **files: str) -> None:
    """Commit a policy and the signers on main."""
    params = registry.folder / "params.yaml"
    params.write_text(params.read_text().rstrip("\n") + policy)
    for name, text in {"signers": signers, **files}.items():
        (registry.folder / name).write_text(text)
    registry.git("add", "--all")
    registry.git("commit", "--quiet", "--message", "Who may do what")


def tag(registry, name, commit, message, *options, time=None, config=()):
    """Make a tag with plain Git, as anybody may; `time` in seconds since 1970."""
    env = {**clones.environment(), **({"GIT_COMMITTER_DATE": f"@{time} +0000"} if time else {})}
    command = ["git", *config, "tag", "--annotate", "--cleanup=verbatim", "--file=-", *options, name, commit]
    subprocess.run(command, cwd=registry.folder, env=env, input=message, text=True, check=True)


def pushed_object(registry, name, content: bytes) -> None:
    """Write a tag object as it is, and a ref on it."""
    made = subprocess.run(
        ["git", "hash-object", "-t", "tag", "-w", "--literally", "--stdin"],
        cwd=registry.folder, input=content, capture_output=True, check=True,
    ).stdout.decode().strip()  # fmt: skip
    path = registry.folder / ".git" / "refs" / "tags" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(made + os.linesep)


assert PARAMS.rstrip().endswith("prod: {gate: false, check: false}"), "the policy is appended to `registry`"


def opened(registry):
    """Open the registry of a repository as a command does: nothing was read yet."""
    project = Project.find(registry.folder)
    return registry_of.Registry.open(project, Params.load(project.folder), pipeline="one")
