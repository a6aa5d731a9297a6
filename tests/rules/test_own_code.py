"""Fixes that call a model's code are safe for classes of transformers alone."""

from __future__ import annotations

import pytest

from tests.rules.fixing import found

LOOP = """\
import torch
from functools import partial
from transformers import AutoModelForCausalLM, LlamaForCausalLM
{load}
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    ids = batch["ids"]
    logprobs = torch.log_softmax(model(ids).logits[:, :-1].float(), -1)
    (-logprobs.gather(-1, ids[:, 1:, None]).squeeze(-1).mean()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
CACHED = """\
import torch
from transformers import AutoModelForCausalLM
{load}
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    out = model(batch["ids"], labels=batch["ids"])
    out.loss.backward()
    optimizer.step()
"""
TRAINER = """\
from transformers import AutoModelForCausalLM
from trl import {kind}Config, {kind}Trainer
{load}
args = {kind}Config("out", {options})
trainer = {kind}Trainer(model, args=args, train_dataset=rows{more})
trainer.train()
"""
ORPO = TRAINER.format(kind="ORPO", load="{load}", options="max_length=512{config}", more="")
ORPO = ORPO.replace("from trl", "from trl.experimental.orpo")
GRPO = TRAINER.format(
    kind="GRPO", load="{load}", options="num_generations=8{config}", more=", reward_funcs=rate"
)
PLAIN = 'model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B")'
REMOTE = PLAIN.replace('1B"', '1B", trust_remote_code=True')
FOREIGN = (
    REMOTE,
    PLAIN.replace('1B"', '1B", trust_remote_code=arguments.trusted'),
    PLAIN.replace('1B"', '1B", **settings'),
    'options = {"trust_remote_code": True}\n' + PLAIN.replace('1B"', '1B", **options'),
    "class Policy(LlamaForCausalLM): pass\nmodel = Policy"
    + '.from_pretrained("meta-llama/Llama-3.2-1B")',
    'from modeling import Policy\nmodel = Policy.from_pretrained("meta-llama/Llama-3.2-1B")',
)


def applicabilities(text: str, code: str) -> list[str]:
    return [one.fix.applicability.value for one in found(text, code) if one.fix]


@pytest.mark.parametrize(
    ("text", "code"), [(LOOP, "MEM204"), (CACHED, "MEM302"), (ORPO, "MEM202"), (GRPO, "MEM601")]
)
def test_a_class_of_transformers_is_taken(text: str, code: str) -> None:
    assert applicabilities(text.format(load=PLAIN, config=""), code) == ["safe"]


@pytest.mark.parametrize("load", FOREIGN)
@pytest.mark.parametrize(
    ("text", "code"), [(LOOP, "MEM204"), (CACHED, "MEM302"), (ORPO, "MEM202"), (GRPO, "MEM601")]
)
def test_code_of_the_checkpoint_or_the_project_may_differ(text: str, code: str, load: str) -> None:
    assert "safe" not in applicabilities(text.format(load=load, config=""), code)


@pytest.mark.parametrize(
    "config",
    [
        ', model_init_kwargs={"trust_remote_code": True}',
        ", model_init_kwargs=settings",
        ", trust_remote_code=True",
    ],
)
def test_a_name_may_bring_code_as_well(config: str) -> None:
    load = 'model = "meta-llama/Llama-3.2-1B"'
    assert applicabilities(GRPO.format(load=load, config=""), "MEM601") == ["safe"]
    assert applicabilities(GRPO.format(load=load, config=config), "MEM601") == ["unsafe"]
