"""Measure a split exactly: sums and counts over every example, including the shorter last batch.

Training uses it for `val`, validate for `test`.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.dataset.columns import Dataset
from tapeline.recipe import Recipe, randomness, variables
from tapeline.recipe.autograph import convert
from tapeline.recipe.context import Measuring
from tapeline.recipe.contract import outside_training
from tapeline.recipe.metrics import means, sums_and_counts
from tapeline.runtime.errors import InputError, what_is


class Evaluation:
    """One recipe's `eval_step` over one split.

    Random draws in `eval_step` depend on the batch number, draws from the global generators in `evaluate` and
    `pictures` on the run's seed: every validation draws the same, and moves no generator of Python or NumPy.
    watch: called before `evaluate`; the function it returns is called after.
    """

    def __init__(
        self,
        recipe: Recipe,
        dataset: Dataset,
        split: str,
        *,
        batch_size: int,
        key: tf.Tensor,
        eager: bool = False,
        watch: Callable[[], Callable[[], None]] = lambda: lambda: None,
    ) -> None:
        self._recipe = recipe
        self._examples = dataset.examples(split)
        self._size = min(batch_size, self._examples)
        self._columns = dataset.columns(split)
        self._key, self._watch = key, watch
        self.names: list[str] = []
        """The metric names, in the order of the totals; known after the first call."""
        self._converted = convert(recipe.eval_step)
        self._measure: Any = self.step if eager else tf.function(self.step, autograph=False)

    @property
    def batch_size(self) -> int:
        """The number of examples of its batches; the last has fewer."""
        return self._size

    def __call__(self) -> dict[str, float]:
        """Return the exact means of the metrics over the split, and the metrics of `evaluate`."""
        totals: NDArray[np.float64] | float = 0.0
        for number, start in enumerate(range(0, self._examples, self._size)):
            batch = {name: tf.constant(column[start : start + self._size]) for name, column in self._columns.items()}
            totals = totals + self._measure(batch, tf.constant(number, tf.int64)).numpy()
        return {**means(self.names, np.asarray(totals)), **self.on_host(self._examples)}

    def on_host(self, examples: int) -> dict[str, float]:
        """Return the metrics of the recipe's `evaluate` on the first `examples` examples of the split."""
        if type(self._recipe).evaluate is Recipe.evaluate:
            return {}
        check = self._watch()
        columns = {name: column[:examples] for name, column in self._columns.items()}
        with self._seeded():
            returned: Any = self._recipe.evaluate(columns)
        if not isinstance(returned, Mapping):
            what = what_is(returned)
            raise InputError(f"evaluate returns {what}: return a dict of numbers, such as {{'distance': 0.5}}")
        measured = {name: float(value) for name, value in returned.items()}
        check()
        return measured

    def trace(self) -> Any:
        """Trace `eval_step` for a full batch, unless traced before, and return the concrete function."""
        specs = {n: tf.TensorSpec((self._size, *c.shape[1:]), c.dtype) for n, c in self._columns.items()}
        measure = tf.function(self.step, autograph=False) if self._measure == self.step else self._measure
        return measure.get_concrete_function(specs, tf.TensorSpec([], tf.int64))

    def pictures(self) -> Mapping[str, NDArray[np.uint8]]:
        """Return the recipe's pictures of the split. Raises `InputError` for what is no PNG file's name or content."""
        if type(self._recipe).pictures is Recipe.pictures:
            return {}
        with self._seeded():
            returned: Any = self._recipe.pictures(self._columns)
        if not isinstance(returned, Mapping):
            what = what_is(returned)
            raise InputError(f"pictures returns {what}: return a dict of images, such as {{'samples': pixels}}")
        for name, picture in returned.items():
            _check_picture(name, picture)
        return dict(returned)

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """Seed the global generators for the block, and give Python's and NumPy's their own states back after it.

        TensorFlow's stays seeded: no step may draw from it.
        """
        python, numpy = random.getstate(), np.random.get_state()
        keras.utils.set_random_seed(int(self._key[0]))
        try:
            with outside_training():
                yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)

    def in_graph(self) -> Callable[[], tf.Tensor]:
        """Return a graph-traceable function of the same totals, float64 of shape (metrics, 2), from columns in RAM.

        It adds the same batches in the same order. It leaves out `evaluate`, which is plain Python.
        """
        columns = {name: tf.constant(column) for name, column in self._columns.items()}
        whole, rest = divmod(self._examples, self._size)

        def one(number: tf.Tensor, size: int = self._size) -> tf.Tensor:
            batch = {}
            for name, column in columns.items():
                start = tf.concat([[number * self._size], tf.zeros([column.shape.rank - 1], tf.int64)], 0)
                batch[name] = tf.slice(column, start, [size, *column.shape[1:]])
            return self.step(batch, number)

        def totals() -> tf.Tensor:
            first = one(tf.constant(0, tf.int64))
            _, total = tf.while_loop(
                lambda number, _: number < whole,
                lambda number, total: (number + 1, total + one(number)),
                (tf.constant(1, tf.int64), first),
                parallel_iterations=1,
            )
            return total + one(tf.constant(whole, tf.int64), rest) if rest else total

        return totals

    def step(self, batch: Mapping[str, tf.Tensor], number: tf.Tensor) -> tf.Tensor:
        """Return each metric's (sum, count) for one batch."""
        step = self._recipe.eval_step if tf.executing_eagerly() else self._converted
        context = Measuring(number, self._key)
        randomness.seed_states(variables.find(self._recipe).seeds, context)
        with randomness.seeded_images(context, "eval_step"), outside_training():
            metrics = step(batch, context)
        self.names, totals = sums_and_counts(metrics, of="eval_step")
        return totals


def _check_picture(name: Any, picture: Any) -> None:
    """Raise `InputError` unless a picture has a file's name and a PNG's pixels."""
    parts = PurePosixPath(name).parts if isinstance(name, str) else ()
    if not parts or not set(parts).isdisjoint(("/", "//", "..")) or not name.isprintable():
        raise InputError(f"pictures names {name!r}: a picture's name becomes a file's, such as 'samples'")
    if not isinstance(picture, np.ndarray):
        raise InputError(f"pictures returns {what_is(picture)} for {name!r}: make it a NumPy array")
    if (
        picture.dtype not in (np.uint8, np.uint16)
        or picture.ndim != 3
        or not 1 <= picture.shape[2] <= 4
        or not picture.size
    ):
        raise InputError(
            f"pictures returns {picture.dtype} of shape {picture.shape} for {name!r}: it must be uint8 or "
            "uint16 of shape (height, width, 1 to 4)"
        )
