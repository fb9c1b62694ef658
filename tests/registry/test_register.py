"""Registering: the tags are GTO's, the record is complete, and plain tools read the same."""

import json

import pytest
from repositories import Repository

from tapeline.repository import own_runs
from tapeline.repository.git import Git


def record(registry, tag):
    """Return the JSON object in a tag's message."""
    return json.loads(registry.git("tag", "--list", "--format=%(contents:body)", tag))


def test_the_first_version_and_what_its_tag_says(fresh):
    said = fresh("registry", "register", "one").stdout
    head = fresh.git("rev-parse", "HEAD").strip()
    assert said == f"registered one@v1.0.0 on {head[:10]}\n"
    assert fresh.tags() == ["one@v1.0.0"]
    assert fresh.git("cat-file", "-t", "one@v1.0.0").strip() == "tag"
    found = record(fresh, "one@v1.0.0")
    assert found["commit"] == head == fresh.commit_of()
    assert found["metrics"] == {"loss": 1.0}
    assert found["data"]["name"] == "points" and found["data"]["md5"].endswith(".dir")
    assert found["environment"] == {"machine": {"cpu": "test"}}
    assert found["parameters"] == {"pipelines.one.params": {"value": 1}}
    assert found["code"].keys() == {"make.py", "recipe.py"}
    assert found["model"]["md5"] in (fresh.folder / "dvc.lock").read_text()


def built_here(registry, *branches):
    for branch in branches:
        own_runs.note(Git(registry.folder), registry.git("rev-parse", branch).strip())


def test_the_branch_of_a_run_that_is_not_checked_out(fresh):
    """As isolated runs leave it: the commit says which flow run made it, and lineage tells."""
    fresh.git("switch", "--quiet", "-c", "runs/brave-owl")
    fresh.build(7)
    fresh.git("commit", "--quiet", "--amend", "-m", "Run brave-owl: one\n\nFlow-run: brave-owl\nFlow-run-id: 12-34\n")
    fresh.git("switch", "--quiet", "main")
    built_here(fresh, "runs/brave-owl")
    (fresh.folder / "recipe.py").write_text('"""Changed meanwhile."""\n')
    fresh("registry", "register", "one", "--rev", "runs/brave-owl")
    assert fresh.git("rev-parse", "one@v1.0.0^{commit}") == fresh.git("rev-parse", "runs/brave-owl")
    assert record(fresh, "one@v1.0.0")["metrics"] == {"loss": 7.0}
    assert "run brave-owl (12-34)" in fresh("registry", "lineage", "one").stdout
    fresh("registry", "promote", "one", "prod")


@pytest.mark.slow
def test_a_folder_of_code_in_a_commit_that_is_not_checked_out(fresh):
    """Its MD5 is the one that DVC has, whatever `.dvcignore` leaves out; another commit's folder is refused."""
    with (fresh.folder / ".dvcignore").open("a") as file:
        file.write("*.out\n")
    fresh.git("commit", "--quiet", "--all", "--message", "rules")
    fresh.git("switch", "--quiet", "-c", "runs/brave-owl")
    code = fresh.folder / "code"
    (code / "inner").mkdir(parents=True)
    for name in ("b.py", "a-b.py", "a/c.py", "é.py", "left.out"):
        (code / name).parent.mkdir(exist_ok=True)
        (code / name).write_text(name)
    pipeline = fresh.folder / "dvc.yaml"
    pipeline.write_text(pipeline.read_text().replace("deps: [make.py]", "deps: [make.py, code]"))
    fresh.build(7)
    fresh.git("branch", "runs/later")
    fresh.git("switch", "--quiet", "runs/later")
    (code / "b.py").write_text("changed")
    fresh.git("commit", "--quiet", "--all", "--message", "changed")
    fresh.git("switch", "--quiet", "main")
    built_here(fresh, "runs/brave-owl", "runs/later")
    said = fresh("registry", "register", "one", "--rev", "runs/later", status=2).stderr
    assert said.startswith("tapeline: code of ") and "is not what made the model: its stage is stale" in said
    fresh("registry", "register", "one", "--rev", "runs/brave-owl")
    assert fresh.tags() == ["one@v1.0.0"]
    (fresh.folder / ".dvcignore").write_text("")  # under other rules a folder cannot be compared
    said = fresh("registry", "register", "one", "--rev", "runs/later", status=2).stderr
    assert said == "tapeline: one@v1.0.0 has exactly these bytes: promote that one\n"


@pytest.mark.slow
def test_what_is_checked_out_is_not_asked_of_a_named_commit(fresh):
    """Files that Git does not know stop nothing; changed ones stop HEAD, and not `--rev`, which names what it means."""
    (fresh.folder / "notes.txt").write_text("not of the project")
    (fresh.folder / "make.py").write_text("raise SystemExit(1)")
    before = fresh.state()
    assert "make.py is not committed: " in fresh("registry", "register", "one", status=2).stderr
    assert fresh.state() == before and fresh.tags() == []
    fresh("registry", "register", "one", "--rev", "HEAD")
    assert fresh.tags() == ["one@v1.0.0"]
    fresh.git("restore", "make.py")
    fresh.build(2)
    fresh("registry", "register", "one")
    assert fresh.tags() == ["one@v1.0.0", "one@v1.0.1"]


def depends_on(registry, dep, value):
    """Have the training depend on one thing more, and build."""
    pipeline = registry.folder / "dvc.yaml"
    recipe = '"${item.recipe}"'
    assert recipe in pipeline.read_text()
    pipeline.write_text(pipeline.read_text().replace(recipe, f"{recipe}, {dep}"))
    registry.build(value)


@pytest.mark.slow
def test_a_recipe_in_a_submodule_is_said(fresh, tmp_path):
    """It was said to `git add` what is committed, in the other repository."""
    other = Repository(tmp_path / "of others")
    fresh.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.folder), "shared")
    params = fresh.folder / "params.yaml"
    params.write_text(params.read_text().replace("recipe: recipe.py", "recipe: shared/recipe.py"))
    fresh.build(2)
    said = fresh("registry", "register", "one", status=2).stderr
    assert said.startswith("tapeline: shared/recipe.py is in the Git submodule shared, whose files neither a ")


@pytest.mark.slow
def test_what_the_model_depends_on_is_committed_in_one_form_or_another(fresh):
    """By Git, by a `.dvc` file, or as the output that another folder's lock records; else it could not be had again."""
    extra = fresh.folder / "extra"
    extra.mkdir()
    (extra / "table").write_text("1")
    fresh.dvc("add", "--quiet", "extra/table")
    depends_on(fresh, "extra/table", 5)
    fresh("registry", "register", "one")
    assert fresh.tags() == ["one@v1.0.0"]

    (extra / "dvc.yaml").write_text("stages: {made: {cmd: echo 1 > made, outs: [made]}}")
    fresh.dvc("repro", "--quiet", "extra/dvc.yaml")
    depends_on(fresh, "extra/made", 6)
    fresh("registry", "register", "one")
    assert fresh.tags() == ["one@v1.0.0", "one@v1.0.1"]

    (extra / "left").write_text("1")
    (extra / ".gitignore").write_text("/table\n/made\n/left\n")
    depends_on(fresh, "extra/left", 7)
    said = fresh("registry", "register", "one", status=2).stderr
    assert said == "tapeline: extra/left is not committed, but the model depends on it: `git add` or `dvc add` it\n"
    (extra / "left.dvc").write_text("outs: []")
    said = fresh("registry", "register", "one", status=2).stderr
    assert said == "tapeline: extra/left.dvc is not committed, but the model depends on it: `git add` it\n"
    (extra / "left.dvc").unlink()
    (fresh.folder.parent / "outside").write_text("1")
    pipeline = fresh.folder / "dvc.yaml"
    pipeline.write_text(pipeline.read_text().replace("extra/left", "../outside"))
    fresh.build(8)
    said = fresh("registry", "register", "one", status=2).stderr
    assert said == "tapeline: ../outside is outside the repository, but the model depends on it: move it inside\n"
    assert fresh.tags() == ["one@v1.0.0", "one@v1.0.1"]


def test_what_the_model_is_not_made_of_may_be_changed(fresh):
    (fresh.folder / "gallery").mkdir()
    for name in ("gallery/dvc.lock", "notes.md", "old.md"):
        (fresh.folder / name).write_text("stages: {}\n")
    fresh.git("add", "--all")
    fresh.git("commit", "--quiet", "--message", "more")
    (fresh.folder / "gallery" / "dvc.lock").write_text("stages: {one: {}}\n")
    (fresh.folder / "notes.md").unlink()
    fresh.git("mv", "old.md", "new.md")
    fresh("registry", "register", "one")
    assert fresh.tags() == ["one@v1.0.0"]


@pytest.mark.parametrize("name", ["recipe.py", "params.yaml", "dvc.yaml", "dvc.lock", "runs/one/environment.json"])
def test_what_the_model_is_made_of_must_be_committed(fresh, name):
    with (fresh.folder / name).open("a") as file:
        file.write("\n")
    said = fresh("registry", "register", "one", status=2).stderr
    assert said == f"tapeline: {name} is not committed: a version is a commit; commit or restore it\n"


def test_from_a_folder_inside_the_project(fresh):
    inner = fresh.folder / "runs" / "one"
    type(fresh)(inner)("registry", "register", "one")
    assert fresh.tags() == ["one@v1.0.0"]


@pytest.mark.long
def test_versions_grow_as_asked(fresh):
    fresh("registry", "register", "one", "--version", "0.9.0")
    for value, (arguments, version) in enumerate(
        [
            ([], "v0.9.1"),
            (["--bump", "minor"], "v0.10.0"),
            (["--bump", "major"], "v1.0.0"),
            (["--version", "v1.0.10"], "v1.0.10"),
        ]
    ):
        fresh.build(value + 5)
        fresh("registry", "register", "one", *arguments)
        assert f"one@{version}" in fresh.tags()
    shown = json.loads(fresh("registry", "show", "--json").stdout)
    assert [row["version"] for row in shown] == ["v1.0.10", "v1.0.0", "v0.10.0", "v0.9.1", "v0.9.0"]


def test_plain_gto_and_dvc_read_what_is_registered(fresh, tmp_path):
    fresh("registry", "register", "one")
    assert json.loads(fresh.gto("show", "--json"))["one"]["version"] == "v1.0.0"
    events = json.loads(fresh.gto("history", "one", "--json"))
    assert [(event["event"], event["version"]) for event in events] == [("registration", "v1.0.0")]
    fresh.dvc("artifacts", "get", ".", "one", "--rev", "v1.0.0", "--out", str(tmp_path / "got"))
    assert (tmp_path / "got" / "model.json").read_bytes() == (fresh.folder / "models/one/model.json").read_bytes()


def test_an_artifact_s_path_is_as_good_with_a_slash_at_its_end(fresh, tmp_path):
    pipeline = fresh.folder / "dvc.yaml"
    pipeline.write_text(pipeline.read_text().replace("path: models/one,", "path: ./models/one/,"))
    fresh.git("commit", "--quiet", "--all", "--message", "a slash")
    fresh("registry", "register", "one")
    fresh.dvc("artifacts", "get", ".", "one", "--rev", "v1.0.0", "--out", str(tmp_path / "got"))
    assert (tmp_path / "got" / "model.json").read_bytes() == (fresh.folder / "models/one/model.json").read_bytes()


def test_a_version_that_plain_gto_made_is_a_version(fresh):
    fresh.gto("register", "one", "HEAD", "--version", "v3.0.0")
    fresh.gto("assign", "one", "--version", "v3.0.0", "--stage", "prod")
    rows = json.loads(fresh("registry", "show", "--json").stdout)
    assert [(row["version"], row["stages"]) for row in rows] == [("v3.0.0", "prod")]
    assert "pipelines.one.params.value: 1" in fresh("registry", "lineage", "one").stdout


@pytest.mark.long
def test_tags_of_one_second_never_happen(fresh):
    fresh.versions(1, 2)
    for _ in range(2):
        fresh("registry", "promote", "one@v1.0.0", "dev")
        fresh("registry", "promote", "one@v1.0.1", "dev")
    times = fresh.git("for-each-ref", "--format=%(taggerdate:unix)", "refs/tags").split()
    assert len(times) == len(set(times)) == 6


@pytest.mark.slow
def test_a_project_in_a_folder_of_its_repository(fresh):
    """GTO names a model there `folder:name`, and its tag `folder=name@…`."""
    inner = fresh.folder / "inner"
    inner.mkdir()
    for name in ("make.py", "recipe.py", "dvc.yaml", "params.yaml", "runs/one/environment.json"):
        (inner / name).parent.mkdir(parents=True, exist_ok=True)
        (inner / name).write_bytes((fresh.folder / name).read_bytes())
    inner_registry = type(fresh)(inner)
    inner_registry.dvc("repro", "--quiet", "export@one")
    fresh.git("add", "--all")
    fresh.git("commit", "--quiet", "--message", "inner")
    inner_registry.dvc("push", "--quiet")
    inner_registry("registry", "register", "one")
    inner_registry("registry", "promote", "one", "prod")
    assert fresh.tags() == ["inner=one#prod#1", "inner=one@v1.0.0"]
    assert "prod" in inner_registry("registry", "show").stdout
    assert (inner / "serving" / "one" / "1" / "saved_model.pb").is_file()
    assert json.loads(fresh.gto("show", "--json"))["inner:one"]["stage"]["prod"]
