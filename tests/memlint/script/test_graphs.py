"""Sums and lists that outlive the turns of a loop, and what of a graph is there."""

from __future__ import annotations

import pytest

from memlint.flow.reach import Reach
from memlint.rule import facts
from memlint.script.graphs import Graph
from tests.memlint.script.scripts import read

LOOP = """
import torch
for batch in loader:
    loss = {loss}
    {backward}
    total = total + {addend}
"""


@pytest.mark.parametrize(
    ("loss", "backward", "addend", "graph"),
    [
        ("model(**batch).loss", "loss.backward()", "loss", Graph.SPENT),
        ("criterion(net(batch))", "loss.backward()", "loss.mean()", Graph.SPENT),
        ("criterion(net(batch))", "scaler.scale(loss / n).backward()", "loss", Graph.SPENT),
        ("criterion(net(batch))", "(0.5 * loss).backward()", "loss * n", Graph.SPENT),
        ("criterion(net(batch))", "(loss / n).backward()", "n", None),
        ("criterion(net(batch))", "loss.backward()", "loss.detach()", None),
        ("criterion(net(batch))", "loss.backward()", "loss.data", None),
        ("criterion(net(batch))", "loss.backward()", "loss.item() * n", None),
        ("criterion(net(batch))", "loss.backward(); loss = loss.item()", "loss", None),
        ("criterion(net(batch))", "pass", "loss", None),
        ("model(**batch).loss", "pass", "loss", None),
    ],
)
def test_what_of_the_graph_is_there(
    loss: str, backward: str, addend: str, graph: Graph | None
) -> None:
    script = read(LOOP.format(loss=loss, backward=backward, addend=addend))
    (found,) = facts.sums_of(script)
    assert script.graph_of(found.addend, found.loop) is graph


def test_a_sum_or_list_of_one_turn_is_none() -> None:
    script = read("""
        for batch in loader:
            total, found = 0, []
            total += 1
            found.append(batch)
            if done:
                kept = []
            kept.append(batch)
            for part in batch:
                part.append(1)
    """)
    assert facts.sums_of(script) == ()
    assert facts.hoards_of(script) == ()


def test_what_is_added_may_be_on_either_side_and_in_a_pair() -> None:
    script = read("""
        for batch in loader:
            total = loss + total
            average = 0.9 * average + 0.1 * loss
            both.append((loss, {"n": n}))
    """)
    assert [script.text(one.addend) for one in facts.sums_of(script)] == ["loss", "0.1 * loss"]
    assert [script.text(one.value) for one in facts.hoards_of(script)] == ["loss", "n"]


RETAINED = """
import torch
from elsewhere import finish
def epoch(model):
    total, losses = 0, []
    for batch in loader:
        loss = model(**batch).loss
        loss.backward({retain})
        total += loss
        losses.append(loss)
    {end}
{after}
"""


@pytest.mark.parametrize(
    ("end", "after", "reach"),
    [
        ("print(total / 3, float(total), f'{total}')", "", Reach.READ),
        ("log.info('%s', total); wandb.log({'loss': total / 3})", "", Reach.READ),
        ("total = total.item(); finish(total)", "", Reach.READ),
        ("logs = {}; logs.update({'loss': total}); print(logs)", "", Reach.READ),
        ("return total / len(loader)", "print(epoch(model))", Reach.READ),
        ("return total, 1", "mean, _ = epoch(model); print(f'{mean:.2f}')", Reach.READ),
        ("return total / len(loader)", "", Reach.UNKNOWN),
        ("self.total = total", "", Reach.UNKNOWN),
        ("finish(total)", "", Reach.UNSEEN),
        ("finish(*[total])", "", Reach.UNSEEN),
        ("for callback in callbacks: callback(total)", "", Reach.UNSEEN),
        ("kept = {}; kept['loss'] = total; finish(kept)", "", Reach.UNSEEN),
        ("operator.methodcaller('backward')(total)", "", Reach.UNSEEN),
        ("optimizer.step(lambda: total)", "", Reach.UNSEEN),
        ("return total", "finish(epoch(model))", Reach.UNSEEN),
        ("accelerator.backward(total)", "", Reach.BACKWARD),
        ("torch.Tensor.backward(total)", "", Reach.BACKWARD),
        ("torch.autograd.backward([total])", "", Reach.BACKWARD),
        ("torch.autograd.grad(total, weights)", "", Reach.BACKWARD),
        ("getattr(total, 'backward')()", "", Reach.BACKWARD),
        ("self.total = total", "self.total.backward()", Reach.BACKWARD),
        ("return total", "scaler.scale(epoch(model) / 2).backward()", Reach.BACKWARD),
        ("last(total)", "def last(sum): sum.backward()", Reach.BACKWARD),
    ],
)
def test_where_a_sum_and_a_list_go(end: str, after: str, reach: Reach) -> None:
    retain = "retain_graph=True"
    script = read(RETAINED.format(retain=retain, end=end, after=after))
    (found,) = facts.sums_of(script)
    assert facts.reach_of_sum(script, found, Graph.SPENT) is reach
    end, after = end.replace("total", "losses"), after.replace("total", "losses")
    script = read(RETAINED.format(retain=retain, end=end, after=after))
    (hoard,) = facts.hoards_of(script)
    assert facts.reach_of_hoard(script, hoard, Graph.SPENT) is reach


def test_what_is_freed_is_not_run_backward_again() -> None:
    script = read(RETAINED.format(retain="", end="finish(total)", after=""))
    (found,) = facts.sums_of(script)
    assert facts.reach_of_sum(script, found, Graph.SPENT) is Reach.READ
    assert facts.reach_of_sum(script, found, Graph.WHOLE) is Reach.UNSEEN


@pytest.mark.parametrize(
    ("before", "after", "reach"),
    [
        ("loss = criterion(outputs.logits, labels)", "print(loss.item())", Reach.READ),
        ("loss = outputs.loss", "meter.update(loss.item()); evaluate(model)", Reach.READ),
        ("loss = outputs.loss; meter.update(loss)", "optimizer.step()", Reach.UNKNOWN),
        ("loss = outputs.loss", "self.hook(loss)", Reach.UNSEEN),
        ("loss = criterion(outputs.logits)", "regularize(outputs.hidden_states)", Reach.UNSEEN),
        ("loss = outputs.loss", "outputs.logits.sum().backward()", Reach.BACKWARD),
    ],
)
def test_where_the_graph_of_a_step_goes(before: str, after: str, reach: Reach) -> None:
    script = read(f"""
        from transformers import AutoModelForCausalLM
        model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
        for batch in loader:
            outputs = model(**batch)
            {before}
            loss.backward(retain_graph=True)
            {after}
    """)
    (step,) = script.steps
    assert facts.reach_of_graph(script, step, step.backwards[0]) is reach
