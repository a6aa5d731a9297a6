"""Logging commands that Azure Pipelines shows as issues of a build."""

from collections.abc import Iterator

from memlint.reports import Report
from memlint.reports.readable import finding_place
from memlint.reports.style import visible

_ENCODED = {"%": "%AZP25", "\r": "%0D", "\n": "%0A", ";": "%3B", "]": "%5D"}


def render(report: Report) -> Iterator[str]:
    for finding in report.told:
        kind = "error" if finding.level == "error" else "warning"
        start = finding.start
        where = {"sourcepath": finding.path}
        if start.cell is None:  # a notebook's rows are a cell's, not the file's
            where |= {"linenumber": str(start.row), "columnnumber": str(start.column)}
        if finding.code:
            where["code"] = finding.code
        yield _issue(kind, where, f"{finding_place(finding)}: {finding.message}")


def _issue(kind: str, where: dict[str, str], text: str) -> str:
    values = "".join(f"{key}={_encoded(value)};" for key, value in where.items())
    return f"##vso[task.logissue type={kind};{values}]{_encoded(text)}\n"


def _encoded(text: str) -> str:
    return visible("".join(_ENCODED.get(each, each) for each in text))
