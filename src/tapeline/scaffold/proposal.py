"""What `tapeline init` proposes for given data: an entry under `datasets`, one under `pipelines`, and a recipe."""

import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

from tapeline.config.params import NAME


@dataclass(frozen=True)
class Proposal:
    """A first dataset and pipeline of the same name; `said` reports what was found and what was left out."""

    name: str
    dataset: dict[str, Any]
    params: dict[str, Any]
    train: dict[str, Any]
    recipe: str
    said: tuple[str, ...] = ()


def name_of(text: str) -> str:
    """Return a name for `params.yaml` from a file or folder name: lower case, digits, inner hyphens."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return name if NAME.fullmatch(name) else "data"


def template(file: str, **values: str) -> str:
    """Return a file of `templates/` with each placeholder `NAME_` replaced by the value of that name."""
    text = (resources.files("tapeline.scaffold") / "templates" / f"{file}.template").read_text(encoding="utf-8")
    if not values:
        return text
    places = re.compile("|".join(rf"{re.escape(key.upper())}_" for key in values))
    return places.sub(lambda place: values[place[0][:-1].lower()], text)
