"""Recipes that would break an exact resume: the bits are the same after a cut, or the first step is refused by name.

There is no third verdict. `SAME` and `REFUSED` say which of the two each trap has in graph mode and under XLA; in eager
mode, where Python runs at each step, `EAGER` names those that differ.
"""

import os
import subprocess
import sys

import datasets
import pytest
from trainings import Crash, Lengths, Run, crash_after

from tapeline.runtime.errors import InputError
from tapeline.runtime.records import LoopEnded

RECIPE = """
import itertools, os, random, time, uuid
from array import array
from collections import deque
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
import keras, numpy as np, tensorflow as tf
from tapeline.recipe import Recipe

class Counter:
    def __init__(self): self.n = 0
    def up(self):
        self.n += 1
        return float(self.n)

class Slotted:
    __slots__ = ("n",)
    def __init__(self): self.n = 0

class Counting(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.calls = 0
    def call(self, x):
        self.calls += 1
        return x * self.calls

class Phase(Enum):
    FIRST, SECOND = 1, 2

def start():  # 0 and 1 in turn, each time that the recipe is built
    os.environ["A_START"] = str(1 - int(os.environ["A_START"]))
    return int(os.environ["A_START"])

TOTAL = [0]
{module}

class Trap(Recipe):
    inputs, target = ("x",), "y"
    shared = []
    _shared_count = 0

    def build(self):
        self.model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        self.optimizer = keras.optimizers.SGD(0.05)
        {build}

    def prepare(self, batch, context):
        x, extra = batch["x"], tf.zeros([])
        {prepare}
        return {{**batch, "extra": tf.reshape(tf.cast(extra, tf.float32), [-1])[0]}}

    def train_step(self, batch, context, default=[]):
        x, extra = batch["x"], batch["extra"]
        image = tf.reshape(tf.tile(x, [1, 8]), [-1, 4, 4, 1])
        {step}
        extra = tf.reshape(tf.cast(extra, tf.float32), [-1])[0]
        with tf.GradientTape() as tape:
            losses = tf.reduce_mean(tf.square(batch["y"] - self.model(x)), -1) * (1.0 + 0.01 * extra)
            mean = tf.reduce_mean(losses)
        variables = self.model.trainable_variables
        self.update(self.optimizer, variables, tape.gradient(mean, variables))
        return {{"loss": losses}}

    def eval_step(self, batch, context):
        x, extra = batch["x"], 0.0
        {eval}
        extra = tf.reshape(tf.cast(extra, tf.float32), [-1])[0]
        return {{"loss": tf.reduce_mean(tf.square(batch["y"] - self.model(x)), -1) * (1.0 + extra)}}
"""
PICTURES = """
    def pictures(self, data):
        return {{"noise": np.random.randint(0, 255, (2, 2, 1), np.uint8) + np.uint8(random.random())}}
"""
EVALUATE = """
    def evaluate(self, data):
        {evaluate}
        return {{"judged": float(extra)}}
"""

HELPERS = """N = _N = 0
COUNTS = [0]

def scale():
    global _N
    _N += 1
    return 0.5 if _N > 30 else 1.0
"""
"""`helpers_of_trap.py` beside the recipe."""
LOOKUP = """
class Lookup:
    def __init__(self, values):
        rows = tf.lookup.KeyValueTensorInitializer(tf.range(3, dtype=tf.int64), tf.constant(values, tf.float32))
        self.table = tf.lookup.StaticHashTable(rows, 0.0)
"""

REFUSED: dict[str, dict[str, str]] = {
    # prepare: it runs ahead, so it may keep no state at all
    "prepare uniform": {
        "prepare": "extra = tf.random.uniform([])",
        "said": "prepare draws from the stateful RandomUniform",
    },
    "prepare normal": {"prepare": "extra = tf.random.normal([])", "said": "RandomStandardNormal"},
    "prepare seeded normal": {"prepare": "extra = tf.random.normal([], seed=1)", "said": "RandomStandardNormal"},
    "prepare integers": {"prepare": "extra = tf.random.uniform([], 0, 9, tf.int32)", "said": "RandomUniformInt"},
    "prepare shuffle": {"prepare": "extra = tf.random.shuffle(x)[0, 0]", "said": "RandomShuffle"},
    "prepare categorical": {"prepare": "extra = tf.random.categorical([[0.5, 0.5]], 1)[0, 0]", "said": "Multinomial"},
    "prepare gamma": {"prepare": "extra = tf.random.gamma([], 1.0)", "said": "RandomGamma"},
    "prepare generator": {
        "build": "self.generator = tf.random.Generator.from_seed(1)",
        "prepare": "extra = self.generator.normal([])",
        "said": "prepare changes generator/state_var",
    },
    "prepare untracked generator": {
        "module": "GENERATOR = tf.random.Generator.from_seed(1)",
        "prepare": "extra = GENERATOR.normal([])",
        "said": "prepare changes or reads",
    },
    "prepare variable changed": {
        "build": "self.count = tf.Variable(0.0)",
        "prepare": "extra = self.count.assign_add(1.0)",
        "said": "prepare changes count",
    },
    "prepare Keras variable changed": {
        "build": "self.count = keras.Variable(0.0, name='count')",
        "prepare": "self.count.assign(self.count + 1.0); extra = self.count.value",
        "said": "prepare changes a Keras variable",
    },
    "prepare batch normalization": {
        "build": "self.norm = keras.layers.BatchNormalization(); self.norm.build((None, 2))",
        "prepare": "extra = self.norm(x, training=True)[0, 0]",
        "said": "prepare changes a Keras variable",
    },
    "prepare reads a weight": {
        "prepare": "extra = tf.reduce_sum(self.model(x))",
        "said": "prepare changes or reads",
    },
    "prepare timestamp": {"prepare": "extra = tf.timestamp() % 100.0", "said": "prepare reads the clock"},
    "prepare numpy_function": {
        "prepare": "extra = tf.numpy_function(lambda: np.float32(np.random.rand()), [], tf.float32)",
        "said": "prepare calls Python through PyFunc",
    },
    "prepare py_function": {
        "prepare": "extra = tf.py_function(lambda: np.float32(np.random.rand()), [], tf.float32)",
        "said": "prepare calls Python through EagerPyFunc",
    },
    "prepare numpy_function that lies": {
        "prepare": "extra = tf.numpy_function(lambda s: np.float32(np.random.rand()), [context.step], tf.float32, stateful=False)",
        "said": ("prepare gave two results", "np.random"),
    },
    "prepare iterator": {
        "build": "self.iterator = iter(tf.data.Dataset.range(100000))",
        "prepare": "extra = next(self.iterator)",
        "said": "prepare changes or reads",
    },
    "prepare image flips in a loop": {
        "prepare": "extra = tf.map_fn(lambda i: tf.image.random_flip_left_right(i), tf.zeros([8, 4, 4, 1]))[0, 0, 0, 0]",
        "said": "prepare calls tf.image.random_… inside a loop",
    },
    "prepare Keras layer in a loop": {
        "build": "self.flip = keras.layers.RandomFlip()",
        "prepare": "extra = tf.map_fn(lambda i: self.flip(i), tf.zeros([8, 4, 4, 1]))[0, 0, 0, 0]",
        "said": "prepare calls a Keras layer or keras.random inside a loop",
    },
    "prepare distorted boxes": {
        "prepare": "extra = tf.image.sample_distorted_bounding_box([9, 9, 3], tf.zeros([1, 1, 4]), seed=1, "
        "min_object_covered=0.1)[0][0]",
        "said": "SampleDistortedBoundingBox",
    },
    "prepare clock while tracing": {"prepare": "extra = time.time() % 100", "said": "a constant in prepare, line"},
    "prepare mutable table": {
        "build": "self.table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)",
        "prepare": "extra = self.table.lookup(context.step)",
        "said": "prepare changes or reads",
    },
    # train_step: state of its own
    "untracked variable": {
        "module": "HIDDEN = tf.Variable(0.0, name='hidden')",
        "step": "extra = HIDDEN.assign_add(1.0)",
        "said": "changes or reads hidden",
    },
    "untracked variable in a function": {
        "module": "HIDDEN = tf.Variable(0.0, name='hidden')\n@tf.function\ndef up(): return HIDDEN.assign_add(1.0)",
        "step": "extra = up()",
        "said": "changes or reads hidden",
    },
    "stateful draw": {"step": "extra = tf.random.normal([])", "said": "train_step draws from the stateful"},
    "stateful draw in a function": {
        "module": "@tf.function\ndef draw(): return tf.random.normal([])",
        "step": "extra = draw()",
        "said": "RandomStandardNormal",
    },
    "stateful draw in a loop": {
        "step": "extra = tf.map_fn(lambda i: tf.random.normal([]), x[:, 0])[0]",
        "said": "RandomStandardNormal",
    },
    "stateful draw in a branch": {
        "step": "extra = tf.cond(context.step > 5, lambda: tf.random.normal([]), lambda: 0.0)",
        "said": "RandomStandardNormal",
    },
    "dropout of tf.nn": {"step": "x = tf.nn.dropout(x, 0.5)", "said": "RandomUniform"},
    "timestamp": {"step": "extra = tf.timestamp() % 100.0", "said": "train_step reads the clock"},
    "py_function": {"step": "extra = tf.py_function(lambda: np.float32(1), [], tf.float32)", "said": "EagerPyFunc"},
    "numpy_function with state": {
        "step": "extra = tf.numpy_function(lambda: np.float32(TOTAL.append(1) or len(TOTAL)), [], tf.float32)",
        "said": "train_step calls Python through PyFunc",
    },
    "numpy_function that lies": {
        "step": "extra = tf.numpy_function(lambda s: np.float32(TOTAL.append(1) or len(TOTAL)), [context.step], tf.float32, stateful=False)",
        "said": ("gave two results", "TOTAL", "xla, which does not support PyFuncStateless"),
    },
    "generator in numpy_function": {
        "build": "self.generator = np.random.default_rng(0)",
        "step": "extra = tf.numpy_function(lambda s: np.float32(self.generator.random()), [context.step], tf.float32, stateful=False)",
        "said": ("gave two results", "self.generator", "xla, which does not support PyFuncStateless"),
    },
    "fractional pooling": {
        "step": "extra = tf.reduce_sum(tf.raw_ops.FractionalMaxPool(value=image, pooling_ratio=[1.0, 1.4, 1.4, 1.0])[0])",
        "said": "FractionalMaxPool",
    },
    "shared name": {
        "step": "handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name='shared')\n"
        "        tf.raw_ops.AssignVariableOp(resource=handle, value=1.0)\n"
        "        extra = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)",
        "said": "VarHandleOp",
    },
    "accumulator": {
        "step": "handle = tf.raw_ops.ResourceConditionalAccumulator(dtype=tf.float32, shape=[], shared_name='a')\n"
        "        tf.raw_ops.ResourceAccumulatorApplyGradient(handle=handle, local_step=context.step, gradient=1.0)",
        "said": "ResourceConditionalAccumulator",
    },
    "queue": {
        "build": "self.queue = tf.queue.FIFOQueue(10, [tf.float32])",
        "step": "self.queue.enqueue([1.0])",
        "said": "changes or reads",
    },
    "dataset in the step": {
        "build": "self.numbers = tf.data.Dataset.range(3)",
        "step": "extra = self.numbers.reduce(np.int64(0), lambda a, b: a + b)",
        "said": "changes or reads",
    },
    "iterator in the step": {
        "build": "self.iterator = iter(tf.data.Dataset.range(100000))",
        "step": "extra = next(self.iterator)",
        "said": ("changes or reads", "self.iterator is an iterator"),
    },
    "candidate sampler": {
        "step": "extra = tf.random.uniform_candidate_sampler(tf.zeros([1, 1], tf.int64), 1, 1, True, 9)[0]",
        "said": "UniformCandidateSampler",
    },
    "no-deterministic integers": {
        "step": "extra = tf.raw_ops.NonDeterministicInts(shape=[1]) % 7",
        "said": "NonDeterministicInts",
    },
    "file written": {"step": "tf.io.write_file('/dev/null', 'x')", "said": "WriteFile"},
    "mutable table": {
        "build": "self.table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)",
        "step": "self.table.insert(context.step, 1.0); extra = self.table.lookup(context.step)",
        "said": "changes or reads",
    },
    "image flip in a loop": {
        "step": "extra = tf.map_fn(lambda i: tf.image.random_brightness(i, 0.5), image)[0, 0, 0, 0]",
        "said": "train_step calls tf.image.random_… inside a loop",
    },
    # values that are others at each start
    "clock while tracing": {
        "step": "extra = time.time() % 100",
        "said": ("a constant in train_step, line", "gave two results"),
    },
    "date while tracing": {
        "step": "extra = datetime.now().timestamp() % 100",
        "said": ("a constant in train_step, line", "gave two results"),
    },
    "generator without a seed while tracing": {
        "step": "extra = np.random.default_rng().random()",
        "said": ("a constant in train_step", "gave two results"),
    },
    "system's random numbers": {
        "step": "extra = os.urandom(1)[0] + random.SystemRandom().random()",
        "said": ("a constant in train_step", "gave two results"),
    },
    # Their states are set before a recipe is built, so the number would repeat; it is drawn once all the same.
    "global np.random": {"step": "extra = float(np.random.rand())", "said": ("a constant in train_step", "np.random")},
    "global random": {"step": "extra = random.random()", "said": ("a constant in train_step", "random")},
    "global np.random in prepare": {"prepare": "extra = np.random.uniform(-20, 20)", "said": "a constant in prepare"},
    "global random in prepare": {"prepare": "extra = random.uniform(-1, 1)", "said": "a constant in prepare"},
    "global np.random in eval": {"eval": "extra = np.random.rand()", "said": "a constant in eval_step"},
    "uuid": {"step": "extra = uuid.uuid4().int / 2.0**128", "said": ("a constant in train_step", "gave two results")},
    "generator without a seed in build": {
        "build": "self.offset = float(np.random.default_rng().random())",
        "step": "extra = self.offset",
        "said": "a constant in train_step",
    },
    "array without a seed in build": {
        "build": "self.offsets = np.random.default_rng().random(3)",
        "step": "extra = tf.constant(self.offsets)[0]",
        "said": "a constant in train_step",
    },
    "tensor without a seed in build": {
        "build": "self.offset = tf.constant(np.random.default_rng().random(), tf.float32)",
        "step": "extra = self.offset",
        "said": "a tensor that train_step reads differs between starts",
    },
    "initial weights without a seed": {
        "build": "self.model.layers[0].kernel.assign(np.random.default_rng().random((2, 1)))",
        "said": "the initial value of model",
    },
    "table without a seed": {
        "build": "self.look = Lookup(np.random.default_rng().random(3))",
        "module": LOOKUP,
        "step": "extra = self.look.table.lookup(context.step % 3)",
        "said": "the content of self.look.table differs between starts",
    },
    "vocabulary without a seed": {
        "build": "self.look = keras.layers.StringLookup(vocabulary=[uuid.uuid4().hex, 'b'])",
        "step": "extra = self.look(tf.constant(['b']))[0]",
        "said": "the content of self.look.lookup_table differs between starts",
    },
    "text without a seed": {
        "step": "extra = tf.strings.length(tf.strings.substr(tf.constant(uuid.uuid4().hex), 0, 3))",
        "said": ("a constant in train_step", "gave two results"),
    },
    "captured text without a seed": {
        "build": "self.text = tf.constant(uuid.uuid4().hex)",
        "step": "extra = tf.strings.to_hash_bucket_fast(self.text, 99)",
        "said": "a tensor that train_step reads differs between starts",
    },
    "clock in the module": {
        "module": "NOW = time.time() % 100",
        "step": "extra = NOW",
        "said": "a constant in train_step",
    },
    "clock in eval": {"eval": "extra = time.time() % 100", "said": "a constant in eval_step"},
    # operations that are others at each start
    "operation of each start": {
        "build": "self.act = (tf.nn.relu, tf.nn.tanh)[start()]",
        "step": "x = self.act(x)",
        "said": "in train_step, line",
    },
    "operation of each start in prepare": {
        "build": "self.act = (tf.nn.relu, tf.nn.tanh)[start()]",
        "prepare": "extra = self.act(x)[0, 0]",
        "said": "in prepare, line",
    },
    "operation of each start in eval": {
        "build": "self.act = (tf.nn.relu, tf.nn.tanh)[start()]",
        "eval": "x = self.act(x)",
        "said": "in eval_step, line",
    },
    "variable of each start": {
        "build": "self.pair = [tf.Variable(0.5), tf.Variable(0.5)]; self.first = start()",
        "step": "extra = self.pair[self.first] * 2.0; self.pair[0].assign_add(1.0)",
        "said": "in train_step, line",
    },
    "order of writes": {
        "build": "self.count = tf.Variable(1.0); self.first = start()",
        "step": "for one in (0, 1) if self.first else (1, 0): self.count.assign(self.count * 2.0 if one else self.count + 1.0)",
        "said": "in train_step, line",
    },
    "order of features": {
        "build": "self.names = ['extra', 'y'] if start() else ['y', 'extra']",
        "step": "one, other = (tf.reduce_sum(batch[name]) for name in self.names); extra = one - other",
        "said": "the operation Sub in train_step, line",
    },
    "attribute of an operation of each start": {
        "build": "self.axis = start()",
        "step": "extra = tf.reduce_sum(tf.cumsum(x, 0, exclusive=bool(self.axis)))",
        "said": "the operation Cumsum in train_step, line",
    },
    "operation in a branch of each start": {
        "build": "self.act = (tf.nn.relu, tf.nn.tanh)[start()]",
        "step": "extra = tf.cond(context.step > 5, lambda: self.act(x)[0, 0], lambda: 0.0)",
        "said": "in train_step, line",
    },
    "layers in a set while tracing": {
        "build": "self.blocks = [keras.layers.Dense(2) for _ in range(9)]; [one.build((None, 2)) for one in self.blocks]",
        "step": "for one in {*self.blocks}: x = one(x)",
        "said": "in train_step, line",
    },
    # files that nobody compares
    "file in the step": {
        "step": "extra = tf.strings.length(tf.io.read_file('trap.py'))",
        "said": "train_step reads files through ReadFile",
    },
    "file in prepare": {
        "prepare": "extra = tf.strings.length(tf.io.read_file('trap.py'))",
        "said": "prepare reads files through ReadFile",
    },
    "file in eval": {
        "eval": "extra = tf.strings.length(tf.io.read_file('trap.py'))",
        "said": "eval_step reads files through ReadFile",
    },
    "files matched": {
        "step": "extra = tf.size(tf.io.matching_files('*.py'))",
        "said": "train_step reads files through MatchingFiles",
    },
    "noise around a picture": {
        "step": "extra = tf.image.extract_glimpse(image, [2, 2], tf.ones([8, 2]))[0, 0, 0, 0]",
        "said": "train_step draws noise through ExtractGlimpse",
    },
    # Python state
    "enumeration": {
        "build": "self.phase = Phase.FIRST",
        "step": "self.phase = Phase.SECOND",
        "said": "the Python attribute self.phase (<Phase.FIRST: 1> → <Phase.SECOND: 2>)",
    },
    "function": {
        "build": "self.act = tf.nn.relu",
        "step": "self.act = tf.nn.tanh",
        "said": "the Python attribute self.act (function relu → function tanh)",
    },
    "attribute": {
        "build": "self.n = 0",
        "step": "self.n += 1; extra = float(self.n)",
        "said": "the Python attribute self.n",
    },
    "list": {
        "build": "self.seen = []",
        "step": "self.seen.append(1); extra = float(len(self.seen))",
        "said": "self.seen",
    },
    "nested object": {
        "build": "self.counter = Counter()",
        "step": "extra = self.counter.up()",
        "said": "self.counter.n",
    },
    "object with slots": {
        "build": "self.slotted = Slotted()",
        "step": "self.slotted.n += 1; extra = float(self.slotted.n)",
        "said": "self.slotted.n",
    },
    "NumPy array": {
        "build": "self.array = np.zeros(3)",
        "step": "self.array += 1; extra = float(self.array[0])",
        "said": "self.array",
    },
    "module's global": {"step": "TOTAL[0] += 1; extra = float(TOTAL[0])", "said": "TOTAL[0]"},
    "class attribute": {"step": "self.shared.append(1); extra = float(len(self.shared))", "said": "Trap.shared"},
    "deque": {
        "build": "self.last = deque(maxlen=3)",
        "step": "self.last.append(float(context.step)); extra = self.last[0]",
        "said": "self.last",
    },
    "namespace": {
        "module": "from types import SimpleNamespace",
        "build": "self.names = SimpleNamespace(n=0)",
        "step": "self.names.n += 1; extra = float(self.names.n)",
        "said": "the Python attribute self.names.n (0 → 1)",
    },
    "layer that a trace lets train": {
        "build": "self.spare = keras.layers.Dense(1)\n        self.spare.trainable = False\n"
        "        def unfreeze(): self.spare.trainable = True\n        self.unfreeze = unfreeze",
        "step": "if context.step == 4000: self.unfreeze()",
        "said": "train_step changes the Python attribute self.spare.trainable (False → True), which happens only once, when it "
        "is traced: set it in build; to train a layer only from a certain step on, multiply its gradients",
    },
    "layer that a trace sets": {
        "build": "self.drop = keras.layers.Dropout(0.5)\n"
        "        def less(): self.drop.rate = 0.1\n        self.less = less",
        "step": "if context.step == 4000: self.less()\n        x = self.drop(x, training=True)",
        "said": "train_step changes the Python attribute self.drop.rate",
    },
    "optimizer that a trace sets": {
        "build": "def clip(): self.optimizer.clipnorm = 0.1\n        self.optimizer.build(self.model.trainable_variables)\n"
        "        self.clip = clip",
        "step": "if context.step == 4000: self.clip()",
        "said": "train_step changes the Python attribute self.optimizer.clipnorm",
    },
    "attribute in prepare": {
        "build": "self.n = 0",
        "prepare": "self.n += 1; extra = 1.0",
        "said": "prepare changes the Python attribute self.n",
    },
    "attribute in eval": {
        "build": "self.n = 0",
        "eval": "self.n += 1",
        "said": "eval_step changes the Python attribute self.n",
    },
    "global of another module": {
        "module": "import helpers_of_trap",
        "step": "helpers_of_trap.N += 1",
        "said": "the Python attribute helpers_of_trap.N",
    },
    # eval_step and evaluate
    "eval draws": {"eval": "extra = tf.random.normal([])", "said": "eval_step draws from the stateful"},
    "eval changes a weight": {"eval": "self.model.layers[0].bias.assign_add([1.0])", "said": "eval_step changes model"},
    "eval changes a metric": {
        "build": "self.mean = keras.metrics.Mean()",
        "eval": "self.mean.update_state(1.0); extra = self.mean.result()",
        "said": "eval_step changes mean",
    },
    "eval reads the clock": {"eval": "extra = tf.timestamp() % 100.0", "said": "eval_step reads the clock"},
    "eval uses its generator": {
        "build": "self.generator = tf.random.Generator.from_seed(1)",
        "eval": "extra = self.generator.normal([])",
        "said": "eval_step changes generator",
    },
    "eval changes an untracked variable": {
        "module": "HIDDEN = tf.Variable(0.0, name='hidden')",
        "eval": "extra = HIDDEN.assign_add(1.0)",
        "said": "eval_step changes or reads hidden",
    },
    "eval calls Python": {
        "eval": "extra = tf.py_function(lambda: np.float32(1), [], tf.float32)",
        "said": "eval_step calls Python",
    },
    "evaluate with its generator": {
        "build": "self.generator = np.random.default_rng(0)",
        "evaluate": "extra = self.generator.random()",
        "said": "evaluate changes self.generator",
    },
    "evaluate without a seed": {
        "evaluate": "extra = np.random.default_rng().random()",
        "said": "evaluate returns judged as",
    },
    "evaluate reads the clock": {"evaluate": "extra = time.time()", "said": "evaluate returns judged as"},
    "evaluate counts": {
        "build": "self._n = 0",
        "evaluate": "self._n += 1; extra = self._n",
        "said": "evaluate changes self._n",
    },
    "evaluate counts in a global": {"evaluate": "TOTAL[0] += 1; extra = TOTAL[0]", "said": "evaluate changes TOTAL[0]"},
    "evaluate counts in an object": {
        "build": "self.counter = Counter()",
        "evaluate": "extra = self.counter.up()",
        "said": "evaluate changes self.counter.n",
    },
    "evaluate changes a weight": {
        "evaluate": "self.model.layers[0].bias.assign_add([1.0]); extra = 1.0",
        "said": "evaluate changes model",
    },
    "evaluate keeps a decimal": {
        "build": "self.best = Decimal(9)",
        "evaluate": "self.best /= 2; extra = self.best",
        "said": "evaluate changes self.best (Decimal('9') → Decimal('4.5'))",
    },
    "evaluate uses an iterator": {
        "build": "self.numbers = itertools.count()",
        "evaluate": "extra = next(self.numbers)",
        "said": "self.numbers is an iterator",
    },
    # order
    "variables in a set": {
        "build": "self.spare = {tf.Variable(1.0).ref(), tf.Variable(2.0).ref()}; self.odd = {Held(1), Held(2)}",
        "module": "class Held:\n    def __init__(self, n): self.value = tf.Variable(float(n))",
        "said": "is a set that holds",
    },
    "models in a frozenset": {
        "build": "self.models = frozenset(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]) for _ in range(2))",
        "said": "self.models is a frozenset that holds",
    },
    # counted in Python: in a graph a constant of the trace
    "private attribute": {"build": "self._n = 0", "step": "self._n += 1; extra = float(self._n)", "said": "self._n"},
    "layer that counts in private": {
        "module": "class Privately(keras.layers.Layer):\n    _n = 0\n    def call(self, x):\n        self._n += 1\n"
        "        return x * (0.5 if self._n > 30 else 1.0)",
        "build": "self.counting = Privately(); self.counting._n = 0",
        "step": "x = self.counting(x)",
        "said": "self.counting._n",
    },
    "optimizer that counts": {
        "module": "class Counting2(keras.optimizers.SGD):\n    _calls = 0\n    def apply(self, grads, variables=None):\n"
        "        self._calls += 1\n        return super().apply([g * 1.0 for g in grads], variables)",
        "build": "self.optimizer = Counting2(0.05)",
        "said": "self.optimizer._calls",
    },
    "layer that counts": {
        "build": "self.counting = Counting()",
        "step": "x = self.counting(x)",
        "said": "self.counting.calls",
    },
    "count that a class begins": {
        "module": "class Steps:\n    _t = 0\n    def up(self):\n        self._t += 1\n        return float(self._t)",
        "build": "self.steps = Steps()",
        "step": "extra = self.steps.up()",
        "said": "self.steps._t (",
    },
    "dict in a private list": {
        "build": "self._seen = [{'n': 0}]",
        "step": "self._seen[0]['n'] += 1; extra = float(self._seen[0]['n'])",
        "said": "self._seen[0]['n']",
    },
    "closure": {
        "build": "n = [0]\n        def up():\n            n[0] += 1\n            return float(n[0])\n        self.up = up",
        "step": "extra = self.up()",
        "said": "self.up",
    },
    "function of another module": {
        "module": "from helpers_of_trap import scale",
        "step": "extra = scale()",
        "said": "helpers_of_trap._N",
    },
    "count in a list of another module": {
        "module": "import helpers_of_trap",
        "step": "helpers_of_trap.COUNTS[0] += 1; extra = float(helpers_of_trap.COUNTS[0])",
        "said": "helpers_of_trap.COUNTS[0] (",
    },
    "count in a private object": {
        "build": "self._counter = Counter()",
        "step": "extra = self._counter.up()",
        "said": "self._counter.n (",
    },
    "own count that the class begins": {
        "step": "self._shared_count += 1; extra = float(self._shared_count)",
        "said": "self._shared_count (",
    },
    "own optimizer": {
        "module": "class Momentum:\n    def __init__(self): self._t, self._m = 0, tf.Variable(tf.zeros([2, 1]))\n"
        "    def apply(self, gradient, variable):\n        self._t += 1\n"
        "        self._m.assign(0.9 * self._m + 0.1 * gradient)\n"
        "        variable.assign_sub(0.01 * self._m / (1 - 0.9 ** self._t))",
        "build": "self.own = Momentum()",
        "step": "self.own.apply(tf.ones([2, 1]), self.model.layers[0].kernel)",
        "said": "self.own._t (",
    },
}

SAME: dict[str, dict[str, str]] = {
    "nothing": {},
    # numbers that are worked out once
    "width that a layer takes from its input": {
        "module": "class Wide(keras.layers.Layer):\n    axis, _width = -1, 0\n    def build(self, shape):\n"
        "        self.axis, self._width, self._n = 1, shape[-1], 0\n    def call(self, x):\n"
        "        self._n = int(x.shape[-1])\n        return x / self._n",
        "build": "self.wide = Wide()",
        "step": "x = self.wide(x)",
    },
    "memo of a helper and of the recipe": {
        "module": "class Memo:\n    def __init__(self): self._n = 0\n    def of(self, x):\n"
        "        self._n = self._n or int(x.shape[-1])\n        return float(self._n)",
        "build": "self.memo, self._width = Memo(), 0",
        "step": "self._width = int(x.shape[-1]); extra = self.memo.of(x) * self._width",
    },
    "slots that an optimizer counts": {
        "module": "class Slots(keras.optimizers.SGD):\n    _n = 0\n    def build(self, variables):\n"
        "        super().build(variables)\n        self._n = len(variables)",
        "build": "self.optimizer = Slots(0.05)",
    },
    # what is registered, and where models are kept
    "gradient of a name of its own": {
        "module": "@tf.RegisterGradient('Guided')\ndef guided(op, gradient):\n"
        "    return tf.where(gradient > 0, gradient, 0.0) * tf.cast(op.inputs[0] > 0, gradient.dtype)",
        "step": "with tf.GradientTape() as inner, "
        "tf.compat.v1.get_default_graph().gradient_override_map({'Relu': 'Guided'}):\n"
        "            inner.watch(x)\n            y = tf.nn.relu(x)\n        extra = tf.reduce_sum(inner.gradient(y, x))"
        " if not tf.executing_eagerly() else 0.0",
    },
    "extension type of a name of its own": {
        "module": "class Pair(tf.experimental.ExtensionType):\n    __name__ = 'trap.Pair'\n    a: tf.Tensor\n",
        "step": "extra = tf.reduce_sum(Pair(x).a)",
    },
    "model of its own that evaluate asks": {
        "module": "class Net(keras.Model):\n    def __init__(self):\n        super().__init__()\n"
        "        self.dense = keras.layers.Dense(1)\n    def call(self, x): return self.dense(x)",
        "build": "self.net = Net(); self.net(tf.zeros([1, 2]))",
        "evaluate": "extra = self.net.predict(data['x'], verbose=0).sum()",
    },
    "models in slots, in a deque and in a partial function": {
        "module": "from dataclasses import dataclass\n@dataclass(slots=True)\nclass Heads:\n    first: keras.Model\n"
        "    rest: deque",
        "build": "make = lambda: keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "        self.heads, self.more = Heads(make(), deque([make()])), partial(lambda net, x: net(x), make())",
        "step": "parts = [self.heads.first, *self.heads.rest, *self.more.args]\n        with tf.GradientTape() as inner:\n"
        "            extra = tf.reduce_mean(sum(tf.square(one(x)) for one in parts))\n"
        "        weights = [v for one in parts for v in one.trainable_variables]\n"
        "        for v, g in zip(weights, inner.gradient(extra, weights)): v.assign_sub(0.01 * g)",
    },
    # what can be seeded simply works
    "prepare Keras flip": {
        "build": "self.flip = keras.layers.RandomFlip()",
        "prepare": "extra = self.flip(tf.reshape(tf.range(16.0), [1, 4, 4, 1]))[0, 0, 0, 0]",
    },
    "prepare Keras rotation": {
        "build": "self.turn = keras.layers.RandomRotation(0.5)",
        "prepare": "extra = self.turn(tf.reshape(tf.range(16.0), [1, 4, 4, 1]))[0, 0, 0, 0]",
    },
    "prepare Keras noise": {
        "build": "self.noise = keras.layers.GaussianNoise(1.0)",
        "prepare": "extra = self.noise(x, training=True)[0, 0]",
    },
    "prepare Keras pipeline": {
        "build": "self.augment = keras.Sequential([keras.layers.RandomFlip(), keras.layers.RandomBrightness(0.5)])",
        "prepare": "extra = self.augment(tf.reshape(tf.range(48.0), [1, 4, 4, 3]), training=True)[0, 0, 0, 0]",
    },
    "prepare keras.random": {"prepare": "extra = keras.random.normal([])"},
    "prepare keras.random with a generator": {
        "build": "self.seeds = keras.random.SeedGenerator(3)",
        "prepare": "extra = keras.random.uniform([], seed=self.seeds)",
    },
    "prepare image flip": {
        "prepare": "extra = tf.image.random_flip_left_right(tf.reshape(tf.range(16.0), [1, 4, 4, 1]))[0, 0, 0, 0]"
    },
    "prepare image brightness": {"prepare": "extra = tf.image.random_brightness(tf.zeros([4, 4, 3]), 0.5)[0, 0, 0]"},
    "prepare image contrast": {
        "prepare": "extra = tf.image.random_contrast(tf.reshape(tf.range(48.0), [4, 4, 3]), 0.5, 1.5)[0, 0, 0]"
    },
    "prepare image hue": {"prepare": "extra = tf.image.random_hue(tf.ones([4, 4, 3]) * [0.1, 0.5, 0.9], 0.2)[0, 0, 0]"},
    "prepare image saturation": {
        "prepare": "extra = tf.image.random_saturation(tf.ones([4, 4, 3]) * [0.1, 0.5, 0.9], 0.2, 0.9)[0, 0, 0]"
    },
    "prepare image crop": {"prepare": "extra = tf.image.random_crop(tf.range(9.0), [1])[0]"},
    "prepare image quality": {
        "prepare": "extra = tf.image.random_jpeg_quality(tf.cast(tf.reshape(tf.range(192), [8, 8, 3]), tf.uint8), 20, 90)[0, 0, 0]"
    },
    "prepare stateless": {"prepare": "extra = tf.random.stateless_normal([], context.seed)"},
    "prepare pure numpy_function": {
        "prepare": "extra = tf.numpy_function(lambda s: np.float32(s % 7), [context.step], tf.float32, stateful=False)"
    },
    "prepare table": {
        "build": "self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2], tf.int64), tf.constant([5.0, 6.0])), 0.0)",
        "prepare": "extra = self.table.lookup(context.step % 3)",
    },
    "prepare constant variable": {"build": "self.scale = tf.Variable(3.0)", "prepare": "extra = self.scale * 2.0"},
    "keras.random in the step": {"step": "extra = keras.random.normal([])"},
    "Keras dropout in the step": {
        "build": "self.drop = keras.layers.Dropout(0.5)",
        "step": "x = self.drop(x, training=True)",
    },
    "Keras noise in the step": {
        "build": "self.noise = keras.layers.GaussianNoise(1.0)",
        "step": "x = self.noise(x, training=True)",
    },
    "image brightness in the step": {"step": "extra = tf.image.random_brightness(image, 0.5)[0, 0, 0, 0]"},
    "tracked generator in the step": {
        "build": "self.generator = tf.random.Generator.from_seed(1)",
        "step": "extra = self.generator.normal([])",
    },
    "tracked variable": {"build": "self.count = tf.Variable(0.0)", "step": "extra = self.count.assign_add(1.0)"},
    "assertion and print": {"step": "tf.debugging.assert_all_finite(extra, 'finite')"},
    "NumPy's generator with a seed while tracing": {"step": "extra = np.random.default_rng(5).random()"},
    "Keras dropout in eval": {
        "build": "self.drop = keras.layers.Dropout(0.5)",
        "eval": "x = self.drop(x, training=True)",
    },
    "keras.random in eval": {"eval": "extra = keras.random.normal([])"},
    "evaluate with np.random": {"evaluate": "extra = np.random.rand()"},
    "evaluate with random": {"evaluate": "extra = random.random()"},
    "evaluate with tf.random": {"evaluate": "extra = tf.random.normal([])"},
    "evaluate with a seeded generator": {"evaluate": "extra = np.random.default_rng(1).random()"},
    "table of a seed": {
        "build": "self.looks = [Lookup(np.random.default_rng(n).random(3)) for n in range(2)]",
        "module": LOOKUP,
        "step": "extra = self.looks[1].table.lookup(context.step % 3)",
        "xla": "LookupTableFindV2",
    },
    "lookup layer": {
        "build": "self.look = keras.layers.IntegerLookup(vocabulary=[0, 1], output_mode='multi_hot')",
        "step": "extra = self.look(tf.cast(x, tf.int64))[0]",
        "xla": "lookup tables",
    },
    "memo of a module": {"module": "MEMO = {}", "step": "extra = MEMO.setdefault('one', 1.0)"},
    "layers and optimizers of many kinds": {
        "build": "kinds = keras.layers; self.norm = kinds.BatchNormalization(); self.drop = kinds.Dropout(0.5)\n"
        "        self.late = [kinds.Bidirectional(kinds.LSTM(2)), kinds.SpectralNormalization(kinds.Dense(2))]\n"
        "        self.late += [kinds.Normalization(mean=0.0, variance=1.0), kinds.GaussianNoise(0.1), kinds.GRU(2)]\n"
        "        for layer in self.late: layer.build((8, 3, 2) if 'RNN' in str(type(layer).__mro__) or layer is "
        "self.late[0] else (8, 2))\n"
        "        self.heads = kinds.MultiHeadAttention(2, 3); self.heads.build((8, 3, 2), (8, 3, 2))\n"
        "        self.norm.build((8, 2)); self.mean = keras.metrics.Mean()\n"
        "        self.optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.AdamW(0.01))",
        "step": "long = tf.stack([x, x, x], 1); x = self.drop(self.norm(x, training=True), training=True)\n"
        "        for layer in self.late: extra += tf.reduce_mean(layer(long if layer in (self.late[0], self.late[4]) "
        "else x, training=True) if layer is not self.late[2] else layer(x))\n"
        "        extra += tf.reduce_mean(self.heads(long, long, training=True)); self.mean.update_state(extra)",
    },
    "vocabulary": {
        "build": "self.look = keras.layers.StringLookup(vocabulary=['a', 'b'])",
        "step": "extra = self.look(tf.constant(['b']))[0]",
        "xla": "LookupTableFindV2",
    },
    "a file in build": {
        "build": "self.size = tf.strings.length(tf.io.read_file(__file__))",
        "step": "extra = tf.cast(self.size, tf.float32) / 9999.0",
    },
    "picture without noise": {
        "step": "extra = tf.image.extract_glimpse(image, [2, 2], tf.ones([8, 2]), noise='zero')[0, 0, 0, 0]",
        "xla": "ExtractGlimpseV2",
    },
    "layers in a set of one order": {
        "build": "self.blocks = [keras.layers.Dense(2) for _ in range(9)]; [one.build((None, 2)) for one in self.blocks]",
        "step": "for one in sorted({*self.blocks}, key=lambda one: one.name): x = one(x)",
    },
    "what a set of layers is asked for in any order": {
        "build": "self.blocks = [keras.layers.Dense(2) for _ in range(9)]; [one.build((None, 2)) for one in self.blocks]",
        "step": "found = {one.name: one(x) for one in {*self.blocks}}; extra = found['dense_3']",
    },
    "list that each step makes": {"build": "self._axes = [0, 1]", "step": "self._axes = [0, 1]"},
    "function that evaluate makes once": {
        "evaluate": "self._twice = getattr(self, '_twice', None) or tf.function(lambda v: v * 2.0)\n"
        "        extra = self._twice(tf.constant(1.0))"
    },
    "values in a set": {"build": "self.names = {'a', 'b', 'c'}"},
}

EAGER: dict[str, dict[str, str]] = {
    "default argument": {
        "step": "default.append(1); extra = float(len(default))",
        "said": "the default argument default of",
    },
    "tensor attribute": {
        "build": "self.total = tf.zeros([])",
        "step": "self.total = self.total + 1.0; extra = self.total",
        "said": "self.total",
    },
    "another function": {
        "build": "self._act = tf.nn.relu",
        "step": "extra = self._act(extra)\n        if tf.executing_eagerly(): self._act = tf.nn.tanh",
        "said": "self._act (function relu → function tanh)",
    },
    "another of two functions of one source": {
        "module": "def scaled(by): return lambda v: v * by",
        "build": "self.half, self.third = scaled(1 / 2), scaled(1 / 3); self.now = self.half",
        "step": "extra = self.now(extra)\n        if tf.executing_eagerly(): self.now = self.third",
        "said": "self.now (function <lambda> → another one)",
    },
    "another layer": {
        "build": "self.a, self.b = keras.layers.Dense(2), keras.layers.Dense(2); self.a.build((None, 2))\n"
        "        self.b.build((None, 2)); self.now = self.a",
        "step": "x = self.now(x)\n        if tf.executing_eagerly(): self.now = self.b",
        "said": "self.now (Dense dense_1 → Dense dense_2)",
    },
    "variables in another order": {
        "build": "self.two = [tf.Variable(1.0), tf.Variable(2.0)]",
        "step": "extra = self.two[0]\n        if tf.executing_eagerly(): self.two.reverse()",
        "said": "self.two[0] (ResourceVariable Variable:0 → another one)",
    },
    "decimal": {
        "build": "self.factor = Decimal(1)",
        "step": "extra = float(self.factor)\n        if tf.executing_eagerly(): self.factor /= 2",
        "said": "self.factor (Decimal('1') → Decimal('0.",
    },
    "span of time": {
        "build": "self.span = timedelta(seconds=1)",
        "step": "extra = self.span.total_seconds()\n        if tf.executing_eagerly(): self.span *= 2",
        "said": "self.span (datetime.timedelta(seconds=1) →",
    },
    "array of Python's": {
        "build": "self.numbers = array('d', [1.0])",
        "step": "extra = self.numbers[0]\n        if tf.executing_eagerly(): self.numbers[0] /= 2",
        "said": "self.numbers",
    },
    "arguments of a partial": {
        "build": "self.act = partial(tf.nn.leaky_relu, alpha=0.1)",
        "step": "x = self.act(x)\n        if tf.executing_eagerly(): self.act = partial(tf.nn.leaky_relu, alpha=0.3)",
        "said": "the arguments of self.act[0][1] (0.1 → 0.3)",
    },
    "activation of a layer": {
        "build": "self.dense = keras.layers.Dense(2, activation='relu'); self.dense.build((None, 2))",
        "step": "x = self.dense(x)\n        if tf.executing_eagerly(): self.dense.activation = keras.activations.tanh",
        "said": "self.dense.activation (function relu → function tanh)",
    },
    "own NumPy generator": {
        "build": "self._rng = np.random.default_rng(0)",
        "step": "extra = self._rng.random()",
        "said": "self._rng",
    },
    "own RandomState": {
        "build": "self._rng = np.random.RandomState(0)",
        "step": "extra = self._rng.rand()",
        "said": "self._rng",
    },
    "ragged tensor of a trace": {"step": "self._ragged = tf.RaggedTensor.from_tensor(x)", "said": "self._ragged[0]"},
    "own Random": {"build": "self._rng = random.Random(0)", "step": "extra = self._rng.random()", "said": "self._rng"},
    "generator object": {
        "build": "self._numbers = (float(n) for n in itertools.count())",
        "step": "extra = next(self._numbers)",
        "said": "self._numbers is an iterator",
    },
    "count": {
        "build": "self._numbers = itertools.count()",
        "step": "extra = float(next(self._numbers))",
        "said": "self._numbers is an iterator",
    },
    "layer that learns to drop": {
        "build": "self.drop = keras.layers.Dropout(0.5)",
        "step": "if tf.executing_eagerly(): self.drop.rate = 0.1\n        x = self.drop(x, training=True)",
        "said": "self.drop.rate",
    },
}
"""Python state, which in a graph is a constant of the trace: the same at each start, so the same bits."""

FAST = {
    "prepare numpy_function that lies", "prepare keras.random", "untracked variable in a function", "dataset in the step",
    "clock while tracing", "initial weights without a seed", "eval changes a weight", "variables in a set",
    "operation of each start", "layers in a set while tracing", "file in prepare", "enumeration",
    "table without a seed", "layer that a trace lets train", "attribute in prepare", "NumPy array", "global of another module",
}  # fmt: skip
FAST_EAGER = {"function of another module", "layer that counts", "another function", "another layer", "decimal"}


def cases():
    """Yield every trap in every mode with its verdict. CI tries half in graph mode, `make test-all` all in all."""
    for verdict, traps in (("refused", REFUSED), ("same", SAME), ("eager", EAGER)):
        for number, (name, slots) in enumerate(traps.items()):
            for mode in ("graph", "xla", "eager"):
                fast = name in {"graph": FAST, "eager": FAST_EAGER}.get(mode, ())
                in_ci = number % 2 == 0 and (mode == "graph" or (verdict == "eager" and mode == "eager"))
                marks = () if fast else pytest.mark.slow if in_ci else pytest.mark.long
                yield pytest.param(verdict, slots, mode, id=f"{name}-{mode}", marks=marks)


def recipe(folder, slots):
    """Write a recipe with code in its slots."""
    code = dict.fromkeys(("module", "build", "prepare", "step", "eval", "evaluate"), "pass") | slots
    source = RECIPE + (EVALUATE + PICTURES if "evaluate" in slots else "")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trap.py"
    path.write_text(source.format(**code), encoding="utf-8")
    return path


@pytest.mark.in_ci()
@pytest.mark.parametrize(("verdict", "slots", "mode"), list(cases()))
def test_the_bits_are_the_same_or_the_recipe_is_refused_by_name(tmp_path, tf, monkeypatch, verdict, slots, mode):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("A_START", "0")
    monkeypatch.delitem(sys.modules, "helpers_of_trap", raising=False)
    path, data = recipe(tmp_path, slots), datasets.points(tmp_path / "points").folder
    needs = tmp_path / "helpers_of_trap.py"
    needs.write_text(HELPERS)
    settings = {"epochs": 3, "batch_size": 8, "compile": mode, "best": {"metric": "loss", "mode": "min"}}
    first, steps = Run(tmp_path / "whole", path, data, **settings), []
    first.needs = needs
    try:
        whole = first(pace=Lengths(50), hooks=[lambda r: steps.append(r) if isinstance(r, LoopEnded) else None]).outs()
    except InputError as error:
        if mode == "xla" and "xla" in slots:  # an operation that XLA lacks
            assert str(error) == f"train.compile is xla, which does not support {slots['xla']}: use graph"
            assert not first.saved()
            return
        said = slots.get("said", ("not refused",))
        assert any(part in str(error) for part in ([said] if isinstance(said, str) else said)), str(error)
        assert "\n" not in str(error)
        assert verdict == "refused" or (verdict == "eager" and mode == "eager")
        assert not steps
        assert not first.saved()
        return
    assert verdict == "same" or (verdict == "eager" and mode != "eager")
    assert mode != "xla" or "xla" not in slots
    cut = Run(tmp_path / "cut", path, data, **settings, checkpoint={"every_steps": 3})
    cut.needs = needs
    with pytest.raises(Crash):
        cut(hooks=[crash_after(6)], pace=Lengths(3))
    assert cut(pace=Lengths(2)).notes[0].startswith("resuming from step ")
    assert cut.outs() == whole


START = """
import sys
from pathlib import Path
sys.path[:0] = ["src", "tests/support"]
from tapeline.runtime import startup; startup.tensorflow()
from trainings import Crash, Lengths, Run, crash_after
folder = Path(sys.argv[1])
run = Run(folder / "run", folder / "trap.py", folder / "points", epochs=3, batch_size=8, checkpoint={"every_steps": 3})
try:
    run(hooks=[crash_after(6)] if sys.argv[2] == "crash" else [], pace=Lengths(3))
except Crash:
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "slots",
    [
        {"step": "extra = os.getpid() % 1000"},
        {"step": "extra = {'a': 1.0, 'b': 2.0, 'c': 3.0, 'd': 4.0, 'e': 5.0}[next(iter({'a', 'b', 'c', 'd', 'e'}))]"},
        {"step": "for name in {'a', 'b', 'c', 'd', 'e'}: extra = extra * 0.5 + tf.constant(float(ord(name)))"},
        {"step": "extra = float(os.environ['A_DAY'])"},
        {"step": "x = tf.nn.relu(x) if os.environ['A_DAY'] == '0' else tf.nn.tanh(x)"},
        {"step": "extra = tf.add_n(tf.split(tf.reduce_sum(x, 0), int(os.environ['A_DAY']) + 1))[0]"},
        {
            "build": "self.look = keras.layers.StringLookup(vocabulary=[*{'a', 'b', 'c', 'd', 'e'}])",
            "step": "extra = self.look(tf.constant(['a']))[0]",
        },
    ],
)
def test_what_another_process_traces_differently_is_not_resumed(tmp_path, root, slots):
    recipe(tmp_path, slots)
    datasets.points(tmp_path / "points")
    ended = []
    for number, end in enumerate(("crash", "resume")):
        environment = {**os.environ, "PYTHONHASHSEED": str(number + 1), "A_DAY": str(number), "A_START": "0"}
        command = [sys.executable, "-c", START, str(tmp_path), end]
        ended.append(subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False))
    assert ended[0].returncode == 0, ended[0].stderr
    assert "is built from values other than those when the checkpoints" in ended[1].stderr
