"""One source against the rules: which are asked, what they find, what comments suppress.

A rule is asked only if its trigger words are in the text, and the script model is built only if a
rule is asked. ``check_source`` is pure; ``memlint.run.checked`` adds reading and diagnostics.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from memlint.rule.file_rules import UNUSED_SUPPRESSION
from memlint.rule.findings import Finding
from memlint.rule.savings import Footprint, Pricing
from memlint.run.advice import (
    hints_as_advice,
    of_old_targets,
    with_advice_on_shared_lines,
    without_runtime,
)
from memlint.run.pricing import ScriptRuns, is_too_large, priced_by_run, runs_of_script
from memlint.source.parsing import parse_python
from memlint.source.patterns import lazy_pattern
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.api.lookup import Api
    from memlint.engine.nodes import Module
    from memlint.engine.project import Project
    from memlint.rule import Rule
    from memlint.run.command_lines import CommandSettings
    from memlint.script.model import Script
    from memlint.source import Source, Span

# What a loop around a model of torchtune's has: a builder's name (``llama3_8b``) among it.
_TORCHTUNE = (b"torchtune", b"backward")
_BUILDER = rb"_(?:\d+b|mini)"


class Prefilter:
    """Tells from a file's bytes which of ``rules`` to ask; for most files, none.

    Rules share most of their trigger words: each is looked for at most once a file, and only if the
    sets before its own were found, and of ``from trl`` the last word is there.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple((rule, rule.triggers) for rule in rules)
        different = {words for _, triggers in self._rules for words in triggers}
        self._words = {words: _shortest(words) for words in different}

    def asked(self, data: bytes) -> Iterator[Rule]:
        """Yield the rules of whose trigger words ``data`` has one of each set."""
        sets: dict[frozenset[str] | tuple[str, ...], bool] = {}
        seen: dict[bytes, bool] = {}
        own: bool | None = None

        def has(word: bytes) -> bool:
            there = seen.get(word)
            if there is None:
                last = word.rpartition(b" ")[2]
                there = seen[word] = (last == word or not last or has(last)) and word in data
            return there

        for rule, triggers in self._rules:
            for words in triggers:
                found = sets.get(words)
                if found is None:
                    found = sets[words] = any(map(has, self._words[words]))
                if not found:
                    break
            else:
                yield rule
                continue
            if own is None:
                own = may_train_torchtune(data)
            if own and rule.is_of_run:
                yield rule


def may_train_torchtune(data: bytes) -> bool:
    """True if a script may build a model with torchtune and train it in a loop of its own: what
    torchtune's own classes can do wrong has triggers of its own."""
    if not all(word in data for word in _TORCHTUNE):
        return False
    import re

    return re.search(_BUILDER, data) is not None


@lru_cache(maxsize=512)
def _shortest(words: frozenset[str] | tuple[str, ...]) -> tuple[bytes, ...]:
    """``words`` without those that hold another: they can only be found where the other is."""
    found = [word.encode() for word in words]
    return tuple(w for w in found if not any(o in w and o != w for o in found))


# Of a rule in a file. Who has more reads none of them, and each takes a millisecond.
MOST_FINDINGS = 500
# A comment that may speak to us.
_MARK = lazy_pattern(rb"memlint:|#\s*memlint\s|noqa\s*:[^\n#]{0,500}\bMEM\d{3}\b")

Subject = TypeVar("Subject")
Result = TypeVar("Result")
OnError = Callable[["Rule", Exception], None]


class Asked(NamedTuple):
    """Rules, and how they are asked.

    api: the tables of the versions.
    by_code: the rules that the user selected by code or name; None: all. A hint of another rule is
        advice: its fix is a trade that nobody asked for. A rule on request is asked only if it is
        one of them, or where the run does not fit its GPU.
    on_error: takes a rule that failed; without it the exception goes through.
    prefilter: that of the rules, where it is at hand.
    in_tests: the rules that speak of functions that are tests; None: all.
    runtime: whether fixes may import the runtime package.
    unused_suppressions: whether comments that suppress nothing are reported.
    pricing: what prices are computed for; without it there are none.
    to_fit: whether what only helps to fit a GPU is told of runs that may fit, too.
    """

    rules: Sequence[Rule]
    api: Api
    by_code: frozenset[str] | None = None
    on_error: OnError | None = None
    prefilter: Prefilter | None = None
    in_tests: frozenset[str] | None = None
    runtime: bool = True
    unused_suppressions: bool = True
    pricing: Pricing | None = None
    to_fit: bool = False

    def is_waiting(self, rule: Rule) -> bool:
        """True if it is a rule on request that the user did not select by code or name."""
        return rule.on_request and self.by_code is not None and rule.code not in self.by_code

    @property
    def requested(self) -> list[Rule]:
        """The rules without those on request that nobody selected."""
        return [rule for rule in self.rules if not self.is_waiting(rule)]


def check_source(
    source: Source, rules: Sequence[Rule], api: Api, project: Project | None = None, **how: Any
) -> list[Finding]:
    """What ``rules`` find in ``source``, in order of place. how: as ``Asked`` has it."""
    return examine(source, Asked(rules, api, **how), project).findings


def examine(
    source: Source,
    asked: Asked,
    project: Project | None = None,
    command_line: CommandSettings | None = None,
) -> Examined:
    """What is found in ``source``, in order of place, suppressed findings left out.

    project: the files around the script, where what it calls there is followed. command_line: what
    all launch commands of the project give to it; what is found at one of these settings belongs to
    them. Raises ``SyntaxError`` as ``ast.parse`` does, and RecursionError.
    """
    pricing = asked.pricing
    # Rules on request also run where the run does not fit the GPU that the user names.
    wakes = pricing is not None and bool(pricing.gpu)
    selected = _selected(source, asked, wakes=wakes)
    findings: list[Finding] = []
    runs: ScriptRuns | None = None
    waiting = [rule for rule in selected if asked.is_waiting(rule)]
    chosen = [rule for rule in selected if rule not in waiting]
    woken = waiting if wakes else []
    if chosen or woken:
        script = script_of(source, asked.api, project, command_line)
        findings, runs = _found_in_run(script, chosen, woken, asked)
        findings = _without_tests(script, findings, asked.in_tests)
        if project is not None and any(one.fix for one in findings):
            from memlint.run.other_callers import right_for_all

            def again(other: Project, codes: Iterable[str]) -> tuple[Script, list[Finding]]:
                some = [rule for rule in chosen if rule.code in codes]
                led = script_of(source, asked.api, other, command_line)
                return led, _found(some, led, asked.on_error)

            findings = right_for_all(findings, script, project, again)
        script.forget()
    if command_line is not None:
        from memlint.run.command_lines import in_script

        findings = in_script(findings)
    findings = _fitting(findings, source, asked)
    findings = unsuppressed(source, findings, asked.rules, asked.unused_suppressions)
    if runs is None or pricing is None:
        return Examined(findings)
    return Examined(*priced_by_run(runs, findings, pricing, waiting))


def _selected(source: Source, asked: Asked, *, wakes: bool) -> list[Rule]:
    """The rules that may say something of a script, by the words of its code and its first imports.
    wakes: those on request are asked by themselves, too."""
    prefilter = asked.prefilter or Prefilter(asked.rules)
    if not any(wakes or not asked.is_waiting(rule) for rule in prefilter.asked(source.data)):
        return []
    from memlint.engine.tree import code_of

    tree = parse_python(source.text)
    speaking = prefilter.asked(code_of(source, tree))
    return _speaking(speaking, tree, may_train_torchtune(source.data))


def _without_tests(
    script: Script, findings: list[Finding], in_tests: frozenset[str] | None
) -> list[Finding]:
    """Return findings without those in tests of rules that do not speak there."""
    if in_tests is None or b"def test_" not in script.source.data:
        return findings
    from memlint.script.purpose import tests_of

    tests = [script.span(node) for node in tests_of(script)]
    return [
        each
        for each in findings
        if each.code in in_tests or not any(test.contains(each.span) for test in tests)
    ]


def _found_in_run(
    script: Script, chosen: Sequence[Rule], woken: Sequence[Rule], asked: Asked
) -> tuple[list[Finding], ScriptRuns | None]:
    """What the rules find, and the script's runs where they have to be priced.

    woken: rules that speak only where the run does not fit its GPU.
    """
    findings, pricing = _found(chosen, script, asked.on_error), asked.pricing
    least = findings if asked.to_fit else [one for one in findings if not one.to_fit]
    if pricing is None or not (findings or woken):
        return least, None
    runs = runs_of_script(script)
    if runs.settings is None or not is_too_large(runs.settings, pricing):
        return least, runs
    return findings + _found(woken, script, asked.on_error), runs


def _speaking(rules: Iterable[Rule], tree: Module, own: bool) -> list[Rule]:
    """The rules that may say something of a script, by its first imports."""
    from memlint.engine.tree import packages_at_top

    packages = packages_at_top(tree)
    return [rule for rule in rules if rule.may_speak(packages) or (own and rule.is_of_run)]


def script_of(
    source: Source,
    api: Api,
    project: Project | None = None,
    command_line: CommandSettings | None = None,
) -> Script:
    """The script with what is known of its project, and of the commands that start it.

    Raises ``SyntaxError`` as ``ast.parse`` does, and RecursionError.
    """
    from memlint.script.model import build_script

    given = command_line.settings if command_line is not None else None
    launcher = command_line.launcher if command_line is not None else None
    return _quietly(lambda: build_script(source, api, project, given=given, launcher=launcher))


def check_program(script: Script, asked: Asked, rules: Iterable[Rule]) -> list[Finding]:
    """What some rules of those that are asked find in a program that a recipe configures, or a
    script with what one of its commands gives to it; at settings of these too."""
    speaking = _speaking(rules, script.tree, may_train_torchtune(script.source.data))
    found, _ = _found_in_run(script, list(speaking), (), asked._replace(pricing=None))
    return _fitting(found, script.source, asked)


def _quietly(work: Callable[[], Result]) -> Result:
    """Return what ``work`` returns, without Python's warnings about the user's code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        return work()


def _fitting(findings: list[Finding], source: Source, asked: Asked) -> list[Finding]:
    """Return findings in order, without doubles and without fixes that cannot be applied."""
    target = asked.api.target
    findings = [
        one for one in once(findings) if not any(map(one.message.__contains__, target.open))
    ]
    findings = hints_as_advice(findings, asked.by_code, source.path)
    if any(finding.fix is not None for finding in findings):
        findings = without_runtime(findings, target, wanted=asked.runtime)
        findings = with_advice_on_shared_lines(source, findings)
    return of_old_targets(findings, target.too_old) if findings and target.too_old else findings


def unsuppressed(
    source: Source, findings: list[Finding], rules: Sequence[Rule], report_unused: bool
) -> list[Finding]:
    """The findings that no comment suppresses, and the suppressions without use if asked for."""
    data = source.data
    if not ((b"memlint" in data or b"MEM" in data) and _MARK.search(data)):
        return findings
    from memlint.run.suppressions import apply

    codes = {rule.code for rule in rules}
    if report_unused:
        codes.add(UNUSED_SUPPRESSION.code)
    return apply(source, findings, codes)


def _found(rules: Sequence[Rule], script: Script, on_error: OnError | None) -> list[Finding]:
    findings: list[Finding] = []
    for rule in rules:
        findings += findings_of(rule, rule.findings, script, on_error)
    return findings


def findings_of(
    rule: Rule, check: Callable[[Subject], Iterable[Finding]], of: Subject, on_error: OnError | None
) -> list[Finding]:
    """Return what a rule finds in a script or a recipe; a rule that fails goes to ``on_error``."""
    from memlint.engine.project import ElsewhereError

    found: list[Finding] = []
    try:
        found.extend(_of_rule(rule, finding) for finding in islice(check(of), MOST_FINDINGS))
    except ElsewhereError:
        # What it would say next is of another file, which is checked by itself.
        return found
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        if on_error is None:
            raise
        on_error(rule, error)
        return []
    return found


def _of_rule(rule: Rule, finding: Finding) -> Finding:
    """``finding`` with the rule's name and level."""
    level = finding.level or rule.level
    said = finding.fix.effect if finding.fix is not None else ()
    effect = said or tuple(rule.effect.items())
    return finding._replace(level=level, code=rule.code, name=rule.name, effect=effect)


class Examined(NamedTuple):
    """What is found in a source, and what its run needs where that is known."""

    findings: list[Finding]
    footprint: Footprint | None = None


def once(findings: list[Finding]) -> list[Finding]:
    """In order of place, each thing said once: calls may share a dict of options, and its keys."""
    first: dict[tuple[Span, str, str], Finding] = {}
    for finding in findings:
        key = (finding.span, finding.code, finding.message)
        if key not in first or (first[key].fix is None and finding.fix is not None):
            first[key] = finding
    return sorted(first.values(), key=lambda finding: (finding.span, finding.code))
