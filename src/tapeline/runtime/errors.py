"""The expected errors, with one-line messages: the value, the rule and the remedy.

A stage raises no others on purpose. The command line prints the message without a traceback and
exits with `status`; the flow reads `outcome` from the outcome file and decides whether to retry.
"""

import re
from collections.abc import Sequence


def plain(text: str) -> str:
    """Return a text as one line that is safe to print: line breaks become spaces, other control characters are escaped.

    Messages contain values from files and tags, which others may have written.

    >>> plain("a\\nb \\x1b[2J")
    'a b \\\\x1b[2J'
    """
    line = " ".join(text.splitlines()) if len(text.splitlines()) > 1 else text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)


def first_few(names: Sequence[str], most: int) -> str:
    """Return the first `most` names, and whether there are more.

    >>> first_few(["a", "b", "c"], 2)
    'a, b, ...'
    """
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def what_is(returned: object) -> str:
    """Return what a message calls an unusable return value.

    >>> what_is([1]), what_is(None)
    ('a list', 'nothing')
    """
    return "nothing" if returned is None else f"a {type(returned).__name__}"


_AROUND = re.compile(r"\s|Graph execution error|Detected at|Stack trace|<stack|\d+ root error|\(\d+\) ")
"""The lines around the reason when a graph operation fails: the node, its stack, the Python calls."""


def graph_reason(text: str) -> str:
    """Return the line of a TensorFlow error that states the cause.

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
    """Invalid input; nothing was written. Retrying without a change is pointless."""

    status = 2
    outcome = "input"


class NotRepeatable(InputError):
    """The same step, or the same start, gave two results; neither is worth a checkpoint."""


class RunError(TapelineError):
    """The input was accepted, and the run failed later."""


class VerdictNo(TapelineError):
    """The model was measured and missed a bound."""

    outcome = "verdict"


class LimitReached(TapelineError):
    """A limit (wall clock) ended the run; its checkpoint is kept and the next call resumes."""

    outcome = "limit"


class Interrupted(BaseException):
    """A signal ended the run. `status` is 128 + the signal's number, as a shell reports it.

    Not an `Exception`, so that no caller on the way handles it as a failure: AutoGraph and Keras re-raise exceptions
    of a traced function as another type.
    """

    outcome = "interrupted"

    def __init__(self, message: str, *, signum: int) -> None:
        super().__init__(message)
        self.status = 128 + signum
