"""The measurements as files: one JSON file per workload, with the machine that it was measured on."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"


def write(folder: Path, record: Mapping[str, Any], machine: Mapping[str, Any]) -> None:
    """Replace the workload's file."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**record, "machine": machine}, indent=1, ensure_ascii=False)
    (folder / f"{record['workload']}.json").write_text(text + "\n", encoding="utf-8")


def read_all(folder: Path) -> list[dict[str, Any]]:
    """Return every workload's record, by name; not what benchmarks without peers have written there."""
    records = [json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))]
    return [record for record in records if "ratios" in record]
