"""Notify a Prefect server when a dataset has changed on the branch that scheduled runs train.

    python -m tapeline.orchestration.data_changes [--ref BRANCH]    # one look, for cron or a Git hook

`make serve` checks by itself.

The event is `tapeline.data-changed` of the resource `tapeline.dataset.NAME`; `prefect.yaml` has a trigger for it.
Only the branch is compared: the Git id of the raw data's `.dvc` file (or of the data), and the dataset's settings.
"""

import hashlib
import json
import posixpath
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tapeline.config.params import NAME
from tapeline.config.project import PARAMS, Project
from tapeline.orchestration.connection import command, discovery
from tapeline.parsing import yaml_text
from tapeline.repository.git import Git
from tapeline.runtime import files, streams
from tapeline.runtime.arguments import Parser
from tapeline.runtime.errors import InputError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

FOLDER = "data-seen"
LOOKED = ".commit"
"""The file with the commit that was looked at last: no dataset is called so."""


def tell_changes(client: "SyncPrefectClient", project: Project, *, ref: str = "") -> Iterator[str]:
    """Send an event for each dataset that has changed since the last check of this ref, and yield a line for each.

    The first check only records the state. An event that the server did not accept is sent at the next check. Raises
    `InputError` for a ref that does not exist or has no readable `params.yaml`, `RunError` for what Git cannot read,
    and httpx's errors.
    """
    from tapeline.orchestration.reports.events import DATA_CHANGED, send

    git = Git(project.folder)
    ref = ref or git.main_branch()
    commit = git.commit_of(ref)
    folder = project.shared / FOLDER / f"@{quote(ref, safe='')}"
    looked = folder / LOOKED
    if looked.exists() and files.read_bytes(looked).decode("utf-8", "replace") == commit:
        return
    for name, now in versions(git, commit).items():
        seen = folder / name
        before = files.read_bytes(seen).decode("utf-8", "replace") if seen.exists() else None
        if before == now:
            continue
        if before is not None:
            files.write_text(seen, before)  # else, on a full disk, the event would be sent again and again
            send(
                client,
                project,
                DATA_CHANGED,
                kind="dataset",
                name=name,
                payload={"ref": ref, "commit": commit, "data": now},
            )
            yield f"the data of {name} has changed on {ref} ({commit[:7]})"
        files.write_text(seen, now)
    files.write_text(looked, commit)


def versions(git: Git, commit: str) -> dict[str, str]:
    """Return a version hash for each dataset of a commit: equal as long as ingest would produce the same output.

    Raises `InputError` without readable datasets or for a name that no dataset may have, since files are called by it,
    and `RunError` if Git cannot read the commit's files.
    """
    text = git.blob(commit, f"./{PARAMS}")
    try:
        datasets = dict((yaml_text.parsed(text or "") or {}).get("datasets", {}))
    except (AttributeError, TypeError, ValueError):
        datasets = {}
    if not datasets:
        raise InputError(f"commit {commit[:7]} has no {PARAMS} with datasets: give a ref that has them")
    if wrong := [name for name in datasets if not (isinstance(name, str) and NAME.fullmatch(name))]:
        rule = "use lower-case letters, digits and inner hyphens"
        raise InputError(f"{PARAMS} of commit {commit[:7]}: {wrong[0]!r} is not a name of a dataset: {rule}")
    return {name: _version(git, commit, entry) for name, entry in datasets.items() if isinstance(entry, Mapping)}


def _version(git: Git, commit: str, entry: Mapping[str, Any]) -> str:
    """Return a hash of a dataset's settings and of Git's ids of its source path and of the links in it."""
    needs = PurePosixPath(str(entry.get("needs", "")))
    known = [found for path in (needs, *_linked(git, commit, needs)) for found in _ids(git, commit, path)]
    plain = json.loads(json.dumps([entry, known], default=str))  # makes all keys strings, so that they sort
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def _ids(git: Git, commit: str, path: PurePosixPath) -> list[str]:
    """Return Git's ids of a path and of the `.dvc` files that may track it."""
    places = [str(path), *(f"{above}.dvc" for above in (path, *path.parents) if above.name)]
    return [found for place in places if (found := git.ask("rev-parse", "--verify", "-q", f"{commit}:./{place}"))]


def _linked(git: Git, commit: str, folder: PurePosixPath) -> Iterator[PurePosixPath]:
    """Yield the targets of a folder's links, relative to the project: Git's id of a link covers only its text."""
    listed = git.ask("ls-tree", "-r", "-z", commit, "--", f"./{folder}") or ""
    for entry in filter(None, listed.split("\0")):
        about, _, name = entry.partition("\t")
        if about.startswith("120000 "):
            target = git("cat-file", "blob", about.split()[2])
            yield PurePosixPath(posixpath.normpath(PurePosixPath(name).parent / target))


def main(argv: Sequence[str] | None = None) -> int:
    """Check once, and return the exit status."""
    parser = Parser(
        prog="python -m tapeline.orchestration.data_changes",
        description="report changed data as events, which can start a training",
    )
    parser.add_argument("--ref", default="", help="the branch to check (default: the main branch)")
    options = parser.parse_args(argv)
    return command.status("data_changes", lambda: _tell_all(options.ref))


def _tell_all(ref: str) -> None:
    project = Project.find()
    discovery.use_configured(project)
    with command.client() as client:
        streams.say("\n".join(tell_changes(client, project, ref=ref)) or "no data has changed", sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
