"""Keras's own `fit` on arrays in memory, with the two settings that its documentation recommends for speed.

`steps_per_execution` runs several steps in one call of the compiled function; `jit_compile` has XLA compile it
("auto" means off on a CPU). https://keras.io/api/models/model_training_apis/

The arrays come as the dataset that `fit` makes of them, but without tf.data's autotuning: deleting an iterator waits
for its thread, and `fit` deletes one an epoch, so that one epoch takes up to twice as long as the next.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.turn import Turn
from benchmarks.workload import Arrays, Contender, Inputs

FAMILY = "Keras fit"
Build = Callable[[Arrays], tuple[Any, dict[str, Any]]]
"""Initial weights → a built model and the arguments for `compile`."""


def contenders(
    build: Build,
    *,
    inputs: tuple[str, ...] = ("image",),
    target: str | None = "label",
    executions: tuple[int, ...] = (1, 50),
    jit: tuple[bool, ...] = (False, True),
    precision: str = "float32",
) -> list[Contender]:
    """Return `fit` with every combination of the settings."""

    def make(steps: int, compiled: bool) -> Contender:
        def contend(data: Inputs, turn: Turn) -> None:
            import keras

            keras.config.set_dtype_policy(precision)
            model, arguments = build(data.weights)
            model.compile(**arguments, steps_per_execution=steps, jit_compile=compiled)
            _fit(model, data, turn, inputs, target)

        names = [f"{steps} steps an execution", "jit_compile" if compiled else "", _short(precision)]
        return Contender(family=FAMILY, setting=", ".join(name for name in names if name), contend=contend)

    return [make(steps, compiled) for steps in executions for compiled in jit]


def _short(precision: str) -> str:
    return "" if precision == "float32" else precision


def _fit(model: Any, data: Inputs, turn: Turn, inputs: tuple[str, ...], target: str | None) -> None:
    """Fit the common steps in order, then whole epochs forever.

    No batch hooks: they would make Keras read the logs of every execution.
    """
    import keras
    import tensorflow as tf
    from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

    from tapeline.runtime.untuned import untuned

    class Epochs(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            turn.done(data.examples // data.batch)

    def columns(index: Any, drawn: Arrays) -> tuple[Any, Any]:
        given = [data.columns[name][index] for name in inputs]
        given += [values.reshape(-1, *values.shape[2:]) for values in drawn.values()]
        return (given if len(given) > 1 else given[0]), (data.columns[target][index] if target else None)

    x, y = columns(data.indices.ravel(), data.drawn)
    told = model.fit(x, y, batch_size=data.batch, shuffle=False, epochs=1, verbose=0).history
    turn.learned({name: values[0] for name, values in told.items() if name.endswith("loss") and len(values)})
    whole = np.arange(data.examples // data.batch * data.batch)
    x, y = columns(whole, {})
    made = ArrayDataAdapter(x, y, batch_size=data.batch, shuffle=True).get_tf_dataset()
    counted = made.apply(tf.data.experimental.assert_cardinality(data.examples // data.batch))
    model.fit(untuned(counted), shuffle=False, epochs=1_000_000, verbose=0, callbacks=[Epochs()])
