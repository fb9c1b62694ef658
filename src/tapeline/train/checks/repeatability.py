"""Check that building and tracing a recipe gives the same result each time.

A value that differs at each start (the clock, an unseeded generator, the order of a set) becomes a constant of the
traced step or an initial weight, or decides which operations the step has, and nothing in the graph shows its origin.
So a recipe is built and traced twice before its first step, and both are compared; a resumed run is compared with the
run that wrote the checkpoint.
"""

from collections import Counter
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
from tapeline.train.checks import computation


@dataclass(frozen=True)
class Value:
    """Something that a start of a recipe consists of: an initial value, a constant, an operation."""

    digest: str
    what: str
    operation: Any = None
    source: str = ""

    @property
    def told(self) -> str:
        """What it is, with its line in the recipe if that is known."""
        place = _place(self.operation, self.source) if self.operation is not None else ""
        return f"{self.what}, {place}," if place else self.what


@dataclass(frozen=True)
class Made:
    """All that one start of a recipe consists of, in an order in which each value follows those it depends on."""

    values: tuple[Value, ...]

    @property
    def digests(self) -> tuple[str, ...]:
        """The digests of the values, which keep no graph alive."""
        return tuple(value.digest for value in self.values)

    @property
    def digest(self) -> str:
        """One digest over all values, whatever their order."""
        return computation.digest(sorted(self.digests))


def made(
    traced: Mapping[str, Any],
    initial: Mapping[str, tf.Tensor],
    *,
    tracked: Mapping[str, tf.Variable],
    tables: Mapping[str, Any],
    data: Mapping[str, tf.Tensor],
    source: str,
) -> Made:
    """Return what a start consists of.

    traced: `train_step`, `prepare`, `eval_step` → concrete function. initial: variables before the first step.
    tracked: all variables that the functions read or change. tables: as `variables.tables` finds them. data: tensors of
    the dataset, which has its own checksum. source: the recipe's file, to name its lines.
    """
    values = [
        Value(computation.digest(name, _digest(value)), f"the initial value of {name}")
        for name, value in sorted(initial.items())
    ]
    values += [Value(computation.digest(name, _content(one)), f"the content of {name}") for name, one in tables.items()]
    known = {id(variable.handle): f"variable {name}" for name, variable in tracked.items()}
    known |= {id(table.resource_handle): f"table {name}" for name, table in tables.items()}
    known |= {id(tensor): computation.feature(name) for name, tensor in data.items()}
    for where, function in traced.items():
        for external, _ in function.graph.captures:
            if tf.is_symbolic_tensor(external):
                raise InputError(
                    f"{where} reads {external.name}, which a layer created while another function was traced: create "
                    "it in `build`, with the layer's `build(shape)` or by calling the layer once"
                )
            if external.dtype not in (tf.resource, tf.variant) and id(external) not in known:
                known[id(external)] = _digest(external)
                values.append(Value(known[id(external)], f"a tensor that {where} reads"))
        for part in computation.parts(function, known, is_of_feed=lambda operation: not _place(operation, source)):
            values.append(_value(part, where, source))
    return Made(tuple(values))


def _value(part: computation.Part, where: str, source: str) -> Value:
    if part.operation is None:
        return Value(computation.digest(where, part.digest), f"what {where} returns")
    kind = part.operation.type
    what = "a constant" if kind == "Const" else f"the operation {kind}"
    return Value(part.digest, f"{what} in {where}", part.operation, source)


def check_same(recipe: Path, first: Iterable[str], second: Made) -> None:
    """Raise `NotRepeatable` naming a value that differs between two starts of the same recipe. first: its digests."""
    missing = Counter(first)
    for value in second.values:
        if not missing[value.digest]:
            raise NotRepeatable(f"recipe {recipe}: {value.told} differs between starts: {_REMEDY}")
        missing[value.digest] -= 1
    if missing.total():
        raise NotRepeatable(f"recipe {recipe}: a value differs between starts: {_REMEDY}")


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
            f"recipe {recipe} is built from values other than those when the checkpoints in {folder} were written, so "
            f"it cannot resume from them: {_REMEDY}; `--fresh` deletes them"
        )
    files.write_json(record, {"digest": made.digest})


def prove_evaluate(recipe: Any, evaluation: Evaluation, *, examples: int) -> list[str]:
    """Call the recipe's `evaluate` twice, on a few examples if possible, and return the names of its metrics.

    Raises `NotRepeatable` if the results differ, or if it changes the state that it should only measure.
    """
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
            raise NotRepeatable(f"evaluate changes {name}: use a copy, and change state only in train_step")
    again = evaluation.on_host(used)
    for name, value in once.items():
        if repr(value) != repr(again.get(name)):
            raise NotRepeatable(
                f"evaluate returns {name} as {value} and then as {again.get(name)} for the same data: use a generator "
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
    "its environment or CPUs, the order of a set, an unseeded generator or a file that `needs` does not name"
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
