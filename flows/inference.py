"""Answer files with a registered model: `python -m flows.inference`, as `tapeline infer`."""

import sys

if __name__ == "__main__":  # help and mistakes are answered before Prefect is imported, which takes seconds
    from tapeline.cli.flows.inference import main

    sys.exit(main(program="python -m flows.inference"))

from tapeline.orchestration.flows.inference import inference

__all__ = ["inference"]
