"""Sums and lists that outlive the turns of a loop, and what of a graph is there."""

from __future__ import annotations

import pytest

from memlint.script import Graph
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
    (found,) = script.sums
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
    assert script.sums == ()
    assert script.hoards == ()


def test_what_is_added_may_be_on_either_side_and_in_a_pair() -> None:
    script = read("""
        for batch in loader:
            total = loss + total
            average = 0.9 * average + 0.1 * loss
            both.append((loss, {"n": n}))
    """)
    assert [script.text(one.addend) for one in script.sums] == ["loss", "0.1 * loss"]
    assert [script.text(one.value) for one in script.hoards] == ["loss", "n"]
