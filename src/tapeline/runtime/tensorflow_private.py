"""The private names of TensorFlow that Tapeline uses: an upgrade that removes one is repaired here.

Those that only `replaced_operations` needs are there.
`tests/runtime/test_tensorflow_private.py` fails by name when one goes; `pyproject.toml` bounds the version.
"""

import itertools
import linecache
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.autograph.core import converter
from tensorflow.python.autograph.impl import api
from tensorflow.python.autograph.pyct import loader
from tensorflow.python.client import device_lib
from tensorflow.python.eager import backprop, forwardprop_util, record
from tensorflow.python.framework import function_def_to_graph, ops, type_spec_registry
from tensorflow.python.lib.io import file_io
from tensorflow.python.ops import cond_v2, image_ops_impl, random_crop_ops, resource_variable_ops
from tensorflow.python.ops.parallel_for import control_flow_ops
from tensorflow.python.training import py_checkpoint_reader
from tensorflow.python.util import _pywrap_util_port

_DRAWING = (image_ops_impl, random_crop_ops)
"""The modules behind `tf.image.random_…`, which call `random_ops.random_uniform`."""
RANDOM_NAME = "hash_table_"
"""How the shared name of a lookup table begins if TensorFlow made it up."""


def autograph_convert(function: Any) -> Any:
    """Return a function converted by AutoGraph; one that is `autograph_as_written` with the setting of this place."""
    autograph = tf.__internal__.autograph
    setting = autograph.control_status_ctx()
    if not hasattr(function, _ARTIFACT):
        return autograph.tf_convert(function, setting)

    def called(*given: Any, **named: Any) -> Any:
        with setting:
            try:
                return function(*given, **named)
            except Exception as error:
                if told := getattr(error, "ag_error_metadata", None):  # with the lines of what AutoGraph converted
                    raise told.to_exception(error) from error
                raise

    return called


def autograph_as_written(function: Any) -> Any:
    """Mark a function as one that AutoGraph calls as it is, and that may convert what it calls itself."""
    setattr(function, _ARTIFACT, {})
    return function


def autograph_call(function: Any, *given: Any, **named: Any) -> Any:
    """Call a function as one that AutoGraph has converted would."""
    return api.converted_call(function, given, named, options=_RECURSIVE)


def autograph_without_files() -> None:
    """Let AutoGraph hold the code that it makes in memory.

    By itself it writes a temporary file for each function, whose byte code stays in the temporary folder for ever; a
    killed process leaves the file, too. In a full folder it converts nothing, and the error blames the user's code.
    """
    loader.load_source = _load_source


def _load_source(source: str, delete_on_exit: bool) -> tuple[ModuleType, str]:
    name = f"__autograph_generated_file{next(_NUMBERS)}"
    module = ModuleType(name)
    module.__file__ = file = f"<{name}.py>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # for tracebacks
    exec(compile(source, file, "exec"), vars(module))
    sys.modules[name] = module
    return module, file


_NUMBERS = itertools.count()
_ARTIFACT = "autograph_info__"
_RECURSIVE = converter.ConversionOptions(recursive=True, optional_features=None)


@contextmanager
def registered_anew(name: str) -> Iterator[None]:
    """Let a module that is executed again register its gradients and extension types under the same names.

    TensorFlow refuses the second registration of a name. name: the module's. What modules register that it imports
    stays, since they are not executed again.
    """
    for registry, key in _REGISTERED.pop(name, ()):
        registry.pop(key, None)
    modules, before = set(sys.modules), [set(registry) for registry in _REGISTRIES]
    try:
        yield
    finally:
        imported = sys.modules.keys() - modules
        pairs = zip(_REGISTRIES, before, strict=True)
        new = [(registry, key) for registry, old in pairs for key in registry.keys() - old]
        _REGISTERED[name] = [(registry, key) for registry, key in new if _registrant(registry, key) not in imported]


def _registrant(registry: Mapping[Any, Any], key: Any) -> str | None:
    """Return the name of the module in which a gradient or an extension type is defined."""
    value = registry[key]
    defined = value["type"] if isinstance(value, dict) else key if isinstance(key, type) else value
    while isinstance(defined, partial):
        defined = defined.func
    return getattr(defined, "__module__", None)


_REGISTRIES: tuple[dict[Any, Any], ...] = (
    ops.gradient_registry._registry,
    type_spec_registry._NAME_TO_TYPE_SPEC,
    type_spec_registry._TYPE_SPEC_TO_NAME,
)
_REGISTERED: dict[str, list[tuple[dict[Any, Any], Any]]] = {}
"""What each module has registered, and where."""


def has_onednn() -> bool:
    """Return whether operations are given to oneDNN, which is decided when TensorFlow is imported."""
    return bool(_pywrap_util_port.IsMklEnabled())


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


def called_by(attribute: Any) -> list[str]:
    """Return the names of the functions that an attribute of an operation has; none for one of another kind."""
    return [attribute.func.name] if attribute.HasField("func") else [one.name for one in attribute.list.func]


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


_FILES = {"ReadFile": 0, "InitializeTableFromTextFileV2": 1}
"""Operations that read files → which of their inputs names them."""


@contextmanager
def files_read(note: Callable[[Any], None]) -> Iterator[None]:
    """Call `note` in the block with the path of each file that TensorFlow is about to read outside of functions.

    Readers of tf.data, which are functions, are not seen.
    """
    streams, reader = file_io._pywrap_file_io, py_checkpoint_reader.NewCheckpointReader
    fast = pywrap_tfe.TFE_Py_FastPathExecute

    def stream(path: Any, *given: Any) -> Any:
        note(path)
        return streams.BufferedInputStream(path, *given)

    def read_checkpoint(prefix: Any) -> Any:
        note(f"{os.fsdecode(prefix)}.index")
        return reader(prefix)

    def execute(context: Any, name: str, label: Any, *inputs: Any) -> Any:
        if name in _FILES:
            note(tf.convert_to_tensor(inputs[_FILES[name]]).numpy())
        return fast(context, name, label, *inputs)

    file_io._pywrap_file_io = _With(streams, BufferedInputStream=stream)
    py_checkpoint_reader.NewCheckpointReader, pywrap_tfe.TFE_Py_FastPathExecute = read_checkpoint, execute
    try:
        yield
    finally:
        file_io._pywrap_file_io, py_checkpoint_reader.NewCheckpointReader = streams, reader
        pywrap_tfe.TFE_Py_FastPathExecute = fast


class _With:
    """A module of TensorFlow's with some functions replaced."""

    def __init__(self, original: Any, **replaced: Any) -> None:
        self._original = original
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)
