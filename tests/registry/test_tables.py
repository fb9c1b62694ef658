"""The tables of the registry, of tags without a repository."""

from test_state import ONE, tags

from tapeline.registry import tables
from tapeline.registry.tags import state


def test_signatures_are_checked_down_to_the_first_that_counts_and_of_what_is_live():
    """Of a thousand versions they took half a minute."""
    events = [f"one@v1.0.{number}" for number in range(9)]
    found, asked = state.read(tags(*events, ("one#prod#1", "v1.0.2")), ONE), []

    def why(version):
        asked.append(version.number)
        return "" if version.number < "v1.0.7" else "unsigned"

    rows = tables.versions([found], ["prod"], why)
    assert asked == ["v1.0.8", "v1.0.7", "v1.0.6", "v1.0.2"]
    assert [row["version"] for row in rows if row["notes"]] == ["v1.0.8", "v1.0.7"]
