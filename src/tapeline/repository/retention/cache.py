"""DVC's cache: an object is in use if anything that is kept records it.

`dvc gc` considers the working tree and, on request, the tips of branches. This considers every `dvc.lock` and `.dvc`
file of every commit reachable from a kept branch, a tag, an experiment, a remote's branch or the stash, those in the
working tree of each worktree, and recent run-cache entries: no result that can still be named is lost.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tapeline.config.project import RUN_BRANCHES
from tapeline.repository import objects
from tapeline.repository.dvc_errors import in_one_line
from tapeline.repository.git import Git
from tapeline.repository.places import dvc_top
from tapeline.repository.retention.item import DAY, Item, Limits, statuses
from tapeline.runtime.errors import InputError, RunError

PLACES = (":(top,glob)**/dvc.lock", ":(top,glob)**/*.dvc")
"""Where Git finds what records hashes: in any folder, whatever folder it is called in."""
HASH = re.compile(rb"\b[0-9a-f]{32}(?:\.dir)?\b")


@dataclass(frozen=True)
class Cache:
    """The cache of the repository of `git`."""

    git: Git
    folder: Path

    @classmethod
    def of(cls, git: Git) -> "Cache":
        """Return the cache of the project in the main checkout, or in this one where that one lacks it or is bare.

        Raises `InputError` without DVC, and if other repositories may use the cache too.
        """
        from tapeline.repository.dvc.exceptions import NotDvcRepoError
        from tapeline.repository.dvc.repository import Dvc

        common, here = git.common(), git.top()
        top = (dvc_top(git.folder) or here).resolve()
        main = common.parent / top.relative_to(here)
        if common.name == ".git" and (main / ".dvc").is_dir():
            top = main
        with in_one_line():
            try:
                with closing(Dvc(top)) as dvc:
                    folder = dvc.cache.resolve()
            except NotDvcRepoError:
                raise InputError(f"{top} is not a DVC repository: nothing to prune") from None
        if not folder.is_relative_to(top.resolve()):
            raise InputError(f"DVC's cache {folder} is outside this repository and may be shared: not pruned")
        return cls(Git(top), folder)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold DVC's lock, so that no DVC of the main checkout writes to the cache. Raises `RunError` if it is held."""
        from tapeline.repository.dvc.exceptions import LockError
        from tapeline.repository.dvc.repository import Dvc

        try:
            with closing(Dvc(self.git.folder)) as dvc, dvc.locked():
                yield
        except LockError as error:
            raise RunError(f"another DVC is at work in this repository: {' '.join(str(error).split())}") from None

    def items(
        self, *, without: Collection[str], worktrees: Collection[Path | None], limits: Limits, now: float
    ) -> list[Item]:
        """Return what is in use and what is not, once the branches `without` and the worktrees `worktrees` are gone.

        All of it is in use while a worktree is away: what it records cannot be read. Raises `RunError` if Git cannot
        read a ref or a record.
        """
        heads, folders = worktrees_of(self.git, worktrees)
        away = [folder for folder in folders if not folder.is_dir()]
        used = self._expanded(self._recorded(without, heads, folders) | self._lately(now - limits.days * DAY))
        objects = sorted((path for path in self.folder.glob("??/*") if path.is_file()), key=_listings_first)
        kept = f"a branch, a tag, a worktree or a run of the last {limits.days:g} days"
        idle = f"the worktree {away[0]}, which is missing: `git worktree prune` forgets it" if away else ""
        groups: dict[str, list[Path]] = {kept: [], idle: []}
        for path in objects:
            groups[kept if path.parent.name + path.name in used else idle].append(path)
        return [
            Item(
                kind="cache",
                name=_counted(paths),
                size=sum(status.st_size for status in statuses(paths)),
                kept=reason,
                remove=partial(_drop, paths),
            )
            for reason, paths in groups.items()
            if paths
        ]

    def _recorded(self, without: Collection[str], heads: Iterable[str], folders: Iterable[Path]) -> set[str]:
        """Return the hashes that any `dvc.lock` or `.dvc` file records, in Git and on disk."""
        self.git("rev-list", "--all", "-n", "1")  # fails for a ref that is damaged, which a list leaves out
        refs = [ref for ref in self.git.lines("for-each-ref", "--format=%(refname)") if _counts(ref, without)]
        stashed = (self.git.ask("reflog", "show", "--format=%H", "refs/stash") or "").split()
        found = set(_hashes(self.git.contents(self._records(dict.fromkeys((*refs, *heads, *stashed))))))
        for folder in filter(Path.is_dir, folders):
            names = Git(folder)("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *PLACES)
            paths = (folder / name for name in names.split("\0") if name)
            found |= set(_hashes(path.read_bytes() for path in paths if path.is_file()))
        return found

    def _records(self, starts: Iterable[str]) -> dict[str, None]:
        """Return the blobs of every `dvc.lock` and `.dvc` file, in any folder, of any commit that is reachable.

        Each commit is compared with each of its parents, so that no side of a merge is left out, whatever the user has
        set.
        """
        settings = ("-c", "log.showRoot=true", "-c", "log.diffMerges=separate")
        walked = ("log", "--full-history", "-m", "--raw", "--no-abbrev", "--no-renames", "--format=", "--stdin")
        commits = "".join(f"{start}\n" for start in starts)  # of many tags, too many for a command line
        listed = self.git(*settings, *walked, "--", *PLACES, given=commits)
        sides = (side for line in listed.split("\n") if line.startswith(":") for side in line.split()[2:4])
        return dict.fromkeys(side for side in sides if side.strip("0"))

    def _lately(self, since: float) -> set[str]:
        """Return the hashes in recent run-cache entries: resetting a parameter restores them."""
        found: set[str] = set()
        for path in (self.folder.parents[1] / "runs").glob("*/*/*"):
            with suppress(FileNotFoundError):  # a temporary file of DVC
                if path.is_file() and path.stat().st_mtime >= since:
                    found |= set(_hashes([path.read_bytes()]))
        return found

    def _expanded(self, used: set[str]) -> set[str]:
        """Return those hashes, plus the files of the folders among them."""
        listings = (self.folder / objects.place(name) for name in used if name.endswith(".dir"))
        return used | set(_hashes(path.read_bytes() for path in listings if path.is_file()))


def _counts(ref: str, without: Collection[str]) -> bool:
    """Return whether a ref keeps data: a run's branch on a remote does not, since its data is there as well."""
    if re.match(rf"refs/remotes/[^/]+/{RUN_BRANCHES}", ref):
        return False
    return ref.removeprefix("refs/heads/") not in without


def worktrees_of(git: Git, without: Collection[Path | None] = ()) -> tuple[list[str], list[Path]]:
    """Return the commits and the folders of the checkout and its worktrees, except those in `without`.

    Git lists its own folder, and not the checkout, where that one is elsewhere, as for a submodule.
    """
    left = [(folder, head) for folder, head in git.worktrees() if folder not in without]
    folders = [folder for folder, _ in left if not folder.is_dir() or (folder / ".git").exists()]
    return [head for _, head in left if head], list(dict.fromkeys((git.top(), *folders)))


def _hashes(contents: Iterable[bytes]) -> Iterator[str]:
    for content in contents:
        yield from (match.decode() for match in HASH.findall(content))


def _counted(paths: Collection[Path]) -> str:
    return f"{len(paths)} file{'s' if len(paths) > 1 else ''}"


def _listings_first(path: Path) -> tuple[bool, Path]:
    """Sort folder listings before files: if removal is interrupted, DVC finds no folder, not a partial one."""
    return path.suffix != ".dir", path


def _drop(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
