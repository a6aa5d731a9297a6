"""Methods, attributes and imported names that the target's libraries lack."""

from __future__ import annotations

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.rule.findings import Applicability, Finding
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source


def check(text: str, target: str = "") -> list[Finding]:
    api = Api(parse_target(target) if target else newest())
    return check_source(Source("a.py", text), load(["MEM901"]), api)


LOAD = (
    "from transformers import AutoModelForCausalLM\n"
    'model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"{more})\n'
)


def test_a_method_that_models_lost_is_reported() -> None:
    (found,) = check(LOAD.format(more="") + "model = model.to_bettertransformer()\n")
    assert "has no `to_bettertransformer`" in found.message
    assert found.fix is not None
    assert found.fix.applicability is Applicability.DISPLAY


@pytest.mark.parametrize(
    "text",
    [
        LOAD.format(more="") + "model.of_its_own()\n",
        # Whatever a class below may have as an attribute is not called a method.
        LOAD.format(more="") + "decoder = model.decoder\n",
        LOAD.format(more="")
        + "try:\n    model = model.to_bettertransformer()\n"
        + "except AttributeError:\n    model = model.eval()\n",
    ],
)
def test_methods_that_may_be_there_are_left_alone(text: str) -> None:
    assert check(text) == []


def test_a_method_that_the_version_has_is_left_alone() -> None:
    text = LOAD.format(more="") + "model = model.to_bettertransformer()\n"
    assert check(text, "transformers=4.40") == []


@pytest.mark.parametrize("receiver", ["tokenizer", "self.tokenizer", "tok", "self.bert_tokenizer"])
def test_a_method_of_what_is_called_a_tokenizer(receiver: str) -> None:
    text = f"import transformers\ndef f(self, tokenizer, tok):\n    {receiver}.encode_plus('x')\n"
    (found,) = check(text)
    assert "has no `encode_plus`" in found.message
    assert found.fix is not None
    assert found.fix.applicability is Applicability.UNSAFE


@pytest.mark.parametrize(
    "text",
    [
        "def f(tokenizer):\n    tokenizer.encode_plus('x')\n",
        "import transformers\ndef f(vocabulary):\n    vocabulary.encode_plus('x')\n",
        "import transformers\nclass Own:\n    def encode_plus(self, text): ...\n"
        "def f(tokenizer):\n    tokenizer.encode_plus('x')\n",
    ],
)
def test_other_tokenizers_are_left_alone(text: str) -> None:
    assert check(text) == []


def test_attributes_of_trl_own_arguments() -> None:
    text = (
        "from trl import ModelConfig, SFTConfig, TrlParser\n"
        "args, model_args = TrlParser((SFTConfig, ModelConfig)).parse_args_and_config()\n"
        "kind = model_args.torch_dtype\n"
    )
    (found,) = check(text)
    assert "`ModelConfig` of trl" in found.message
    assert found.fix is not None
    assert found.fix.message == "Read `dtype`"


def test_a_misspelled_import_is_reported_with_the_name_that_was_meant() -> None:
    (found,) = check("from trl import SFTTrainr\n")
    assert "nor had any release" in found.message
    assert found.fix is not None
    assert found.fix.message == "Import `SFTTrainer`, if that was meant"
    assert check("from trl import SomethingOfAForkTrainer\n") == []
