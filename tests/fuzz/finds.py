"""What broke a reader once, found by people and by the fuzzer: each is tried again in every run of the tests."""

import ast
import json
from pathlib import Path
from typing import Any

TAB = (Path(__file__).parents[2] / "params.yaml").read_bytes().replace(b"data/digits ", b"data\t ", 1)
"""A blank that libyaml takes and ruamel's own reader does not."""
LONG = (
    (Path(__file__).parents[2] / "params.yaml").read_bytes().replace(b"src/tapeline/recipes/digits_cnn.py", b"a" * 5000)
)
"""A recipe's name that no file system takes."""
BOMB = b"a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (level, level, b",".join([b"*a%d" % (level - 1)] * 9)) for level in range(1, 9)
)
"""Few bytes that stand for 9^9 values."""

SECTIONS = [
    b'{"datasets": %s, "pipelines": {"digits": {"dataset": "d"}}, "registry": %s}' % both
    for both in (
        (b"[1.5]", b"{}"),
        (b"[{}]", b"{}"),
        (b"1.5", b"{}"),
        (b"{}", b"5"),
        (b"{}", b'{"models": 5}'),
        (b"{}", b'{"models": [1]}'),
    )
]
"""Parameters whose sections are no mappings."""
CHECK = {"metric": "loss", "value": 0.5, "min": None, "max": 1.0, "holds": True}
VERDICT = {"verdict": "yes", "reason": "", "split": "test"}


def _model(shape: list[int | None] | None) -> bytes:
    """A model's description with an input of this shape."""
    spec = {"inputs": {"x": {"dtype": "float32", "shape": shape}}, "outputs": {}}
    return json.dumps(
        {"dataset": {"name": "a"}, "metrics": {}, "files": {}, "signatures": {"serving_default": spec}}
    ).encode()


def _chain(stages: list[str], *, end: str = "") -> bytes:
    """A `dvc.lock` in which each stage depends on the next one's output, and the last one on that of `end`."""
    pairs = zip(stages, [*stages[1:], end], strict=True)
    entries = {stage: {"deps": [{"path": below}], "outs": [{"path": stage}]} for stage, below in pairs}
    return json.dumps({"stages": entries}).encode()


FINDS: dict[str, list[Any]] = {
    "params": [
        b"a: &x [*x]\n",
        b"environment: {tensorflow: 2001-13-45}\n",
        b"a: \xe9\n",
        BOMB,
        b"- " * 5000,
        *SECTIONS,
        TAB,
        LONG,
        b"? [1]\n: 2\n",
        b"2001-01-01: 1\n",
    ],
    "overrides": [
        ["params.learning_rate=:00a-01-01"],
        ["train.epochs=2001-13-45"],
        ["train.epochs=&x [*x]"],
        ["train.epochs=0x" + "f" * 5000],
        ["params.a=" + "[" * 5000],
    ],
    "prefect": [b"deployments: &x [*x]\n", b"name: \xe9\n", b"deployments: 2001-13-45\n", BOMB],
    "dvc_lock": [
        b"stages: []\n",
        b"stages: {a: 1}\n",
        b"stages: {export@digits: {outs: [1]}}\n",
        b"stages: {train@digits: {deps: 5}}\n",
        b"\xff",
        _chain(["export@digits", "a", "b"], end="a"),
        _chain(["export@digits", *map(str, range(3000))]),
    ],
    "rwlock": [
        (".dvc/tmp/rwlock", b'{"write": {"a": {"pid": Infinity, "cmd": "x"}}}'),
        (".dvc/tmp/rwlock", b"[" * 5000),
    ],
    "tags": [
        (b"[" * 5000, b"{}", 1, "a"),
        (b'{"metrics": {"loss": "low"}}', b"{}", 1, "a"),
        (b"{}", b'{"checks": [{"kind": "bound", "holds": true}]}', 284_990_000_000, "a"),
    ],
    "dataset": [
        json.dumps(
            {
                "name": "a",
                "source": {},
                "features": {"x": {"shape": [2], "dtype": "float32"}},
                "splits": {"train": {"examples": 3, "columns": {"x": {"file": "9" * 400, "bytes": 1, "sha256": "0"}}}},
            }
        ).encode()
    ],
    "npy": [
        ("bytes", b"\x93NUMPY\x01\x00E\x00{'descr': '|S0', 'fortran_order': False, 'shape': (9999999999999,), }0q")
    ],
    "model": [_model(shape) for shape in (None, [None, 2**31], [None, -1], [])],
    "metrics": [
        (1, json.dumps({**VERDICT, "checks": checks}).encode())
        for checks in ([{"metric": "loss"}], [{**CHECK, "min": [None]}], 5)
    ],
    "csv": [
        (0, b"\x01\t\x98`\xf2"),
        (1, b"x,y\n" + b"a" * 131_073),
        (0, b"x,y,label,split,key\n1,2.5,dog,test,k"),  # the part with the header has no row
        (3, b"x,y,label,split,key\n\n"),
    ],
    "checkpoints": [("body", b'{"files": {"%s": ""}, "record": {}}' % (b"9" * 300))],
    "predict_csv": [("word", b"word,n\n" + b"a" * 131_073 + b",1\n"), ("two", b"x.0,x.1,n\n1,2\n")],
    "traces": [b'{"name": "one", "version": "v1.0.0", "model": "0", "files": [[30.0, 0.01]]}', b'{"session": 5}'],
    "predict_jsonl": [
        ("two", b"[" * 5000),
        ("two", b'{"x": [1, 2], "n": 1e999}'),
        ("word", b'{"word": "\\ud800", "n": 1}'),
    ],
}
"""By the reader's name in `parsers`."""

for _file in sorted((Path(__file__).parent / "corpus").glob("*.txt")):  # what `python -m tests.fuzz --keep` wrote
    FINDS.setdefault(_file.stem.rpartition("-")[0], []).append(ast.literal_eval(_file.read_text(encoding="utf-8")))
