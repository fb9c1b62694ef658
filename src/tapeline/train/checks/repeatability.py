"""Check that building and tracing a recipe gives the same result each time.

A value that differs at each start (the clock, an unseeded generator, the order of a set) becomes a constant of the
traced step or an initial weight, and nothing in the graph shows its origin. So a recipe is built and traced twice
before its first step, and the constants and initial values are compared; a resumed run is compared with the run that
wrote the checkpoint.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tapeline.parsing import json_text
from tapeline.recipe import variables
from tapeline.recipe.evaluation import Evaluation
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, NotRepeatable
from tapeline.train.checks.completeness import operations


@dataclass(frozen=True)
class Made:
    """The values that one start of a recipe consists of, as digests, each with its origin."""

    values: tuple[tuple[str, str], ...]
    """(digest, place in the recipe), in tracing order: swapping two constants counts as a difference."""

    @property
    def digest(self) -> str:
        """One digest over all values."""
        return blake2b("\n".join(digest for digest, _ in self.values).encode(), digest_size=16).hexdigest()


def made(
    traced: Mapping[str, Any],
    initial: Mapping[str, tf.Variable],
    *,
    tables: Mapping[str, Any],
    data: Iterable[tf.Tensor],
    source: str,
) -> Made:
    """Return the values that a start consists of.

    traced: `train_step`, `prepare`, `eval_step` → concrete function. initial: variables before the first step.
    tables: as `variables.tables` finds them. data: tensors of the dataset, which has its own checksum. source: the
    recipe's file, to name its lines.
    """
    values = [(_digest(value), f"the initial value of {name}") for name, value in sorted(initial.items())]
    values += [(_content(table), f"the content of {name}") for name, table in tables.items()]
    skipped = {id(tensor) for tensor in data}
    for where, function in traced.items():
        for external, _ in function.graph.captures:
            if tf.is_symbolic_tensor(external):
                raise InputError(
                    f"{where} reads {external.name}, which a layer made when another function was traced: make it in "
                    "`build`, by the layer's `build(shape)` or by calling the layer once"
                )
            if external.dtype not in (tf.resource, tf.variant) and id(external) not in skipped:
                values.append((_digest(external), f"a tensor that {where} reads"))
        for operation in operations(function.graph):
            if operation.type == "Const":
                if not (place := _place(operation, source)):
                    continue  # the engine's constant, which depends on how the data are read
                tensor = operation.node_def.attr["value"].tensor
                digest = blake2b(tensor.SerializeToString(deterministic=True), digest_size=16).hexdigest()
                values.append((digest, f"a constant in {where}, {place},"))
    return Made(tuple(values))


def check_same(recipe: Path, first: Made, second: Made) -> None:
    """Raise `NotRepeatable` naming a value that differs between two starts of the same recipe."""
    if first.digest == second.digest:
        return
    known = {digest for digest, _ in first.values}
    new = [where for digest, where in second.values if digest not in known]
    # A value that the other start has too, at another place, shows only by its position.
    moved = [where for before, (digest, where) in zip(first.values, second.values, strict=False) if before[0] != digest]
    where = next(iter(new + moved), "a value")
    raise NotRepeatable(f"recipe {recipe}: {where} is different at each start: {_REMEDY}")


def _recorded(record: Path) -> Any:
    """Return the content of a folder's record; None if it was truncated or altered."""
    try:
        return json_text.parsed(files.read_bytes(record))
    except json_text.NotJson:
        return None


def check_recorded(recipe: Path, folder: Path, made: Made, *, fresh: bool) -> None:
    """Compare a start with the one recorded in a folder of checkpoints, if any, and record it.

    Raises `NotRepeatable` if they differ although everything that the fingerprint covers is the same.
    """
    record = folder / RECORD
    if not fresh and record.exists() and _recorded(record) != {"digest": made.digest}:
        raise NotRepeatable(
            f"recipe {recipe} is built from other values than when the checkpoints in {folder} were written, so it "
            f"cannot resume from them: {_REMEDY}; `--fresh` deletes them"
        )
    files.write_json(record, {"digest": made.digest})


def prove_evaluate(recipe: Any, evaluation: Evaluation | None, *, examples: int) -> list[str]:
    """Call the recipe's `evaluate` twice, on a few examples if possible, and return the names of its metrics.

    Raises `NotRepeatable` if the results differ, or if it changes the state that it should only measure.
    """
    if evaluation is None:
        return []
    state = variables.find(recipe).all()
    before = variables.bits(state)
    used = min(examples, FEW)
    try:
        once = evaluation.on_host(used)
    except NotRepeatable:
        raise
    except Exception:  # perhaps too few examples; with all of them, a real error is raised again
        used = examples
        once = evaluation.on_host(used)
    for name, old, new in zip(state, before, variables.bits(state), strict=True):
        if old != new:
            raise NotRepeatable(f"evaluate changes {name}: measure with a copy, and change state only in train_step")
    again = evaluation.on_host(used)
    for name, value in once.items():
        if repr(value) != repr(again.get(name)):
            raise NotRepeatable(
                f"evaluate measures {name} as {value} and then as {again.get(name)} on the same data: use a generator "
                f"with a fixed seed, not the clock or the results of earlier calls"
            )
    return list(once)


FEW = 8
"""Examples on which `evaluate` is tried before the first step."""
RECORD = "made.json"
_ENGINE = str(Path(__file__).parents[1])
_LIBRARIES = tuple(str(Path(package.__file__).parent) for package in (tf, keras))
_REMEDY = (
    "derive each value from params, context.seed or a generator with a fixed seed, not from the clock, the process, "
    "the order of a set or an unseeded generator"
)


def _digest(value: Any) -> str:
    if value.dtype in (tf.resource, tf.variant):
        return ""
    tensor = tf.convert_to_tensor(value)
    told = f"{tensor.dtype.name}{tensor.shape}".encode()
    return blake2b(told + variables.content(tensor), digest_size=16).hexdigest()


def _content(table: Any) -> str:
    """Return the digest of a lookup table; "" of one that has no content yet."""
    try:
        keys, values = table.export()
    except tf.errors.FailedPreconditionError:
        return ""
    pairs = zip(keys.numpy().tolist(), values.numpy().tolist(), strict=True)
    said = (keys.dtype.name, values.dtype.name, sorted(pairs, key=repr))  # they come in any order
    return blake2b(repr(said).encode(), digest_size=16).hexdigest()


def _place(operation: Any, source: str) -> str:
    """Return the innermost line of the recipe's file that led to an operation; "" if only the engine did.

    AutoGraph caches conversions by source text, so in a process that has run the same text from another file, the
    reported lines are of that file.
    """
    nearest = ""
    for frame in reversed(operation.traceback):
        if frame.filename == source:
            return f"line {frame.lineno}"
        if frame.filename.startswith(_ENGINE):
            break
        if not frame.filename.startswith(_LIBRARIES):
            nearest = nearest or f"line {frame.lineno} of {Path(frame.filename).name}"
    return nearest
