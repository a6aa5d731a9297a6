"""Expressions replaced: the tree of the result is that of the text with the node exchanged."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.source.edits import ReplaceCallee, ReplaceExpression, SetKeyword
from tests.examples import examples
from tests.memlint.fix.places import apply_edits

from .places import all_of, call, fixed, refusal, spot


@pytest.mark.parametrize(
    ("before", "source", "after"),
    [
        ("x = OLD\n", "a, b", "x = a, b\n"),
        ("x = OLD\n", "a if b else c", "x = a if b else c\n"),
        ("f(OLD)\n", "a, b", "f((a, b))\n"),
        ("f(OLD)\n", "a if b else c", "f(a if b else c)\n"),
        ("f(*OLD)\n", "a or b", "f(*(a or b))\n"),
        ("OLD.x\n", "a + b", "(a + b).x\n"),
        ("OLD.x\n", "1", "(1).x\n"),
        ("OLD.x\n", "a.b()", "a.b().x\n"),
        ("OLD()\n", "lambda: 0", "(lambda: 0)()\n"),
        ("OLD * 2\n", "a + b", "(a + b) * 2\n"),
        ("2 + OLD\n", "a * b", "2 + a * b\n"),
        ("2 - OLD\n", "a - b", "2 - (a - b)\n"),
        ("2 ** OLD\n", "-a", "2 ** (-a)\n"),
        ("not OLD\n", "a and b", "not (a and b)\n"),
        ("not OLD\n", "a == b", "not a == b\n"),
        ("x if OLD else y\n", "a if b else c", "x if (a if b else c) else y\n"),
        ("(OLD)\n", "a + b", "(a + b)\n"),
        ("return_ = [OLD]\n", "a := 1", "return_ = [(a := 1)]\n"),
        ("x[OLD]\n", "a, b", "x[(a, b)]\n"),
        ("x: int = OLD\n", "a + b", "x: int = a + b\n"),
        ("x = y or(OLD)\n", "a", "x = y or(a)\n"),
        ("def f(a=OLD): ...\n", "lambda: 0", "def f(a=lambda: 0): ...\n"),
        ("[a for a in OLD]\n", "b if c else d", "[a for a in (b if c else d)]\n"),
        ("await_ = lambda: OLD\n", "a, b", "await_ = lambda: (a, b)\n"),
        ('f"{OLD}"\n', "a + 1", 'f"{a + 1}"\n'),
    ],
)
def test_parentheses_come_where_precedence_needs_them(before: str, source: str, after: str) -> None:
    assert fixed(before, ReplaceExpression(spot(before, "OLD"), source)) == after


def test_tuples_and_generators_are_replaced_with_the_parentheses_that_are_theirs() -> None:
    before = "x = (1, 2)\n"
    assert fixed(before, ReplaceExpression(spot(before, "(1, 2)"), "a")) == "x = a\n"
    before = "f((1, 2))\n"
    assert fixed(before, ReplaceExpression(spot(before, "(1, 2)"), "a, b")) == "f((a, b))\n"
    before = "f(x for x in y)\n"
    place = all_of(before, ast.GeneratorExp)[0][1]
    assert fixed(before, ReplaceExpression(place, "[1, 2]")) == "f([1, 2])\n"
    before = "sum((x for x in y), z)\n"
    place = all_of(before, ast.GeneratorExp)[0][1]
    assert fixed(before, ReplaceExpression(place, "w")) == "sum(w, z)\n"


def test_words_never_run_together() -> None:
    before = "x = a if(1, 2)else b\n"
    assert fixed(before, ReplaceExpression(spot(before, "(1, 2)"), "c")) == "x = a if c else b\n"


def test_callee_is_replaced_and_its_arguments_stay() -> None:
    before = "x = a.b(\n    1,  # one\n)\n"
    assert fixed(before, ReplaceCallee(call(before), "torch.optim.AdamW")) == (
        "x = torch.optim.AdamW(\n    1,  # one\n)\n"
    )
    before = "f(1)(2)\n"
    assert fixed(before, ReplaceCallee(call(before), "g or h")) == "(g or h)(2)\n"


@pytest.mark.parametrize(
    ("text", "part", "reason"),
    [
        ("x = f(a)\n", "(a)", "no expression"),
        ("f(k=1)\n", "k", "no expression"),
        ("x.y\n", "y", "no expression"),
        ("x = [\n  1,  # why\n]\n", "[\n  1,  # why\n]", "comment"),
        ("f'{x}'\n", "x", "f-string"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, part: str, reason: str) -> None:
    assert reason in refusal(text, ReplaceExpression(spot(text, part), "'new'"))


def test_two_fixes_of_one_place_and_of_nested_places_take_turns() -> None:
    text = "x = a + b\n"
    inner, outer = spot(text, "a"), spot(text, "a + b")
    for first, second in [(inner, outer), (inner, inner), (outer, inner)]:
        fixes = [(ReplaceExpression(first, "1"),), (ReplaceExpression(second, "2"),)]
        applied = apply_edits(text, fixes)
        assert (len(applied.applied), applied.refused) == (1, {})
        assert apply_edits(text, fixes[::-1]).text == applied.text


def test_what_is_added_to_a_call_waits_where_its_callee_changes() -> None:
    text = "x = f(a)\n"
    one = call(text)
    changed, added = (ReplaceCallee(one, "g"),), (SetKeyword(one, "k", "1"),)
    for fixes in ([changed, added], [added, changed]):
        applied = apply_edits(text, fixes)
        assert (len(applied.applied), applied.refused) == (1, {})
        assert applied.text in {"x = g(a)\n", "x = f(a, k=1)\n"}
    assert fixed(text, *changed, *added) == "x = g(a, k=1)\n"
    assert apply_edits(text, [changed, changed]).applied == (0, 1)


# -- random expressions in random places -----------------------------------------------------------

_LEAVES = st.sampled_from(["a", "1", "'s'", "1.5", "None", "x.y", "...", "f''"])


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(
            two,
            st.sampled_from(
                ["+", "-", "*", "/", "**", "@", "|", "&", "<<", "and", "or", "==", "in"]
            ),
        ).map(lambda both: f"({both[0][0]}) {both[1]} ({both[0][1]})"),
        st.tuples(inner, st.sampled_from(["-", "not ", "~", "await "])).map(
            lambda both: f"{both[1]}({both[0]})"
        ),
        two.map(lambda both: f"({both[0]}) if (a) else ({both[1]})"),
        two.map(lambda both: f"({both[0]}), ({both[1]})"),
        inner.map(lambda one: f"lambda: ({one})"),
        inner.map(lambda one: f"[({one})]"),
        inner.map(lambda one: f"(({one}) for i in j)"),
        inner.map(lambda one: f"(w := ({one}))"),
        inner.map(lambda one: f"f(({one}), *({one}), k=({one}))"),
        inner.map(lambda one: f"({one}).attribute"),
        two.map(lambda both: f"({both[0]})[({both[1]})]"),
        two.map(lambda both: f"({both[0]})({both[1]})"),
        two.map(lambda both: "{(%s): (%s)}" % both),  # noqa: UP031
        inner.map(lambda one: f"(yield ({one}))"),
    )


_EXPRESSIONS = st.recursive(_LEAVES, _compound, max_leaves=6).map(
    # ``unparse`` writes no parentheses but those that are needed.
    lambda text: ast.unparse(ast.parse(text, mode="eval"))
)


@examples(400)
@given(
    _EXPRESSIONS,
    _EXPRESSIONS,
    st.sampled_from(["x = {}", "f({}, b)", "return {}", "{}"]),
    st.data(),
)
def test_random_replacements_exchange_one_node(
    outer: str, source: str, frame: str, data: st.DataObject
) -> None:
    text = "async def g():\n    " + frame.format(f"({outer})") + "\n"
    tree = ast.parse(text)
    nodes = [
        (node, span)
        for node, span in all_of(text, ast.expr)
        if not isinstance(node, ast.Starred | ast.Slice)
        and not isinstance(getattr(node, "ctx", ast.Load()), ast.Store)
    ]
    at = data.draw(st.integers(0, len(nodes) - 1))
    place = nodes[at][1]
    new = ast.parse(source, mode="eval").body
    wanted = nodes[at][0]

    class Exchange(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            same = isinstance(node, ast.expr) and ast.dump(
                node, include_attributes=True
            ) == ast.dump(wanted, include_attributes=True)
            return new if same else self.generic_visit(node)

    expected = Exchange().visit(tree)
    try:
        compile(ast.unparse(ast.fix_missing_locations(expected)), "expected", "exec")
    except SyntaxError:
        return  # ``yield`` in a generator expression, ``:=`` in a comprehension's iterable.
    applied = apply_edits(text, [(ReplaceExpression(place, source),)])
    if applied.refused:
        # Not everything may be written into an f-string.
        assert "f'" in text
    else:
        assert ast.dump(ast.parse(applied.text)) == ast.dump(expected)
