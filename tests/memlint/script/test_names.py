"""Which names are the libraries': aliases, modules, stars, namesakes, subclasses."""

from __future__ import annotations

import pytest

from memlint.rule import edits
from tests.memlint.script.scripts import read

OURS = {
    "a from import": "from trl import SFTConfig\nSFTConfig()",
    "an alias": "from trl import SFTConfig as Options\nOptions()",
    "a module": "import trl\ntrl.SFTConfig()",
    "a module's alias": "import trl as t\nt.SFTConfig()",
    "a submodule": "from trl.trainer.sft_config import SFTConfig\nSFTConfig()",
    "a submodule's path": "import trl.trainer\ntrl.trainer.SFTConfig()",
    "a star": "from trl import *\nSFTConfig()",
    "in a function": "def main():\n    from trl import SFTConfig\n    SFTConfig()\nmain()",
    "under a condition": "if unknown():\n    from trl import SFTConfig\nSFTConfig()",
    "guarded": """
        try:
            from trl import SFTConfig
        except ImportError:
            SFTConfig = None
        SFTConfig()
    """,
    "a name for the class": "from trl import SFTConfig\nOptions = SFTConfig\nOptions()",
    "getattr": 'import trl\ngetattr(trl, "SFTConfig")()',
    "a subclass": """
        from trl import SFTConfig
        class Options(SFTConfig):
            pass
        Options()
    """,
    "a subclass of a subclass": """
        import trl
        class Base(trl.SFTConfig):
            pass
        class Options(Base):
            pass
        Options()
    """,
}
OTHERS = {
    "another library's": "from setfit import SFTConfig\nSFTConfig()",
    "a module of the project's": "from .trl import SFTConfig\nSFTConfig()",
    "the script's own class": "class SFTConfig:\n    pass\nSFTConfig()",
    "the script's own function": "def SFTConfig():\n    return 3\nSFTConfig()",
    "bound again": "from trl import SFTConfig\nfrom setfit import SFTConfig\nSFTConfig()",
    "a method of that name": "library.SFTConfig()",
    "only mentioned": "from trl import SFTConfig\nprint(SFTConfig)",
    "never run": "from trl import SFTConfig\nif False:\n    SFTConfig()",
}


@pytest.mark.parametrize("text", OURS.values(), ids=list(OURS))
def test_the_class_is_found(text: str) -> None:
    assert [config.kind for config in read(text).configs] == ["trl.SFTConfig"]


@pytest.mark.parametrize("text", OTHERS.values(), ids=list(OTHERS))
def test_a_namesake_is_not_ours(text: str) -> None:
    assert read(text).configs == ()


def test_a_subclass_keeps_its_name_and_its_keywords() -> None:
    script = read(
        """
        from trl import SFTTrainer
        class Mine(SFTTrainer):
            def compute_loss(self, *args, **kwargs):
                return super().compute_loss(*args, **kwargs)
        Mine(model="m", packing=True)
        """
    )
    (trainer,) = script.trainers
    assert trainer.kind == "trl.SFTTrainer"
    assert trainer.subclass is not None
    assert trainer.subclass.name == "Mine"
    assert trainer.setting("packing").value is True


def test_a_script_s_own_trainer_is_none() -> None:
    script = read("class Trainer:\n    pass\nTrainer(args=3)")
    assert script.trainers == ()


def test_unused_type_checking_imports_bring_no_run_time_name() -> None:
    script = read(
        """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from trl import SFTConfig
        """
    )
    assert script.imports_package("trl")
    assert script.configs == ()


def test_a_reference_uses_the_import_that_is_there() -> None:
    script = read("import torch as th\nx = th.ones(3)\n")
    found = edits.reference_to(script, "torch.no_grad", script.tree.body[1])
    assert found is not None
    assert (found.text, found.edits) == ("th.no_grad", ())


def test_a_reference_is_refused_where_the_name_is_taken() -> None:
    script = read("def SFTConfig():\n    pass\nSFTConfig()\n")
    assert edits.reference_to(script, "trl.SFTConfig", script.tree.body[1]) is None


def test_attributes_of_what_one_line_makes_in_two_runs() -> None:
    script = read("""
        from transformers import AutoTokenizer
        def main():
            tokenizer = AutoTokenizer.from_pretrained("q")
            print(tokenizer.vocab_size)
        main()
        main()
    """)
    assert [node.attr for node, _ in script.attribute_reads()] == ["from_pretrained", "vocab_size"]
