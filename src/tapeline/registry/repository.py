"""Git as the registry reads it: commits, their files, and annotated tags."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError

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
        self.git = Git(folder)
        lines = self.git("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir").splitlines()
        self.top, self.common = (Path(line).resolve() for line in lines)
        self.inside = folder.resolve().relative_to(self.top).as_posix().removeprefix(".")
        """The project's folder as seen from the repository's root; empty for the root itself."""
        head = self.git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if head is None:
            raise InputError(f"{self.top} has no commit yet: a version is a tag on one")
        self.head = head

    def branch(self) -> str | None:
        """Return the branch that is checked out; None for a detached HEAD."""
        return self.git.ask("symbolic-ref", "--quiet", "--short", "HEAD")

    def remote(self) -> str | None:
        """Return the first Git remote's name; None where there is none."""
        return next(iter(self.git("remote").split()), None)

    def changed(self) -> list[str]:
        """Return the tracked files that differ from HEAD, by their path from the root."""
        return [
            entry[3:] for entry in self.git("status", "--porcelain", "-z", "-uno", "--no-renames").split("\0") if entry
        ]

    def tracked(self, commit: str) -> set[str]:
        """Return every file of a commit by its path from the root."""
        return set(self.git("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit).split("\0"))

    def read(self, commit: str, path: str) -> str | None:
        """Return a file of the project's folder as it is in a commit; None where it is not there."""
        inner = f"{self.inside}/{path}" if self.inside else path
        return self.git.ask("show", f"{commit}:{inner}")

    def digest(self, commit: str, path: str) -> str | None:
        """Return the MD5 of a file of a commit, by its path from the root, as DVC has it; None for another thing."""
        content = self.git.blob(commit, path)
        return None if content is None else hashlib.md5(content, usedforsecurity=False).hexdigest()

    def run(self, commit: str, path: str) -> dict[str, str]:
        """Return the flow run that wrote a file of the project's folder, as its commit's trailers say; else nothing."""
        form = "%(trailers:key=Flow-run,valueonly)%x00%(trailers:key=Flow-run-id,valueonly)"
        name, _, identifier = self.git("log", "-1", f"--format={form}", commit, "--", path).partition("\0")
        return {"name": name.strip(), "id": identifier.strip()} if name.strip() else {}

    def identity(self) -> str:
        """Return who would be the author of a tag. Raises `InputError` when Git does not know."""
        who = self.git.ask("var", "GIT_COMMITTER_IDENT")
        if who is None:
            raise InputError("Git does not know who you are: set `git config user.name` and `user.email`")
        return who.rsplit(" ", 2)[0]

    def tag_names(self) -> list[str]:
        """Return every tag's name, of lightweight tags too."""
        return self.git("for-each-ref", "--format=%(refname:strip=2)", "refs/tags").splitlines()

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
