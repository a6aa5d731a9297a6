"""Forwards, backwards and steps, through helpers, methods and modules; modes; what is held."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from memlint.engine.forwards import Certainty
from memlint.flow.events import EventKind, events_of
from memlint.script.forward_passes import Forward
from memlint.script.model import Script
from tests.memlint.script.scripts import read

HEADER = dedent("""
    import torch
    import torch.nn as nn
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
""")


def script_of(text: str) -> Script:
    return read(HEADER + dedent(text))


def marked(text: str) -> Forward:
    """The forward pass of the model that the script loads, or of ``lm``, an unknown one."""
    found = [one for one in script_of(text).forwards if not one.own]
    assert len(found) == 1, found
    return found[0]


IN_STEP = {
    "in the loop": """
        for batch in loader:
            loss = model(**batch).loss
            loss.backward()
    """,
    "in a helper": """
        def loss_of(model, batch):
            return model(**batch).loss
        for batch in loader:
            loss_of(model, batch).backward()
    """,
    "with the backward in a helper": """
        def step(model, batch):
            loss = model(**batch).loss
            loss.backward()
            return loss.item()
        for batch in loader:
            step(model, batch)
    """,
    "two calls deep": """
        def inner(model, batch):
            return model(**batch)
        def outer(model, batch):
            return inner(model, batch).loss
        for batch in loader:
            outer(model, batch).backward()
    """,
    "in a method": """
        class Loop:
            def __init__(self, model):
                self.model = model
            def loss(self, batch):
                return self.model(**batch).loss
            def fit(self, loader):
                for batch in loader:
                    self.loss(batch).backward()
        Loop(model).fit(loader)
    """,
    "in a wrapper module": """
        class Wrapper(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
            def forward(self, batch):
                return self.inner(**batch).loss
        wrapper = Wrapper(model)
        for batch in loader:
            wrapper(batch).backward()
    """,
    "in a generator": """
        def steps(model, loader):
            for batch in loader:
                loss = model(**batch).loss
                loss.backward()
                yield loss.item()
        for value in steps(model, loader):
            print(value)
    """,
    "in an inner loop over micro-batches": """
        for batch in loader:
            for micro in batch:
                loss = model(**micro).loss
                loss.backward()
            optimizer.step()
    """,
    "in a function that nothing calls": """
        def fit(model, loader):
            for batch in loader:
                model(**batch).loss.backward()
    """,
}


@pytest.mark.parametrize("case", IN_STEP)
def test_forward_in_a_training_step(case: str) -> None:
    forward = marked(IN_STEP[case])
    assert forward.in_training_step
    assert forward.gradients is True
    assert forward.language_model is True


IN_STEP_UNKNOWN = {
    "one of several": """
        net_model = load(3) if a else load(4)
        for batch in loader:
            net_model(**batch).loss.backward()
    """,
    "wrapped on one path": """
        from mine import load
        from torch.nn.parallel import DistributedDataParallel
        net_model, tokenizer = load()
        if b:
            net_model = torch.compile(net_model)
        if a:
            net_model = DistributedDataParallel(net_model)
        for batch in loader:
            net_model(**batch).loss.backward()
    """,
    "by a method that is called for evaluation, too": """
        class Trainer:
            def both(self, model, batch):
                return model(batch).logits, model(batch).logits
            def metrics(self, batch, train):
                first = self.both(self.policy, batch)
                with torch.no_grad():
                    second = self.both(self.reference, batch)
                return first
            def train(self):
                for batch in self.test:
                    self.metrics(batch, False)
                for batch in self.loader:
                    loss = self.metrics(batch, True)
                    loss.backward()
    """,
}


@pytest.mark.parametrize("case", IN_STEP_UNKNOWN)
def test_forward_of_an_unknown_model_in_a_training_step(case: str) -> None:
    forwards = script_of(IN_STEP_UNKNOWN[case]).forwards
    assert forwards
    assert all(forward.in_training_step for forward in forwards)


OUTSIDE = {
    "before the loop": """
        model(**first)
        for batch in loader:
            other(batch).backward()
    """,
    "in evaluation beside it": """
        for epoch in range(3):
            for batch in loader:
                other(batch).backward()
            for batch in test:
                model(**batch)
    """,
    "in evaluation within it": """
        def evaluate(model):
            model.eval()
            for batch in test:
                model(**batch)
            model.train()
        for batch in loader:
            other(batch).backward()
            evaluate(model)
    """,
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_forward_outside_training_steps(case: str) -> None:
    assert not marked(OUTSIDE[case]).in_training_step


GRADIENTS: dict[str, tuple[str, bool | None]] = {
    "on": ("model(ids)", True),
    "no_grad": ("with torch.no_grad():\n    model(ids)", False),
    "inference_mode": ("with torch.inference_mode():\n    model(ids)", False),
    "inference_mode(False)": ("with torch.inference_mode(False):\n    model(ids)", True),
    "set_grad_enabled(False)": ("with torch.set_grad_enabled(False):\n    model(ids)", False),
    "set_grad_enabled(unknown)": ("with torch.set_grad_enabled(flag):\n    model(ids)", None),
    "set_grad_enabled for good": ("torch.set_grad_enabled(False)\nmodel(ids)", False),
    "restored": ("with torch.no_grad():\n    pass\nmodel(ids)", True),
    "restored after a flag": ("with torch.set_grad_enabled(False):\n    pass\nmodel(ids)", True),
    "back on": ("with torch.no_grad(), torch.enable_grad():\n    model(ids)", True),
    "a context made before": ("off = torch.no_grad()\nwith off:\n    model(ids)", False),
    "one of two contexts": (
        "from contextlib import nullcontext\n"
        "off = torch.no_grad() if a else nullcontext()\nwith off:\n    model(ids)",
        None,
    ),
    "autocast": ("with torch.autocast('cuda', dtype=torch.bfloat16):\n    model(ids)", True),
    "an unknown context": ("with mine.quietly():\n    model(ids)", None),
    "decorated": ("@torch.no_grad()\ndef f(model):\n    model(ids)\nf(model)", False),
    "decorated without a call": ("@torch.no_grad\ndef f(model):\n    model(ids)\nf(model)", False),
    "decorated by something unknown": ("@quietly\ndef f(model):\n    model(ids)\nf(model)", None),
    "a decorator that is neutral": (
        "import hydra\n@hydra.main()\ndef f(cfg):\n    model(ids)\nf()",
        True,
    ),
    "by the caller": ("def f():\n    model(ids)\nwith torch.no_grad():\n    f()", False),
    "by the caller's caller": (
        "def g():\n    model(ids)\ndef f():\n    g()\nwith torch.no_grad():\n    f()",
        False,
    ),
    "by one of two callers": (
        "def f():\n    model(ids)\nf()\nwith torch.no_grad():\n    f()",
        None,
    ),
    "in a branch": ("if a:\n    torch.set_grad_enabled(False)\nmodel(ids)", None),
    "in a module's forward that nothing calls": (
        "class M(nn.Module):\n    def forward(self, ids):\n        return model(ids)\n",
        None,
    ),
    "in a library's evaluation hook": (
        "from transformers import Trainer\nclass T(Trainer):\n"
        "    def prediction_step(self, model, inputs):\n        return model(**inputs).logits\n",
        None,
    ),
}


@pytest.mark.parametrize("case", GRADIENTS)
def test_gradient_mode(case: str) -> None:
    text, expected = GRADIENTS[case]
    assert marked(text).gradients is expected


MODES: dict[str, tuple[str, bool | None]] = {
    "never said": ("model(ids)", None),
    "eval": ("model.eval()\nmodel(ids)", False),
    "train": ("model.eval()\nmodel.train()\nmodel(ids)", True),
    "train(False)": ("model.train(False)\nmodel(ids)", False),
    "train(unknown)": ("model.train(flag)\nmodel(ids)", None),
    "chained": ("model = model.to('cuda').eval()\nmodel(ids)", False),
    "eval in the caller": ("def f(m):\n    m(ids)\nmodel.eval()\nf(model)", False),
    "eval in a callee": ("def off(m):\n    m.eval()\noff(model)\nmodel(ids)", False),
    "an unknown model, eval in the caller": (
        "def f(model):\n    model(ids)\ndef g(net):\n    net.eval()\n    f(net)",
        False,
    ),
    "through a wrapper": (
        "import peft\nmodel = peft.get_peft_model(model, c)\nmodel.eval()\nmodel(ids)",
        False,
    ),
    "a copy has its own": (
        "import copy\nref = copy.deepcopy(model)\nref.eval()\nmodel(ids)",
        None,
    ),
    "on one path": ("if a:\n    model.eval()\nmodel(ids)", None),
    "of an attribute": (
        "class A:\n    def f(self):\n        self.net.eval()\n        self.net(ids)\n",
        False,
    ),
    "imported": ("from mine import net\nnet.eval()\nnet(ids)", False),
}


@pytest.mark.parametrize("case", MODES)
def test_mode_of_the_module(case: str) -> None:
    text, expected = MODES[case]
    assert marked(text).training is expected


def test_certainty() -> None:
    assert marked("model(ids)").certainty is Certainty.DEFINITE
    assert marked("def f(model):\n    return model(ids).logits").certainty is Certainty.POSSIBLE
    known = marked("def f(net):\n    net.eval()\n    return net(ids)")
    assert known.certainty is Certainty.DEFINITE
    assert not script_of("def f(fn):\n    return fn(ids)").forwards


def test_functions_that_are_called_and_those_that_are_not() -> None:
    assert marked("def f(m):\n    m(ids)\nf(model)").called
    assert not marked("def f(model):\n    return model(ids).logits").called


def test_autocast_dtype() -> None:
    text = "with torch.autocast('cuda', dtype=torch.bfloat16):\n    model(ids)"
    assert marked(text).autocast == "torch.bfloat16"
    assert marked("model(ids)").autocast is None


def test_epochs_and_steps() -> None:
    script = script_of("""
        def train(model, loader):
            for epoch in range(3):
                for batch in loader:
                    model(**batch).loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    scheduler.step()
        train(model, loader)
    """)
    (step,) = script.steps
    assert isinstance(step.node, ast.For)
    assert script.text(step.node.target) == "batch"
    (epoch,) = step.epochs
    assert isinstance(epoch, ast.For)
    assert script.text(epoch.target) == "epoch"
    assert [script.text(call.node.func) for call in step.optimizer_steps] == ["optimizer.step"]
    assert len(step.backwards) == 1


def test_events_are_in_order() -> None:
    script = script_of("""
        for batch in loader:
            out = model(**batch)
            model.generate(**batch)
            out.loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    """)
    kinds = [event.kind for event in events_of(script)]
    assert kinds == [EventKind.GENERATE, EventKind.BACKWARD, EventKind.OPTIMIZER_STEP]


def held(text: str) -> dict[str, bool | None]:
    """Name -> whether it holds logits, of the only step."""
    (step,) = script_of(text).steps
    return {one.name: one.holds_logits for one in step.held}


HELD: dict[str, tuple[str, dict[str, bool | None]]] = {
    "outputs": (
        "out = model(**batch)\nout.loss.backward()",
        {"out": True},
    ),
    "annotated": (
        "out: Out = model(**batch)\nout.loss.backward()",
        {"out": True},
    ),
    "the loss alone": (
        "loss = model(**batch).loss\nloss.backward()",
        {"loss": False},
    ),
    "deleted": (
        "out = model(**batch)\nout.loss.backward()\ndel out",
        {},
    ),
    "bound to something else": (
        "out = model(**batch)\nout.loss.backward()\nout = None",
        {},
    ),
    "from a step function": (
        "loss, out = step(model, batch)\nloss.backward()",
        {"loss": False, "out": True},
    ),
    "cast, and the outputs deleted": (
        "out = model(**batch)\nlogits = out.logits\nlogits = logits.float()\ndel out\n"
        "f(logits).backward()",
        {"logits": True},
    ),
    "a view keeps what it is a view of": (
        "last = model(**batch).logits[:, -1]\nf(last).backward()",
        {"last": True},
    ),
    "a number does not": (
        "best = model(**batch).logits.argmax(-1)\nf(best).backward()",
        {"best": False},
    ),
    "on one path": (
        "if batch:\n    out = model(**batch)\n    out.loss.backward()",
        {"out": True},
    ),
    "a classifier's": (
        "out = AutoModelForSequenceClassification.from_pretrained('q')(**batch)\n"
        "out.loss.backward()",
        {"out": False},
    ),
    "a model of a class elsewhere": (
        "own_model = Own(3)\nout = own_model(**batch)\nout.loss.backward()",
        {"out": None},
    ),
}


@pytest.mark.parametrize("case", HELD)
def test_what_a_step_leaves(case: str) -> None:
    body, expected = HELD[case]
    helper = (
        "from transformers import AutoModelForSequenceClassification\nfrom mine import Own\n"
        "def step(model, batch):\n    out = model(**batch)\n    return out.loss, out\n"
    )
    loop = "for batch in loader:\n" + "".join(f"    {line}\n" for line in body.splitlines())
    assert held(helper + loop) == expected


def test_trains() -> None:
    assert script_of("for b in loader:\n    model(**b).loss.backward()").trains
    assert script_of("from transformers import Trainer\nTrainer(model)").trains
    assert not script_of("model.generate(ids)").trains
