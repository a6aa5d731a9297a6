"""Reading YAML and JSON with places, and files that were made to do harm."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memlint.recipes.document import (
    DocumentError,
    MappingNode,
    Scalar,
    read_document,
    resolved,
    values,
)
from memlint.recipes.files import may_be_recipe
from memlint.recipes.kinds import reader_by_keys
from memlint.source import Source
from tests.examples import examples

TEXT = """\
# é before
name: "ü"   # quoted
on: yes
lr: 2.0e-5
word: 1e-5
empty:
list: [a, {b: 1}]
block:
- x: 1
  y: |
    text
    more

after: &a {k: v}
again: *a
<<: *a
"""


def read(text: str, path: str = "recipe.yaml") -> MappingNode:
    return read_document(Source(path, text)).root


def test_values_are_those_of_the_safe_loader() -> None:
    assert values(read(TEXT)) == yaml.safe_load(TEXT)


def test_spans_are_bytes_of_key_and_value() -> None:
    source = Source("recipe.yaml", TEXT)
    shown = {
        str(key.value): (source.slice(key.span), source.slice(value.span))
        for key, value in read_document(source).root.entries
    }
    assert shown["name"] == ("name", '"ü"')
    assert shown["empty"] == ("empty", "")
    assert shown["list"] == ("list", "[a, {b: 1}]")
    assert shown["after"] == ("after", "&a {k: v}")
    assert shown["again"] == ("again", "*a")
    assert shown["block"][1].startswith("- x: 1")


def test_json_has_the_places_that_yaml_has() -> None:
    text = '{\n\t"zero_optimization": {"stage": 3, "offload": null},\n\t"é": [1.5, true]\n}\n'
    source = Source("ds.json", text)
    root = read_document(source).root
    assert values(root) == json.loads(text)
    stage = resolved(root.entries[0].value)
    assert isinstance(stage, MappingNode)
    assert source.slice(stage.span) == '{"stage": 3, "offload": null}'
    assert source.slice(root.entries[1].value.span) == "[1.5, true]"


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=12),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        min_size=1,
        max_size=6,
    )
)
@examples(60)
def test_what_was_dumped_is_read_back(data: dict[str, object]) -> None:
    text = yaml.safe_dump(data, allow_unicode=True)
    assert values(read(text)) == yaml.safe_load(text)
    assert values(read(json.dumps(data), "a.json")) == data


HOSTILE = {
    "laughs": "a0: &a0 [x, x]\n"
    + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
    + "model_name_or_path: x\noutput_dir: *a29\nlearning_rate: 1\n",
    "deep brackets": "model_name_or_path: " + "[" * 100_000,
    "deep braces": "base_model: " + "{a: " * 50_000,
    "deep dashes": "base_model:\n" + "- " * 60_000 + "x\n",
    "recursive": "model_name_or_path: &a [*a]\nlearning_rate: 1\noutput_dir: x\n",
    "no anchor": "model_name_or_path: *nothing\n",
    "several documents": "a: 1\n---\nmodel_name_or_path: x\n",
    "control characters": "model_name_or_path: \x07\n",
    "tabs": "model_name_or_path:\n\t- a\n",
    "empty": "",
    "list": "- base_model\n",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_read_or_refused_in_one_line(text: str) -> None:
    began = time.process_time()
    with pytest.raises((DocumentError, ValueError)) as refused:
        values(read(text))
    assert "\n" not in str(refused.value)
    assert time.process_time() - began < 60


@pytest.mark.parametrize(
    "text", ['{"a": ' * 200_000, '{"zero_optimization": ' + "[" * 100_000 + "]" * 100_000 + "}"]
)
def test_hostile_json_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(DocumentError):
        read(text, "ds.json")


def test_a_large_file_is_no_recipe() -> None:
    text = "model_name_or_path: x\n" + "# comment\n" * 60_000
    assert not may_be_recipe(text.encode())
    with pytest.raises(DocumentError, match="more than the 256 KiB"):
        read(text)


def test_a_tag_constructs_nothing(tmp_path: Path) -> None:
    target = tmp_path / "made"
    text = f"model_name_or_path: !!python/object/apply:os.mkdir ['{target}']\nbase: !x y\n"
    root = read(text)
    assert not target.exists()
    node = root.entries[1].value
    assert isinstance(node, Scalar)
    assert node.tagged


def test_duplicate_keys_are_named() -> None:
    document = read_document(Source("a.yaml", "a: 1\nb: {c: 1, c: 2}\na: 3\n"))
    assert [key.value for key in document.duplicates] == ["c", "a"]
    entry = document.root.entry("a")
    assert entry is not None
    assert resolved(entry.value).value == 3  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("model_name_or_path: a\nlearning_rate: 1\noutput_dir: b\n", "TRL"),
        (
            "model_name_or_path: a\nlearning_rate: 1\noutput_dir: b\ndataset_mixture: {}\n",
            "alignment-handbook",
        ),
        ("model_name_or_path: a\nstage: dpo\nfinetuning_type: lora\n", "LLaMA-Factory"),
        ("base_model: a\ndatasets: []\nsequence_len: 4\n", "axolotl"),
        ("base_model: a\ndatasets: []\nsequence_len: 4\ndebug:\ngptq_groupsize:\n", "axolotl"),
        ("base_model: a\ndatasets: []\nsequence_len: 4\nteam: b\n", None),
        ("base_model: a\nsequence_len: 4\nlearning_rate: 1\n", None),
        ("model:\n  _component_: torchtune.models.llama2.llama2_7b\n", "torchtune"),
        ("distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\n", "accelerate"),
        ("zero_optimization: {stage: 2}\n", "DeepSpeed"),
        ("model_name_or_path: a\nlearning_rate: 1\noutput_dir: b\nwith_tracking: 1\n", None),
        ("model_name_or_path: a\nstage: dpo\nfinetuning_type: lora\nmine: 1\n", None),
        ("distributed_type: FSDP\nnum_processes: 8\nmodel: x\n", None),
        ("zero_optimization: {stage: 2}\nlearner: x\n", None),
        ("services:\n  web:\n    environment: [base_model=x]\n", None),
        ("base_model: a\ntask_type: CAUSAL_LM\n", None),
        ("model_name_or_path: a\nport: 80\n", None),
        ("model:\n  _component_: mine.Model\n", None),
    ],
)
def test_kinds_are_recognized_by_their_keys(text: str, kind: str | None) -> None:
    reader = reader_by_keys(read(text))
    assert (reader.kind if reader is not None else None) == kind
