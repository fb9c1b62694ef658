"""Orchestration: Prefect schedules and watches what DVC repeats. Nothing here imports TensorFlow.

The flows use the `tapeline` of the tree that they stand in, as the stages do: an editable install may be another
checkout's.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
