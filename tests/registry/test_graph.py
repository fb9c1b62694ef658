"""Real SavedModels that do more than compute are refused before anything of them runs; those that compute are not."""

import os
import re
from pathlib import Path

import keras
import pytest

from tapeline.runtime.saved_models import graph, operations
from tapeline.runtime.untuned import untuned


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret.txt"
    path.write_text("hidden")
    return path


@pytest.fixture
def saved(tf, tmp_path):
    """Return a maker of SavedModels from a function of x, shape (n,), and things to keep."""

    def make(function, *, spec=None, **kept):
        module = tf.Module()
        for name, value in kept.items():
            setattr(module, name, value)
        serve = tf.function(
            lambda x: {"y": function(x)}, input_signature=[spec or tf.TensorSpec((None,), tf.float32, name="x")]
        )
        tf.saved_model.save(module, str(tmp_path / "model"), signatures=serve.get_concrete_function())
        return tmp_path / "model"

    return make


def refused(folder):
    said = graph.refused(folder, operations.ALLOWED)
    assert "\n" not in said and said.isprintable()
    return said


def edited(folder, edit):
    """Change the parsed SavedModel as an attacker would, without TensorFlow's writer."""
    from tensorflow.core.protobuf import saved_model_pb2

    path = folder / "saved_model.pb"
    content = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    edit(content.meta_graphs[0])
    path.write_bytes(content.SerializeToString())
    return folder


def nodes(meta, operation):
    every = [meta.graph_def.node, *(function.node_def for function in meta.graph_def.library.function)]
    return [node for some in every for node in some if node.op == operation]


def read(tf, secret):
    return tf.strings.length(tf.io.read_file(str(secret)))


def custom_gradient(tf, secret):
    @tf.custom_gradient
    def square(x):
        def gradient(upstream):
            return upstream * tf.cast(read(tf, secret), tf.float32)

        return x * x, gradient

    def serve(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = square(x)
        return tape.gradient(y, x)

    return serve


HOSTILE = {
    "reads a file": ("ReadFile", lambda tf, s: lambda x: tf.fill(tf.shape(x), read(tf, s))),
    "lists files": ("MatchingFiles", lambda tf, s: lambda x: tf.io.matching_files(f"{s.parent}/*")),
    "writes a file": (
        "WriteFile",
        lambda tf, s: lambda x: [tf.io.write_file(str(s), "mine"), x][1],
    ),
    "runs Python": ("EagerPyFunc", lambda tf, s: lambda x: tf.py_function(lambda y: y, [x], tf.float32)),
    "runs NumPy": ("PyFunc", lambda tf, s: lambda x: tf.numpy_function(lambda y: y, [x], tf.float32)),
    "in a branch": ("ReadFile", lambda tf, s: lambda x: tf.cond(tf.size(x) > 9, lambda: read(tf, s), lambda: 1)),
    "in a loop": (
        "ReadFile",
        lambda tf, s: lambda x: tf.while_loop(lambda i: i < 3, lambda i: (i + read(tf, s),), [tf.constant(0)])[0],
    ),
    "in a function of a function": (
        "ReadFile",
        lambda tf, s: lambda x: tf.function(lambda y: tf.function(lambda: read(tf, s))() + y)(1),
    ),
    "in a gradient": ("ReadFile", custom_gradient),
    "as a data set": (
        "(?:TensorSlice|TextLine)Dataset",
        lambda tf, s: lambda x: untuned(tf.data.TextLineDataset(str(s))).reduce(0, lambda n, _: n + 1),
    ),
    "writes a checkpoint": (
        "SaveV2",
        lambda tf, s: (
            lambda x: [tf.raw_ops.SaveV2(prefix=str(s), tensor_names=["x"], shape_and_slices=[""], tensors=[x]), x][1]
        ),
    ),
    "reads a checkpoint": (
        "RestoreV2",
        lambda tf, s: (
            lambda x: tf.raw_ops.RestoreV2(
                prefix=str(s), tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.float32]
            )[0]
        ),
    ),
    "prints to a file": ("PrintV2", lambda tf, s: lambda x: [tf.print(x, output_stream=f"file://{s}"), x][1]),
    "maps a file": (
        "ImmutableConst",
        lambda tf, s: lambda x: tf.raw_ops.ImmutableConst(dtype=tf.float32, shape=[1], memory_region_name=str(s)),
    ),
}


@pytest.mark.parametrize(("operation", "function"), HOSTILE.values(), ids=HOSTILE)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_that_does_more_than_compute_is_refused(tf, saved, secret, operation, function):
    said = refused(saved(function(tf, secret)))
    assert re.search(
        rf"has the operation '{operation}' in the function '.+', which no model may run here: leave it out", said
    )
    assert secret.read_text() == "hidden"


def test_an_operation_in_the_initializer_is_refused(tf, saved):
    def edit(meta):
        name = meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name
        file = meta.graph_def.node.add(name="file", op="Const")
        file.attr["dtype"].type = 7
        file.attr["value"].tensor.CopyFrom(tf.make_tensor_proto("/etc/passwd"))
        meta.graph_def.node.add(name="evil", op="ReadFile", input=["file"])
        next(node for node in meta.graph_def.node if node.name == name).input.append("^evil")

    said = refused(edited(saved(lambda x: x), edit))
    assert said.startswith("has the operation 'ReadFile' outside its functions, which no model may run here")


def test_an_operation_that_nobody_knows_is_refused_and_its_name_cannot_write_to_the_terminal(tf, saved):
    folder = edited(saved(lambda x: x), lambda meta: meta.graph_def.node.add(name="n", op="Evil\x1b[2J\nOp"))
    assert refused(folder).startswith(r"has the operation 'Evil\x1b[2J\nOp' outside its functions")


def test_a_function_cannot_pass_for_an_operation_nor_an_operation_for_a_function(tf, saved):
    def named(meta):
        function = meta.graph_def.library.function.add()
        function.signature.name = "ReadFile"
        meta.graph_def.node.add(name="n", op="ReadFile")

    assert refused(edited(saved(lambda x: x), named)).startswith("the function 'ReadFile' has no number")

    def called(meta):
        nodes(meta, "StatefulPartitionedCall")[0].attr["f"].func.name = "ReadFile"

    folder = saved(lambda x: tf.function(lambda y: y + 1)(2 * x), kept=tf.Variable(1.0))
    assert re.match("calls 'ReadFile' .*, which is not one of its functions", refused(edited(folder, called)))


def test_no_operation_of_tensorflow_is_named_as_functions_are(tf):
    assert [name for name in dir(tf.raw_ops) if graph.NUMBERED.fullmatch(name)] == []


@pytest.mark.parametrize("name", ["../secret.txt", "/etc/passwd", "a/../../secret.txt", "gs://bucket/words", ""])
def test_an_asset_outside_the_folder_is_refused(tf, saved, secret, name):
    folder = edited(vocabulary(tf, saved, secret), lambda meta: setattr(meta.asset_file_def[0], "filename", name))
    assert refused(folder) == f"the asset {name!r} leads out of the model's folder: export again"


def vocabulary(tf, saved, file):
    """A model with a table of a text file, which becomes an asset."""
    made = tf.lookup.TextFileInitializer(
        str(file), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
    )
    table = tf.lookup.StaticVocabularyTable(made, 1)
    return saved(table.lookup, spec=tf.TensorSpec((None,), tf.string, name="x"), table=table)


def test_a_table_may_read_an_asset_of_the_model_and_nothing_else(tf, saved, secret):
    folder = vocabulary(tf, saved, secret)
    assert refused(folder) == ""
    whole = (folder / "saved_model.pb").read_bytes()

    def by_a_constant(meta):
        [function] = [
            f for f in meta.graph_def.library.function if any(n.op == graph.TABLE_OF_FILE for n in f.node_def)
        ]
        function.node_def.add(name="file", op="Const").attr["value"].tensor.CopyFrom(
            tf.make_tensor_proto("/etc/passwd")
        )
        [node] = nodes(meta, graph.TABLE_OF_FILE)
        node.input[1] = "file:output:0"

    def by_an_object(meta):
        objects = meta.object_graph_def
        [asset] = [number for number, one in enumerate(objects.nodes) if one.WhichOneof("kind") == "asset"]
        objects.nodes[asset].constant.operation = "Const"

    def by_a_variable(meta):
        for node in nodes(meta, "AssignVariableOp"):
            if node.input[1] == "asset_path_initializer":
                node.input[1] = "serving_default_x"

    for edit in (by_a_constant, by_an_object, by_a_variable):
        (folder / "saved_model.pb").write_bytes(whole)
        said = refused(edited(folder, edit))
        assert re.match("a table in the function '.+' reads a file that is not an asset of the model", said), (
            edit.__name__
        )


def test_the_functions_that_save_and_restore_serve_the_saver_alone(tf, saved):
    folder = saved(lambda x: x, kept=tf.Variable(1.0))
    assert refused(folder) == ""
    whole = (folder / "saved_model.pb").read_bytes()

    def saves(meta):
        return meta.saver_def.save_tensor_name.partition(":")[0]

    def from_the_initializer(meta):
        name = meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name
        next(node for node in meta.graph_def.node if node.name == name).input.append(f"^{saves(meta)}")

    def from_a_signature(meta):
        meta.signature_def["serving_default"].outputs["z"].name = meta.saver_def.save_tensor_name

    def from_an_object(meta):
        function = next(node for node in meta.graph_def.node if node.name == saves(meta)).attr["f"].func.name
        meta.object_graph_def.nodes.add().bare_concrete_function.concrete_function_name = function

    def with_another_file(meta):
        nodes(meta, "RestoreV2")[0].input[0] = "RestoreV2/tensor_names:output:0"

    def with_a_constant_file(meta):
        name = meta.saver_def.filename_tensor_name.partition(":")[0]
        next(node for node in meta.graph_def.node if node.name == name).op = "Const"

    for edit in (from_the_initializer, from_a_signature, from_an_object, with_another_file, with_a_constant_file):
        (folder / "saved_model.pb").write_bytes(whole)
        said = refused(edited(folder, edit))
        assert said.startswith("the functions that save and restore are used for something else"), edit.__name__


def test_files_that_are_links_or_another_graph_are_refused(tf, saved, secret):
    folder = saved(lambda x: x)
    (folder / "assets" / "words").symlink_to(secret)
    assert refused(folder) == "'assets/words' is a link, as DVC makes with cache.type symlink: " + (
        "`dvc config cache.type copy`, `dvc checkout --relink`"
    )
    (folder / "assets" / "words").unlink()
    os.mkfifo(folder / "assets" / "words")
    assert refused(folder) == "'assets/words' is neither a file nor a folder: export again"
    (folder / "assets" / "words").unlink()
    (folder / "saved_model.pbtxt").write_text("")
    assert refused(folder) == "has 'saved_model.pb', 'saved_model.pbtxt', not saved_model.pb alone: export again"
    (folder / "saved_model.pbtxt").unlink()
    (folder / "saved_model.pb").write_bytes(b"\x0a\xff")
    assert refused(folder) == "does not load or answer: saved_model.pb is not a SavedModel"
    (folder / "saved_model.pb").write_bytes(b"")
    assert "does not have the one graph with objects" in refused(folder)


NAMES_A_FILE = re.compile(r"file|path(?!s$)|dir(?!ection)|url|address|stream|uri|server|library|command|memory_region")


def test_no_allowed_operation_takes_a_file_or_an_address(tf):
    from tensorflow.python.framework import op_def_registry

    known = {name: op_def_registry.get(name) for name in operations.ALLOWED}
    assert [name for name, definition in known.items() if definition is None] == []
    takes = {name: [part.name for part in (*one.input_arg, *one.attr)] for name, one in known.items()}
    assert [name for name, parts in takes.items() if any(map(NAMES_A_FILE.search, parts))] == []
    assert operations.ALLOWED.isdisjoint(graph.SAVER | {graph.TABLE_OF_FILE})


def layers(tf):
    """Layers as recipes use them, with other operations each: (input shape, layer)."""
    of = keras.layers
    return {
        "dense": ((4,), of.Dense(3, activation="gelu")),
        "convolution": ((8, 8, 1), keras.Sequential([of.Conv2D(2, 3), of.BatchNormalization(), of.MaxPooling2D()])),
        "generator": (
            (4, 4, 2),
            keras.Sequential([of.Conv2DTranspose(2, 3, strides=2), of.LeakyReLU(), of.UpSampling2D()]),
        ),
        "lstm": ((5, 3), of.LSTM(4, return_sequences=True)),
        "gru": ((5, 3), of.Bidirectional(of.GRU(4))),
        "attention": ((5, 4), keras.Sequential([of.LayerNormalization(), of.Dense(4)])),
        "augmentation": ((8, 8, 3), keras.Sequential([of.RandomFlip(), of.RandomRotation(0.1), of.Resizing(4, 4)])),
        "discretization": ((4,), of.Discretization([0.0, 1.0], output_mode="one_hot")),
    }


@pytest.mark.slow
def test_the_layers_that_recipes_use_are_allowed(tf, saved):
    for name, (shape, layer) in layers(tf).items():
        layer.build((None, *shape))
        spec = tf.TensorSpec((None, *shape), tf.float32, name="x")
        folder = saved(lambda x, layer=layer: layer(x), spec=spec, kept=layer.variables)
        assert refused(folder) == "", name


@pytest.mark.slow
def test_texts_tables_and_steps_of_training_are_allowed(tf, saved):
    look = keras.layers.StringLookup(vocabulary=["a", "b"])
    words = tf.TensorSpec((None,), tf.string, name="x")
    assert refused(saved(lambda x: look(tf.strings.lower(x)), spec=words, kept=look.lookup_table)) == ""
    split = saved(lambda x: tf.strings.split(x).to_tensor("-")[:, 0], spec=words)
    assert refused(split) == ""
    weight = tf.Variable(2.0)

    def adapts(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight * x)
        weight.assign_sub(tape.gradient(loss, weight))
        return weight * x

    assert refused(saved(adapts, kept=weight)) == ""


def test_the_module_runs_beside_no_tapeline_code():
    assert "tapeline" not in re.sub(r'""".*?"""', "", Path(graph.__file__).read_text(), flags=re.DOTALL)
