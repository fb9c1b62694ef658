"""The forms that older versions gave to `params.yaml` and `dvc.yaml`, and today's text for each.

Functions from text to text. What is the user's own stays as it is written: comments, order, quotes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode

from tapeline.config.engine_lock import STAGES
from tapeline.config.params import OLD
from tapeline.config.project import DVC_YAML, PARAMS
from tapeline.config.train import OLD_PARTS, as_shards
from tapeline.parsing import yaml_text
from tapeline.parsing.yaml_lines import last_line
from tapeline.runtime.errors import InputError
from tapeline.scaffold.proposal import template
from tapeline.scaffold.stages import are_current

OLD_COMMENT = "# The libraries that decide the bits: each stage checks them against what is installed."
"""What older versions wrote above the section."""
ENGINE_FILES = ("src/tapeline/", "../src/tapeline/")
"""Where the dependencies of older stages were that `engine.lock` stands for today."""


def params(text: str) -> str:
    """Return `params.yaml` as of today. Raises `InputError` if it is not YAML, or for what cannot be rewritten.

    It has no section `environment`, and `shards` where `train` had `accumulate` and `replicas`.
    """
    return _with_shards(_without_libraries(text))


def _with_shards(text: str) -> str:
    before = _parsed(text, PARAMS)
    edits = [edit for train in _trains(YAML().compose(text)) for edit in _shards(train)]
    if not edits:
        return text
    new = text
    for start, end, today in sorted(edits, reverse=True):
        new = new[:start] + today + new[end:]
    for pipeline in before["pipelines"].values():
        train = pipeline.get("train") if isinstance(pipeline, dict) else None
        if isinstance(train, dict) and (old := {name: int(train.pop(name)) for name in OLD_PARTS if name in train}):
            train |= {**as_shards(**old), **_limit(old)}
    after = yaml_text.parsed_or_none(new)
    if after != before:
        raise InputError(
            f"{PARAMS}: accumulate and replicas are shards today, see docs/training.md: change them by hand"
        )
    return new


def _trains(root: Any) -> list[MappingNode]:
    """Return the mappings that hold the settings of `train`, those that others refer to once."""
    found: dict[int, MappingNode] = {}

    def visit(node: Any, path: tuple[str, ...]) -> None:
        if not isinstance(node, MappingNode):
            return
        if not path:
            found[id(node)] = node
        for key, value in node.value:
            if key.value == "<<":  # a mapping, or a list of them
                for one in [value] if isinstance(value, MappingNode) else value.value:
                    visit(one, path)
            elif path and path[0] in (key.value, "*"):
                visit(value, path[1:])

    visit(root, ("pipelines", "*", "train"))
    return list(found.values())


def _shards(train: MappingNode) -> list[tuple[int, int, str]]:
    """Return the edits of a mapping, (start, end, text): an old setting's place gets a new one."""
    pairs = [(key, value) for key, value in train.value if key.value in OLD_PARTS]
    try:
        old = {str(key.value): int(value.value) for key, value in pairs}
    except (TypeError, ValueError):
        raise InputError(f"{PARAMS}: accumulate and replicas are shards today, and must be numbers") from None
    if not old:
        return []
    texts = [f"{name}: {number}" for name, number in {**as_shards(**old), **_limit(old)}.items()]
    between = ", " if train.flow_style else "\n" + " " * pairs[0][0].start_mark.column
    texts = texts if len(pairs) > 1 else [between.join(texts)]
    return [
        (key.start_mark.index, value.end_mark.index, today) for (key, value), today in zip(pairs, texts, strict=True)
    ]


def _limit(old: Mapping[str, int]) -> dict[str, int]:
    """Return the second setting where there were two, so that each has a successor."""
    return {"at_once": old["replicas"]} if len(old) > 1 else {}


def _without_libraries(text: str) -> str:
    before = _parsed(text, PARAMS)
    if OLD not in before:
        return text
    lines = text.splitlines(keepends=True)
    [(first, last)] = [place for path, place in _entries(text) if path == (OLD,)]
    while lines[first - 1 : first] == [OLD_COMMENT + "\n"]:
        first -= 1
    after = lines[last:]
    while after and not after[0].strip() and not "".join(lines[first - 1 : first]).strip():
        del after[0]  # no second blank line
    new = "".join([*lines[:first], *after])
    if yaml_text.parsed_or_none(new) != {key: value for key, value in before.items() if key != OLD}:
        raise InputError(f"{PARAMS}: {OLD} shares its lines with other settings: put it on separate lines")
    return new


def dvc(text: str) -> str:
    """Return `dvc.yaml` with today's stages, and with everything that is the project's own.

    A file with today's stages stays as it is, however it is formatted. Raises `InputError` if the file is not
    Tapeline's, or if its stages were changed by hand.
    """
    own, before = template(DVC_YAML), _parsed(text, DVC_YAML)
    if are_current(text):
        return text
    stages, known = before.get("stages"), yaml_text.parsed(own)
    if not isinstance(stages, dict) or not set(STAGES) <= stages.keys():
        raise InputError(f"{DVC_YAML} does not have the stages {', '.join(STAGES)}: it is not a Tapeline project's")
    for stage in STAGES:
        _check_known(stage, stages[stage], known["stages"][stage])
    if any(name != "tapeline" for entry in _list(before.get("vars")) for name in _names(entry)):
        raise InputError(
            f"{DVC_YAML} has its own vars, but the file is the same in every project: move them to another file"
        )
    new = "\n".join([own.removesuffix("\n"), *_kept(text)])
    after = yaml_text.parsed_or_none(new)
    kept = {key: value for key, value in before.items() if key not in ("stages", "vars")}
    if after != {**known, "stages": {**stages, **known["stages"]}, **kept}:
        raise InputError(f"{DVC_YAML} has its own sections that cannot be carried over: put each on separate lines")
    return new


def _check_known(stage: str, old: Any, known: Mapping[str, Any]) -> None:
    """Raise `InputError` for a dependency, parameter or output that no version of Tapeline gave to a stage."""
    entry = old.get("do") if isinstance(old, dict) else None
    if not isinstance(entry, dict) or "tapeline" not in str(entry.get("cmd")):
        raise InputError(f"{DVC_YAML}: {stage} is not a stage of Tapeline: give it another name, and restore {stage}")
    for kind in ("deps", "params", "outs"):
        expected = [name for one in known["do"].get(kind, ()) for name in _names(one)] + [OLD]
        for name in (name for one in _list(entry.get(kind)) for name in _names(one)):
            if name not in expected and not name.startswith(ENGINE_FILES):
                raise InputError(
                    f"{DVC_YAML}: {stage} has {name} in {kind}, which the stages of no other project have: declare a "
                    "pipeline's dependency as its `needs`; remove it, or make it a separate stage"
                )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _names(entry: Any) -> list[str]:
    return [str(name) for name in entry] if isinstance(entry, Mapping) else [str(entry)]


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        content = yaml_text.parsed(text)
    except yaml_text.NotYaml as error:
        raise InputError(f"{name}{error.where}: not YAML: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{name} is not a mapping of sections")
    return content


def _kept(text: str) -> list[str]:
    """Return the lines of the project's own stages, then of its own sections, then the comments that follow.

    Comments go with the next of these below them. Those above and within Tapeline's entries are Tapeline's.
    """
    lines = text.splitlines(keepends=True)
    stages: list[str] = []
    sections: list[str] = []
    between: list[str] = []
    end = 0
    for path, (first, last) in _entries(text):
        own = path[-1] not in STAGES if path[1:] else path[0] not in ("stages", "vars")
        if own:
            (stages if path[1:] else sections).append(_text([*between, *lines[end:last]]))
            between = []
        elif end:
            between.append(_text(lines[end:first]))
        end = last
    return [*stages, *sections, *filter(None, [_text([*between, *lines[end:]])])]


def _text(lines: list[str]) -> str:
    """Return lines as text, without blank ones at either end."""
    start = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    return "".join(lines[start:]).rstrip("\n") + "\n" if lines[start:] else ""


def _entries(text: str) -> Iterator[tuple[tuple[str, ...], tuple[int, int]]]:
    """Yield the path of each section, and of each stage, with its first line, from 0, and the one after its last."""
    for key, value in YAML().compose(text).value:
        first = key.start_mark.line
        if key.value != "stages" or not isinstance(value, MappingNode):
            yield (key.value,), (first, _end(key, value))
        else:
            yield (key.value,), (first, first + 1)
            yield from (((key.value, name.value), (name.start_mark.line, _end(name, of))) for name, of in value.value)


def _end(key: Any, value: Any) -> int:
    return max(int(key.start_mark.line), last_line(value)) + 1
