"""Call the `dvc` of this interpreter as a program, which ends with this process.

done = dvc_call.called(folder, "--quiet", "push", env=environment())
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tapeline.runtime import leash


def called(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None, timeout: float | None = None
) -> "subprocess.CompletedProcess[str]":
    """Return how DVC answers in a folder, whatever its status. env: default, this process'; timeout: in seconds.

    Raises `subprocess.TimeoutExpired`, and `OSError` if it cannot be started.
    """
    command = [sys.executable, "-P", "-m", "dvc", *arguments]
    return leash.text(command, cwd=folder, env=os.environ if env is None else env, timeout=timeout)
