"""What a script reads of a forward pass: fields, and the logits of which positions."""

from __future__ import annotations

import pytest

from memlint.engine.tensors import Positions
from memlint.rule import facts
from tests.memlint.script.scripts import read

HEADER = """
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
"""


@pytest.mark.parametrize(
    ("use", "fields"),
    [
        ("model(ids)", set()),
        ("outputs = model(ids)", set()),
        ("outputs = model(ids); print(outputs.logits, outputs['loss'])", {"logits", "loss"}),
        ("outputs = model(ids); outputs = other; print(outputs.loss)", set()),
        ("outputs = model(ids); show(outputs)", None),
        ("outputs = model(ids); kept = outputs", set()),
        ("loss, logits = model(ids)", None),
        ("outputs = model(ids)\ndef later(): return outputs.loss", None),
        ("print(model(ids)[0])", None),
    ],
)
def test_fields_that_are_read(use: str, fields: set[str] | None) -> None:
    script = read(HEADER + use + "\n")
    (forward,) = script.forwards
    assert script.fields_read(forward) == fields


@pytest.mark.parametrize(
    ("index", "positions"),
    [
        ("[:, -1]", Positions.LAST),
        ("[0, -1, :]", Positions.UNKNOWN),  # of one row, which is little
        ("[0][-1]", Positions.UNKNOWN),
        ("[:, -1:, :]", Positions.LAST),
        ("[:, start - 1 : -1]", Positions.SOME),
        ("[:, :-1][:, -kept:]", Positions.SOME),
        (".float().log_softmax(-1)[:, start:]", Positions.SOME),
        (".log_softmax(-1)[:, -1]", Positions.UNKNOWN),
        ("[:, 0]", Positions.UNKNOWN),
        ("[:, :-1]", Positions.UNKNOWN),
        ("[:, 1:]", Positions.UNKNOWN),
        ("[-1]", Positions.UNKNOWN),
        ("[rows, lengths]", Positions.UNKNOWN),
    ],
)
def test_positions_that_are_read(index: str, positions: Positions) -> None:
    script = read(HEADER + f"print(model(ids).logits{index})\n")
    (forward,) = script.forwards
    assert facts.positions_read(script, forward) is positions


@pytest.mark.parametrize(
    ("also", "positions"),
    [
        ("print(logits.shape)", Positions.UNKNOWN),
        ("print(logits.shape[1])", Positions.UNKNOWN),
        ("print(logits.size(1))", Positions.UNKNOWN),
        ("print(logits.numel())", Positions.UNKNOWN),
        ("print(len(logits))", Positions.UNKNOWN),
        ("rows, length, words = logits.shape", Positions.UNKNOWN),
        ("print(logits[0].shape[0])", Positions.UNKNOWN),
        ("print(getattr(logits, 'shape'))", Positions.UNKNOWN),
        ("print(logits.shape[-1], logits.size(0), logits.dtype)", Positions.LAST),
        ("kept[0] = logits", Positions.UNKNOWN),
        ("kept = [logits]", Positions.UNKNOWN),
        ("kept.x = logits", Positions.UNKNOWN),
        ("for row in logits: print(row)", Positions.UNKNOWN),
        ("print(f'{logits}')", Positions.UNKNOWN),
        ("print((logits > 0).all())", Positions.UNKNOWN),
        ("first, second = logits", Positions.UNKNOWN),
        ("return logits", Positions.LAST),
        ("yield logits", Positions.UNKNOWN),
        ("global logits", Positions.UNKNOWN),
    ],
)
def test_positions_that_something_else_may_read(also: str, positions: Positions) -> None:
    body = f"logits = model(ids).logits\n    print(logits[:, -1])\n    {also}"
    script = read(HEADER + f"def score(ids, kept):\n    {body}\nscore(ids, [])\n")
    (forward,) = script.forwards
    assert facts.positions_read(script, forward) is positions


def test_logits_that_a_caller_out_of_sight_gets() -> None:
    body = "logits = model(ids).logits\n    print(logits[:, -1])\n    return logits"
    script = read(HEADER + f"def score(ids):\n    {body}\n")
    (forward,) = script.forwards
    assert facts.positions_read(script, forward) is Positions.UNKNOWN
