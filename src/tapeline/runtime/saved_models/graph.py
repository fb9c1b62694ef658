"""Read a SavedModel's graph before anything is loaded, and refuse what does more than compute.

Every operation of the graph and of each function in it must be in a list of allowed names; a name that nobody knows is
refused like one that is known to be harmful. Two kinds of file access belong to each SavedModel and are allowed in
their place only: the saver's, in functions that nothing but the saver calls, and a table's that reads an asset of the
model. Run by programs that have TensorFlow and no Tapeline code: imports nothing of this package.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

SAVER = frozenset({"MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename"})
TABLE_OF_FILE = "InitializeTableFromTextFileV2"
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
NUMBERED = re.compile(r".+_\d+", re.DOTALL)
"""The name of a function, as TensorFlow makes it. No operation has such a name, so none is mistaken for a function."""
HINT = "leave it out of what the model computes, and export again"


def refused(folder: Path, allowed: frozenset[str]) -> str:
    """Return why the SavedModel in `folder` may not be loaded, in one line; empty if it may.

    allowed: the names of the operations that only compute.
    """
    if said := _files(folder):
        return said
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    try:
        saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    except DecodeError:
        return "does not load or answer: saved_model.pb is not a SavedModel"
    if len(saved.meta_graphs) != 1 or not saved.meta_graphs[0].HasField("object_graph_def"):
        return (
            "does not load or answer: saved_model.pb does not have the one graph with objects that TensorFlow 2 writes"
        )
    graph = _Graph(saved.meta_graphs[0])
    checks = (graph.assets(), graph.functions_named(), graph.operations(allowed), graph.saver(), graph.tables())
    return next(filter(None, checks), "")


def _files(folder: Path) -> str:
    """Return what is wrong with the files: TensorFlow would follow links, and read a graph by another name."""
    for where, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(where) / name
            if path.is_symlink():
                remedy = "`dvc config cache.type copy`, `dvc checkout --relink`"
                return f"{str(path.relative_to(folder))!r} is a link, as DVC makes with cache.type symlink: {remedy}"
            if not (path.is_file() or path.is_dir()):
                return f"{str(path.relative_to(folder))!r} is neither a file nor a folder: export again"
    graphs = sorted(path.name for path in folder.glob("saved_model.*"))
    if graphs != ["saved_model.pb"]:
        return f"has {', '.join(map(repr, graphs)) or 'no graph'}, not saved_model.pb alone: export again"
    return ""


class _Graph:
    """One graph, its functions, and who calls them."""

    def __init__(self, meta: Any) -> None:
        self._meta = meta
        self._main = {node.name: node for node in meta.graph_def.node}
        self._library = {function.signature.name: function for function in meta.graph_def.library.function}
        self._nodes = [("", node) for node in meta.graph_def.node]
        self._nodes += [(name, node) for name, function in self._library.items() for node in function.node_def]
        self._asset_tensors = {_node(asset.tensor_info.name) for asset in meta.asset_file_def}
        self._mentions = Counter(self._mentioned())

    def _mentioned(self) -> Iterator[str]:
        """Yield a function's name each time that anything but its definition mentions it."""
        for _, node in self._nodes:
            yield node.op
            yield from _names(node.attr)
        library = self._meta.graph_def.library
        for function in library.function:
            yield from _names(function.attr)
            for argument in function.arg_attr.values():
                yield from _names(argument.attr)
        for gradient in library.gradient:
            yield from (gradient.function_name, gradient.gradient_func)
        objects = self._meta.object_graph_def
        yield from objects.concrete_functions
        for one in objects.nodes:
            yield from one.function.concrete_functions
            yield one.bare_concrete_function.concrete_function_name

    def assets(self) -> str:
        """Return an asset that is outside the model's folder."""
        for asset in self._meta.asset_file_def:
            path = PurePosixPath(asset.filename)
            if path.is_absolute() or not path.parts or ".." in path.parts or re.search(r"[\\\0]|://", asset.filename):
                return f"the asset {asset.filename!r:.200} leads out of the model's folder: export again"
        for one in self._meta.object_graph_def.nodes:
            if one.asset.asset_file_def_index not in range(max(1, len(self._meta.asset_file_def))):
                return "an asset has no entry in the graph: export again"
        return ""

    def functions_named(self) -> str:
        """Return a function that could be taken for an operation."""
        for name in self._library:
            if not NUMBERED.fullmatch(name):
                return f"the function {name!r:.80} has no number, and could be taken for an operation: export again"
        return ""

    def operations(self, allowed: frozenset[str]) -> str:
        """Return an operation that is not allowed where it stands, or a call of what is no function of the graph."""
        saver = self._saver_functions()
        for where, node in self._nodes:
            place = f"in the function {where!r:.120}" if where else "outside its functions"
            if (where in saver and node.op in SAVER) or node.op == TABLE_OF_FILE:
                continue  # `saver` and `tables` look at these
            if node.op not in allowed and node.op not in self._library:
                return f"has the operation {node.op!r:.80} {place}, which no model may run here: {HINT}"
            for called in _called(node.attr):
                if called not in self._library:
                    return f"calls {called!r:.80} {place}, which is not one of its functions: {HINT}"
        for function in self._library.values():
            if unknown := next((c for c in _called(function.attr) if c not in self._library), None):
                return f"calls {unknown!r:.80}, which is not one of its functions: {HINT}"
        return ""

    def _saver_nodes(self) -> list[Any]:
        saver = self._meta.saver_def
        names = {_node(name) for name in (saver.save_tensor_name, saver.restore_op_name)}
        return [self._main[name] for name in sorted(names) if name in self._main]

    def _saver_functions(self) -> set[str]:
        return {node.attr["f"].func.name for node in self._saver_nodes() if node.op in CALLS}

    def saver(self) -> str:
        """Return how the functions that save and restore could be used for something else."""
        said = f"the functions that save and restore are used for something else: {HINT}"
        file = _node(self._meta.saver_def.filename_tensor_name)
        if file in self._main and self._main[file].op != "Placeholder":
            return said
        nodes = self._saver_nodes()
        own = {node.name for node in nodes}
        if any(self._mentions[name] != 1 for name in self._saver_functions()):
            return said
        if any(not node.input or node.input[0] != file for node in nodes if node.op in CALLS):
            return said
        used = {name for node in self._main.values() for name in map(_node, node.input) if node.name not in own}
        if ({*own, file} - {""}) & (used | set(self._offered())):
            return said
        return "" if all(self._restores_its_argument(name) for name in self._saver_functions()) else said

    def _restores_its_argument(self, name: str) -> bool:
        """Return whether a function reads only the checkpoint that it is given."""
        function = self._library.get(name)
        if function is None or not function.signature.input_arg:
            return False
        given = function.signature.input_arg[0].name
        return all(node.input[:1] == [given] for node in function.node_def if node.op == "RestoreV2")

    def _offered(self) -> Iterator[str]:
        """Yield the nodes that signatures and collections name."""
        for signature in self._meta.signature_def.values():
            for info in (*signature.inputs.values(), *signature.outputs.values()):
                yield from (_node(info.name), *(_node(part.name) for part in info.composite_tensor.components))
        for collection in self._meta.collection_def.values():
            yield from map(_node, collection.node_list.value)

    def tables(self) -> str:
        """Return a table that reads a file which is no asset of the model, or one that a caller could name."""
        if self._asset_tensors & set(self._offered()):
            return f"a signature takes the path of an asset: {HINT}"
        for where, node in self._nodes:
            if node.op == TABLE_OF_FILE and not (where and self._reads_asset(self._library[where], node)):
                place = f"the function {where!r:.120}" if where else "the graph"
                return f"a table in {place} reads a file that is not an asset of the model: {HINT}"
        return ""

    def _reads_asset(self, function: Any, node: Any) -> bool:
        """Return whether a table's file is an argument of its function, and an asset wherever that is called."""
        name, arguments = function.signature.name, [argument.name for argument in function.signature.input_arg]
        if len(node.input) < 2 or node.input[1] not in arguments:
            return False
        index = arguments.index(node.input[1])
        calls = [n for n in self._main.values() if n.op in CALLS and n.attr["f"].func.name == name]
        if not all(len(call.input) > index and self._is_asset(call.input[index]) for call in calls):
            return False
        objects = self._meta.object_graph_def
        known = name in objects.concrete_functions
        bound = list(objects.concrete_functions[name].bound_inputs) if known else []
        at = index - (len(arguments) - len(bound))
        if known and not (at >= 0 and self._is_asset_object(bound[at])):
            return False
        held = sum(list(one.function.concrete_functions).count(name) for one in objects.nodes)
        held += sum(one.bare_concrete_function.concrete_function_name == name for one in objects.nodes)
        return bool(self._mentions[name] == len(calls) + known + held and (known or not held))

    def _is_asset_object(self, number: int) -> bool:
        nodes = self._meta.object_graph_def.nodes
        return 0 <= number < len(nodes) and nodes[number].WhichOneof("kind") == "asset"

    def _is_asset(self, tensor: str) -> bool:
        """Return whether a tensor of the main graph is an asset's path, or a variable that holds nothing else."""
        name = _node(tensor)
        node = self._main.get(name)
        if node is None or node.op in ("Const", "Placeholder"):
            return node is not None and name in self._asset_tensors
        if node.op != "ReadVariableOp" or not node.input:
            return False
        handle = self._main.get(_node(node.input[0]))
        if handle is None or handle.op != "VarHandleOp":
            return False
        shared = [
            n for _, n in self._nodes if n.op == "VarHandleOp" and n.attr["shared_name"] == handle.attr["shared_name"]
        ]
        users = [n for n in self._main.values() if handle.name in map(_node, n.input)]
        return len(shared) == 1 and all(self._keeps_asset(user) for user in users)

    def _keeps_asset(self, user: Any) -> bool:
        if user.op == "AssignVariableOp":
            return len(user.input) > 1 and _node(user.input[1]) in self._asset_tensors
        return user.op in ("ReadVariableOp", "VarIsInitializedOp")


def _node(tensor: str) -> str:
    """Return the node of a tensor or a control input."""
    return tensor.removeprefix("^").partition(":")[0]


def _called(attributes: Any) -> Iterator[str]:
    """Yield the functions in attributes, and those in the attributes of these."""
    for value in attributes.values():
        for function in (*([value.func] if value.HasField("func") else []), *value.list.func):
            yield function.name
            yield from _called(function.attr)


def _names(attributes: Any) -> Iterator[str]:
    """Yield what may name a function: functions in attributes, and texts."""
    yield from _called(attributes)
    for value in attributes.values():
        for text in (value.s, *value.list.s):
            yield text.decode("utf-8", errors="replace")
