"""Search over a pipeline's parameters: `python -m flows.sweep`, as `tapeline sweep`."""

import sys

if __name__ == "__main__":  # help and mistakes are answered before Prefect is imported, which takes seconds
    from tapeline.cli.flows.sweep import main

    sys.exit(main(program="python -m flows.sweep"))

from tapeline.orchestration.flows.sweep import sweep

__all__ = ["sweep"]
