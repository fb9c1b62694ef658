"""Check that a commit has what made its model: the dependencies, the parameters, and the code of the stages."""

import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from tapeline.config import engine_lock
from tapeline.config.project import PARAMS
from tapeline.parsing import dotted_key, yaml_text
from tapeline.registry.registry import Registry
from tapeline.registry.repository import LINK
from tapeline.repository import line_ends, submodules
from tapeline.repository.dvc_lock import LOCK, Entry, Lock
from tapeline.repository.git import Git
from tapeline.repository.objects import md5_of
from tapeline.repository.recorded import Recorded
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


def check(registry: Registry, commit: str, recorded: Recorded) -> None:
    """Raise `InputError` unless the model is reproducible from the commit: all that made it is there, or in DVC."""
    _check_chain(commit, recorded)
    _check_dependencies(registry, commit, recorded)
    _check_parameters(registry, commit, recorded)


def check_not_in_lfs(registry: Registry, commit: str, paths: Iterable[str]) -> None:
    """Raise `InputError` for a file that Git LFS keeps: the commit has only a pointer."""
    for path in paths:
        if files.is_pointer(registry.repository.git.blob(commit, path) or b""):
            raise InputError(
                f"{path} is in Git LFS, so {commit[:10]} has no bytes of it to compare: exclude it from LFS in "
                ".gitattributes and `git add --renormalize` it, or for data `git rm --cached` and `dvc add` it"
            )


def located(folder: Path, dep: str) -> Path:
    """Return where a dependency is; not what it links to, as to DVC's cache with `cache.type symlink`."""
    path = folder / dep
    return path.parent.resolve() / path.name


def dvc_files(path: Path, top: Path) -> list[Path]:
    """Return the `.dvc` files that may record a path: beside it, or beside a folder around it, below `top`."""
    around = [one for one in (path, *path.parents) if one != top and one.is_relative_to(top)]
    return [one.with_name(f"{one.name}.dvc") for one in around]


def _check_chain(commit: str, recorded: Recorded) -> None:
    """Check that each stage read what the one before it made: one may have run alone, or a lock was merged by stage."""
    stages = [recorded.lock.stages[stage] for stage in recorded.chain()]
    made = {out.path: out.md5 for stage in stages for out in stage.outs}
    for dep in (dep for stage in stages for dep in stage.deps):
        if made.get(dep.path) not in (None, dep.md5):
            raise _stale(commit, dep.path)


def _check_dependencies(registry: Registry, commit: str, recorded: Recorded) -> None:
    """Check that each dependency is unchanged in the commit, or tracked by DVC."""
    tracked = registry.repository.tracked(commit)
    top, folder = registry.repository.top, registry.project.folder
    # Which files a folder's MD5 leaves out is decided by the checked-out `.dvcignore`.
    rules = folder / ".dvcignore"
    same_rules = (registry.repository.read(commit, rules.name) or "") == (
        rules.read_bytes().decode("utf-8", "replace").removesuffix("\n") if rules.is_file() else ""
    )
    missing: dict[str, None] = {}
    for dep, md5 in recorded.code().items():
        path = located(folder, dep)
        if path.is_relative_to(top) and tracked.get(path.relative_to(top).as_posix()) == LINK:
            path = path.resolve()
        if not path.is_relative_to(top):
            raise InputError(f"{dep} is outside the repository, but the model depends on it: move it inside")
        inside = path.relative_to(top).as_posix()
        if inside in tracked:
            if tracked[inside] != LINK and registry.repository.digest(commit, inside) != md5:
                check_not_in_lfs(registry, commit, [inside])
                raise _other(registry, commit, dep, md5)
            continue
        within = {name: mode for name, mode in tracked.items() if name.startswith(f"{inside}/")}
        comparable = same_rules and _of_git_alone(within)
        if comparable and _folder_digest(digests := _files(registry, commit, inside, within)) != md5:
            check_not_in_lfs(registry, commit, within)
            _check_all_committed(registry, inside, digests, md5)
            raise _other(registry, commit, dep, md5)
        if within:
            continue
        if not (found := _recorded(registry, commit, path)):
            beside = (os.path.relpath(file, folder.resolve()) for file in dvc_files(path, top) if file.is_file())
            missing[next(beside, dep)] = None
        elif not any(_is_same(registry, path, md5, place, out) for place, out in found):
            raise _other(registry, commit, dep, md5)
    if missing:
        submodules.check(folder, recorded.pipeline)
        are, them = ("is", "it") if len(missing) == 1 else ("are", "them")
        way = "`git add`" if all(name.endswith(".dvc") for name in missing) else "`git add` or `dvc add`"
        raise InputError(f"{', '.join(missing)} {are} not committed, but the model depends on {them}: {way} {them}")


def _of_git_alone(within: Mapping[str, str]) -> bool:
    """Return whether Git has all of a folder with these files: none is ignored, tracked by DVC, or a link to another.

    within: the mode of each.
    """
    others = (PurePosixPath(name).suffix == ".dvc" or ".gitignore" in name for name in within)
    return bool(within) and LINK not in within.values() and not any(others)


def _files(registry: Registry, commit: str, folder: str, within: Iterable[str]) -> dict[str, str | None]:
    """Return the MD5 of each of a folder's files, by path in it, without those in `.dvcignore`."""
    digests, ignores = registry.repository.digests(commit, folder), registry.store.ignores
    kept = [name for name in within if not ignores(registry.repository.top / name)]
    return {name.removeprefix(f"{folder}/"): digests.get(name) for name in kept}


def _check_all_committed(registry: Registry, folder: str, found: Mapping[str, str | None], md5: str) -> None:
    """Raise `InputError` if a folder has this MD5 with the files that Git does not track. found: those that it does."""
    top = registry.repository.top
    others = Git(top)("--literal-pathspecs", "ls-files", "-z", "--others", "--", folder).split("\0")
    left = [top / name for name in others if (top / name).is_file() and not registry.store.ignores(top / name)]
    digests = {path.relative_to(top / folder).as_posix(): md5_of(path) for path in left}
    if md5 == _folder_digest({**found, **digests}):
        more = f" (and {len(left) - 1} more)" if len(left) > 1 else ""
        raise InputError(
            f"{left[0].relative_to(top)} is not committed{more}, but the model depends on all of {folder}: `git add` "
            "what is missing, or name it in .dvcignore and `dvc repro`"
        )


def _folder_digest(found: Mapping[str, str | None]) -> str:
    """Return a folder's MD5 as DVC computes it: of the list of its files, given by path in it."""
    listing = json.dumps([{"md5": found[name], "relpath": name} for name in sorted(found)], sort_keys=True)
    return hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest() + ".dir"


def _other(registry: Registry, commit: str, dep: str, md5: str) -> InputError:
    """Return the error for a dependency with other bytes in a commit than those that made the model."""
    for cause, name in line_ends.changed(registry.project, [dep]):
        return InputError(f"Git has {name} with other line endings than made the model: {cause}; {line_ends.REMEDY}")
    path, git = registry.project.folder / dep, registry.repository.git
    stored = git.ask("rev-parse", "--verify", "--quiet", f"{commit}:./{dep}")
    if stored and path.is_file() and md5_of(path) == md5 and git.ask("hash-object", "--", dep) == stored:
        return InputError(
            f"Git stores {dep} with other bytes than it checks out, so {commit[:10]} has not those that made the "
            f"model: `git check-attr --all -- {shlex.quote(dep)}` shows the filter, `ident` or encoding; exclude the "
            "file from it in .gitattributes, and `git add --renormalize` it"
        )
    return _stale(commit, dep)


def _stale(commit: str, what: str) -> InputError:
    return InputError(f"{what} of {commit[:10]} is not what made the model: its stage is stale; `dvc repro`")


def _recorded(registry: Registry, commit: str, path: Path) -> list[tuple[Path, Entry]]:
    """Return what a commit's `.dvc` files and locks record of a path, or of a folder around it, and where that is."""
    repository, found = registry.repository, []
    top, tracked = repository.top, repository.tracked(commit)
    for file in dvc_files(path, top):
        if (name := file.relative_to(top).as_posix()) in tracked:
            content = repository.git("show", f"{commit}:{name}")
            with suppress(ValueError, KeyError, TypeError):  # truncated or altered, so it records nothing
                outs = Lock.parsed({"stages": {name: {"outs": yaml_text.parsed(content)["outs"]}}}).outs()
                found += [(file.with_suffix(""), out) for out in outs]
    for name in () if found else tracked:
        if PurePosixPath(name).name == LOCK:
            with suppress(InputError):
                outs = Lock.read(repository.git("show", f"{commit}:{name}")).outs()
                made = [((top / name).parent / out.path, out) for out in outs]
                found += [(place, out) for place, out in made if path.is_relative_to(place)]
    return found


def _is_same(registry: Registry, path: Path, md5: str, place: Path, out: Entry) -> bool:
    """Return whether a path has this MD5 in what is recorded of `place`, which is the same, or a folder around it.

    True where that cannot be said: of a version in a cloud, or an MD5 as DVC 2 computed it.
    """
    if out.md5 is None or not out.is_of_bytes:
        return True
    if path == place:
        return out.md5 == md5
    below = path.relative_to(place).as_posix()
    listing = registry.store.listing(Lock({}, place.name).md5(out))
    inner = {name.removeprefix(f"{below}/"): one for name, one in listing.items() if name.startswith(f"{below}/")}
    return md5 == (_folder_digest(inner) if inner else listing.get(below))


def _check_parameters(registry: Registry, commit: str, recorded: Recorded) -> None:
    """Check that the commit's `params.yaml` and `engine.lock` have the values that its `dvc.lock` records."""
    try:
        params = yaml_text.parsed(registry.repository.read(commit, PARAMS) or "")
    except yaml_text.NotYaml:
        raise InputError(f"{PARAMS} of {commit[:10]} cannot be read: fix it and run `dvc repro`") from None
    for key, made_with in recorded.parameters().items():
        if next(dotted_key.at(params, key), None) != made_with:
            raise _stale(commit, key)
    if made_with := recorded.engine():
        try:
            engine = yaml_text.parsed(registry.repository.read(commit, engine_lock.LOCK) or "")
        except yaml_text.NotYaml:
            engine = None
        if not isinstance(engine, dict) or not made_with.items() <= engine.items():
            raise InputError(f"{engine_lock.LOCK} of {commit[:10]} is not what made the model: `dvc repro`")
