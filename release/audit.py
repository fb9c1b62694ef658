"""Ask for the known advisories on all that is locked, with pip-audit in an environment of its own.

    python -m release.audit                                 # by PyPI's advisories
    python -m release.audit --vulnerability-service osv     # options of pip-audit

The exit status is 0 where everything was asked for and has none, 1 where something has one, and 3 where not everything
could be asked for: no network, or an index that does not know the advisories. pip-audit itself says "no known
vulnerabilities" of that, too.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from release import locked

LOCK = Path(__file__).with_name("audit.lock")
NONE, SOME, NOT_ASKED = 0, 1, 3
WAIT = 600
"""Seconds for each of its steps."""


def main(options: Sequence[str]) -> int:
    """Print what was found, and return the exit status."""
    with tempfile.TemporaryDirectory(prefix="tapeline-audit-") as made:
        work = Path(made)
        failure, content = _asked(work, options)
    entries = locked.read()
    if failure:
        print(f"audit: not asked for any of {len(entries)} distributions: {failure}", file=sys.stderr)
        return NOT_ASKED
    lines, status = judged(content, entries)
    print("\n".join(lines), file=sys.stderr if status else sys.stdout)
    return status


def judged(report: Any, entries: Sequence[locked.Locked]) -> tuple[list[str], int]:
    """Return what pip-audit's report says on the lock, in lines, and the exit status."""
    found = [one for one in report["dependencies"] if "skip_reason" not in one]
    asked = {(one["name"], one["version"]) for one in found}
    lines = [
        f"{one['name']} {one['version']}: {known['id']}, mended in {', '.join(known['fix_versions']) or 'no version'}"
        for one in found
        for known in one["vulns"]
    ]
    left = [f"{one.name} {one.version}" for one in entries if (one.name, one.version) not in asked]
    if left:
        reason = next((one["skip_reason"] for one in report["dependencies"] if "skip_reason" in one), "not reported")
        few = ", ".join(left[:3]) + (", ..." if len(left) > 3 else "")
        lines.append(f"audit: not asked for {len(left)} of {len(entries)} distributions ({few}): {reason}")
    elif not lines:
        lines.append(f"audit: no known advisory for any of {len(entries)} distributions")
    return lines, SOME if any(one["vulns"] for one in found) else NOT_ASKED if left else NONE


def _asked(work: Path, options: Sequence[str]) -> tuple[str, Any]:
    """Return why there is no report, if there is none, and the report."""
    python = work / "environment" / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    hashed = ["--no-deps", "--require-hashes", "-r", str(LOCK)]
    for command in (
        [*uv, "venv", "--quiet", "--python", sys.executable, str(work / "environment")],
        [*uv, "pip", "install", "--quiet", "--python", str(python), *hashed],
    ):
        if (answer := _run(command)).returncode:
            return f"pip-audit could not be installed: {_last(answer)}", None
    found: list[Any] = []
    for file in _requirements(work):
        report = file.with_suffix(".json")
        command = [str(python), "-m", "pip_audit", "--progress-spinner", "off", "--disable-pip", "--no-deps"]
        answer = _run([*command, "--format", "json", "--output", str(report), "--requirement", str(file), *options])
        if not report.is_file():
            return _last(answer), None
        found += json.loads(report.read_bytes())["dependencies"]
    return "", {"dependencies": found}


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", timeout=WAIT, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {WAIT} s")


def _last(answer: "subprocess.CompletedProcess[str]") -> str:
    lines = [line for line in (answer.stderr or answer.stdout).splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else f"exit status {answer.returncode}"


def _requirements(work: Path) -> list[Path]:
    """Write the locked versions, of all platforms, into files that name each distribution once at most."""
    files: list[dict[str, str]] = []
    for one in locked.read():
        place = next((file for file in files if one.name not in file), None)
        if place is None:
            files.append(place := {})
        place[one.name] = one.version
    paths = []
    for number, file in enumerate(files):
        paths.append(work / f"{number}.txt")
        paths[-1].write_text("".join(f"{name}=={version}\n" for name, version in file.items()), encoding="utf-8")
    return paths


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
