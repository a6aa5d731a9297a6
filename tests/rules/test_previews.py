"""A report shows what ``fix`` writes, though most of the file is blanked for it."""

from __future__ import annotations

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.fix.apply import previews
from memlint.fix.spans import parse
from memlint.rule.registry import known_rules, load
from memlint.run.engine import check_source
from memlint.source import Source
from tests.memlint.fix.places import apply_edits
from tests.rules.cases import cases

RULES = {rule.code: rule for rule in load(each.code for each in known_rules())}
# Code that no fix touches, as odd as people write it.
BESIDE = '''

@decorated  # why
async def beside(
    a,
    b={"k": 1},  # a comment
) -> None:
    """Text of two
    lines."""
    from trl import SFTConfig as Renamed, torch
    import torch as th

    @inner
    def nested(x): return x; pass  # same line

    SFTConfig = "Trainer"
    try:
        x = (1,
  2)
    except ValueError: pass
    else:
        while x: break
        # the end


class Beside(Base):
    x: int = 1
    y = """
text
"""; z = 2

    def method(self): ...

    if x:

        def method(self):
            return f"{self!r:>{self.x}} é", \\
                lambda: 0
    elif y: pass
'''


@pytest.mark.parametrize("code", sorted(RULES))
def test_previews_are_what_is_written(code: str) -> None:
    for case in cases():
        if case.code != code or case.fixed is None:
            continue
        text = f"{case.text.rstrip()}\n{BESIDE}"
        target = case.targets[0]
        api = Api(parse_target(target) if target else newest())
        findings = check_source(Source("script.py", text), [RULES[code]], api)
        fixes = [each.fix.edits for each in findings if each.fix is not None and each.fix.edits]
        shown = previews(text, fixes)
        for fix, preview in zip(fixes, shown, strict=True):
            written = apply_edits(text, [fix])
            assert preview.text == written.text, case.name
            assert preview.edits == written.edits, case.name


def test_code_that_no_fix_touches_is_not_parsed_for_previews() -> None:
    text = f"f(a=1)\n{BESIDE}"
    assert "Trainer" in parse(text).shown
    shown = parse(text, [()]).shown
    assert "Trainer" not in shown
    assert "text" not in shown
    assert len(shown.encode()) == len(text.rstrip().encode())
