"""What is read from DVC's exceptions."""

import pytest
from dvc.exceptions import ReproductionError
from undocumented import gone

from tapeline.repository.dvc import exceptions


def test_the_exit_status_in_the_message_of_a_failed_command():
    error = exceptions.StageCmdFailedError("exec python stage.py, exited with 7", -9)
    assert exceptions._status(error) == -9, gone("the exit status at the end of the message")


@pytest.mark.parametrize(
    ("path", "lost"), [(f"/a b/.dvc/cache/runs/b0/b0{'9' * 62}/.r7AzerVe.tmp", True), ("/a b/runs/points.tmp", False)]
)
def test_a_run_that_another_process_removed_is_no_failure(path, lost):
    error = ReproductionError("failed to reproduce 'ingest@points'")
    error.__cause__ = FileNotFoundError(2, "No such file or directory", path)
    assert exceptions.FailedStage(error).was_busy is lost
