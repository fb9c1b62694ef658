"""What old runs hold goes when nothing keeps it, in real Git and DVC repositories."""

import contextlib
import fcntl
import os
import re
import time

import pytest
from repositories import Repository

from tapeline.config.project import Project
from tapeline.repository import own_runs
from tapeline.repository.git import Git
from tapeline.repository.retention.branches import run_branches
from tapeline.repository.retention.cache import Cache
from tapeline.repository.retention.copies import model_copies
from tapeline.repository.retention.item import DAY, Limits, age
from tapeline.repository.retention.prune import prune, readable
from tapeline.runtime.errors import InputError, RunError

LATER = 100 * DAY


@pytest.fixture
def repository(tmp_path):
    made = Repository(tmp_path / "project", train="cat recipe.py")
    (made.folder / ".git" / "info" / "exclude").write_text(".tapeline\n")
    return made


def pruned(repository, *, apply=True, runs=0, days=30.0, now=None):
    return list(
        prune(
            Project.find(repository.folder),
            pipelines={"one", "two"},
            limits=Limits(runs=runs, days=days),
            apply=apply,
            now=time.time() + LATER if now is None else now,
            waiting=print,
        )
    )


def build(repository, text):
    """Build pipeline `one` of another recipe and commit what came out."""
    (repository.folder / "recipe.py").write_text(f"'''{text}'''\n")
    repository.dvc("repro", "--quiet", "export@one")
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "--message", text)


def run(repository, name):
    """Leave a branch `runs/<name>` with results of its own, as an isolated run does."""
    repository.git("checkout", "--quiet", "-b", f"runs/{name}")
    build(repository, name)
    note(repository)
    repository.git("checkout", "--quiet", "main")
    repository.dvc("checkout", "--quiet", "--force", "--with-deps", "export@one")


def note(repository):
    """Remember HEAD as the commit of a run that was built here."""
    own_runs.note(Git(repository.folder), repository.git("rev-parse", "HEAD").strip())


def branches(repository):
    return repository.git("branch", "--format=%(refname:short)").split()


def weights(repository, revision):
    """Return what a revision has trained, from the cache alone; None where it is lost."""
    repository.git("checkout", "--quiet", revision)
    try:
        (repository.folder / "runs" / "one.weights").unlink(missing_ok=True)
        repository.dvc("checkout", "--quiet", "runs/one.weights")
        return (repository.folder / "runs" / "one.weights").read_text().replace('"', "'").split("'''")[1]
    except AssertionError:
        return None
    finally:
        repository.git("checkout", "--quiet", "main")


@pytest.mark.slow
def test_runs_that_nothing_keeps_go_with_their_data_and_no_other_result_does(repository, monkeypatch):
    first = repository.git("rev-parse", "HEAD").strip()
    for name in ("old", "tagged", "merged", "newest"):
        run(repository, name)
    repository.git("tag", "-a", "one@v1.0.0", "-m", "release", "runs/tagged")
    repository.git("branch", "kept-by-name", "runs/merged")
    build(repository, "main goes on")
    (repository.folder / "recipe.py").write_text("'''experiment'''\n")
    repository.dvc("exp", "run", "--quiet", "--name", "tried", "export@one")
    repository.git("checkout", "--quiet", "--force", "main")
    repository.dvc("checkout", "--quiet", "--force", "--with-deps", "export@one")
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{int(time.time()) + 60} +0000")
    repository.git("checkout", "--quiet", "runs/newest")
    repository.git("commit", "--quiet", "--amend", "--no-edit")
    note(repository)
    repository.git("checkout", "--quiet", "main")

    shown = pruned(repository, apply=False, runs=1)
    assert branches(repository) == [
        "kept-by-name",
        "main",
        *(f"runs/{n}" for n in ("merged", "newest", "old", "tagged")),
    ]
    reasons = {line.split()[1]: line.split("  ")[-1].strip() for line in shown if line.startswith("branch ")}
    assert reasons == {
        "runs/newest": "one of the newest 1",
        "runs/old": "-",
        "runs/tagged": "tag one@v1.0.0",
        "runs/merged": "branch kept-by-name",
    }
    assert shown[-1].startswith("would free ") and weights(repository, "runs/old") == "old"

    done = pruned(repository, runs=1)
    assert done[:-1] == shown[:-1] and done[-1] == shown[-1].split(":")[0].replace("would free", "freed")
    assert "runs/old" not in branches(repository)
    assert weights(repository, "one@v1.0.0") == "tagged"
    assert weights(repository, "kept-by-name") == "merged"
    assert weights(repository, "runs/newest") == "newest"
    assert weights(repository, "main") == "main goes on"
    assert weights(repository, _experiment(repository)) == "experiment"
    assert weights(repository, first).startswith("Nothing but a docstring")
    assert pruned(repository, runs=1)[-1] == "nothing to remove"


def _experiment(repository):
    refs = repository.git("for-each-ref", "--format=%(refname)", "refs/exps").split()
    return next(ref for ref in refs if ref.endswith("/tried"))


def test_what_goes_is_gone(repository):
    run(repository, "old")
    lost = repository.git("rev-parse", "runs/old").strip()
    assert weights(repository, lost) == "old"
    assert pruned(repository)[-1].startswith("freed ")
    assert weights(repository, lost) is None
    assert weights(repository, "main") is not None


@pytest.mark.long
def test_data_in_folders_and_on_both_sides_of_a_merge_and_in_stashes_stay(repository):
    table = repository.folder / "data" / "raw" / "table.csv"
    table.parent.mkdir(parents=True)

    def write(text):
        table.write_text(text)
        repository.dvc("add", "--quiet", str(table))
        repository.git("add", "--all")

    for text in ("first", "second"):
        write(text)
        repository.git("commit", "--quiet", "--message", text)
    repository.git("checkout", "--quiet", "-b", "side", "HEAD~1")
    write("of the other side")
    repository.git("commit", "--quiet", "--message", "side")
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--strategy=ours", "--message=ours", "side")
    repository.git("branch", "--quiet", "--delete", "--force", "side")
    for text in ("stashed first", "stashed last"):
        write(text)
        repository.git("stash", "--quiet")
    repository.dvc("checkout", "--quiet", "--force", str(table))
    assert pruned(repository)[-1] == "nothing to remove"
    for revision, text in (
        ("HEAD", "second"),
        ("HEAD~2", "first"),
        ("HEAD^2", "of the other side"),
        ("stash@{0}", "stashed last"),
        ("stash@{1}", "stashed first"),
    ):
        repository.git("checkout", "--quiet", revision, "--", f"{table}.dvc")
        repository.dvc("checkout", "--quiet", "--force", str(table))
        assert table.read_text() == text


@pytest.mark.slow
def test_what_a_worktree_that_is_away_may_need_stays(repository, tmp_path):
    run(repository, "old")
    repository.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "disk"))
    (tmp_path / "disk").rename(tmp_path / "away")
    shown = "\n".join(pruned(repository))
    assert "which is missing: `git worktree prune` forgets it" in shown
    repository.git("worktree", "prune")
    assert pruned(repository)[-1].startswith("freed ")


@pytest.mark.slow
def test_a_branch_on_which_somebody_works_stays_whatever_its_name(repository):
    run(repository, "taken-over")
    repository.git("checkout", "--quiet", "runs/taken-over")
    repository.git("commit", "--quiet", "--allow-empty", "--message", "my work")
    repository.git("checkout", "--quiet", "-b", "runs/ana", "main")
    repository.git("commit", "--quiet", "--allow-empty", "--message", "Ana's work")
    repository.git("checkout", "--quiet", "main")
    assert "not the commit of a run of this clone" in "\n".join(pruned(repository))
    assert branches(repository) == ["main", "runs/ana", "runs/taken-over"]


@pytest.mark.slow
def test_a_branch_that_is_checked_out_where_the_path_has_a_line_break(repository, tmp_path):
    repository.git("branch", "runs/first")
    note(repository)
    repository.git("worktree", "add", "--quiet", str(tmp_path / "a\nb"), "runs/first")
    repository.git("branch", "runs/a\u2028b")
    found = run_branches(Git(repository.folder), Limits(runs=0, days=0))
    kept = {item.name: item.kept for item in found}
    assert kept == {"runs/first": f"checked out in {tmp_path}/a\nb", "runs/a\u2028b": "branch main"}


@pytest.mark.slow
def test_a_parameter_that_was_set_back_finds_its_result_for_some_days(repository):
    recipe = (repository.folder / "recipe.py").read_text()
    (repository.folder / "recipe.py").write_text("'''another try'''\n")
    repository.dvc("repro", "--quiet", "export@one")
    (repository.folder / "recipe.py").write_text(recipe)
    repository.dvc("repro", "--quiet", "export@one")
    assert pruned(repository, now=time.time())[-1] == "nothing to remove"
    assert pruned(repository)[-1].startswith("freed ")
    assert "up to date" in repository.dvc("repro", "export@one")


def checkpoint(repository, pipeline, fingerprint, *, days, full=True):
    state = repository.folder / ".tapeline" / "checkpoints" / pipeline / fingerprint
    state.mkdir(parents=True)
    (state / "lock").touch()
    if full:
        (state / "step-000000000007").mkdir()
        (state / "step-000000000007" / "state").write_bytes(bytes(1000))
    for path in (*state.iterdir(), state):
        os.utime(path, (time.time() - days * DAY,) * 2)
    return state


@pytest.mark.slow
def test_checkpoints_of_other_parameters_go_when_they_are_old(repository):
    newest = checkpoint(repository, "one", "aa", days=50)
    young = checkpoint(repository, "gone", "aa", days=20)
    held = checkpoint(repository, "one", "bb", days=60)
    going = [
        checkpoint(repository, "one", "cc", days=70),
        checkpoint(repository, "one", "dd", days=2, full=False),
        checkpoint(repository, "gone", "bb", days=40),
    ]
    with (held / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shown = "\n".join(pruned(repository, now=time.time()))
    assert "a training is in progress" in shown and "the newest of one" in shown and "younger than 30 days" in shown
    assert "one/dd, 2 days old, empty" in shown
    assert not any(state.exists() for state in going)
    assert newest.exists() and young.exists() and held.exists()


@pytest.mark.parametrize("still", [True, False])
def test_checkpoints_of_a_training_that_began_since_they_were_listed_stay(repository, still):
    state = checkpoint(repository, "gone", "aa", days=40)
    with contextlib.ExitStack() as stack:
        told = []
        for line in prune(
            Project.find(repository.folder), pipelines=(), limits=Limits(), apply=True, now=time.time(), waiting=print
        ):
            if not told:  # the table's first line: all is listed, and nothing is removed
                lock = stack.enter_context((state / "lock").open("r+"))
                fcntl.flock(lock, fcntl.LOCK_EX)
                lock.write("1")
                if not still:
                    lock.close()
            told.append(line)
    assert (state / "step-000000000007" / "state").exists()
    assert told[-2:] == ["checkpoints gone/aa, 40 days old: kept, since it was used meanwhile", "freed 0 B"]


def worktree(repository, name, *, failed=False):
    folder = repository.folder / ".tapeline" / "worktrees" / name
    repository.git("worktree", "add", "--quiet", "--detach", str(folder))
    (folder.parent / f"{name}.lock").touch()
    if failed:
        (folder.parent / f"{name}.failed").write_text("it failed\n")
    return folder


@pytest.mark.slow
def test_worktrees_of_failed_runs_go_and_one_that_runs_keeps_the_cache(repository):
    failed, going_on = worktree(repository, "failed", failed=True), worktree(repository, "going-on")
    run(repository, "old")
    with (going_on.parent / "going-on.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shown = pruned(repository)
        assert any("isolated runs are in progress" in line for line in shown if line.startswith("cache"))
    assert going_on.exists() and not failed.exists()
    assert [line.split()[0] for line in repository.git("worktree", "list").splitlines()] == [
        str(repository.folder),
        str(going_on),
    ]
    assert any(line.startswith("cache") and line.endswith("  -") for line in pruned(repository, apply=False))


@pytest.mark.slow
def test_a_run_of_another_project_of_the_repository_keeps_the_cache(repository):
    """It may have stored what no `dvc.lock` names yet."""
    run(repository, "old")
    worktree = repository.folder / ".tapeline" / "learning" / "worktrees" / "brave-otter"
    repository.git("worktree", "add", "--quiet", "--detach", str(worktree), "main")
    with worktree.with_name("brave-otter.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert any("isolated runs are in progress" in line for line in pruned(repository, apply=False))
    assert not any("isolated runs are in progress" in line for line in pruned(repository, apply=False))


@pytest.mark.slow
def test_a_cache_of_several_repositories_is_left_alone(repository, tmp_path):
    repository.dvc("cache", "dir", "--local", str(tmp_path / "shared"))
    with pytest.raises(InputError, match=r"DVC's cache .*shared.* is outside this repository"):
        pruned(repository)


@pytest.mark.slow
def test_nothing_is_removed_while_dvc_is_at_work(repository):
    from dvc.repo import Repo

    run(repository, "old")
    with Repo(str(repository.folder)) as repo, repo.lock, pytest.raises(RunError, match="another DVC is at work"):
        pruned(repository)
    assert "runs/old" in branches(repository)


@pytest.mark.slow
def test_the_data_of_many_tags(repository):
    """Their names are too long for a command line."""
    head = repository.git("rev-parse", "HEAD").strip()
    names = sorted(f"refs/tags/digits@v1.{minor}.0" for minor in range(60_000))
    head_of = "# pack-refs with: peeled fully-peeled sorted \n"
    packed = repository.folder / ".git" / "packed-refs"
    packed.write_text(head_of + "".join(f"{head} {name}\n" for name in names))
    git = Git(repository.folder)
    used = Cache(git, repository.folder / ".dvc" / "cache" / "files" / "md5")._recorded((), (), ())
    assert used == set(re.findall(r"\b[0-9a-f]{32}(?:\.dir)?\b", (repository.folder / "dvc.lock").read_text()))


def test_sizes_and_ages_for_people():
    assert [readable(n) for n in (0, 999, 1000, 1536000, 12_345_678_901)] == [
        "0 B",
        "999 B",
        "1 kB",
        "1.54 MB",
        "12.3 GB",
    ]
    assert [age(n) for n in (5, 60, 7300, 86400, 40 * DAY)] == ["moments", "1 minute", "2 hours", "1 day", "40 days"]


def test_a_copy_of_a_model_goes_when_it_was_long_not_used(tmp_path):
    used, unused, cut = (tmp_path / name for name in ("used", "unused", ".cut.partial"))
    for copy, days in ((used, 29), (unused, 31), (cut, 2)):
        copy.mkdir()
        (copy / "weights").write_bytes(b"123")
        os.utime(copy, (LATER - days * DAY,) * 2)
    (tmp_path / "unused.lock").touch()

    def found():
        return {item.name: item.kept for item in model_copies(tmp_path, limits=Limits(), now=LATER)}

    assert found() == {
        "cut, used 2 days ago": "",
        "unused, used 31 days ago": "",
        "used, used 29 days ago": "younger than 30 days",
    }
    with (tmp_path / "unused.lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert found()["unused, used 31 days ago"] == "a copy is in progress"
    for item in model_copies(tmp_path, limits=Limits(), now=LATER):
        item.kept or item.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["used"]


def test_copies_for_predictions_and_for_training_from_a_version(repository):
    """Those of `train.init_from` stayed for ever."""
    state = repository.folder / ".tapeline"
    copies = [state / "registry" / "models" / ("1" * 32), state / "init_from" / ("2" * 32)]
    for copy in copies:
        copy.mkdir(parents=True)
    assert [line.split()[2] for line in pruned(repository) if line.startswith("model copy ")] == [
        "1111111111,",
        "2222222222,",
    ]
    assert not any(copy.exists() for copy in copies)
