"""`dvc.yaml` and `engine.lock` say the truth: what a stage depends on is all that its result is made of."""

import ast
import itertools
import re
import shutil
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tapeline.config import engine_lock
from tapeline.runtime import closure
from tapeline.runtime.code import digest_of_modules
from tapeline.scaffold.proposal import template

ENTRIES = {stage: f"{stage}.stage" for stage in engine_lock.STAGES}

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = [Path(), Path("gallery")]
PACKAGES = ROOT / "src" / "tapeline" / "recipes" / "__init__.py"
"""Holds a docstring only."""


def yaml(path):
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def covered(dependencies, root):
    """Return the Python files of the package that the listed files and folders hold."""
    files = set()
    for dependency in dependencies:
        path = root / dependency
        files |= set(path.rglob("*.py")) if path.is_dir() else {path}
    return files


def test_every_project_has_the_same_stages(root):
    texts = {(root / folder / "dvc.yaml").read_text().partition("\nartifacts:\n")[0] for folder in PROJECTS}
    assert texts == {template("dvc.yaml").removesuffix("\n")}
    assert 50 < len(texts.pop().splitlines()) <= 70


def test_a_new_project_draws_the_same_plots(root):
    templates = sorted((root / "src/tapeline/scaffold/templates/plots").iterdir())
    assert templates
    assert all((root / ".dvc/plots" / file.name).read_bytes() == file.read_bytes() for file in templates)


@pytest.mark.parametrize("folder", PROJECTS)
def test_the_recorded_code_is_this_code(root, folder):
    assert engine_lock.changed(root / folder) == []


def hashes(package):
    """Return the hash of each stage's code in a copy of the package."""
    return {
        stage: digest_of_modules(closure.of_module(f"tapeline.{entry}", package), package)
        for stage, entry in ENTRIES.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("train/engine/loop.py", "\n\n\nclass ", "\n\n# A comment.\n\n\nclass ", set()),
        pytest.param("train/data/batches.py", "", "\n", set(), marks=pytest.mark.slow),
        ("export/stage.py", "def export(", "LIMIT = 1\n\n\ndef export(", {"export"}),
        ("train/engine/loop.py", "while_loop(", "While_loop(", {"train"}),
        pytest.param("ingest/table.py", "\nimport ", "\nimport os as _os\nimport ", {"ingest"}, marks=pytest.mark.slow),
        pytest.param(
            "recipe/contract.py",
            "class Recipe",
            "X = 1\n\n\nclass Recipe",
            {"train", "validate", "export"},
            marks=pytest.mark.slow,
        ),
        ("runtime/files.py", "def write_bytes", "X = 1\n\n\ndef write_bytes", set(ENTRIES)),
        ("cli/main.py", "def main", "X = 1\n\n\ndef main", set()),
        pytest.param("orchestration/request.py", "\nclass ", "\nX = 1\n\n\nclass ", set(), marks=pytest.mark.slow),
        pytest.param("recipes/digits_cnn.py", "\nclass ", "\nX = 1\n\n\nclass ", set(), marks=pytest.mark.slow),
    ],
)
def test_a_change_concerns_the_stages_that_reach_it(root, tmp_path, file, old, new, changed):
    package = tmp_path / "tapeline"
    shutil.copytree(root / "src" / "tapeline", package, ignore=shutil.ignore_patterns("__pycache__"))
    before, path = hashes(package), package / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1) if old else text + new)
    after = hashes(package)
    assert {stage for stage in ENTRIES if before[stage] != after[stage]} == changed


@pytest.mark.slow
def test_a_renamed_local_makes_nothing_stale(root, tmp_path):
    package = tmp_path / "tapeline"
    shutil.copytree(root / "src" / "tapeline", package, ignore=shutil.ignore_patterns("__pycache__"))
    before, path = hashes(package), package / "runtime" / "files.py"
    text = path.read_text()
    start = text.index("def write_bytes")
    function = text[start : text.index("\n\n\n", start)]
    assert function.count("partial") > 2
    path.write_text(text.replace(function, function.replace("partial", "beside")))
    assert hashes(package) == before


def test_the_closure_sees_imports_inside_functions_and_of_packages(tmp_path):
    package = tmp_path / "tapeline"
    (package / "inner").mkdir(parents=True)
    for name, text in {
        "__init__.py": "",
        "start.py": "def f():\n    from tapeline.inner import leaf\n",
        "inner/__init__.py": "import tapeline.other\n",
        "inner/leaf.py": "import numpy\n",
        "other.py": "",
        "unused.py": "",
    }.items():
        (package / name).write_text(text)
    names = {file.relative_to(package).as_posix() for file in closure.of_module("tapeline.start", package)}
    assert names == {"__init__.py", "start.py", "inner/__init__.py", "inner/leaf.py", "other.py"}


def test_the_closure_sees_relative_imports(tmp_path):
    package = tmp_path / "tapeline"
    (package / "inner" / "deep").mkdir(parents=True)
    for name, text in {
        "__init__.py": "",
        "start.py": "from . import beside, nothing\nfrom .inner import leaf, CONSTANT\n",
        "beside.py": "",
        "inner/__init__.py": "from .named import value\n",
        "inner/named.py": "",
        "inner/leaf.py": "def f():\n    from .deep.end import g\n",
        "inner/deep/__init__.py": "",
        "inner/deep/end.py": "from ... import above\nfrom ..other import *\n",
        "inner/other.py": "",
        "above.py": "",
        "unused.py": "",
    }.items():
        (package / name).write_text(text)
    names = {file.relative_to(package).as_posix() for file in closure.of_module("tapeline.start", package)}
    every = {file.relative_to(package).as_posix() for file in package.rglob("*.py")}
    assert names == every - {"unused.py"}


def test_a_recipe_s_own_package_is_seen_from_inside(tmp_path):
    (tmp_path / "parts").mkdir()
    for name, text in {
        "recipe.py": "from parts.head import f\n",
        "parts/__init__.py": "",
        "parts/head.py": "from .body import g\nimport parts.tail\n",
        "parts/body.py": "",
        "parts/tail.py": "",
    }.items():
        (tmp_path / name).write_text(text)
    assert len(closure.of_file(tmp_path / "recipe.py")) == 5


def test_no_stage_depends_on_the_command_line_or_on_a_recipe(root):
    for entry in ENTRIES.values():
        files = closure.of_module(f"tapeline.{entry}", root / "src" / "tapeline")
        names = {name for file in files for name in (file.name, file.parent.name)}
        assert not names & {"cli", "orchestration", "registry", "params.py", "project.py", "recipes", "builders"}


@pytest.mark.parametrize("folder", PROJECTS)
def test_what_a_recipe_imports_is_watched(root, folder):
    """By the stages, because they import it too, or by the pipeline's `needs`."""
    watched = set(closure.of_module("tapeline.train.stage", root / "src" / "tapeline"))
    for name, pipeline in yaml(root / folder / "params.yaml")["pipelines"].items():
        own = covered([folder / pipeline["recipe"], folder / pipeline["needs"]], root)
        imported = set(closure.of_file(root / folder / pipeline["recipe"]))
        assert imported <= watched | {file.resolve() for file in own} | {PACKAGES}, name


@pytest.mark.parametrize("folder", PROJECTS)
def test_every_pipeline_can_be_registered(root, folder):
    artifacts = yaml(root / folder / "dvc.yaml")["artifacts"]
    pipelines = yaml(root / folder / "params.yaml")["pipelines"]
    assert {name: f"models/{name}" for name in pipelines} == {name: entry["path"] for name, entry in artifacts.items()}


def test_every_package_that_is_imported_is_declared(root):
    """What another dependency brings along today is gone when that one no longer needs it."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    declared = {plain(re.match(r"[\w.-]+", one)[0]) for one in asked}
    sources = [file.read_text() for folder in ("src", "flows") for file in (root / folder).rglob("*.py")]
    names = set().union(*map(imported, sources)) - sys.stdlib_module_names - {"tapeline", "flows"}
    assert "dvc" in names
    brought = packages_distributions()
    assert [name for name in sorted(names) if not declared & set(map(plain, brought[name]))] == []


def plain(distribution):
    """Return a distribution's name in the form in which names are compared."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def test_nothing_reads_a_clock_or_a_random_source_into_an_out(root):
    """No stage imports what would make two runs differ; one module gives Python's generator back as it was."""
    restores = root / "src/tapeline/recipe/evaluation.py"
    for entry in ("ingest.stage", "validate.stage", "export.stage"):
        for file in closure.of_module(f"tapeline.{entry}", root / "src" / "tapeline"):
            allowed = {"random"} if file == restores else set()
            sources = {"random", "uuid", "datetime", "socket", "getpass"} - allowed
            assert not imported(file.read_text()) & sources, file


def imported(source):
    """Return the packages that a source imports by either statement."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.partition(".")[0] for name in names}


def test_either_form_of_import_is_seen():
    source = "import a.b as c\ndef f():\n    from datetime import datetime\nfrom .random import x\n"
    assert imported(source) == {"a", "datetime"}
