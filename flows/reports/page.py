"""A flow run's report as a page for Prefect's user interfaces, with pictures."""

from collections.abc import Iterator

from flows.reports.pictures import confusion_matrix, learning_curve
from flows.reports.report import Report, word
from flows.request import Request


def markdown(report: Report) -> str:
    """Return the report as a page. Its pictures are drawn from the stages' files, which have to be there still."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    yield f"# {report.pipeline}"
    yield ""
    if verdict := report.verdict():
        yield f"Verdict: **{_cell(verdict)}**"
        yield ""
    if report.branch:
        yield f"Branch: `{report.branch}`{f', registered as `{report.version}`' if report.version else ''}"
        yield ""
    if model := report.model():
        yield f"Model: `{model}`"
        yield ""
    yield "| stage | result | seconds | |"
    yield "|---|---|---:|---|"
    for name, result in report.stages.items():
        yield f"| {name} | {word(result)} | {result.seconds:.1f} | {_cell(result.outcome.message)} |"
    yield from _metrics(report)
    yield from _pictures(report)
    yield from _to_go_on(report)


def _metrics(report: Report) -> Iterator[str]:
    figures = report.figures()
    if not figures:
        return
    splits = list(dict.fromkeys(split for figure in figures for split in figure.values))
    others = list(report.compared)
    yield ""
    yield f"| metric | {' | '.join([*splits, *others])} | bound |"
    yield f"|---|{'---:|' * (len(splits) + len(others))}---|"
    for figure in figures:
        values = [f"{figure.values[split]:.6g}" if split in figure.values else "" for split in splits]
        tested = next(iter(figure.values.values()))
        values += [_against(tested, report.compared[other].get(figure.name)) for other in others]
        bound = f"{figure.bound}{'' if figure.holds else ' **missed**'}"
        yield f"| {figure.name} | {' | '.join(values)} | {bound} |"


def _against(tested: float, other: float | None) -> str:
    """Return another run's figure and how far the tested one is from it."""
    return "" if other is None else f"{other:.6g} ({tested - other:+.3g})"


def _pictures(report: Report) -> Iterator[str]:
    runs = report.project
    if report.current("train"):
        for title, address in learning_curve(runs.run(report.pipeline, "train") / "history.csv"):
            yield from ("", f"![{title}]({address})")
    if report.current("validate"):
        for title, address in confusion_matrix(runs.run(report.pipeline, "validate") / "plots" / "confusion.csv"):
            yield from ("", f"![{title}]({address})")


def _to_go_on(report: Report) -> Iterator[str]:
    request = report.request or Request(pipeline=report.pipeline)
    commands = {request.command(): "goes on where this one ended"}
    if report.branch:
        commands = {
            f"git diff HEAD {report.branch} -- params.yaml": "what was set otherwise",
            f"dvc get . models/{report.pipeline} --rev {report.branch}": "its model alone",
            f"git merge {report.branch} && dvc checkout": "take it over",
        }
    elif report.model() and not request.isolated:
        commands = {
            "dvc metrics diff": "against the last commit",
            "dvc plots show": "as a page",
            "git add params.yaml dvc.lock && git commit": "keep it",
        }
    width = max(map(len, commands))
    yield from ("", "To go on:", "", "```console")
    yield from (f"$ {command:{width}}  # {what}" for command, what in commands.items())
    yield "```"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
