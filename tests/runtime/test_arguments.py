"""A mistyped command or option is one line, which names the nearest."""

import pytest

from tapeline.cli import main
from tapeline.cli.flows import training


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trian"], "tapeline: COMMAND is 'trian'; did you mean 'train'? (`tapeline --help` says more)"),
        (["train", "digits", "--frsh"], "tapeline train: unrecognized arguments: --frsh; did you mean '--fresh'? ("),
        (["lock", "--chekc=1"], "tapeline lock: unrecognized arguments: --chekc=1; did you mean '--check'? ("),
        (["registry", "promot"], "tapeline registry: COMMAND is 'promot'; did you mean 'promote'? ("),
        (
            ["registry", "audit", "x"],
            "tapeline registry audit: unrecognized arguments: x (`tapeline registry audit --help`",
        ),
        (["new", "zz"], "tapeline new: WHAT is 'zz'; there are: recipe ("),
        (["new", "it's"], 'tapeline new: WHAT is "it\'s"; there are: recipe ('),
        (["train"], "tapeline train: the following arguments are required: NAME ("),
    ],
)
def test_one_line_with_the_nearest_name(arguments, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        main.main(arguments)
    line = capsys.readouterr().err
    assert line.startswith(said)
    assert line.count("\n") == 1


def test_so_does_a_flow(capsys):
    with pytest.raises(SystemExit, match="2"):
        training.main(["--pipline", "digits"])
    said = "tapeline run: unrecognized arguments: --pipline digits; did you mean '--pipeline'? ("
    assert capsys.readouterr().err.startswith(said)
