"""What fixes write exists at the target, and what they leave is still the author's script.

Every example of every rule, at old and new releases: each option that a fix names is taken by its
class there, no comment is lost, and a second run changes nothing. Each release gets its share of
the scripts; run it over all with ``MEMLINT_ALL_TARGETS=1``.
"""

from __future__ import annotations

import ast
import io
import os
import random
import tokenize
from collections import Counter

import pytest

from memlint.api.lookup import Api
from memlint.api.successors import Replace
from memlint.api.tables import table
from memlint.api.target_versions import parse_target
from memlint.fix.fixpoint import fix_source
from memlint.rule.findings import Finding
from memlint.rule.registry import known_rules, load
from memlint.run.engine import check_source
from memlint.script.model import build_script
from memlint.source import Source
from tests.rules.cases import cases

RULES = load(rule.code for rule in known_rules())
SCRIPTS = [
    *(example.bad for rule in RULES for example in rule.page.examples),
    *(case.text for case in cases() if case.expected),
]
TARGETS = [f"{name}={one}" for name in ("trl", "transformers") for one in table(name).releases]
_STRIDE = 1 if os.environ.get("MEMLINT_ALL_TARGETS") else 80


def fixed(text: str, api: Api) -> str:
    def check(source: Source) -> list[Finding]:
        return check_source(source, RULES, api)

    result = fix_source(
        Source("script.py", text),
        unsafe=True,
        check=check,
        reread=lambda new: Source("script.py", new),
    )
    assert result.error is None, result.error
    assert not [why for _, why in result.refused if "went wrong" in why]
    return result.source.text


def refused_options(text: str, api: Api) -> set[tuple[str, str]]:
    """Options that library calls of a script are given and do not take at the target."""
    script = build_script(Source("script.py", text), api)
    loading = api.signature("transformers.AutoModelForCausalLM.from_pretrained")
    return {
        ("from_pretrained", key.value)
        for keyword in keywords(text)
        if keyword.arg == "model_init_kwargs" and isinstance(keyword.value, ast.Dict)
        for key in keyword.value.keys
        if isinstance(key, ast.Constant)
        and loading is not None
        and key.value not in loading.parameters
    } | {
        (name, keyword.arg)
        for call in script.calls
        for keyword in call.node.keywords
        for name in [name_at_target(call.name, api)]
        if keyword.arg is not None
        and call.subclass is None
        and api.accepts(name, keyword.arg) is False
    }


def name_at_target(name: str, api: Api) -> str:
    """What a class is at the target: a fix that moves its import does not write its options."""
    successor = api.successor(name)
    return successor.qualname if isinstance(successor, Replace) else name


def comments(text: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    parts = (part for one in tokens if one.type == tokenize.COMMENT for part in split(one.string))
    return Counter(parts)


def split(comment: str) -> list[str]:
    return [f"#{part.strip()}" for part in comment.split("#") if part.strip()]


@pytest.mark.draws(12)
@pytest.mark.parametrize("target", TARGETS)
def test_fixes_write_what_the_target_takes(target: str) -> None:
    api = Api(parse_target(target))
    for text in SCRIPTS[TARGETS.index(target) % _STRIDE :: _STRIDE]:
        new = fixed(text, api)
        assert refused_options(new, api) <= refused_options(text, api), new
        assert fixed(new, api) == new


@pytest.mark.draws(5)
@pytest.mark.parametrize("seed", range(20))
def test_comments_survive_fixes(seed: int) -> None:
    """Every option of a call on a line of its own, with a comment of its own behind it."""
    api = Api()
    for text in random.Random(seed).sample(SCRIPTS, 4):
        commented = with_comments(text)
        new = fixed(commented, api)
        ast.parse(new)
        gone = comments(commented) - comments(new)
        # A comment may go with an option that goes, and with nothing else.
        left = {keyword.arg for keyword in keywords(new)}
        assert not [one for one in gone if one.removeprefix("#about ") in left], new
        assert fixed(new, api) == new


def keywords(text: str) -> list[ast.keyword]:
    return [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.keyword)]


def with_comments(text: str) -> str:
    """``text`` with the keywords of its calls that fit, each followed by ``# about NAME``."""
    lines = text.splitlines()
    for keyword in keywords(text):
        row = keyword.value.end_lineno
        assert row is not None
        line = lines[row - 1]
        if keyword.lineno == row and line.strip().startswith(f"{keyword.arg}=") and "#" not in line:
            lines[row - 1] = f"{line}  # about {keyword.arg}"
    return "\n".join(lines) + "\n"
