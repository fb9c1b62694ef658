"""Each name of DVC that Tapeline uses and DVC does not document is still there.

A test that fails here says what an upgrade of DVC took away; everything that depends on it is in one package.
"""

import ast
import importlib
import inspect
import os
import subprocess
import sys

import pytest
from undocumented import PACKAGE, gone

from tapeline.repository import dvc
from tapeline.repository.dvc import locking, repository, settings

SOURCE = PACKAGE.parents[1]


def imported():
    """Return (module, name) for all that the package imports from DVC."""
    nodes = [node for path in sorted(PACKAGE.glob("*.py")) for node in ast.parse(path.read_text()).body]
    found = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return [(n.module, a.name) for n in found if n.module.split(".")[0] in ("dvc", "voluptuous") for a in n.names]


@pytest.mark.parametrize(("module", "name"), imported(), ids=lambda given: given)
def test_an_imported_name_is_there(module, name):
    assert hasattr(importlib.import_module(module), name), gone(f"{module}.{name}")


def test_nothing_is_written_to_a_terminal_at_the_end():
    """Each command that asked DVC ended with `\\x1b[0m`, which resets colours."""
    ours, theirs = os.openpty()
    try:
        subprocess.run([sys.executable, "-c", f"import {dvc.__name__}; print('end')"], stdout=theirs, check=True)
        assert os.read(ours, 1000) == b"end\r\n"
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("callable_", "argument"),
    [
        (lambda: repository.Repo.__init__, "_wait_for_lock"),
        (lambda: repository.Repo.status, "with_deps"),
        (lambda: repository.Repo.reproduce, "single_item"),
        (lambda: locking.make_lock, "hardlink_lock"),
        (lambda: locking.make_lock, "tmp_dir"),
        (lambda: settings.Config.__init__, "validate"),
        (lambda: settings.Config.edit, "validate"),
        (lambda: importlib.import_module("dvc.stage").Stage.changed, "allow_missing"),
        (lambda: importlib.import_module("dvc.stage").Stage.changed, "upstream"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_an_argument_is_there(callable_, argument):
    parameters = inspect.signature(callable_()).parameters
    taken = argument in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    assert taken, gone(f"the argument {argument} of {callable_().__qualname__}")


def test_no_other_module_imports_dvc():
    """The import contract says so too; here for what is imported inside a string of code or under a condition."""
    words = ("from dvc", "import dvc", "from dvc_", "import dvc_")
    lines = {
        path.relative_to(SOURCE).as_posix(): line.strip()
        for path in SOURCE.rglob("*.py")
        if path.parent != PACKAGE
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip().startswith(words)
    }
    assert not lines
