"""What somebody put in the place of Tapeline's own files, and what the real commands do: one line, soon, nothing elsewhere."""

import os
import subprocess
import time

import pytest

from tests.fuzz.test_command_line import call, project, refused, repository  # noqa: F401  # fixtures

NO_FILE = "is a link, a folder, a FIFO or the like"
OLD = time.time() - 100 * 86_400


@pytest.fixture
def victim(tmp_path_factory):
    """A folder elsewhere, long not changed, with what `prune` would take for a checkpoint in it."""
    folder = tmp_path_factory.mktemp("victim")
    (folder / "state" / "step-1").mkdir(parents=True)
    (folder / "state" / "step-1" / "a").write_text("as it was")
    (folder / "file").write_text("as it was")
    for path in (folder / "state" / "step-1", folder / "state"):
        os.utime(path, (OLD, OLD))
    return folder


def untouched(victim):
    found = {path.relative_to(victim).as_posix() for path in victim.rglob("*")}
    texts = {(victim / name).read_text() for name in ("file", "state/step-1/a")}
    return found == {"file", "state", "state/step-1", "state/step-1/a"} and texts == {"as it was"}


def lay(kind, path, victim):
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"link": victim / "file", "nowhere": victim / "new", "tree": victim}[kind])


@pytest.mark.parametrize("kind", ["fifo", "link", "nowhere", "folder"])
@pytest.mark.parametrize(
    "name",
    [
        ".tapeline/locks/ingest@points.lock",
        ".tapeline/progress/ingest@points.jsonl",
        ".tapeline/outcome/.ingest@points.json.partial",
    ],
)
def test_a_stage(project, root, victim, name, kind):  # noqa: F811
    lay(kind, project / name, victim)
    refused(call(project, "tapeline", "ingest", "points", root=root), NO_FILE)
    assert untouched(victim)


def test_a_folder_where_the_outcome_goes(project, root):  # noqa: F811
    (project / ".tapeline/outcome/ingest@points.json").mkdir(parents=True)
    answer = call(project, "tapeline", "ingest", "points", root=root)
    assert answer.returncode == 2 and "Traceback" not in answer.stderr
    assert "a folder, where a file should be" in answer.stderr


@pytest.mark.parametrize("kind", ["fifo", "link", "tree"])
def test_what_ingest_did_not_write_is_not_replaced(project, root, victim, kind):  # noqa: F811
    lay(kind, project / "data/points", victim)
    refused(call(project, "tapeline", "ingest", "points", root=root), "ingest did not write it; move it elsewhere")
    assert untouched(victim) and (project / "data/points").exists()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("data/points", "nowhere"),
        *(
            (f"data/.points{end}", kind)
            for end in (".partial", ".old.partial")
            for kind in ("fifo", "link", "tree", "nowhere")
        ),
    ],
)
def test_an_output_takes_the_place_of_what_is_no_folder(project, root, victim, name, kind):  # noqa: F811
    lay(kind, project / name, victim)
    assert call(project, "tapeline", "ingest", "points", root=root).returncode == 0
    assert untouched(victim) and [path.name for path in (project / "data").iterdir()] == ["points"]
    assert (project / "data/points/dataset.json").is_file() and not (project / "data/points").is_symlink()


@pytest.mark.parametrize("kind", ["fifo", "nowhere"])
def test_the_state_is_no_folder(project, root, victim, kind):  # noqa: F811
    lay(kind, project / ".tapeline", victim)
    answer = call(project, "tapeline", "ingest", "points", root=root)
    assert answer.returncode == 2 and "Not a directory" in answer.stderr and "Traceback" not in answer.stderr
    assert untouched(victim)


def committed(repository):  # noqa: F811
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    subprocess.run(["git", "add", "--all", "--force"], cwd=repository, check=True)
    subprocess.run(["git", *who, "commit", "--quiet", "--message", "one"], cwd=repository, check=True)


@pytest.mark.first(4)
@pytest.mark.parametrize("kind", ["fifo", "link", "nowhere", "folder"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        (".tapeline/checkpoints/long/0123/lock", ()),
        (".tapeline/registry/models/a.lock", ()),
        (".tapeline/worktrees/a.lock", ()),
        (".tapeline/worktrees/.lock", ("--apply",)),
    ],
)
def test_prune(repository, root, victim, name, options, kind):  # noqa: F811
    committed(repository)
    (repository / ".tapeline/registry/models/a").mkdir(parents=True)
    lay(kind, repository / name, victim)
    answer = call(repository, "tapeline", "prune", *options, root=root)
    if kind == "folder" and name.endswith("/a.lock") and "worktrees" in name:
        assert answer.returncode == 0 and "a.lock, crashed" in answer.stdout, (
            "a worktree of an older version, whose name it is"
        )
    else:
        refused(answer, NO_FILE)
    assert untouched(victim)


@pytest.mark.parametrize("name", ["checkpoints/long", "checkpoints/long/0123", "checkpoints", "registry/models/a"])
def test_prune_goes_into_no_folder_elsewhere(repository, root, victim, tmp_path_factory, name):  # noqa: F811
    """Your own link to a larger disk is followed; what is behind another one is not removed."""
    committed(repository)
    target = victim
    if name == "checkpoints":
        target = tmp_path_factory.mktemp("mine")
        (target / "long" / "state").mkdir(parents=True)
    place = repository / ".tapeline" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)
    (repository / ".tapeline/checkpoints/other").mkdir(parents=True, exist_ok=True)
    (repository / ".tapeline/checkpoints/other/dangling").symlink_to("nowhere")
    answer = call(repository, "tapeline", "prune", "--apply", "--days", "0", root=root)
    assert answer.returncode == 0, answer.stderr
    assert untouched(victim)
    if name == "checkpoints":
        assert not (target / "long" / "state").exists() and (target / "long").exists()


@pytest.mark.first(4)
@pytest.mark.parametrize(
    "name",
    [
        *(".tapeline", ".tapeline/checkpoints", ".tapeline/checkpoints/long", "data", "data/points", "serving/one"),
        *("runs", "runs/long", "runs/long/validate", "runs/long/validate/plots", "runs/long/train/metrics.json"),
    ],
)
def test_a_link_that_came_with_a_repository(repository, root, victim, name):  # noqa: F811
    """It led `ingest`, `prune`, `registry sync` anywhere, and they replace and remove folders."""
    place = repository / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(victim)
    committed(repository)
    said = f"{name} is a link that came with this repository, through which Tapeline would write"
    for command in (("ingest", "points"), ("prune", "--apply", "--days", "0"), ("list",), ("registry", "sync")):
        refused(call(repository, "tapeline", *command, root=root), said)
    assert untouched(victim)


def test_raw_data_may_be_a_link(repository, root, victim):  # noqa: F811
    (repository / "data").mkdir(exist_ok=True)
    (repository / "data/raw").symlink_to(victim)
    committed(repository)
    assert call(repository, "tapeline", "ingest", "points", root=root).returncode == 0
    assert untouched(victim)
