"""Edits of recipes: what they write, and every other byte as it was."""

from __future__ import annotations

import pytest
import yaml

from memlint.fix.recipe_edits import apply_recipe_edits
from memlint.recipes.document import MappingNode, SequenceNode, read_document, resolved
from memlint.source import Source, Span
from memlint.source.edits import (
    Edit,
    RemoveItem,
    RemoveStatement,
    RenameItem,
    ReplaceExpression,
    SetItem,
)

TEXT = """\
# head
model_name_or_path: x   # the base
gradient_checkpointing: True
args: {a: 1,  b: "two"}  # flow
shared: &s yes
copy: *s
nested:
    deep: 1

    # about the next
    other: 'no'
items:
- name: n
  value: 1
last: |
  text
"""


def span(text: str, *keys: str, path: str = "r.yaml") -> Span:
    node: MappingNode = read_document(Source(path, text)).root
    for key in keys:
        entry = node.entry(key)
        assert entry is not None
        inner = resolved(entry.value)
        assert isinstance(inner, MappingNode)
        node = inner
    return node.span


def done(text: str, *edits: Edit, path: str = "r.yaml") -> str:
    applied = apply_recipe_edits(Source(path, text), [edits])
    assert applied.refused == {}
    return applied.text


def refusal(text: str, *edits: Edit, path: str = "r.yaml") -> str:
    applied = apply_recipe_edits(Source(path, text), [edits])
    assert applied.text == text
    return applied.refused[0]


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        (
            SetItem(span(TEXT), "gradient_checkpointing", "False"),
            "gradient_checkpointing: True",
            "gradient_checkpointing: False",
        ),
        (
            SetItem(span(TEXT), "gradient_checkpointing_kwargs", '{"use_reentrant": False}'),
            "gradient_checkpointing: True\n",
            "gradient_checkpointing: True\ngradient_checkpointing_kwargs:\n"
            "  use_reentrant: False\n",
        ),
        (SetItem(span(TEXT, "args"), "c", "[1, 'x']"), '"two"}', '"two", c: [1, x]}'),
        (SetItem(span(TEXT, "args"), "b", "None"), '"two"}', "null}"),
        (RemoveItem(span(TEXT, "args"), "a"), '{a: 1,  b: "two"}', '{b: "two"}'),
        (RemoveItem(span(TEXT, "args"), "b"), '{a: 1,  b: "two"}', "{a: 1}"),
        (RenameItem(span(TEXT, "nested"), "other", "more"), "other: 'no'", "more: 'no'"),
        (RemoveItem(span(TEXT, "nested"), "deep"), "    deep: 1\n", ""),
        (SetItem(span(TEXT, "nested"), "new", "'yes'"), "'no'\n", "'no'\n    new: \"yes\"\n"),
        (SetItem(span(TEXT), "copy", "1e-05"), "copy: *s", "copy: 1.0e-05"),
        (SetItem(span(TEXT), "tail", "2"), "  text\n", "  text\ntail: 2\n"),
        (
            RemoveItem(span(TEXT), "model_name_or_path"),
            "model_name_or_path: x   # the base",
            "# the base",
        ),
    ],
)
def test_an_edit_changes_its_own_bytes_alone(edit: Edit, old: str, new: str) -> None:
    after = done(TEXT, edit)
    assert TEXT.count(old) == 1
    assert after == TEXT.replace(old, new)
    assert isinstance(yaml.safe_load(after), dict)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (SetItem(span(TEXT), "shared", "False"), "other places refer"),
        (RemoveItem(span(TEXT), "shared"), "other places refer"),
        (SetItem(span(TEXT), "nested", "1"), "a block stands"),
        (SetItem(span(TEXT), "last", "1"), "a block"),
        (RemoveItem(span(TEXT), "nested"), "comments stand"),
        (RemoveItem(span(TEXT), "nowhere"), "no key"),
        (RenameItem(span(TEXT, "args"), "a", "b"), "is there already"),
        (SetItem(Span(1, 2), "a", "1"), "no mapping"),
        (SetItem(span(TEXT), "a", "torch.compile(x)"), "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_refused(edit: Edit, reason: str) -> None:
    assert reason in refusal(TEXT, edit)


def test_line_ends_and_a_missing_last_one_are_kept() -> None:
    text = "a: 1\r\nb: 2"
    assert done(text, SetItem(span(text), "c", "True")) == "a: 1\r\nb: 2\r\nc: true"


def test_an_empty_value_is_filled_in() -> None:
    text = "a:   # nothing yet\nb: 1\n"
    assert done(text, SetItem(span(text), "a", "3")) == "a: 3   # nothing yet\nb: 1\n"


def test_json_keeps_its_layout() -> None:
    text = '{\n  "bf16": {"enabled": false},\n  "zero": {\n    "stage": 3\n  }\n}\n'
    path = "ds.json"
    inner = span(text, "zero", path=path)
    assert done(text, SetItem(inner, "pin", "True"), path=path) == text.replace(
        '"stage": 3', '"stage": 3,\n    "pin": true'
    )
    inner = span(text, "bf16", path=path)
    assert done(text, SetItem(inner, "enabled", "True"), path=path) == text.replace("false", "true")
    assert done(text, RenameItem(inner, "enabled", "on"), path=path) == text.replace(
        "enabled", "on"
    )


def test_two_fixes_at_one_place_take_turns() -> None:
    text = "a: 1\n"
    root = span(text)
    source = Source("r.yaml", text)
    applied = apply_recipe_edits(
        source, [[SetItem(root, "b", "1")], [SetItem(root, "c", "2")], [SetItem(root, "a", "3")]]
    )
    assert applied.applied == (0, 2)
    assert applied.refused == {}
    assert applied.text == "a: 3\nb: 1\n"


ODD = """\
empty: {}
flow: {
  a: 1
}
rows:
- one: &o {x: 1}
  two: [1, 2]
alone:
  only: 1
kept: |+
  text

"""


def place(text: str, written: str) -> Span:
    start = text.index(written)
    return Span(start, start + len(written))


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        (SetItem(span(ODD, "empty"), "a", "'two words'"), "{}", '{a: "two words"}'),
        (SetItem(span(ODD, "flow"), "b", "{'c': (1, 2)}"), "a: 1\n}", "a: 1,\n  b: {c: [1, 2]}\n}"),
        (SetItem(span(ODD, "flow"), "b", "'no'"), "a: 1\n}", 'a: 1,\n  b: "no"\n}'),
        (ReplaceExpression(place(ODD, "[1, 2]"), "(3, 4)"), "[1, 2]", "[3, 4]"),
        (SetItem(span(ODD, "alone"), "only", "2.5"), "only: 1", "only: 2.5"),
    ],
)
def test_values_in_braces_and_rows_are_changed(edit: Edit, old: str, new: str) -> None:
    assert ODD.count(old) == 1
    assert done(ODD, edit) == ODD.replace(old, new)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (SetItem(place(ODD, "&o {x: 1}"), "y", "1"), "other places refer to the mapping"),
        (RemoveItem(span(ODD, "alone"), "only"), "left without a value"),
        (SetItem(span(ODD), "kept_too", "1"), "keeps its line ends"),
        (ReplaceExpression(Span(1, 2), "1"), "no value at the place"),
        (RemoveStatement(Span(0, 5)), "cannot be changed that way"),
        (SetItem(span(ODD), "empty", "{1, 2}"), "cannot be written"),
    ],
)
def test_what_would_take_more_with_it_is_refused(edit: Edit, reason: str) -> None:
    assert reason in refusal(ODD, edit)


def test_a_key_stands_behind_the_one_that_it_qualifies() -> None:
    text = "a: 1\npacking: true  # why\nz: 2\n"
    edit = SetItem(span(text), "neat_packing", "True")
    assert done(text, edit) == text.replace("z:", "neat_packing: true\nz:")


def test_a_key_that_shares_its_line_stays() -> None:
    text = "rows:\n- one: 1\n  two: 2\n"
    start = text.index("one")
    row = next(one.span for one in _rows(text) if one.span.start == start)
    assert "shares its line" in refusal(text, RemoveItem(row, "one"))
    assert done(text, RemoveItem(row, "two")) == "rows:\n- one: 1\n"


def _rows(text: str) -> list[MappingNode]:
    (entry,) = read_document(Source("r.yaml", text)).root.entries
    assert isinstance(entry.value, SequenceNode)
    return [one for one in entry.value.items if isinstance(one, MappingNode)]


def test_edits_of_one_fix_at_one_value_are_refused() -> None:
    text = "a: 1\n"
    root = span(text)
    assert "overlap" in refusal(text, SetItem(root, "a", "2"), SetItem(root, "a", "3"))


def test_a_name_that_would_break_the_file_is_thrown_away() -> None:
    text = "'a': 1\n"
    assert "went wrong" in refusal(text, RenameItem(span(text), "a", "it's"))


def test_a_file_that_does_not_parse_is_left_alone() -> None:
    assert "cannot be rewritten" in refusal("a: [\n", SetItem(Span(0, 4), "a", "1"))
