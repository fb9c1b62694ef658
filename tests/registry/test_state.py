"""What tags say, without a repository: versions, what is live, where a rollback goes, the record."""

import json
from time import process_time

import pytest

from tapeline.registry import tables
from tapeline.registry.repository import Tag
from tapeline.registry.tags import record as records
from tapeline.registry.tags import state
from tapeline.registry.tags.names import Artifact

ONE = Artifact("one", "")


def tags(*events):
    """Return annotated tags, a second apart: a name, and for an assignment the commit of its version."""
    found = []
    for time, event in enumerate(events):
        name, commit, record = (*event, None, None)[:3] if isinstance(event, tuple) else (event, None, None)
        message = records.message(name, record) if record else name
        found.append(Tag(name, commit or name.partition("@")[2].rstrip("!"), time, "Ann", "ann@example.org", message))
    return found


BACK = {"action": "rollback"}
REGISTERED = ("one@v1.0.0", "one@v1.0.1", "one@v1.0.2")


@pytest.mark.parametrize(
    ("events", "live", "before"),
    [
        ([], None, None),
        ([("one#prod#1", "v1.0.0")], "v1.0.0", None),
        ([("one#prod#1", "v1.0.0"), ("one#prod#2", "v1.0.1")], "v1.0.1", "v1.0.0"),
        ([("one#prod#1", "v1.0.0"), ("one#prod#2", "v1.0.1"), ("one#prod#3", "v1.0.2")], "v1.0.2", "v1.0.1"),
        # The same version twice is one step.
        ([("one#prod#1", "v1.0.0"), ("one#prod#2", "v1.0.1"), ("one#prod#3", "v1.0.1")], "v1.0.1", "v1.0.0"),
        # Forwards to an older version is not a rollback.
        ([("one#prod#1", "v1.0.0"), ("one#prod#2", "v1.0.1"), ("one#prod#3", "v1.0.0")], "v1.0.0", "v1.0.1"),
        (
            [("one#prod#1", "v1.0.0"), ("one#prod#2", "v1.0.1"), ("one#prod#3", "v1.0.0"), ("one#prod#4", "v1.0.2")],
            "v1.0.2",
            "v1.0.0",
        ),
        # After v1, v2, v3 and back to v2, the one before is v1; then v3 again comes after v2.
        (
            [
                ("one#prod#1", "v1.0.0"),
                ("one#prod#2", "v1.0.1"),
                ("one#prod#3", "v1.0.2"),
                ("one#prod#4", "v1.0.1", BACK),
            ],
            "v1.0.1",
            "v1.0.0",
        ),
        (
            [
                ("one#prod#1", "v1.0.0"),
                ("one#prod#2", "v1.0.1"),
                ("one#prod#3", "v1.0.0", BACK),
                ("one#prod#4", "v1.0.2"),
            ],
            "v1.0.2",
            "v1.0.0",
        ),
        # Taken out again: what was live before is so again.
        ([("one#prod#1", "v1.0.0"), ("one#prod#2", "v1.0.1"), ("one#prod!#3", "v1.0.1")], "v1.0.0", "v1.0.1"),
        ([("one#prod#1", "v1.0.0"), ("one#prod!#2", "v1.0.0")], None, "v1.0.0"),
        # Another stage says nothing.
        ([("one#prod#1", "v1.0.0"), ("one#dev#2", "v1.0.1")], "v1.0.0", None),
        # A version that was taken back is live nowhere, and no rollback goes to it.
        ([("one#prod#1", "v1.0.0"), ("one#prod#2", "v1.0.1"), "one@v1.0.1!"], "v1.0.0", None),
        # An assignment on a commit without a version is none.
        ([("one#prod#1", "v1.0.0"), ("one#prod#2", "elsewhere")], "v1.0.0", None),
    ],
)
def test_what_is_live_and_what_was_so_before(events, live, before):
    found = state.read(tags(*REGISTERED, *events), ONE)
    assert (found.live("prod") and found.live("prod").version, found.before("prod")) == (live, before)


def test_an_assignment_may_come_before_its_version_in_a_list():
    found = state.read(tags(("one#prod#1", "v1.0.0"), *REGISTERED), ONE)
    assert found.live("prod").version == "v1.0.0"
    assert len(found.assignments) == 1 and list(found.versions) == ["v1.0.0", "v1.0.1", "v1.0.2"]


def test_of_two_versions_on_one_commit_the_last_is_assigned():
    both = tags(("one@v1.0.0", "c"), ("one@v1.0.1", "c"), ("one@v1.0.2", "c"), ("one#prod#1", "c"))
    assert state.read(both, ONE).live("prod").version == "v1.0.2"


def test_all_versions_of_a_commit_are_unassigned_by_a_tag_without_a_record():
    put = ("one#prod#1", "c", {"version": "v1.0.0"})
    many = tags(("one@v1.0.0", "c"), put, ("one#prod!#2", "c"), ("one@v1.0.1", "c"))
    assert state.read(many, ONE).live("prod") is None
    told = tags(("one@v1.0.0", "c"), put, ("one@v1.0.1", "c"), ("one#prod!#2", "c", {"version": "v1.0.1"}))
    assert state.read(told, ONE).live("prod").version == "v1.0.0"


def test_one_unassignment_is_one_event_of_what_was_assigned():
    """`history` said that each version of the commit was taken out, also one that never was there."""
    found = state.read(tags(("one@v1.0.0", "c"), ("one@v1.0.1", "c"), ("one#prod#1", "c"), ("one#prod!#2", "c")), ONE)
    assert [(one.version, one.back) for one in found.assignments] == [("v1.0.1", False), ("v1.0.1", True)]


def test_models_are_apart_and_versions_sorted_by_number():
    many = tags("one@v1.10.0", "one@v1.9.0", "two@v1.0.0", "inner=one@v2.0.0", "release-3", "one@v1", "one@v01.0.0")
    assert list(state.read(many, ONE).versions) == ["v1.9.0", "v1.10.0"]
    assert list(state.read(many, Artifact("one", "inner")).versions) == ["v2.0.0"]
    assert state.read_all(many).keys() == {"one", "two", "inner=one"}
    assert state.read(many, Artifact("three", "")).versions == {}


def test_stages_of_a_version_and_whether_it_was_ever_there():
    found = state.read(
        tags(*REGISTERED, ("one#dev#1", "v1.0.0"), ("one#prod#2", "v1.0.0"), ("one#dev#3", "v1.0.1")), ONE
    )
    assert (found.stages("v1.0.0"), found.stages("v1.0.1"), found.stages("v1.0.2")) == (["prod"], ["dev"], [])
    assert found.put("v1.0.0", "dev") and not found.put("v1.0.1", "prod")


def test_the_number_of_a_version_that_is_left_out_is_taken():
    found = state.read(
        tags(*REGISTERED, ("one@v1.0.3", "c", {"metrics": [1]}), ("one#prod#1", "v1.0.0", {"action": 7})), ONE
    )
    assert list(found.versions) == [name.partition("@")[2] for name in REGISTERED]
    assert found.numbers == ["v1.0.0", "v1.0.1", "v1.0.2", "v1.0.3"]
    assert [(one.tag.name, one.version) for one in found.quarantined] == [
        ("one@v1.0.3", "v1.0.3"),
        ("one#prod#1", None),
    ]
    assert found.live("prod") is None


def test_a_record_comes_back_from_a_message():
    record = {"b": [1, 2.5], "a": {"ü": None}}
    text = records.message("one v1.0.0", record)
    assert text == 'one v1.0.0\n\n{\n  "a": {\n    "ü": null\n  },\n  "b": [\n    1,\n    2.5\n  ]\n}\n'
    tag = Tag("one@v1.0.0", "c", 0, "Ann", "", text)
    assert state.read([tag], ONE).versions["v1.0.0"].record == record
    for other in ("by plain GTO", "a line\n\n[1]", "a line\n\n{"):
        assert state.read([Tag("one@v1.0.0", "c", 0, "Ann", "", other)], ONE).versions["v1.0.0"].record == {}
    with pytest.raises(ValueError):
        records.message("x", {"loss": float("nan")})
    assert json.loads(text.partition("\n")[2]) == record


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


def test_thousands_of_tags_that_put_a_version_into_a_stage_and_take_it_out():
    """Anybody may push them, and each was compared with all: ten thousand of each took minutes."""
    count = 10_000
    found = [Tag("m@v1.0.0", "a" * 40, 0, "Ana", "", "x", "b" * 40)]
    found += [Tag(f"m#prod#{n}", "a" * 40, n, "Eve", "", "x", f"{n:040x}") for n in range(1, count)]
    found += [Tag(f"m#prod!#{n}", "a" * 40, n, "Eve", "", "x", f"{n:040x}") for n in range(count, 2 * count)]
    before = process_time()
    assert state.read_all(found)["m"].standing("prod") is None
    assert process_time() - before < 10
