"""Rules and a script model small enough to say what a test is about.

A fake rule finds a word in the text and offers to replace it, so that the machinery around rules is
tested without what real rules know.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from memlint.api.target_versions import Target
from memlint.rule import Rule
from memlint.rule.findings import Applicability, Finding, Fix, Level
from memlint.rule.page import Page
from memlint.rule.registry import RuleId
from memlint.source import Source, Span
from memlint.source.edits import ReplaceExpression


def build_script(source: Source, api: object, *around: object, **options: object) -> Any:
    ast.parse(source.text)
    return SimpleNamespace(source=source, api=api, forget=lambda: None, led_by=())


def word_rule(
    code: str,
    word: str,
    *,
    replacement: str | None = None,
    level: Level = Level.WASTE,
    applicability: Applicability = Applicability.SAFE,
) -> Rule:
    """Finds the name ``word``; its fix puts ``replacement`` there."""

    def check(script: Any) -> Iterator[Finding]:
        for found in re.finditer(rf"\b{word}\b".encode(), script.source.data):
            span = Span(*found.span())
            fix = None
            if replacement is not None:
                edits = (ReplaceExpression(span, replacement),)
                fix = Fix(f"write {replacement}", edits, applicability)
            yield Finding(span, f"{word} is wasteful", fix)

    return Rule(
        code=code,
        name=f"{word}-used",
        level=level,
        summary=f"{word} is used",
        check=check,
        triggers=(frozenset({word}),),
        written=Page(
            f"Each {word} costs 2 GiB. There is more to say, e.g. this.",
            references=(f"https://example.org/{word}",),
        ),
    )


ALPHA = word_rule("MEM301", "alpha", replacement="omega")
BETA = word_rule(
    "MEM302", "beta", replacement="psi", level=Level.ERROR, applicability=Applicability.UNSAFE
)
GAMMA = word_rule("MEM401", "gamma", level=Level.HINT)
RULES = (ALPHA, BETA, GAMMA)


# Tables of which nothing is asked but their target, which is not too old.
TABLES: Any = SimpleNamespace(target=Target())


def install(monkeypatch: Any, rules: tuple[Rule, ...] = RULES) -> None:
    """Put the fakes in the place of the rules, the script model and the tables."""
    ids = tuple(RuleId(rule.code, rule.name, "") for rule in rules)
    monkeypatch.setattr("memlint.rule.registry.known_rules", lambda: ids)
    monkeypatch.setattr(
        "memlint.rule.registry.load",
        lambda codes: tuple(rule for rule in rules if rule.code in codes),
    )
    monkeypatch.setattr("memlint.script.model.build_script", build_script)
    monkeypatch.setattr(
        "memlint.project.targets.Targets.of", lambda self, path, said="", source=None: Target()
    )
    monkeypatch.setattr(
        "memlint.project.targets.Targets.api", lambda self, path, said="", source=None: TABLES
    )
    monkeypatch.setattr(
        "memlint.project.targets.Targets.key", lambda self, path, said="", source=None: said
    )
    monkeypatch.setattr("memlint.cli.inputs.check_targets", lambda *asked, **how: None)
