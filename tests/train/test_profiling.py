"""Steps that are to be profiled and never run are refused, and the place of a profile is said."""

import datasets
import pytest
import recipes
from trainings import Run

from tapeline.runtime.errors import InputError
from tapeline.train.observers import profiling


def test_steps_that_this_run_does_not_do(tmp_path, tf):
    data = datasets.points(tmp_path / "points").folder
    run = Run(tmp_path / "run", recipes.write(tmp_path), data, epochs=2, batch_size=8)
    with pytest.raises(InputError, match="^--profile 8:11: the run has 10 steps, so LAST must be at most 10$"):
        run(profile=(8, 11))
    assert not run.out.exists()
    run(profile=(9, 10))
    assert any("wrote the profile of steps 9 to 10 to " in note for note in run.notes)
    with pytest.raises(
        InputError, match="^--profile 3:5: training resumes from step 4: give later steps, or add --fresh"
    ):
        profiling.check(3, 5, start=4, total=10)
