"""The report: only of stages that are up to date in this run, and of what the verdict asked."""

import json
import re

import pytest

from tapeline.config.project import Project
from tapeline.orchestration.reports.page import markdown, wrapped
from tapeline.orchestration.reports.summary import PipelineFailed, Report, StageResult, summary
from tapeline.orchestration.request import Request
from tapeline.orchestration.stages.outcome import UNCHANGED, Outcome

RAN = StageResult(Outcome(word="ran"), 12.34)


@pytest.fixture
def report(tmp_path):
    project = Project(tmp_path, tmp_path / ".tapeline", tmp_path / ".tapeline")
    for stage, file, content in (
        ("train", "metrics.json", {"step": 9, "train": {"loss": 0.5}}),
        ("validate", "metrics.json", {"accuracy": 0.5, "loss": 0.6, "confusion": {}}),
        (
            "validate",
            "verdict.json",
            {
                "split": "test",
                "verdict": "no",
                "reason": "accuracy is 0.5, below its minimum 0.9",
                "checks": [{"metric": "accuracy", "value": 0.5, "min": 0.9, "max": None, "holds": False}],
            },
        ),
    ):
        path = project.run("tiny", stage) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return Report("tiny", project)


def test_a_missed_bound_is_marked(report):
    no = Outcome(word="verdict", message="tiny is not exported: a|b", status=1)
    report.stages |= {"train@tiny": StageResult(UNCHANGED, 0.1), "validate@tiny": RAN}
    report.stages["export@tiny"] = StageResult(no, 1.0)
    page = markdown(report)
    assert "Verdict: **no: accuracy is 0.5, below its minimum 0.9**" in page
    assert "| accuracy | 0.5 |  | ≥ 0.9 **missed** |" in page
    assert "| loss | 0.6 | 0.5 |  |" in page
    assert "- export@tiny: tiny is not exported: a\\|b" in page, "below the table, whose cells are not wrapped"
    assert "| export@tiny | verdict | 1.0 |\n" in page
    assert "Model:" not in page
    assert summary(report).splitlines() == [
        "train@tiny     unchanged",
        "validate@tiny  ran           12.3 s",
        "export@tiny    verdict        1.0 s",
        "verdict no: accuracy is 0.5, below its minimum 0.9  accuracy 0.5",
    ]
    with pytest.raises(PipelineFailed, match="not exported") as failure:
        report.check()
    assert (failure.value.stage, failure.value.status, failure.value.outcome) == ("export@tiny", 1, "verdict")


def test_nothing_that_others_named_is_markup(report):
    """A branch, a split, a metric and an override are anybody's words."""
    branch = "runs/a`<img/src=x>`$(touch-pwned)"
    verdict = report.project.run("tiny", "validate") / "verdict.json"
    content = json.loads(verdict.read_text())
    verdict.write_text(json.dumps({**content, "split": "te|st\n# <b>"}))
    report.stages["validate@tiny"] = RAN
    report.branch, report.compared = branch, {f"last run ({branch})": {"loss": 0.5}}
    page = markdown(report)
    assert f"\nBranch: `` {branch} ``\n" in page and f"\n- last run: `` {branch} ``\n" in page
    assert f"\n$ git merge '{branch}' && dvc checkout\n" in page
    assert "| metric | te\\|st \\# \\<b\\> | bound |" in page
    report.branch = None
    value = "a\n```\n<script>"
    report.request = Request.of(pipeline="tiny", isolated=True, overrides={"params.a": value, "params.`b": 1})
    block = markdown(report).partition("```console\n")[2]
    assert block.count("```") == 2 and block.endswith("\n```\n"), "one within a line, one at the end"


LONG = "top_5_accuracy_of_the_validation_split_without_augmentation"


def rows(page):
    return [line for line in page.splitlines() if line.startswith("|")]


def test_no_table_is_wider_than_the_page(report):
    named = {LONG: 1234567.891, "x" * 60: -1.2345678e-9, "loss": 0.1}
    for stage, content in (("validate", named), ("train", {"train": named, "val": named})):
        path = report.project.run("tiny", stage) / "metrics.json"
        path.write_text(json.dumps(content))
    report.stages |= {"train@tiny": RAN, "validate@tiny": RAN}
    report.stages["export@tiny"] = StageResult(Outcome(word="failed", message="x " * 99, status=1), 1.0)
    report.compared = {"last run (runs/a-branch-with-a-long-name)": named, "production (tiny#prod#17)": named}
    page = markdown(report)
    for row in rows(page):
        cells = [cell.replace("\\", "").split("<br>") for cell in row.strip("|").split("|")]
        assert len(cells) <= 5, row
        assert sum(max(len(part.strip()) for part in cell) for cell in cells) <= 75, row
    assert LONG in page.replace("<br>", "").replace("\\", ""), "broken, not cut"


def test_a_number_stays_in_one_line():
    said = "no: accuracy is 0.9123456789, below its minimum 0.95"
    assert wrapped(said) == "no: accuracy is<br>0.9123456789, below its<br>minimum 0.95"


def test_no_bound_no_column(report):
    report.stages["train@tiny"] = RAN
    assert rows(markdown(report))[-3] == "| metric | train |"


@pytest.mark.parametrize(
    "name",
    ["<img src=x onerror=alert(1)>", "a|b", "a`b", "a*b*_c_", "[x](http://y)", "```", "&lt;", "a\nb", "~~a~~", "\\"],
)
def test_a_name_is_no_markup(report, name):
    path = report.project.run("tiny", "validate") / "metrics.json"
    path.write_text(json.dumps({name: 0.5}))
    report.stages |= {
        "validate@tiny": RAN,
        "export@tiny": StageResult(Outcome(word="failed", message=f"it is {name}", status=1), 1.0),
    }
    page = markdown(report)
    [said] = [line.partition("it is ")[2] for line in page.splitlines() if line.startswith("- export@tiny")]
    [row] = [row for row in rows(page) if "| 0.5 |" in row]
    for text in (said, row.partition("|")[2].rpartition("| 0.5 |")[0].strip()):
        text = text.replace("<br>", "")
        assert re.sub(r"\\(.)", r"\1", text).replace(" ", "") == "".join(name.split())
        assert not re.search(r"(?<!\\)(\\\\)*[`*_\[\]<>|~&]", text), "each is escaped"


def test_an_override_cannot_end_the_block_of_commands(report):
    report.request = Request(pipeline="tiny", isolated=True, overrides={"params.name": "a\n```\n<b>"})
    assert markdown(report).splitlines().count("```") == 1


def test_files_of_an_earlier_run_are_not_this_one_s(report):
    report.stages["train@tiny"] = StageResult(Outcome(word="failed", message="broke", status=1), 1.0)
    assert report.figures() == []
    assert report.verdict() is None
    assert "0.5" not in markdown(report)


@pytest.mark.parametrize(
    ("stages", "headline"),
    [
        ({}, "no stages"),
        ({"a": StageResult(UNCHANGED, 0.0)}, "nothing to do"),
        ({"a": StageResult(UNCHANGED, 0.0), "b": RAN, "c": RAN}, "ran b, c"),
        ({"a": StageResult(Outcome(word="restored"), 0.0), "b": RAN}, "restored a; ran b"),
    ],
)
def test_the_headline(report, stages, headline):
    report.stages.update(stages)
    assert report.headline() == headline


ISOLATED = Request(pipeline="tiny", isolated=True, ref="v1", overrides={"dataset": "a b"}, timeouts={"train": 60.0})
AGAIN = "tapeline run --pipeline tiny --isolated --ref v1 --set 'dataset=\"a b\"' --timeout train=60"


def advice(report):
    text = markdown(report).partition("## Next steps")[2]
    return [line[2:] for line in text.splitlines() if line.startswith("$ ")]


@pytest.mark.parametrize(
    ("request_", "outcome", "branch", "commands"),
    [
        (None, Outcome(word="failed", status=1), None, ["tapeline run --pipeline tiny"]),
        (ISOLATED, Outcome(word="failed", status=1), None, [AGAIN]),
        (ISOLATED, Outcome(word="verdict", status=1), None, [AGAIN]),
        (ISOLATED, Outcome(word="ran"), None, [AGAIN]),
        (ISOLATED, Outcome(word="ran"), "runs/x", ["git diff", "dvc get", "git merge runs/x && dvc checkout"]),
        (
            None,
            Outcome(word="ran"),
            None,
            ["dvc metrics diff", "dvc plots show", "git add params.yaml dvc.lock && git"],
        ),
    ],
)
def test_how_to_go_on(report, request_, outcome, branch, commands):
    report.request, report.branch = request_, branch
    report.stages["export@tiny"] = StageResult(outcome, 1.0)
    found = advice(report)
    assert len(found) == len(commands)
    assert all(line.startswith(command) for line, command in zip(found, commands, strict=True)), found


def test_what_keeps_a_result_is_what_a_version_needs(report):
    report.stages["export@tiny"] = RAN
    (report.project.folder / "runs" / "tiny" / "environment.json").write_text("{}")
    assert advice(report)[-1] == "git add params.yaml dvc.lock runs/tiny/environment.json && git commit"
