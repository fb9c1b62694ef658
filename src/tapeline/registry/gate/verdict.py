"""A verdict on a version for a stage: every number of the gate and the infra check, as a file and as a table."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapeline.parsing import json_text
from tapeline.registry.sentences import sentence
from tapeline.runtime import files
from tapeline.runtime.errors import plain


@dataclass(frozen=True)
class Verdict:
    """Whether a version may go into a stage, and against which champion it was judged."""

    name: str
    version: str
    stage: str
    champion: str | None
    """The version that was live in the stage, if any."""
    data: dict[str, Any]
    """The examples: the dataset's MD5, the split, the count."""
    checks: tuple[dict[str, Any], ...]
    figures: dict[str, Any]
    """What the infra check measured: latency, memory, size, batch sizes."""
    is_live: bool = False
    """Whether the version is live in the stage itself, so that there is none to compare it with."""

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return all(check["holds"] for check in self.checks)

    @property
    def reason(self) -> str:
        """What does not hold, in one line; empty if everything does."""
        return "; ".join(sentence(check) for check in self.checks if not check["holds"])

    def record(self) -> dict[str, Any]:
        """Return the verdict as JSON for the file and the tag. Non-finite numbers become null."""
        content: dict[str, Any] = {
            "version": self.version,
            "stage": self.stage,
            "champion": self.champion,
            "verdict": "yes" if self.holds else "no",
            "data": self.data,
            "checks": list(self.checks),
            "figures": self.figures,
        }
        found: dict[str, Any] = json_text.as_json(content)
        return found

    def write(self, folder: Path) -> Path:
        """Write the file, replacing an older verdict on the same version and stage."""
        path = folder / "verdicts" / f"{self.name}@{self.version}-{self.stage}.json"
        files.write_json(path, self.record())
        return path

    def table(self) -> str:
        """Return the checks as lines: yes or no, the kind, the numbers."""
        alone = ", where it is live itself" if self.is_live else ", no champion"
        against = f" against {self.champion}" if self.champion else alone
        lines = [f"{self.name}@{self.version} for {self.stage}{against}: {'yes' if self.holds else 'no'}"]
        lines += [f"  {'yes' if c['holds'] else 'NO '}  {c['kind']:<12}  {sentence(c)}" for c in self.checks]
        return "\n".join(map(plain, lines))
