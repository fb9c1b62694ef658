"""Bring a pipeline up to date: `python -m flows.training`, as `tapeline run`."""

import sys

if __name__ == "__main__":  # help and mistakes are answered before Prefect is imported, which takes seconds
    from tapeline.cli.flows.training import main

    sys.exit(main(program="python -m flows.training"))

from tapeline.orchestration.flows.training import training

__all__ = ["training"]
