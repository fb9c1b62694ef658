"""Register, judge and promote a pipeline's model: `python -m flows.promotion`, as `tapeline promote`."""

import sys

if __name__ == "__main__":  # help and mistakes are answered before Prefect is imported, which takes seconds
    from tapeline.cli.flows.promotion import main

    sys.exit(main(program="python -m flows.promotion"))

from tapeline.orchestration.flows.promotion import promotion

__all__ = ["promotion"]
