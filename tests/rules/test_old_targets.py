"""Targets that are older than the tables: what fixes write may not exist there."""

from __future__ import annotations

from memlint.api.lookup import Api
from memlint.api.target_versions import parse_target
from memlint.rule.findings import Applicability
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source


def test_a_target_older_than_the_tables_gets_advice_only() -> None:
    """What the fixes write may not exist there: nobody knows."""
    source = Source(
        "script.py",
        "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        'model = AutoModelForCausalLM.from_pretrained("gpt2")\n'
        'Trainer(model, TrainingArguments("out", gradient_checkpointing=True)).train()\n',
    )
    (known,) = check_source(source, load(["MEM303"]), Api(parse_target("transformers=4.37")))
    assert known.fix is not None
    assert known.fix.edits
    (older,) = check_source(source, load(["MEM303"]), Api(parse_target("transformers=4.28")))
    assert older.fix is not None
    assert older.fix.edits == ()
    assert older.fix.applicability is Applicability.DISPLAY
    assert "if transformers 4.28 can" in older.fix.message


def test_nothing_is_said_of_a_version_that_nobody_knows() -> None:
    source = Source(
        "script.py",
        "from transformers import AutoConfig\n"
        'AutoConfig.from_pretrained("gpt2", use_auth_token=True)\n',
    )
    assert check_source(source, load(["MEM902"]), Api(parse_target("transformers=4.37")))
    assert not check_source(source, load(["MEM902"]), Api(parse_target("transformers=4.29")))


def test_a_statement_that_asks_nothing_of_a_library_is_still_a_fix() -> None:
    source = Source(
        "script.py",
        "from transformers import AutoModelForCausalLM\n"
        'model = AutoModelForCausalLM.from_pretrained("gpt2")\n'
        "for batch in loader:\n"
        "    outputs = model(**batch)\n"
        "    loss = outputs.loss\n"
        "    loss.backward()\n",
    )
    (found,) = check_source(source, load(["MEM307"]), Api(parse_target("transformers=4.28")))
    assert found.fix is not None
    assert found.fix.edits
