"""Clones of this tree, and commands called in them with nothing but this interpreter's folder on the path."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
OUTS = ("data", "runs", "models")


def call(folder, *command, status=0, timeout=280):
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


def environment():
    """No activated environment but this interpreter's folder, and no server that happens to run."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "PYTHON", "DVC_"))}
    return {**kept, "PATH": f"{BIN}:{kept['PATH']}", "CUDA_VISIBLE_DEVICES": "-1"}


def sums(folder):
    """Return the SHA-256 of every out; what describes the machine is none."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in OUTS
        for path in sorted((folder / part).rglob("*"))
        if path.is_file() and path.name not in (".gitignore", "environment.json")
    }


def cloned(source, folder):
    """Clone a tree as it is, committed or not, with an empty cache."""
    call(ROOT, "git", "clone", "--quiet", source, folder)
    for name in call(source, "git", "ls-files", "--modified", "--others", "--exclude-standard").stdout.splitlines():
        if (source / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((source / name).read_bytes())
    return folder


def made(folder):
    """Return what a build left: the lock and the sums of the outs."""
    return (folder / "dvc.lock").read_bytes(), sums(folder)


def undisturbed(folder, *command):
    """Return what a command makes in a clone of this tree where nothing disturbs it."""
    clone = cloned(ROOT, folder / "tapeline")
    call(clone, *command)
    return made(clone)
