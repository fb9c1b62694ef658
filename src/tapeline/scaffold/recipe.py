"""`tapeline new recipe`: one file, and the pipeline that trains it where a dataset is given.

    new_recipe(project, "pets", like="image", dataset="photos", say=print)

Nothing that exists is overwritten, and a second call changes nothing. All input is checked before anything is written.
"""

import keyword
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tapeline.config.params import NAME, Params
from tapeline.config.project import PARAMS, Project
from tapeline.parsing.yaml_flow import yaml_flow
from tapeline.runtime import files
from tapeline.runtime.errors import InputError
from tapeline.scaffold.learned import Known, known, names_of
from tapeline.scaffold.pipeline_entry import added
from tapeline.scaffold.proposal import class_name, filled, marked_target, template

FOLDER = "recipes"
LONGEST = 64
DEVICES = ("con", "prn", "aux", "nul")
"""Names that a file cannot have on Windows."""


@dataclass(frozen=True)
class Kind:
    """A template, the features that it learns from where no dataset says better, and first settings."""

    file: str
    params: dict[str, Any]
    train: dict[str, Any]
    what: str
    input: str = "x"
    target: str | None = "label"

    @property
    def of_columns(self) -> bool:
        """Whether it learns from numbers, and so from any features that are numbers or vectors of them."""
        return self.input == "x"


TRAIN = {"epochs": 20, "batch_size": 32}
KINDS = {
    "table": Kind("classifier.py", {"learning_rate": 0.01, "units": 32}, TRAIN, "classes from columns of numbers"),
    "number": Kind(
        "regressor.py", {"learning_rate": 0.01, "units": 32}, TRAIN, "a number from columns of numbers", target="y"
    ),
    "image": Kind("images.py", {"learning_rate": 0.001}, TRAIN, "classes of images", input="image"),
    "text": Kind(
        "text.py", {"learning_rate": 0.01, "units": 32}, TRAIN, "classes of texts, given as codes", input="text"
    ),
    "gan": Kind(
        "gan.py",
        {"learning_rate": 0.0002, "latent": 64, "units": 128},
        TRAIN,
        "images from noise, with two models and two optimizers",
        input="image",
        target=None,
    ),
    "own-step": Kind(
        "own_step.py", {"learning_rate": 0.01, "units": 32}, TRAIN, "like `table`, with the training step written out"
    ),
}


def new_recipe(
    project: Project, name: str, *, like: str | None = None, dataset: str | None = None, say: Callable[[str], None]
) -> list[Path]:
    """Write the recipe `name`, and return the files that are new or changed.

    like: one of `KINDS`; by default what fits the dataset, else `table`. dataset: add a pipeline to `params.yaml` that
    trains the recipe on it; otherwise `say` gets the lines to add. A recipe of columns of numbers learns from all
    features that are numbers or vectors of them; `say` gets what is predicted from what, and the names of features that
    are left out. The number that is predicted is the last one, if no name marks another as the target.
    Raises `InputError`, and then nothing is written.
    """
    _check_name(name)
    params, _ = Params.sound(project.folder)
    source = params.dataset(dataset) if dataset is not None else None
    has = known(project, dataset, source)
    kind = KINDS[like or _fitting(has)]
    inputs, target = _features(has, dataset, kind)
    file = _place(project.folder, params, name)
    texts = {file: _text(kind, name, inputs, target, has)}
    pipeline, recipe = name.replace("_", "-"), file.relative_to(project.folder).as_posix()
    entry = _entry(dataset or "NAME", recipe, kind, has.examples)
    if dataset is not None:
        texts[project.folder / PARAMS] = added(project.folder / PARAMS, pipeline, entry)
    new = [path for path, text in texts.items() if _differs(path, text, project.folder)]
    for path in new:
        files.write_text(path, texts[path])
    if new and dataset is not None:
        say(_learned(has, dataset, inputs, target))
    if left := [name for name in has.shapes if name not in (*inputs, target)]:
        say(f"ignored: {', '.join(left)} of datasets.{dataset}, which a recipe for {kind.what} does not use")
    if dataset is None:
        say(f"add to `pipelines:` in {PARAMS}:\n  {pipeline}:\n{_indented(entry)}")
    return new


def _check_name(name: str) -> None:
    """Raise `InputError` unless `name` is valid for a pipeline and a file on every system, and no Python keyword."""
    stem = name.replace("-", "_")
    fits = re.fullmatch(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*", name) and NAME.fullmatch(name.replace("_", "-"))
    if not fits or len(name) > LONGEST:
        raise InputError(
            f"{name!r} is not a recipe name: use lower-case letters, digits and inner hyphens, at most {LONGEST} "
            "characters"
        )
    if keyword.iskeyword(stem) or stem in DEVICES:
        raise InputError(f"{name!r} is a word of {'Windows' if stem in DEVICES else 'Python'}: choose another name")


def _fitting(has: Known) -> str:
    if has.images:
        return "image"
    return "number" if has.shapes and has.label is None else "table"


def _features(has: Known, dataset: str | None, kind: Kind) -> tuple[list[str], str | None]:
    """Return the names of the inputs and the target. Raises `InputError` where the dataset does not have them."""
    if not has.shapes:
        return [kind.input], kind.target
    target = None
    if kind.target == "label":
        target = has.label
        if target is None:
            other = "`--like gan` needs none" if has.images else "`--like number` predicts a number"
            raise InputError(f"datasets.{dataset} has no label: {other}")
    elif kind.target is not None:
        target = marked_target(has.targets) or next(reversed(has.targets), None)
    inputs = [name for name in (has.images if kind.input == "image" else has.numbers) if name != target]
    if not inputs or (target is None and kind.target is not None):
        names = ", ".join(has.shapes)
        raise InputError(f"datasets.{dataset} has {names}: a recipe for {kind.what} cannot learn from these")
    if kind.of_columns:
        return inputs, target
    return [kind.input if kind.input in inputs else inputs[0]], target


def _learned(has: Known, dataset: str, inputs: list[str], target: str | None) -> str:
    """Return what is predicted from what, in one line."""
    what = f"predicts {target!r} from" if target else "learns to make"
    unknown = f": a guess, since the features of datasets.{dataset} are unknown until `dvc repro ingest@{dataset}`"
    return f"{what} {', '.join(map(repr, inputs))}{'' if has.shapes else unknown}"


def _text(kind: Kind, name: str, inputs: list[str], target: str | None, has: Known) -> str:
    """Return the text of a recipe: of columns, the plain one where all is vectors and one of them is learned from."""
    predicted = None if kind.target == "label" else target
    plain = len(inputs) == 1 and not has.is_scalar(inputs[0]) and not has.is_scalar(predicted)
    text = template(kind.file if plain or not kind.of_columns else f"several/{kind.file}")
    values = {"title": class_name(name, "Recipe"), "input": inputs[0], "inputs": names_of(inputs)}
    return filled(text, **values, **({"target": target} if target else {}))


def _place(folder: Path, params: Params, name: str) -> Path:
    """Return the recipe's file: beside most other recipes, else in `recipes/`. Raises `InputError` if it is a twin."""
    known = [PurePosixPath(pipeline.recipe).parent for pipeline in params.pipelines.values()]
    inside = Counter(place for place in known if place.parts and ".." not in place.parts and not place.is_absolute())
    place = folder / (inside.most_common(1)[0][0] if inside else FOLDER)
    file = place / f"{name.replace('-', '_')}.py"
    for parent in (place, *place.parents):
        if parent.exists() and not parent.is_dir():
            raise InputError(f"{parent} is not a folder: move it away")
    if not place.resolve().is_relative_to(folder):
        raise InputError(f"{place} is a link to another place: a recipe must be inside the project")
    _check_twins(file, place.iterdir() if place.is_dir() else ())
    return file


def _check_twins(file: Path, siblings: Iterable[Path]) -> None:
    """Raise `InputError` for a file that is the same one where case does not count."""
    for sibling in siblings:
        if sibling.name.lower() == file.name and sibling.name != file.name:
            raise InputError(
                f"{sibling} exists, which is the same file on a case-insensitive system: choose another name"
            )


def _differs(path: Path, text: str, folder: Path) -> bool:
    """Return whether a file must be written. Raises `InputError` for another file in a recipe's place."""
    if not os.path.lexists(path):
        return True
    same = path.is_file() and files.read_bytes(path) == text.encode()
    if not same and path.name != PARAMS:
        raise InputError(f"{path.relative_to(folder)} exists: choose another name, or move it away")
    return not same


def _entry(dataset: str, recipe: str, kind: Kind, examples: int | None) -> list[str]:
    """Return the lines of a pipeline. examples: in its train split, if that is known."""
    most = 1 << (examples.bit_length() - 1) if examples else TRAIN["batch_size"]
    train = {**kind.train, "batch_size": min(kind.train["batch_size"], most)}
    return [
        f"dataset: {yaml_flow(dataset)}",
        f"recipe: {yaml_flow(recipe)}",
        f"needs: data/{dataset}  # no further input",
        f"params: {yaml_flow(kind.params)}",
        f"train: {yaml_flow(train)}",
        "validate: {thresholds: {}}  # {loss: {max: 0.5}}: what a model must show to be exported",
        "export: {}",
    ]


def _indented(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)
