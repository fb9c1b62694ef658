"""Find what Git checks out with other line ends than it has: DVC compares bytes, and each checkout would be stale."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from tapeline.config.project import Project
from tapeline.repository.git import Git

MANY = 1000
"""How many files are looked at: Git reads each."""


def changed(project: Project, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each cause for which Git checks out CRLF for LF, with the first file that it changes.

    paths: files and folders, of which those are looked at that Git has or would add. Nothing without Git.
    """
    git = Git(project.folder)
    by_config = list(_configured(git))
    found: dict[str, str] = {}
    for name, info in _stored(git, paths):
        if cause := _cause(info, by_config):
            found.setdefault(cause, name)
    yield from found.items()


def _configured(git: Git) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each setting that asks for CRLF, with the attributes of the files for which it does."""
    is_automatic = git.ask("config", "--type=bool", "core.autocrlf") == "true"
    if is_automatic:
        yield "core.autocrlf is true", ("", "text", "text=auto")
    is_crlf = (git.ask("config", "core.eol") or "").lower() == "crlf"
    if is_crlf and not is_automatic and git.ask("config", "core.autocrlf") != "input":
        yield "core.eol is crlf", ("text", "text=auto")


def _stored(git: Git, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the files of paths, each with what `git ls-files --eol` says of it."""
    listing = ("--literal-pathspecs", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = ((git.ask(*listing, "--", path) or "").split("\0") for path in paths)  # None for one outside
    names = list(islice(filter(None, chain.from_iterable(listed)), MANY))
    for entry in filter(None, (git.ask(*listing, "--eol", "--", *names) or "").split("\0") if names else ()):
        info, _, name = entry.partition("\t")
        yield name, info


def _cause(info: str, by_config: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    """Return what has Git check a file out with CRLF that is with LF in Git, or here; empty if nothing does.

    info: as `i/lf w/lf attr/text=auto eol=crlf`: the line ends in the index and here, and the attributes.
    """
    stored, here, attributes = (part.partition("/")[2].strip() for part in info.split(maxsplit=2))
    if attributes.endswith("eol=crlf"):  # in every checkout, so that one with CRLF is like the next
        return "the attribute eol=crlf" if here == "lf" else ""
    if "lf" not in (stored, here):
        return ""
    return next((cause for cause, of in by_config if attributes in of), "")
