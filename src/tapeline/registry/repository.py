"""The registry's view of Git: commits, their files, and annotated tags."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tapeline.repository.dvc_lock import LOCK
from tapeline.repository.git import Git
from tapeline.repository.recorded import Recorded
from tapeline.runtime.errors import InputError, RunError

FIELDS = (
    "refname:strip=2",
    "objecttype",
    "*objectname",
    "taggerdate:unix",
    "taggername",
    "taggeremail",
    "objectname",
    "*objecttype",
    "contents:signature",
    "contents",
)
ALL = ("refs/tags",)
DAMAGED = "damaged object"
"""The kind of a tag whose object Git cannot read."""
LINK = "120000"
"""The mode of a link, of which Git has the text, and DVC reads what it leads to."""
FEW = 50
"""How many tags are read by their names, and not all at once."""
AT_ONCE = 64_000_000
"""Bytes of files that are held in memory at once, where there are several."""


@dataclass(frozen=True)
class Tag:
    """One annotated tag: its commit, who says to have made it when (seconds since 1970), and its message."""

    name: str
    commit: str
    time: int
    author: str
    email: str
    message: str
    """Without the signature."""
    object: str = ""
    """The id of the tag object, which covers everything in it."""
    kind: str = "commit"
    """What the tag is on: a commit, unless somebody tagged a tag, a tree or a file."""


class Repository:
    """The Git repository around a project's folder."""

    def __init__(self, folder: Path, *, inside: str | None = None) -> None:
        """Open the repository. Raises `InputError` outside a repository and in one without a commit.

        inside: the folder of another project of the repository, which this checkout may lack.
        """
        self.git = Git(folder)
        self.top, self.common = self.git.top(), self.git.common().resolve()
        if inside is None:
            inside = folder.resolve().relative_to(self.top).as_posix()
        self.inside = "" if inside == "." else inside
        """The project's folder relative to the repository's root; empty for the root itself."""
        head = self.git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if head is None:
            raise InputError(f"{self.top} has no commits yet, and a version is a tag on a commit: commit first")
        self.head = head
        self._read: dict[tuple[str, str], Tag | None] = {}
        """Name and object of a tag → the tag; None for a lightweight one."""

    @property
    def main(self) -> Path:
        """The root of the main checkout, even for a worktree."""
        return self.common.parent if self.common.name == ".git" else self.top

    def branch(self) -> str | None:
        """Return the branch that is checked out; None for a detached HEAD."""
        return self.git.ask("symbolic-ref", "--quiet", "--short", "HEAD")

    def changed(self) -> list[str]:
        """Return the tracked files that differ from HEAD, as paths from the root."""
        return [
            entry[3:] for entry in self.git("status", "--porcelain", "-z", "-uno", "--no-renames").split("\0") if entry
        ]

    def tracked(self, commit: str) -> dict[str, str]:
        """Return all files of a commit with their modes, as paths from the root."""
        listed = self.git("ls-tree", "-r", "-z", "--full-tree", commit).split("\0")
        return {path: about.split()[0] for about, _, path in (entry.partition("\t") for entry in listed) if path}

    def read(self, commit: str, path: str) -> str | None:
        """Return the content of a file of the project's folder in a commit, without its last newline.

        None if it does not exist there. Raises `RunError` if Git cannot read it.
        """
        content = self.git.blob(commit, f"{self.inside}/{path}" if self.inside else path)
        return None if content is None else content.decode(errors="surrogateescape").removesuffix("\n")

    def recorded(self, commit: str, model: str) -> Recorded:
        """Return what a commit's `dvc.lock` records about a model. Raises `InputError` if it is missing or cut."""
        text = self.read(commit, LOCK)
        if text is None:
            raise InputError(f"commit {commit[:10]} has no {LOCK}: run `dvc repro export@{model}` and commit it")
        return Recorded.read(text, model, name=f"commit {commit[:10]}")

    def digest(self, commit: str, path: str) -> str | None:
        """Return the MD5 that DVC has for a file of a commit, by path from the root; None if it is not a file."""
        content = self.git.blob(commit, path)
        return None if content is None else _md5(content)

    def digests(self, commit: str, folder: str) -> dict[str, str]:
        """Return the MD5 that DVC has for each file of a commit's folder, by path from the root; none of links.

        One call of Git reads files of `AT_ONCE` bytes, or one. Raises `RunError` if it cannot read one.
        """
        tree = self.git("--literal-pathspecs", "ls-tree", "-r", "-l", "-z", "--full-tree", commit, "--", folder)
        batches: list[dict[str, str]] = [{}]
        held = 0
        for about, _, path in (entry.partition("\t") for entry in tree.split("\0") if entry):
            mode, kind, name, size = about.split()
            if kind != "blob" or mode == LINK:
                continue
            length = int(size) if size.isdecimal() else 0  # BAD of one that is lost
            held += length
            if held > AT_ONCE and batches[-1]:
                batches.append({})
                held = length
            batches[-1][path] = name
        return {
            path: _md5(content)
            for batch in batches
            for path, content in zip(batch, self.git.contents(batch.values()), strict=True)
        }

    def run(self, commit: str, path: str, text: str) -> dict[str, str]:
        """Return the flow run that wrote a text into a file of the project's folder, from its commit's trailers.

        Empty if it was no run: what a later one wrote of another model is not looked at.
        """
        form = "%(trailers:key=Flow-run,valueonly)%x00%(trailers:key=Flow-run-id,valueonly)"
        name, _, identifier = self.git("log", "-1", f"-S{text}", f"--format={form}", commit, "--", path).partition("\0")
        return {"name": name.strip(), "id": identifier.strip()} if name.strip() else {}

    def check_identity(self) -> None:
        """Raise `InputError` if Git has nobody who would author a tag."""
        if self.git.ask("var", "GIT_COMMITTER_IDENT") is None:
            raise InputError("Git does not know who you are: set `git config user.name` and `user.email`")

    def tag_names(self, *patterns: str) -> list[str]:
        """Return the names of all tags, lightweight ones included. patterns: as of `git for-each-ref`."""
        return self.git.lines("for-each-ref", "--format=%(refname:strip=2)", *(patterns or ALL))

    def tag_times(self, *patterns: str) -> list[tuple[str, int]]:
        """Return name and time of the annotated tags. patterns: as of `git for-each-ref`; all tags without one."""
        form = "--format=%(refname:strip=2) %(taggerdate:unix)"
        try:
            rows = self.git.lines("for-each-ref", form, *(patterns or ALL))
        except RunError:  # a damaged object
            return [(tag.name, tag.time) for tag in self.tags(*patterns) if tag.kind != DAMAGED]
        return [(name, int(moment)) for name, _, moment in (row.rpartition(" ") for row in rows) if moment]

    def tag_objects(self, *patterns: str) -> list[tuple[str, str]]:
        """Return name and object id of every tag, lightweight ones included; reads no object."""
        rows = self.git.lines("for-each-ref", "--format=%(objectname) %(refname:strip=2)", *(patterns or ALL))
        return [(name, made) for made, _, name in (row.partition(" ") for row in rows)]

    def tags(self, *patterns: str) -> list[Tag]:
        """Return the annotated tags, oldest first, signatures taken off; GTO reads no lightweight ones.

        Each object is read once. patterns: as of `git for-each-ref`; all tags without one.
        """
        if not self._read:
            found = self._tags_or_damaged(patterns)
            self._read |= {(tag.name, tag.object): tag for tag in found}
            return sorted(found, key=lambda tag: tag.time)
        wanted = self.tag_objects(*patterns)
        new = [name for name, made in wanted if (name, made) not in self._read]
        if new:
            self._read |= {key: self._read.get(key) for key in wanted}
            few = [f"refs/tags/{name}" for name in new] if len(new) <= FEW else patterns
            self._read |= {(tag.name, tag.object): tag for tag in self._tags_or_damaged(few)}
        return sorted((tag for key in wanted if (tag := self._read[key])), key=lambda tag: tag.time)

    def _tags_or_damaged(self, patterns: Sequence[str]) -> list[Tag]:
        """Return the annotated tags, and one of no commit for each whose object Git cannot read.

        Git reads none of several if it cannot read one, and anybody may push such an object.
        """
        try:
            return self._tags(*patterns)
        except RunError:
            there = self.tag_objects(*patterns)
        if len(there) == 1:
            return [Tag(name, "", 0, "nobody", "", "", made, DAMAGED) for name, made in there]
        names = [f"refs/tags/{name}" for name, _ in there]
        half = len(names) // 2
        return [*self._tags_or_damaged(names[:half]), *self._tags_or_damaged(names[half:])] if names else []

    def _tags(self, *patterns: str) -> list[Tag]:
        form = "".join(f"%({field})%00" for field in FIELDS)
        cells = iter(self.git("for-each-ref", f"--format={form}", *(patterns or ALL)).split("\0"))
        rows = zip(*[cells] * len(FIELDS), strict=False)  # what follows the last one is a line's end
        return [
            Tag(
                name.lstrip("\n"),
                commit,
                int(moment),
                author,
                email.strip("<>"),
                text.removesuffix(signature),
                made,
                kind,
            )
            for name, is_tag, commit, moment, author, email, made, kind, signature, text in rows
            if is_tag == "tag" and moment
        ]


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
