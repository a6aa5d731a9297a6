"""The index of a syntax tree finds what ``ast.walk`` finds."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import memlint.script
from memlint.engine.nodes import walk

_SHARED = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)
_EVERY_KIND = """
from a import (b as c)
import d.e as f
@g
class H(I, metaclass=J):
    async def k(self, l, /, m: n = 1, *o, p=2, q, **r) -> s:
        global t
        nonlocal_ = lambda u, *v: (yield u)
        async with w as x, y: await z
        async for aa in bb: continue
        return {**cc, "dd": ee}, {ff for ff in gg if hh}, {ii: jj for ii, jj in kk}
try:
    ll[1:2:3, ...] += not mm
except* (nn, oo) as pp: raise qq from rr
else: assert ss, f"{tt!r:>{uu}}"
finally: del vv.ww
match xx:
    case {"yy": [zz, *ab], **ac} | ad.ae(af, ag=ah) as ai if aj: pass
    case None: break_ = (ak := al) if am < an <= ao else [*ap]
while aq and ar: break
for as_ in at: at: int = ~au
with_ = (x async for x in y)
"""


@pytest.mark.parametrize(
    "text",
    [_EVERY_KIND, *(p.read_text() for p in Path(memlint.script.__file__).parent.glob("*.py"))],
)
def test_walk_finds_every_node_once(text: str) -> None:
    tree = ast.parse(text)
    wanted = [node for node in ast.walk(tree) if not isinstance(node, _SHARED)]
    assert walk([tree]) == wanted
