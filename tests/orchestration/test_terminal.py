"""What a run in the terminal does beside saying its lines."""

import subprocess
import sys

import pytest

FOLLOWED = """
import sys, threading
from tapeline.orchestration.monitors.terminal import NoBar
assert "matplotlib" not in sys.modules
NoBar(page={page}).follow({{"event": "progress"}})
for thread in threading.enumerate():
    if thread.name == "drawing":
        thread.join()
print("matplotlib.figure" in sys.modules)
"""


@pytest.mark.parametrize("page", [True, False])
def test_what_draws_the_page_is_imported_while_a_stage_works(page):
    code = FOLLOWED.format(page=page)
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60).strip() == str(page)
