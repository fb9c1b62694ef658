"""What can go wrong, as one line each: the value, the rule and the remedy.

Only these leave a stage on purpose. The command line prints the message without a traceback and
exits with `status`; the flow reads `outcome` from the outcome file and decides whether to retry.
"""

import re


def plain(text: str) -> str:
    """Return a text as one line that a terminal only shows: a line break is a space, other control characters escaped.

    What people are told names values from files and tags, which others may have written.

    >>> plain("a\\nb \\x1b[2J")
    'a b \\\\x1b[2J'
    """
    line = " ".join(text.splitlines()) if len(text.splitlines()) > 1 else text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)


_AROUND = re.compile(r"\s|Graph execution error|Detected at|Stack trace|<stack|\d+ root error|\(\d+\) ")
"""The lines around the reason when an operation of a graph fails: the node, its stack, what Python called."""


def graph_reason(text: str) -> str:
    """Return the line of a TensorFlow error's text that says what is wrong.

    >>> graph_reason("Graph execution error:\\n\\nDetected at node a\\n\\nindices[1] = 9 is not in [0, 4)\\n\\t [[a]]")
    'indices[1] = 9 is not in [0, 4)'
    """
    lines = [line for line in text.splitlines() if line.strip()]
    return next((line for line in lines if not _AROUND.match(line)), lines[0].strip() if lines else "")


class TapelineError(Exception):
    """An expected failure. `status` is the exit status, `outcome` the word in the outcome file."""

    status = 1
    outcome = "failed"

    def __str__(self) -> str:
        return plain(super().__str__())


class InputError(TapelineError):
    """What the user gave is wrong; nothing was written. Retrying without a change is pointless."""

    status = 2
    outcome = "input"


class NotRepeatable(InputError):
    """The same step, or the same start, gave two results; nothing that it computed is worth a checkpoint."""


class RunError(TapelineError):
    """The input was accepted and the run failed on the way."""


class VerdictNo(TapelineError):
    """The model was measured and missed a bound."""

    outcome = "verdict"


class LimitReached(TapelineError):
    """A limit (wall clock) ended the run; its checkpoint is kept and the next call goes on."""

    outcome = "limit"


class Interrupted(BaseException):
    """A signal ended the run. `status` is 128 + the signal's number, as a shell reports it.

    No `Exception`, so that nothing on its way takes it for a failure of its own: AutoGraph and Keras re-raise what a
    traced function raises as something else.
    """

    outcome = "interrupted"

    def __init__(self, message: str, *, signum: int) -> None:
        super().__init__(message)
        self.status = 128 + signum
