"""What stands below a class that left its module is reported in the same run as the import."""

from __future__ import annotations

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.fix.fixpoint import fix_source
from memlint.rule.findings import Finding
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source

TEXT = """\
from trl import ORPOConfig, ORPOTrainer
args = ORPOConfig("out", evaluation_strategy="no", beta=0.1)
trainer = ORPOTrainer(model, args=args, tokenizer=tokenizer, train_dataset=data)
"""


def check(text: str) -> list[Finding]:
    return check_source(Source("a.py", text), load(["MEM901"]), Api(newest()))


def test_options_of_a_class_that_moved_are_reported_with_the_import() -> None:
    found = [one.message for one in check(TEXT)]
    assert len(found) == 4
    assert any("has no `trl.ORPOConfig`" in one for one in found)
    assert any("does not take `evaluation_strategy`" in one for one in found)
    assert any("does not take `tokenizer`" in one for one in found)


def test_one_pass_fixes_the_import_and_what_stands_below_it() -> None:
    result = fix_source(
        Source("a.py", TEXT),
        unsafe=False,
        check=lambda one: check(one.text),
        reread=lambda new: Source("a.py", new),
    )
    assert result.error is None
    assert "from trl.experimental.orpo import ORPOConfig, ORPOTrainer" in result.source.text
    assert 'eval_strategy="no"' in result.source.text
    assert "processing_class=tokenizer" in result.source.text


def test_a_class_without_which_the_script_does_is_left_alone() -> None:
    text = """\
try:
    from trl import ORPOConfig
except ImportError:
    ORPOConfig = None
if ORPOConfig is not None:
    args = ORPOConfig("out", evaluation_strategy="no")
"""
    assert check(text) == []


def test_an_old_name_beside_the_new_one_is_said_to_go() -> None:
    text = (
        "from transformers import TrainingArguments\n"
        'args = TrainingArguments("out", warmup_steps=100, warmup_ratio=0.03)\n'
    )
    (finding,) = check(text)
    assert finding.fix is not None
    assert finding.fix.message == "Remove `warmup_ratio`: `warmup_steps` is given, and holds"
