"""What the programs have in common: the options of their command lines, and the file that they write."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import machine, result_files

OTHER = result_files.FOLDER / "other"
"""The results that compare no peers."""


def parser(
    about: str | None, *, repeats: int | None = None, caps: bool = False, out: Path = OTHER
) -> argparse.ArgumentParser:
    """Return a parser that knows `--out`, `--repeats` if there is a number of them, and `--caps` if asked.

    about: the program's docstring.
    """
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    if repeats is not None:
        made.add_argument("--repeats", type=int, default=repeats, help="turns of each")
    if caps:
        made.add_argument(
            "--caps", choices=sorted(machine.CAPS), help="the instructions of a lesser CPU, for all; recorded"
        )
    made.add_argument("--out", type=Path, default=out, help="the folder for the results")
    return made


def write(out: Path, record: Mapping[str, Any], **more: Any) -> None:
    """Write what was measured, with a description of this machine and `more` of it."""
    result_files.write(out, record, {**machine.describe(), **more})
