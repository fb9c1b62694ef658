"""Replace operations of TensorFlow by functions of ours, in what is registered and outside of functions.

The private names that this needs are here, the others in `tensorflow_private`.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import core, execute, record
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.framework import func_graph, op_def_registry


@dataclass(frozen=True)
class Replaced:
    """What stands in for an operation: a function of its inputs and attributes."""

    outputs: Sequence[str]
    """The operation's outputs by name."""
    body: Callable[..., Sequence[tf.Tensor]]
    """Inputs and the operation's attributes → outputs."""
    but: Collection[tf.DType] = ()
    """Types of the first input for which the operation stays."""
    only: Callable[[Any], bool] = lambda operation: True
    """Whether this very operation of a graph is replaced, by its attributes and shapes."""
    compiled: Callable[[Any], bool] = lambda operation: False
    """Whether XLA compiles the body for this very operation, in graph mode too."""

    def stands_for(self, operation: Any) -> bool:
        """Return whether an operation of the right name is replaced."""
        return operation.inputs[0].dtype.base_dtype not in self.but and self.only(operation)


def function_of(name: str) -> Callable[..., Any]:
    """Return a function of an operation's inputs and attributes, as a `Replaced.body` gets them."""
    arguments = op_def_registry.get(name).input_arg
    inferred = {of for each in arguments for of in (each.type_attr, each.number_attr)}
    is_list = any(each.number_attr for each in arguments)

    def call(*given: tf.Tensor, **attributes: Any) -> Any:
        inputs = [list(given)] if is_list else given
        named = {each.name: value for each, value in zip(arguments, inputs, strict=True)}
        told = {key: value for key, value in attributes.items() if key not in inferred}
        return getattr(tf.raw_ops, name)(**named, **told)

    return call


Bodies = Mapping[str, Replaced]
"""Operation → what replaces it."""
_REGISTER = atomic_function.from_func_graph
_FAST, _EXECUTE = pywrap_tfe.TFE_Py_FastPathExecute, execute.execute
_COMPILED = "_XlaMustCompile"
_replaced: dict[str, Replaced] = {}
"""What is replaced now."""


def replace_operations(bodies: Bodies) -> None:
    """Make each function that is registered from now on call a function of ours in place of some operations.

    Traced graphs keep the operations, so gradients are derived as ever; the definition that the runtime runs, and that
    a SavedModel holds, has the calls.
    """
    ours: dict[str, Any] = {}
    _replaced.update(bodies)
    _replace_eagerly(bodies)

    def from_func_graph(name: Any, graph: Any, attrs: Any, *rest: Any, **more: Any) -> Any:
        bodies = dict(_replaced)
        found = [one for one in graph.get_operations() if one.type in bodies and bodies[one.type].stands_for(one)]
        scopes = {scope for one in graph.get_operations() for scope in _scopes(one.name)} if found else set()
        calls = {one.name: _ours(ours, bodies, one, apart=one.name in scopes) for one in found}
        for function in {id(call.function): call.function for call in calls.values()}.values():
            graph._add_function_recursive(function)
        made = _REGISTER(name, graph, attrs, *rest, **more)
        if calls:
            context = made._bound_context
            definition = context.get_function_def(made.name)
            _call(definition, calls, bodies)
            context.remove_function(made.name)
            context.add_function_def(definition)
        return made

    atomic_function.from_func_graph = from_func_graph


def _replace_eagerly(bodies: Bodies) -> None:
    """Compute some operations by bodies of ours outside of functions too, such as in a recipe's `evaluate`.

    Gradients are derived as ever: TensorFlow records the operation itself.
    """

    def fast(context: Any, name: str, *given: Any) -> Any:
        if name in bodies:
            raise core._FallbackException  # TensorFlow then calls `execute`
        return _FAST(context, name, *given)

    def execute_operation(op_name: Any, num_outputs: int, inputs: Any, attrs: Any, ctx: Any, name: Any = None) -> Any:
        body = bodies.get(op_name.decode() if isinstance(op_name, bytes) else op_name)
        if (
            body is None or inputs[0].dtype in body.but or inputs[0].dtype.is_integer
        ):  # of which TensorFlow has no kernel
            return _EXECUTE(op_name, num_outputs, inputs, attrs, ctx, name)
        with record.stop_recording():
            outputs = body.body(*inputs, **dict(zip(attrs[::2], attrs[1::2], strict=True)))
            return [tf.identity(each) for each in outputs]  # a tape tells inputs and outputs apart by their objects

    pywrap_tfe.TFE_Py_FastPathExecute = fast
    execute.execute = execute.quick_execute = execute_operation  # the second is what TensorFlow sets the first to


@contextmanager
def replaced_too(bodies: Bodies) -> Iterator[None]:
    """Replace more operations in what is registered in the block, if any are replaced at all."""
    more = {name: body for name, body in bodies.items() if _replaced and name not in _replaced}
    _replaced.update(more)
    try:
        yield
    finally:
        for name in more:
            _replaced.pop(name, None)


def _attributes(operation: Any) -> dict[str, Any]:
    return {attr.name: operation.get_attr(attr.name) for attr in op_def_registry.get(operation.type).attr}


@dataclass(frozen=True)
class _Call:
    """What an operation becomes."""

    function: Any
    compiled: bool


def _scopes(name: str) -> Iterator[str]:
    """Yield the name scopes that an operation is in."""
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


def _ours(known: dict[str, Any], bodies: Bodies, operation: Any, *, apart: bool) -> _Call:
    """Return the call for an operation: its function depends on types and attributes, and its name says them.

    apart: the operation is called as a name scope is, whose names an inlined function's must not be.
    """
    attributes = _attributes(operation)
    body = bodies[operation.type]
    compiled = body.compiled(operation)
    types = [each.dtype.base_dtype for each in operation.inputs]
    told = [operation.type, *(each.name for each in types), *(str(v) for k, v in attributes.items() if k not in "TU")]
    said = "_".join(re.sub(r"\W+", "_", each.replace("...", "0")) for each in told)  # the dots of an einsum's equation
    kind = "_".join(["compiled" if compiled else "exact", *(["apart"] if apart else [])])
    name = f"__inference_{kind}_{said}_0"  # as TensorFlow names functions, which no operation is called
    if name not in known:
        scope = kind if apart else None

        def traced(*given: tf.Tensor) -> Sequence[tf.Tensor]:
            with tf.name_scope(scope) if scope else nullcontext():
                return body.body(*given, **attributes)

        specs = [tf.TensorSpec(None, each) for each in types]
        made = func_graph.func_graph_from_py_func(name, traced, specs, {})
        known[name] = _REGISTER(name, made, {_COMPILED: tf.compat.v1.AttrValue(b=True)} if compiled else {})
    return _Call(known[name], compiled)


def _call(definition: Any, calls: Mapping[str, _Call], bodies: Bodies) -> None:
    """Change nodes of a function's definition into calls, and the names of their outputs with them."""
    renamed: dict[str, str] = {}
    for node in definition.node_def:
        if node.name in calls:
            for number, output in enumerate(bodies[node.op].outputs):
                renamed[f"{node.name}:{output}:0"] = f"{node.name}:output:{number}"
            _become_call(node, calls[node.name])
    for node in definition.node_def:
        for number, source in enumerate(node.input):
            node.input[number] = renamed.get(source, source)
    for output, source in dict(definition.ret).items():  # setting one reorders a map
        definition.ret[output] = renamed.get(source, source)


def _become_call(node: Any, call: _Call) -> None:
    node.op = "PartitionedCall"
    node.attr.clear()
    kinds = call.function.function_type
    node.attr["Tin"].list.type.extend(each.dtype.as_datatype_enum for each in kinds.flat_inputs)
    node.attr["Tout"].list.type.extend(each.dtype.as_datatype_enum for each in kinds.flat_outputs)
    node.attr["f"].func.name = call.function.name
    for name in ("config", "config_proto", "executor_type"):
        node.attr[name].s = b""
    if call.compiled:
        node.attr[_COMPILED].b = True
