"""The one package that uses DVC's own classes. DVC documents `dvc.api` alone, which cannot tell what is stale.

    dvc = Dvc(folder)
    with dvc.locked():
        for stage in dvc.upstream(dvc.stage(folder / "dvc.yaml", "export@digits")):
            print(stage.name, stage.is_stale())

Every name used here has a test in `tests/repository/dvc`, and `pyproject.toml` bounds DVC's version. Importing this
takes a third of a second, so callers import it where they need it. Exceptions are DVC's own:
`tapeline.repository.dvc_errors.in_one_line` turns them into one line.
"""

import atexit

from dvc.logger import colorama

# DVC has it write a reset of colours to a terminal at the end, which arrives there as text: DVC's output is not shown.
atexit.unregister(colorama.initialise.reset_all)
