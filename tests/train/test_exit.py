"""A training ends when its last step is done: nothing that once worked beside it is waited for."""

from concurrent.futures import ThreadPoolExecutor

import datasets
import pytest
import recipes
from projects import write_params

from benchmarks.exits import Training

SECONDS = 12
"""Of steps. tf.data's autotuning, if it were on, would wake after 10.2 s and then after 20.5."""
TOGETHER = 3
"""It held about one of three."""
LIMIT = 8
"""Seconds that writing the outputs and ending may take; a held one took 8.5 at least."""

WAITING = (
    '    def predict(',
    '    def train_step(self, batch, context):\n'
    '        wait = lambda step: time.sleep(0.01) or tf.float32.as_numpy_dtype(0)\n'
    '        waited = tf.numpy_function(wait, [context.step], tf.float32, stateful=False)\n'
    '        metrics = super().train_step(batch, context)\n'
    '        return {**metrics, "waited": (tf.reshape(waited, []), 1.0)}\n\n'
    '    def predict(',
)  # fmt: skip
"""A step that takes 10 ms and no CPU."""


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("ends", ["natural", "stopped"])
def test_nothing_is_waited_for_after_the_last_step(tmp_path, ends):
    trainings = []
    for number in range(TOGETHER):
        folder = tmp_path / str(number)
        datasets.points(folder / "data" / "points", examples=80)
        recipes.write(folder, recipes.LINE, ("import keras,", "import time, keras,"), WAITING)
        write_params(folder, epochs=10 * SECONDS if ends == "natural" else 10**6, batch_size=8)
        trainings.append(Training(folder))
    with ThreadPoolExecutor(TOGETHER) as pool:
        taken = list(pool.map(lambda one: one.natural() if ends == "natural" else one.stopped(SECONDS), trainings))
    assert max(taken) < LIMIT, taken
