"""Losses that a script computes by hand from logits, and what reads a metric's predictions."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from memlint.engine.project import Project
from memlint.rule import facts
from memlint.rule.registry import load
from memlint.script.handwritten_losses import LossForm, are_read_alone
from memlint.script.model import Script, build_script
from memlint.script.owners import Owner
from memlint.source import Source
from tests.memlint.script.scripts import api, read

HEADER = dedent("""
    import torch
    import torch.nn.functional as F
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
""")


def script_of(text: str) -> Script:
    return read(HEADER + dedent(text))


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("F.cross_entropy(model(ids).logits.view(-1, 9), y)", LossForm.CROSS_ENTROPY),
        ("logits = model(ids).logits\ntorch.nn.CrossEntropyLoss()(logits, y)",
         LossForm.CROSS_ENTROPY),
        ("F.log_softmax(model(ids).logits, -1).gather(-1, y.unsqueeze(-1))", LossForm.GATHERED),
        ("def f(x):\n    p = x.log_softmax(-1)\n    return p.gather(2, y.unsqueeze(2))\n"
         "f(model(ids).logits[:, :-1])", LossForm.GATHERED),
        ("p = F.log_softmax(model(ids).logits, -1)\np[torch.arange(3), y]", LossForm.GATHERED),
        ("p = F.log_softmax(model(ids).logits, -1)\np[:, 1:].float().gather(-1, y[..., None])",
         LossForm.GATHERED),
        ("p = F.log_softmax(model(ids).logits, -1)\nF.kl_div(p, q)", LossForm.DISTILLED),
        ("x = model(ids).logits\nx.gather(-1, y[..., None])[..., 0] - x.logsumexp(-1)",
         LossForm.LOGSUMEXP),
    ],
)  # fmt: skip
def test_forms(text: str, form: LossForm) -> None:
    (loss,) = script_of(text).token_losses
    assert loss.form is form
    assert loss.over_vocabulary
    assert loss.gradients


@pytest.mark.parametrize(
    "text",
    [
        "F.cross_entropy(model(ids).logits[:, -1], y)",
        "F.cross_entropy(other, y)",
        "p = F.log_softmax(model(ids).logits, -1)\n(p.exp() * p).sum(-1)",
        "model(ids).logits.logsumexp(-1).pow(2)",
        "F.log_softmax(model(ids).logits, -1).gather(-1, several)",
        "F.log_softmax(model(ids).logits, 0).gather(-1, y.unsqueeze(-1))",
    ],
)
def test_no_token_loss(text: str) -> None:
    assert not script_of(text).token_losses


def test_gradients_of_one_call_are_enough() -> None:
    text = (
        "def f(logits):\n"
        "    return F.log_softmax(logits, -1).gather(-1, y.unsqueeze(-1))\n"
        "with torch.no_grad():\n"
        "    f(model(ids).logits)\n"
    )
    (loss,) = script_of(text).token_losses
    assert not loss.gradients
    (loss,) = script_of(f"{text}f(model(ids).logits)\n").token_losses
    assert loss.gradients


def test_float32_copies_are_seen() -> None:
    (plain, copied) = script_of("""
        logits = model(ids).logits
        F.cross_entropy(logits.view(-1, 9), y)
        F.cross_entropy(logits.view(-1, 9).to(torch.float32), y)
    """).token_losses
    assert (plain.upcast, copied.upcast) == (False, True)


def test_logits_of_which_losses_and_the_likeliest_words_are_read() -> None:
    text = "p = F.log_softmax(model(ids).logits, -1)\np.gather(-1, y.unsqueeze(-1))\nprint(p.shape)"
    script = script_of(text)
    assert are_read_alone(script, list(script.token_losses))
    script = script_of(f"{text}\nprint(model(ids).logits.argmax(-1))")
    assert are_read_alone(script, list(script.token_losses))
    script = script_of(f"{text}\nwith torch.no_grad():\n    print(model(ids).logits.softmax(-1))")
    assert are_read_alone(script, list(script.token_losses))
    script = script_of(f"{text}\nprint(model(ids).logits.softmax(-1))")
    assert not are_read_alone(script, list(script.token_losses))


def test_a_model_computes_its_loss_where_labels_are_given_or_the_loss_is_read() -> None:
    forwards = script_of("model(ids, labels=ids)\nmodel(**b).loss\nmodel(**b)\nmodel(ids).logits")
    assert [one.computes_loss for one in forwards.forwards] == [True, True, False, False]


def test_a_decorator_sets_no_mode_for_what_follows() -> None:
    (forward,) = script_of("""
        @torch.set_grad_enabled(False)
        def score(): ...
        model(ids)
    """).forwards
    assert forward.gradients is True


def test_a_known_family_keeps_the_loss_of_transformers_with_remote_code_allowed() -> None:
    script = read("""
        from transformers import AutoModelForCausalLM, Trainer
        a = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", trust_remote_code=True)
        b = AutoModelForCausalLM.from_pretrained("THUDM/chatglm3-6b", trust_remote_code=True)
        Trainer(a)
        Trainer(b)
    """)
    owners = [script.owner_of_loss(one).owner for one in script.trainers]
    assert owners == [Owner.TRANSFORMERS, Owner.REMOTE_CODE]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("logits, labels = pair\n    return np.argmax(logits, axis=-1)", True),
        ("return np.argmax(pair.predictions, -1)", True),
        ("logits, labels = pair\n    logits = np.argmax(logits, axis=-1)\n    return f(logits)",
         False),
        ("logits, labels = pair\n    return np.argmax(logits, axis=0)", False),
        ("logits, labels = pair\n    return np.argmax(logits, axis=-1), pair", False),
    ],
)  # fmt: skip
def test_metrics_that_read_the_argmax_alone(body: str, found: bool) -> None:
    script = read(
        "import numpy as np\nfrom transformers import Trainer\n"
        f"def metric(pair):\n    {body}\nTrainer(m, compute_metrics=metric)\n"
    )
    metric = facts.metric_of(script, script.trainers[0])
    assert metric is not None
    assert (metric.argmax is not None) is found


def test_a_loop_over_a_model_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(
        "from transformers import AutoModelForCausalLM\n"
        "def build():\n    return AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B')\n"
    )
    text = (
        "import transformers\nfrom models import build\nmodel = build()\nfor batch in loader:\n"
        "    model(**batch).loss.backward()\n"
    )
    source = Source(str(tmp_path / "train.py"), text)
    (rule,) = load(["MEM201"])
    alone = build_script(source, api())
    together = build_script(source, api(), Project(source.path))
    assert not list(rule.findings(alone))
    assert [source.location(one.span.start).row for one in rule.findings(together)] == [5]
