"""The record in a tag's message, checked when it is read: anybody can make a tag, and nobody can change one."""

import functools
import json
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tapeline.config.mistakes import mistakes_in
from tapeline.parsing import json_text
from tapeline.registry.repository import Tag
from tapeline.registry.sentences import sentence
from tapeline.repository.git import ID
from tapeline.runtime.errors import plain

_Sum = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Check(BaseModel):
    """One check of a verdict; its other fields depend on its kind."""

    model_config = ConfigDict(extra="allow", strict=True)

    holds: bool
    kind: str


class _Rules(BaseModel):
    """What decided a promotion."""

    model_config = ConfigDict(extra="allow", strict=True)

    off: list[str] = []
    committed: bool = True


class _Data(BaseModel):
    """The dataset of a version."""

    model_config = ConfigDict(extra="allow", strict=True)

    source: dict[str, Any] | None = None


class _Before(BaseModel):
    """The tag of the same model that was the latest when this one was made."""

    model_config = ConfigDict(extra="allow", strict=True)

    tag: str
    object: Annotated[str, Field(pattern=rf"^{ID.pattern}$")]


class _Record(BaseModel):
    """The fields that every reader of a record relies on; any may be missing, as in a tag of plain GTO."""

    model_config = ConfigDict(extra="allow", strict=True)

    commit: str | None = None
    model: dict[str, Any] | None = None
    sha256: dict[str, dict[str, _Sum]] | None = None
    metrics: dict[str, float | None] = {}
    data: _Data | None = None
    environment: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None
    action: str = ""
    champion: str | None = None
    approved_by: str | None = None
    checks: list[_Check] = []
    rules: _Rules | None = None
    version_tag: str | None = None
    before: _Before | None = None


@functools.lru_cache(maxsize=10_000)
def of(tag: Tag) -> dict[str, Any]:
    """Return the JSON object that follows the message's first line; empty if there is none. Not to be changed.

    Raises `ValueError`, with a readable message, for a tag with an invalid date or record, and for one on no commit.
    """
    if tag.kind != "commit":
        raise ValueError(f"it is on a {tag.kind}, not on a commit")
    if not datable(tag.time):
        raise ValueError(f"its date, {tag.time} s after 1970, is in no year from 1 to 9999")
    try:
        content = json_text.mapping(tag.message.partition("\n")[2])
    except json_text.NotJson:
        return {}
    try:
        _Record.model_validate(content)
    except ValidationError as error:
        raise ValueError(plain(mistakes_in(error, content)[0].told("its record's "))) from None
    for number, check in enumerate(content.get("checks", ())):
        try:
            sentence(check)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"checks.{number} in its record cannot be shown: {plain(repr(error))}") from None
    return content


def recorded(tag: Tag) -> dict[str, Any]:
    """Return a tag's record; empty if it cannot be read."""
    try:
        return of(tag)
    except ValueError:
        return {}


def message(subject: str, record: dict[str, Any]) -> str:
    """Return a tag's message: a line for people and the record as JSON."""
    return f"{subject}\n\n{json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)}\n"


def datable(seconds: int) -> bool:
    """Return whether a tag's time is a valid date, which GTO and DVC need too."""
    try:
        datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return False
    return True
