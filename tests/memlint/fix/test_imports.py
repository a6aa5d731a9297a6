"""Where imports are added, under which name they are used, and when they are taken out."""

from __future__ import annotations

import ast

import pytest

from memlint.source.edits import (
    AddImport,
    InsertStatement,
    RemoveImport,
    RenameImport,
    ReplaceCallee,
    ReplaceExpression,
)
from tests.memlint.fix.places import apply_edits

from .places import all_of, call, fixed, refusal, spot, statement

TORCH = AddImport("torch")
CONFIG = AddImport("trl", "SFTConfig")


def use(text: str, *imports: AddImport, source: str = "torch.bfloat16") -> str:
    """``text`` after its ``USE`` became ``source``, with what ``source`` needs imported."""
    return fixed(text, *imports, ReplaceExpression(spot(text, "USE"), source))


ADDED = {
    "after the last import": (
        "import os\nimport sys\n\nx = USE\n",
        "import os\nimport sys\nimport torch\n\nx = torch.bfloat16\n",
    ),
    "beside its package": (
        "import os\nimport torch.nn as nn\nimport sys\nx = USE\n",
        "import os\nimport torch.nn as nn\nimport torch\nimport sys\nx = torch.bfloat16\n",
    ),
    "below a docstring": (
        '"""Doc."""\nx = USE\n',
        '"""Doc."""\n\nimport torch\n\nx = torch.bfloat16\n',
    ),
    "below a docstring and a blank line": (
        '"""Doc."""\n\nx = USE\n',
        '"""Doc."""\n\nimport torch\n\nx = torch.bfloat16\n',
    ),
    "below the future": (
        "from __future__ import annotations\n\nx = USE\n",
        "from __future__ import annotations\n\nimport torch\n\nx = torch.bfloat16\n",
    ),
    "below licence, shebang and cookie": (
        "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n# Licence\n\nx = USE\n",
        "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n# Licence\n\nimport torch\n\n"
        "x = torch.bfloat16\n",
    ),
    "below the environment": (
        'import os\nos.environ["PYTORCH_ALLOC_CONF"] = "a"\nx = USE\n',
        'import os\nos.environ["PYTORCH_ALLOC_CONF"] = "a"\nimport torch\nx = torch.bfloat16\n',
    ),
    "below the environment set under a condition": (
        'import os\nif a:\n    os.environ["A"] = "a"\nx = USE\n',
        'import os\nif a:\n    os.environ["A"] = "a"\nimport torch\nx = torch.bfloat16\n',
    ),
    "below the environment after functions": (
        'import os\ndef f():\n    return USE\nos.environ["A"] = "a"\nf()\n',
        'import os\ndef f():\n    return torch.bfloat16\nos.environ["A"] = "a"\n'
        "import torch\nf()\n",
    ),
    "below a guarded import": (
        "try:\n    import numpy\nexcept ImportError:\n    numpy = None\nx = USE\n",
        "try:\n    import numpy\nexcept ImportError:\n    numpy = None\nimport torch\n"
        "x = torch.bfloat16\n",
    ),
    "beside its package in a guard": (
        "import os\ntry:\n    import torch.nn as nn\nexcept ImportError:\n    nn = None\n"
        "def f():\n    return USE\n",
        "import os\ntry:\n    import torch.nn as nn\n    import torch\nexcept ImportError:\n"
        "    nn = None\ndef f():\n    return torch.bfloat16\n",
    ),
    "not under TYPE_CHECKING": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nx = USE\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nimport torch\n"
        "x = torch.bfloat16\n",
    ),
    "before the statement that uses it": (
        "x = USE\nimport os\n",
        "import torch\n\nx = torch.bfloat16\nimport os\n",
    ),
    "masked lines of a notebook stay above": (
        "# cell 1\npass  # magic !pip install torch\n# cell 2\nx = USE\n",
        "# cell 1\npass  # magic !pip install torch\nimport torch\n# cell 2\nx = torch.bfloat16\n",
    ),
    "above an environment that is set too late for it": (
        'import os\nimport transformers\nx = 1\nos.environ["A"] = "a"\ny = USE\n',
        'import os\nimport transformers\nimport torch\nx = 1\nos.environ["A"] = "a"\n'
        "y = torch.bfloat16\n",
    ),
    "where the environment is only read": (
        'import os\ndef main():\n    w = os.environ.get("A") == os.environ["B"]\n    return USE\n',
        'import os\nimport torch\ndef main():\n    w = os.environ.get("A") == os.environ["B"]\n'
        "    return torch.bfloat16\n",
    ),
    "at the top where torch is loaded before a function sets things": (
        'import trl\ndef main():\n    os.environ["A"] = "a"\n    return USE\n',
        'import trl\nimport torch\ndef main():\n    os.environ["A"] = "a"\n'
        "    return torch.bfloat16\n",
    ),
    "behind an environment that its function sets": (
        'import os\ndef main():\n    os.environ["A"] = "a"\n    run()\n    return USE\n',
        'import os\ndef main():\n    os.environ["A"] = "a"\n    import torch\n    run()\n'
        "    return torch.bfloat16\n",
    ),
    "above what the project has itself": (
        "import os\nimport transformers\n\nfrom house.rows import rows\n"
        "from .parts import y\nx = USE\n",
        "import os\nimport transformers\nimport torch\n\nfrom house.rows import rows\n"
        "from .parts import y\nx = torch.bfloat16\n",
    ),
    "below a guard between libraries and the project": (
        "import peft\ntry:\n    import fast\nexcept ImportError:\n    fast = None\nimport house\n"
        "x = USE\n",
        "import peft\ntry:\n    import fast\nexcept ImportError:\n    fast = None\nimport house\n"
        "import torch\nx = torch.bfloat16\n",
    ),
    "with the file's newlines": (
        "import os\r\nx = USE\r\n",
        "import os\r\nimport torch\r\nx = torch.bfloat16\r\n",
    ),
    "where the file does not end in a newline": (
        "def f(): return USE\nimport os",
        "import torch\n\ndef f(): return torch.bfloat16\nimport os",
    ),
}


@pytest.mark.parametrize("case", ADDED)
def test_import_is_added_where_it_is_safe(case: str) -> None:
    before, after = ADDED[case]
    assert use(before, TORCH) == after


KNOWN = {
    "as it is": ("import torch\nx = USE\n", "torch.bfloat16"),
    "alias": ("import torch as th\nx = USE\n", "th.bfloat16"),
    "a module below it": ("import torch.nn\nx = USE\n", "torch.bfloat16"),
    "guarded": (
        "try:\n    import torch as th\nexcept ImportError:\n    th = None\nx = USE\n",
        "th.bfloat16",
    ),
    "in the function": ("def f():\n    import torch as th\n    return USE\n", "th.bfloat16"),
    "in the same condition": ("if a:\n    import torch as t\n    x = USE\n", "t.bfloat16"),
    "in main": (
        "if __name__ == '__main__':\n    import torch as t\n    x = USE\n",
        "t.bfloat16",
    ),
}


@pytest.mark.parametrize("case", KNOWN)
def test_what_is_imported_is_used_under_its_name(case: str) -> None:
    before, source = KNOWN[case]
    assert use(before, TORCH) == before.replace("USE", source)


def test_what_is_imported_elsewhere_does_not_count() -> None:
    for before in (
        "def g():\n    import torch as th\ndef f():\n    return USE\n",
        "def f():\n    x = USE\n    import torch as th\n",
        "class A:\n    import torch as th\n    def f(self):\n        return USE\n",
        "try:\n    pass\nexcept E:\n    import torch as th\ndef f():\n    return USE\n",
    ):
        assert "import torch\n" in use(before, TORCH), before
        assert "torch.bfloat16" in use(before, TORCH), before


NAMES = {
    "one line": (
        "from trl import SFTTrainer\nx = USE\n",
        "from trl import SFTConfig, SFTTrainer\nx = SFTConfig()\n",
    ),
    "sorted": (
        "from trl import DPOConfig, SFTTrainer\nx = USE\n",
        "from trl import DPOConfig, SFTConfig, SFTTrainer\nx = SFTConfig()\n",
    ),
    "unsorted": (
        "from trl import SFTTrainer, DPOConfig\nx = USE\n",
        "from trl import SFTTrainer, DPOConfig, SFTConfig\nx = SFTConfig()\n",
    ),
    "in parentheses": (
        "from trl import (\n    DPOConfig,  # why\n    SFTTrainer,\n)\nx = USE\n",
        "from trl import (\n    DPOConfig,  # why\n    SFTConfig,\n    SFTTrainer,\n)\n"
        "x = SFTConfig()\n",
    ),
    "first in parentheses": (
        "from trl import (\n    SFTTrainer,\n    Z\n)\nx = USE\n",
        "from trl import (\n    SFTConfig,\n    SFTTrainer,\n    Z\n)\nx = SFTConfig()\n",
    ),
    "continued lines": (
        "from trl import A, \\\n    B\nx = USE\n",
        "from trl import A, \\\n    B, SFTConfig\nx = SFTConfig()\n",
    ),
    "under its alias": (
        "from trl import SFTConfig as C\nx = USE\n",
        "from trl import SFTConfig as C\nx = C()\n",
    ),
    "through the module": ("import trl as t\nx = USE\n", "import trl as t\nx = t.SFTConfig()\n"),
    "a star tells nothing": (
        "from trl import *\nx = USE\n",
        "from trl import *\nfrom trl import SFTConfig\nx = SFTConfig()\n",
    ),
    "guarded with its library": (
        "try:\n    from trl import A\nexcept ImportError:\n    A = None\n"
        "def f():\n    return USE\n",
        "try:\n    from trl import A, SFTConfig\nexcept ImportError:\n    A = None\n"
        "def f():\n    return SFTConfig()\n",
    ),
    "in the function that uses it": (
        "def f():\n    from trl import A\n    return USE\n",
        "def f():\n    from trl import A, SFTConfig\n    return SFTConfig()\n",
    ),
    "type checking is left alone": (
        "if TYPE_CHECKING:\n    from trl import SFTConfig\nx = USE\n",
        "if TYPE_CHECKING:\n    from trl import SFTConfig\nfrom trl import SFTConfig\n"
        "x = SFTConfig()\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NAMES)
def test_names_join_the_import_of_their_module(case: str) -> None:
    before, after = NAMES[case]
    assert use(before, CONFIG, source="SFTConfig()") == after


@pytest.mark.parametrize(
    "before",
    [
        "class SFTConfig: ...\nx = USE\n",
        "from mine import SFTConfig\nx = USE\n",
        "def f(SFTConfig):\n    return USE\n",
        "def f():\n    SFTConfig = 1\n    return USE\n",
        "from trl import A\nSFTConfig = A\nx = USE\n",
    ],
)
def test_a_name_that_means_something_else_is_a_reason_to_refuse(before: str) -> None:
    reason = refusal(before, CONFIG, ReplaceExpression(spot(before, "USE"), "SFTConfig()"))
    assert "'SFTConfig' already means something else" in reason


def test_a_name_that_the_fix_itself_frees_may_be_taken() -> None:
    before = "from transformers import SFTConfig\nx = SFTConfig(a=1)\n"
    assert (
        fixed(
            before,
            RemoveImport("transformers", "SFTConfig"),
            CONFIG,
            ReplaceCallee(call(before), "SFTConfig"),
        )
        == "from trl import SFTConfig\nx = SFTConfig(a=1)\n"
    )


def test_adding_twice_adds_once() -> None:
    before = "import os\nx = USE1\ny = USE2\n"
    fixes = [
        (TORCH, ReplaceExpression(spot(before, name), "torch.float16")) for name in ("USE1", "USE2")
    ]
    assert apply_edits(before, fixes).text == (
        "import os\nimport torch\nx = torch.float16\ny = torch.float16\n"
    )
    done = use("import torch\nx = USE\n", TORCH)
    assert fixed(done, TORCH) == done


def test_new_imports_of_one_pass_stand_together_sorted() -> None:
    before = "import os\nx = A + B\n"
    fixes = [
        (AddImport("trl", "Z"), ReplaceExpression(spot(before, "A"), "Z")),
        (AddImport("trl", "Y"), TORCH, ReplaceExpression(spot(before, "B"), "torch.f(Y)")),
    ]
    after = "import os\nimport torch\nfrom trl import Y, Z\nx = Z + torch.f(Y)\n"
    assert apply_edits(before, fixes).text == after
    assert apply_edits(before, fixes[::-1]).text == after


def test_alias_is_used_in_statements_too() -> None:
    before = "import torch as th\nx = 1\n"
    edit = InsertStatement(spot(before, "x = 1"), "torch.f(y.torch, torch=1)", "after")
    assert fixed(before, TORCH, edit) == "import torch as th\nx = 1\nth.f(y.torch, torch=1)\n"


REMOVED = [
    ("from m import a\n", ""),
    ("from m import a, b\n", "from m import b\n"),
    ("from m import b, a\n", "from m import b\n"),
    ("from m import b, a as c\n", "from m import b\n"),
    ("from m import (\n    a,  # gone\n    b,\n)\n", "from m import (\n    b,\n)\n"),
    ("from m import b, \\\n    a\n", "from m import b\n"),
    ("def f():\n    from m import a\n", "def f():\n    pass\n"),
    ("try:\n    from m import a\nexcept E: ...\n", "try:\n    pass\nexcept E: ...\n"),
    ("import b; from m import a\n", "import b\n"),
    ("from m import a\na()\n", "from m import a\na()\n"),
    ("from m import a\n__all__ = ['a']\n", "from m import a\n__all__ = ['a']\n"),
    ("from m import a\nx: 'list[a]' = []\n", "from m import a\nx: 'list[a]' = []\n"),
    ("from m import a\nx.a(a=1)\n", "x.a(a=1)\n"),
    ('from m import a\n"""a is gone"""\n', '"""a is gone"""\n'),
]


@pytest.mark.parametrize(("before", "after"), REMOVED)
def test_import_is_removed_unless_it_is_used(before: str, after: str) -> None:
    assert fixed(before, RemoveImport("m", "a")) == after


def test_use_is_judged_after_all_edits() -> None:
    before = "from m import a\nx = a()\ny = a()\n"
    first = (ReplaceCallee(call(before, 0), "b"), RemoveImport("m", "a"))
    second = (ReplaceCallee(call(before, 1), "b"), RemoveImport("m", "a"))
    assert apply_edits(before, [first]).text == "from m import a\nx = b()\ny = a()\n"
    assert apply_edits(before, [first, second]).text == "x = b()\ny = b()\n"
    used = (ReplaceCallee(call(before, 0), "c(a)"), ReplaceCallee(call(before, 1), "b"))
    assert "import a" in fixed(before, *used, RemoveImport("m", "a"))
    assert "import a" not in fixed(before, RemoveImport("m", "a", unless_used=False))
    assert "not imported" in refusal(before, RemoveImport("m", "z"))


@pytest.mark.parametrize(
    ("before", "module", "name", "after"),
    [
        ("from m import old\nold()\n", "m", "new", "from m import new as old\nold()\n"),
        ("from m import old\nx\n", "m", "new", "from m import new\nx\n"),
        ("from m import old as o\no()\n", "m", "new", "from m import new as o\no()\n"),
        ("from m import a, old, b\nold\n", "m", "new", "from m import a, new as old, b\nold\n"),
        ("from m import old\nold()\n", "n.o", "old", "from n.o import old\nold()\n"),
        ("from m import old  # why\nold\n", "n", "old", "from n import old  # why\nold\n"),
        ("from m import a, old\nold\n", "n", "old", "from m import a\nfrom n import old\nold\n"),
        ("from m import old\nold\n", "", "old", "import old\nold\n"),
        (
            "from m import (\n    a,\n    old,  # gone\n)\nold\n",
            "",
            "p.q",
            "from m import (\n    a,\n)\nimport p.q as old\nold\n",
        ),
        ("from n import z\nfrom m import old\nold\n", "n", "old", "from n import old, z\nold\n"),
        ("from n import old\nfrom m import old\nold\n", "n", "old", "from n import old\nold\n"),
    ],
)
def test_import_is_renamed_and_the_bound_name_stays(
    before: str, module: str, name: str, after: str
) -> None:
    place = next(
        span
        for node, span in all_of(before, ast.ImportFrom)
        if isinstance(node, ast.ImportFrom) and node.module == "m"
    )
    edit = RenameImport(place, "m", "old", module, name)
    assert fixed(before, edit) == after


def test_import_that_another_fix_adds_to_stays_and_loses_its_name() -> None:
    text = "from trl import old\nx = USE\nold()\n"
    renamed = RenameImport(statement(text), "trl", "old", "elsewhere", "old")
    applied = apply_edits(
        text, [(renamed,), (CONFIG, ReplaceExpression(spot(text, "USE"), "SFTConfig()"))]
    )
    assert applied.text == (
        "from trl import SFTConfig\nfrom elsewhere import old\nx = SFTConfig()\nold()\n"
    )
