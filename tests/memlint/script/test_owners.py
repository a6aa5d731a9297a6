"""Who computes the loss, the attention and the checkpointing."""

from __future__ import annotations

from textwrap import dedent

import pytest

from memlint.script.model import Script
from memlint.script.owners import Owner
from tests.memlint.script.scripts import read

HEADER = dedent("""
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
""")


def script_of(text: str) -> Script:
    return read(HEADER + dedent(text))


FLASH = "flash_attention_2"
TRAIN = 'Trainer(model, TrainingArguments("out"))'
LOSSES: dict[str, tuple[str, Owner, bool | None]] = {
    "transformers": (TRAIN, Owner.TRANSFORMERS, True),
    "our runtime": (
        f"from memlint_runtime import fuse_causal_lm_loss\nfuse_causal_lm_loss(model)\n{TRAIN}",
        Owner.RUNTIME,
        False,
    ),
    "our deferred logits": (
        f"from memlint_runtime.losses import defer_logits\ndefer_logits(model)\n{TRAIN}",
        Owner.RUNTIME,
        False,
    ),
    "our runtime, for another model": (
        "from memlint_runtime import fuse_causal_lm_loss\n"
        f'fuse_causal_lm_loss(AutoModelForCausalLM.from_pretrained("b"))\n{TRAIN}',
        Owner.TRANSFORMERS,
        True,
    ),
    "our runtime, for who knows which": (
        f"from memlint_runtime import fuse_causal_lm_loss\nfuse_causal_lm_loss(pick())\n{TRAIN}",
        Owner.RUNTIME,
        None,
    ),
    "Liger's patch": (
        "from liger_kernel.transformers import apply_liger_kernel_to_qwen3\n"
        f"apply_liger_kernel_to_qwen3()\n{TRAIN}",
        Owner.LIGER,
        False,
    ),
    "Liger's patch, exported again by the project": (
        f"from mine import apply_liger_kernel_to_llama\napply_liger_kernel_to_llama()\n{TRAIN}",
        Owner.LIGER,
        False,
    ),
    "Liger's patch without its loss": (
        "from liger_kernel.transformers import apply_liger_kernel_to_qwen3 as patch\n"
        f"patch(fused_linear_cross_entropy=False)\n{TRAIN}",
        Owner.TRANSFORMERS,
        True,
    ),
    "Liger by option": (
        'Trainer(model, TrainingArguments("out", use_liger_kernel=True))',
        Owner.LIGER,
        False,
    ),
    "Liger's model": (
        "from liger_kernel.transformers import AutoLigerKernelForCausalLM\n"
        f'model = AutoLigerKernelForCausalLM.from_pretrained("q")\n{TRAIN}',
        Owner.LIGER,
        False,
    ),
    "cut cross entropy": (
        f"from cut_cross_entropy.transformers import cce_patch\ncce_patch(model)\n{TRAIN}",
        Owner.CUT_CROSS_ENTROPY,
        False,
    ),
    "Unsloth": (f"import unsloth\n{TRAIN}", Owner.UNSLOTH, None),
    "the script": (
        "class T(Trainer):\n    def compute_loss(self, model, inputs): return f(model)\n"
        'T(model, TrainingArguments("out"))',
        Owner.SCRIPT,
        None,
    ),
    "a subclass that only saves": (
        'class T(Trainer):\n    def save_model(self, *a): pass\nT(model, TrainingArguments("out"))',
        Owner.TRANSFORMERS,
        True,
    ),
    "a subclass that only saves, fed by a parser": (
        "from transformers import HfArgumentParser\n"
        "class T(Trainer):\n    def save_model(self, *a): pass\n"
        "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
        "T(model, args)",
        Owner.TRANSFORMERS,
        True,
    ),
    "TRL": ("from trl import SFTTrainer\nSFTTrainer(model)", Owner.TRL, False),
    "remote code": (
        'model = AutoModelForCausalLM.from_pretrained("q", trust_remote_code=True)\n' + TRAIN,
        Owner.REMOTE_CODE,
        True,
    ),
    "a model from elsewhere": (f"from mine import model\n{TRAIN}", Owner.UNKNOWN, None),
}


@pytest.mark.parametrize("case", LOSSES)
def test_owner_of_a_trainers_loss(case: str) -> None:
    text, owner, full = LOSSES[case]
    script = script_of(text)
    found = script.owner_of_loss(script.trainers[-1])
    assert (found.owner, found.full_logits) == (owner, full)


def test_owner_of_a_loops_loss() -> None:
    script = script_of("for b in loader:\n    model(**b).loss.backward()")
    (forward,) = script.forwards
    assert script.owner_of_loss(forward.facts) == (Owner.TRANSFORMERS, True, forward.facts.load)


@pytest.mark.parametrize(
    ("text", "implementation"),
    [
        ("", "default"),
        ('model = AutoModelForCausalLM.from_pretrained("q", attn_implementation="sdpa")', "sdpa"),
        ('model = AutoModelForCausalLM.from_pretrained("q", attn_implementation=pick())', None),
        ('model = AutoModelForCausalLM.from_pretrained("q", use_flash_attention_2=True)', FLASH),
        ('model = AutoModelForCausalLM.from_pretrained("q", trust_remote_code=True)', None),
        ("import unsloth", None),
    ],
)
def test_attention_that_a_model_is_loaded_with(text: str, implementation: str | None) -> None:
    script = script_of(f"{text}\n{TRAIN}")
    (trainer,) = script.trainers
    assert trainer.config is not None
    assert script.attention_of(trainer.model, trainer.config) == implementation


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("", False),
        ("model.gradient_checkpointing_enable()", True),
        ("other.gradient_checkpointing_enable()", None),
        ("from peft import prepare_model_for_kbit_training as p\nmodel = p(model)", False),
        (
            "from peft import prepare_model_for_kbit_training as p\n"
            "from transformers import BitsAndBytesConfig\n"
            "four_bit = BitsAndBytesConfig(load_in_4bit=True)\n"
            "model = AutoModelForCausalLM.from_pretrained('q', quantization_config=four_bit)\n"
            "model = p(model)",
            True,
        ),
        (
            "from peft import prepare_model_for_kbit_training as p\n"
            "model = p(model, use_gradient_checkpointing=False)",
            False,
        ),
    ],
)
def test_owner_of_checkpointing(text: str, on: bool | None) -> None:
    script = script_of(f"{text}\nmodel(ids)")
    assert script.owner_of_checkpointing(script.forwards[-1].facts).on is on
