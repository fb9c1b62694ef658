"""Verify that a checkpoint holds every variable that a traced function reads or changes.

A violation is refused by name, so that no state is saved incompletely. Stateful operations are on an allow list: an
unlisted one may hold state that is in no checkpoint.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from tapeline.recipe.sharding import meetings
from tapeline.runtime.errors import InputError
from tapeline.runtime.saved_models.operations import ALLOWED
from tapeline.runtime.tensorflow_private import called_by, functions_in
from tapeline.train.checks import unrepeatable

READS = frozenset(
    {"ReadVariableOp", "VariableShape", "VarIsInitializedOp", "DisableCopyOnRead", "ResourceGather", "ResourceGatherNd"}
    | {"LookupTableFindV2", "LookupTableSizeV2", "LookupTableExportV2", "Identity"}
)
"""Operations that leave a resource as it is."""
_WRITES = re.compile(
    r"Assign(Add|Sub)?VariableOp|Resource(Sparse)?Apply\w+|ResourceScatter\w+|ResourceStridedSliceAssign|Rng(ReadAnd)?Skip|"
    r"Stateful(StandardNormal|StandardNormalV2|TruncatedNormal|Uniform|UniformFullInt|UniformInt|RandomBinomial)"
)
_CALLS = {"While": 0, "PartitionedCall": 0, "StatefulPartitionedCall": 0, "If": 1, "Case": 1}
"""Operations that call functions → number of their inputs that precede the functions' arguments."""
_HARMLESS = frozenset(
    ["Assert", "Print", "PrintV2", "CheckNumerics", "CheckNumericsV2", "StatelessRandomGetAlg", "Empty", "DeviceIndex"]
)
_FILES = re.compile(
    r"ReadFile|MatchingFiles|ImmutableConst|Reader\w+|Restore\w*|RecordInput|"
    r"(WholeFile|TextLine|FixedLengthRecord|TFRecord|LMDB|Identity)Reader(V2)?|InitializeTableFromTextFile(V2)?|"
    r"(TextLine|FixedLengthRecord|TFRecord|(Experimental)?MatchingFiles|(Experimental)?Sql|Load|Cache|Snapshot\w*)Dataset\w*"
)
"""Operations that read files. Not all of them count as stateful."""
_SUMMARIES = re.compile(r"Write\w*Summary")
_REPEATED_POOLS = ("FractionalMaxPool", "FractionalAvgPool")


def check(
    traced: Any,
    tracked: Mapping[str, tf.Variable],
    *,
    where: str = "train_step",
    writable: Mapping[str, tf.Variable] | None = None,
    tables: frozenset[int] = frozenset(),
    in_order: bool = False,
) -> None:
    """Check a concrete function of one step, of `prepare` or of `eval_step`.

    tracked: what a checkpoint holds. writable: the tracked variables that the function may change; default: all.
    tables: the `id`s of the handles of immutable lookup tables. in_order: each operation always adds in one order,
    because it has one thread or is compiled by XLA.
    Raises `InputError` for an untracked captured variable or resource, for a change to a variable that is not
    writable, and for an operation with its own state: random draws, Python code, the clock, a queue, a file. So for an
    `unrepeatable` one.
    """
    known = {id(variable.handle) for variable in tracked.values()} | tables
    names = {id(variable.handle): variable.name for variable in traced.graph.variables}
    for external, _ in traced.graph.captures:
        if external.dtype in (tf.resource, tf.variant) and id(external) not in known:
            _check_summaries(traced.graph, where)
            name = names.get(id(external)) or getattr(external, "name", None) or "an unnamed resource"
            raise InputError(
                f"{where} changes or reads {name}, which no attribute of the recipe holds, so it could not be "
                "checkpointed: keep it in an attribute, or make the object that holds it a tf.Module (mutable tables "
                "and iterators cannot be used in a step)"
            )
    for operation in operations(traced.graph):
        _check_operation(operation, where)
        if not in_order and (instead := unrepeatable.remedy(operation)):
            raise InputError(
                f"{where} uses {operation.type} ({operation.name}), in which several threads add in any order, so that "
                f"its result may vary: {instead}; or set train.threads to 1"
            )
    if writable is not None:
        changed = written(traced)
        free = {id(variable.handle) for variable in writable.values()}
        for name, variable in tracked.items():
            if id(variable.handle) in changed - free:
                raise InputError(f"{where} changes {name}: {_MAY_NOT[where]}")


def unchecked(traced: Any, path: Path) -> list[int]:
    """Return the lines of a recipe whose assertions XLA leaves out: it has no operation that could fail."""
    found = set()
    for operation in operations(traced.graph):
        if operation.type == "Assert" or operation.type.startswith("CheckNumerics"):
            frames = list(operation.traceback)
            own = max((at for at, frame in enumerate(frames) if frame.filename == str(path)), default=None)
            if own is not None and not any(_LIBRARY.search(frame.filename) for frame in frames[own + 1 :]):
                found.add(frames[own].lineno)
    return sorted(found)


_LIBRARY = re.compile(
    r"/keras/|/tensorflow/python/ops/(?!(check_ops|numerics|control_flow_assert|weak_tensor_ops|cond(_v2)?|gen_\w+)\.py)"
)
"""The files of what asserts by itself, such as a crop of images, and not because the recipe says so."""


def check_measured(traced: Any, optimizers: Mapping[str, tf.Variable], where: str) -> None:
    """Raise `InputError` if what the other stages compute too depends on a variable of an optimizer.

    They have the weights alone: an annealed loss would be another one in validate, without a word.
    """
    captured = {id(external) for external, _ in traced.graph.captures}
    for name, variable in optimizers.items():
        if id(variable.handle) in captured:
            raise InputError(
                f"{where} reads {name}, which only training has, so that validate would compute with its first value: "
                "read it only where `training` is true, or keep it in a tf.Variable of the recipe"
            )


def check_served(traced: Any, where: str) -> None:
    """Raise `InputError` if what will be served depends on more than its inputs, or changes anything.

    traced: the concrete function of a signature, of which validate records the outputs.
    """
    for operation in operations(traced.graph):
        kind = operation.type
        told = f"{kind} ({operation.name})"
        if _draws(operation) or (kind.startswith(("Rng", "Stateful")) and _WRITES.fullmatch(kind)):
            raise InputError(
                f"{where} draws random numbers by {told}, so that an example's answer differs from call to call: call "
                "layers with training=False, or take the draw as an input, such as Noise"
            )
        if _WRITES.fullmatch(kind):
            raise InputError(
                f"{where} changes a variable by {told}, so that an example's answer depends on the calls before: call "
                "layers with training=False, and draw no numbers with keras.random"
            )
        if kind in _PYTHON:
            raise InputError(
                f"{where} calls Python by {told}, which an exported model lacks: use TensorFlow operations"
            )
        if kind == "Timestamp":
            raise InputError(f"{where} reads the clock by {told}: an example's answer must depend on its inputs alone")
        if _TABLE_WRITES.fullmatch(kind):
            raise InputError(
                f"{where} changes a lookup table by {told}, so that an example's answer depends on the calls before: "
                "fill the table in build"
            )
        if kind not in ALLOWED:
            raise InputError(
                f"{where} uses {told}, which no exported model may run: use operations that only compute, and read "
                "files in build"
            )


_TABLE_WRITES = re.compile(r"(Lookup|Mutable)\w*Table(Insert|Remove|Import)\w*")
_PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
_MAY_NOT = {
    "prepare": "it runs ahead of the steps, several at once; change state only in train_step",
    "eval_step": "training would then depend on when validation runs; return sums and counts, and change no state",
}


def _check_summaries(graph: Any, where: str) -> None:
    for operation in operations(graph):
        if _SUMMARIES.fullmatch(operation.type):
            raise InputError(
                f"{where} writes by tf.summary through {operation.type} ({operation.name}), which a resumed run would "
                "do again: return the number as a metric, which train.tensorboard writes"
            )


def _check_operation(operation: Any, where: str) -> None:
    kind, attributes = operation.type, operation.node_def.attr
    told = f"({operation.name})"
    if _draws(operation):
        instead = "use tf.random.stateless_… with context.seed"
        if kind.endswith("CandidateSampler"):  # of which TensorFlow has no stateless one
            instead += " in prepare, and pass what it draws as sampled_values"
        elif where != "prepare":
            instead += ", which prepare has too"  # a loss has no context
        raise InputError(f"{where} draws from the stateful {kind} {told}, which no checkpoint can repeat: {instead}")
    if kind.startswith("ExtractGlimpse") and attributes["noise"].s != b"zero":
        raise InputError(
            f"{where} draws noise through {kind} {told}, which no checkpoint can repeat: call "
            f"tf.image.extract_glimpse with noise='zero'"
        )
    if _FILES.fullmatch(kind):
        raise InputError(
            f"{where} reads files through {kind} {told}, whose content may change before it is resumed: read them in "
            "build, and name them in the pipeline's needs"
        )
    if not operation.op_def.is_stateful or kind in READS or kind in _CALLS or kind in _HARMLESS:
        return
    if kind in ("PyFunc", "EagerPyFunc"):
        raise InputError(
            f"{where} calls Python through {kind} {told}, whose state no checkpoint holds: use TensorFlow operations, "
            f"or tf.numpy_function(…, stateful=False) for a pure function of its arguments"
        )
    if kind == "Timestamp":
        raise InputError(f"{where} reads the clock {told}, which a resumed run cannot repeat: use context.step")
    if not _WRITES.fullmatch(kind):
        raise InputError(
            f"{where} uses the stateful {kind} {told}, whose state no checkpoint holds: keep state in tf.Variables "
            f"that are attributes of the recipe"
        )


def _draws(operation: Any) -> bool:
    """Return whether an operation draws from a generator of its own, so that each call of it gives something else."""
    attributes = operation.node_def.attr
    return "seed" in attributes and "seed2" in attributes and not _repeats(operation)


def _repeats(operation: Any) -> bool:
    """Return whether an operation with seeds nevertheless gives the same result at each call."""
    attributes = operation.node_def.attr
    if operation.type == "ComputeAccidentalHits":  # draws nothing
        return True
    if operation.type.startswith("CudnnRNN"):
        return not attributes["dropout"].f
    seeded = bool(attributes["seed"].i or attributes["seed2"].i)
    return operation.type.removesuffix("Grad") in _REPEATED_POOLS and attributes["deterministic"].b and seeded


def operations(graph: Any) -> Iterator[Any]:
    """Yield the operations of a graph and of all functions it calls."""
    seen: set[int] = set()

    def walk(graph: Any) -> Iterator[Any]:
        if id(graph) in seen:
            return
        seen.add(id(graph))
        yield from graph.get_operations()
        for function in functions_in(graph).values():
            yield from walk(function.graph)

    yield from walk(graph)


def written(traced: Any, *, but: Callable[[str], bool] = lambda name: False) -> set[int]:
    """Return the `id`s of the handles that a concrete function changes, directly or in functions it calls.

    but: whether to pass over an operation of the function itself, by its name.
    """
    graph = traced.graph
    return _written(graph, {id(internal): id(external) for external, internal in graph.captures}, but)


def check_shards(traced: Any, tracked: Mapping[str, tf.Variable], *, drawn: Mapping[str, tf.Variable]) -> None:
    """Check the concrete function of a step that is taken by shards.

    drawn: states of seed generators, which each shard changes by itself.
    Raises `InputError` for another tracked variable that a shard changes outside of the meetings.
    """
    changed = written(traced, but=meetings.in_meeting) - {id(variable.handle) for variable in drawn.values()}
    for name, variable in tracked.items():
        if id(variable.handle) in changed:
            raise InputError(
                f"train.shards: train_step changes {name} once for each shard of the batch: use its assign, assign_add "
                "or assign_sub, or self.update, which run once for all shards"
            )


def _written(graph: Any, roots: dict[int, int], but: Callable[[str], bool] = lambda name: False) -> set[int]:
    """Return the `id`s of the changed handles. roots: `id` of a tensor in the graph → `id` of its handle.

    but: whether to pass over an operation of this graph, or of a branch that shards take together, by its name.
    """
    changed: set[int] = set()
    for operation in graph.get_operations():
        handles = {number: roots[id(tensor)] for number, tensor in enumerate(operation.inputs) if id(tensor) in roots}
        if not handles:
            continue
        kind = operation.type.removeprefix("Stateless")
        if kind in _CALLS:
            skipped = _CALLS[kind]
            within = {"but": but} if meetings.is_branch(operation.name) else {}
            for function in () if but(operation.name) else _called(operation):
                inner = {id(function.inputs[n - skipped]): root for n, root in handles.items()}
                changed |= _written(function, inner, **within)
            if kind == "While":
                roots |= {id(operation.outputs[number]): root for number, root in handles.items()}
        elif kind == "Identity":
            roots[id(operation.outputs[0])] = handles[0]
        elif kind not in READS and not but(operation.name):
            changed |= set(handles.values())
    return changed


def _called(operation: Any) -> list[Any]:
    """Return the graphs of the functions that an operation calls."""
    names = [name for attribute in operation.node_def.attr.values() for name in called_by(attribute)]
    return [functions_in(operation.graph)[name].graph for name in names]
