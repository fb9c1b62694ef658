import errno
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from disks import files_of_at_most

from tapeline.config.ingest import TableSource
from tapeline.dataset.columns import Dataset, Feature
from tapeline.ingest import stage
from tapeline.ingest.stage import ingest
from tapeline.ingest.statistics import describe
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

SETTINGS: dict[str, Any] = {"source": "table", "needs": "t.csv", "features": {"x": "x"}}
Ingested = Callable[..., Path]
Refused = Callable[[dict[str, Any], str], None]
Hashes = Callable[[Path], dict[str, str]]


def test_the_index_is_all_that_training_and_dvc_must_know(project: Path, ingested: Ingested) -> None:
    (project / "t.csv").write_text("x,y,k\n1,b,0\n1,a,1\n2,b,2\n3,b,3\n3,b,4\n6,b,5\n")
    folder = ingested({**SETTINGS, "features": {"x": "x", "y": "y"}, "label": "y", "key": "k", "validation": 0.5})
    index = json.loads((folder / "dataset.json").read_bytes())
    assert (folder / "dataset.json").read_text() == files.canonical_json(index)
    counts, item = {"train": 2, "val": 4}, {"x": 4, "y": 8}
    splits = {
        split: {
            "examples": count,
            "columns": {
                name: {
                    "file": f"{split}/{name}.npy",
                    "bytes": 128 + count * size,
                    "sha256": files.sha256(folder / split / f"{name}.npy"),
                }
                for name, size in item.items()
            },
        }
        for split, count in counts.items()
    }
    assert index == {
        "name": "set",
        "source": {
            "kind": "table",
            "name": "t.csv",
            "columns": {"x": ["x"], "y": ["y"]},
            "key": "k",
            "sha256": files.sha256(project / "t.csv"),
        },
        "features": {
            "x": {"shape": [], "dtype": "float32"},
            "y": {"shape": [], "dtype": "int64", "classes": ["a", "b"]},
        },
        "splits": splits,
        "statistics": {
            "train": {"x": {"min": 2.0, "max": 6.0, "mean": 4.0, "std": 2.0}, "y": {"counts": [0, 2]}},
            "val": {"x": {"min": 1.0, "max": 3.0, "mean": 2.0, "std": 1.0}, "y": {"counts": [1, 3]}},
        },
    }


def test_people_get_three_plain_lines(project: Path, ingested: Ingested, capfd: pytest.CaptureFixture[str]) -> None:
    (project / "t.csv").write_text("x,y,s\n1,2,train\n3,4,train\n5,6,test\n")
    ingested({**SETTINGS, "features": {"x": ["x", "y"], "y": "y"}, "split": "s"})
    told = capfd.readouterr()
    assert told.out.splitlines() == [
        "set: reading t.csv (source: table)",
        "set: train 2, test 1 examples of x (float32 2), y (float32)",
        "set: written to data/set",
    ]
    assert told.err == ""


def test_the_flow_is_told_the_count(project: Path, tmp_path: Path) -> None:
    (project / "t.csv").write_text("x\n" + "".join(f"{row}\n" for row in range(321)))
    told: list[Any] = []
    settings = TableSource(**SETTINGS)
    ingest("set", settings, project=project, out=project / "out", work=tmp_path / "work", report=told.append)
    assert told[-1] == {"event": "progress", "done": 321, "unit": "examples", "total": 321}


def test_columns_are_flushed_while_they_are_described_and_a_failing_disk_is_told(
    project: Path, ingested: Ingested, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "t.csv").write_text("x\n1\n2\n")
    before, sync, flushed = ingested(SETTINGS), files.sync, threading.Event()

    def described(path: Path, kind: Feature) -> dict[str, Any]:
        assert flushed.wait(30)
        return describe(path, kind)

    def failing(path: Path) -> None:
        flushed.set()
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(stage, "describe", described)
    monkeypatch.setattr(files, "sync", lambda path: failing(path) if path.suffix == ".npy" else sync(path))
    index = (before / "dataset.json").read_bytes()
    (project / "t.csv").write_text("x\n3\n4\n")
    with pytest.raises(OSError, match="Input/output error"):
        ingested(SETTINGS)
    assert (before / "dataset.json").read_bytes() == index


def test_a_second_ingest_replaces_the_whole_folder(project: Path, ingested: Ingested) -> None:
    (project / "t.csv").write_text("x,s\n1,train\n2,test\n")
    ingested({**SETTINGS, "split": "s"})
    (project / "data" / "set" / "foreign").touch()
    (project / "t.csv").write_text("x\n3\n")
    folder = ingested(SETTINGS)
    inside = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    assert inside == ["dataset.json", "train", "train/x.npy"]
    Dataset.open(folder).verify()


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ("data/set", "needs data/set, its own output, which ingest would replace: move it"),
        (
            "data/set/t.csv",
            "needs data/set/t.csv, a part of data/set, its own output, which ingest would replace: move it",
        ),
        ("link.csv", "needs link.csv, a part of data/set, its own output, which ingest would replace: move it"),
        ("data", "needs data, but its own output, data/set, is in there, and ingest would read it: set"),
    ],
)
def test_raw_data_in_the_place_of_the_output_stay(
    project: Path, ingested: Ingested, hashes: Hashes, needs: str, said: str
) -> None:
    (project / "data" / "set").mkdir(parents=True)
    (project / "data" / "set" / "t.csv").write_text("x\n1\n")
    (project / "link.csv").symlink_to("data/set/t.csv")
    before = hashes(project)
    with pytest.raises(InputError) as caught:
        ingested({**SETTINGS, "needs": needs})
    assert f"dataset 'set' {said}" in str(caught.value) and "\n" not in str(caught.value)
    assert hashes(project) == before


def test_what_ingest_did_not_write_is_not_replaced(project: Path, ingested: Ingested, hashes: Hashes) -> None:
    (project / "t.csv").write_text("x\n1\n")
    (project / "data" / "set").mkdir(parents=True)
    (project / "data" / "set" / "own.csv").touch()
    before = hashes(project)
    with pytest.raises(InputError, match=r"written to data/set, which has files, but no dataset.json: ingest did not"):
        ingested(SETTINGS)
    (project / "data" / "file").touch()
    with pytest.raises(
        InputError, match=r"written to data/file, which is a file: ingest did not write it; move it elsewhere"
    ):
        ingested(SETTINGS, out="data/file")
    (project / "data" / "file").unlink()
    assert hashes(project) == before
    (project / "data" / "set" / "own.csv").unlink()
    Dataset.open(ingested(SETTINGS)).verify()  # an empty folder is no loss


def test_a_failed_ingest_leaves_the_old_dataset_whole(project: Path, ingested: Ingested, hashes: Hashes) -> None:
    (project / "t.csv").write_text("x\n1\n2\n")
    before = hashes(ingested(SETTINGS))
    (project / "t.csv").write_text("x\n" + "4\n" * 300_000 + "nan\n")
    with pytest.raises(InputError, match="row 300001 below the header: 'nan' is not finite"):
        ingested(SETTINGS)
    assert hashes(project / "data" / "set") == before
    (project / "t.csv").write_text("x\n" + "4\n" * 300_000)
    with files_of_at_most(2**20), pytest.raises(OSError, match=r"File too large") as caught:
        ingested(SETTINGS)
    assert caught.value.errno == errno.EFBIG
    assert hashes(project / "data" / "set") == before
    assert [path.name for path in (project / "data").iterdir()] == ["set"]


def test_a_read_only_place_is_an_os_error(project: Path, ingested: Ingested) -> None:
    (project / "t.csv").write_text("x\n1\n")
    (project / "data").touch()  # where no folder can be made, even by root
    with pytest.raises(OSError, match="Not a directory"):
        ingested(SETTINGS)


@pytest.mark.parametrize(
    ("tracked", "remedy"), [(False, "add it, or correct `needs`"), (True, "run `dvc pull data/raw/t.csv.dvc`")]
)
def test_a_missing_input_says_how_to_bring_it(project: Path, ingested: Ingested, tracked: bool, remedy: str) -> None:
    (project / "data" / "raw").mkdir(parents=True)
    if tracked:
        (project / "data" / "raw" / "t.csv.dvc").touch()
    with pytest.raises(InputError, match=rf"^dataset 'set' needs data/raw/t.csv, which does not exist: {remedy}$"):
        ingested({**SETTINGS, "needs": "data/raw/t.csv"})


def test_every_row_is_in_exactly_one_split(project: Path, ingested: Ingested) -> None:
    names = ["train", "val", "test"]
    rows = [(value, names[value % 3]) for value in range(5000)]
    (project / "t.csv").write_text("x,s\n" + "".join(f"{value},{split}\n" for value, split in rows))
    dataset = Dataset.open(ingested({**SETTINGS, "split": "s"}))
    for place, split in enumerate(names):
        assert np.array_equal(dataset.column(split, "x"), np.arange(place, 5000, 3))
