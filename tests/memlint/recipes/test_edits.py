"""Edits of recipes: what they write, and every other byte as it was."""

from __future__ import annotations

import pytest
import yaml

from memlint.fix.recipes import apply_recipe_edits
from memlint.recipes.document import MappingNode, read_document, resolved
from memlint.rule.edits import Edit, RemoveItem, RenameItem, SetItem
from memlint.source import Source, Span

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


def refusal(text: str, *edits: Edit) -> str:
    applied = apply_recipe_edits(Source("r.yaml", text), [edits])
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
    assert applied.postponed == (1,)
    assert applied.text == "a: 3\nb: 1\n"
