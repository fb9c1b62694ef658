"""Find what Git stores or checks out with other line ends than there are: DVC compares bytes, so that it is stale."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from tapeline.config.project import Project
from tapeline.repository.git import Git

REMEDY = "add `* -text` as the last line of .gitattributes, `git add --renormalize .`, and check out again"
MANY = 1000
"""How many files are looked at: Git reads each."""


def changed(project: Project, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each cause for which Git stores LF for CRLF, or checks out CRLF for LF, with the first such file.

    paths: files and folders, of which those are looked at that Git has or would add. Nothing without Git.
    """
    git = Git(project.folder)
    by_config = list(_configured(git))
    is_input = git.ask("config", "core.autocrlf") == "input"
    found: dict[str, str] = {}
    for name, info in _stored(git, paths):
        if cause := _cause(info, by_config, is_input=is_input):
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


def _cause(info: str, by_config: Iterable[tuple[str, tuple[str, ...]]], *, is_input: bool) -> str:
    """Return what has Git check a file out with other line ends than it has here, or had; empty if nothing does.

    info: as `i/lf w/lf attr/text=auto eol=crlf`: the line ends in the index and here, and the attributes. is_input:
    whether `core.autocrlf` is so.
    """
    stored, here, attributes = (part.partition("/")[2].strip() for part in info.split(maxsplit=2))
    if attributes.endswith("eol=crlf"):  # in every checkout, so that one with CRLF is like the next
        return "the attribute eol=crlf" if here == "lf" else ""
    is_lost = here == "crlf" and stored in ("", "lf")
    if "lf" not in (stored, here) and not is_lost:
        return ""
    if cause := next((cause for cause, of in by_config if attributes in of), ""):
        return cause
    if is_lost and attributes.startswith("text"):
        return f"the attribute {attributes}"
    return "core.autocrlf is input" if is_lost and is_input and not attributes else ""
