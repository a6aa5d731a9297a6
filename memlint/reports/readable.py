"""What the formats for people share: places, the line of a finding, the closing summary."""

import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from memlint.reports import Report
from memlint.reports.style import LEVEL_COLOURS, Style, shown_path, visible
from memlint.rule.savings import Footprint, Saving, ends, verdict
from memlint.run.results import Rendered
from memlint.source.diagnostics import FileError

_GIB = 2**30
_FOOTPRINTS = 3  # scripts that the summary shows
# Phases of the memory model in a sentence.
_AT = {
    "load": "while loading",
    "generation": "in generation",
    "forward": "in the forward pass",
    "loss": "while the loss is computed",
    "backward": "in the backward pass",
    "optimizer step": "in the optimizer's step",
    "evaluation": "in evaluation",
}


def place(path: str, row: int | None, column: int | None, cell: int | None) -> str:
    """Write a place as ``path:row:column``, or ``path:cell:row:column`` in a notebook."""
    numbers = (str(each) for each in (cell, row, column) if each is not None)
    return ":".join([shown_path(path), *numbers])


def finding_place(finding: Rendered) -> str:
    return place(finding.path, finding.start.row, finding.start.column, finding.start.cell)


def headline(finding: Rendered, style: Style) -> str:
    """Code, whether it is safely fixable, a notice's or hint's word, message."""
    parts = [style(finding.code, "bold", LEVEL_COLOURS[finding.level])]
    if finding.fix is not None and finding.fix.applicability == "safe":
        parts.append(f"[{style('*', 'cyan')}]")
    if not finding.counts:
        parts.append(style(f"({finding.level})", "dim"))
    text = " ".join([*parts, visible(finding.message)])
    return (
        text if finding.saving is None else f"{text}; {style(saving_words(finding.saving), 'bold')}"
    )


def saving_words(saving: Saving) -> str:
    """Write a saving: ``fixing it saves 3.1-3.4 GiB while the loss is computed``."""
    where = f"{_interval(saving)} {_AT.get(saving.phase, saving.phase)}"
    text = f"fixing it saves {where}"
    if saving.at:
        return f"{text}, {saving.at}"
    return text if saving.of_peak else f"{text}; the peak is in another phase"


def _interval(saving: Saving) -> str:
    unit, size = ("MiB", 2**20) if saving.high < _GIB / 10 else ("GiB", _GIB)
    low, high = saving.low / size, saving.high / size
    digits = 0 if unit == "MiB" else 1 if high >= 1 else 2
    first, last = f"{low:.{digits}f}", f"{high:.{digits}f}"
    if first == last:
        return f"{last} {unit}"
    return f"up to {last} {unit}" if float(first) == 0 else f"{first}-{last} {unit}"


def footprint_line(path: str, footprint: Footprint) -> str:
    """Return a script's peak as it is, with its safe fixes and with all fixes."""
    # One form for the whole line: intervals where lengths or batches are assumed.
    wide = footprint.high > 1.2 * footprint.low
    peak = _size(footprint.peak, (footprint.low, footprint.high) if wide else None)
    parts = [f"{shown_path(path)}: peak {peak} {_AT.get(footprint.phase, footprint.phase)}"]
    parts[0] += fit_words(footprint, footprint.peak)
    for words, size, interval in (
        ("with safe fixes", footprint.safe, footprint.safe_range),
        ("with every fix and advice", footprint.every, footprint.every_range),
    ):
        if size is not None:
            shown = _size(size, interval if wide else None)
            parts.append(f"{shown} {words}{fit_words(footprint, size)}")
    line = "; ".join(parts) + "."
    if footprint.assumed:
        line += f" Assumed {', '.join(footprint.assumed[:4])} (`--assume {footprint.assumed[0]}`"
        line += ")." if footprint.gpu else "; `--gpu` says whether it fits)."
    elif not footprint.gpu:
        line += " `--gpu` says whether it fits."
    return line


def _size(size: int, ends: tuple[int, int] | None) -> str:
    if ends is None:
        return f"{size / _GIB:.1f} GiB"
    return f"{ends[0] / _GIB:.1f}-{ends[1] / _GIB:.1f} GiB"


def fit_words(footprint: Footprint, size: int) -> str:
    """Say whether a peak fits the GPU that is named."""
    told = verdict(*ends(size), footprint.room)
    return f" ({told} {footprint.gpu})" if footprint.gpu else ""


def footprint_lines(report: Report) -> Iterator[str]:
    """Yield a line for each script with findings whose run is known; of many, those of whose peak
    fixes save the largest share, where to begin."""
    known = [
        (result.path, result.footprint)
        for result in report.results
        if result.footprint is not None and any(each.saving for each in result.findings)
    ]
    known.sort(key=lambda pair: -_share(pair[1]))
    several = len(known) > _FOOTPRINTS
    shown = [pair for pair in known[:_FOOTPRINTS] if not several or _share(pair[1])]
    for path, footprint in shown:
        yield footprint_line(path, footprint)
    if several:
        large = sum(fit_words(each, each.peak).startswith(" (does not") for _, each in known)
        fitting = f"{large} of {len(known)} scripts do not fit {known[0][1].gpu}."
        more = f"The peaks of {plural(len(known) - len(shown), 'more script')} are known."
        yield fitting if known[0][1].gpu else more
        yield "`memlint report` shows all as a page; `memlint estimate FILE` the memory of one."


def _share(footprint: Footprint) -> float:
    """Return what share of a peak its fixes save."""
    return 1 - (footprint.every or footprint.safe or footprint.peak) / max(footprint.peak, 1)


def diagnostic_line(diagnostic: FileError, style: Style) -> str:
    where = place(diagnostic.path, diagnostic.row, diagnostic.column, diagnostic.cell)
    return f"{style('error', 'bold', 'red')}: {where}: {visible(diagnostic.message)}"


def summary(report: Report) -> Iterator[str]:
    """Yield the closing lines: how many findings there are, and which command fixes how many."""
    findings = list(report.findings)
    files = plural(len(report.results), "file")
    unread = sum(1 for _ in report.diagnostics)
    if findings:
        affected = sum(1 for result in report.results if result.findings)
        yield f"Found {_counted(findings)} in {affected} of {files}.\n"
        yield from _fixable(report)
    elif not unread:
        yield f"Nothing found in {files}.\n"
    for line in footprint_lines(report):
        yield f"{line}\n"
    if line := assumed_line(report):
        yield f"{line}\n"
    if unread:
        yield f"{plural(unread, 'problem')} kept files, or parts of them, from being checked.\n"


def _counted(findings: Sequence[Rendered]) -> str:
    """Count by level: ``3 findings, 1 notice and 2 hints``."""
    levels = Counter(finding.level for finding in findings)
    words = [plural(sum(finding.counts for finding in findings), "finding")]
    words += [plural(levels[level], level) for level in ("notice", "hint") if levels[level]]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _fixable(report: Report) -> Iterator[str]:
    """Yield how many fixes each command applies, and what the fixed code needs."""
    for findings, command in _fix_commands(report):
        fixes = [finding.fix for finding in findings if finding.fix]
        kinds = [fix.applicability for fix in fixes]
        follow = "; what follows from these is fixed with them" if "display" in kinds else ""
        safe, unsafe = kinds.count("safe"), kinds.count("unsafe")
        if safe:
            more = f", {unsafe} more with `--unsafe-fixes`" if unsafe else ""
            yield f"[*] {safe} fixable with `{command}`{more}{follow}.\n"
        elif unsafe:
            yield f"{unsafe} fixable with `{command} --unsafe-fixes`.\n"
    requirements = [finding.fix.requires for finding in report.findings
                    if finding.fix and finding.fix.requires]  # fmt: skip
    if requirements:
        count = f"{len(requirements)} of them import{'s' if len(requirements) == 1 else ''}"
        yield f"{count} memlint_runtime: `{requirements[0]}` (`--no-runtime` leaves them out).\n"


def _fix_commands(report: Report) -> Iterator[tuple[list[Rendered], str]]:
    """Findings with the command that fixes them; of assumed versions or a range, it names them."""
    known = [result for result in report.results if not result.naming]
    yield [finding for result in known for finding in result.findings], "memlint fix"
    others = [result for result in report.results if result.naming]
    naming = {result.naming for result in others if result.findings}
    target = shlex.quote(naming.pop()) if len(naming) == 1 else "VERSIONS"
    findings = [finding for result in others for finding in result.findings]
    yield findings, f"memlint fix --target {target}"


def assumed_line(report: Report) -> str:
    """Return ``Versions assumed: trl 1.16.0 ...``; empty if no version is assumed."""
    results = [result for result in report.results if result.assumed]
    versions = list(dict.fromkeys(each for result in results for each in result.assumed))
    if not versions:
        return ""
    line = f"Versions assumed: {', '.join(versions)} (`--target` names them)."
    if any(
        finding.fix is not None and finding.fix.applicability != "display"
        for result in results
        for finding in result.findings
    ):
        line += " Without it, `memlint fix` applies only what is right for every version."
    from memlint.project.environments import is_hook

    if is_hook(os.environ):
        line += " The hook's own environment is not yours, and no other was found."
    return line


def plural(count: int, noun: str, many: str = "") -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {many or f'{noun}s'}"
