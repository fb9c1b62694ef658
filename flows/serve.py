"""Run what `prefect.yaml` says on this machine: `python -m flows.serve`, as `tapeline serve`."""

import sys

from tapeline.orchestration.serve import main

if __name__ == "__main__":
    sys.exit(main(program="python -m flows.serve"))
