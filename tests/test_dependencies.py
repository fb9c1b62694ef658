"""`dvc.yaml` says the truth: a stage's dependencies are exactly the code that it imports."""

import ast
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tapeline.runtime import closure

ENTRIES = {"ingest": "ingest.stage", "train": "train.stage", "validate": "validate.stage", "export": "export.stage"}

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = [folder for folder in (Path(), Path("gallery")) if (ROOT / folder / "dvc.yaml").exists()]
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


@pytest.mark.parametrize("folder", PROJECTS)
@pytest.mark.parametrize("stage", list(ENTRIES))
def test_dependencies_are_the_import_closure(root, folder, stage):
    listed = [d for d in yaml(root / folder / "dvc.yaml")["stages"][stage]["do"]["deps"] if "src/tapeline" in d]
    imported = closure.of_module(f"tapeline.{ENTRIES[stage]}", root / "src" / "tapeline")
    files = {file.resolve() for file in covered([folder / d for d in listed], root)}
    assert files == imported


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
        assert not names & {"cli.py", "commands", "params.py", "project.py", "digits_cnn.py", "linear_regression.py"}


@pytest.mark.parametrize("folder", PROJECTS)
def test_what_a_recipe_imports_is_watched(root, folder):
    """By the stages, because they import it too, or by the pipeline's `needs`."""
    watched = closure.of_module("tapeline.train.stage", root / "src" / "tapeline")
    for name, pipeline in yaml(root / folder / "params.yaml")["pipelines"].items():
        own = covered([folder / pipeline["recipe"], folder / pipeline["needs"]], root)
        imported = closure.of_file(root / folder / pipeline["recipe"], root / "src" / "tapeline")
        assert imported <= watched | {file.resolve() for file in own} | {PACKAGES}, name


@pytest.mark.parametrize("folder", PROJECTS)
def test_every_pipeline_can_be_registered(root, folder):
    artifacts = yaml(root / folder / "dvc.yaml")["artifacts"]
    pipelines = yaml(root / folder / "params.yaml")["pipelines"]
    assert {name: f"models/{name}" for name in pipelines} == {name: entry["path"] for name, entry in artifacts.items()}


def test_nothing_reads_a_clock_or_a_random_source_into_an_out(root):
    """No stage imports what would make two runs differ; `random` belongs to nobody."""
    for entry in ("ingest.stage", "validate.stage", "export.stage"):
        for file in closure.of_module(f"tapeline.{entry}", root / "src" / "tapeline"):
            assert not imported(file.read_text()) & {"random", "uuid", "datetime", "socket", "getpass"}, file


def imported(source):
    """Return the packages that a source imports by either statement."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.partition(".")[0] for name in names}


def test_either_form_of_import_is_seen():
    source = "import a.b as c\ndef f():\n    from datetime import datetime\nfrom .random import x\n"
    assert imported(source) == {"a", "datetime"}
