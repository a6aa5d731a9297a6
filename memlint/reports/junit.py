"""JUnit's XML, which Jenkins and most CI services show: a suite a file, a failed case a finding."""

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from memlint.reports import Report
from memlint.reports.readable import finding_place
from memlint.reports.style import visible


def render(report: Report) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="utf-8"?>\n<testsuites name="memlint">\n'
    for result in report.results:
        cases = [
            _failed(each.path, each.code or "error", finding_place(each), each.message)
            for each in result.told
        ]
        count = f'tests="{len(cases) or 1}" failures="{len(cases)}" errors="0" disabled="0"'
        yield f"<testsuite name={_attribute(result.path)} {count}>\n"
        yield from cases or [f'<testcase name="memlint" classname={_attribute(result.path)}/>\n']
        yield "</testsuite>\n"
    yield "</testsuites>\n"


def _failed(path: str, code: str, where: str, message: str) -> str:
    return (
        f"<testcase name={_attribute(f'{code} {where}')} classname={_attribute(path)}>"
        f"<failure message={_attribute(message)}>{escape(_clean(f'{where}: {code} {message}'))}"
        "</failure></testcase>\n"
    )


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))


def _clean(text: str) -> str:
    """Return ``text`` without what XML cannot hold."""
    return visible(text).encode("utf-8", "backslashreplace").decode("utf-8")
