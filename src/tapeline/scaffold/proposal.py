"""What `tapeline init` proposes for given data: an entry under `datasets`, one under `pipelines`, and a recipe."""

import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from tapeline.config.params import NAME
from tapeline.parsing import yaml_text
from tapeline.parsing.yaml_flow import WORDS, yaml_flow

TARGETS = ("target", "label", "class", "y", "species", "category", "outcome")
"""Names that mark a target, in upper or lower case; the first of these that exists is the target."""


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
    """Return a name for `params.yaml` from a file or folder name: lower case, digits, inner hyphens.

    It is one that YAML reads as a string without quotes, because DVC and Prefect read it too.

    >>> name_of("Old Houses"), name_of("2024"), name_of("写真")
    ('old-houses', 'data-2024', 'data')
    """
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not NAME.fullmatch(name):
        return "data"
    return name if name not in WORDS and yaml_text.parsed_or_none(name) == name else f"data-{name}"


def marked_target(names: Iterable[str]) -> str | None:
    """Return the one of these names that marks a target, if there is one.

    >>> marked_target(["Outcome", "Y", "price"])
    'Y'
    """
    by_case = {name.lower(): name for name in names}
    return next((by_case[name] for name in TARGETS if name in by_case), None)


def class_name(name: str, prefix: str) -> str:
    """Return a Python class name for a name of `params.yaml`; `prefix` is put before one that begins with a digit.

    >>> class_name("old-houses", "Table"), class_name("3d", "Table")
    ('OldHouses', 'Table3d')
    """
    title = "".join(part.capitalize() for part in re.split(r"[-_]", name))
    return title if title.isidentifier() and not keyword.iskeyword(title) else f"{prefix}{title}"


def yaml_lines(values: Mapping[str, Any], indent: int) -> str:
    """Return a mapping as YAML, one line an entry."""
    return "\n".join(f"{' ' * indent}{key}: {yaml_flow(value)}" for key, value in values.items())


def template(file: str, **values: str) -> str:
    """Return a file of `templates/` with each placeholder `NAME_` replaced by the value of that name."""
    text = (resources.files("tapeline.scaffold") / "templates" / f"{file}.template").read_text(encoding="utf-8")
    return filled(text, **values) if values else text


def filled(text: str, **values: str) -> str:
    """Return a template's text with its placeholders replaced."""
    places = re.compile("|".join(rf"{re.escape(key.upper())}_" for key in values))
    return places.sub(lambda place: values[place[0][:-1].lower()], text)
