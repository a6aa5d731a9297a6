"""What warns at the target, by whom, and that a notice fails no run."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.cli.main import main
from memlint.rule.findings import Level
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source
from tests.rules.fixing import fixed

HEAD = "from transformers import AutoModelForCausalLM, Qwen2ForCausalLM, TrainingArguments\n"


def messages(text: str, target: str = "") -> list[str]:
    api = Api(parse_target(target) if target else newest())
    found = check_source(Source("a.py", HEAD + text), load(["MEM902"]), api)
    assert all(one.level is Level.NOTICE for one in found)
    return [one.message for one in found]


@pytest.mark.parametrize(
    ("load_call", "newest_warns", "older_warns"),
    [
        ('AutoModelForCausalLM.from_pretrained("a", torch_dtype="bfloat16")', True, True),
        ('AutoModelForCausalLM.from_pretrained("a", torch_dtype=dtype)', True, True),
        ('AutoModelForCausalLM.from_pretrained("a", torch_dtype="auto")', False, True),
        (
            'AutoModelForCausalLM.from_pretrained("a", config=c, torch_dtype="bfloat16")',
            False,
            True,
        ),
        ('Qwen2ForCausalLM.from_pretrained("a", torch_dtype="bfloat16")', False, True),
        ('AutoModelForCausalLM.from_pretrained("a", dtype="bfloat16")', False, False),
    ],
)
def test_torch_dtype_is_reported_where_it_warns(
    load_call: str, newest_warns: bool, older_warns: bool
) -> None:
    assert bool(messages(load_call)) is newest_warns
    assert bool(messages(load_call, "transformers=4.57,trl=0.24")) is older_warns
    assert messages(load_call, "transformers=4.55,trl=0.20") == []


def test_a_deprecation_names_the_library_that_warns() -> None:
    text = 'from trl import SFTConfig\nSFTConfig("out", gradient_checkpointing=True)\n'
    (message,) = messages(text)
    assert message == "`gradient_checkpointing` is deprecated in transformers 5.23.0"
    text = 'from trl import SFTConfig\nSFTConfig("out", use_liger_kernel=True)\n'
    (message,) = messages(text)
    assert message.startswith("`use_liger_kernel` is deprecated in trl 1.16")
    text = 'from trl import SFTConfig\nSFTConfig("out", max_seq_length=512)\n'
    (message,) = messages(text, "trl=0.16,transformers=4.50")
    assert message.startswith("`max_seq_length` is deprecated in trl 0.16")


def test_a_notice_is_shown_and_fails_no_run(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(f'{HEAD}AutoModelForCausalLM.from_pretrained("a", torch_dtype="bfloat16")\n')
    result = CliRunner().invoke(
        main, ["check", "--no-cache", "--target", "transformers=5.23", str(file)]
    )
    assert "MEM902" in result.output
    assert result.exit_code == 0


TRAINED = "from transformers import Trainer, TrainingArguments\n{}Trainer('gpt2', args).train()\n"
SHARED = (
    "common = {'output_dir': 'o', 'gradient_checkpointing': True}\n"
    "def older(output_dir, gradient_checkpointing):\n    print(gradient_checkpointing)\n"
    "older(**common)\nargs = TrainingArguments(**common)\n",
    "common = dict(output_dir='o', gradient_checkpointing=True)\n"
    "for key in sorted(common):\n    print(common[key])\nargs = TrainingArguments(**common)\n",
    "import ledger\ncommon = {'output_dir': 'o', 'gradient_checkpointing': True}\n"
    "ledger.keep(common)\nargs = TrainingArguments(**common)\n",
    "import ledger\ncommon = {'output_dir': 'o'}\ncommon['gradient_checkpointing'] = True\n"
    "ledger.run(**common)\nargs = TrainingArguments(**common)\n",
)
ALONE = (
    "args = TrainingArguments('o', gradient_checkpointing=True)\n",
    "args = TrainingArguments(**{'output_dir': 'o', 'gradient_checkpointing': True})\n",
    "common = {'output_dir': 'o', 'gradient_checkpointing': True}\n"
    "args = TrainingArguments(**common)\n",
    "args = TrainingArguments('o', gradient_checkpointing=True)\n"
    "print(args.gradient_checkpointing)\n",
)


@pytest.mark.parametrize("text", SHARED)
def test_a_key_that_others_may_take_is_not_renamed_safely(text: str) -> None:
    script = TRAINED.format(text)
    assert fixed(script, "MEM902") == script
    assert "activation_checkpointing" in fixed(script, "MEM902", unsafe=True)


@pytest.mark.parametrize("text", ALONE)
def test_a_key_that_nothing_else_takes_is_renamed(text: str) -> None:
    assert "activation_checkpointing" in fixed(TRAINED.format(text), "MEM902")


def test_an_option_that_is_read_by_its_old_name_is_not_renamed_safely() -> None:
    text = "args = TrainingArguments('o', evaluation_strategy='no')\nprint(args.{})\n"
    script = TRAINED.format(text)
    old, other = script.format("evaluation_strategy"), script.format("output_dir")
    assert fixed(old, "MEM902", target="transformers=4.44") == old
    assert "eval_strategy='no'" in fixed(other, "MEM902", target="transformers=4.44")
