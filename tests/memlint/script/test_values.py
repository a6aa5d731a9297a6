"""Every route by which a value reaches a configuration within the file."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from memlint.engine.values import How, Provenance
from memlint.script.call_settings import MISSING, UNSURE
from tests.memlint.script.scripts import IMPORTS, only_config, packing, read

# Each of these gives ``packing=True``.
ROUTES = {
    "a literal": "SFTConfig(packing=True)",
    "a name": "pack = True\nSFTConfig(packing=pack)",
    "a name of a name": "a = True\nb = a\nSFTConfig(packing=b)",
    "a module constant, read in a function": """
        PACK = True
        def main():
            SFTConfig(packing=PACK)
        main()
    """,
    "a class attribute": """
        class Settings:
            pack = True
        SFTConfig(packing=Settings.pack)
    """,
    "an attribute of an instance": """
        class Settings:
            def __init__(self):
                self.pack = True
        SFTConfig(packing=Settings().pack)
    """,
    "an inherited class attribute": """
        class Base:
            pack = True
        class Settings(Base):
            size = 3
        SFTConfig(packing=Settings.pack)
    """,
    "a dict display": 'options = {"packing": True}\nSFTConfig(**options)',
    "a dict display in place": 'SFTConfig(**{"packing": True})',
    "dict()": "options = dict(packing=True)\nSFTConfig(**options)",
    "update with keywords": "options = {}\noptions.update(packing=True)\nSFTConfig(**options)",
    "update with a dict": 'options = {}\noptions.update({"packing": True})\nSFTConfig(**options)',
    "an item assignment": 'options = {}\noptions["packing"] = True\nSFTConfig(**options)',
    "a dict in a dict": 'base = {"packing": True}\nSFTConfig(**{**base, "bf16": True})',
    "a union of dicts": 'SFTConfig(**({"bf16": True} | {"packing": True}))',
    "an item read": 'options = {"pack": True}\nSFTConfig(packing=options["pack"])',
    "get": 'options = {"pack": True}\nSFTConfig(packing=options.get("pack", False))',
    "get of what is not there": 'options = {}\nSFTConfig(packing=options.get("pack", True))',
    "both arms agree": "SFTConfig(packing=True if unknown() else True)",
    "a decided condition": "DEBUG = False\nSFTConfig(packing=False if DEBUG else True)",
    "not": "off = False\nSFTConfig(packing=not off)",
    "a tuple assignment": "pack, size = True, 3\nSFTConfig(packing=pack)",
    "a tuple's item": "both = (True, 3)\nSFTConfig(packing=both[0])",
    "a comparison of constants": "SIZE = 3\nSFTConfig(packing=SIZE > 2)",
    "a parameter whose caller is in the file": """
        def make(pack):
            return SFTConfig(packing=pack)
        make(True)
    """,
    "a parameter by keyword": """
        def make(size, pack=False):
            return SFTConfig(packing=pack)
        make(3, pack=True)
    """,
    "a parameter's default": """
        def make(pack=True):
            return SFTConfig(packing=pack)
        make()
    """,
    "what a function returns": """
        def pack():
            return True
        SFTConfig(packing=pack())
    """,
    "keywords handed through": """
        def make(**options):
            return SFTConfig(**options)
        make(packing=True)
    """,
    "a method's parameter": """
        class Run:
            def make(self, pack):
                return SFTConfig(packing=pack)
        Run().make(True)
    """,
    "a lambda": "make = lambda pack: SFTConfig(packing=pack)\nmake(True)",
    "functools.partial": """
        from functools import partial
        make = partial(SFTConfig, packing=True)
        make(bf16=True)
    """,
    "an attribute assigned after construction": "args = SFTConfig()\nargs.packing = True",
    "setattr": 'args = SFTConfig()\nsetattr(args, "packing", True)',
    "an attribute assigned in a function": """
        def pack(args):
            args.packing = True
        args = SFTConfig()
        pack(args)
    """,
    "a SimpleNamespace": """
        from types import SimpleNamespace
        options = SimpleNamespace(pack=True)
        SFTConfig(packing=options.pack)
    """,
    "a dataclass field's default": """
        from dataclasses import dataclass
        @dataclass
        class Options:
            pack: bool = True
        SFTConfig(packing=Options().pack)
    """,
    "a dataclass field that is given": """
        from dataclasses import dataclass, field
        @dataclass
        class Options:
            pack: bool = field(default=False)
        SFTConfig(packing=Options(pack=True).pack)
    """,
    "vars of a dataclass": """
        from dataclasses import asdict, dataclass
        @dataclass
        class Options:
            packing: bool = True
        SFTConfig(**asdict(Options()))
    """,
    "a walrus": "SFTConfig(packing=(pack := True))",
    "a global": """
        def choose():
            global PACK
            PACK = True
        PACK = False
        choose()
        SFTConfig(packing=PACK)
    """,
}

# Nobody can tell what these give.
UNKNOWN = {
    "the environment": 'import os\nSFTConfig(packing=os.environ.get("PACK") == "1")',
    "an argument": "import sys\nSFTConfig(packing=int(sys.argv[1]) > 1)",
    "arms that differ": "SFTConfig(packing=True if unknown() else False)",
    "branches that differ": """
        pack = True
        if unknown():
            pack = False
        SFTConfig(packing=pack)
    """,
    "one path sets it": """
        args = SFTConfig()
        if unknown():
            args.packing = True
    """,
    "one path adds it": """
        options = {}
        if unknown():
            options["packing"] = True
        SFTConfig(**options)
    """,
    "unknown keywords": "SFTConfig(**unknown())",
    "a dict that is read from a file": """
        import json
        SFTConfig(**json.load(open("options.json")))
    """,
    "callers that differ": """
        def make(pack):
            return SFTConfig(packing=pack)
        make(True)
        make(False)
    """,
    "a parameter whose caller is elsewhere": """
        def make(pack):
            return SFTConfig(packing=pack)
    """,
    "a default whose caller is elsewhere": """
        def make(pack=True):
            return SFTConfig(packing=pack)
    """,
    "a loop's variable": "for pack in unknown():\n    SFTConfig(packing=pack)",
    "a sweep": "for pack in (True, False):\n    SFTConfig(packing=pack)",
    "what a loop reassigns": """
        pack = True
        for step in unknown():
            SFTConfig(packing=pack)
            pack = unknown()
    """,
    "one of several returns": """
        def pack():
            if unknown():
                return True
            return False
        SFTConfig(packing=pack())
    """,
    "an exception's handler": """
        try:
            import flash_attn
            pack = True
        except ImportError:
            pack = False
        SFTConfig(packing=pack)
    """,
    "a key that is not known": "options = {}\noptions[unknown()] = True\nSFTConfig(**options)",
}


@pytest.mark.parametrize("text", ROUTES.values(), ids=list(ROUTES))
def test_the_value_is_followed(text: str) -> None:
    setting = packing(dedent(text))
    assert setting.given is True
    assert setting.value is True


@pytest.mark.parametrize("text", UNKNOWN.values(), ids=list(UNKNOWN))
def test_an_unknown_value_is_unsure(text: str) -> None:
    setting = packing(dedent(text))
    assert setting.given is not False
    assert setting.value is UNSURE


def test_what_is_not_given_is_missing_and_has_the_library_default() -> None:
    config = only_config("SFTConfig(bf16=True)")
    assert config.setting("packing").given is False
    assert config.setting("packing").value is MISSING
    assert config.effective("packing").value is False
    assert config.effective("packing").origin is Provenance.LIBRARY


def test_what_an_unknown_call_returns_is_no_constant() -> None:
    setting = packing("SFTConfig(packing=unknown())")
    assert not setting.is_value(True, False, None)


def test_a_replaced_copy_has_its_own_value() -> None:
    script = read(
        IMPORTS
        + """\
from dataclasses import replace
first = SFTConfig(packing=False)
second = replace(first, packing=True)
SFTTrainer(model, args=second)
"""
    )
    (trainer,) = script.trainers
    assert trainer.config is not None
    assert trainer.config.setting("packing").value is True
    assert [config.node for config in script.configs] == [trainer.config.node]


def test_an_assignment_after_the_trainer_is_too_late() -> None:
    text = "args = SFTConfig()\nSFTTrainer(model, args=args)\nargs.packing = True"
    assert packing(text).given is False


def test_positional_arguments_are_settings() -> None:
    setting = only_config('SFTConfig("out")').setting("output_dir")
    assert (setting.value, setting.how) == ("out", How.POSITIONAL)


def test_a_qualified_name_is_a_symbol() -> None:
    script = read(
        """
        import torch as th
        from transformers import AutoModelForCausalLM
        AutoModelForCausalLM.from_pretrained("m", dtype=th.bfloat16)
        """
    )
    (load,) = script.model_loads
    assert load.setting("dtype").symbol == "torch.bfloat16"


def test_an_f_string_of_constants_is_a_string() -> None:
    text = 'NAME = "qwen"\nSFTConfig(output_dir=f"out/{NAME}")'
    assert only_config(text).setting("output_dir").value == "out/qwen"


def test_arithmetic_of_constants() -> None:
    text = "BATCH = 4\nSFTConfig(per_device_train_batch_size=BATCH * 2)"
    assert only_config(text).setting("per_device_train_batch_size").value == 8


def test_true_is_not_one() -> None:
    setting = packing("SFTConfig(packing=1)")
    assert not setting.is_value(True)
    assert setting.is_value(1)


def test_the_place_of_a_value_is_where_it_is_written() -> None:
    config = only_config("PACK = True\nSFTConfig(packing=PACK)")
    node = config.setting("packing").node
    assert isinstance(node, ast.Constant)
    assert node.lineno == 2


def test_a_list_that_is_filled_decides_nothing() -> None:
    script = read(
        """
        import sys

        def load():
            rows = []
            for line in open("data"):
                rows.append(line)
            return rows

        def fill(rows):
            rows.extend(open("data"))

        rows, more = load(), []
        fill(more)
        if not rows or not more:
            sys.exit(1)
        loss.backward()
        """
    )
    assert script.method_calls("backward")


def test_what_is_appended_is_seen() -> None:
    text = """
        from peft import LoraConfig

        names = ["q_proj"]
        names.append("lm_head")
        LoraConfig(target_modules=names)
        if unknown():
            names.append("embed_tokens")
        LoraConfig(target_modules=names)
        for name in unknown():
            names.append(name)
        LoraConfig(target_modules=names)
        """
    values = [
        call.setting("target_modules").value for call in read(text).calls_to("peft.LoraConfig")
    ]
    assert values == [["q_proj", "lm_head"], UNSURE, UNSURE]


@pytest.mark.parametrize(("kind", "known"), [("AutoModelForCausalLM", True), ("AutoModel", UNSURE)])
def test_only_what_a_head_returns_is_known_to_have_logits(kind: str, known: object) -> None:
    script = read(
        f"from transformers import {kind}\n"
        f"model = {kind}.from_pretrained('gpt2')\n"
        "flag = hasattr(model(ids), 'logits')\n"
    )
    asked = script.tree.body[-1]
    assert isinstance(asked, ast.Assign)
    assert script.python(asked.value) is known
