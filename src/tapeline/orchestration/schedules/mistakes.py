"""Say what is wrong with the flows of `prefect.yaml`: `prefect deploy` says it in a traceback, or the first run does.

python -m tapeline.orchestration.schedules.mistakes
"""

import sys

from tapeline.config.project import Project
from tapeline.orchestration.schedules.deployments import FILE, read
from tapeline.orchestration.schedules.runner import served
from tapeline.runtime.errors import InputError


def main() -> int:
    """Print the first mistake, if there is one, and return the exit status."""
    checkout = Project.find().folder
    try:
        for deployment in read(checkout / FILE):
            served(deployment, checkout)
    except InputError as error:
        print(error)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
