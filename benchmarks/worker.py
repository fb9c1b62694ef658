"""A contender's process: requests arrive on stdin, answers are written as JSON lines.

Output of libraries goes to stderr, so that it cannot be mistaken for an answer.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path

from benchmarks.catalogue import workload
from benchmarks.inputs import read
from benchmarks.peers.engine import with_native
from benchmarks.turn import Message, Turn
from tapeline.runtime import processes


def main() -> None:
    """Train as the contender named on the command line, until stdin ends."""
    which, name, folder = sys.argv[1:]
    processes.die_with_parent(signal.SIGKILL)  # a stopped process reacts to no other signal
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def ask() -> Message:
        line = sys.stdin.readline()
        if not line:
            os._exit(0)  # Keras and the engine are in the middle of a run whose rest is not needed
        return json.loads(line)

    def tell(message: Message) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        answers.write(json.dumps({**message, "peak_mb": round(peak, 1)}) + "\n")

    contenders = with_native(workload(which)).contenders
    contender = next(contender for contender in contenders if contender.name == name)
    contender.contend(read(Path(folder)), Turn(ask, tell))


if __name__ == "__main__":
    main()
