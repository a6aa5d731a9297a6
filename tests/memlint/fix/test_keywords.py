"""Keywords of calls in every layout: the syntax tree changes by the keyword and no more."""

from __future__ import annotations

import ast
import tokenize
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.source import Span
from memlint.source.edits import (
    Edit,
    RemoveKeyword,
    RenameKeyword,
    ReplaceExpression,
    SetKeyword,
)
from tests.examples import examples
from tests.memlint.fix.places import apply_edits

from .places import all_of, call, fixed, refusal, spot

ADDED = [
    ("f()\n", "f(k=1)\n"),
    ("f( )\n", "f(k=1)\n"),
    ("f(a)\n", "f(a, k=1)\n"),
    ("f(a=1)\n", "f(a=1, k=1)\n"),
    ("f( a = 1 )\n", "f( a = 1, k = 1 )\n"),
    ("f(a=1,)\n", "f(a=1, k=1,)\n"),
    ("f(*args)\n", "f(*args, k=1)\n"),
    ("f(x for x in y)\n", "f((x for x in y), k=1)\n"),
    ("f((x for x in y))\n", "f((x for x in y), k=1)\n"),
    ("f(a := 1)\n", "f(a := 1, k=1)\n"),
    ("f(a)  # note\n", "f(a, k=1)  # note\n"),
    ("f(a, {\n    1: 2,\n})\n", "f(a, {\n    1: 2,\n}, k=1)\n"),
    ("f(\n    a=1,\n)\n", "f(\n    a=1,\n    k=1,\n)\n"),
    ("f(\n    a=1\n)\n", "f(\n    a=1,\n    k=1\n)\n"),
    ("f(\n    a=1)\n", "f(\n    a=1,\n    k=1)\n"),
    ("f(\n    a=1,)\n", "f(\n    a=1,\n    k=1,)\n"),
    ("f(a,\n  b)\n", "f(a,\n  b,\n  k=1)\n"),
    ("f(a,\n  b\n  )\n", "f(a,\n  b,\n  k=1\n  )\n"),
    ("f(\n    a, b\n)\n", "f(\n    a, b, k=1\n)\n"),
    ("f(\n    a,  # one\n    b  # two\n)\n", "f(\n    a,  # one\n    b,  # two\n    k=1\n)\n"),
    ("f(\n    a,  # one\n)\n", "f(\n    a,  # one\n    k=1,\n)\n"),
    ("f(\n    a,\n    # later\n)\n", "f(\n    a,\n    k=1,\n    # later\n)\n"),
    ("f(\n    # none yet\n)\n", "f(\n    # none yet\n    k=1,\n)\n"),
    ("f(\n)\n", "f(\n    k=1,\n)\n"),
    ("if x:\n\tf(\n\t\ta,\n\t)\n", "if x:\n\tf(\n\t\ta,\n\t\tk=1,\n\t)\n"),
    ("if x:\n\tf(\n\t)\n", "if x:\n\tf(\n\t\tk=1,\n\t)\n"),
    ("f(\n    a\n  , b\n)\n", "f(\n    a\n  , b, k=1\n)\n"),
    ("f(a, \\\n  b)\n", "f(a, \\\n  b,\n  k=1)\n"),
    ("f(\r\n    a,\r\n)\r\n", "f(\r\n    a,\r\n    k=1,\r\n)\r\n"),
    ("(f\n (a))\n", "(f\n (a, k=1))\n"),
    ("f(a)(b)\n", "f(a)(b, k=1)\n"),
    ("x = f(a=g(b=1))\n", "x = f(a=g(b=1), k=1)\n"),
    ("class A(B):\n    pass\n", "class A(B, k=1):\n    pass\n"),
    ("class A:\n    pass\n", "class A(k=1):\n    pass\n"),
    ("class A():\n    pass\n", "class A(k=1):\n    pass\n"),
    ("@f(a)\ndef g(): ...\n", "@f(a, k=1)\ndef g(): ...\n"),
    ('f"{g(a)}"\n', 'f"{g(a, k=1)}"\n'),
]


@pytest.mark.parametrize(("before", "after"), ADDED)
def test_keyword_is_added_in_the_calls_own_layout(before: str, after: str) -> None:
    kind = ast.ClassDef if before.startswith("class") else ast.Call
    place = all_of(before, kind)[0][1]
    assert fixed(before, SetKeyword(place, "k", "1")) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(**o)\n", "f(k=1, **o)\n"),
        ("f(a, **o)\n", "f(a, k=1, **o)\n"),
        ("f(\n    a,\n    **o,\n)\n", "f(\n    a,\n    k=1,\n    **o,\n)\n"),
        ("f(\n    **o\n)\n", "f(\n    k=1,\n    **o\n)\n"),
        ("f(\n    a,\n    # the rest\n    **o,\n)\n",
         "f(\n    a,\n    k=1,\n    # the rest\n    **o,\n)\n"),
    ],
)  # fmt: skip
def test_keyword_goes_before_unpacked_mappings(before: str, after: str) -> None:
    assert fixed(before, SetKeyword(call(before), "k", "1", beside_unpacking=True)) == after


def test_a_mapping_that_may_hold_the_keyword_is_a_reason_to_refuse() -> None:
    for text in ("f(**o)", "f(**{'k': 2})", "f(**{key: 2})"):
        assert "unpacks" in refusal(text, SetKeyword(call(text), "k", "1"))
    assert fixed("f(**{'j': 2})", SetKeyword(call("f(**{'j': 2})"), "k", "1")) == (
        "f(k=1, **{'j': 2})"
    )
    # Where the call itself has the keyword, the mapping cannot.
    assert fixed("f(k=3, **o)", SetKeyword(call("f(k=3, **o)"), "k", "1")) == "f(k=1, **o)"


REMOVED = [
    ("f(k=1)\n", "f()\n"),
    ("f(k=1,)\n", "f()\n"),
    ("f(k=1, a=2)\n", "f(a=2)\n"),
    ("f(a=2, k=1)\n", "f(a=2)\n"),
    ("f(a=2, k=1,)\n", "f(a=2,)\n"),
    ("f(a, k=1, b=2)\n", "f(a, b=2)\n"),
    ("f(\n    a,\n    k=1,\n)\n", "f(\n    a,\n)\n"),
    ("f(\n    a,\n    k=1\n)\n", "f(\n    a\n)\n"),
    ("f(\n    a,\n    k=1)\n", "f(\n    a)\n"),
    ("f(\n    a,  # keep\n    k=1)\n", "f(\n    a  # keep\n    )\n"),
    ("f(\n    k=1,  # gone\n    a=2,  # keep\n)\n", "f(\n    a=2,  # keep\n)\n"),
    ("f(\n    # its own\n    k=1,  # gone\n    # keep too\n    a=2,\n)\n",
     "f(\n    # keep too\n    a=2,\n)\n"),
    ("f(a,\n  k=1)\n", "f(a)\n"),
    ("f(k=1,\n  b=2)\n", "f(b=2)\n"),
    ("f(\n    a, k=1,\n    b=2,\n)\n", "f(\n    a,\n    b=2,\n)\n"),
    ("f(\n    k=1, a=3,\n    b=2,\n)\n", "f(\n    a=3,\n    b=2,\n)\n"),
    ("f(\n    k=1\n)\n", "f()\n"),
    ("f(\n    # its own\n    k=1,\n)\n", "f()\n"),
    ("f(\n    # of both\n    k=1,\n    a=2,\n)\n", "f(\n    # of both\n    a=2,\n)\n"),
    ("f(\n    # what k is\n    k=1,\n    a=2,\n)\n", "f(\n    # what k is\n    a=2,\n)\n"),
    ("f(a=1\n  , k=2\n  , b=3)\n", "f(a=1\n  , b=3)\n"),
    ("f(\n    k={\n        'a': 1,\n    },  # gone\n    b=3,\n)\n", "f(\n    b=3,\n)\n"),
    ("f(\r\n    a,\r\n    k=1,\r\n)\r\n", "f(\r\n    a,\r\n)\r\n"),
    ("f(a, k=1, **o)\n", "f(a, **o)\n"),
    ("f(k=1  # gone\n  # keep\n  ,)\n", "f(\n  # keep\n  )\n"),
    ("f(k=1\n  , # keep\n)\n", "f(\n   # keep\n)\n"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), REMOVED)
def test_keyword_goes_with_its_comma_and_comment(before: str, after: str) -> None:
    assert fixed(before, RemoveKeyword(call(before), "k")) == after


def test_keyword_is_renamed_and_nothing_else() -> None:
    before = "f(\n    old = 1,  # why\n)\n"
    assert fixed(before, RenameKeyword(call(before), "old", "new")) == (
        "f(\n    new = 1,  # why\n)\n"
    )
    text = "f(old=1, new=2)"
    assert "already" in refusal(text, RenameKeyword(call(text), "old", "new"))


def test_value_is_replaced_with_its_parentheses_and_keeps_what_follows() -> None:
    before = "f(k=(1 +\n  2), b=3)  # note\n"
    assert fixed(before, SetKeyword(call(before), "k", "a if b else c")) == (
        "f(k=a if b else c, b=3)  # note\n"
    )


def test_a_comment_inside_the_old_value_is_never_lost() -> None:
    text = "f(k=[\n    1,  # why one\n])\n"
    assert "comment" in refusal(text, SetKeyword(call(text), "k", "2"))


def test_value_of_several_lines_is_indented_like_the_argument() -> None:
    before = "if x:\n\tf(\n\t\ta,\n\t)\n"
    value = "{\n    'use_reentrant': False,\n}"
    assert fixed(before, SetKeyword(call(before), "k", value)) == (
        "if x:\n\tf(\n\t\ta,\n\t\tk={\n\t\t\t'use_reentrant': False,\n\t\t},\n\t)\n"
    )


def test_walrus_and_yield_values_get_parentheses() -> None:
    assert fixed("f(a)", SetKeyword(call("f(a)"), "k", "b := 1")) == "f(a, k=(b := 1))"
    assert fixed("f(a)", SetKeyword(call("f(a)"), "k", "1, 2")) == "f(a, k=(1, 2))"


def test_missing_places_and_names_are_refused_with_a_reason() -> None:
    text = "f(a=1)\n"
    assert "no call" in refusal(text, SetKeyword(spot(text, "a"), "k", "1"))
    assert "no keyword 'k'" in refusal(text, RemoveKeyword(call(text), "k"))
    assert "does not parse" in refusal(text, SetKeyword(call(text), "k", "1 +"))


def test_f_string_that_cannot_hold_the_text_is_refused() -> None:
    text = 'f"{g(a)}"\n'
    assert "f-string" in refusal(text, SetKeyword(call(text), "k", '"b"'))


# -- random calls in random layouts ----------------------------------------------------------------

_VALUES = st.sampled_from(
    ["1", "x", "g(y, z=2)", "(1,\n  2)", "[i for i in j]", "lambda: 0", "-1", "'é\u2028ü'",
     "{'a': 1}", "not x", "(yield)", "x if y else z", '"""a\n  b"""', "f'{x}'", "(w := 3)"]
)  # fmt: skip
_SPACES = st.sampled_from(["", " ", "  ", "\n", "\n    ", "\n\t", "  # c1\n", " # é\n    # c2\n  "])


@st.composite
def calls(draw: st.DrawFn) -> str:
    """A call with arguments in a random layout: any white space and comments in any gap."""
    names = draw(st.permutations(["a", "b", "c", "d"]))
    parts: list[str] = []
    positional = draw(st.integers(0, 2))
    for _ in range(positional):
        star = draw(st.sampled_from(["", "", "*"]))
        value = draw(st.sampled_from(["p", "(1, 2)", "g(1)"]) if star else _VALUES)
        parts.append(star + draw(_SPACES) * bool(star) + value)
    for name in names[: draw(st.integers(0, 3))]:
        equal = draw(st.sampled_from(["=", " = ", "= "]))
        parts.append(f"{name}{equal}{draw(_VALUES)}")
    if draw(st.booleans()):
        parts.append("**kwargs")
    text = ""
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        text += draw(_SPACES) + part + draw(_SPACES)
        text += "," if not last or draw(st.booleans()) else ""
    inside = text + draw(_SPACES)
    if not parts and draw(st.integers(0, 3)) == 0:
        inside = "x for x in y"
    before = draw(st.sampled_from(["", "v = ", "if t:\n    ", "if t:\n\tw = "]))
    callee = draw(st.sampled_from(["f", "m.f", "h(1)", "(f\n)"]))
    after = draw(st.sampled_from(["\n", "", "  # end\n", "\nz = 1\n", ".then(1)\n"]))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return (before + callee + "(" + inside + ")" + after).replace("\n", newline)


def _target(text: str) -> tuple[ast.Module, ast.Call]:
    """The tree, and the call whose keywords are edited: the one that may have ``**kwargs``."""
    tree = ast.parse(text)
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and not (isinstance(node.func, ast.Attribute) and node.func.attr == "then")
    ]
    return tree, found[0]


def _normal(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords.sort(key=lambda one: one.arg or "~")
    return ast.dump(tree)


def _comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(StringIO(text, newline="").readline)
    return [token.string.strip() for token in tokens if token.type == tokenize.COMMENT]


@examples(300)
@given(calls(), st.data())
def test_random_edits_of_random_calls_change_the_tree_by_just_that(
    text: str, data: st.DataObject
) -> None:
    tree, target = _target(text)
    place = next(
        span for node, span in all_of(text, ast.Call) if ast.dump(node) == ast.dump(target)
    )
    edits: list[Edit] = []
    removed = 0
    for keyword in list(target.keywords):
        if keyword.arg is None:
            continue
        what = data.draw(st.sampled_from(["keep", "remove", "rename", "set"]))
        if what == "remove":
            edits.append(RemoveKeyword(place, keyword.arg))
            target.keywords.remove(keyword)
            removed += 1
        elif what == "rename":
            edits.append(RenameKeyword(place, keyword.arg, f"new_{keyword.arg}"))
            keyword.arg = f"new_{keyword.arg}"
        elif what == "set":
            source = data.draw(st.sampled_from(["7", "q if r else s", "lambda: (yield)"]))
            edits.append(SetKeyword(place, keyword.arg, source))
            keyword.value = ast.parse(source, mode="eval").body
    for name in data.draw(st.sampled_from([[], ["k"], ["k", "l"]])):
        edits.append(SetKeyword(place, name, "None", beside_unpacking=True))
        target.keywords.append(ast.keyword(name, ast.Constant(None)))

    fixes = [(edit,) for edit in edits]
    data.draw(st.randoms()).shuffle(fixes)
    applied = apply_edits(text, fixes)
    assert not applied.refused
    assert len(applied.applied) == len(fixes)
    assert _normal(ast.parse(applied.text)) == _normal(tree)
    if not removed:
        assert _comments(applied.text) == _comments(text)
    # In the other order, and as one fix, the text is the same.
    assert apply_edits(text, fixes[::-1]).text == applied.text
    if not edits:
        assert applied.text == text
    # What the text has now, setting it again leaves alone.
    again = [edit for edit in edits if isinstance(edit, SetKeyword)]
    moved = next(
        span
        for node, span in all_of(applied.text, ast.Call)
        if _normal(ast.Module([ast.Expr(node)], [])) == _normal(ast.Module([ast.Expr(target)], []))
    )
    same = [(SetKeyword(moved, edit.name, edit.source),) for edit in again]
    assert apply_edits(applied.text, same).text == applied.text


def test_a_value_over_several_lines_keeps_its_levels() -> None:
    text = "f(\n    a=1,\n)\n"
    taken = "{\n                'b': [\n                    2,\n                ],\n            }"
    assert fixed(text, SetKeyword(call(text), "k", taken)) == (
        "f(\n    a=1,\n    k={\n        'b': [\n            2,\n        ],\n    },\n)\n"
    )


@pytest.mark.parametrize("condition", ["(x or(a))", "(not(a))", "((x)and(a))", "((x)if y else(a))"])
def test_operators_without_spaces_are_read_as_they_are(condition: str) -> None:
    text = f"z = {condition}\n"
    at = text.rfind("(a)") + 1
    result = apply_edits(text, [[ReplaceExpression(Span(at, at + 1), "b or c")]])
    assert result.text == text.replace("(a)", "(b or c)")
