"""Add a pipeline to `params.yaml` as text, so that comments and formatting stay as they are."""

from collections.abc import Sequence
from pathlib import Path

from ruamel.yaml import YAML

from tapeline.config.params import Params, checked
from tapeline.config.project import PARAMS
from tapeline.parsing import yaml_text
from tapeline.parsing.yaml_flow import yaml_flow
from tapeline.parsing.yaml_lines import last_line
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


def added(path: Path, name: str, entry: Sequence[str]) -> str:
    """Return the file's text with a pipeline `name` of these lines at the end of `pipelines:`.

    The same text if it has that very pipeline. Raises `InputError` if it has another one of this name, or a form in
    which only a person can add one.
    """
    text = files.read_bytes(path).decode()
    before = yaml_text.parsed(text)
    wanted = {name: yaml_text.parsed("\n".join(entry))}
    if name in before["pipelines"]:
        if before["pipelines"][name] == wanted[name]:
            return text
        raise InputError(f"{PARAMS} already has a pipeline {name!r}: choose another name")
    lines = text.splitlines(keepends=True)
    newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    at, indent = _end(text)
    new = [f"{' ' * indent}{yaml_flow(name)}:", *(f"{' ' * indent}  {line}" for line in entry)]
    if at and not lines[at - 1].endswith("\n"):
        lines[at - 1] += newline
    after = "".join([*lines[:at], *(f"{line}{newline}" for line in new), *lines[at:]])
    expected = {**before, "pipelines": {**before["pipelines"], **wanted}}
    if not indent or yaml_text.parsed_or_none(after) != expected:
        raise InputError(f"{PARAMS} is written in a form that cannot be extended automatically: leave out --dataset")
    checked(Params, expected, where=PARAMS)
    return after


def _end(text: str) -> tuple[int, int]:
    """Return the number of the line behind the last pipeline, and the names' indentation; 0 where there is none."""
    root = YAML(typ="rt", pure=True).compose(text)
    section = next(value for key, value in root.value if key.value == "pipelines")
    if section.flow_style or not section.value:
        return 0, 0
    return last_line(section) + 1, section.value[0][0].start_mark.column
