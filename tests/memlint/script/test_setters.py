"""What another function may have set is unknown where a function begins that nothing calls."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from memlint.script.call_settings import UNSURE
from tests.memlint.script.scripts import read
from tests.memlint.script.test_project import read_in

HEAD = "from transformers import Trainer, TrainingArguments\n"
TRAIN = """\
    args = TrainingArguments("out")
    Trainer(args=args, train_dataset=rows).train()
"""
FIT = "def fit(self, rows):\n    {guard}\n" + TRAIN
GUARDS = [
    "if self.net is None:\n        raise RuntimeError('prepare() first')",
    "if not self.net:\n        raise RuntimeError",
    "if self.net is None: return",
    "net = self.net\n    if net is None:\n        raise RuntimeError",
    "if (net := self.net) is None:\n        raise RuntimeError",
    "ready = True if self.net else False\n    if not ready:\n        raise RuntimeError",
    "while self.net is None:\n        raise RuntimeError",
    "match self.net:\n        case None:\n            raise RuntimeError",
    "assert self.net is not None\n    if self.net is None:\n        raise RuntimeError",
    "self.check()",
]
FIRSTS = [
    "def __init__(self):\n    self.net = None",
    "net = None",
    "net: object = None",
    "def __init__(self):\n    self.net: object = None",
]
SETTERS = [
    "def prepare(self, net):\n    self.net = net",
    "def prepare(self, net):\n    setattr(self, 'net', net)",
    "def prepare(self, **parts):\n    for key in parts:\n        setattr(self, key, parts[key])",
    "def prepare(self, parts):\n    vars(self).update(parts)",
    "@classmethod\ndef prepare(cls, net):\n    cls.net = net",
    "def prepare(self, net):\n    self.net, self.rows = net, 1",
]
CHECK = "def check(self):\n    if self.net is None:\n        raise RuntimeError\n"


def runner(*methods: str, name: str = "Runner", base: str = "") -> str:
    body = "\n".join(indent(method, "    ") for method in methods)
    return f"class {name}({base}):\n{body}\n"


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("first", FIRSTS)
def test_code_behind_a_guard_is_read(guard: str, first: str) -> None:
    """A word of the guard's message changes no order."""
    for setter in SETTERS[:1]:
        text = HEAD + runner(first, setter, CHECK, FIT.format(guard=guard))
        assert len(read(text).configs) == 1


@pytest.mark.parametrize("setter", SETTERS)
@pytest.mark.parametrize("later", [False, True])
def test_all_ways_to_set_an_attribute_count(setter: str, later: bool) -> None:
    fit = FIT.format(guard=GUARDS[0])
    methods = (FIRSTS[0], fit, setter) if later else (FIRSTS[0], setter, fit)
    assert len(read(HEAD + runner(*methods)).configs) == 1


OTHERS = {
    "a global": """
        NET = None
        def prepare(net):
            global NET
            NET = net
        def fit(rows):
            if NET is None:
                raise RuntimeError
            TrainingArguments("out")
    """,
    "globals()": """
        NET = None
        def fit(rows):
            if NET is None:
                raise RuntimeError
            TrainingArguments("out")
        def prepare(net):
            globals()["NET"] = net
    """,
    "an item of a shared dict": """
        STATE = {"net": None}
        def fit(rows):
            if STATE["net"] is None:
                raise RuntimeError
            TrainingArguments("out")
        def prepare(net):
            STATE["net"] = net
    """,
    "a class as a namespace": """
        class State:
            net = None
        def fit(rows):
            if State.net is None:
                raise RuntimeError
            TrainingArguments("out")
        def prepare(net):
            State.net = net
    """,
    "a name of the enclosing function": """
        def main():
            net = None
            def prepare(other):
                nonlocal net
                net = other
            def fit(rows):
                if net is None:
                    raise RuntimeError
                TrainingArguments("out")
            serve(prepare, fit)
    """,
    "a subclass": """
        class Base:
            net = None
            def fit(self, rows):
                if self.net is None:
                    raise RuntimeError
                TrainingArguments("out")
        class Real(Base):
            def prepare(self, net):
                self.net = net
    """,
    "an instance that others hold": """
        class Runner:
            def __init__(self):
                self.net = None
        runner = Runner()
        def prepare(net):
            runner.net = net
        def fit(rows):
            if runner.net is None:
                raise RuntimeError
            TrainingArguments("out")
    """,
    "an object that is taken away": """
        class Runner:
            def __init__(self):
                self.trainer = Trainer()
            def free(self):
                self.trainer = None
            def fit(self, rows):
                if self.trainer is not None:
                    raise RuntimeError
                TrainingArguments("out")
    """,
    "a method that something out of sight calls": """
        import service
        class Runner:
            def __init__(self):
                self.net = None
            def prepare(self, net):
                self.net = net
            def fit(self, rows):
                if self.net is None:
                    raise RuntimeError
                TrainingArguments("out")
        runner = Runner()
        service.prepare(runner.prepare)
        runner.fit(rows)
    """,
}


@pytest.mark.parametrize("shape", OTHERS)
def test_all_that_outlives_a_function_counts(shape: str) -> None:
    assert len(read(HEAD + dedent(OTHERS[shape])).configs) == 1


MODULES = {
    "a base class": (
        "class Base:\n    net = None\n    def prepare(self, net):\n        self.net = net\n",
        "from state import Base\n" + runner(FIT.format(guard=GUARDS[0]), base="Base"),
    ),
    "a module's global": (
        "NET = None\ndef prepare(net):\n    global NET\n    NET = net\n",
        "import state\n" + runner(FIT.format(guard=GUARDS[0].replace("self.net", "state.NET"))),
    ),
    "what is set on a module": (
        "NET = None\n",
        "import state\n"
        + runner(FIT.format(guard=GUARDS[0].replace("self.net", "state.NET")))
        + "def prepare(net):\n    state.NET = net\n",
    ),
}


@pytest.mark.parametrize("shape", MODULES)
def test_what_another_file_sets_counts(shape: str, tmp_path: Path) -> None:
    other, text = MODULES[shape]
    script = read_in(tmp_path, {"state.py": other, "train.py": HEAD + text})
    assert len(script.configs) == 1


SIZED = "def fit(self):\n    TrainingArguments('out', per_device_train_batch_size=self.size)"


def batch_size(*methods: str) -> object:
    (config,) = read(HEAD + runner(*methods, SIZED)).configs
    return config.setting("per_device_train_batch_size").value


def test_what_only_the_constructor_sets_is_certain() -> None:
    first = "def __init__(self):\n    self.size = 8"
    assert batch_size(first) == 8
    assert batch_size(first, "def grow(self, size):\n    self.size = size") is UNSURE


def test_what_a_helper_of_the_constructor_always_sets_is_certain() -> None:
    first = "def __init__(self):\n    self.choose()"
    assert batch_size(first, "def choose(self):\n    self.size = 8") == 8


def test_other_classes_with_an_attribute_of_that_name_do_not_count() -> None:
    other = runner("def grow(self, size):\n    self.size = size", name="Other")
    text = HEAD + other + runner("def __init__(self):\n    self.size = 8", SIZED)
    (config,) = read(text).configs
    assert config.setting("per_device_train_batch_size").value == 8
