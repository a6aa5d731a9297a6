"""Fixes that must hold back, or write something else, for a script to run and learn as it did."""

from __future__ import annotations

from tests.rules.fixing import fixed


def test_flags_over_several_lines_stay_one_expression() -> None:
    text = fixed(
        """\
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("m", load_in_4bit=bits == 4
    and not on_cpu, load_in_8bit=bits == 8)
""",
        "MEM901",
    )
    assert "if (bits == 4\n    and not on_cpu) or bits == 8 else None)" in text
