"""Every rule over every example at old and new releases: nothing raises.

A rule that takes a class or an option for granted fails where the target does not have it. Each
release of trl and transformers gets its share of the scripts; run it over all with
``MEMLINT_ALL_TARGETS=1``.
"""

from __future__ import annotations

import os

import pytest

from memlint.api.lookup import Api
from memlint.api.tables import table
from memlint.api.target_versions import parse_target
from memlint.rule.registry import known_rules, load
from memlint.run.engine import check_source
from memlint.source import Source
from tests.rules.cases import cases

RULES = load(rule.code for rule in known_rules())
BARE = (
    "from trl import SFTTrainer\ntrainer = SFTTrainer(model, train_dataset=dataset)\n",
    "from trl import DPOTrainer\nDPOTrainer(model, train_dataset=dataset).train()\n",
    "from trl import GRPOTrainer\nGRPOTrainer('gpt2', reward_funcs=f, train_dataset=d).train()\n",
)
SCRIPTS = (
    *BARE,
    *(example.bad for rule in RULES for example in rule.page.examples),
    *(case.text for case in cases()),
)
TARGETS = [f"{name}={one}" for name in ("trl", "transformers") for one in table(name).releases]
# One of this many scripts a release, another one for each, so that every script meets many.
_STRIDE = 1 if os.environ.get("MEMLINT_ALL_TARGETS") else 40


@pytest.mark.draws(12)
@pytest.mark.parametrize("target", TARGETS)
def test_no_rule_takes_a_class_or_an_option_for_granted(target: str) -> None:
    api = Api(parse_target(target))
    start = TARGETS.index(target) % _STRIDE
    for text in (*BARE, *SCRIPTS[start::_STRIDE]):
        check_source(Source("script.py", text), RULES, api)
