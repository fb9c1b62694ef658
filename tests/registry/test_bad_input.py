"""What a user can get wrong: one line, exit status 2, and nothing changed."""

import argparse
import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest

from tapeline.cli import registry as commands
from tapeline.cli.main import main

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # dvc-data, of pygtrie

REGISTER = ("register", "one")
PROMOTE = ("promote", "one", "prod")
TWO = (
    "  two: {dataset: points, recipe: recipe.py, needs: make.py, params: {value: 2}, validate: {}, export: {}, "
    "train: {epochs: 1, batch_size: 1}}"
)
ENVIRONMENT = "runs/one/environment.json"


def edit(path, old, new):
    def change(registry):
        file = registry.folder / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    return change


def committed(*changes):
    def change(registry):
        for one in changes:
            one(registry)
        registry.git("commit", "--quiet", "--all", "--message", "changed")

    return change


def new_commit(registry):
    registry.git("commit", "--quiet", "--allow-empty", "--message", "more")


def in_lfs(registry, name):
    """Commit a pointer for a file, and have Git check out the file itself, as Git LFS does."""
    kept = registry.folder / ".git/kept"
    kept.write_bytes((registry.folder / name).read_bytes())
    registry.git("config", "filter.lfs.clean", "echo version https://git-lfs.github.com/spec/v1")
    registry.git("config", "filter.lfs.smudge", "cat .git/kept")
    (registry.folder / ".gitattributes").write_text(f"{name} filter=lfs\n")
    registry.git("add", "--renormalize", ".")
    registry.git("add", ".gitattributes")
    registry.git("commit", "--quiet", "--message", "Git LFS")


def new_model(registry):
    registry.build(9)


def unpushed_model(registry):
    shutil.rmtree(registry.folder.parent / "remote")
    (registry.folder.parent / "remote").mkdir()
    registry.build(9)
    shutil.rmtree(registry.folder.parent / "remote")
    (registry.folder.parent / "remote").mkdir()


def no_remote(registry):
    registry.dvc("remote", "remove", "store")
    registry.git("commit", "--quiet", "--all", "--message", "no remote")


def cached(registry, path):
    """Return the cached file of an out of the highest version's model."""
    lock = (registry.folder / "dvc.lock").read_text()
    listing = lock.split("models/one")[1].split("md5: ", 1)[1].split()[0]
    cache = registry.folder / ".dvc" / "cache" / "files" / "md5"
    folder = cache / listing[:2] / listing[2:]
    if not path:
        return folder
    md5 = next(entry["md5"] for entry in json.loads(folder.read_text()) if entry["relpath"] == path)
    return cache / md5[:2] / md5[2:]


def rewrite(path, change):
    def altered(registry):
        file = cached(registry, path)
        file.chmod(0o644)
        file.write_bytes(change(file.read_bytes()))

    return altered


def lost(path):
    def gone(registry):
        cached(registry, path).unlink()
        no_remote(registry)

    return gone


def escaping(registry):
    """A listing of a folder whose name is right and whose paths leave it."""
    import hashlib

    old = cached(registry, "")
    content = old.read_bytes().replace(b"saved_model/saved_model.pb", b"../../../../../escaped.pb ")
    md5 = hashlib.md5(content).hexdigest() + ".dir"
    new = old.parents[1] / md5[:2] / md5[2:]
    new.parent.mkdir(exist_ok=True)
    new.write_bytes(content)
    edit("dvc.lock", f"{old.parent.name}{old.name}", md5)(registry)
    registry.git("commit", "--quiet", "--all", "--message", "altered lock")
    record = {"sha256": {"model": {"model.json": "0" * 64}}}
    registry.git("tag", "--annotate", "one@v9.0.0", "--message", f"x\n\n{json.dumps(record)}")


def later_tag(registry):
    environment = {**os.environ, "GIT_COMMITTER_DATE": f"@{int(time.time()) + 5000} +0000"}
    import subprocess

    subprocess.run(
        ["git", "tag", "-a", "one#dev#7", "-m", "x", "one@v1.0.0^{commit}"],
        cwd=registry.folder,
        env=environment,
        check=True,
    )


def anonymous(registry):
    registry.git("config", "--unset", "user.name")
    registry.git("config", "--unset", "user.email")
    registry.git("config", "user.useConfigOnly", "true")


NOTHING = None
CASES = {
    "no such pipeline": (NOTHING, ("register", "two"), "no pipeline 'two'"),
    "upper case": (NOTHING, ("register", "One"), "'One' is not a model name: use lower-case"),
    "a path for a name": (NOTHING, ("register", "../one"), "'../one' is not a model name"),
    "a shell's command for a name": (NOTHING, ("register", "one;id"), "'one;id' is not a model name"),
    "an option for a name": (NOTHING, ("show", "-"), "'-' is not a model name"),
    "a name with a newline": (NOTHING, ("history", "one\n"), r"'one\n' is not a model name"),
    "no name": (NOTHING, ("register", ""), "'' is not a model name"),
    "a version for a name": (NOTHING, ("register", "one@v1.0.0"), "'one@v1.0.0' is not a model name"),
    "two numbers": (new_model, (*REGISTER, "--version", "1.0"), "'1.0' is not a version: write three numbers"),
    "four numbers": (new_model, (*REGISTER, "--version", "1.0.0.0"), "'1.0.0.0' is not a version"),
    "a pre-release": (new_model, (*REGISTER, "--version", "2.0.0-rc1"), "'2.0.0-rc1' is not a version"),
    "a leading zero": (new_model, (*REGISTER, "--version", "2.00.0"), "'2.00.0' is not a version"),
    "a version that exists": (
        new_model,
        (*REGISTER, "--version", "1.0.0"),
        "one@v1.0.0 exists already: a version never changes",
    ),
    "a version below": (new_model, (*REGISTER, "--version", "0.1.0"), "v0.1.0 is below v1.0.0, which exists"),
    "the same commit again": (NOTHING, REGISTER, "is already one@v1.0.2"),
    "the same bytes again": (new_commit, REGISTER, "one@v1.0.2 has exactly these bytes: promote that one"),
    "a lightweight tag of that name": (
        lambda r: (new_model(r), r.git("tag", "one@v1.0.3")),
        REGISTER,
        "the tag one@v1.0.3 already exists, and a tag is never changed",
    ),
    "a dirty tree": (
        lambda r: (new_model(r), edit("make.py", "graph", "grape")(r)),
        REGISTER,
        "make.py is not committed",
    ),
    "a staged file": (
        lambda r: (new_model(r), edit("recipe.py", "A", "B")(r), r.git("add", "recipe.py")),
        REGISTER,
        "recipe.py is not committed",
    ),
    "a committed file that is gone": (
        lambda r: (new_model(r), (r.folder / ENVIRONMENT).unlink()),
        REGISTER,
        "runs/one/environment.json is not committed: a version is a commit",
    ),
    "two changed files": (
        lambda r: (new_model(r), edit("params.yaml", "staging", "staged")(r), edit("recipe.py", "A", "B")(r)),
        REGISTER,
        "params.yaml is not committed (and 1 more): a version is a commit",
    ),
    "code that is newer than the model": (committed(edit("make.py", "graph", "grape")), REGISTER, "its stage is stale"),
    "an altered out": (lambda r: (new_model(r), alter(r, "model.json")), REGISTER, "export@one is stale"),
    "an out that is gone": (lambda r: (new_model(r), shutil.rmtree(r.folder / "models")), REGISTER, "models/one"),
    "a cache that lost a file": (
        lambda r: (new_model(r), cached(r, "saved_model/saved_model.pb").unlink()),
        REGISTER,
        "the cache has lost",
    ),
    "a remote that lacks it": (unpushed_model, REGISTER, "run `dvc push` first"),
    "a remote that is not there": (
        lambda r: (new_model(r), r.dvc("config", "--local", "core.remote", "stor")),
        REGISTER,
        "the DVC remote cannot be used: config file error: remote 'stor' doesn't exist",
    ),
    "a remote whose library is not installed": (
        lambda r: (
            new_model(r),
            r.dvc("remote", "add", "--local", "far", "oss://bucket/path"),
            r.dvc("config", "--local", "core.remote", "far"),
        ),
        REGISTER,
        "the DVC remote cannot be used: ",
    ),
    "a detached HEAD": (
        lambda r: (new_model(r), r.git("switch", "--quiet", "--detach")),
        REGISTER,
        "or name the commit: `tapeline registry register one --rev HEAD`",
    ),
    "nobody known to Git": (lambda r: (new_model(r), anonymous(r)), REGISTER, "Git does not know who you are"),
    "a revision that is none": (NOTHING, (*REGISTER, "--rev=-x"), "ref is '-x': no such branch, tag or commit"),
    "another commit's code": (
        lambda r: (new_model(r), committed(edit("make.py", "graph", "grape"))(r)),
        (*REGISTER, "--rev", "HEAD"),
        "is not what made the model: its stage is stale",
    ),
    "code in Git LFS": (
        lambda r: (new_model(r), in_lfs(r, "make.py")),
        REGISTER,
        "make.py is in Git LFS, so ",
    ),
    "a machine's description in Git LFS": (
        lambda r: (new_model(r), in_lfs(r, "runs/one/environment.json")),
        REGISTER,
        "runs/one/environment.json is in Git LFS, so ",
    ),
    "no lock": (
        lambda r: (r.git("rm", "--quiet", "dvc.lock"), r.git("commit", "--quiet", "--message", "x")),
        REGISTER,
        "has no dvc.lock: run `dvc repro export@one`",
    ),
    "what was never built": (
        lambda r: (
            edit("params.yaml", "pipelines:\n", f"pipelines:\n{TWO}\n")(r),
            committed(edit("dvc.yaml", "artifacts:\n", "artifacts:\n  two: {path: models/two}\n"))(r),
        ),
        ("register", "two"),
        "dvc.lock records no models/two of export@two: run `dvc repro export@two`",
    ),
    "another commit's parameters": (
        lambda r: (
            new_model(r),
            committed(edit("params.yaml", "{value: 9}", "{value: 10}"))(r),
            r.git("switch", "-qc", "x"),
        ),
        (*REGISTER, "--rev", "main"),
        "pipelines.one.params of ",
    ),
    "another commit's command": (
        lambda r: (new_model(r), committed(edit("dvc.yaml", "make.py export", "./make.py export"))(r)),
        (*REGISTER, "--rev", "HEAD"),
        "export@one is stale",
    ),
    "no artifact in dvc.yaml": (
        lambda r: (new_model(r), committed(edit("dvc.yaml", "artifacts:\n  one:", "artifacts:\n  two:"))(r)),
        REGISTER,
        "has no artifact one: add `artifacts: {one: {path: models/one}}`",
    ),
    "another path for the artifact": (
        lambda r: (new_model(r), committed(edit("dvc.yaml", "path: models/one,", "path: models/two,"))(r)),
        REGISTER,
        "has no artifact one",
    ),
    "no description of the machine": (
        lambda r: (new_model(r), r.git("rm", "-q", ENVIRONMENT), r.git("commit", "-qm", "x")),
        REGISTER,
        "so nobody could say where the model was made: `dvc repro -f -s train@one` trains again and writes it",
    ),
    "a description of the machine that Git ignores": (
        lambda r: (
            new_model(r),
            r.git("rm", "-q", "--cached", ENVIRONMENT),
            committed(edit(".gitignore", f"!/{ENVIRONMENT.replace('one', '*')}\n", ""))(r),
        ),
        REGISTER,
        "so nobody could say where the model was made: `git add` it, and commit",
    ),
    "a cut description of the machine": (
        lambda r: (new_model(r), committed(edit(ENVIRONMENT, "}}", ""))(r)),
        REGISTER,
        "was truncated or altered: `tapeline train one` writes it again",
    ),
    "a cut lock": (
        lambda r: ((r.folder / "dvc.lock").write_text("schema: '2.0'\nst"), r.git("commit", "-qam", "x")),
        REGISTER,
        "dvc.lock of commit",
    ),
    "a tag from the future": (
        lambda r: (new_model(r), later_tag(r)),
        REGISTER,
        "s in the future: set this machine's clock",
    ),
    "no Git repository": (
        lambda r: shutil.rmtree(r.folder / ".git"),
        ("show",),
        "is not in a Git repository: `git init` makes one",
    ),
    "no DVC repository": (lambda r: shutil.rmtree(r.folder / ".dvc"), PROMOTE, "DVC: "),
    "no params.yaml": (lambda r: (r.folder / "params.yaml").unlink(), ("show",), "no params.yaml in"),
    "a misspelt setting": (
        edit("params.yaml", "staging: {gate", "staging: {gaet"),
        PROMOTE,
        "registry.stages.staging.gaet: no such setting; did you mean 'gate'?",
    ),
    "a stage with a bad name": (edit("params.yaml", "staging:", "Staging!:"), PROMOTE, "'Staging!' is not a stage"),
    "bounds for no pipeline": (
        lambda r: (r.folder / "params.yaml").write_text(
            (r.folder / "params.yaml").read_text() + "  models: {onne: {}}\n"
        ),
        PROMOTE,
        "registry.models has 'onne': no such pipeline; did you mean 'one'?",
    ),
    "an unknown stage": (
        NOTHING,
        ("promote", "one", "production"),
        "no stage 'production': params.yaml has dev, staging, prod",
    ),
    "a path for a stage": (NOTHING, ("promote", "one", "prod/../x"), "'prod/../x' is not a stage name"),
    "an unknown version": (
        NOTHING,
        ("promote", "one@v7.0.0", "prod"),
        "no version one@v7.0.0: the versions are v1.0.0, v1.0.1, v1.0.2",
    ),
    "a version in words": (NOTHING, ("promote", "one@latest", "prod"), "'latest' is not a version"),
    "two versions": (
        NOTHING,
        ("promote", "one@v1.0.0@v1.0.1", "prod"),
        "is not a model: give NAME, NAME@v1.0.0 or NAME#stage",
    ),
    "an empty stage": (NOTHING, ("lineage", "one#staging"), "no version of one is in staging: promote one"),
    "altered bytes": (
        rewrite("saved_model/saved_model.pb", lambda b: b[:-1] + b"X"),
        PROMOTE,
        "was altered: its MD5 does not match its name",
    ),
    "an altered listing": (rewrite("", lambda b: b.replace(b"model.json", b"m.json")), PROMOTE, "was altered"),
    "lost bytes and no remote": (lost("saved_model/saved_model.pb"), PROMOTE, "is missing and no DVC remote is set"),
    "a path that leaves its folder": (
        escaping,
        ("promote", "one@v9.0.0", "prod"),
        "leads out of its folder: the record was altered",
    ),
    "a person's yes is missing": (
        edit("params.yaml", "prod: {gate", "prod: {approval: true, gate"),
        PROMOTE,
        "prod requires a person's approval",
    ),
    "a stage is skipped": (
        edit("params.yaml", "prod: {gate", "prod: {previous: true, gate"),
        PROMOTE,
        "was never in staging",
    ),
    "nothing to roll back": (NOTHING, ("rollback", "one", "staging"), "no version of one is in staging"),
    "nothing to go back to": (
        lambda r: r.git("tag", "--delete", "one#prod#1"),
        ("rollback", "one", "prod"),
        "no version of one was in prod before v1.0.1",
    ),
    "back to what never was": (
        NOTHING,
        ("rollback", "one", "prod", "--to", "v1.0.2"),
        "one@v1.0.2 was never in prod: promote it",
    ),
    "back to no version": (NOTHING, ("rollback", "one", "prod", "--to", "prod"), "'prod' is not a version"),
    "a model without versions": (
        lambda r: r.git("tag", "--delete", *r.tags()),
        ("history", "one"),
        "one has no version: `tapeline registry register one` creates one",
    ),
    "a revocation of what is not there": (NOTHING, ("revoke", "one@v9.0.0", "--because", "x"), "one@v9.0.0"),
    "an approval without a policy": (
        NOTHING,
        ("approve", "one@v1.0.0", "--stage", "prod"),
        "there is no trust policy here",
    ),
    "an approval of no version": (
        NOTHING,
        ("approve", "one", "--stage", "prod"),
        "'one' does not name a version: give NAME@v1.0.0",
    ),
    "vouching without a policy": (NOTHING, ("vouch", "one@v1.0.0"), "there is no trust policy here"),
    "an audit of a policy that is not committed": (
        edit("params.yaml", "registry:", "registry:\n  trust: {}"),
        ("audit",),
        "params.yaml: registry.trust.",
    ),
    "a revocation without a reason": (NOTHING, ("revoke", "one@v1.0.0", "--because", " "), "--because"),
    "a model that is served nowhere": (NOTHING, ("sync", "nothing"), "nothing"),
}


def alter(registry, name):
    path = registry.folder / "models" / "one" / name
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b" ")


FAST = {"a version below", "a dirty tree", "an altered out", "a remote that lacks it"}
"""Of the cases that change something, which takes seconds."""


@pytest.mark.in_ci(10)
@pytest.mark.parametrize(
    "case",
    [
        case if damage is NOTHING or case in FAST else pytest.param(case, marks=pytest.mark.slow)
        for case, (damage, *_) in CASES.items()
    ],
)
def test_one_line_and_nothing_changed(registry, case, monkeypatch, capsys):
    damage, arguments, said = CASES[case]
    if damage:
        damage(registry)
    before = registry.state() if (registry.folder / ".git").exists() else None
    monkeypatch.chdir(registry.folder)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    status = main(["registry", *arguments])
    out, err = capsys.readouterr()
    assert (status, out) == (2, ""), err
    assert err.startswith("tapeline: ") and err.count("\n") == 1, err
    assert said in err
    for commit in re.findall(r"\b[0-9a-f]{7,40}\b", err) if before else ():
        assert len(commit) == 10 or commit not in before["refs"], "Git names a commit by ten digits here"
    if before is not None:
        assert registry.state() == before
    assert not Path(registry.folder.parent, "escaped.pb").exists()


def test_a_mistake_of_another_pipeline_is_no_obstacle(registry, monkeypatch, capsys):
    edit("params.yaml", "\nregistry:", f"\n{TWO}\nregistry:".replace("epochs: 1", "epochs: 0"))(registry)
    monkeypatch.chdir(registry.folder)
    assert main(["registry", "history", "one"]) == 0
    assert main(["registry", "lineage", "one#prod"]) == 0
    capsys.readouterr()
    assert main(["registry", "history", "two"]) == 2
    assert capsys.readouterr().err.startswith("tapeline: params.yaml: pipelines.two.train.epochs is 0: must be")


def test_every_command_that_changes_or_shows_has_a_case():
    """`gate` refuses what `promote` does, before it is asked."""
    parser = argparse.ArgumentParser()
    commands.add(parser.add_subparsers())
    (inner,) = [a for a in parser._actions[-1].choices["registry"]._actions if isinstance(a.choices, dict)]
    assert {arguments[0] for _, arguments, _ in CASES.values()} == inner.choices.keys() - {"gate"}
