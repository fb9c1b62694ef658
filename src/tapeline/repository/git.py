"""Run Git without hooks, prompts, replaced objects or variables that point to another repository.

It signs only what it is told to.

git = Git(project.folder)
git("rev-parse", "HEAD")
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from tapeline.runtime import git_call
from tapeline.runtime.errors import InputError, RunError

ID = re.compile(r"[0-9a-f]{40,64}")
"""The whole id of an object."""

SUFFIX = re.compile(r"[~^:]|@\{")
"""Where what Git takes for a ref's name ends, as in `main~2`."""

NO_ANSWER = "fatal: Could not read from remote repository."

NO_REPOSITORY = "not a git repository"

FULL = 1_000_000
"""Bytes that are left on a disk that is as good as full."""

TRANSFER = 3600.0
"""Seconds in which a push or a fetch must end."""

FALLBACK = {"name": "Tapeline", "email": "tapeline@localhost"}
"""The committer if Git has no identity, as is common on a worker's machine."""


class Git:
    """Calls of `git` in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str, timeout: float | None = None, given: str = "") -> str:
        """Return the output without its last newline. given: what Git reads.

        Raises `RunError` with Git's own line, `InputError` outside a repository.
        """
        answer = self._run(*arguments, timeout=timeout, given=given)
        if answer.returncode:
            said = _said(answer)
            if NO_REPOSITORY in said:
                raise InputError(f"{self.folder} is not in a Git repository: `git init` makes one")
            raise RunError(f"git {git_call.verb(arguments)}: {said}{_full(self.folder)}")
        return answer.stdout.removesuffix("\n")

    def lines(self, *arguments: str) -> list[str]:
        """Return the lines of the output. Raises as a call does.

        Only a line feed ends one: a name may have other characters that `str.splitlines` would take for an end.
        """
        said = self(*arguments)
        return said.split("\n") if said else []

    def ask(self, *arguments: str) -> str | None:
        """Return the output, or None if Git fails, for whatever reason."""
        answer = self._run(*arguments)
        return None if answer.returncode else answer.stdout.removesuffix("\n")

    def blob(self, commit: str, path: str) -> bytes | None:
        """Return the content of a commit's file by its path from the repository's root, or from the folder with `./`.

        None if it is not a file, the commit does not exist, or there is no repository. Raises `RunError` with Git's
        line if Git cannot read what is there, or refuses to, as in another user's repository.
        """
        answer = self._start(("cat-file", "blob", f"{commit}:{path}"))
        if not answer.returncode:
            return answer.stdout
        if self._has_file(commit, path):
            raise RunError(f"git cat-file: {answer.stderr.decode('utf-8', 'replace').strip()}")
        return None

    def _has_file(self, commit: str, path: str) -> bool:
        """Return whether a commit has a file of this path, readable or not. Raises as `blob` does."""
        names = PurePosixPath(path)
        if not names.parts or names.is_absolute() or ".." in names.parts:  # ls-tree would fail, and no commit has one
            return False
        if not any(os.path.lexists(folder / ".git") for folder in (self.folder, *self.folder.parents)):
            return False
        self.check()
        if self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", commit) is None:
            return False
        place = () if path.startswith("./") else ("--full-tree",)
        entry = self("--literal-pathspecs", "ls-tree", "-z", *place, commit, "--", path)
        return entry.partition("\t")[0].split()[1:2] == ["blob"]

    def check(self) -> None:
        """Raise `InputError` outside a repository, `RunError` if Git refuses to use it or cannot: it says no to all."""
        self("rev-parse", "--git-dir")

    def top(self) -> Path:
        """Return the folder of the checkout, links resolved. Raises as a call does."""
        return Path(self("rev-parse", "--show-toplevel")).resolve()

    def common(self) -> Path:
        """Return Git's own folder, one for all worktrees, links resolved. Raises as a call does."""
        return (self.folder / self("rev-parse", "--git-common-dir")).resolve()

    def raw(self, kind: str, name: str) -> bytes | None:
        """Return the bytes of an object of this kind (`tag`, `commit`), without following it; None if it is not one."""
        answer = self._start(("cat-file", kind, name))
        return None if answer.returncode else answer.stdout

    def contents(self, objects: Iterable[str]) -> Iterator[bytes]:
        """Yield the content of each object. Raises `RunError` for one that Git cannot read."""
        answer = self._start(("cat-file", "--batch"), given="".join(f"{one}\n" for one in objects).encode())
        if answer.returncode:
            raise RunError(f"git cat-file: {answer.stderr.decode('utf-8', 'replace').strip()}")
        content, at = answer.stdout, 0
        while at < len(content):
            start = content.index(b"\n", at) + 1
            about = content[at:start].split()  # id, type and size, or `missing`, after which Git succeeds all the same
            if len(about) < 3:
                raise RunError(f"git cat-file: {b' '.join(about).decode()}")
            at = start + int(about[2]) + 1
            yield content[start : at - 1]

    def worktrees(self) -> list[tuple[Path, str]]:
        """Return folder and commit of the checkout and its worktrees; the commit is empty before the first one.

        Raises as a call does.
        """
        listed = self.ask("worktree", "list", "--porcelain", "-z")  # a folder's name may have a line feed
        if listed is None:  # before Git 2.36
            listed = self("worktree", "list", "--porcelain").replace("\n", "\0")
        fields = (
            dict(line.partition(" ")[::2] for line in one.split("\0"))
            for one in listed.split("\0\0")
            if one.startswith("worktree ")
        )
        return [
            (Path(one["worktree"]), commit if (commit := one.get("HEAD", "")).strip("0") else "")
            for one in fields
            if "bare" not in one
        ]

    def commit_of(self, ref: str) -> str:
        """Return the full id of the commit that a branch, tag or commit refers to. Raises `InputError`.

        Of a branch and a tag of the same name it is the branch: Git prefers the tag, which anybody may push.
        """
        named, is_id = ref[: found.start()] if (found := SUFFIX.search(ref)) else ref, ID.fullmatch(ref)
        whole = [name for name in (named, f"refs/heads/{named}", f"refs/remotes/{named}") if self.has(name)]
        full = f"{whole[0]}{ref.removeprefix(named)}" if whole and not is_id else ref
        if whole or is_id or not ref.startswith("refs/"):
            commit = self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{full}^{{commit}}")
            if commit is not None:
                return commit
        self.check()
        raise InputError(f"ref is {ref!r}: no such branch, tag or commit; `git branch --all` lists the branches")

    def has(self, ref: str) -> bool:
        """Return whether there is a ref of exactly this name, such as `refs/heads/main`, or `HEAD`.

        To `git rev-parse`, `refs/heads/main` is also a tag that is called so, where there is no such branch.
        """
        return self.ask("show-ref", "--verify", "--quiet", ref) is not None

    def main_branch(self) -> str:
        """Return the remote's default branch, else `main` or `master`. Raises `InputError`."""
        remote = self.ask("symbolic-ref", "--quiet", "refs/remotes/origin/HEAD")
        names = [remote.removeprefix("refs/remotes/origin/")] if remote else []
        for name in (*names, "main", "master"):
            if self.has(f"refs/heads/{name}"):
                return name
        self.check()
        if not self.has("HEAD"):
            raise InputError("nothing is committed yet: `git add . && git commit`")
        here = self.ask("symbolic-ref", "--quiet", "--short", "HEAD")
        raise InputError(f"there is no branch main or master: give a ref{f', such as --ref {here}' if here else ''}")

    def remote(self) -> str | None:
        """Return the remote to push to: the configured one, else `origin`, else the first; None if there is none."""
        remotes = self.lines("remote")
        wanted = self.ask("config", "remote.pushDefault") or "origin"
        return wanted if wanted in remotes else next(iter(remotes), None)

    def commit(self, message: str, *, tree: str, parent: str, sign: bool = False) -> str:
        """Return the id of a new commit that is on no branch yet. If Git has no identity, Tapeline's is used.

        sign: with the key that Git is configured with. Raises `RunError` if that does not work.
        """
        unknown = [name for name in FALLBACK if self.ask("config", f"user.{name}") is None]
        who = [part for name in unknown for part in ("-c", f"user.{name}={FALLBACK[name]}")]
        return self(*who, "commit-tree", *(["-S"] if sign else []), tree, "-p", parent, "-m", message)

    def _run(
        self, *arguments: str, timeout: float | None = None, given: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        answer = self._start(arguments, timeout, given.encode("utf-8", errors="surrogateescape"))
        out, said = (stream.decode("utf-8", errors="surrogateescape") for stream in (answer.stdout, answer.stderr))
        return subprocess.CompletedProcess(answer.args, answer.returncode, out, said)

    def _start(
        self, arguments: Sequence[str], timeout: float | None = None, given: bytes = b""
    ) -> "subprocess.CompletedProcess[bytes]":
        return git_call.called(self.folder, *arguments, timeout=timeout, given=given)


def _full(folder: Path) -> str:
    """Return what helps on a full disk, of which Git says only that it cannot write; nothing on another."""
    with suppress(OSError):
        if shutil.disk_usage(folder).free < FULL:
            return ": no space left on the disk: free some and run again"
    return ""


def _said(answer: "subprocess.CompletedProcess[str]") -> str:
    """Return why Git failed, in one line: the last one, unless that is more about an earlier one, and the remedy."""
    lines = (answer.stderr.strip() or answer.stdout.strip()).splitlines() or [f"status {answer.returncode}"]
    if refused := next((" ".join(line.split()) for line in lines if line.startswith(" ! [")), ""):
        told = (line.removeprefix("remote: ").strip() for line in lines if line.startswith("remote: "))
        return ": ".join((refused, *filter(None, told)))
    reason = next((line for line in reversed(lines) if line.startswith("fatal: ")), lines[-1])
    if reason == NO_ANSWER:  # before it stands what `ssh`, or the server, said
        reason = lines[0]
    remedy = next((line.strip() for line in lines if line.startswith("\tgit ")), "")
    return f"{reason}: `{remedy}` helps" if remedy else reason
