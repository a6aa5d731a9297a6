"""Which rules there are, which are asked for, and their loading.

A rule's code and name are its file's name (``mem301_unchecked_activations.py``), so that choosing
rules imports none of them. Those of ``memlint.rule.file_rules`` are no rules of a script.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

from memlint.rule.file_rules import FILE_RULES
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.rule import Rule

# The folder of rules on versions of libraries, which are as true of tests as of what they test.
_VERSIONS = "migration"
# The module of trigger words that is written by ``memlint.rule.outlines``.
OUTLINES = "outlines"


class RuleId(NamedTuple):
    """``MEM301``, ``unchecked-activations`` and the module that holds ``RULE``."""

    code: str
    name: str
    module: str


class Choice(NamedTuple):
    """What the command line says of the rules; it goes over the configuration."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()


@cache
def known_rules() -> tuple[RuleId, ...]:
    """Every rule by its file's name, in the order of codes."""
    groups = [entry.name for entry in os.scandir(rules_folder()) if entry.is_dir()]
    found = [each for group in groups for each in _files(group)]
    return tuple(sorted(found))


def rules_on_versions() -> frozenset[str]:
    """Return the codes of rules that speak of tests too: those on versions, and on files."""
    of_files = {each.code for each in FILE_RULES}
    on_versions = {e.code for e in known_rules() if _VERSIONS in e.module.split(".")}
    return frozenset(of_files | on_versions)


def _files(group: str) -> Iterable[RuleId]:
    """The files of a folder that are called by a code."""
    for file in os.listdir(os.path.join(rules_folder(), group)):
        stem, suffix = os.path.splitext(file)
        code, _, name = stem.partition("_")
        if suffix == ".py" and code[:3] == "mem" and len(code) == 6 and code[3:].isdigit():
            module = f"memlint_rules.{group}.{stem}"
            yield RuleId(code.upper(), name.replace("_", "-"), module)


@cache
def rules_folder() -> str:
    """The folder of ``memlint_rules``."""
    return os.path.dirname(importlib.import_module("memlint_rules").__file__ or "")


class _Unread:
    """A rule of which only its outline is known; what else is asked of it imports its module."""

    __slots__ = ("code", "is_of_recipe", "is_of_run", "module", "name", "on_request", "triggers")

    def __init__(
        self,
        rule_id: RuleId,
        on_request: bool,
        is_of_run: bool,
        is_of_recipe: bool,
        triggers: tuple[tuple[str, ...], ...],
    ) -> None:
        self.code, self.name, self.module = rule_id
        self.on_request = on_request
        self.is_of_run = is_of_run
        self.is_of_recipe = is_of_recipe
        self.triggers = triggers

    def __getattr__(self, name: str) -> object:
        return getattr(_rule(RuleId(self.code, self.name, self.module)), name)


def load(codes: Iterable[str], *, at_once: bool = False) -> tuple[Rule, ...]:
    """The rules of ``codes`` in the order of codes, each imported when it is asked something, or
    all of them at once."""
    wanted, made = set(codes), _rule if at_once else _known
    return tuple(made(each) for each in known_rules() if each.code in wanted)


def import_all(rules: Iterable[Rule]) -> None:
    """Import the modules of all that were not asked anything yet."""
    for rule in rules:
        getattr(rule, "check")  # noqa: B009 - reading it imports


@cache
def _known(rule_id: RuleId) -> Rule:
    """A rule by its outline, or imported where there is none."""
    outlines = importlib.import_module(f"memlint_rules.{OUTLINES}")
    outline = outlines.RULES.get(rule_id.code)
    if outline is None:
        return _rule(rule_id)
    on_request, is_of_run, is_of_recipe, places = outline
    triggers = tuple(outlines.SETS[place] for place in places)
    return cast("Rule", _Unread(rule_id, on_request, is_of_run, is_of_recipe, triggers))


@cache
def _rule(rule_id: RuleId) -> Rule:
    rule: Rule = importlib.import_module(rule_id.module).RULE
    return rule._replace(code=rule_id.code, name=rule_id.name)


def find(word: str) -> RuleId:
    """The rule with this code or name; raises ``ValueError`` with a suggestion."""
    for rule_id in known_rules():
        if word.upper() == rule_id.code or word.lower() == rule_id.name:
            return rule_id
    raise ValueError(_unknown(word))


def check_specifiers(specifiers: Iterable[str]) -> None:
    """Raises ``ValueError`` for one that no rule's code begins with and no rule is called."""
    for specifier in specifiers:
        if not any(_length(specifier, code, name) for code, name in _codes()):
            raise ValueError(_unknown(specifier))


def selected(
    select: Sequence[str] | None, ignore: Sequence[str] = (), extend: Sequence[str] = ()
) -> frozenset[str]:
    """The codes chosen: of the specifiers that fit a code the longest decides, ignoring on a tie.

    ``select`` of None means all.
    """
    chosen = ("ALL",) if select is None else tuple(select)
    return frozenset(
        code
        for code, name in _codes()
        if max((_length(each, code, name) for each in (*chosen, *extend)), default=0)
        > max((_length(each, code, name) for each in ignore), default=0)
    )


def narrowed(
    codes: frozenset[str],
    select: Sequence[str] | None,
    ignore: Sequence[str] = (),
    extend: Sequence[str] = (),
) -> frozenset[str]:
    """``codes`` of the configuration as the command line changes them.

    ``select`` takes the configuration's place; ``extend`` adds to it; ``ignore`` takes out, except
    what the command line itself selects more precisely.
    """
    if select is not None:
        return selected(select, ignore, extend)
    added = selected((), (), extend)
    dropped = frozenset(code for code, _ in _codes()) - selected(None, ignore)
    kept = selected(extend, ignore) if extend else frozenset()
    return (codes | added) - (dropped - kept)


def named(specifiers: Iterable[str]) -> frozenset[str]:
    """The codes that one of ``specifiers`` names outright, by code or name."""
    words = {word.lower() for word in specifiers}
    return frozenset(c for c, name in _codes() if c.lower() in words or name in words)


def matches(specifier: str, code: str) -> bool:
    """True if ``specifier`` (a code, a prefix, a name, ``ALL``) covers ``code``."""
    return any(code == each and _length(specifier, each, name) for each, name in _codes())


def _codes() -> Iterable[tuple[str, str]]:
    for rule in FILE_RULES:
        yield rule.code, rule.name
    for rule_id in known_rules():
        yield rule_id.code, rule_id.name


def _length(specifier: str, code: str, name: str) -> int:
    """How precisely ``specifier`` names the rule; 0 if it does not."""
    if specifier.upper() == "ALL":
        return 1
    if specifier.lower() == name:
        return len(code) + 1
    prefix = specifier.upper()
    return len(prefix) + 1 if len(prefix) >= 3 and code.startswith(prefix) else 0


def _unknown(word: str) -> str:
    from memlint.suggest import suggestion

    known = [part for pair in _codes() for part in pair]
    upper = word.upper() if word.upper().startswith("MEM") else word.lower()
    # Letters that look like digits: MEM4O1.
    alike = upper[:3] + upper[3:].translate(str.maketrans("OILSB", "01158"))
    upper = alike if alike in known else upper
    return f"no rule is called '{word}'{suggestion(upper, known)} (`memlint rules` lists them)"
