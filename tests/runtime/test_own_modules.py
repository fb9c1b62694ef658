"""Modules of the user's own that a recipe imports: found without being imported, and those of the recipe's own tree."""

import subprocess
import sys

import pytest

from tapeline.runtime import closure, own_modules
from tapeline.runtime.code import digest, digest_of_file
from tapeline.runtime.errors import InputError


def git(folder, *arguments):
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a repository with a recipe that imports a package of `src`, a module beside it, and libraries."""
    top = tmp_path / "project"
    recipe = top / "recipes" / "own.py"
    for path, text in {
        recipe: "import json, numpy\nimport helper\nfrom mypkg.parts import half\n",
        top / "recipes" / "helper.py": "from shared import more\n",
        top / "recipes" / "shared" / "more.py": "",
        top / "recipes" / "json.py": "raise AssertionError('Python has one, which is found first')\n",
        top / "src" / "mypkg" / "__init__.py": "from . import other\n",
        top / "src" / "mypkg" / "other.py": "",
        top / "src" / "mypkg" / "parts.py": "raise AssertionError('nothing is imported')\n",
        top / "src" / "mypkg" / "unused.py": "",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(top, "init", "--quiet", "--initial-branch", "main")
    git(top, "add", ".")
    git(top, "commit", "--quiet", "--message", "one")
    monkeypatch.setattr(sys, "path", [*sys.path, str(top / "src")])
    monkeypatch.chdir(top)
    return recipe


USED = {"recipes/helper.py", "recipes/shared/more.py", *(f"src/mypkg/{n}.py" for n in ("__init__", "other", "parts"))}


def test_all_files_of_a_recipe_are_found(project):
    top = project.parents[1]
    assert {str(file.relative_to(top)) for file in closure.own(project)} == USED
    assert closure.of_file(project).keys() == {project, *closure.own(project)}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"x = 1\ndef broken(:\n", "helper.py, line 2: "),
        (b"x = 1\n# caf\xe9\n", "helper.py, line 2: .*save it as UTF-8, or declare its encoding$"),
        (b"# coding: klingon\n", "helper.py, line 1: "),
        (b"x = 1\0\n", "helper.py"),
    ],
)
def test_a_module_that_is_no_python_is_named_with_the_line(project, source, said):
    (project.parent / "helper.py").write_bytes(source)
    with pytest.raises(InputError, match=said):
        closure.own(project)


def test_a_module_is_decoded_as_python_does(project):
    helper = project.parent / "helper.py"
    one = digest_of_file(project.parent / "shared" / "more.py")
    for start in (b"", b"\xef\xbb\xbf", b"# coding: latin-1\n# caf\xe9\n"):
        helper.write_bytes(start + b"from shared import more\r\n")
        assert "recipes/shared/more.py" in {str(file.relative_to(project.parents[1])) for file in closure.own(project)}
        assert digest_of_file(helper) == digest("from shared import more\n") != one


def test_a_relative_import_from_above_the_root_has_no_file(project):
    (project.parent / "helper.py").write_text(f"try:\n    from {'.' * 99} import x\nexcept ImportError:\n    pass\n")
    assert project.parent / "helper.py" in closure.own(project)


@pytest.mark.parametrize("is_in_path", [False, True])
@pytest.mark.parametrize("name", ["keras", "tensorflow", "numpy", "tapeline"])
def test_a_file_that_is_called_as_a_library_is_not_what_is_imported(project, name, is_in_path):
    """Its folder comes last in Python's path."""
    (project.parent / f"{name}.py").write_text("raise AssertionError('Python takes the library')\n")
    (project.parent / "helper.py").write_text(f"import {name}.parts\n")
    project.write_text(f"import {name}\nfrom {name} import parts\nimport helper\n")
    if is_in_path:
        own_modules.use(project)
    assert closure.own(project) == [project.parent / "helper.py"]
    assert project.parent / f"{name}.py" not in closure.of_file(project)
    check = f"import sys; sys.path.append({str(project.parent)!r}); import importlib.util as i; print(i.find_spec({name!r}).origin)"
    said = subprocess.run([sys.executable, "-P", "-c", check], check=True, capture_output=True, text=True).stdout
    assert not said.startswith(str(project.parent))


def test_a_module_that_python_finds_before_hides_the_one_beside_a_recipe(project):
    top = project.parents[1]
    (top / "src" / "helper.py").write_text("")
    (top / "src" / "shared").mkdir()
    (top / "src" / "shared" / "less.py").write_text("")
    project.write_text("import helper\nimport shared.less, shared.more\n")
    files = {str(file.relative_to(top)) for file in closure.own(project)}
    assert files == {"src/helper.py", "src/shared/less.py", "recipes/shared/more.py"}, "a package may be in two folders"


def test_what_dvc_would_not_compare_is_refused_with_the_folder_to_name(project, tmp_path):
    top = project.parents[1]
    of_package = [file for file in closure.own(project) if "mypkg" in file.parts]
    with pytest.raises(InputError, match=r"own.py imports src/mypkg/.*: set `needs: src/mypkg` for the pipeline"):
        own_modules.check(project, of_package, top / "recipes")
    with pytest.raises(InputError, match=r"own.py imports src/mypkg/parts.py, whose"):
        own_modules.check(project, of_package, None)
    own_modules.check(project, of_package, top / "src")
    links = tmp_path / "links"
    links.mkdir()
    for file in closure.own(project):
        (links / f"{file.parent.name}_{file.name}").symlink_to(file)
    own_modules.check(project, closure.own(project), links)
    (links / "mypkg_parts.py").unlink()
    (links / "package").symlink_to(top / "src" / "mypkg")  # DVC follows no link to a folder
    with pytest.raises(InputError, match=r"own.py imports src/mypkg/parts.py, whose"):
        own_modules.check(project, closure.own(project), links)


def test_the_folder_to_name_holds_what_dvc_compares_already(project, monkeypatch):
    top = project.parents[1]
    (top / "src" / "other").mkdir()
    (top / "src" / "other" / "__init__.py").write_text("")
    of_both = [*(top / "src" / "mypkg").glob("*.py"), top / "src" / "other" / "__init__.py"]
    with pytest.raises(InputError, match=r"own.py imports src/other/__init__.py, .* `needs: src` for"):
        own_modules.check(project, of_both, top / "src" / "mypkg")
    everywhere = [*of_both, top / "recipes" / "helper.py"]
    with pytest.raises(InputError, match=r"imports recipes/helper.py, .* everything that it imports, or links"):
        own_modules.check(project, everywhere, top / "src")


def test_what_is_outside_of_the_repository_is_noted(project, tmp_path, monkeypatch, capsys):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "tools.py").write_text("")
    project.write_text("import tools\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "elsewhere")])
    own_modules.check(project, closure.own(project), None)
    assert capsys.readouterr().err.splitlines() == [
        f"note: own.py imports {tmp_path}/elsewhere/tools.py, which is outside this repository: DVC will not see it "
        "change"
    ]


@pytest.mark.parametrize("made", ["worktree", "relative", "clone"])
def test_the_modules_are_those_of_the_recipes_own_tree(project, tmp_path, monkeypatch, made):
    """An editable install and PYTHONPATH name the folder of the checkout in which somebody works."""
    top, other = project.parents[1], tmp_path / "other"
    git(top, *(["clone", "--quiet", top, other] if made == "clone" else ["worktree", "add", "--quiet", other]))
    if made == "relative":  # as `worktree.useRelativePaths` of Git 2.48 writes it
        (other / ".git").write_text("gitdir: ../project/.git/worktrees/other\n")
    (top / "src" / "mypkg" / "parts.py").write_text("an edit")
    before = list(sys.path)
    own_modules.use(other / "recipes" / "own.py")
    assert sys.path == [*before[:-1], str(other / "src"), str(other / "recipes")]
    assert {str(file.relative_to(other)) for file in closure.own(other / "recipes" / "own.py")} == USED
    own_modules.use(other / "recipes" / "own.py")
    assert len(sys.path) == len(before) + 1


def test_a_submodule_is_another_repository(project):
    top = project.parents[1]
    inner = top / "inner"
    (inner / "src").mkdir(parents=True)
    (top / ".git" / "modules" / "inner").mkdir(parents=True)
    (inner / ".git").write_text("gitdir: ../.git/modules/inner\n")
    before = list(sys.path)
    own_modules.use(inner / "recipe.py")
    assert sys.path == [*before, str(inner)]


def test_an_unrelated_repository_stays(project, tmp_path):
    other = tmp_path / "other"
    (other / "src").mkdir(parents=True)
    git(other, "init", "--quiet")
    before = list(sys.path)
    own_modules.use(other / "recipe.py")
    assert sys.path == [*before, str(other)]
