"""YAML of others: a value of text, numbers, lists and mappings, or one line, and never gigabytes."""

import datetime
import resource
import subprocess
import sys

import pytest

from tapeline.parsing import yaml_text

BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
MERGED = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{','.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 9))


def test_what_is_yaml():
    text = "a: &a [1, 2.5, 'x', 2001-12-14, null, true]\nb: *a\n1: 0x1F\n"
    values = [1, 2.5, "x", datetime.date(2001, 12, 14), None, True]
    assert yaml_text.parsed(text) == {"a": values, "b": values, 1: 31}
    assert yaml_text.parsed(b"\xef\xbb\xbfa: \xc3\xb6") == {"a": "ö"}
    assert yaml_text.parsed("") is None


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("b: 1\na: 2001-13-45\n", ", line 2", "'2001-13-45': month must be in 1..12"),
        ("a: &a [*a]\n", ", line 1", "the alias *a is inside what it stands for"),
        ("a: &a {b: [{c: *a}]}\n", ", line 1", "the alias *a is inside what it stands for"),
        (b"a: 1\nb: K\xf6ln\n", ", line 2", "not UTF-8: invalid start byte"),
        ("[" * 100_000, ", line 1", "nested more than 100 levels deep"),
        ("- " * 100_000, ", line 1", "nested more than 100 levels deep"),
        (BOMB, ", line 7", "more than 1,000,000 values, counting repeated aliases each time"),
        (MERGED, ", line 7", "more than 1,000,000 values"),
        (
            "a:\n  b: 1\n<<<<<<< HEAD\n  c: 2\n=======\n  c: 3\n>>>>>>> theirs\n",
            ", line 3",
            "an unresolved merge conflict",
        ),
        ("a: é\n\tb: 2\n", ", line 2", "a tab: indent with spaces"),
        ("a: 1\na: 2\n", ", line 2", 'found duplicate key "a"'),
        ("a: !!float x\n", ", line 1", "'x': could not convert string to float"),
        ("a: !!binary aGk=\n", "", "bytes is not a supported kind of value: use text, numbers, lists and mappings"),
        ("a: !!set {b}\n", "", "set is not a supported kind of value"),
        ("a: !!omap [{b: 1}, {b: 2}]\n", "", "a value is not what its tag says"),
        ("? [1]\n: 2\n", "", "tuple is not a supported kind of value"),
        ("2001-01-01: 1\n", "", "a date cannot be a key: put it in quotes"),
        ("a: 0x" + "f" * 5000, "", "a whole number has more than 300 digits"),
        ("a: " + "1" * 5000, ", line 1", "'111"),
        ("a: !!python/object:os.system x\n", ", line 1", "could not determine a constructor for the tag"),
        ("a: \x1b[2J\n", "", "unacceptable character #x001b"),
        ("a: *b\n", ", line 1", "found undefined alias"),
    ],
)
def test_what_is_none(text, where, said):
    with pytest.raises(yaml_text.NotYaml) as raised:
        yaml_text.parsed(text)
    assert str(raised.value).startswith(said) and str(raised.value).isprintable()
    assert raised.value.where == where


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))


@pytest.mark.parametrize("bomb", [BOMB, MERGED])
def test_aliases_that_repeat_one_another_take_no_memory(tmp_path, bomb, root):
    """379 bytes once took 7 GB."""
    (tmp_path / "params.yaml").write_text(bomb)
    answer = subprocess.run(
        [sys.executable, "-m", "tapeline", "registry", "show"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root / "src"), "PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        preexec_fn=limited,
        timeout=120,
        check=False,
    )
    assert answer.returncode == 2, answer.stderr
    assert answer.stderr.startswith("tapeline: params.yaml, line 7: not YAML: more than 1,000,000 values")
    assert answer.stderr.count("\n") == 1
