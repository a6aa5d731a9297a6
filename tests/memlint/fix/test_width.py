"""New lines keep to the width of a file that wraps its own."""

from __future__ import annotations

import ast

import pytest

from memlint.fix import width
from memlint.fix.apply import previews
from memlint.fix.splicing import split_lines
from memlint.fix.width import width_of, wrapped
from memlint.source import Span
from memlint.source.edits import SetKeyword
from tests.memlint.fix.places import apply_edits

CALL = 'args = SFTConfig("out", learning_rate=5e-05, per_device_train_batch_size=4, bf16=True)'
WRAPS = "model = load(\n    name,\n)\n"


def fixed(text: str) -> str:
    at = text.index("SFTConfig(")
    end = text.index("bf16=True)") + len("bf16=True)")
    edit = SetKeyword(Span(at, end), "gradient_accumulation_steps", "16")
    return apply_edits(text, [[edit]]).text


def test_a_line_that_grew_too_long_is_wrapped_as_the_file_wraps() -> None:
    assert fixed(f"{WRAPS}{CALL}  # why\n") == (
        WRAPS
        + "args = SFTConfig(\n"
        + '    "out",\n'
        + "    learning_rate=5e-05,\n"
        + "    per_device_train_batch_size=4,\n"
        + "    bf16=True,\n"
        + "    gradient_accumulation_steps=16,\n"
        + ")  # why\n"
    )


@pytest.mark.parametrize("step", ["  ", "    ", "\t"])
def test_arguments_are_indented_as_in_the_files_own_brackets(step: str) -> None:
    text = '"""Train.\n\n      python train.py\n"""\ndef f(a,\n      b):\n   load('
    text += f"\n   {step}a)\n{CALL}\n"
    assert f"\n{step}bf16=True,\n{step}gradient_accumulation_steps=16,\n)\n" in fixed(text)


def test_many_fixes_that_lengthen_nothing_do_not_read_the_file_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = WRAPS + "f(a=1)\n" * 500
    edits = [
        [SetKeyword(Span(at, at + 6), "b", "2")]
        for at in range(len(WRAPS), len(text), len("f(a=1)\n"))
    ]
    read = 0

    def counted(part: str) -> list[str]:
        nonlocal read
        read += len(part)
        return split_lines(part)

    monkeypatch.setattr(width, "split_lines", counted)
    assert len([each for each in previews(text, edits) if each.applied]) == 500
    assert read < 10 * len(text)


def test_arguments_that_share_a_line_of_their_own_become_one_a_line() -> None:
    arguments = '"out", collate_fn=Collator(tokenizer, model), learning_rate=5e-05, bf16=True'
    text = f"{WRAPS}args = SFTConfig(\n    {arguments}\n)\n"
    at, end = text.index("SFTConfig("), len(text) - 1
    edit = SetKeyword(Span(at, end), "gradient_accumulation_steps", "16")
    assert apply_edits(text, [[edit]]).text == (
        WRAPS
        + "args = SFTConfig(\n"
        + '    "out",\n'
        + "    collate_fn=Collator(tokenizer, model),\n"
        + "    learning_rate=5e-05,\n"
        + "    bf16=True,\n"
        + "    gradient_accumulation_steps=16,\n"
        + ")\n"
    )


def test_line_ends_are_the_files() -> None:
    text = f"{WRAPS}{CALL}\n".replace("\n", "\r\n")
    assert "\n" not in fixed(text).replace("\r\n", "")
    assert "bf16=True,\r\n    gradient" in fixed(text)


@pytest.mark.parametrize(
    "text",
    [
        f"{CALL}\n",  # it wraps nothing
        f"{WRAPS}{CALL}\nlong = '{'x' * 130}'\n",  # it keeps to no width
    ],
)
def test_a_file_that_does_not_wrap_is_not_wrapped(text: str) -> None:
    assert CALL[:-1] + ", gradient_accumulation_steps=16)\n" in fixed(text)


def test_the_width_is_the_next_usual_one() -> None:
    assert width_of(["f(\n", "    a,\n", ")\n"]) == 79
    assert width_of(["f(\n", "x" * 95 + "\n", ")\n"]) == 100
    assert width_of(["x = 1\n"]) is None
    assert width_of(["f(\n", "x" * 130 + "\n"]) is None


@pytest.mark.parametrize(
    "line",
    [
        "x = f(*a, (1, 2), **k, y=(p if q else r), z=lambda v: (v, 1), w=[i for i in range(9)])\n",
        "with open(some_rather_long_path_name, mode_of_the_file_to_be_opened) as file: pass\n",
        "trainer(model, (a)(b), args=make('out')).train(resume_from_checkpoint=True, trial=0)\n",
        "value = g((first_of_the_tuple, second_of_the_tuple), ((a + b) * (c + d)), *more)\n",
        "from package.module import first_name, second_name as other, third_name, fourth_name\n",
    ],
)
def test_wrapping_keeps_the_program(line: str) -> None:
    text = wrapped(line, 40, "    ")
    assert text.count("\n") > 1
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(line))


@pytest.mark.parametrize("line", ["x = 'a' + 'b' + 'c' + 'd'\n", "total = sum(x for x in rows)\n"])
def test_a_line_without_a_call_to_wrap_stays(line: str) -> None:
    assert wrapped(line, 10, "    ") == line
