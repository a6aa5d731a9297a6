"""Targets that are older than the tables: what fixes write may not exist there."""

from __future__ import annotations

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.rule.findings import Applicability
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source
from tests.rules.cases import CASES


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


def test_what_every_release_has_is_still_written() -> None:
    source = Source(
        "script.py",
        "import torch\n"
        "from torch.utils.checkpoint import checkpoint\n"
        "from transformers import AutoModelForSeq2SeqLM\n"
        'model = AutoModelForSeq2SeqLM.from_pretrained("t5-3b").cuda()\n'
        "optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)\n"
        "model.train()\n"
        "for batch in loader:\n"
        "    hidden = checkpoint(first, batch, use_reentrant=True)\n"
        "    model(inputs_embeds=hidden, labels=labels).loss.backward()\n"
        "    optimizer.step()\n",
    )
    rules = load(["MEM301", "MEM303", "MEM401", "MEM501", "MEM507"])
    found = check_source(source, rules, Api(parse_target("transformers=4.12")))
    fixed = {each.code for each in found if each.fix is not None and each.fix.edits}
    assert fixed == {"MEM303", "MEM507"}
    assert {each.code for each in found} - fixed == {"MEM401", "MEM501"}


def test_a_keyword_that_came_with_version_4_is_advice_before() -> None:
    source = Source(
        "script.py",
        "from transformers import GPT2LMHeadModel\n"
        'model = GPT2LMHeadModel.from_pretrained("gpt2-xl").cuda()\n'
        "model.train()\n"
        "for batch in loader:\n"
        "    outputs = model(input_ids=batch, labels=batch)\n"
        "    outputs.loss.backward()\n",
    )
    for target, written in {"transformers=4.12": True, "transformers=2.1": False}.items():
        (found,) = check_source(source, load(["MEM302"]), Api(parse_target(target)))
        assert found.fix is not None
        assert bool(found.fix.edits) is written


def test_a_statement_with_an_option_of_later_releases_is_advice() -> None:
    source = Source(
        "script.py",
        "from transformers import AutoModelForSeq2SeqLM\n"
        'model = AutoModelForSeq2SeqLM.from_pretrained("t5-3b").cuda()\n'
        "model.train()\n"
        "for batch in loader:\n"
        "    model(**batch).loss.backward()\n",
    )
    (found,) = check_source(source, load(["MEM301"]), Api(parse_target("transformers=4.28")))
    assert found.fix is not None
    assert not found.fix.edits


def test_advice_says_what_the_runtime_that_it_names_needs() -> None:
    text = (CASES / "MEM601" / "completions_that_a_comprehension_draws.py").read_text("utf-8")
    source = Source("script.py", text)
    (new,) = check_source(source, load(["MEM601"]), Api(newest()))
    assert new.fix is not None
    assert "memlint_runtime" in new.fix.message
    assert "this needs" not in new.fix.message
    target = parse_target("transformers=4.46,torch=2.4")
    (old,) = check_source(source, load(["MEM601"]), Api(target))
    assert old.fix is not None
    assert "; this needs torch 2.11 or later (here 2.4)" in old.fix.message


def test_bytes_of_a_step_are_said_of_a_dtype_that_is_known() -> None:
    for dtype, told in {
        "torch.float32": "the 1.5 billion weights, 5.6 GiB in float32",
        "pick(torch.bfloat16, torch.float32)": (
            "the 1.5 billion weights, 2.8 GiB at 2 bytes each, twice that in float32"
        ),
    }.items():
        source = Source("script.py", STEPS.format(dtype=dtype))
        (found,) = check_source(source, load(["MEM507"]), Api(newest()))
        assert told in found.message


STEPS = """
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype={dtype}).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
model.train()
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
