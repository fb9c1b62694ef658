"""XLA compiles a loop once, whatever the lengths of the loops and of the chunks; counted by what it dumps."""

import json
import os
import subprocess
import sys
from pathlib import Path

import datasets
import pytest
import recipes
from trainings import Run

from tapeline.config.train import TrainSettings
from tapeline.runtime.errors import InputError

SUPPORT = [str(Path(__file__).resolve().parents[1] / "support"), str(Path(__file__).resolve().parents[2] / "src")]
PROGRAM = """
import json, sys
paths, folder, lengths, chunk, settings = map(json.loads, sys.argv[1:])
sys.path[:0] = paths
from pathlib import Path
from tapeline.train.data import feed
from trainings import Lengths, Run

feed.CHUNK_STEPS = chunk
folder = Path(folder)
run = Run(folder / f"{lengths}-{chunk}", folder / "recipe.py", folder / "blobs", {}, epochs=20, batch_size=8,
          compile="xla", **settings)
run(pace=Lengths(*lengths))
"""


def compiled(folder, lengths, chunk=4096, **settings):
    """Return how many modules XLA compiled in a training of its own process."""
    dump = folder / f"dump-{lengths}-{chunk}".replace(" ", "")
    asked = [json.dumps(each) for each in (SUPPORT, str(folder), lengths, chunk, settings)]
    env = {**os.environ, "XLA_FLAGS": f"--xla_dump_to={dump} --xla_dump_hlo_as_text"}
    subprocess.run([sys.executable, "-c", PROGRAM, *asked], check=True, env=env, timeout=120, capture_output=True)
    return len({path.name.split(".")[0] for path in dump.glob("module_*")})


@pytest.mark.long
@pytest.mark.parametrize("settings", [{}, {"data": "stream", "shards": 2}], ids=str)
def test_many_lengths_and_chunks_compile_as_often_as_one(tmp_path, settings):
    """With what `prepare` draws, too, which a step takes from the chunk by its row."""
    datasets.blobs(tmp_path / "blobs", examples=128)
    recipes.write(tmp_path, recipes.EVERYTHING)
    whole = compiled(tmp_path, [320], **settings)
    assert compiled(tmp_path, [1, 2, 3, 50, 7], 41, **settings) == whole >= 1


TWICE = (
    'return tf.reduce_mean(tf.square(batch["y"] - self.model(batch["x"], training=training)), -1), {}',
    'error = batch["y"] - self.model(batch["x"])\n        return tf.reduce_mean(error * error + tf.abs(error), -1), {}',
)
"""The error is read three times, so its gradient is a sum."""


@pytest.mark.parametrize(("mode", "divided"), [("xla", True), ("graph", False)])
def test_sums_of_gradients_are_computed_once_where_xla_compiles(tmp_path, tf, mode, divided):
    """By a division, which would only cost time in graph mode."""
    from tapeline.train.assembly import assemble

    settings = TrainSettings.model_validate({"epochs": 1, "batch_size": 8, "compile": mode})
    step = assemble(recipes.write(tmp_path, recipes.LINE, TWICE), {}, settings, datasets.points(tmp_path / "points"))
    graph = step.loop._step.traced.graph
    sums = {one.outputs[0].ref() for one in graph.get_operations() if one.type == "AddN"}
    found = [one for one in graph.get_operations() if one.type == "RealDiv" and one.inputs[0].ref() in sums]
    assert sums and bool(found) == divided


STEP = "    def predict("
RING = """    def train_step(self, batch, context):
        self.ring[tf.cast(context.step, tf.int32) % 5].assign(tf.ones([2]))
        return super().train_step(batch, context)

"""
LOOP = """    def train_step(self, batch, context):
        with tf.GradientTape() as tape:
            x = batch["x"]
            for _ in tf.range(2):
                x = tf.concat([self.model(x, training=True)] * 2, -1)
            loss = tf.reduce_mean(tf.square(batch["y"] - x[:, :1]))
        self.update(self.optimizer, self.variables, tape.gradient(loss, self.variables))
        return {"loss": loss[None]}

"""
COUNTED = "tf.cast(tf.range(tf.cast(context.step, tf.int32) % 2), tf.float32)"
RANGE = f"""    def train_step(self, batch, context):
        return {{**super().train_step(batch, context), "more": tf.reduce_sum({COUNTED})[None]}}

"""


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (RING, "ResourceStridedSliceAssign needs an index or a size that is known at compile time: use graph"),
        (RANGE, "Range needs an index or a size that is known at compile time: use graph"),
        (
            LOOP,
            "the length of a loop must be known at compile time: use graph, or unroll the loop (a Python loop ",
        ),
    ],
    ids=["ring", "range", "loop"],
)
def test_what_xla_cannot_compile_is_said_with_its_cause(tmp_path, tf, step, said):
    ring = ("    def build(self):\n", "    def build(self):\n        self.ring = tf.Variable(tf.zeros([5, 2]))\n")
    recipe = recipes.write(tmp_path, recipes.LINE, ring, (STEP, step + STEP))
    data = datasets.points(tmp_path / "points").folder
    with pytest.raises(InputError) as raised:
        Run(tmp_path / "run", recipe, data, epochs=1, batch_size=8, compile="xla")()
    assert str(raised.value).startswith(f"train.compile is xla, where {said}")
