"""DVC's errors as one line."""

import pytest

from tapeline.repository.dvc_errors import error_line

MISSING = (
    "ERROR: failed to pull data from the cloud - Checkout failed for following targets:\na\nIs your cache up to date?"
)


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", "it failed and printed nothing"),
        ("\n", "it failed and printed nothing"),
        ("no error of DVC's", "no error of DVC's"),
        (
            f"WARNING: some are lost\n{MISSING}\n<https://error.dvc.org/missing-files>\n",
            "failed to pull data from the cloud - Checkout failed for following targets: a",
        ),
        (
            "ERROR: unexpected error - no such bucket\n\nHaving any troubles? Hit us up at https://dvc.org/support\n",
            "unexpected error - no such bucket",
        ),
    ],
)
def test_what_dvc_says_is_one_line_without_its_advice(output, line):
    assert error_line(output) == line
