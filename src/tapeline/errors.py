"""What can go wrong, as one line each: the value, the rule and the remedy.

Only these leave a stage on purpose. The command line prints the message without a traceback and
exits with `status`; the flow reads `outcome` from the outcome file and decides whether to retry.
"""


class TapelineError(Exception):
    """An expected failure. `status` is the exit status, `outcome` the word in the outcome file."""

    status = 1
    outcome = "failed"


class InputError(TapelineError):
    """What the user gave is wrong; nothing was written. Retrying without a change is pointless."""

    status = 2
    outcome = "input"


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
