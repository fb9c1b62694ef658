"""The hash of code: the same for what computes the same, another for each change that a result could show."""

import os
import shutil
import subprocess

import pytest

from tapeline.config import engine_lock
from tapeline.runtime import code
from tapeline.runtime.code import digest, digest_of_file, digest_of_modules

FUNCTION = """
import math

SCALE = 2

def area(radius, *rest, unit=SCALE):
    total = 0.0
    for step, part in enumerate([radius, *rest]):
        if (square := part**2) > 1:
            total += square * step
    def add(value):
        nonlocal total
        total += value
        return [total * k for k in range(3)]
    try:
        return f"{math.pi * total:.3f}", add(unit)
    except ValueError as error:
        return str(error), None
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    total = 0.0", "    total = 0.0  # the sum"),
        ("    total = 0.0", '    """Add the areas up."""\n\n    total = (0.0)'),
        ("SCALE = 2\n", 'SCALE = 2\n"""What one unit is."""\n'),
        ("total", "summed"),
        ("step", "index"),
        ("part", "piece"),
        ("square", "squared"),
        (" k ", " n "),
        (" k in", " n in"),
        ("error", "mistake"),
        ("[radius, *rest]", "[\n        radius,\n        *rest,\n    ]"),
    ],
)
def test_what_changes_no_result(old, new):
    changed = FUNCTION.replace("total * k for k", "total * n for n") if "k" in old and "n" in new else None
    changed = changed if changed and old.strip() in ("k", "k in") else FUNCTION.replace(old, new)
    assert changed != FUNCTION
    assert digest(changed) == digest(FUNCTION)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total = 0.0", "total = 0"),
        ("total = 0.0", "total = -0.0"),
        ("SCALE", "FACTOR"),
        ("radius", "r"),
        ("unit", "of"),
        ("rest", "others"),
        ("area", "surface"),
        ("add", "plus"),
        ("import math", "import math as m"),
        ("> 1", ">= 1"),
        (".3f", ".4f"),
        ("total += square * step", "square += total * step"),
        ("        nonlocal total\n        total", "        total = 0\n        total"),
        ("ValueError", "TypeError"),
        ("range(3)", "range(4)"),
        ("square * step", "step * square"),
    ],
)
def test_what_could_change_a_result(old, new):
    assert old in FUNCTION
    assert digest(FUNCTION.replace(old, new)) != digest(FUNCTION)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f():\n    x = 1\n    y = 2\n    return x", "def f():\n    x = 1\n    y = 2\n    return y"),
        ("def f(a):\n    x = a\n    return lambda: x", "def f(a):\n    x = a\n    return lambda: a"),
        ("class C:\n    x = 1", "class C:\n    y = 1"),
        ("def f():\n    class C:\n        x = 1\n    return C", "def f():\n    class C:\n        y = 1\n    return C"),
        ("def f():\n    x = 1\n    return locals()", "def f():\n    y = 1\n    return locals()"),
        ("def f():\n    global x\n    x = 1", "def f():\n    global y\n    y = 1"),
        ("def f():\n    from a import b\n    return b", "def f():\n    from a import c\n    return c"),
        ("def f():\n    x = 1\n    return g(x=x)", "def f():\n    y = 1\n    return g(y=y)"),
        ("def f():\n    x = 1\n    return x.y", "def f():\n    x = 1\n    return x.z"),
        ("x = 1", "y = 1"),
        ("f(1, 2)", "f((1, 2))"),
        ("x = '1'", "x = 1"),
        ("x = b'1'", "x = '1'"),
        ("x = [[], [1]]", "x = [[1], []]"),
        (
            "def f():\n    x = 1\n    def g():\n        x = 2\n    return x",
            "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n    return x",
        ),
    ],
)
def test_two_programs_are_two_hashes(one, other):
    assert digest(one) != digest(other)


def test_names_that_a_match_binds():
    source = "def f(a):\n    match a:\n        case {'k': v, **others}:\n            return v, others\n        case [*most, last] as whole:\n            return most, last, whole\n"
    renamed = source
    for old, new in (("v", "w"), ("others", "left"), ("most", "many"), ("last", "end"), ("whole", "every")):
        renamed = (
            renamed.replace(f"{old}", new)
            if old != "v"
            else renamed.replace("'k': v", "'k': w").replace("n v,", "n w,")
        )
    assert digest(renamed) == digest(source) != digest(source.replace("'k'", "'j'"))


def test_a_module_s_place_counts(tmp_path):
    one, two, x, y = tmp_path / "one.py", tmp_path / "two.py", "x = 1", "y = 1"
    before = digest_of_modules({one: x, two: y}, tmp_path)
    assert digest_of_modules({two: y, one: x}, tmp_path) == before
    assert digest_of_modules({one: y, two: x}, tmp_path) != before


@pytest.mark.parametrize("python", ["python3.11", "python3.12", "python3.13"])
def test_every_python_says_the_same(root, python):
    if shutil.which(python) is None:
        pytest.skip(f"no {python} on this machine")
    program = (
        "import sys\nfrom tapeline.runtime import closure, code\n"
        "for s in sys.argv[1:]: print(code.digest_of_modules(closure.of_module(f'tapeline.{s}.stage'), closure.PACKAGE)[:16])"
    )
    command = [python, "-c", program, *engine_lock.STAGES]
    environment = {"PYTHONPATH": str(root / "src"), "PATH": os.environ["PATH"]}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "command not found" in answer.stderr:
        pytest.skip(f"no {python} on this machine")
    assert answer.stdout.split() == [engine_lock.current(stage) for stage in engine_lock.STAGES], answer.stderr


def test_a_file_s_digest_is_computed_once_for_each_content(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file, computed = tmp_path / "recipe.py", []
    monkeypatch.setattr(code, "digest", lambda source: computed.append(source) or digest(source))
    for source in (FUNCTION, FUNCTION, FUNCTION + "x = 1\n", FUNCTION):
        file.write_text(source)
        assert digest_of_file(file) == digest(source)
    assert len(computed) == 2
