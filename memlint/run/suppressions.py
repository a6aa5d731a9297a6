"""``# memlint: ignore[MEM301]`` and ``# memlint: ignore-file``: what people decided to keep.

A suppression holds for findings that begin or end on its line and, on a line of its own, for those
that begin on the next line of code. Codes may be prefixes or names; without codes it holds for all
rules. Codes without brackets count too: ``# memlint: ignore MEM301``. A suppression that suppresses
nothing is reported as MEM001, since a stale one hides the next fault; so is a comment in the words
of another tool (``# memlint: disable=MEM301``), which never did.

Comments are told from strings with ``tokenize``, only in files that hold the words at all.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from memlint.recipes.files import is_recipe_file
from memlint.rule.file_rules import UNUSED_SUPPRESSION
from memlint.rule.findings import Applicability, Finding, Fix, Level
from memlint.rule.registry import check_specifiers, matches
from memlint.source import Place, Source, Span
from memlint.source.patterns import lazy_pattern

_COMMENT = lazy_pattern(
    r"#\s*memlint:\s*(?P<kind>ignore-file|ignore)\b"
    r"(?P<codes>\s*\[[^\]]{0,1000}\]"
    r"|[ \t]*+(?:[:=][ \t]*+)?MEM\d+(?:[ \t]*+(?:,[ \t]*+)?MEM\d+)*)?+"
    r"(?![\w\[({-])",
    re.IGNORECASE,
)
# What is written in its place: any word behind our name and a colon, some without the colon, and
# the comment of flake8 and ruff with a code of ours.
_OTHER = lazy_pattern(
    r"#\s*(?:memlint\s*:\s*(?P<word>[a-z][\w-]*)"
    r"|memlint\s+(?:ignore-file|ignore|disable|noqa)(?=\s*(?:\Z|[\[:=#]|MEM\d))"
    r"|noqa\s*:(?=[^#]*\bMEM\d{3}\b))[^#]*",
    re.IGNORECASE,
)
_OTHER_WORDS = frozenset(
    {
        "allow", "disable", "disable-file", "disable-line", "disable-next-line", "exclude",
        "file-ignore", "no-lint", "nolint", "noqa", "off", "skip", "skip-file", "suppress",
    }
)  # fmt: skip


_MARK = lazy_pattern(r"memlint|noqa", re.IGNORECASE)
# Findings of a file; who has more reads none of them.
_MOST_UNUSED = 500
# Characters of a comment; a longer one is data.
_LONGEST = 5_000


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
    comments = [each for each in _comments(source) if len(each[1]) <= _LONGEST]
    suppressions = list(_suppressions(source, comments))
    kept = []
    for finding in findings:
        first = source.line(finding.span.start)
        last = source.line(max(finding.span.start, finding.span.end - 1))
        if isinstance(finding.span, Place):
            first = last = -1  # a setting of another file
        # Every comment is asked, so that of two that cover one finding both count as used.
        covering = [each for each in suppressions if each.covers(finding.code, first, last)]
        if not covering:
            kept.append(finding)
    codes = frozenset(selected)
    if UNUSED_SUPPRESSION.code in codes:
        unused = (_unused(each, codes) for each in suppressions)
        kept += islice((finding for finding in unused if finding is not None), _MOST_UNUSED)
        kept += _misspelled(comments)
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
        message = f"suppresses {', '.join(unknown)}, which is no rule{_alike(unknown[0])}"
    elif idle:
        message = f"suppresses {', '.join(idle)}, which is not found here"
    elif not suppression.codes and not suppression.used:
        message = "suppresses nothing: no rule finds anything here"
    else:
        return None
    whole = len(unknown) + len(idle) == len(suppression.codes)
    advice = "remove the comment" if whole else f"remove {', '.join([*unknown, *idle])} from it"
    return _finding(suppression.span, message, advice)


def _finding(span: Span, message: str, advice: str) -> Finding:
    code, name, *_ = UNUSED_SUPPRESSION
    fix = Fix(advice, applicability=Applicability.DISPLAY)
    return Finding(span, message, fix, Level.WASTE, code, name)


def _alike(word: str) -> str:
    """``; did you mean ...`` for a word that looks like a rule's code or name; else nothing."""
    try:
        check_specifiers([word])
    except ValueError as error:
        return "".join(re.findall(r"; did you mean '[^']*'\?", str(error)))
    return ""


def _misspelled(comments: Sequence[tuple[int, str]]) -> Iterator[Finding]:
    """MEM001 for what was meant to suppress something and is not read."""
    for offset, comment in comments:
        valid = {match.start() for match in _COMMENT.finditer(comment)}
        for match in _OTHER.finditer(comment):
            if match.start() in valid or not _is_meant(match):
                continue
            text = match[0].rstrip()
            codes = re.findall(r"\bMEM\d{3}\b", text.upper())
            kind = "ignore-file" if "file" in (match["word"] or text).lower() else "ignore"
            right = f"# memlint: {kind}{'[' + ', '.join(codes) + ']' if codes else ''}"
            start = offset + len(comment[: match.start()].encode("utf-8", "surrogatepass"))
            span = Span(start, start + len(text.encode("utf-8", "surrogatepass")))
            message = f"suppresses nothing: `{right}` is what is read"
            yield _finding(span, message, f"write `{right}`")


def _is_meant(match: re.Match[str]) -> bool:
    """True if a comment that addresses us was meant to suppress something."""
    word = match["word"]
    if word is None or word.lower() in _OTHER_WORDS or word.lower().startswith("ignore"):
        return True
    import difflib

    if difflib.get_close_matches(word.lower(), ["ignore", "ignore-file"], 1, 0.75):
        return True
    # Codes alone: what follows is no sentence.
    return not re.sub(r"\bMEM\d{3}\b|[\s,]", "", match[0].partition(":")[2], flags=re.IGNORECASE)


def _suppressions(source: Source, comments: Sequence[tuple[int, str]]) -> Iterator[_Suppression]:
    below = -1  # the line of code under the comments that were looked at last
    for offset, comment in comments:
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
    """Return the next line of code below a line; where there is none, that behind the last."""
    for below in range(line + 1, len(source.line_starts)):
        text = source.line_text(below).strip()
        if text and not text.startswith("#"):
            return below
    return len(source.line_starts)


def _comments(source: Source) -> Iterator[tuple[int, str]]:
    """Yield (byte offset, text) of every comment that may speak to memlint."""
    if is_recipe_file(source.path):
        # A mark of a YAML comment stands behind white space or begins the line.
        for found in re.finditer(rb"(?m)(?:^|(?<=[ \t]))#[^\r\n]*+", source.data):
            if b"memlint" in found[0]:
                yield found.start(), found[0].decode("utf-8", "surrogatepass")
        return
    import io
    import tokenize

    # Lines as ``Source`` counts them; a lone carriage return ends one, which tokenize ignores.
    text = re.sub(r"\r\n|\r", "\n", source.text)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and _MARK.search(token.string):
                row, column = token.start
                before = token.line[:column].encode("utf-8", "surrogatepass")
                yield source.line_starts[row - 1] + len(before), token.string
    except (tokenize.TokenError, SyntaxError):
        return
