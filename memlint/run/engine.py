"""One source against the rules: which are selected, what they find, what comments suppress.

``check_source`` is the pure heart; ``check_data`` adds what the command line needs: reading, bad
input as diagnostics, places as rows and columns, fixes as text. A rule that fails is a diagnostic
that asks for a report, and the other rules still speak.

Cost: a rule is asked only if its trigger words are in the text, and the script model is built only
if a rule is asked.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar, Unpack

from memlint.recipes.files import is_recipe_file
from memlint.rule.edits import AddDecorator, AddImport, InsertStatement, WrapStatements
from memlint.rule.findings import Applicability, Finding, Fix, Level, Violation
from memlint.rule.registry import UNUSED_SUPPRESSION
from memlint.rule.savings import Footprint, Pricing
from memlint.run.results import FileResult, Shown, ShownFix
from memlint.source.diagnostics import FileError

if TYPE_CHECKING:
    from memlint.api import Api
    from memlint.rule import Rule
    from memlint.run.command_lines import CommandSettings
    from memlint.script import Script
    from memlint.script.project import Project
    from memlint.source import Source, Span

# Characters up to which a file that does not parse is tried with libcst.
_PROBED = 1_000_000

# Characters of code that are parsed: more is generated data, and takes seconds and gigabytes.
MAX_CODE = 2 << 20

# Edits that ask nothing of a library: ``del outputs``, ``with torch.no_grad():``.
_PLAIN = (AddDecorator, AddImport, InsertStatement, WrapStatements)

Result = TypeVar("Result")
OnError = Callable[["Rule", Exception], None]


class Prefilter:
    """Tells from a file's bytes which of ``rules`` to ask; for most files, none.

    Rules share most of their trigger words: each is looked for at most once a file, and only if the
    sets before its own were found.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple((rule, rule.triggers) for rule in rules)
        self._words = {words: _shortest(words) for _, triggers in self._rules for words in triggers}

    def asked(self, data: bytes) -> list[Rule]:
        """The rules of whose trigger words ``data`` has one of each set."""
        return list(self._asked(data))

    def any_asked(self, data: bytes) -> bool:
        """Whether there is such a rule: known sooner than all of them."""
        return next(self._asked(data), None) is not None

    def _asked(self, data: bytes) -> Iterator[Rule]:
        sets: dict[frozenset[str] | tuple[str, ...], bool] = {}
        seen: dict[bytes, bool] = {}
        for rule, triggers in self._rules:
            for words in triggers:
                found = sets.get(words)
                if found is None:
                    found = False
                    for word in self._words[words]:
                        here = seen.get(word)
                        if here is None:
                            here = seen[word] = word in data
                        if here:
                            found = True
                            break
                    sets[words] = found
                if not found:
                    break
            else:
                yield rule


def _shortest(words: Iterable[str]) -> tuple[bytes, ...]:
    """``words`` without those that hold another: they can only be found where the other is."""
    found = [word.encode() for word in words]
    return tuple(w for w in found if not any(o in w and o != w for o in found))


class Options(TypedDict, total=False):
    """How a source is examined.

    unused_suppressions: whether comments that suppress nothing are reported (the default).
    prefilter: that of the rules, where it is at hand.
    by_code: the rules that the user selected by code or name; None: all. A hint of another rule is
        advice: its fix is a trade that nobody asked for. A rule on request is asked only if it is
        one of them, or where the run does not fit its GPU.
    runtime: whether fixes may import the runtime package (the default).
    project: the files around the script, where what it calls there is followed.
    launched: the text ends with what a launch command gives to the script.
    command_line: what all launch commands of the project give to it; what is found at one of these
        settings belongs to them.
    pricing: what prices are computed for; without it there are none.
    """

    unused_suppressions: bool
    prefilter: Prefilter | None
    by_code: frozenset[str] | None
    runtime: bool
    project: Project | None
    launched: bool
    command_line: CommandSettings | None
    pricing: Pricing | None


def check_source(
    source: Source,
    rules: Sequence[Rule],
    api: Api,
    *,
    on_error: OnError | None = None,
    **options: Unpack[Options],
) -> list[Violation]:
    """What ``rules`` find in ``source``, in order of place: ``examine`` without prices."""
    return examine(source, rules, api, on_error=on_error, **options).violations


def examine(
    source: Source,
    rules: Sequence[Rule],
    api: Api,
    *,
    on_error: OnError | None = None,
    **options: Unpack[Options],
) -> Examined:
    """What ``rules`` find in ``source``, in order of place, suppressed findings left out.

    Raises ``SyntaxError`` as ``ast.parse`` does, and RecursionError. on_error takes a rule that
    failed; without it the exception goes through.
    """
    by_code, pricing = options.get("by_code"), options.get("pricing")
    asked = (options.get("prefilter") or Prefilter(rules)).asked(source.data)
    chosen = [
        rule for rule in asked if not rule.on_request or by_code is None or rule.code in by_code
    ]
    waiting = [rule for rule in asked if rule not in chosen]
    may_wake = bool(waiting) and pricing is not None and bool(pricing.gpu)
    violations: list[Violation] = []
    run: Mapping[str, Any] | None = None
    if chosen or may_wake:
        script = _script(source, api, options)
        violations += _found(chosen, script, on_error)
        if pricing is not None and (violations or may_wake):
            run = _run_of(script)
            if run is not None and may_wake and _is_too_large(run, pricing):
                violations += _found(waiting, script, on_error)
        script.forget()
    violations = _settled(violations, source, rules, api, options)
    if run is None or pricing is None:
        return Examined(violations)
    return _priced(run, violations, pricing, frozenset(rule.code for rule in waiting))


def _script(source: Source, api: Api, options: Options) -> Script:
    """The model of a script, with what its project's launch commands give to it."""
    from memlint.script import build_script

    command_line, project = options.get("command_line"), options.get("project")
    launched = options.get("launched", False)
    if command_line is not None and command_line.text:
        from memlint.run.command_lines import appended

        source, launched = appended(source, command_line.text), True
    with warnings.catch_warnings():
        # Invalid escapes and the like in the user's code are not ours to report.
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        return build_script(source, api, project, launched=launched)


def _settled(
    violations: list[Violation],
    source: Source,
    rules: Sequence[Rule],
    api: Api,
    options: Options,
) -> list[Violation]:
    """What is found, as it is said: each thing once, in its place, with fixes that may be made."""
    command_line = options.get("command_line")
    if command_line is not None and command_line.text:
        from memlint.run.command_lines import in_script

        violations = in_script(violations, len(source.data))
    violations = hints_as_advice(once(violations), options.get("by_code"))
    if any(violation.fix is not None for violation in violations):
        from memlint.run.runtime_fixes import without_runtime

        wanted = options.get("runtime", True)
        violations = without_runtime(violations, api.target, wanted=wanted)
    if violations and api.target.too_old:
        violations = _of_old_targets(violations, api.target.too_old)
    if b"memlint:" in source.data:
        from memlint.run.suppressions import apply

        codes = {rule.code for rule in rules}
        if options.get("unused_suppressions", True):
            codes.add(UNUSED_SUPPRESSION)
        violations = apply(source, violations, codes)
    return violations


def _found(rules: Sequence[Rule], script: Script, on_error: OnError | None) -> list[Violation]:
    violations: list[Violation] = []
    for rule in rules:
        try:
            violations += [violation_of(rule, finding) for finding in rule.findings(script)]
        except (RecursionError, MemoryError):
            raise
        except Exception as error:
            if on_error is None:
                raise
            on_error(rule, error)
    return violations


def _is_too_large(run: Mapping[str, Any], pricing: Pricing) -> bool:
    """Whether a run does not fit the GPU that the user names."""
    from memlint.memory.prices import read_run

    if not pricing.gpu:
        return False
    try:
        read = read_run(run, pricing)
        return read is not None and not read.is_guess and read.peak() > read.room
    except (RecursionError, MemoryError):
        raise
    except Exception:
        return False


class Examined(NamedTuple):
    """What is found in a source, and what its run needs where that is known."""

    violations: list[Violation]
    footprint: Footprint | None = None


def _run_of(script: Script) -> Mapping[str, Any] | None:
    """The settings of the script's training where its model is known by name.

    A price is something more: whatever the memory model cannot read leaves findings as they are.
    """
    from memlint.memory.from_script import settings_of

    try:
        values = settings_of(script)
    except (RecursionError, MemoryError):
        raise
    except Exception:
        return None
    return values if values and values.get("model") else None


def _priced(
    run: Mapping[str, Any],
    violations: list[Violation],
    pricing: Pricing,
    uncalled: frozenset[str],
) -> Examined:
    """The findings with their savings, those that break first, then by what they save.

    uncalled: codes of rules on request that nobody selected: shown where they lower the peak.
    """
    from memlint.memory.prices import price

    try:
        priced, footprint = price(run, violations, pricing)
    except (RecursionError, MemoryError):
        raise
    except Exception:
        priced, footprint = violations, None
    priced = [
        each
        for each in priced
        if each.code not in uncalled or (each.saving is not None and each.saving.of_peak)
    ]
    if footprint is None:
        return Examined(priced)
    fits = footprint.fits is not False
    return Examined(sorted(priced, key=lambda each: _rank(each, fits)), footprint)


def _rank(violation: Violation, fits: bool) -> tuple[int, int, Span, str]:
    """Errors first, then by the peak's fall. Hints come last, unless the run does not fit."""
    saving = violation.saving
    saved = saving.high if saving is not None and saving.of_peak else 0
    if violation.level is Level.ERROR:
        group = 0
    elif saved and (violation.level is Level.WASTE or not fits):
        group = 1
    else:
        group = 2 if violation.level is Level.WASTE else 3
    return group, -saved, violation.span, violation.code


def hints_as_advice(violations: list[Violation], by_code: frozenset[str] | None) -> list[Violation]:
    """``violations`` with advice in the place of fixes of hints that the user did not choose."""
    if by_code is None:
        return violations
    return [_advice(each) if _is_advice(each, by_code) else each for each in violations]


def _is_advice(violation: Violation, by_code: frozenset[str]) -> bool:
    """Whether its fix is a trade that the user did not choose."""
    fix = violation.fix
    return (
        violation.level is Level.HINT
        and violation.code not in by_code
        and fix is not None
        and fix.applicability is not Applicability.DISPLAY
    )


def _advice(violation: Violation) -> Violation:
    assert violation.fix is not None
    return violation._replace(fix=violation.fix._replace(applicability=Applicability.DISPLAY))


def _of_old_targets(violations: list[Violation], versions: Sequence[str]) -> list[Violation]:
    """What can be said for a target with libraries that the tables do not reach.

    What is said of such a version itself is left out, and what edits write may be unknown to it:
    advice takes their place, unless they ask nothing of a library.
    """
    found = []
    for one in violations:
        if any(version in one.message for version in versions):
            continue
        if one.fix is not None and not all(isinstance(edit, _PLAIN) for edit in one.fix.edits):
            message = (
                f"{one.fix.message}, if {' and '.join(versions)} can: older than what memlint knows"
            )
            one = one._replace(fix=Fix(message, (), Applicability.DISPLAY))
        found.append(one)
    return found


def once(violations: list[Violation]) -> list[Violation]:
    """In order of place, each thing said once: calls may share a dict of options, and its keys."""
    said: dict[tuple[Span, str, str], Violation] = {}
    for violation in violations:
        key = (violation.span, violation.code, violation.message)
        if key not in said or (said[key].fix is None and violation.fix is not None):
            said[key] = violation
    return sorted(said.values(), key=lambda violation: (violation.span, violation.code))


class Checked(NamedTuple):
    """What is found in a file, before it is shown. ``source`` of None: it could not be read."""

    path: str
    source: Source | None = None
    violations: Sequence[Violation] = ()
    diagnostics: tuple[FileError, ...] = ()
    assumed: tuple[str, ...] = ()
    naming: str = ""
    relied_on: tuple[tuple[str, str], ...] = ()
    footprint: Footprint | None = None

    def result(self, rules: Iterable[Rule] = (), *, render: bool = False) -> FileResult:
        """As reports show it; ``rules``, ``render``: as for ``shown_violations``."""
        if self.source is None:
            return FileResult(self.path, diagnostics=self.diagnostics)
        shown: list[Shown] = []
        diagnostics = self.diagnostics
        try:
            shown = shown_violations(self.source, self.violations, render=render, rules=rules)
        except RecursionError:
            raise
        except Exception as error:
            diagnostics = (*diagnostics, defect(self.path, "showing what was found", error))
        return FileResult(
            self.path,
            tuple(shown),
            diagnostics,
            self.assumed,
            self.naming,
            self.relied_on,
            self.footprint,
        )


def guarded(work: Callable[[], Result], failed: Callable[[FileError], Result], path: str) -> Result:
    """What ``work`` on the file at ``path`` returns; whatever it raises costs this file alone.

    Deeply nested files are worked on again with a larger stack.
    """
    try:
        try:
            return work()
        except RecursionError:
            from memlint.run.deep import with_deep_stack

            return with_deep_stack(work)
    except (RecursionError, MemoryError):
        return failed(FileError(path, "is nested too deeply to be read"))
    except Exception as error:
        return failed(defect(path, "memlint", error))


def check_data(
    path: str,
    data: bytes | None,
    rules: Sequence[Rule],
    api: Callable[[Source], Api],
    *,
    named: bool = False,
    **options: Unpack[Options],
) -> Checked:
    """All that is found in the file at ``path`` (or in ``data``), before it is shown.

    named: the user named this file, so it is parsed even if no rule is selected by its words.
    api: the tables for a source, which may name versions itself.
    Bad input is among the diagnostics; raises RecursionError and MemoryError.
    """
    from memlint.source.diagnostics import ReadError
    from memlint.source.reading import read

    try:
        source, left_out = read(path, data)
    except ReadError as error:
        return Checked(path, diagnostics=(error.diagnostic,))
    if len(source.text) > MAX_CODE:
        return Checked(path, diagnostics=(_too_much_code(source),))
    diagnostics = list(left_out)

    def failed(rule: Rule, error: Exception) -> None:
        diagnostics.append(defect(path, f"rule {rule.code}", error))

    violations: list[Violation] = []
    footprint: Footprint | None = None
    assumed: tuple[str, ...] = ()
    naming = ""
    try:
        if named:
            _parse(source)
        tables = api(source)
        violations, footprint = examine(source, rules, tables, on_error=failed, **options)
        assumed, naming = _assumed(source, violations, tables)
    except SyntaxError as error:
        diagnostics.append(syntax_diagnostic(source, error))
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        diagnostics.append(defect(path, "the script model", error))
    around = (options.get("project"), options.get("command_line"))
    relied_on = tuple(pair for each in around if each is not None for pair in each.digests())
    return Checked(
        path, source, violations, tuple(diagnostics), assumed, naming, relied_on, footprint
    )


def _assumed(
    source: Source, violations: Sequence[Violation], api: Api
) -> tuple[tuple[str, ...], str]:
    """Which versions that matter to ``source`` are assumed, and how they are named."""
    from memlint.run.runtime_fixes import libraries_of

    libraries = libraries_of(source, violations)
    assumed = api.target.assumed_of(libraries)
    return assumed, api.target.naming(libraries) if assumed else ""


def shown_violations(
    source: Source,
    violations: Sequence[Violation],
    *,
    render: bool = False,
    rules: Iterable[Rule] = (),
) -> list[Shown]:
    """The violations with places as rows and columns, and fixes as text if ``render``.

    rules: those that found them, for their reasons and links.
    """
    known = {rule.code: rule for rule in rules}
    words = {code: _reason(code, known) for code in {each.code for each in violations}}
    fixes: Sequence[ShownFix | None]
    # Recipes are read quickly, and some of their keys cannot be changed where they stand.
    render = render or is_recipe_file(source.path)
    if render and any(violation.fix and violation.fix.edits for violation in violations):
        from memlint.run.preview import preview

        fixes = preview(source, [violation.fix for violation in violations])
    else:
        fixes = [_unrendered(violation.fix) for violation in violations]
    fixes = [
        _with_requirement(fix, violation.fix)
        for fix, violation in zip(fixes, violations, strict=True)
    ]
    return [
        Shown(
            source.path,
            violation.code,
            violation.name,
            violation.level.value,
            violation.message,
            source.location(violation.span.start),
            source.location(violation.span.end),
            source.line_text(source.line(violation.span.start)),
            fix,
            *words[violation.code],
            violation.saving,
        )
        for violation, fix in zip(violations, fixes, strict=True)
    ]


def _reason(code: str, rules: Mapping[str, Rule]) -> tuple[str, str | None]:
    """A sentence why, and where to read on."""
    if code == UNUSED_SUPPRESSION:
        from memlint.rule.registry import UNUSED_WHY

        return first_sentence(UNUSED_WHY), None
    if code not in rules:
        return "", None
    rule = rules[code]
    url = next((each for each in rule.references if each.startswith("https://")), None)
    return first_sentence(rule.why), url


def first_sentence(text: str) -> str:
    """The first sentence of ``text``, on one line."""
    line = " ".join(text.split())
    end = re.search(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)\s+(?=[A-Z`\"'(])", line)
    return line[: end.start()] if end else line


def syntax_diagnostic(source: Source, error: SyntaxError) -> FileError:
    """Where and why ``source`` does not parse: broken, or newer than this interpreter."""
    message = error.msg or "invalid syntax"
    lines = len(source.line_starts)
    row = min(max(error.lineno or 1, 1), lines)
    column = max(error.offset or 1, 1)
    cell = source.cell_at(source.line_starts[row - 1])
    if cell is not None:
        row -= source.line(cell.span.start)
    if _is_newer_syntax(source.text):
        import platform

        message = (
            f"uses syntax newer than Python {platform.python_version()}, which runs memlint "
            f"({message}); run memlint with the Python that the script is for (in pre-commit: "
            "`language_version`)"
        )
    else:
        message = f"does not parse: {message}"
    return FileError(source.path, message, row, column, cell.number if cell else None)


def _parse(source: Source) -> None:
    import ast

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ast.parse(source.text)


def _is_newer_syntax(text: str) -> bool:
    """Whether libcst, whose grammar is not the interpreter's, reads what ``ast`` did not.

    Its native parser overflows the stack on nesting some thousands deep, which kills the process:
    what is nested so is broken by any grammar and not tried.
    """
    if len(text) > _PROBED or _deepest(text) > 200 or max(map(len, text.split("\n"))) > 2000:
        return False
    import libcst

    try:
        libcst.parse_module(text)
    except Exception:  # its own errors, the recursion limit, whatever its native parser raises
        return False
    return True


def _deepest(text: str) -> int:
    """The most brackets open at once, strings and comments not told apart."""
    depth = deepest = 0
    for bracket in re.findall(r"[()\[\]{}]", text):
        depth = depth + 1 if bracket in "([{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def violation_of(rule: Rule, finding: Finding) -> Violation:
    level = finding.level or rule.level
    return Violation(rule.code, rule.name, level, finding.span, finding.message, finding.fix)


def _unrendered(fix: Fix | None) -> ShownFix | None:
    if fix is None:
        return None
    applicability = fix.applicability if fix.edits else Applicability.DISPLAY
    return ShownFix(fix.message, applicability.value)


def _too_much_code(source: Source) -> FileError:
    message = (
        f"holds {len(source.text) / 2**20:.0f} MiB of code, more than the {MAX_CODE >> 20} MiB "
        "that are parsed; exclude it in the configuration"
    )
    return FileError(source.path, message)


def _with_requirement(shown: ShownFix | None, fix: Fix | None) -> ShownFix | None:
    if shown is None or shown.applicability == Applicability.DISPLAY:
        return shown
    from memlint.run.runtime_fixes import requires

    return shown._replace(requires=requires(fix))


def defect(path: str, what: str, error: Exception) -> FileError:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return FileError(
        path,
        f"{what} failed ({type(error).__name__}: {error}{place}); the rest was checked. "
        "This is a defect of memlint: please report it with the script",
    )
