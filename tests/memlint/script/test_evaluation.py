"""Evaluation, outputs that outlive a step, gradients, and checkpointing, as rules ask for them."""

from __future__ import annotations

import pytest

from memlint.rule import facts
from tests.memlint.script.scripts import read

HEADER = """\
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("model.eval()\nmodel(ids)\n", 1),
        ("model(ids)\n", 0),
        ("model.eval()\nmodel(ids).loss.backward()\n", 0),
        ("model.eval()\ntorch.autograd.grad(model(ids).loss, x)\n", 0),
        ("model.requires_grad_(False)\nmodel.eval()\nmodel(ids)\n", 0),
        ("model.eval()\nwith torch.no_grad():\n    model(ids)\n", 0),
        ("model.eval()\na = model(ids)\nb = model(ids)\n", 1),
        ("model.eval()\na = model(ids)\nprint()\nb = model(ids)\n", 2),
    ],
)
def test_evaluations(text: str, count: int) -> None:
    assert len(facts.evaluations_of(read(HEADER + text))) == count


def test_an_evaluation_is_the_outermost_loop_that_only_evaluates() -> None:
    text = (
        "for epoch in range(3):\n    model.eval()\n    for batch in loader:\n        model(batch)\n"
    )
    script = read(HEADER + text)
    (evaluation,) = facts.evaluations_of(script)
    assert [statement.lineno for statement in evaluation.statements] == [6]
    assert evaluation.sets_mode
    assert evaluation.called


def test_a_decorator_of_a_function_leaves_the_mode_of_the_module() -> None:
    text = "@torch.set_grad_enabled(False)\ndef score(): ...\nmodel(ids)\n"
    assert read(HEADER + text).forwards[0].gradients is True


@pytest.mark.parametrize(
    ("body", "outlives"),
    [
        ("outputs = model(ids)\n    outputs.loss.backward()", True),
        ("model(ids).loss.backward()", False),
        ("loss_of(ids).backward()", False),
        ("outputs = run(ids)\n    outputs.loss.backward()", True),
    ],
)
def test_what_outlives_backward(body: str, outlives: bool) -> None:
    helpers = (
        "def run(ids):\n    return model(ids)\n"
        "def loss_of(ids):\n    outputs = model(ids)\n    return outputs.loss\n"
    )
    script = read(f"{HEADER}{helpers}for ids in loader:\n    {body}\n")
    found = [one for one in script.forwards if one.in_training_step]
    assert [one.outlives_backward for one in found] == [outlives]


def test_mentions_leave_out_the_calls_that_are_ignored() -> None:
    script = read("model.generate(ids, use_cache=True)\n")
    assert script.is_named("use_cache")
    assert not script.is_named("use_cache", ignore=("generate",))
    assert not script.is_named("past_key_values")


def test_accumulation_is_the_modulus_before_the_step() -> None:
    loop = "for i, ids in enumerate(loader):\n    model(ids).loss.backward()\n"
    step = "    if (i + 1) % 8 == 0:\n        optimizer.step()\n"
    assert read(HEADER + loop + step).accumulation == 8
    assert read(HEADER + loop + "    optimizer.step()\n").accumulation is None
