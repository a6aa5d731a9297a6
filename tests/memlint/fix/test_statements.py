"""Statements inserted, removed, wrapped and decorated."""

from __future__ import annotations

import ast

import pytest

from memlint.source.edits import (
    AddDecorator,
    AddImport,
    InsertStatement,
    RemoveStatement,
    RenameAttribute,
    SetKeyword,
    WrapStatements,
)
from tests.memlint.fix.places import apply_edits

from .places import all_of, call, fixed, refusal, spot, statement

INSERTED = [
    ("a()\n", "before", "new()\na()\n"),
    ("a()\n", "after", "a()\nnew()\n"),
    ("a()", "after", "a()\nnew()"),
    ("a()  # why\nb()\n", "after", "a()  # why\nnew()\nb()\n"),
    ("a();\n", "after", "a();\nnew()\n"),
    ("# about a\na()\n", "before", "# about a\nnew()\na()\n"),
    ("if x:\n\ta()\n", "before", "if x:\n\tnew()\n\ta()\n"),
    ("if x:\n\ta()\n", "after", "if x:\n\ta()\n\tnew()\n"),
    ("a(\n    1,\n)\nb()\n", "after", "a(\n    1,\n)\nnew()\nb()\n"),
    ("a()\r\n", "before", "new()\r\na()\r\n"),
    ("if a():\n    b()\n# end\n", "after", "if a():\n    b()\nnew()\n# end\n"),
    ("\x0ca()\n", "before", "\x0cnew()\na()\n"),
    ("@a\ndef f(): ...\n", "before", "new()\n@a\ndef f(): ...\n"),
]


@pytest.mark.parametrize(("before", "where", "after"), INSERTED)
def test_statement_is_inserted_on_a_line_of_its_own(before: str, where: str, after: str) -> None:
    found = all_of(before, ast.stmt)
    place = next(span for node, span in found if "a" in ast.unparse(node).split("if x")[0])
    if where == "before":
        assert fixed(before, InsertStatement(place, "new()")) == after
    else:
        assert fixed(before, InsertStatement(place, "new()", "after")) == after


def test_several_lines_are_indented_as_the_file_is() -> None:
    before = "if x:\n\ta()\n"
    source = 'with y:\n    s = """\n  b"""\n    if z:\n        c()'
    assert fixed(before, InsertStatement(spot(before, "a()"), source)) == (
        'if x:\n\twith y:\n\t\ts = """\n  b"""\n\t\tif z:\n\t\t\tc()\n\ta()\n'
    )


@pytest.mark.parametrize("text", ["a(); b()\n", "if x: b()\n", "if x:\n    1\nelif b():\n    2\n"])
def test_a_shared_line_is_a_reason_to_refuse(text: str) -> None:
    place = (
        spot(text, "elif b():\n    2")._replace(start=text.index("elif") + 0)
        if "elif" in text
        else spot(text, "b()")
    )
    assert refusal(text, InsertStatement(place, "new()"))
    assert apply_edits(text, [(InsertStatement(place, "new()"),)]).text == text


REMOVED = [
    ("x\na()\ny\n", "x\ny\n"),
    ("# stays\na()  # goes\ny\n", "# stays\ny\n"),
    ("x\na()", "x\n"),
    ("if x:\n    a()\n", "if x:\n    pass\n"),
    ("if x:\n    a()\n    b\n", "if x:\n    b\n"),
    ("if x: a()\n", "if x: pass\n"),
    ("if x: a(); b\n", "if x: b\n"),
    ("x; a(); y\n", "x; y\n"),
    ("a(); y\n", "y\n"),
    ("x; a()\n", "x\n"),
    ("x; a();\n", "x;\n"),
    ("try:\n    a()\nfinally:\n    b\n", "try:\n    pass\nfinally:\n    b\n"),
    ("for x in y:\n    b\nelse:\n    a()\n", "for x in y:\n    b\nelse:\n    pass\n"),
    ("a(\n  1,  # goes\n)\r\nb\r\n", "b\r\n"),
]


@pytest.mark.parametrize(("before", "after"), REMOVED)
def test_statement_goes_with_its_lines(before: str, after: str) -> None:
    assert fixed(before, RemoveStatement(call(before))) == after


def test_decorators_go_with_their_function() -> None:
    before = "x\n@d  # goes\n@e\ndef f():\n    return 1\n# stays\ny\n"
    place = all_of(before, ast.FunctionDef)[0][1]
    assert fixed(before, RemoveStatement(place)) == "x\n# stays\ny\n"


def test_a_block_emptied_by_several_fixes_gets_one_pass() -> None:
    before = "if x:\n    a()\n    b()\nc\n"
    fixes = [(RemoveStatement(call(before, at)),) for at in (0, 1)]
    assert apply_edits(before, fixes).text == "if x:\n    pass\nc\n"


def test_a_statement_is_replaced_by_removing_and_inserting() -> None:
    before = "if x:\n    a()\nc\n"
    edits = (InsertStatement(call(before), "new()"), RemoveStatement(call(before)))
    assert fixed(before, *edits) == "if x:\n    new()\nc\n"
    edits = (RemoveStatement(call(before)), InsertStatement(call(before), "new()", "after"))
    assert fixed(before, *edits) == "if x:\n    new()\nc\n"


def test_statements_are_wrapped_and_strings_keep_their_text() -> None:
    before = 'if x:\n    # why\n    a = """\n  text\n"""\n\n    b(\n        1,\n    )  # c\n    d\n'
    found = [span for node, span in all_of(before, ast.stmt) if not isinstance(node, ast.If)]
    assert fixed(before, WrapStatements(found[0], found[1], "with y as z:")) == (
        'if x:\n    # why\n    with y as z:\n        a = """\n  text\n"""\n\n'
        "        b(\n            1,\n        )  # c\n    d\n"
    )


def test_what_is_wrapped_can_be_edited_in_the_same_fix() -> None:
    before = "a(\n    x,\n)\nif b:\n    c\n"
    edits = (
        WrapStatements(statement(before, 0), statement(before, 1), "with y:"),
        SetKeyword(call(before), "k", "{\n    1: 2,\n}"),
    )
    assert fixed(before, *edits) == (
        "with y:\n    a(\n        x,\n        k={\n            1: 2,\n        },\n    )\n"
        "    if b:\n        c\n"
    )


def test_statement_before_a_wrapped_one_stays_outside_and_removed_ones_leave_nothing() -> None:
    before = "a()\nb()\nc()\n"
    first, second, third = (call(before, at) for at in range(3))
    edits = (
        WrapStatements(first, third, "with y:"),
        InsertStatement(first, "y = 1"),
        RemoveStatement(second),
        InsertStatement(third, "z()", "after"),
    )
    assert fixed(before, *edits) == "y = 1\nwith y:\n    a()\n    c()\nz()\n"


def test_wrapping_asks_for_one_block_in_order() -> None:
    text = "if x:\n    a()\nb()\n"
    assert "one block" in refusal(text, WrapStatements(call(text, 0), call(text, 1), "with y:"))
    text = "a()\nb()\n"
    assert "one block" in refusal(text, WrapStatements(call(text, 1), call(text, 0), "with y:"))
    assert "header" in refusal(text, WrapStatements(call(text, 0), call(text, 1), "with y"))


def test_decorator_goes_outermost_and_only_once() -> None:
    before = "class A:\n    @b\n    def f(self): ...\n"
    place = all_of(before, ast.FunctionDef)[0][1]
    after = fixed(before, AddDecorator(place, "torch.no_grad()"))
    assert after == "class A:\n    @torch.no_grad()\n    @b\n    def f(self): ...\n"
    place = all_of(after, ast.FunctionDef)[0][1]
    assert fixed(after, AddDecorator(place, "torch.no_grad()")) == after
    before = "@b\nasync def f(): ...\n"
    place = all_of(before, ast.AsyncFunctionDef)[0][1]
    assert fixed(before, AddDecorator(place, "a")) == "@a\n@b\nasync def f(): ...\n"


def test_two_insertions_at_one_place_keep_their_order() -> None:
    before = "a()\n"
    edits = (InsertStatement(call(before), "z()"), InsertStatement(call(before), "b()"))
    assert fixed(before, *edits) == "z()\nb()\na()\n"


def test_attribute_is_renamed_beside_an_insertion() -> None:
    before = "x.old.y()\n"
    edits = (
        InsertStatement(statement(before), "b()"),
        RenameAttribute(spot(before, "x.old"), "new"),
    )
    assert fixed(before, *edits) == "b()\nx.new.y()\n"


def test_what_follows_a_block_and_what_ends_it_at_one_place_keep_their_levels() -> None:
    before = "try:\n    import a\nexcept E:\n    b()\nc = 1\n"
    fixes = [
        (InsertStatement(spot(before, "b()"), "torch.f()", "after"), AddImport("torch")),
        (InsertStatement(statement(before, 0), "d()", "after"), AddImport("os")),
    ]
    after = "import torch\n\ntry:\n    import a\nexcept E:\n    b()\n    torch.f()\nd()\nc = 1\n"
    assert apply_edits(before, [fixes[0], fixes[1][:1]]).text == after
    assert fixed(before, *fixes[1], InsertStatement(spot(before, "b()"), "os.f()", "after")) == (
        "import os\n\ntry:\n    import a\nexcept E:\n    b()\n    os.f()\nd()\nc = 1\n"
    )


def test_nothing_goes_above_the_future() -> None:
    text = "'doc'\nfrom __future__ import annotations\na()\n"
    place = statement(text, 0)
    assert "__future__" in refusal(text, InsertStatement(place, "b()"))
    assert "__future__" in refusal(text, InsertStatement(place, "b()", "after"))
    place = statement(text, 1)
    assert "__future__" in refusal(text, InsertStatement(place, "b()"))
    assert "__future__" in refusal(text, WrapStatements(place, place, "with x:"))
    after = fixed(text, InsertStatement(place, "b()", "after"))
    assert after == text.replace("a()", "b()\na()")
