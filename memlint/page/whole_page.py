"""The whole page: its summary, the table of scripts, each script's runs and findings."""

from __future__ import annotations

import os
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING

import memlint
from memlint.memory.gpus import known_gpus
from memlint.page.escaped import data_text, gib, path_text, text
from memlint.page.finding_parts import detail_for, findings_of, reason
from memlint.page.run_parts import RunPart
from memlint.page.shown_runs import ShownRun, needed, runs_of_results, wasted
from memlint.reports.readable import plural
from memlint.rule.savings import ABOVE, BELOW, MORE
from memlint.source.bounded import read_regular_text

if TYPE_CHECKING:
    from memlint.run.jobs import Job
    from memlint.run.results import FileResult

_LEVELS = ("error", "waste", "notice", "hint")
_OPEN = 3  # scripts up to which all are unfolded
_LISTED = 400  # scripts of the table
_BYTES = 900_000  # of findings


def page(results: Sequence[FileResult], jobs: Sequence[Job], target: str | None) -> Iterator[str]:
    """Yield the page of what was checked, piece by piece."""
    runs, omitted = runs_of_results(results, jobs, target)
    numbers = count()
    parts = {path: [RunPart(run, next(numbers)) for run in each] for path, each in runs.items()}
    shown = [each for each in results if each.findings or each.diagnostics or each.path in runs]
    shown.sort(key=lambda each: (-wasted(each), -sum(f.counts for f in each.findings), each.path))
    body = [*_summary(results, omitted), *_scripts(shown, runs)]
    if any(each.findings for each in shown):
        body += _filters(shown)
    yield from _framed(
        [*body, *_files(shown, parts)], [one for each in parts.values() for one in each]
    )


def page_of_runs(runs: Sequence[ShownRun]) -> Iterator[str]:
    """Yield the page of runs alone, as ``estimate`` has them."""
    parts = [RunPart(run, number) for number, run in enumerate(runs)]
    body = ['<section aria-labelledby="runs"><h2 id="runs">Runs</h2>']
    for run, part in zip(runs, parts, strict=True):
        body += [f"<h3>{path_text(run.place)}</h3>", *part.html()]
    yield from _framed([*body, "</section>"], parts)


def _framed(body: Sequence[str], parts: Sequence[RunPart]) -> Iterator[str]:
    """Yield the template with a body, and with the data of its runs.

    Only the template's own style and script may run, and nothing may be loaded.
    """
    template = read_regular_text(os.path.join(os.path.dirname(__file__), "template.html"))
    head, _, rest = template.partition("<!-- policy -->")
    before, _, rest = rest.partition("<!-- body -->")
    between, _, end = rest.partition("<!-- data -->")
    style = before.partition("<style>")[2].partition("</style>")[0]
    script = end.partition("<script>")[2].partition("</script>")[0]
    rules = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}"
    yield f'{head}<meta http-equiv="Content-Security-Policy" content="{rules}">{before}'
    yield "\n".join(body)
    gpus = {gpu.name: gpu.room for gpu in known_gpus().values()}
    data = {
        "interval": [1 - BELOW, 1 + ABOVE, MORE],
        "gpus": sorted(gpus.items(), key=lambda pair: (pair[1], pair[0])),
        "runs": [data for part in parts if (data := part.data()) is not None],
    }
    yield f"{between}{data_text(data)}{end}"


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def _summary(results: Sequence[FileResult], omitted: int) -> Iterator[str]:
    levels = Counter(finding.level for result in results for finding in result.findings)
    counts = " ".join(
        f'<li><strong>{levels[level]:,}</strong> <span class="level {level}">{level}</span></li>'
        for level in _LEVELS
    )
    priced = [result.footprint for result in results if result.footprint is not None]
    safe = sum(each.peak - each.safe for each in priced if each.safe is not None)
    every = sum(map(wasted, results))
    unread = sum(bool(result.diagnostics) for result in results)
    yield '<section aria-labelledby="summary"><h2 id="summary">Summary</h2>'
    parts = f", {unread:,} with parts that could not be read" if unread else ""
    said = f"{plural(len(results), 'file')} checked{parts}."
    if every:
        runs = plural(sum(wasted(each) > 0 for each in results), "run")
        said += f" Fixes take <strong>{gib(every)}</strong> from the peaks of {runs}"
        said += f", {gib(safe)} of that by safe fixes." if safe else "; none of that is safe."
    if omitted:
        said += f" Charts of {plural(omitted, 'script')} with smaller savings are left out."
    yield f'<ul class="counts">{counts}</ul><p>{said}</p>'
    yield f"<p class=note>memlint {text(memlint.__version__)}. Numbers are of its memory model."
    yield "</p></section>"


def _scripts(shown: Sequence[FileResult], runs: Mapping[str, Sequence[ShownRun]]) -> Iterator[str]:
    yield '<section aria-labelledby="scripts"><h2 id="scripts">Scripts by what they waste</h2>'
    if not shown:
        yield "<p>Nothing was found.</p></section>"
        return
    yield '<div class="wide" tabindex="0" role="group" aria-labelledby="scripts"><table><thead>'
    heads = ("script", "findings", "peak", "fixes save")
    cells = "".join(f'<th scope="col">{each}</th>' for each in heads)
    yield f"<tr>{cells}</tr></thead><tbody>"
    for number, result in enumerate(shown[:_LISTED]):
        run = next(iter(runs.get(result.path, ())), None)
        size = needed(result) or (run.estimate.allocated.estimate if run is not None else 0)
        peak = gib(size) if size else "–"
        saved = gib(wasted(result)) if wasted(result) else "–"
        name = path_text(result.path)
        yield f'<tr><th scope="row"><a href="#file{number}">{name}</a></th>'
        yield f"<td>{len(result.findings)}</td><td>{peak}</td><td>{saved}</td></tr>"
    yield "</tbody></table></div>"
    if len(shown) > _LISTED:
        yield f"<p>{plural(len(shown) - _LISTED, 'script')} more are below.</p>"
    yield "</section>"


def _filters(shown: Sequence[FileResult]) -> Iterator[str]:
    found = [finding for result in shown for finding in result.findings]
    levels = [level for level in _LEVELS if any(each.level == level for each in found)]
    codes = sorted({each.code for each in found})
    yield '<form class="filters" hidden><fieldset><legend>Show findings</legend>'
    for name, label, values in (("level", "Level", levels), ("code", "Rule", codes)):
        options = "".join(f"<option>{text(value)}</option>" for value in values)
        yield f'<label>{label} <select name="{name}"><option value="">all</option>{options}'
        yield "</select></label>"
    yield '<button type="button" data-fold="open">Unfold all</button>'
    yield '<button type="button" data-fold="">Fold all</button>'
    yield '<span role="status" class="shown"></span></fieldset></form>'


def _files(shown: Sequence[FileResult], parts: dict[str, list[RunPart]]) -> Iterator[str]:
    detail = detail_for(sum(len(result.findings) for result in shown))
    left = _BYTES
    yield '<section aria-labelledby="findings"><h2 id="findings">Runs and findings</h2>'
    for number, result in enumerate(shown):
        is_open = " open" if len(shown) <= _OPEN else ""
        yield f'<details class="file" id="file{number}"{is_open}>'
        count = plural(len(result.findings), "finding")
        saved = f", fixes save {gib(wasted(result))}" if wasted(result) else ""
        yield f"<summary><h3>{path_text(result.path)}</h3> <small>{count}{saved}</small></summary>"
        for error in result.diagnostics:
            where = f"line {error.row}: " if error.row else ""
            yield f'<p class="problem">{text(where + error.message)}</p>'
        for part in parts.get(result.path, ()):
            yield from part.html()
        if result.findings:
            yield "<h4>Findings</h4>"
        for piece in findings_of(result, detail):
            left -= len(piece.encode("utf-8", "backslashreplace"))
            if left < 0:
                yield "<p class=note>More findings than this page has room for: "
                yield f"<code>memlint check {path_text(result.path)}</code></p>"
                break
            yield piece
        yield "</details>"
    yield "</section>"
    if not detail.why:
        yield from _reasons(shown)


def _reasons(shown: Sequence[FileResult]) -> Iterator[str]:
    """Yield why each rule matters, once for all its findings."""
    by_code = {each.code: each for result in shown for each in result.findings if each.why}
    yield '<section aria-labelledby="rules"><h2 id="rules">Why it matters</h2>'
    for code, finding in sorted(by_code.items()):
        yield f'<h3 id="{text(code)}">{text(code)}</h3><p>{reason(finding)}</p>'
    yield "</section>"
