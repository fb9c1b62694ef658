"""The readers of all that somebody else may have written: each with inputs for it, and the public functions that read.

A reader gets an empty folder once, and is then called with one content after the other.
"""

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.fuzz.mutations import YAML_WORDS, json_files, mangled, trees

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Parser:
    """One reader: which inputs it is tried with, and how one is read."""

    inputs: st.SearchStrategy[Any]
    read: Callable[[Any], object]


def yaml_files(texts: list[bytes], valid: list[Any]) -> st.SearchStrategy[bytes]:
    """Return YAML as people write it with changes, and, since JSON is YAML, mutated trees."""
    return mangled(texts, YAML_WORDS) | trees(valid).map(lambda tree: json.dumps(tree).encode())


def loaded(text: bytes) -> Any:
    """Return what a YAML text has, as JSON has it."""
    from tapeline.parsing import yaml_text

    return json.loads(json.dumps(yaml_text.parsed(text), default=str))


def params(folder: Path) -> Parser:
    """`params.yaml`, as all commands read it, and a run's overrides written into it."""
    from tapeline.config.params import Params, check_recipe
    from tapeline.config.project import Project
    from tapeline.orchestration.isolation.finished import parameters
    from tapeline.orchestration.isolation.overrides import override

    text = (ROOT / "params.yaml").read_bytes()
    aliased = b"a: &a {dataset: digits}\n" + text.replace(b"  digits:\n    dataset: digits", b"  digits:\n    <<: *a")
    (folder / "src").symlink_to(ROOT / "src")
    project = Project(folder, folder, folder)

    def read(content: bytes) -> None:
        (folder / "params.yaml").write_bytes(content)
        parameters(project, "digits")
        found, _ = Params.sound(folder)
        for name, pipeline in found.pipelines.items():
            check_recipe(folder, name, Params.load_for(folder, pipeline=name).pipelines.get(name, pipeline))
        override(folder, "digits", {"train.epochs": 3, "params.shift": None})
        Params.load(folder)

    return Parser(yaml_files([text, aliased], [loaded(text)]), read)


def overrides(folder: Path) -> Parser:
    """`--set KEY=VALUE`, from the command line into `params.yaml`."""
    from tapeline.cli.flows.training import pairs
    from tapeline.config.params import Params, check_recipe
    from tapeline.orchestration.isolation.overrides import override
    from tapeline.orchestration.request import Request

    text = (ROOT / "params.yaml").read_bytes()
    (folder / "src").symlink_to(ROOT / "src")
    keys = [
        "train.epochs",
        "params.learning_rate",
        "train.checkpoint.every_steps",
        "dataset",
        "validate.thresholds",
        "train",
        "a.b",
        "",
    ]
    values = mangled([b"3", b"0.1", b"{a: 1}", b"[1, 2]", b"2001-01-01", b"'x'", b"true"], YAML_WORDS)
    whole = st.builds(
        lambda key, value: f"{key}={value.decode(errors='surrogateescape')}", st.sampled_from(keys), values
    )

    def read(given: list[str]) -> None:
        (folder / "params.yaml").write_bytes(text)
        request = Request.of(pipeline="digits", isolated=True, overrides=pairs(given))
        request.command()
        override(folder, request.pipeline, request.overrides)
        check_recipe(folder, "digits", Params.load(folder).pipeline("digits"))

    return Parser(st.lists(whole | st.text(max_size=10), min_size=1, max_size=3), read)


def prefect(folder: Path) -> Parser:
    """`prefect.yaml`, as `make serve` and `make deploy` read it."""
    from tapeline.orchestration.schedules.deployments import read as deployments

    text = (ROOT / "prefect.yaml").read_bytes()

    def read(content: bytes) -> None:
        (folder / "prefect.yaml").write_bytes(content)
        for deployment in deployments(folder / "prefect.yaml"):
            repr((deployment.full_name, *map(str, deployment.schedules)))

    return Parser(yaml_files([text], [loaded(text)]), read)


def dvc_lock(folder: Path) -> Parser:
    """`dvc.lock`, by its readers that ask nothing of DVC: the registry's, a run's report, `verify`, `repair`."""
    from tapeline.repository.dvc_lock import Lock
    from tapeline.repository.recorded import Recorded
    from tapeline.repository.repair import is_whole
    from tapeline.repository.verify import stale
    from tapeline.runtime.errors import InputError

    text = (ROOT / "dvc.lock").read_bytes()
    parameters = loaded((ROOT / "params.yaml").read_bytes())
    head = text[:3000] + b"\n"

    def read(content: bytes) -> None:
        is_whole(content)
        locked = Recorded.read(content, "digits", name="HEAD", cache=folder)
        (
            locked.chain(),
            locked.parameters(),
            locked.code(),
            locked.datasets(),
            stale(Lock.read(content), parameters, ["export@digits"]),
        )
        for ask in (lambda: locked.model, lambda: locked.predictions, lambda: locked.trained_on("digits")):
            try:
                ask()
            except InputError as error:
                assert str(error).isprintable()
        locked.training_data(), locked.metrics()

    small = {"stages": {key: value for key, value in loaded(text)["stages"].items() if "digits" in key}}
    return Parser(yaml_files([text, head], [small]), read)


DVC_YAML = """
stages:
  ingest:
    foreach: ${datasets}
    do: {cmd: "echo ${key}", deps: [recipe.py], outs: ["data/${key}"]}
  train:
    foreach: ${pipelines}
    do: {cmd: "echo ${key}", deps: ["data/${item.dataset}", "${item.recipe}"], params: ["pipelines.${key}.params"], outs: ["runs/${key}"]}
  validate:
    foreach: ${pipelines}
    do: {cmd: "echo ${key}", deps: ["runs/${key}"], outs: ["checked/${key}"], metrics: ["metrics/${key}.json"]}
  export:
    foreach: ${pipelines}
    do: {cmd: "echo ${key}", deps: ["checked/${key}"], outs: ["models/${key}"]}
artifacts:
  one: {path: models/one, type: model}
"""
DVC_PARAMS = """
datasets:
  near: {source: table, needs: recipe.py, features: {x: x}}
pipelines:
  one: {dataset: near, recipe: recipe.py, needs: recipe.py, params: {}, validate: {}, export: {}, train: {epochs: 1, batch_size: 1}}
"""
DVC_LOCK = """
schema: '2.0'
stages:
  ingest@near:
    cmd: echo near
    deps:
    - path: recipe.py
      hash: md5
      md5: d41d8cd98f00b204e9800998ecf8427e
      size: 0
    outs:
    - path: data/near
      hash: md5
      md5: d41d8cd98f00b204e9800998ecf8427e
      size: 0
  train@one:
    cmd: echo one
    params:
      params.yaml:
        pipelines.one.params: {}
    outs:
    - path: runs/one
      hash: md5
      md5: d41d8cd98f00b204e9800998ecf8427e.dir
      size: 0
      nfiles: 1
"""


def _dvc_project(folder: Path) -> Any:
    """Return a project in a new Git and DVC repository."""
    from tapeline.config.project import Project

    for command in (["git", "init", "--quiet"], [sys.executable, "-m", "dvc", "init", "--quiet"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    for name, text in {"dvc.yaml": DVC_YAML, "params.yaml": DVC_PARAMS, "dvc.lock": DVC_LOCK, "recipe.py": ""}.items():
        (folder / name).write_text(text)
    return Project(folder, folder / ".tapeline", folder / ".tapeline")


def dvc(folder: Path) -> Parser:
    """`dvc.yaml` and `dvc.lock` by DVC itself, where `tapeline list` and the flows ask it."""
    import contextlib

    from tapeline.config.params import Params
    from tapeline.orchestration.stages.dvc_stage import DvcProject
    from tapeline.repository.listing import entries

    project = _dvc_project(folder)
    known = Params.load(folder)
    stages, lock = (
        st.tuples(st.just(name), yaml_files([text.encode()], [loaded(text.encode())]))
        for name, text in (("dvc.yaml", DVC_YAML), ("dvc.lock", DVC_LOCK))
    )

    def read(given: tuple[str, bytes]) -> None:
        for name, text in (("dvc.yaml", DVC_YAML.encode()), ("dvc.lock", DVC_LOCK.encode()), given):
            (folder / name).write_bytes(text)
        list(entries(project, known))
        with contextlib.closing(DvcProject(folder)) as asked:
            asked.is_recorded("export@one")
            [asked.is_stale(stage) for stage in asked.upstream("export@one")]

    return Parser(stages | lock, read)


def rwlock(folder: Path) -> Parser:
    """DVC's own `.dvc/tmp/rwlock`, and a `dvc.lock`, by `tapeline repair`."""
    from tapeline.repository.repair import RWLOCK, repair

    project = _dvc_project(folder)
    command = f"{sys.executable} -m dvc repro"
    valid = {
        "write": {"/a/b": {"pid": os.getpid(), "cmd": command}},
        "read": {"/a/c": [{"pid": 1, "cmd": "init"}, {"pid": 2**22 - 1, "cmd": "dvc repro"}]},
    }
    (folder / RWLOCK).parent.mkdir(parents=True, exist_ok=True)
    locks = yaml_files([DVC_LOCK.encode()], [loaded(DVC_LOCK.encode())])

    def read(given: tuple[str, bytes]) -> None:
        (folder / RWLOCK).unlink(missing_ok=True)
        (folder / given[0]).write_bytes(given[1])
        list(repair(project))
        assert not list(repair(project)), "a repair that is not whole"

    one = st.tuples(st.just(str(RWLOCK)), json_files([valid]))
    return Parser(one | one | st.tuples(st.just("dvc.lock"), locks), read)


def tags(folder: Path) -> Parser:
    """The records and dates of registry tags, as `registry show`, `history`, `rollback` and `lineage` see them."""
    from tapeline.registry import lineage, tables
    from tapeline.registry.repository import Tag
    from tapeline.registry.tags import record, state
    from tapeline.registry.tags.names import Artifact

    version = {
        "metrics": {"loss": 0.5, "accuracy": None}, "data": {"name": "points", "source": {"kind": "test"}, "md5": "0"},
        "environment": {"machine": {"cpu": "x"}}, "parameters": {"a": 1}, "files": {}, "run": {"name": "x", "id": "y"},
    }  # fmt: skip
    check = {"kind": "bound", "metric": "loss", "value": 0.5, "min": None, "max": 1, "judged": True, "holds": True}
    paired = {
        "kind": "paired", "asks": "not-worse", "confidence": 0.95, "examples": 9, "lower_bound": 0.1, "only_challenger_right": 1,
        "only_champion_right": 2, "p_better": 0.5, "needed_examples": 10, "holds": False, "difference": 0.1, "margin": 0.02,
    }  # fmt: skip
    change = {**check, "kind": "slice change", "slice": "label=1", "examples": 3, "champion": 0.1, "challenger": 0.2}
    event = {
        "action": "promote",
        "champion": "v1.0.0",
        "approved_by": "Ann",
        "verdict": "yes",
        "checks": [check, paired, change],
    }
    whole = Tag("one@v1.0.0", "c" * 40, 1_700_000_000, "Ann", "ann@example.org", record.message("one", version))
    times = st.sampled_from([0, 1, 1_700_000_000, 284_990_000_000, -1, -(2**40), 2**63 - 1])

    def read(given: tuple[bytes, bytes, int, str]) -> None:
        first, second, time, author = given
        messages = [b"one\n\n" + content for content in (first, second)]
        one, other = (message.decode(errors="surrogateescape") for message in messages)
        found = [
            whole,
            Tag("one@v1.0.1", "d" * 40, time, author, "", one),
            Tag("one#prod#1", "c" * 40, 1_700_000_001, "Ann", "", other),
            Tag("one#prod#2", "d" * 40, time, author, "", other),
        ]
        states = state.read_all(found)
        for text in (
            tables.table(tables.versions(states.values(), ["dev", "prod"], lambda _: "")),
            tables.table(tables.history(states["one"])),
        ):
            assert all(line.isprintable() for line in text.splitlines()), "escape codes"
        state.read(found, Artifact("one", "")).before("prod")
        for quarantined in states["one"].quarantined:
            assert record.datable(quarantined.tag.time) or quarantined.why
        for assigned in states["one"].assignments:
            lines = lineage.checks(assigned.record)
            assert all(line.isprintable() for line in lines), "escape codes"

    contents = json_files([version]) | st.just(json.dumps(version).encode())
    others = json_files([event])
    return Parser(st.tuples(contents, others, times, st.sampled_from(["Ann", "", "a\x1b[2J", "é"])), read)


def csv(folder: Path) -> Parser:
    """A CSV as a dataset's source."""
    from tapeline.config.ingest import TableSource
    from tapeline.ingest.table import read as opened

    text = b"x,y,label,split,key\n" + b"".join(
        b"%d,%d.5,%s,%s,k%d\n" % (i, i, [b"cat", b"dog"][i % 2], [b"train", b"test"][i % 2], i) for i in range(8)
    )
    quoted = b'\xef\xbb\xbfx,y,label,split,key\r\n"1","2","a ""b""",train,k\r\n1e3,-0,"a\nb",val,\xc3\xa9\r\n'
    words = [
        b'"',
        b'""',
        b",,",
        b",",
        b"nan",
        b"inf",
        b"1e999",
        b"0x1F",
        b"16777217",
        b"9" * 400,
        b"a" * 131_073,
        b"\xa0",
        b"\xd9\xa1",
        b"-",
        b"x,",
    ]
    source: dict[str, Any] = {
        "source": "table",
        "needs": "a.csv",
        "features": {"x": ("x", "y"), "y": "y", "label": "label"},
    }
    all_settings = [
        TableSource(**source),
        TableSource(**source, label="label", split="split"),
        TableSource(**source, label="label", key="key", test=0.3, validation=0.2),
        TableSource(**source, label="label", stratify="label", test=0.5, integers=("y",)),
    ]

    def read(given: tuple[int, bytes]) -> None:
        (folder / "a.csv").write_bytes(given[1])
        for examples in opened(all_settings[given[0]], folder / "a.csv").examples:
            assert len(examples.keys)

    return Parser(st.tuples(st.integers(0, 3), mangled([text, quoted], words)), read)


def parquet(folder: Path) -> Parser:
    """A Parquet file as a dataset's source."""
    import pyarrow as pa
    from pyarrow import parquet as written

    from tapeline.config.ingest import TableSource
    from tapeline.ingest.table import read as opened

    def file(columns: dict[str, Any], **how: Any) -> bytes:
        buffer = io.BytesIO()
        written.write_table(pa.table(columns), buffer, **how)
        return buffer.getvalue()

    labels = pa.array(["cat", "dog"] * 4).dictionary_encode()
    plain = {"x": list(range(8)), "y": [0.5] * 8, "label": ["cat", "dog"] * 4}
    whole = [
        file(plain),
        file({**plain, "label": labels}, compression="none", use_dictionary=False),
        file(plain, write_page_checksum=True),
    ]
    odd = [
        [None] * 8, [True] * 8, [b"a"] * 8, [[1]] * 8, [{"a": 1}] * 8, ["1"] * 8, [float("nan")] * 8, [2**62] * 8, [-(2**62)] * 8,
        pa.array([1] * 8, pa.timestamp("s")), pa.array([1] * 8, pa.decimal128(30, 10)), pa.array([2**63] * 8, pa.uint64()),
        pa.array([1] * 8, pa.date32()), pa.array(["1"] * 8, pa.large_string()), pa.array([0.5] * 8, pa.float16()), pa.nulls(8),
        pa.array(["a", None] * 4).dictionary_encode(), pa.array([1] * 8, pa.duration("s")), ["\x1b[2J"] * 8, pa.array([10**36] * 8, pa.decimal256(76, 2)),
        pa.array(["1"] * 8, pa.string_view()), pa.array([b"1" * 4] * 8, pa.binary(4)), pa.array([1] * 8, pa.time32("s")),
    ]  # fmt: skip
    typed = st.tuples(st.sampled_from(["x", "y", "label"]), st.sampled_from(odd), st.sampled_from([True, False]))
    source: dict[str, Any] = {
        "source": "table",
        "needs": "a.parquet",
        "features": {"x": ("x", "y"), "y": "y", "label": "label"},
    }
    all_settings = [
        TableSource(**source),
        TableSource(**source, label="label", test=0.3),
        TableSource(**source, integers=("y",), label="label", stratify="label", test=0.5),
    ]

    def read(given: tuple[int, bytes]) -> None:
        (folder / "a.parquet").write_bytes(given[1])
        for examples in opened(all_settings[given[0]], folder / "a.parquet").examples:
            assert len(examples.keys)

    contents = mangled(whole) | typed.map(lambda one: file({**plain, one[0]: one[1]}, use_dictionary=one[2]))
    return Parser(st.tuples(st.integers(0, 2), contents), read)


def signatures() -> dict[str, Any]:
    """Return what models may take."""
    from tapeline.prediction.signature import Signature

    def of(**specs: Any) -> Any:
        return Signature.of(
            {name: {"dtype": dtype, "shape": shape} for name, (dtype, shape) in specs.items()}, {"w": ["a", "b"]}
        )

    return {
        "two": of(x=("float32", [None, 2]), n=("int64", [None])),
        "word": of(word=("string", [None]), n=("float32", [None])),
        "any": of(x=("float32", [None, None])),
        "image": of(image=("uint8", [None, 8, 8, 3])),
        "wide": of(w=("float64", [None, 2]), flag=("bool", [None])),
        "odd": of(x=("int8", [None, None, 2])),
        "bytes": of(word=("string", [None, 2])),
    }


def _predicted(folder: Path, kind: str) -> Callable[[tuple[str, bytes]], None]:
    from tapeline.prediction import inputs

    known = signatures()

    def read(given: tuple[str, bytes]) -> None:
        file = folder / f"a.{kind}"
        file.write_bytes(given[1])
        inputs.check([file])
        for piece in inputs.pieces([file], known[given[0]], 3):
            for values in piece.inputs.values():
                assert len(values) == len(piece) and values.dtype.kind in "biufO"

    return read


def _fitting(pairs: list[tuple[str, bytes]], words: list[bytes]) -> st.SearchStrategy[tuple[str, bytes]]:
    """Return contents that fit a signature but for a few changes, with its name."""
    return st.sampled_from(pairs).flatmap(lambda pair: st.tuples(st.just(pair[0]), mangled([pair[1]], words)))


def predict_csv(folder: Path) -> Parser:
    """A CSV as a model's input."""
    texts = [
        b"x.0,x.1,n\n1,2,3\n4,5,6\n",
        b"word,n\nab,1\n\xc3\xb6,2\n",
        b"a,b,flag,x\n1,2,1,3\n",
        b"word.0,word.1,x.0,x.1,x\na,b,1,2,3\n",
    ]
    words = [
        b'"',
        b'""',
        b",,",
        b",",
        b"nan",
        b"1e999",
        b"9" * 400,
        b"9" * 5000,
        b"a" * 131_073,
        b"1_0",
        b"\xd9\xa1",
        b"True",
        b"1e5",
    ]
    fitting = [("two", texts[0]), ("word", texts[1]), ("wide", texts[2]), ("bytes", texts[3]), ("any", texts[2])]
    return Parser(
        _fitting(fitting, words) | st.tuples(st.sampled_from(list(signatures())), mangled(texts, words)),
        _predicted(folder, "csv"),
    )


def predict_jsonl(folder: Path) -> Parser:
    """JSON lines as a model's input."""
    rows: list[Any] = [
        {"x": [1, 2], "n": 3},
        {"word": "ab", "n": 1},
        {"x": [[1, 2], [3, 4]]},
        [1, 2],
        {"w": [1, 2], "flag": True},
        {"word": ["a", "b"]},
        5,
        "x",
    ]
    lines = st.lists(json_files(rows), min_size=1, max_size=3).map(b"\n".join)
    names = ["two", "word", "any", "any", "wide", "bytes"]
    fitting = [
        st.tuples(st.just(name), json_files([row]).map(lambda line, row=row: json.dumps(row).encode() + b"\n" + line))
        for name, row in zip(names, rows, strict=False)
    ]
    return Parser(
        st.one_of(fitting) | st.tuples(st.sampled_from(list(signatures())), lines), _predicted(folder, "jsonl")
    )


def _arrays() -> list[Any]:
    return [
        np.ones((3, 2), np.float32), np.arange(3), np.zeros((0, 2)), np.float64(1), np.array(["ab", "ö", ""]), np.array([b"a", b"\xff"]),
        np.ones((2, 8, 8, 3), np.uint8), np.array([True]), np.array([1 + 2j, 3]), np.array([[1.0, np.nan], [np.inf, 1e300]]), np.ones((2, 2), order="F"),
        np.array([1], "M8[s]"), np.zeros(2, "i4,f4"), np.array([{}], object), np.ones((2, 3), ">i8"), np.array([["a", "b"]]), np.zeros(1, "V3"), np.zeros((2, 3), np.float16),
    ]  # fmt: skip


HEADERS = [
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 2), }",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2), }", b"{'descr': 'O', 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': '<U4294967295', 'fortran_order': False, 'shape': (0,), }", b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': '<f4', 'fortran_order': True, 'shape': (True, 2), }", b"{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': 5, 'fortran_order': 0, 'shape': 1}", b"(" * 200, b"'" * 3, b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"1," * 70 + b")}",
    b"{'descr': '|S0', 'fortran_order': False, 'shape': (9999999999999,), }", b"{" * 500, b"1" * 5000, b"\\\n", b"{'descr': '<f4', 'fortran_order': False, 'shape': (2**62, 4), }",
]  # fmt: skip


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _headed(header: bytes, version: int, body: bytes) -> bytes:
    size = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + body


def npy_contents() -> st.SearchStrategy[bytes]:
    """Return `.npy` files: whole ones, mangled ones, and those with a header that says something else."""
    whole = [_npy(array) for array in _arrays()]
    headed = st.builds(_headed, mangled(HEADERS) | st.sampled_from(HEADERS), st.integers(0, 4), st.binary(max_size=64))
    return mangled(whole, HEADERS) | headed | st.sampled_from(whole)


def npy(folder: Path) -> Parser:
    """An `.npy` file as a model's input, and as a dataset's column."""
    from tapeline.dataset.columns import Dataset

    predicted = _predicted(folder, "npy")
    column = {"file": "train/x.npy", "bytes": 0, "sha256": "0"}
    index = {
        "name": "a",
        "source": {},
        "features": {"x": {"shape": [2], "dtype": "float32"}},
        "splits": {"train": {"examples": 3, "columns": {"x": column}}},
    }
    (folder / "train").mkdir()

    def read(given: tuple[str, bytes]) -> None:
        (folder / "train/x.npy").write_bytes(given[1])
        column["bytes"] = len(given[1])
        (folder / "dataset.json").write_text(json.dumps(index))
        from tapeline.runtime.errors import InputError

        try:
            Dataset.open(folder).column("train", "x")
        except InputError as error:
            assert str(error).isprintable()
        predicted(given)

    return Parser(st.tuples(st.sampled_from(list(signatures())), npy_contents()), read)


def npz(folder: Path) -> Parser:
    """An `.npz` archive as a model's input."""
    import zipfile

    def archive(members: dict[str, bytes], method: int, flags: int) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", method) as file:
            for name, content in members.items():
                file.writestr(name, content)
        found = bytearray(buffer.getvalue())
        if flags:  # encrypted, as both headers say
            for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
                if (place := found.find(mark)) >= 0:
                    found[place + at] |= flags
        return bytes(found)

    names = st.sampled_from(
        ["x.npy", "n.npy", "word.npy", "image.npy", "w.npy", "flag.npy", "x", "../x.npy", "\x1b.npy"]
    )
    methods = st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    made = st.builds(
        archive, st.dictionaries(names, npy_contents(), max_size=3), methods, st.sampled_from([0, 0, 0, 1])
    )
    whole = [
        archive({"x.npy": _npy(np.ones((3, 2))), "n.npy": _npy(np.arange(3))}, method, 0)
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    ]
    return Parser(st.tuples(st.sampled_from(list(signatures())), made | mangled(whole)), _predicted(folder, "npz"))


def model(folder: Path) -> Parser:
    """`model.json`, and the signature that `tapeline predict` makes of it."""
    from tapeline.prediction.signature import Signature
    from tapeline.registry.model import Model, described

    spec = {
        "inputs": {"x": {"dtype": "float32", "shape": [None, 2]}},
        "outputs": {"class": {"dtype": "int64", "shape": [None]}},
    }
    valid = {
        "name": "one", "dataset": {"name": "points", "sha256": "0", "source": {"kind": "test"}}, "files": {"a": "0"}, "signatures": {"serving_default": spec},
        "metrics": {"loss": 0.5, "confusion": {"classes": ["a", "b"], "counts": [[1, 2]]}}, "verdict": {"split": "test", "verdict": "yes"}, "own_inputs": ["x"],
    }  # fmt: skip

    def read(content: bytes) -> None:
        found = Model(described(content, "one@v1.0.0"), len(content))
        json.dumps([found.dataset, found.split, found.classes, found.own_inputs, found.metrics])
        for signature in found.signatures.values():
            Signature.of(signature["inputs"], {"x": ["a", "b"]})

    return Parser(json_files([valid]), read)


def dataset(folder: Path) -> Parser:
    """`dataset.json`, as the stages and the registry read it."""
    from tapeline.dataset.columns import Dataset

    column = _npy(np.ones((3, 2), np.float32))
    valid = {
        "name": "a", "source": {"kind": "test"}, "features": {"x": {"shape": [2], "dtype": "float32", "classes": ["a"]}},
        "splits": {"train": {"examples": 3, "columns": {"x": {"file": "train/x.npy", "bytes": len(column), "sha256": hashlib.sha256(column).hexdigest()}}}}, "statistics": {},
    }  # fmt: skip
    (folder / "train").mkdir()
    (folder / "train/x.npy").write_bytes(column)

    def read(content: bytes) -> None:
        (folder / "dataset.json").write_bytes(content)
        found = Dataset.open(folder)
        for split in found.splits:
            found.columns(split), found.nbytes(split), found.examples(split)
        found.verify()

    return Parser(json_files([valid]), read)


def metrics(folder: Path) -> Parser:
    """`metrics.json` and `verdict.json`: by a flow's report, from DVC's cache, and by `export`."""
    from tapeline.config.export import ExportSettings
    from tapeline.config.project import Project
    from tapeline.export.stage import export
    from tapeline.orchestration.reports.summary import Report
    from tapeline.repository.dvc_lock import Lock
    from tapeline.repository.recorded import Recorded

    verdict = {
        "verdict": "yes",
        "reason": "",
        "split": "test",
        "checks": [{"metric": "loss", "value": 0.5, "min": None, "max": 1.0, "holds": True}],
    }
    valid: list[Any] = [
        {"loss": 0.5, "classes": {"a": {"f1": 1.0}}},
        verdict,
        {"val": {"loss": 0.1}, "train": {"loss": 0.2}},
    ]
    names = ["runs/one/validate/metrics.json", "runs/one/validate/verdict.json", "runs/one/train/metrics.json"]
    outs = [{"path": name, "md5": f"{number:032x}"} for number, name in enumerate(names)]
    lock = Lock.parsed({"stages": {"validate@one": {"outs": outs}}}, of="runs/x")
    record = Recorded("one", lock, folder / "cache")
    project = Project(folder, folder, folder)

    def read(given: tuple[int, bytes]) -> None:
        for number, (name, tree) in enumerate(zip(names, valid, strict=True)):
            content = given[1] if number == given[0] else json.dumps(tree).encode()
            for path in (folder / name, folder / "cache" / "00" / f"{number:030x}"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        found = Report("one", project, finished=record)
        repr((found.verdict(), found.figures()))
        record.metrics()
        where = {
            "data": folder / "none",
            "trained": folder / "runs/one/train",
            "validated": folder / "runs/one/validate",
            "out": folder / "out",
        }
        export(name="one", recipe=folder, params={}, settings=ExportSettings(), **where)

    return Parser(st.tuples(st.integers(0, 2), json_files(valid)), read)


def traces(folder: Path) -> Parser:
    """What a stage leaves for the flow, and a trial for its sweep: outcome, progress, report, and a rollback's note."""
    from tapeline.orchestration.stages.outcome import judge, read_outcome
    from tapeline.orchestration.stages.progress_file import ProgressFile
    from tapeline.orchestration.sweeps.trial import Trial
    from tapeline.registry.serving import intact
    from tapeline.repository import reproduction

    left = {"outcome": "failed", "status": 1, "message": "x", "session": 5}
    progress = {"event": "epoch", "step": 10, "metrics": {"loss": 0.5}, "time": 1.5}
    served = {"name": "one", "version": "v1.0.0", "model": "0" * 32, "files": {"saved_model/a": "0" * 32}}

    def read(content: bytes) -> None:
        (folder / "outcome.json").write_bytes(content)
        if (found := read_outcome(folder / "outcome.json", session=5)) is not None:
            judge("train@one", reproduction.Reproduction(word="failed", status=1), returncode=1, lines=[], left=found)
        if (answer := reproduction.read(content)) is not None:
            judge("train@one", answer, returncode=0, lines=[], left=None)
        follower = ProgressFile(folder / "progress.jsonl")
        (folder / "progress.jsonl").write_bytes(json.dumps(progress).encode() + b"\n" + content + b"\n")
        list(follower.records())
        (folder / "progress.jsonl").unlink()
        Trial(None, None, folder / "outcome.json", folder / "log").result()  # type: ignore[arg-type]  # neither is asked
        (folder / "served").mkdir(exist_ok=True)
        (folder / "served/version.json").write_bytes(content)
        intact(folder / "served")

    return Parser(json_files([left, progress, served]), read)


def checkpoints(folder: Path) -> Parser:
    """Checkpoints whose checksums are right and whose content is not, as training resumes from them."""
    from hashlib import sha256

    from tapeline.runtime import files, startup

    startup.tensorflow()
    import tensorflow as tf

    from tapeline.train.checkpoints import disk as saved
    from tapeline.train.engine.state import State

    def state() -> Any:
        return State(
            {"w": tf.Variable(np.arange(9, dtype=np.float32)), "n": tf.Variable(3, dtype=tf.int64)}, ("w",), ("loss",)
        )

    made = state()
    made.history, made.best, made.best_weights = (
        [{"step": 5, "epoch": 1, "loss": 0.5}],
        {"value": 0.5, "step": 5, "stale": 0},
        made.kept(),
    )
    written = saved.write(folder / "whole", made.snapshot())
    parts = {path.name: path.read_bytes() for path in written.iterdir() if path.name != saved.MANIFEST}
    manifest = json.loads((written / saved.MANIFEST).read_bytes().split(b"\n", 1)[1])
    into = state()

    def read(given: tuple[str, Any]) -> None:
        place = folder / "tried" / written.name
        place.mkdir(parents=True, exist_ok=True)
        contents = {**parts, **({given[0]: given[1]} if given[0] in parts else {})}
        for name, content in contents.items():
            (place / name).write_bytes(content)
        if given[0] == "body":
            body = given[1]
        else:
            sums = {name: sha256(content).hexdigest() for name, content in contents.items()}
            body = files.canonical_json({"files": sums, "record": manifest["record"]}).encode()
        checksum = sha256(body).hexdigest().encode()
        (place / saved.MANIFEST).write_bytes(given[1] if given[0] == saved.MANIFEST else checksum + b"\n" + body)
        if (found := saved.newest(folder / "tried", into.expected, lambda line: None)) is not None:
            into.restore(found)

    bodies = st.tuples(st.just("body"), json_files([manifest]))
    records = st.tuples(
        st.just("body"), trees([manifest["record"]]).map(lambda one: json.dumps({**manifest, "record": one}).encode())
    )
    tables = st.sampled_from(list(parts)).flatmap(lambda name: st.tuples(st.just(name), mangled([parts[name]])))
    return Parser(
        bodies
        | records
        | records
        | tables
        | st.tuples(st.just(saved.MANIFEST), mangled([(written / saved.MANIFEST).read_bytes()])),
        read,
    )


def images(folder: Path) -> Parser:
    """An image in a folder, and as a model's input."""
    from PIL import Image

    from tapeline.config.ingest import ImageFolderSource
    from tapeline.ingest.image_folder import read as opened

    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6

    def file(mode: str, kind: str, **how: Any) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(pixels).resize((40, 24) if how.pop("large", False) else (8, 8)).convert(mode).save(
            buffer, kind, **how
        )
        return buffer.getvalue()

    whole = [
        file("RGB", "PNG"), file("L", "PNG"), file("P", "PNG", transparency=0), file("RGBA", "PNG"), file("RGB", "JPEG", exif=exif), file("L", "JPEG"),
        file("RGB", "JPEG", progressive=True, large=True), file("RGB", "JPEG", restart_marker_blocks=1, large=True), file("CMYK", "JPEG"), file("RGB", "BMP"),
        file("P", "GIF"), file("RGB", "WEBP"), file("RGB", "TIFF"), file("RGB", "PPM"), file("RGB", "ICO"), file("RGB", "TIFF", compression="tiff_lzw"), file("RGB", "TGA"),
    ]  # fmt: skip
    predicted = _predicted(folder, "png")
    (folder / "pictures/train/a").mkdir(parents=True)
    settings = ImageFolderSource(source="images", needs="pictures", size=(8, 8))

    def read(content: bytes) -> None:
        from tapeline.runtime.errors import InputError

        (folder / "pictures/train/a/1.png").write_bytes(content)
        try:
            predicted(("image", content))
        except InputError as error:
            assert str(error).isprintable()
        list(opened(settings, folder / "pictures").examples)

    return Parser(mangled(whole), read)


PARSERS: dict[str, Callable[[Path], Parser]] = {
    one.__name__: one
    for one in (
        params, overrides, prefect, dvc_lock, dvc, rwlock, tags, csv, parquet, predict_csv, predict_jsonl,
        npy, npz, model, dataset, metrics, traces, checkpoints, images,
    )
}  # fmt: skip
