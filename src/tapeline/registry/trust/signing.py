"""Sign with the key that Git is configured to sign with: tags, commits of runs.

signing.configured(git)          # whether there is a key
signing.tag(git, name, commit, message)
"""

import sys

from tapeline.repository.git import Git
from tapeline.runtime import streams
from tapeline.runtime.errors import InputError, RunError, plain

HOW = "`git config gpg.format ssh` and `git config user.signingKey ~/.ssh/id_ed25519.pub`"
"""What to configure for a signature, for messages."""


def configured(git: Git) -> bool:
    """Return whether Git has a key to sign with, and was not told to leave tags unsigned."""
    if git.ask("config", "--type=bool", "tag.gpgSign") == "false":
        return False
    return _asked(git) or any(git.ask("config", key) for key in ("user.signingKey", "gpg.ssh.defaultKeyCommand"))


def _asked(git: Git) -> bool:
    return git.ask("config", "--type=bool", "tag.gpgSign") == "true"


def commit(git: Git, message: str, *, tree: str, parent: str) -> str:
    """Return the id of a new commit, signed if there is a key; a key that does not work is told."""
    if configured(git):
        try:
            return git.commit(message, tree=tree, parent=parent, sign=True)
        except RunError as error:
            _say(f"the commit is not signed, because Git cannot sign: {error}")
    return git.commit(message, tree=tree, parent=parent)


def tag(git: Git, name: str, commit: str, message: str, *, required: bool = False) -> None:
    """Make an annotated tag, signed if there is a key.

    required: whether an unsigned tag would be worth nothing; else a key that does not work is told, and the tag made
    without. Raises `InputError` if there must be a signature and Git cannot make one.
    """
    made = ("tag", "--annotate", "--cleanup=verbatim", "--file=-")  # a record may be longer than an argument
    if required or configured(git):
        try:
            git(*made, "--sign", name, commit, given=message)
            _check_signed(git, name)
            return
        except RunError as error:
            if required or _asked(git):
                raise InputError(f"the tag {name} cannot be signed: {error}; configure a key: {HOW}") from None
            _say(f"{name} is not signed, because Git cannot sign: {error}")
    git(*made, "--no-sign", name, commit, given=message)


def _say(line: str) -> None:
    streams.say(f"tapeline: {plain(line)}", sys.stderr)


def _check_signed(git: Git, name: str) -> None:
    """Raise `RunError` for a new tag without a signature, and delete it: Git 2.39 makes one if `ssh-keygen` fails."""
    if not git("for-each-ref", "--format=%(contents:signature)", f"refs/tags/{name}"):
        git("tag", "--delete", name)
        raise RunError("the signing program made no signature")
