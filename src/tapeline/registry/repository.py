"""Git as the registry reads it: commits, their files, and annotated tags."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tapeline.errors import InputError

FIELDS = ("refname:strip=2", "objecttype", "*objectname", "taggerdate:unix", "taggername", "taggeremail", "contents")


@dataclass(frozen=True)
class Tag:
    """One annotated tag: what it is on, who made it when (seconds since 1970), and its message."""

    name: str
    commit: str
    time: int
    author: str
    email: str
    message: str


class Repository:
    """The Git repository around a project's folder."""

    def __init__(self, folder: Path) -> None:
        """Raises `InputError` outside a repository and in one without a commit."""
        self._folder = folder
        lines = self.git("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir").splitlines()
        self.top, self.common = (Path(line).resolve() for line in lines)
        self.inside = folder.resolve().relative_to(self.top).as_posix().removeprefix(".")
        """The project's folder as seen from the repository's root; empty for the root itself."""
        answer = self._call("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if answer.returncode:
            raise InputError(f"{self.top} has no commit yet: a version is a tag on one")
        self.head = answer.stdout.strip()

    def git(self, *arguments: str) -> str:
        """Return what Git says. Raises `InputError` with its last line."""
        answer = self._call(*arguments)
        if answer.returncode:
            raise InputError(f"git {arguments[0]}: {_last_line(answer.stderr)}")
        return answer.stdout

    def _call(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run(
                ["git", *arguments],
                cwd=self._folder,
                env={**os.environ, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
        except FileNotFoundError:
            raise InputError("there is no git on the PATH: install Git") from None

    def branch(self) -> str | None:
        """Return the branch that is checked out; None for a detached HEAD."""
        answer = self._call("symbolic-ref", "--quiet", "--short", "HEAD")
        return answer.stdout.strip() or None

    def changed(self) -> list[str]:
        """Return the tracked files that differ from HEAD, by their path from the root."""
        return [entry[3:] for entry in self.git("status", "--porcelain", "-z", "-uno").split("\0") if entry]

    def tracked(self, commit: str) -> set[str]:
        """Return every file of a commit by its path from the root."""
        return set(self.git("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit).split("\0"))

    def read(self, commit: str, path: str) -> str | None:
        """Return a file of the project's folder as it is in a commit; None where it is not there."""
        inner = f"{self.inside}/{path}" if self.inside else path
        answer = self._call("show", f"{commit}:{inner}")
        return answer.stdout if answer.returncode == 0 else None

    def identity(self) -> str:
        """Return who would be the author of a tag. Raises `InputError` when Git does not know."""
        answer = self._call("var", "GIT_COMMITTER_IDENT")
        if answer.returncode:
            raise InputError("Git does not know who you are: set `git config user.name` and `user.email`")
        return answer.stdout.rsplit(" ", 2)[0]

    def tags(self) -> list[Tag]:
        """Return the annotated tags on commits, oldest first; GTO does not read others."""
        form = "%00".join(f"%({field})" for field in FIELDS)
        text = self.git("for-each-ref", f"--format={form}%00%01", "refs/tags")
        rows = [row.lstrip("\n").split("\0") for row in text.split("\0\x01") if row.strip("\n")]
        found = [
            Tag(name, commit, int(moment), author, email.strip("<>"), message)
            for name, kind, commit, moment, author, email, message in rows
            if kind == "tag" and moment
        ]
        return sorted(found, key=lambda tag: tag.time)


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].removeprefix("fatal: ").removeprefix("error: ") if lines else "it failed and said nothing"
