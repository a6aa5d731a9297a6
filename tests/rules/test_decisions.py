"""What a comment explains is not rewritten: it would be false afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.cli.main import run
from tests.rules.fixing import fixed, found

HEAD = "from trl import SFTConfig, SFTTrainer\n"
TAIL = '\nSFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows).train()\n'
EXPLAINED = (
    'args = SFTConfig("out", max_length=None)  # whole conversations',
    'args = SFTConfig(\n    "out",\n    max_length=None,  # "#1": whole conversations\n)',
    'args = SFTConfig(\n    "out",\n    # no maximum: answers end late\n    max_length=None,\n)',
    'args = SFTConfig(\n    "out",\n    max_length=None,\n)  # the length is bounded before',
    '# rows have a length of 300 at most\nargs = SFTConfig("out", max_length=None)',
    'LONGEST = None  # whole conversations\nargs = SFTConfig("out", max_length=LONGEST)',
    'args = SFTConfig("out")\nargs.max_length = None  # whole conversations',
    'options = {"max_length": None}  # whole conversations\nargs = SFTConfig("out", **options)',
)
PLAIN = (
    'args = SFTConfig("out", max_length=None)',
    'args = SFTConfig("out", max_length=None)  # noqa: E501',
    'args = SFTConfig("out #1", max_length=None)',
    '# training\nargs = SFTConfig("out", max_length=None)',
    'args = SFTConfig(\n    max_length=None,\n    output_dir="out",  # a folder\n)',
)


@pytest.mark.parametrize("text", EXPLAINED)
def test_what_a_comment_explains_stays(text: str) -> None:
    script = HEAD + text + TAIL
    assert [one.fix.applicability.value for one in found(script, "MEM101") if one.fix] == [
        "display"
    ]
    assert fixed(script, "MEM101", unsafe=True) == script


@pytest.mark.parametrize("text", PLAIN)
def test_other_comments_hold_nothing_back(text: str) -> None:
    script = HEAD + text + TAIL
    assert fixed(script, "MEM101", unsafe=True) != script


def test_what_stops_the_script_goes_all_the_same() -> None:
    script = 'from trl import DPOConfig\nargs = DPOConfig("out", warmup_ratio=0.1)  # a tenth\n'
    assert "warmup_ratio" not in fixed(script, "MEM901", "MEM902", target="trl=1.16")


TUNED = """\
model:
  _component_: torchtune.models.llama3_2.llama3_2_1b
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
dataset:
  _component_: torchtune.datasets.alpaca_dataset
batch_size: 2
optimizer:
  _component_: torch.optim.AdamW
{}dtype: fp32{}
"""
AXOLOTL = """\
base_model: NousResearch/Llama-3.2-1B
datasets: [{{path: a, type: alpaca}}]
sequence_len: 2048
micro_batch_size: 2
output_dir: ./out
{}bf16: false{}
fp16: false
"""
TRAINED = """\
model_name_or_path: Qwen/Qwen3-0.6B
dataset_name: trl-lib/Capybara
learning_rate: 1.0e-5
output_dir: out
{}bf16: false{}
"""
DOCUMENTS = {"TRL": TRAINED, "axolotl": AXOLOTL, "torchtune": TUNED}
COMMENTS = {
    "behind it": ("", "  # it diverged"),
    "above it": ("# half precision made it diverge\n", ""),
}


def rewritten(text: str, folder: Path) -> str:
    path = folder / "a.yaml"
    path.write_text(text)
    (folder / "run.sh").write_text("trl sft --config a.yaml\n" if "dataset_name" in text else "")
    run(["fix", "--no-cache", "--unsafe-fixes", "--select", "MEM401,MEM402", str(path)])
    return path.read_text()


@pytest.mark.parametrize("program", DOCUMENTS)
@pytest.mark.parametrize("comment", COMMENTS)
def test_what_a_comment_of_a_recipe_explains_stays(
    program: str, comment: str, tmp_path: Path
) -> None:
    text = DOCUMENTS[program].format(*COMMENTS[comment])
    assert rewritten(text, tmp_path) == text


@pytest.mark.parametrize("program", DOCUMENTS)
@pytest.mark.parametrize(
    "comment", [("", ""), ("# training\n", ""), ("\n# ----\n", ""), ("", "  # noqa: x")]
)
def test_other_comments_of_a_recipe_hold_nothing_back(
    program: str, comment: tuple[str, str], tmp_path: Path
) -> None:
    text = DOCUMENTS[program].format(*comment)
    assert rewritten(text, tmp_path) != text


def test_a_comment_that_describes_an_option_holds_nothing_back(tmp_path: Path) -> None:
    text = AXOLOTL.format("", "  # true takes half the memory")
    assert "bf16: auto" in rewritten(text, tmp_path)
    text = AXOLOTL.format("", "  # false since the cards are old")
    assert "bf16: false" in rewritten(text, tmp_path)
