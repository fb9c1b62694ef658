"""Clones of this tree, and commands run in them with this interpreter's folder first in PATH."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
OUTS = ("data", "runs", "models")


def call(folder, *command, status=0, timeout=840):
    answer = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert answer.returncode == status, answer.stdout + answer.stderr
    return answer


def shell(command, folder, **more):
    """Run a line of the shell with this tree's package, and return what came of it, as bytes."""
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, capture_output=True, check=False, timeout=100, stdin=subprocess.DEVNULL,
        env={**environment(), "PYTHONPATH": str(ROOT / "src"), **more},
    )  # fmt: skip


def environment():
    """Return an environment with this interpreter's folder in PATH and without Prefect, Python or DVC settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "PYTHON", "DVC_"))}
    return {**kept, "PATH": f"{BIN}:{kept['PATH']}", "CUDA_VISIBLE_DEVICES": "-1"}


def sums(folder):
    """Return the SHA-256 of every output, without the machine's description."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in OUTS
        for path in sorted((folder / part).rglob("*"))
        if path.is_file() and path.name not in (".gitignore", "environment.json")
    }


def cloned(source, folder):
    """Clone a tree with its uncommitted changes and an empty cache."""
    call(ROOT, "git", "clone", "--quiet", source, folder)
    for name in call(source, "git", "ls-files", "--modified", "--others", "--exclude-standard").stdout.splitlines():
        if (source / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((source / name).read_bytes())
    return folder


def made(folder):
    """Return the result of a build: the lock and the sums of the outputs."""
    return (folder / "dvc.lock").read_bytes(), sums(folder)


def undisturbed(folder, *command):
    """Return the result of a command in an undisturbed clone of this tree."""
    clone = cloned(ROOT, folder / "tapeline")
    call(clone, *command)
    return made(clone)
