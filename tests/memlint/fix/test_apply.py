"""Many fixes at once, odd files, and the gates that keep a wrong text from being written."""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memlint.fix.apply as apply_module
from memlint.fix.draft import Splice
from memlint.fix.spans import Tree, parse
from memlint.fix.splicing import split_lines, text_edits
from memlint.source import Span
from memlint.source.edits import (
    AddImport,
    Edit,
    InsertStatement,
    RemoveKeyword,
    RemoveStatement,
    RenameKeyword,
    ReplaceCallee,
    SetKeyword,
    WrapStatements,
)
from tests.examples import examples
from tests.memlint.fix.places import apply_edits

from .places import all_of, call, fixed, spot, statement

ODD = {
    "CRLF": "import os\r\nf(\r\n    a,\r\n)\r\n",
    "lone CR": "import os\rf(\r    a,\r)\rz\r",
    "all newlines": "import os\r\nf(a)\ng(b)\rh(c)",
    "tabs": "if x:\n\tf(\n\t\ta,\n\t)\n",
    "form feed at the start": "\x0cf(a)\n",
    "form feed in a line of its own": "import os\n\x0c\nf(a)\n",
    "form feed in an indentation": "if x:\n    y\n\x0c    f(a)\n",
    "form feed between tokens": "x =\x0cf(\x0ca)\n",
    "no newline at the end": "f(a)",
    "white space at the end": "f(a)\n    ",
    "blank lines at the end": "f(a)\n\n\n\t\n",
    "comment at the end": "f(a)\n# end",
    "U+2028 in a string": "x = '\u2028\x85\x0b'; f(a)\n",
    "non-ASCII before": "é = 'ü𝄞'; f(a)\n",
    "encoding cookie": "# -*- coding: latin-1 -*-\nf(a)\n",
    "cookie and shebang": "#!/usr/bin/python\n# vim: set fileencoding=utf-8 :\nf(a)\n",
    "semicolons": "x = 1;f(a);y = 2;\n",
    "continued line": "x = 1 + \\\n  f(a)\n",
    "parentheses": "(((f)(a)))\n",
    "nothing between tokens": "x=[f(a)if b else c]\n",
    "string with newlines": 'x = """\r\n  \x0c\r\n"""\r\nf(a)\r\n',
}


@pytest.mark.parametrize("name", ODD)
def test_odd_files_change_only_where_the_edit_says(name: str) -> None:
    before = ODD[name]
    after = fixed(before, SetKeyword(call(before), "k", "1"))
    changes = text_edits(before, after)
    assert all(change.span.start == change.span.end for change in changes)
    assert "".join(change.content for change in changes).strip(", \t\r\n") == "k=1"
    assert {line[-1:] for line in split_lines(after)} == {line[-1:] for line in split_lines(before)}


@pytest.mark.parametrize("name", ODD)
def test_fixes_that_do_nothing_leave_every_byte(name: str) -> None:
    before = ODD[name]
    done = fixed(before, SetKeyword(call(before), "k", "1"))
    assert fixed(done, SetKeyword(call(done), "k", "1")) == done
    assert fixed(before, ReplaceCallee(call(before), "f")) == before
    assert apply_edits(before, []).text == before


def test_inserted_lines_use_the_newline_of_the_file() -> None:
    before = "import os\r\nf(\r\n)\r\n"
    after = fixed(
        before,
        SetKeyword(call(before), "k", "torch.f"),
        AddImport("torch"),
        InsertStatement(call(before), "a = {\n    1: 2,\n}"),
        InsertStatement(call(before), "b", "after"),
    )
    assert after == (
        "import os\r\nimport torch\r\na = {\r\n    1: 2,\r\n}\r\nf(\r\n    k=torch.f,\r\n)\r\nb\r\n"
    )


def test_spans_agree_with_ast_in_this_very_file() -> None:
    with open(__file__, encoding="utf-8", newline="") as file:
        text = file.read()
    tree = parse(text)
    for node, span in itertools.chain(all_of(text, ast.expr), all_of(text, ast.stmt)):
        bare = isinstance(node, ast.Constant | ast.JoinedStr | ast.FormattedValue | ast.Starred)
        if isinstance(node, ast.Tuple) and text.encode()[span.start : span.start + 1] != b"(":
            continue  # In ``x[a, b]`` libcst sees no tuple.
        if not bare and not isinstance(node, ast.Slice):
            assert tree.find(span, object) is not None, ast.unparse(node)


# -- several fixes ---------------------------------------------------------------------------------


def test_the_edits_of_one_fix_are_made_together_or_not_at_all() -> None:
    text = "f(a=1)\ng(b=2)\n"
    fix = (RemoveKeyword(call(text, 0), "a"), RemoveKeyword(call(text, 1), "missing"))
    applied = apply_edits(text, [fix, (SetKeyword(call(text, 1), "k", "1"),)])
    assert applied.text == "f(a=1)\ng(b=2, k=1)\n"
    assert applied.applied == (1,)
    assert "missing" in applied.refused[0]


def test_edits_of_one_fix_that_overlap_are_refused() -> None:
    text = "f(a=g(b))\n"
    fix = (RemoveKeyword(call(text), "a"), SetKeyword(call(text, 1), "k", "1"))
    assert "overlap" in apply_edits(text, [fix]).refused[0]
    fix = (RenameKeyword(call(text), "a", "c"), SetKeyword(call(text), "c", "1"))
    assert "overlap" in apply_edits(text, [fix]).refused[0]


def test_fixes_that_overlap_wait_whatever_their_order() -> None:
    text = "f(a=g(b), c=1)\n"
    outer: tuple[Edit, ...] = (SetKeyword(call(text), "a", "2"),)
    inner: tuple[Edit, ...] = (SetKeyword(call(text, 1), "k", "1"),)
    other: tuple[Edit, ...] = (RenameKeyword(call(text), "c", "d"),)
    results = {
        apply_edits(text, order).text for order in itertools.permutations([outer, inner, other])
    }
    assert results == {"f(a=2, d=1)\n"}
    assert apply_edits(text, [inner, other, outer]).applied == (1, 2)
    # One that sets a keyword to one value and one that sets it to another.
    fixes = [(SetKeyword(call(text), "k", value),) for value in "12"]
    applied = apply_edits(text, fixes)
    assert (applied.applied, applied.refused) == ((0,), {})
    # The same edit twice is one edit.
    assert apply_edits(text, [fixes[0], fixes[0]]).applied == (0, 1)
    assert apply_edits(text, [fixes[0], fixes[0]]).text.count("k=1") == 1


def test_fixes_inside_a_removed_or_wrapped_statement_wait() -> None:
    text = "f(a)\ng(b)\n"
    change: tuple[Edit, ...] = (SetKeyword(call(text), "k", "1"),)
    for whole in (
        RemoveStatement(call(text)),
        WrapStatements(call(text), call(text, 1), "with x:"),
    ):
        applied = apply_edits(text, [change, (whole,)])
        assert (len(applied.applied), applied.refused) == (1, {})


@examples(60)
@given(st.permutations(range(7)), st.integers(1, 7))
def test_order_never_matters(order: Sequence[int], count: int) -> None:
    text = "import os\n\nx = f(\n    a=1,\n    b=g(c, d=2),  # why\n)\nh(x)\n"
    outer, inner = call(text), call(text, 1)
    fixes: list[tuple[Edit, ...]] = [
        (SetKeyword(outer, "z", "1"), SetKeyword(outer, "y", "2")),
        (SetKeyword(outer, "k", "torch.x"), AddImport("torch")),
        (RemoveKeyword(outer, "a"), SetKeyword(outer, "new", "m.n")),
        (SetKeyword(inner, "e", "3"), RenameKeyword(inner, "d", "D")),
        (ReplaceCallee(inner, "G"), AddImport("m", "G")),
        (InsertStatement(statement(text, 2), "print(1)"),),
        (SetKeyword(outer, "z", "other"),),
    ]
    chosen = [fixes[at] for at in sorted(order[:count])]
    shuffled = [fixes[at] for at in order[:count]]
    one, other = apply_edits(text, chosen), apply_edits(text, shuffled)
    assert one.text == other.text
    assert {repr(chosen[at]) for at in one.applied} == {repr(shuffled[at]) for at in other.applied}
    ast.parse(one.text)


@examples(100)
@given(st.data())
def test_lines_that_no_edit_names_stay(data: st.DataObject) -> None:
    lines = data.draw(st.lists(st.sampled_from(
        ["f(a, b=1)  # c", "x = [1,\n     2]", "", "# note", "g(\n    a=1,  # d\n    b=h(2),\n)",
         "if y:\n\tk(b=1)", "\x0c", "s = '''\n  t\n'''", "m.n(a); o(b=2)"]
    ), min_size=1))  # fmt: skip
    newline = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    text = newline.join("\n".join(lines).split("\n")) + data.draw(st.sampled_from(["", newline]))
    calls = all_of(text, ast.Call)
    if not calls:
        return
    node, place = data.draw(st.sampled_from(calls))
    assert isinstance(node, ast.Call)
    edits: list[Edit] = [SetKeyword(place, "k", "1")]
    if node.keywords:
        edits.append(RemoveKeyword(place, node.keywords[0].arg or ""))
    applied = apply_edits(text, [(data.draw(st.sampled_from(edits)),)])
    assert applied.applied == (0,), applied.refused
    starts = list(itertools.accumulate(map(len, split_lines(text)), initial=0))
    first = max(at for at, start in enumerate(starts) if start <= place.start)
    last = max(at for at, start in enumerate(starts) if start < place.end)
    old, new = split_lines(text), split_lines(applied.text)
    kept = len(old) - last - 1
    assert old[:first] == new[:first]
    assert old[last + 1 :] == new[len(new) - kept :]


# -- files that cannot be rewritten, and our own mistakes ------------------------------------------


def test_a_chain_too_deep_for_libcst_is_refused_and_not_a_crash() -> None:
    text = "x" + ".f(1)" * 400 + "\ng(a)\n"
    edit = (SetKeyword(Span(len(text) - 5, len(text) - 1), "k", "1"),)
    applied = apply_edits(text, [edit])
    assert applied.text == text
    assert "nested too deeply" in applied.refused[0]


def test_a_file_that_does_not_parse_is_refused() -> None:
    for text in ("f(a", "x = \ud800", "def"):
        applied = apply_edits(text, [(SetKeyword(Span(0, 1), "k", "1"),)])
        assert applied.text == text
        assert "cannot be rewritten" in applied.refused[0]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this syntax is newer than Python 3.11")
def test_syntax_newer_than_the_interpreter_can_be_rewritten() -> None:
    text = "type A[T] = list[T]\nf(a)\n"
    with pytest.raises(SyntaxError):
        ast.parse(text)
    assert fixed(text, SetKeyword(spot(text, "f(a)"), "k", "1")) == (
        "type A[T] = list[T]\nf(a, k=1)\n"
    )


@pytest.mark.parametrize(
    ("splice", "reason"),
    [
        (Splice(Span(8, 8), ")"), "does not parse"),
        (Splice(Span(8, 14), ""), "a comment would be lost"),
        (Splice(Span(2, 3), "z"), "no edit names"),
        (Splice(Span(8, 8), "\nf(a=1, a=2)"), "does not parse"),
    ],
)
def test_a_wrong_text_is_thrown_away(
    splice: Splice, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "a(1)\nb() # why\nc()\n"
    good = apply_module.merged

    def wrong(tree: Tree, drafts: list[apply_module.Draft]) -> list[Splice]:
        made = good(tree, drafts)
        return [splice] if any("bad" in one.text for one in made) else made

    monkeypatch.setattr(apply_module, "merged", wrong)
    bad = (SetKeyword(call(text, 1), "bad", "1"),)
    fine = (SetKeyword(call(text, 2), "k", "1"),)
    applied = apply_edits(text, [bad, fine])
    assert applied.text == "a(1)\nb() # why\nc(k=1)\n"
    assert applied.applied == (1,)
    assert reason in applied.refused[0]
    assert "please report" in applied.refused[0]


def test_a_call_without_trailing_comma_still_parses() -> None:
    """A fixer that joins lines without the comma writes ``a=1 k=1``."""
    text = "LoraConfig(\n    r=8,\n    lora_alpha=16\n)\n"
    after = fixed(text, SetKeyword(call(text), "target_modules", '"all-linear"'))
    assert after == (
        'LoraConfig(\n    r=8,\n    lora_alpha=16,\n    target_modules="all-linear"\n)\n'
    )
