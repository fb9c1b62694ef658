"""A table's file: damaged, changed while it is read, not readable, written by a spreadsheet."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tapeline.config.ingest import TableSource
from tapeline.dataset.columns import Dataset
from tapeline.ingest import table
from tapeline.runtime.errors import InputError

SETTINGS: dict[str, Any] = {"source": "table", "needs": "t.csv", "features": {"x": "x"}}
Ingested = Callable[..., Path]
Refused = Callable[[dict[str, Any], str], None]


def test_newlines_in_quotes_are_read_wherever_a_block_ends(project: Path, ingested: Ingested) -> None:
    rows = 60_000
    (project / "t.csv").write_text("x,text\n" + "".join(f'{row},"a\n{"b" * 20}\n, ""c"""\n' for row in range(rows)))
    assert (project / "t.csv").stat().st_size > 2 * 2**20
    assert np.array_equal(Dataset.open(ingested(SETTINGS)).column("train", "x"), np.arange(rows))


def test_a_quote_that_is_not_closed_is_told_as_such(project: Path, refused: Refused) -> None:
    (project / "t.csv").write_text('x\n1\n"2\n' + "3\n" * 2_000_000)
    refused(
        SETTINGS,
        "t.csv cannot be read as CSV: a row is longer than 1,048,576 bytes, or a quote is unclosed; fix it, or save a "
        "table of so many columns as Parquet",
    )


def test_a_header_with_blanks_is_shown_with_them(project: Path, refused: Refused, ingested: Ingested) -> None:
    (project / "t.csv").write_text('a," x "\n1,2\n')
    refused(
        SETTINGS, "t.csv has no column 'x': it has a, ' x '; take the blanks out of the header's ' x ', or name it so"
    )
    dataset = Dataset.open(ingested({**SETTINGS, "features": {"x": " x "}}))
    assert dataset.column("train", "x").tolist() == [2]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_that_changes_while_it_is_read_is_refused(project: Path, kind: str) -> None:
    path = project / f"t.{kind}"

    def write(first: float) -> None:
        if kind == "csv":
            path.write_text(f"x\n{first}\n2\n")
        else:
            parquet.write_table(pa.table({"x": [first, 2]}), path)

    write(1)
    source = table.read(TableSource(source="table", needs=path.name, features={"x": "x"}), path)
    write(3)
    with pytest.raises(InputError, match=f"t.{kind} changed while it was read: ingest again"):
        list(source.examples)


def test_a_label_that_was_written_meanwhile_is_refused(project: Path) -> None:
    path = project / "t.parquet"
    parquet.write_table(pa.table({"x": [1, 2], "y": ["a", "b"]}), path)
    settings = TableSource(source="table", needs=path.name, features={"x": "x", "y": "y"}, label="y")
    source = table.read(settings, path)
    parquet.write_table(pa.table({"x": [1, 2], "y": ["a", "c"]}), path)
    with pytest.raises(InputError, match="the label 'c' was not there when the classes were found: ingest again"):
        list(source.examples)


@pytest.mark.parametrize("cut", [{"test": 0.2}, {"test": 0.2, "stratify": "y"}])
@pytest.mark.parametrize("above", [0, 1])
def test_a_byte_order_mark_below_the_header_is_text_also_where_a_block_begins(
    project: Path, ingested: Ingested, cut: dict[str, Any], above: int
) -> None:
    begun = "y,x\n" + "".join(f"{'ab'[row % 2]},{row}\n" for row in range(90_000))
    last = 2**20 - len(begun) - len("a,\n")
    content = begun + f"a,{'1' * 9}.{'0' * (last - 10 + above)}\n" + "\ufeffa,0.5\n"
    (project / "t.csv").write_bytes(content.encode())
    settings = {**SETTINGS, "features": {"x": "x", "y": "y"}, "label": "y", **cut}
    assert Dataset.open(ingested(settings)).features["y"].classes == ("a", "b", "\ufeffa")


def test_a_page_whose_checksum_is_wrong_is_refused(project: Path, refused: Refused) -> None:
    path = project / "t.parquet"
    options = {"write_page_checksum": True, "compression": "none", "use_dictionary": False}
    parquet.write_table(pa.table({"x": np.random.default_rng(0).random(10_000)}), path, **options)
    content = bytearray(path.read_bytes())
    content[40_000:41_000] = bytes(1000)
    path.write_bytes(content)
    refused({**SETTINGS, "needs": "t.parquet"}, "t.parquet cannot be read as Parquet: ")


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("t.csv", SETTINGS),
        ("t.parquet", {**SETTINGS, "needs": "t.parquet"}),
        ("p/train/a/1.png", {"source": "images", "needs": "p", "size": (2, 2)}),
        ("made.py", {"source": "builder", "needs": "made.py"}),
    ],
)
def test_a_pointer_of_git_lfs_is_told_as_such(
    project: Path, refused: Refused, name: str, settings: dict[str, Any]
) -> None:
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text(POINTER)
    refused(settings, f"{name} is a pointer of Git LFS, not the file itself: run `git lfs pull`")


UNREADABLE = """
import os, sys
from pathlib import Path
from tapeline.runtime.errors import InputError
from tapeline.ingest import image_folder, table
from tapeline.config.ingest import ImageFolderSource, TableSource
os.chdir(sys.argv[1])
if os.geteuid() == 0:  # who may read everything
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for read in (
    lambda: table.read(TableSource(source="table", needs="t.csv", features={"x": "x"}), Path("t.csv")),
    lambda: image_folder.read(ImageFolderSource(source="images", needs="p", size=(2, 2)), Path("p")),
):
    try:
        read()
    except InputError as error:
        print(error)
"""


def test_an_unreadable_file_is_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("unreadable")
    (folder / "p" / "train" / "a").mkdir(parents=True)
    for file in (folder / "t.csv", folder / "p" / "train" / "a" / "1.png"):
        file.touch()
        file.chmod(0)
    for above in (folder, folder.parent, folder.parent.parent):
        above.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", UNREADABLE, str(folder)]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.stdout.splitlines() == [
        "t.csv cannot be read by this user: allow it with `chmod u+r`",
        "p/train/a/1.png cannot be read by this user: allow it with `chmod u+r`",
    ], answer.stderr
