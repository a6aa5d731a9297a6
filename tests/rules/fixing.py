"""What rules find in a text, and what their fixes make of it, as tests ask for it."""

from __future__ import annotations

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.fix.fixpoint import fix_source
from memlint.rule.findings import Finding
from memlint.rule.registry import known_rules, load
from memlint.run.engine import check_source
from memlint.source import Source


def found(text: str, *codes: str, target: str = "") -> list[Finding]:
    """What the rules ``codes`` (all, if none are given) find at ``target``, newest by default."""
    api = Api(parse_target(target) if target else newest())
    chosen = codes or tuple(rule.code for rule in known_rules())
    return check_source(Source("script.py", text), load(chosen), api)


def fixed(text: str, *codes: str, target: str = "", unsafe: bool = False) -> str:
    """``text`` after the fixes of the rules ``codes``."""
    result = fix_source(
        Source("script.py", text),
        unsafe=unsafe,
        check=lambda source: found(source.text, *codes, target=target),
        reread=lambda new: Source("script.py", new),
    )
    assert result.error is None
    assert result.refused == ()
    return result.source.text
