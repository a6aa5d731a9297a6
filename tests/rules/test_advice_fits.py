"""Each piece of advice is right at the target: it names nothing that its tables contradict."""

from __future__ import annotations

import re

import pytest

from memlint.api.lookup import Api
from memlint.api.tables import table
from memlint.api.target_versions import newest, parse_target
from memlint.api.versions import parse_version
from memlint.rule import Script
from memlint.rule.findings import Finding, Level
from memlint.rule.registry import known_rules, load
from memlint.run.engine import check_source
from memlint.script.model import build_script
from memlint.source import Source
from tests.rules.cases import cases

RULES = load(rule.code for rule in known_rules())


def found(text: str, code: str, target: str = "") -> list[Finding]:
    api = Api(parse_target(target) if target else newest())
    return list(check_source(Source("a.py", text), load([code]), api))


EAGER = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("google/{name}", attn_implementation="eager")
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
"""


@pytest.mark.parametrize(
    ("name", "target", "advised"),
    [
        ("gemma-3-1b-it", "", "sdpa"),
        ("gemma-3-4b-it", "transformers=4.57,trl=0.24", "sdpa"),
        ("gemma-3-1b-it", "transformers=4.50,trl=0.16", "recommends eager"),
        ("gemma-2b", "", "sdpa"),
        ("gemma-2-2b", "", "flex_attention"),
        ("gemma-2-9b-it", "transformers=4.46,trl=0.12", None),
    ],
)
def test_gemma_is_advised_what_it_supports(name: str, target: str, advised: str | None) -> None:
    findings = found(EAGER.format(name=name), "MEM304", target)
    if advised is None:
        assert findings == []
        return
    (finding,) = findings
    assert finding.level is Level.HINT
    assert finding.fix is not None
    assert advised in finding.fix.message


UNREAD = """\
from trl import SFTConfig, SFTTrainer
{name} = 2048
args = SFTConfig("out"{given})
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
"""


@pytest.mark.parametrize(
    ("name", "given", "target", "advised"),
    [
        ("max_seq_length", "", "", "Pass `max_length=max_seq_length` to `SFTConfig`"),
        (
            "max_seq_length",
            "",
            "trl=0.12,transformers=4.46",
            "Pass `max_seq_length=max_seq_length`",
        ),
        (
            "gradient_checkpointing",
            "",
            "",
            "Pass `activation_checkpointing=gradient_checkpointing`",
        ),
        ("use_4bit", "", "", "Remove the variable, or give it to what takes it"),
        ("max_seq_length", ", max_length=512", "", None),
    ],
)
def test_an_unread_option_is_passed_by_the_name_that_the_class_has(
    name: str, given: str, target: str, advised: str | None
) -> None:
    findings = found(UNREAD.format(name=name, given=given), "MEM906", target)
    if advised is None:
        assert findings == []
        return
    (finding,) = findings
    assert finding.fix is not None
    assert finding.fix.message.startswith(advised)


LOGITS = """\
from trl import {name}Config, {name}Trainer
args = {name}Config("out")
trainer = {name}Trainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows)
"""


@pytest.mark.parametrize(
    ("name", "code", "target", "option"),
    [
        ("DPO", "MEM202", "trl=0.16", None),
        ("DPO", "MEM202", "trl=0.24", "use_liger_loss"),
        ("DPO", "MEM202", "trl=0.27", "use_liger_kernel"),
        ("KTO", "MEM202", "trl=1.12,transformers=5.0", "use_liger_kernel"),
        ("GRPO", "MEM203", "trl=0.16", None),
        ("GRPO", "MEM203", "trl=0.17", "use_liger_loss"),
        ("GRPO", "MEM203", "trl=1.12", "use_liger_kernel"),
        ("GRPO", "MEM203", "trl=1.14", "use_liger_kernel"),
        ("RLOO", "MEM203", "trl=1.14", None),
    ],
)
def test_full_logits_are_advised_the_options_of_the_release(
    name: str, code: str, target: str, option: str | None
) -> None:
    (finding,) = found(LOGITS.format(name=name), code, target)
    assert finding.fix is not None
    assert finding.fix.message.startswith(f"Set `{option}=True`" if option else "Upgrade TRL")


@pytest.mark.parametrize(("name", "target"), [("GRPO", "trl=0.12"), ("PPO", "")])
def test_no_loss_is_computed_by_a_trainer_that_the_target_lacks(name: str, target: str) -> None:
    assert found(LOGITS.format(name=name), "MEM203", target) == []


# -- over all releases ---------------------------------------------------------------------------

_RELEASES = [f"trl={one}" for one in table("trl").releases]
_RELEASES += [f"transformers={one}" for one in table("transformers").releases]
_EXAMPLES = [
    *(example.bad for rule in RULES for example in rule.page.examples),
    *(case.text for case in cases() if case.expected),
]
# Each release meets one of this many scripts, another share for each release.
_STRIDE = 12
_KEEP_BELOW = re.compile(r"[Ss]tay below (trl|transformers|peft|accelerate|torch) ([\d.]+\d)")
_TAKE_LATER = re.compile(r"take (trl|transformers|peft|accelerate|torch) ([\d.]+\d) or newer")
_CONFIG = re.compile(r"`(\w+)(?:=[^`]*)?` (?:to|of|in) (?:an? )?`(\w+Config|TrainingArguments)`")
_WRITES = re.compile(r"^(?:Write|Set|Pass|Use) `(\w+)=")


@pytest.mark.draws(12)
@pytest.mark.parametrize("target", _RELEASES)
def test_no_advice_contradicts_the_tables(target: str) -> None:
    api = Api(parse_target(target))
    for text in _EXAMPLES[_RELEASES.index(target) % _STRIDE :: _STRIDE]:
        script = build_script(Source("a.py", text), api)
        for finding in check_source(Source("a.py", text), RULES, api):
            for words in (finding.message, finding.fix.message if finding.fix else ""):
                _agrees(api, words)
            if finding.fix is not None:
                _takes(api, script, finding.fix.message)


def _agrees(api: Api, words: str) -> None:
    """Versions that are named lie on the right side of the target; options are in their class."""
    for package, version in _KEEP_BELOW.findall(words):
        assert parse_version(version).minor <= api.version(package).minor, words
    for package, version in _TAKE_LATER.findall(words):
        assert parse_version(version).minor > api.version(package).minor, words
    for option, owner in _CONFIG.findall(words):
        home = "transformers" if owner == "TrainingArguments" else "trl"
        assert api.accepts(f"{home}.{owner}", option) is not False or "does not" in words, words


def _takes(api: Api, script: Script, advice: str) -> None:
    """An option of configurations that is to be written is taken by one that is at hand."""
    wanted = _WRITES.match(advice)
    if wanted is None:
        return
    option = wanted.group(1)
    kinds = {one.kind for one in (*script.configs, *script.trainers)}
    kinds |= {config for one in script.trainers if (config := api.config_of(one.kind)) is not None}
    if any(api.accepts(load.name, option) for load in script.model_loads):
        return
    known = [kind for kind in kinds if api.history(kind, option) is not None]
    assert not known or any(api.accepts(kind, option) for kind in known), (advice, known)
