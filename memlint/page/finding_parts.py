"""The findings of a page: source lines, message, reason, price and the diff of the fix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memlint.page.escaped import KINDS, code_text, path_text, text
from memlint.reports.full import alike
from memlint.reports.readable import place, saving_words
from memlint.source.diagnostics import ReadError
from memlint.source.reading import read_source
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.run.results import FileResult, Rendered, RenderedFix

_PLACES = 8  # of one fault in a file


class Detail(NamedTuple):
    """How much of each finding is shown. around: lines before and after. diff: lines of a fix.
    width: characters of a line. findings: of a page, up to which it is so. why: whether each says
    why it matters, or links to its rule's reason."""

    around: int
    diff: int
    width: int
    findings: int
    why: bool


_DETAILS = (
    Detail(around=2, diff=60, width=240, findings=150, why=True),
    Detail(around=0, diff=12, width=160, findings=600, why=False),
    Detail(around=0, diff=5, width=120, findings=1_500, why=False),
)


def detail_for(count: int) -> Detail:
    """Return how much of each of so many findings a page has room for."""
    return next((each for each in _DETAILS if count <= each.findings), _DETAILS[-1])


def findings_of(result: FileResult, detail: Detail) -> Iterator[str]:
    """Yield the findings of a file, those that say the same together."""
    lines = _lines(result.path) if detail.around else ()
    for finding, others in alike(result.findings):
        yield "\n".join(_finding(finding, others, lines, detail))


def _finding(
    finding: Rendered, others: Sequence[Rendered], lines: Sequence[str], detail: Detail
) -> Iterator[str]:
    level, code = text(finding.level), text(finding.code)
    told = f'data-level="{level}" data-code="{code}" data-places="{1 + len(others)}"'
    yield f'<details class="finding" {told}>'
    kind = KINDS[finding.fix.applicability] if finding.fix is not None else ""
    yield (
        f'<summary><span class="level {level}">{level}</span> <b>{code}</b> '
        f"{text(finding.message)}{f' <em>{kind}</em>' if kind else ''}</summary>"
    )
    rows = [str(_row(each)) for each in others[:_PLACES]]
    more = f" and {len(others) - _PLACES} more" if len(others) > _PLACES else ""
    also = f"; also at {', '.join(rows)}{more}" if others else ""
    start = finding.start
    where = place(finding.path, start.row, start.column, start.cell)
    yield f"<p class=place><code>{path_text(where)}</code>{text(also)}</p>"
    yield from _excerpt(finding, lines, detail)
    if finding.saving is not None:
        yield f"<p><strong>{text(_sentence(saving_words(finding.saving)))}.</strong></p>"
    if finding.why and detail.why:
        yield f"<p>Why: {reason(finding)}</p>"
    elif finding.why:
        yield f'<p><a href="#{code}">Why {code} matters</a></p>'
    if finding.fix is not None:
        yield from _fix(finding.fix, detail)
    yield "</details>"


def reason(finding: Rendered) -> str:
    """Return why a finding matters, with the address to read on."""
    url = finding.url or ""
    link = f' <a href="{text(url)}">Read on</a>' if url.startswith("https://") else ""
    return f"{text(finding.why)}{link}"


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _row(finding: Rendered) -> str:
    start = finding.start
    return f"cell {start.cell}, line {start.row}" if start.cell else f"line {start.row}"


def _excerpt(finding: Rendered, lines: Sequence[str], detail: Detail) -> Iterator[str]:
    """Yield the lines of the finding with some around them, where the file still has them."""
    row = finding.start.row
    there = not finding.start.cell and 0 < row <= len(lines)
    first = row
    shown = [finding.line]
    if there and lines[row - 1].rstrip("\r") == finding.line.rstrip("\r\n"):
        first = max(row - detail.around, 1)
        last = min(max(finding.end.row, row), row + 6) + detail.around
        shown = list(lines[first - 1 : last])
    if not any(line.strip() for line in shown):
        return
    yield '<pre class="code" tabindex="0">'
    for number, line in enumerate(shown, first):
        told = f'<span class="no">{number:>5}</span> {code_text(line, detail.width)}'
        yield f"<mark>{told}</mark>" if number == row and len(shown) > 1 else told
    yield "</pre>"


def _fix(fix: RenderedFix, detail: Detail) -> Iterator[str]:
    label = "Advice" if fix.applicability == "display" else _sentence(KINDS[fix.applicability])
    needs = f" It needs <code>{text(fix.requires)}</code>." if fix.requires else ""
    yield f"<p>{label}: {text(fix.message)}.{needs}</p>"
    if not fix.diff:
        return
    yield '<pre class="diff" tabindex="0">'
    for line in fix.diff[: detail.diff]:
        kind = "gone" if line.sign == "-" else "new"
        told = f'<span class="no">{line.row:>5}</span> {line.sign} '
        yield f'<span class="{kind}">{told}{code_text(line.text, detail.width)}</span>'
    left = len(fix.diff) - detail.diff
    yield f"{left} more lines: memlint fix --diff</pre>" if left > 0 else "</pre>"


def _lines(path: str) -> Sequence[str]:
    try:
        return read_source(path).text.split("\n")
    except (ReadError, OSError):
        return ()
