"""Mutation testing: `make mutants MUTANTS="--seed 7 --only registry/gate/decision.py"`.

Cosmic Ray's operators change one place of a source file in a copy of the checkout, and the fast tests of that file
must fail there. TensorFlow is imported once, and each mutant runs in a fork; importing it starts no thread that a fork
would lose, as long as no operation runs. A mutant that hangs is caught. Exits with status 1 when any survives.
"""

import argparse
import ast
import contextlib
import difflib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from tests.mutants.equivalent import is_equivalent
from tests.mutants.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path("src") / "tapeline"
COPIED = ("src", "tests", "flows", "pyproject.toml", "params.yaml", "dvc.yaml")
HANG = 900
"""Seconds after which a mutant counts as hanging: three times what the slowest list of tests takes."""
TEST_HANG = 120
"""Seconds after which one test does."""
BROKEN = (4, 5, 70)
"""Statuses that say nothing about a mutant: pytest was called wrongly, it found no test, the fork failed before it."""
SURVIVED, CAUGHT, HUNG = "survived", "caught", "timed out"


@dataclass(frozen=True)
class Mutant:
    """One change of one file of `src/tapeline`; line and column are those of the original."""

    file: str
    line: int
    operator: str
    original: str
    mutated: str

    def diff(self) -> str:
        lines = (self.original.splitlines(), self.mutated.splitlines())
        return "\n".join(
            line for line in difflib.unified_diff(*lines, n=0, lineterm="") if line[:3] not in ("---", "+++")
        )


def mutants(file: str) -> Iterator[list[tuple[str, int, int]]]:
    """Yield for each place of a file what can be done there: (operator, its occurrence, line).

    A draw takes a place first and then a change: there are eleven for each binary operator, and one for `if`. What
    `EQUIVALENT` has is left out.
    """
    source = (ROOT / SOURCE / file).read_text(encoding="utf-8")
    notes = annotations(source)
    lines = source.splitlines()
    nodes = list(ast_nodes(get_ast(source)))
    places: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
    for name in cosmic_ray.plugins.operator_names():
        operator = cosmic_ray.plugins.get_operator(name)
        if operator.arguments():
            continue  # it wants the name of a variable
        positions = [position for node in nodes for position in operator().mutation_positions(node)]
        for occurrence, ((line, column), _) in enumerate(positions):
            annotated = any(start <= (line, column) < end for start, end in notes)
            if not annotated and not is_equivalent(file, lines[line - 1], column):
                places.setdefault((line, column), []).append((name, occurrence, line))
    yield from places.values()


def annotations(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where the type annotations are: with another operator in one, the module cannot even be imported."""
    nodes = list(ast.walk(ast.parse(source)))
    notes = [getattr(node, name, None) for node in nodes for name in ("annotation", "returns")]
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in notes if n is not None]


def drawn(files: list[str], count: int, seed: int) -> list[Mutant]:
    """Return `count` mutants at different places, every place of all files as likely as any other."""
    draw = random.Random(seed)
    places = [(file, changes) for file in files for changes in mutants(file)]
    draw.shuffle(places)
    found: list[Mutant] = []
    for file, changes in places:
        name, occurrence, line = draw.choice(changes)
        original = (ROOT / SOURCE / file).read_text(encoding="utf-8")
        mutated = mutation(original, name, occurrence) if len(found) < count else None
        if mutated:
            found.append(Mutant(file, line, name.removeprefix("core/"), original, mutated))
    return sorted(found, key=lambda mutant: (files.index(mutant.file), mutant.line))


def mutation(source: str, operator: str, occurrence: int) -> str | None:
    """Return the changed source; None where the operator fails on it or makes no Python.

    The one for exceptions takes each of `except (a.B, C)` for a plain name, others the `**` of `**rows` for a power.
    """
    try:
        mutated: str = mutate_code(source, cosmic_ray.plugins.get_operator(operator)(), occurrence)
        compile(mutated, "", "exec")
    except (AttributeError, SyntaxError):
        return None
    return mutated


def copied(mutant: Mutant | None, folder: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(".packages"))  # with its bytecode
        elif (ROOT / name).exists():
            shutil.copy2(ROOT / name, folder / name)
    if mutant:
        (folder / SOURCE / mutant.file).write_text(mutant.mutated, encoding="utf-8")


def started(mutant: Mutant | None, tests: Iterable[str], folder: Path) -> int:
    """Run tests in a fork, in a process group of its own, on a copy with a mutant or none; return its number."""
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    status = 70
    try:
        os.setpgid(0, 0)
        copy = folder / "copy"
        copied(mutant, copy)
        os.chdir(copy)
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ["PYTHONPATH"] = str(copy / "src")
        sys.path[:] = [str(copy / "src"), *(entry for entry in sys.path if Path(entry or ".").resolve() != ROOT)]
        import pytest

        options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", f"--timeout={TEST_HANG}"]
        options.append(f"--basetemp={folder / 'temp'}")
        status = int(pytest.main([*options, *(f"tests/{name}" for name in tests)]))
    finally:
        os._exit(status)


def run(found: list[Mutant], jobs: int) -> Iterator[tuple[Mutant, str, float, str]]:
    """Yield each mutant, what became of it, the seconds that it took and the last line that pytest wrote.

    The unchanged copy runs too, beside them: a test that fails there would catch every mutant.
    """
    every = dict.fromkeys(test for mutant in found for test in TARGETS[mutant.file])
    waiting: list[tuple[Mutant | None, Iterable[str]]] = [(m, TARGETS[m.file]) for m in reversed(found)]
    waiting.append((None, every))
    running: dict[int, tuple[Mutant | None, Any, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                folder = tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True)
                mutant, tests = waiting.pop()
                running[started(mutant, tests, Path(folder.name))] = (mutant, folder, time.monotonic())
            time.sleep(0.05)
            for pid, (mutant, folder, begun) in list(running.items()):
                seconds = time.monotonic() - begun
                ended, status = os.waitpid(pid, os.WNOHANG)
                if not ended and (mutant is None or seconds < HANG):
                    continue
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)  # what its tests left, too
                if not ended:
                    os.waitpid(pid, 0)
                output = Path(folder.name, "output")
                lines = output.read_text(errors="replace").splitlines() if output.exists() else []
                folder.cleanup()
                del running[pid]
                code = os.waitstatus_to_exitcode(status)
                if ended and (code in BROKEN or (mutant is None and code)):
                    place = f"{mutant.file}:{mutant.line}" if mutant else "the unchanged copy"
                    raise SystemExit("\n".join([f"the tests of {place} could not be run:", *lines[-30:]]))
                if mutant:
                    said = next((line for line in reversed(lines) if line.startswith(("FAILED", "ERROR"))), "")
                    yield mutant, HUNG if not ended else SURVIVED if code == 0 else CAUGHT, seconds, said
    finally:
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--only", action="append", choices=list(TARGETS), metavar="FILE", help="of src/tapeline; may be repeated"
    )
    asked = parser.parse_args()
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    import keras  # noqa: F401
    import tensorflow  # noqa: F401

    outcomes = dict.fromkeys((CAUGHT, HUNG, SURVIVED), 0)
    for mutant, outcome, seconds, said in run(drawn(asked.only or list(TARGETS), asked.count, asked.seed), asked.jobs):
        outcomes[outcome] += 1
        print(f"{outcome:9} {SOURCE / mutant.file}:{mutant.line} {mutant.operator} {seconds:.0f} s {said[:140]}")
        if outcome == SURVIVED:
            print(mutant.diff())
        sys.stdout.flush()
    print(f"{sum(outcomes.values())} mutants of seed {asked.seed}:", ", ".join(f"{n} {o}" for o, n in outcomes.items()))
    return int(outcomes[SURVIVED] > 0)


if __name__ == "__main__":
    sys.exit(main())
