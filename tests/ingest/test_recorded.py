"""The bytes of every kind of source as they were before reading was parallel, and what was said: to the bit."""

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from tapeline.ingest import csv_parts, table_file
from tapeline.runtime import environment, files
from tapeline.runtime.errors import InputError

ROWS = 40_000
WORDS = ("zebra", " Äpfel ", "apple", "Zoo", '"a, b"')
Ingested = Callable[..., Path]


def rows(count: int) -> list[list[str]]:
    """Numbers in every way that a CSV may have them, a label, a split, a key: the same on every machine."""
    state, made = 1, []
    for number in range(count):
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        bits = state >> 20
        a = f"{(bits % 200_001 - 100_000) / 10 ** (bits % 7)!r}"
        b = (f"{bits % 1000}", f"{bits % 1000}e-3", f" {bits % 99}\t", f"0.{bits}", f"+{bits % 7}.5")[number % 5]
        if b.startswith("+"):
            b = b[1:]
        c = f"{bits % 5}"
        split = ("train", "test", "validation", "train", "train")[bits % 5]
        made.append([a, b, c, WORDS[bits % len(WORDS)], split, f"k{bits % 400}", str(bits * 1021 - 2**50)])
    return made


def write_csv(project: Path, count: int = ROWS) -> None:
    text = "".join(",".join(row) + "\n" for row in rows(count))
    (project / "t.csv").write_text("a,b,c,name,part,key,whole\n" + text, encoding="utf-8")


def write_plain(project: Path) -> None:
    """Write a table without quotes, with numbers that float32 holds though they are large, and with blank lines."""
    large = ("33554432", "16777217.5", "9e30", "\u00a07", "-0.0")
    text = "".join(f"{row[0]},{large[place % 5]},{row[5]}\r\n" for place, row in enumerate(rows(60_000)))
    (project / "t.csv").write_bytes(("a,b,name\r\n" + text.replace("\r\n", "\r\n\r\n", 3)).encode())


def write_parquet(project: Path) -> None:
    made = rows(9_000)
    numbers = [float(row[0]) for row in made]
    table = pa.table(
        {
            "a": pa.array(numbers, pa.float64()),
            "b": pa.array(numbers, pa.float32()),
            "c": pa.array([int(row[2]) for row in made], pa.int8()),
            "name": pa.array([row[3] for row in made]).dictionary_encode(),
            "part": pa.array([row[4] for row in made]),
            "flag": pa.array([row[2] == "1" for row in made]),
            "price": pa.array([Decimal(int(row[2])) / 4 for row in made], pa.decimal128(9, 2)),
            "text": pa.array([row[0] for row in made]),
            "whole": pa.array([int(row[6]) for row in made], pa.int64()),
        }
    )
    parquet.write_table(table, project / "t.parquet", row_group_size=3_333)


def picture(number: int, mode: str = "RGB") -> Image.Image:
    """Waves of another colour, size and length for each number."""
    height, width = 20 + 7 * (number % 6), 64 - 5 * (number % 8)
    y, x = np.mgrid[:height, :width]
    waves = [(x * (number + k + 1) + y * (2 * number + 3 * k)) % 256 for k in range(3)]
    return Image.fromarray(np.stack(waves, -1).astype(np.uint8)).convert(mode)


def write_images(project: Path) -> None:
    turned, content = Image.Exif(), io.BytesIO()
    turned[0x0112] = 6
    ways: list[dict[str, Any]] = [
        {}, {"quality": 95, "subsampling": 0}, {"progressive": True}, {"exif": turned}, {"restart_marker_rows": 1}
    ]  # fmt: skip
    for number in range(60):
        path = project / "pictures" / ("test" if number % 7 == 0 else "train") / f"class {number % 3}" / f"{number:03}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if number % 5 < 3:
            mode = ("RGB", "RGB", "L", "CMYK")[number % 4]
            picture(number, mode).save(path.with_suffix(".jpg"), **ways[number % len(ways)])
        elif number % 5 == 3:
            picture(number, ("RGB", "RGBA", "LA", "P")[number % 4]).save(path.with_suffix(".png"))
        else:
            picture(number).save(path.with_suffix(".bmp"))
    picture(5).save(content, "JPEG")
    half, whole = len(content.getvalue()) // 2, content.getvalue()
    (project / "pictures/train/class 1/cut.jpg").write_bytes(whole[:half] + bytes(len(whole) - half - 2) + whole[-2:])


def write_grey(project: Path) -> None:
    for number in range(8):
        path = project / "pictures" / "train" / "abc"[number % 3] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture(number, "L").save(path)


TABLE: dict[str, Any] = {"source": "table", "needs": "t.csv", "features": {"x": ["a", "b"], "c": "c"}}
LABELLED = {**TABLE, "features": {**TABLE["features"], "name": "name"}, "label": "name"}
PARQUET = {
    "source": "table",
    "needs": "t.parquet",
    "features": {"x": ["a", "b", "flag", "price", "text"], "name": "name", "whole": "whole"},
    "label": "name",
    "integers": ["whole"],
}
IMAGES = {"source": "images", "needs": "pictures", "size": [17, 23]}

CASES: dict[str, tuple[Callable[[Path], None], dict[str, Any]]] = {
    "numbers": (write_csv, TABLE),
    "whole numbers": (write_csv, {**TABLE, "features": {"whole": "whole", "x": ["a"]}, "integers": ["whole"]}),
    "labels": (write_csv, LABELLED),
    "no quotes": (write_plain, {**LABELLED, "features": {"x": ["a", "b"], "name": "name"}}),
    "labels, by content": (write_csv, {**LABELLED, "validation": 0.2, "test": 0.1}),
    "a split column": (write_csv, {**LABELLED, "split": "part"}),
    "a key": (write_csv, {**TABLE, "key": "key", "validation": 0.3, "test": 0.2}),
    "strata": (write_csv, {**TABLE, "stratify": "name", "validation": 0.25, "test": 0.25}),
    "parquet": (write_parquet, PARQUET),
    "parquet, by content": (write_parquet, {**PARQUET, "validation": 0.25, "columns": ["x", "name"]}),
    "images": (write_images, IMAGES),
    "images, by key": (write_images, {**IMAGES, "validation": 0.3}),
    "grey images": (write_grey, {**IMAGES, "columns": ["image"]}),
}


def digest(out: Path, said: str) -> dict[str, str]:
    """Return what is compared: every column, the index but for the source's own hash, and every line printed."""
    index = json.loads((out / "dataset.json").read_bytes())
    index["source"].pop("sha256", None)  # of a file whose bytes depend on the library that wrote it
    index["source"].pop("columns", None)  # newer than the records
    index["source"].pop("key", None)  # newer, too
    found = {"index": files.canonical_json(index).encode(), "said": said.encode()}
    found |= {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*.npy"))}
    return {name: hashlib.sha256(content).hexdigest()[:16] for name, content in found.items()}


@pytest.mark.parametrize("name", CASES)
def test_bytes_and_words_are_those_of_before(
    name: str, project: Path, ingested: Ingested, capsys: pytest.CaptureFixture[str]
) -> None:
    write, settings = CASES[name]
    write(project)
    out = ingested(settings)
    assert digest(out, capsys.readouterr().out) == RECORDED[name]


@pytest.mark.parametrize("name", ["no quotes", "parquet", "images"])
def test_one_thread_gives_the_same_bytes(
    name: str,
    project: Path,
    ingested: Ingested,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "cores", lambda: 1)
    test_bytes_and_words_are_those_of_before(name, project, ingested, capsys)


@pytest.mark.parametrize("whole", [0, 1, 2])
def test_rows_after_the_last_usual_part_are_read_in_one_thread(
    whole: int,
    project: Path,
    ingested: Ingested,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = csv_parts.parts

    def few(path: Path, begin: int = 0) -> Iterator[csv_parts.Part]:
        yield from (part for part in islice(parts(path), whole) if part.begin >= begin)
        raise csv_parts.Unusual

    monkeypatch.setattr(csv_parts, "parts", few)
    test_bytes_and_words_are_those_of_before("no quotes", project, ingested, capsys)


PLAIN = {**LABELLED, "features": {"x": ["a", "b"], "name": "name"}}
PASSES = {"kept": (2**28, 1, 0), "one part kept": (1, 2, 0), "nothing kept": (0, 2, 0), "a large number": (2**28, 1, 1)}


@pytest.mark.parametrize("case", PASSES)
def test_what_the_search_for_classes_has_parsed_is_not_parsed_again(
    case: str, project: Path, ingested: Ingested, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, passes, read_again = PASSES[case]
    begins, again = [], []
    parts, part = csv_parts.parts, csv_parts.Parsed.part

    def counted(path: Path, begin: int = 0) -> Iterator[csv_parts.Part]:
        for one in parts(path, begin):
            begins.append(one.begin)
            yield one

    def counted_again(self: csv_parts.Parsed, path: Path) -> csv_parts.Part:
        again.append(self.begin)
        return part(self, path)

    monkeypatch.setattr(csv_parts, "BLOCK_BYTES", 2**16)
    monkeypatch.setattr(csv_parts, "parts", counted)
    monkeypatch.setattr(csv_parts.Parsed, "part", counted_again)
    monkeypatch.setattr(csv_parts, "KEPT_BYTES", kept)
    monkeypatch.setattr(
        table_file, "in_order", lambda parts, work, **_: (work(part) for part in parts)
    )  # one at a time
    random = np.random.default_rng(0)
    numbers, names = random.normal(size=(9_000, 2)).round(6), random.choice(["b", "a", "c"], 9_000)
    numbers[5_000, 1] = 2**24 + 2 if read_again else 0.0
    lines = [f"{first},{second:.0f},{name}" for (first, second), name in zip(numbers, names, strict=True)]
    (project / "t.csv").write_text("\n".join(["a,b,name", *lines]) + "\n")
    out = ingested(PLAIN)
    assert (
        np.load(out / "train/x.npy") == np.stack([numbers[:, 0], numbers[:, 1].round()], 1).astype(np.float32)
    ).all()
    assert (np.load(out / "train/name.npy") == np.searchsorted(["a", "b", "c"], names)).all()
    assert max(begins.count(begin) for begin in begins) == passes
    assert begins.count(0) == (1 if kept else 2)
    assert len(again) == read_again


def test_large_parts_of_a_parquet_file_are_its_rows_in_order(project: Path, ingested: Ingested) -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 200_000))
    parquet.write_table(pa.table({"a": a, "b": b.astype(np.float32)}), project / "t.parquet", row_group_size=70_000)
    out = ingested({"source": "table", "needs": "t.parquet", "features": {"x": ["a", "b"]}})
    assert (np.load(out / "train/x.npy") == np.stack([a, b], 1).astype(np.float32)).all()


def test_bad_cells_of_a_large_part_are_named_row_by_row(project: Path, ingested: Ingested) -> None:
    a, b = np.ones((2, 200_000))
    a[150_000] = b[100_000] = np.nan
    parquet.write_table(pa.table({"a": a, "b": b}), project / "t.parquet")
    with pytest.raises(InputError, match=r"'b', row 100001 below .*\(2 bad cells; also column 'a' row 150001 nan\)"):
        ingested({"source": "table", "needs": "t.parquet", "features": {"x": ["a", "b"]}})


def test_parts_are_whole_rows_and_together_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'"a","b"\r\n' + b"1,2\r\n" * 600_000 + b"3,4")
    found = list(csv_parts.parts(path))
    assert len(found) == 4
    assert b"".join(part.content for part in found) == path.read_bytes()
    assert [part.begin for part in found] == [0, *(part.end for part in found[:-1])]
    assert list(csv_parts.parts(path, found[1].begin)) == found[1:]
    assert all(part.content.endswith(b"\n") for part in found[:-1])


@pytest.mark.parametrize("content", [b'a\n1\n"2"\n', b'"a\nb",c\n1,2\n', b"a\r" + b"1\r" * 2**20])
def test_what_cannot_be_parted_is_unusual(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(csv_parts.Unusual):
        list(csv_parts.parts(tmp_path / "t.csv"))


def test_an_ingested_dataset_and_a_builder_too(
    project: Path, ingested: Ingested, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert digest(digits, "") == RECORDED["builder"]
    (project / "digits").symlink_to(digits)
    capsys.readouterr()
    out = ingested({"source": "dataset", "needs": "digits", "validation": 0.0, "columns": ["image"]})
    assert digest(out, capsys.readouterr().out) == RECORDED["dataset"]


RECORDED: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "recorded.json").read_text())
