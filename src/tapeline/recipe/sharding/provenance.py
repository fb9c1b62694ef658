"""How a value is computed, as text that two traces of the same step share: so that a trace can be compared."""

import hashlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tapeline.recipe.sharding import meetings
from tapeline.runtime.tensorflow_private import functions_in


def of(value: Any, step: meetings.Shards) -> list[str]:
    """Return the operations, attributes and constants behind a value, tensors and numbers in any nest.

    It ends at what is the same for all shards: results of meetings, variables, arguments of the step.
    """
    found, seen = [], dict[int, int]()
    waiting = [*reversed(tf.nest.flatten(value, expand_composites=True))]
    while waiting:
        part = waiting.pop()
        inside = None if isinstance(part, tf.Variable) else step.owner(part)
        if inside is None:
            found.append(_outside(part))
        elif id(part) in seen:
            found.append(f"again {seen[id(part)]}")
        elif inside.met(part) is not None:
            found.append("a meeting's result")
        elif (outer := inside.outside(part)) is not None:
            waiting.append(outer)
        elif part.op.type == "Placeholder":
            found.append(f"an argument of {part.dtype.name}")
        else:
            seen[id(part)] = len(seen)
            found.append(" ".join([str(part.value_index), *_operation(part.op)]))
            waiting += reversed(part.op.inputs)
    return found


def _outside(value: Any) -> str:
    if isinstance(value, tf.Variable):
        return f"variable {id(value)}"
    if isinstance(value, tf.Tensor) and value.dtype not in (tf.resource, tf.variant) and hasattr(value, "numpy"):
        return _told(value.dtype.name, value.shape, tf.io.serialize_tensor(value).numpy())
    return f"{id(value)}" if tf.is_tensor(value) else repr(value)


def _operation(operation: Any) -> Iterator[str]:
    """Yield the type and the attributes of an operation; of the functions that it calls, all their operations."""
    yield operation.type
    for name, attribute in sorted(operation.node_def.attr.items()):
        called = [attribute.func.name] if attribute.HasField("func") else [one.name for one in attribute.list.func]
        for one in called:
            inner = functions_in(operation.graph).get(one)
            for each in inner.graph.get_operations() if inner else ():
                yield from _operation(each)
        if not called and not name.startswith("_"):
            yield _told(name, attribute.SerializeToString(deterministic=True))


def _told(*parts: Any) -> str:
    text = repr(parts)
    return text if len(text) <= 100 else hashlib.sha256(text.encode()).hexdigest()
