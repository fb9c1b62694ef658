"""A column larger than memory: written, described and hashed in pieces."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

SCRIPT = """
import re, sys
from pathlib import Path
from pydantic import TypeAdapter
from tapeline.ingest import image_folder, table
from tapeline.config.ingest import IngestSettings
from tapeline.ingest.stage import ingest

def peak():  # not ru_maxrss, which begins with the parent's
    return int(re.search("VmHWM:\\\\s+([0-9]+) kB", Path("/proc/self/status").read_text())[1])

project = Path(sys.argv[1])
settings = TypeAdapter(IngestSettings).validate_json(sys.argv[2])
before = peak()
ingest("large", settings, project=project, out=project / "out", work=project / "work")
print("grew", (peak() - before) // 1024)
"""


def growth(project: Path, settings: str) -> int:
    """Return by how many MiB the process grew while it ingested."""
    command = [sys.executable, "-c", SCRIPT, str(project), settings]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return int(answer.stdout.split()[-1])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's peak of resident memory")
def test_200_mib_of_images_in_less_than_half_of_that(project: Path) -> None:
    folder = project / "pictures" / "train" / "a"
    folder.mkdir(parents=True)
    for number in range(1024):
        Image.new("RGB", (2, 2), (number % 256, 0, 0)).save(folder / f"{number:04}.bmp")
    grew = growth(project, '{"source": "images", "needs": "pictures", "size": [256, 256]}')
    assert (project / "out" / "train" / "image.npy").stat().st_size > 200 * 10**6
    assert grew < 100


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's peak of resident memory")
def test_200_mb_of_parquet_in_one_row_group_in_less_than_half_of_that(project: Path) -> None:
    rows, random = 2_000_000, np.random.default_rng(0)
    columns = {f"c{number}": pa.array(random.random(rows, dtype=np.float32)) for number in range(25)}
    options = {"row_group_size": rows, "use_dictionary": False, "compression": "none"}
    parquet.write_table(pa.table(columns), project / "t.parquet", **options)
    names = ", ".join(f'"{name}"' for name in columns)
    grew = growth(project, f'{{"source": "table", "needs": "t.parquet", "features": {{"x": [{names}]}}}}')
    assert (project / "out" / "train" / "x.npy").stat().st_size > 200 * 10**6
    assert grew < 100
