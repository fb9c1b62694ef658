"""Bring a server with workers to `prefect.yaml`: `python -m flows.deploy`, as `tapeline deploy`."""

import sys

from tapeline.orchestration.deploy import main

if __name__ == "__main__":
    sys.exit(main(program="python -m flows.deploy"))
