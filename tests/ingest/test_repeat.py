"""The same bytes whatever the process, its place, its language, its time zone and its hash seed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from tapeline.config.ingest import BuilderSource
from tapeline.ingest.stage import ingest

SCRIPT = """
import sys
from pathlib import Path
from tapeline.config.ingest import ImageFolderSource, TableSource
from tapeline.ingest.stage import ingest

project = Path(sys.argv[1])
table = TableSource(
    source="table", needs="t.csv", features={"x": ("a", "b"), "y": "c"}, label="y", split="s", validation=0.3
)
images = ImageFolderSource(source="images", needs="pictures", size=(5, 7), validation=0.3)
for name, settings in (("table", table), ("images", images)):
    ingest(name, settings, project=project, out=project / "out" / name, work=project / "work")
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"tensorflow", "tensorflow_datasets", "keras", "prefect"}, "no TensorFlow for tables and images"
"""

Hashes = Callable[[Path], dict[str, str]]


def project(folder: Path) -> Path:
    folder.mkdir()
    random = np.random.default_rng(0)
    words = ["zebra", "Äpfel", "apple", "Zoo"]
    rows = [
        f"{a},{b},{words[c]},{'test' if c == 0 and a > 0 else 'train'}\n"
        for a, b, c in zip(random.normal(size=200), random.random(200), random.integers(0, 4, 200), strict=True)
    ]
    (folder / "t.csv").write_text("a,b,c,s\n" + "".join(rows), encoding="utf-8")
    for number in range(40):
        path = folder / "pictures" / ("train" if number % 4 else "test") / words[number % 3] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (9, 9, 3), np.uint8)).save(path)
    return folder


def run(folder: Path, **environment: str) -> None:
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    answer = subprocess.run(command, env=settings, cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""


def test_two_processes_write_the_same_bytes(tmp_path: Path, hashes: Hashes) -> None:
    first, second = project(tmp_path / "first"), project(tmp_path / "the second")
    run(first, PYTHONHASHSEED="1", TZ="Asia/Tokyo", LANG="C", LC_ALL="C")
    run(second, PYTHONHASHSEED="2", TZ="America/Lima", LANG="de_DE.UTF-8", LC_ALL="de_DE.UTF-8", OMP_NUM_THREADS="1")
    written = hashes(first / "out")
    assert len(written) == 2 * (1 + 3 * 2)
    assert written == hashes(second / "out")


def test_a_builder_repeats_from_other_folders(tmp_path: Path, digits: Path, hashes: Hashes, builders: Path) -> None:
    settings = BuilderSource(source="builder", needs="optdigits.py", validation=0.1)
    again = tmp_path / "elsewhere"
    ingest("digits", settings, project=builders, out=again, work=tmp_path / "other work")
    assert hashes(again) == hashes(digits)
    assert not list((tmp_path / "other work" / "tfds").glob("passing*"))
