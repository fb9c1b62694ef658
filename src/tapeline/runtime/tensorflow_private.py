"""The private names of TensorFlow that Tapeline uses, all of them: an upgrade that removes one is repaired here.

`tests/runtime/test_tensorflow_private.py` fails by name when one goes; `pyproject.toml` bounds the version.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.client import device_lib
from tensorflow.python.eager import backprop, core, execute, forwardprop_util, record
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.framework import func_graph, function_def_to_graph, op_def_registry, ops, type_spec_registry
from tensorflow.python.ops import cond_v2, image_ops_impl, random_crop_ops, resource_variable_ops
from tensorflow.python.ops.parallel_for import control_flow_ops

_DRAWING = (image_ops_impl, random_crop_ops)
"""The modules behind `tf.image.random_…`, which call `random_ops.random_uniform`."""
RANDOM_NAME = "hash_table_"
"""How the shared name of a lookup table begins if TensorFlow made it up."""


def autograph_convert(function: Any) -> Any:
    """Return a function converted by AutoGraph."""
    autograph = tf.__internal__.autograph
    return autograph.tf_convert(function, autograph.control_status_ctx())


@contextmanager
def registered_anew(name: str) -> Iterator[None]:
    """Let a module that is executed again register its gradients and extension types under the same names.

    TensorFlow refuses the second registration of a name. name: the module's.
    """
    for registry, key in _REGISTERED.pop(name, ()):
        registry.pop(key, None)
    before = [set(registry) for registry in _REGISTRIES]
    try:
        yield
    finally:
        pairs = zip(_REGISTRIES, before, strict=True)
        _REGISTERED[name] = [(registry, key) for registry, old in pairs for key in registry.keys() - old]


_REGISTRIES: tuple[dict[Any, Any], ...] = (
    ops.gradient_registry._registry,
    type_spec_registry._NAME_TO_TYPE_SPEC,
    type_spec_registry._TYPE_SPEC_TO_NAME,
)
_REGISTERED: dict[str, list[tuple[dict[Any, Any], Any]]] = {}
"""What each module has registered, and where."""


def make_devices(config: Any) -> None:
    """Make the devices of a session, without one: it would be counted, and functions are named by that count."""
    device_lib.list_local_devices(config)


def functions_in(graph: Any) -> Mapping[str, Any]:
    """Return the functions of a graph by name, each with a `graph`."""
    functions: Mapping[str, Any] = graph._functions
    if all(hasattr(function, "graph") for function in functions.values()):
        return functions
    with graph.as_default():  # where those that they call are looked up
        return {name: one if hasattr(one, "graph") else _with_graph(one) for name, one in functions.items()}


def _with_graph(function: Any) -> Any:
    """Return a function of TensorFlow 1, as `tf.nn.ctc_loss` makes for its loops, with a graph of its definition."""
    if function not in _GRAPHS:
        traced = function_def_to_graph.function_def_to_graph(function.definition, include_library_functions=True)
        _GRAPHS[function] = SimpleNamespace(graph=traced)
    return _GRAPHS[function]


_GRAPHS: WeakKeyDictionary[Any, SimpleNamespace] = WeakKeyDictionary()
"""Always the same graph for a function of TensorFlow 1."""


def is_branch(graph: Any) -> bool:
    """Return whether a graph is a branch of a condition, which runs at most once."""
    return type(graph).__name__ == "CondBranchFuncGraph"


def shared_name(table: Any) -> str:
    """Return a lookup table's name in a SavedModel; "" for a resource without one."""
    return str(getattr(table, "_shared_name", None) or "")


def rename(table: Any, name: str) -> None:
    """Change what `shared_name` returns."""
    table._shared_name = name


@contextmanager
def image_draws(random_uniform: Callable[..., tf.Tensor]) -> Iterator[None]:
    """Make `tf.image.random_…` draw from `random_uniform` in the block."""
    originals = [module.random_ops for module in _DRAWING]
    for module, original in zip(_DRAWING, originals, strict=True):
        module.random_ops = _With(original, random_uniform=random_uniform)
    try:
        yield
    finally:
        for module, original in zip(_DRAWING, originals, strict=True):
            module.random_ops = original


@contextmanager
def inside(graph: Any, scope: str) -> Iterator[Callable[[Sequence[Any]], None]]:
    """Let a new thread add to a graph that another thread traces, under a name scope; None is eager execution.

    Yields a function: what this thread adds to the graph after a call of it waits for the given operations.
    """
    if graph is None:
        with tf.name_scope(scope):
            yield lambda operations: None
        return
    waiting = graph.control_dependencies([])

    def wait_for(operations: Sequence[Any]) -> None:
        waiting._control_inputs_val = list(operations)
        waiting._seen_nodes = set()

    with tf.Graph.as_default(graph), tf.name_scope(scope), waiting:
        yield wait_for


Write = Callable[[Any, Any, Callable[[Any], Any]], Any]
"""Takes a variable, a value, and a function that writes the value; returns what the write returns."""


@contextmanager
def writes(intercept: Write) -> Iterator[None]:
    """Pass the `assign`, `assign_add` and `assign_sub` of all variables to `intercept` in the block."""
    kinds = (resource_variable_ops.BaseResourceVariable, resource_variable_ops.ResourceVariable)  # each has its own
    names = ("assign", "assign_add", "assign_sub")
    originals = [(kind, name, vars(kind)[name]) for kind in kinds for name in names if name in vars(kind)]

    def intercepted(original: Any) -> Any:
        @tf.autograph.experimental.do_not_convert
        def write(variable: Any, value: Any, *rest: Any, **more: Any) -> Any:
            return intercept(variable, value, lambda taken: original(variable, taken, *rest, **more))

        return write

    for kind, name, original in originals:
        setattr(kind, name, intercepted(original))
    try:
        yield
    finally:
        for kind, name, original in originals:
            setattr(kind, name, original)


Branch = Callable[[], Any]
Build = Callable[[tf.Tensor, Branch, Branch], Any]
"""Takes a condition and what is done if it is true and if it is not; returns the results, as `tf.cond` does."""


@contextmanager
def conditions(intercept: Callable[[tf.Tensor, Branch, Branch, Build], Any]) -> Iterator[None]:
    """Pass all conditions that become operations of a graph to `intercept` in the block, with TensorFlow's `Build`."""
    original = cond_v2.cond_v2

    @tf.autograph.experimental.do_not_convert
    def condition(pred: Any, true_fn: Branch, false_fn: Branch, name: str = "cond") -> Any:
        return intercept(pred, true_fn, false_fn, lambda *given: original(*given, name))

    cond_v2.cond_v2 = condition
    try:
        yield
    finally:
        cond_v2.cond_v2 = original


def is_recording() -> bool:
    """Return whether a `tf.GradientTape` of this thread records."""
    return bool(record.could_possibly_record())


def has_tangents(tensors: Sequence[tf.Tensor]) -> bool:
    """Return whether a `tf.autodiff.ForwardAccumulator` of this thread follows one of the tensors."""
    return len(forwardprop_util.pack_tangents(list(tensors)).tangents) > 0


@contextmanager
def vectorizations(within: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Trace what `tf.vectorized_map` and a tape's Jacobians vectorize inside `within()`, in the block."""
    original = control_flow_ops.pfor

    @tf.autograph.experimental.do_not_convert
    def pfor(*given: Any, **more: Any) -> Any:
        with within():
            return original(*given, **more)

    control_flow_ops.pfor = pfor
    try:
        yield
    finally:
        control_flow_ops.pfor = original


@contextmanager
def sums_of_gradients(add: Callable[[Sequence[tf.Tensor], Callable[..., tf.Tensor]], tf.Tensor]) -> Iterator[None]:
    """Let `add` sum the gradients of a tensor that several operations read, in each tape that is asked in the block.

    add: takes the gradients, and TensorFlow's own function for their sum. Rows of a table are summed as ever. A vector
    space of ours would be freed at the block's end, while a `tf.autodiff.ForwardAccumulator` still points to it.
    """
    original = backprop.gen_math_ops
    backprop.gen_math_ops = _With(original, add_n=lambda gradients: add(gradients, original.add_n))
    try:
        yield
    finally:
        backprop.gen_math_ops = original


class _With:
    """A module of TensorFlow's with some functions replaced."""

    def __init__(self, original: Any, **replaced: Any) -> None:
        self._original = original
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


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
