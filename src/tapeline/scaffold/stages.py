"""The stages that the `dvc.yaml` of every project has, however their text is formatted.

DVC itself writes the file anew for `dvc stage add`, with other quotes and indentation; formatters and Git's line ends
do so too.
"""

from collections.abc import Mapping
from typing import Any

from tapeline.config.project import DVC_YAML
from tapeline.parsing import yaml_text
from tapeline.scaffold.proposal import template


def are_current(text: str) -> bool:
    """Return whether a `dvc.yaml` has today's stages and variables; stages and sections of its own are free."""
    found, own = yaml_text.parsed_or_none(text), yaml_text.parsed(template(DVC_YAML))
    if not isinstance(found, Mapping) or found.get("vars") != own["vars"]:
        return False
    stages: Any = found.get("stages")
    return isinstance(stages, Mapping) and all(stages.get(name) == stage for name, stage in own["stages"].items())
