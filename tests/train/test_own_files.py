"""A recipe that reads a file of its repository: refused unless DVC compares it, wherever the file is read."""

import subprocess

import datasets
import pytest
import recipes
from trainings import Run

from tapeline.runtime.errors import InputError

BUILD, STEP = "    def build(self):\n", "    def loss(self, batch, *, training):\n"
READ = "import pathlib; FACTOR = float((pathlib.Path(__file__).parents[1] / 'words' / 'factor.txt').read_text())"


@pytest.fixture
def training(tmp_path, tf):
    """Return a function: edits of a line's recipe → a training in a repository with a file `words/factor.txt`."""
    top = tmp_path / "project"
    (top / "recipes").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=top, check=True)
    (top / "words").mkdir()
    (top / "words" / "factor.txt").write_text("2")
    data = datasets.points(top / "data" / "points").folder

    def call(*edits, needs=None):
        recipe = recipes.write(top / "recipes", recipes.LINE, *edits)
        run = Run(top / "run", recipe, data, epochs=1, batch_size=8)
        run.expect = lambda found: None
        run.needs = top / needs if needs else None
        return run

    return call


@pytest.mark.parametrize(
    "edit",
    [
        ('"""A line."""\n', f'"""A line."""\n{READ}\n'),
        (BUILD, f"{BUILD}        {READ}\n"),
        (STEP, f"{STEP}        {READ}\n"),
        ("    def predict(self, inputs):\n", f"    def predict(self, inputs):\n        {READ}\n"),
    ],
    ids=["at import", "in build", "in the step", "in predict"],
)
def test_a_file_that_is_not_compared_is_refused_wherever_it_is_read(training, edit):
    with pytest.raises(InputError, match=r"recipe.py reads .*words/factor.txt, whose .* see: set `needs: .*factor.txt"):
        training(edit)()
    for needs in ("words", "words/factor.txt"):
        assert training(edit, needs=needs)().out.is_dir()
