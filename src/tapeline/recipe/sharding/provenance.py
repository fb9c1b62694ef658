"""How a value is computed, as text that two traces of the same step share: so that a trace can be compared."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tapeline.recipe.sharding import meetings
from tapeline.recipe.sharding.sources import Sources, called
from tapeline.runtime.tensorflow_private import called_by, functions_in

_NEW = {(kind, "token") for kind in ("PyFunc", "PyFuncStateless", "EagerPyFunc")}
"""Operation and attribute that differs in each trace, and says nothing about what is computed."""


def of(value: Any, step: meetings.Shards) -> list[str]:
    """Return the operations, attributes and constants behind a value, tensors and numbers in any nest.

    It ends at what is the same for all shards: results of meetings, variables, arguments of the step.
    """
    found, seen = [], dict[int, int]()
    sources = Sources(step)
    waiting = [*reversed(tf.nest.flatten(value, expand_composites=True))]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tf.Variable) or not sources.has(part):
            found.append(_outside(part))
        elif id(part) in seen:
            found.append(f"again {seen[id(part)]}")
        elif step.met(part) is not None:
            found.append("a meeting's result")
        else:
            seen[id(part)] = len(seen)
            before = sources.of(part)
            if part.op.type != "Placeholder":
                kind, _ = called(part.op)  # what else it computes is not looked at
                found.append(kind or " ".join([str(part.value_index), *_operation(part.op)]))
            elif not before:
                found.append(f"an argument of {part.dtype.name}")
            waiting += reversed(before)
    return found


def _outside(value: Any) -> str:
    if isinstance(value, tf.Variable):
        return f"variable {id(value.handle)}"  # what a write returns is another object with the same handle
    if isinstance(value, np.ndarray):
        return _told(value.dtype.name, value.shape, value.tobytes())
    if isinstance(value, tf.Tensor) and value.dtype not in (tf.resource, tf.variant) and hasattr(value, "numpy"):
        return _told(value.dtype.name, value.shape, tf.io.serialize_tensor(value).numpy())
    return f"{id(value)}" if tf.is_tensor(value) else repr(value)


def _operation(operation: Any) -> Iterator[str]:
    """Yield the type and the attributes of an operation; of the functions that it calls, all their operations."""
    yield operation.type
    for name, attribute in sorted(operation.node_def.attr.items()):
        names = called_by(attribute)
        for one in names:
            inner = functions_in(operation.graph).get(one)
            for each in inner.graph.get_operations() if inner else ():
                yield from _operation(each)
        if not names and not name.startswith("_") and (operation.type, name) not in _NEW:
            yield _told(name, attribute.SerializeToString(deterministic=True))


def _told(*parts: Any) -> str:
    text = repr(parts)
    return text if len(text) <= 100 else hashlib.sha256(text.encode()).hexdigest()
