"""``# memlint: ignore[MEM301]`` and ``# memlint: ignore-file``: what people decided to keep.

A suppression holds for findings that begin or end on its line and, on a line of its own, for those
that begin on the next line of code. Codes may be prefixes or names; without codes it holds for all
rules. Codes without brackets count too: ``# memlint: ignore MEM301``. A suppression that suppresses
nothing is reported as MEM001, since a stale one hides the next fault.

Comments are told from strings with ``tokenize``, only in files that hold the words at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from memlint.recipes.files import is_recipe_file
from memlint.rule.file_rules import UNUSED_SUPPRESSION
from memlint.rule.findings import Applicability, Finding, Fix, Level
from memlint.rule.registry import check_specifiers, matches
from memlint.source import Source, Span
from memlint.source.patterns import lazy_pattern

_COMMENT = lazy_pattern(
    r"#\s*memlint:\s*(?P<kind>ignore-file|ignore)\b"
    r"(?P<codes>\s*\[[^\]]{0,1000}\]|[ \t]*+(?:[:=][ \t]*+)?MEM\d+(?:[ \t]*+,?[ \t]*+MEM\d+)*)?",
    re.IGNORECASE,
)


@dataclass
class _Suppression:
    """One comment. ``lines``: the 0-based lines that it speaks for; empty for the whole file."""

    span: Span
    codes: tuple[str, ...]
    whole_file: bool
    lines: frozenset[int]
    used: set[str] = field(default_factory=set)

    def covers(self, code: str, first: int, last: int) -> bool:
        if not self.whole_file and first not in self.lines and last not in self.lines:
            return False
        hits = [each for each in self.codes if matches(each, code)]
        self.used.update(hits)
        if not self.codes:
            self.used.add(code)
        return bool(hits) or not self.codes


def apply(
    source: Source, findings: Sequence[Finding], selected: Iterable[str] = ()
) -> list[Finding]:
    """The findings that no comment suppresses, and MEM001 for every suppression without use.

    selected: the codes of the rules that were asked; a suppression of others is not called unused.
    MEM001 is reported only if it is among them.
    """
    if "memlint:" not in source.text:
        return list(findings)
    suppressions = list(_suppressions(source))
    kept = []
    for finding in findings:
        first = source.line(finding.span.start)
        last = source.line(max(finding.span.start, finding.span.end - 1))
        # Every comment is asked, so that of two that cover one finding both count as used.
        covering = [each for each in suppressions if each.covers(finding.code, first, last)]
        if not covering:
            kept.append(finding)
    codes = frozenset(selected)
    if UNUSED_SUPPRESSION.code in codes:
        unused = [_unused(each, codes) for each in suppressions]
        kept += [finding for finding in unused if finding is not None]
    kept.sort(key=lambda finding: (finding.span, finding.code))
    return kept


def _unused(suppression: _Suppression, selected: frozenset[str]) -> Finding | None:
    """MEM001 for what of this suppression had no effect."""
    if UNUSED_SUPPRESSION.code in suppression.codes:
        return None
    unknown, idle = [], []
    for code in suppression.codes:
        try:
            check_specifiers([code])
        except ValueError:
            unknown.append(code)
            continue
        if code not in suppression.used and any(matches(code, each) for each in selected):
            idle.append(code)
    if unknown:
        message = f"suppresses {', '.join(unknown)}, which is no rule"
    elif idle:
        message = f"suppresses {', '.join(idle)}, which is not found here"
    elif not suppression.codes and not suppression.used:
        message = "suppresses nothing: no rule finds anything here"
    else:
        return None
    whole = len(unknown) + len(idle) == len(suppression.codes)
    advice = "remove the comment" if whole else f"remove {', '.join([*unknown, *idle])} from it"
    fix = Fix(advice, applicability=Applicability.DISPLAY)
    code, name, *_ = UNUSED_SUPPRESSION
    return Finding(suppression.span, message, fix, Level.WASTE, code, name)


def _suppressions(source: Source) -> Iterator[_Suppression]:
    below = -1  # the line of code under the comments that were looked at last
    for offset, comment in _comments(source):
        for found in _COMMENT.finditer(comment):
            codes = tuple(re.findall(r"[^\s,\[\]:=]+", found["codes"] or ""))
            start = offset + len(comment[: found.start()].encode())
            span = Span(start, start + len(found[0].encode()))
            line = source.line(start)
            lines = {line}
            if source.line_text(line).lstrip().startswith("#"):
                below = below if below > line else _next_code_line(source, line)
                lines.add(below)
            whole_file = found["kind"].lower() == "ignore-file"
            yield _Suppression(span, codes, whole_file, frozenset(lines))


def _next_code_line(source: Source, line: int) -> int:
    for below in range(line + 1, len(source.line_starts)):
        text = source.line_text(below).strip()
        if text and not text.startswith("#"):
            return below
    return line


def _comments(source: Source) -> Iterator[tuple[int, str]]:
    """(byte offset, text) of every comment that speaks to memlint."""
    if is_recipe_file(source.path):
        # A mark of a YAML comment stands behind white space or begins the line.
        for found in re.finditer(rb"(?m)(?:^|(?<=[ \t]))#[^\r\n]*+", source.data):
            if b"memlint:" in found[0]:
                yield found.start(), found[0].decode("utf-8", "surrogatepass")
        return
    import io
    import tokenize

    # Lines as ``Source`` counts them; a lone carriage return ends one, which tokenize ignores.
    text = re.sub(r"\r\n|\r", "\n", source.text)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and "memlint:" in token.string:
                row, column = token.start
                before = token.line[:column].encode("utf-8", "surrogatepass")
                yield source.line_starts[row - 1] + len(before), token.string
    except (tokenize.TokenError, SyntaxError):
        return
