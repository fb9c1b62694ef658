"""A flow run's report as a page for Prefect's user interfaces, with pictures."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from tapeline.config.project import PARAMS
from tapeline.orchestration.reports.pictures import Picture, confusion_matrix, learning_curves, scatter
from tapeline.orchestration.reports.summary import Report, word
from tapeline.orchestration.request import Request
from tapeline.repository import described
from tapeline.repository.dvc_lock import LOCK

NAME = 24
"""Characters per line of a metric's name: Prefect clips or overflows what is wider than its page."""


def markdown(report: Report) -> str:
    """Return the report as Markdown. Its pictures are drawn from the stages' files, which must still exist."""
    return "\n".join(_page(report)) + "\n"


def escaped(text: str) -> str:
    """Return a text escaped for Markdown, in one line: nothing in it is markup, HTML or the end of a table cell."""
    return re.sub(r"([\\`*_\[\]<>|~&#!$])", r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """Return a text as code within a line. Git takes backticks and `<` in the name of a branch."""
    fence = "`" * max([0, *map(len, re.findall("`+", text))])
    return f"{fence}` {text} `{fence}" if fence else f"`{text}`"


def wrapped(name: str) -> str:
    """Return a name wrapped for a table cell, after an underscore or the like where there is one, not in a number."""
    lines = re.findall(rf".{{1,{NAME - 1}}}(?:[ _/-]|\.(?!\d)|$)|.{{1,{NAME}}}", " ".join(name.split()))
    return "<br>".join(map(escaped, lines))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int]) -> Iterator[str]:
    """Yield the lines of a Markdown table; `numbers` are the right-aligned columns."""
    yield ""
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join('---:' if column in numbers else '---' for column in range(len(head)))}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def pictures(found: Iterable[Picture]) -> Iterator[str]:
    """Yield pictures, each in its own paragraph."""
    for title, address in found:
        yield from ("", f"![{escaped(title)}]({address})")


def _page(report: Report) -> Iterator[str]:
    yield f"# {report.pipeline}"
    if verdict := report.verdict():
        yield from ("", f"Verdict: **{escaped(verdict)}**")
    if report.branch:
        yield from ("", f"Branch: {code(report.branch)}")
    if report.version:
        yield from ("", f"Version: {code(report.version)}")
    if model := report.model():
        yield from ("", f"Model: {code(model)}")
    yield from _stages(report)
    yield from _metrics(report)
    yield from _compared(report)
    yield from _pictures(report)
    yield from _next(report)


def _stages(report: Report) -> Iterator[str]:
    rows = ([name, word(result), f"{result.seconds:.1f}"] for name, result in report.stages.items())
    yield from table(["stage", "result", "seconds"], rows, numbers=[2])
    # Below the table, because cells are not wrapped.
    said = {name: result.outcome.message for name, result in report.stages.items() if result.outcome.message}
    if said:
        yield ""
        yield from (f"- {name}: {escaped(message)}" for name, message in said.items())


def _metrics(report: Report) -> Iterator[str]:
    figures = report.figures()
    if not figures:
        return
    splits = list(dict.fromkeys(split for figure in figures for split in figure.values))
    bound = ["bound"] if any(figure.bound for figure in figures) else []
    rows = []
    for figure in figures:
        values = [f"{figure.values[split]:.4g}" if split in figure.values else "" for split in splits]
        asked = [f"{figure.bound}{'' if figure.holds else ' **missed**'}" for _ in bound]
        rows.append([wrapped(figure.name), *values, *asked])
    yield from ("", "## Metrics")
    yield from table(["metric", *map(wrapped, splits), *bound], rows, numbers=range(1, len(splits) + 1))


def _compared(report: Report) -> Iterator[str]:
    """Yield the other runs' metrics in a separate table: one with all columns is wider than the page."""
    figures = report.figures()
    if not figures or not report.compared:
        return
    titles = [other.removesuffix(")").split(" (", 1) for other in report.compared]
    rows = []
    for figure in figures:
        tested = next(iter(figure.values.values()))
        others = [_against(tested, metrics.get(figure.name)) for metrics in report.compared.values()]
        rows.append([wrapped(figure.name), f"{tested:.4g}", *others])
    yield from ("", "## Compared with other runs", "")
    yield from (f"- {title}: {code(where)}" for title, where in titles)
    yield from table(["metric", "this run", *(title for title, _ in titles)], rows, numbers=range(1, len(titles) + 2))


def _against(tested: float, other: float | None) -> str:
    """Return another run's value and the tested value's difference from it."""
    return "" if other is None else f"{other:.4g} ({tested - other:+.2g})"


def _pictures(report: Report) -> Iterator[str]:
    runs = report.project
    curves = learning_curves(runs.run(report.pipeline, "train") / "history.csv") if report.current("train") else ()
    if drawn := list(pictures(curves)):
        yield from ("", "## Training", *drawn)
    if report.current("validate"):
        plots = runs.run(report.pipeline, "validate") / "plots"
        found = [*pictures(confusion_matrix(plots / "confusion.csv")), *pictures(scatter(plots / "predicted.csv"))]
        if found:
            yield from ("", "## Predictions", *found)


def _next(report: Report) -> Iterator[str]:
    request = report.request or Request(pipeline=report.pipeline)
    commands = {request.command(): "continue where this run ended"}
    if report.branch:
        branch = shlex.quote(report.branch)
        commands = {
            f"git diff HEAD {branch} -- params.yaml": "show which parameters differ",
            f"dvc get . models/{report.pipeline} --rev {branch}": "get only the model",
            f"git merge {branch} && dvc checkout": "adopt the result",
        }
    elif report.model() and not request.isolated:
        commands = {
            "dvc metrics diff": "compare with the last commit",
            "dvc plots show": "show the plots as a page",
            f"git add {' '.join(_results(report))} && git commit": "keep the result",
        }
    yield from ("", "## Next steps", "", "```console")
    for command, what in commands.items():  # each is one line, so that none ends the block
        yield from (f"# {what}", f"$ {command}")
    yield "```"


def _results(report: Report) -> list[str]:
    """Return the files whose commit keeps a result; a version's has the machine's description."""
    machine = described.path(report.pipeline)
    return [PARAMS, LOCK, *([machine] if (report.project.folder / machine).exists() else [])]
