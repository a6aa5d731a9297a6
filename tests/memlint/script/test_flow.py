"""Definitions and uses: what reaches a use, and what is wanted after a step."""

from __future__ import annotations

import ast

import pytest

from memlint.engine.scopes import Flow
from memlint.script.model import Script
from tests.memlint.script.scripts import read


def loop_of(script: Script) -> ast.For:
    """The loop that is marked by the variable ``batch``."""
    return next(
        node
        for node in script.nodes(ast.For)
        if isinstance(node.target, ast.Name) and node.target.id == "batch"
    )


def flow_and_loop(text: str) -> tuple[Flow, ast.For]:
    script = read(text)
    return script.flow, loop_of(script)


CARRIED = {
    "read before it is bound": "x = None\nfor batch in data:\n    use(x)\n    x = f(batch)\n",
    "in the test of an inner if": (
        "x = None\nfor batch in data:\n    if x:\n        g()\n    x = f(batch)\n"
    ),
    "bound on one path only": (
        "x = None\nfor batch in data:\n    if batch:\n        x = f(batch)\n    use(x)\n"
    ),
    "added to": "x = 0\nfor batch in data:\n    x += f(batch)\n",
    "by an inner loop that may not run": (
        "x = None\nfor batch in data:\n    for y in batch:\n        x = y\n    use(x)\n"
    ),
    "in an exception handler": (
        "for batch in data:\n    try:\n        x = f(batch)\n"
        "    except ValueError:\n        use(x)\n"
    ),
}
NOT_CARRIED = {
    "bound first": "for batch in data:\n    x = f(batch)\n    use(x)\n",
    "bound on both paths": (
        "for batch in data:\n    if batch:\n        x = 1\n    else:\n        x = 2\n    use(x)\n"
    ),
    "bound inside with": "for batch in data:\n    with c():\n        x = f(batch)\n    use(x)\n",
    "a comprehension's own name": (
        "for batch in data:\n    use([x for x in batch])\n    x = f(batch)\n"
    ),
    "unpacked": "for batch in data:\n    x, *rest = f(batch)\n    use(x)\n",
    "deleted": "for batch in data:\n    x = f(batch)\n    del x\n",
}


@pytest.mark.parametrize("case", CARRIED)
def test_a_turn_reads_what_the_turn_before_left(case: str) -> None:
    flow, loop = flow_and_loop(CARRIED[case])
    assert flow.is_carried(loop, "x")


@pytest.mark.parametrize("case", NOT_CARRIED)
def test_a_turn_binds_its_own(case: str) -> None:
    flow, loop = flow_and_loop(NOT_CARRIED[case])
    assert not flow.is_carried(loop, "x")


AFTER = {
    "later in the block": "for batch in data:\n    x = f(batch)\nprint(x)\n",
    "in its else": "for batch in data:\n    x = f(batch)\nelse:\n    print(x)\n",
    "after the block around": (
        "def train():\n    if go:\n        for batch in data:\n            x = f(batch)\n"
        "    return x\n"
    ),
    "at the head of the loop around": (
        "def train():\n    x = None\n    for epoch in range(3):\n        print(x)\n"
        "        for batch in data:\n            x = f(batch)\n"
    ),
    "by a function that reads the global": (
        "def show():\n    print(x)\nfor batch in data:\n    x = f(batch)\n"
    ),
    "by a closure": (
        "def train():\n    def show():\n        return x\n"
        "    for batch in data:\n        x = f(batch)\n"
    ),
    "declared global": "def train():\n    global x\n    for batch in data:\n        x = f(batch)\n",
}
NOT_AFTER = {
    "never": "for batch in data:\n    x = f(batch)\n",
    "bound again": "for batch in data:\n    x = f(batch)\nx = 1\nprint(x)\n",
    "another function's own": (
        "def show(x):\n    print(x)\nfor batch in data:\n    x = f(batch)\n"
    ),
    "bound again in the next epoch": (
        "def train():\n    for epoch in range(3):\n        for batch in data:\n"
        "            x = f(batch)\n        for item in test:\n            x = g(item)\n"
        "            print(x)\n"
    ),
    "a lambda's own": "for batch in data:\n    x = f(batch)\nkey = lambda x: x + 1\n",
}


@pytest.mark.parametrize("case", AFTER)
def test_read_after_the_loop(case: str) -> None:
    flow, loop = flow_and_loop(AFTER[case])
    assert flow.is_read_after(loop, "x")


@pytest.mark.parametrize("case", NOT_AFTER)
def test_not_read_after_the_loop(case: str) -> None:
    flow, loop = flow_and_loop(NOT_AFTER[case])
    assert not flow.is_read_after(loop, "x")


def test_last_use_is_a_statement_of_the_body() -> None:
    script = read("for batch in data:\n    with c():\n        x = f(batch)\n    g()\n")
    loop = loop_of(script)
    assert script.flow.last_use(loop, ["x"]) is loop.body[0]


@pytest.mark.parametrize(
    "body",
    [
        "    x = f(batch)\n    if x:\n        y = 1\n    return x\n",
        "    x = f(batch)\n    hooks.append(lambda: x)\n",
    ],
)
def test_nothing_follows_a_use_that_leaves_or_that_a_closure_makes(body: str) -> None:
    script = read("def train():\n    for batch in data:\n" + body.replace("    ", "        "))
    assert script.flow.last_use(loop_of(script), ["x"]) is None


@pytest.mark.parametrize(
    ("body", "bound"),
    [
        ("    x = f(batch)\n", True),
        ("    if a:\n        x = 1\n    else:\n        continue\n", True),
        ("    if a:\n        x = 1\n", False),
        ("    try:\n        x = f(batch)\n    except ValueError:\n        pass\n", False),
        ("    try:\n        x = f(batch)\n    except ValueError:\n        continue\n", True),
        ("    with c() as x:\n        pass\n", True),
        ("    for y in batch:\n        x = y\n", False),
    ],
)
def test_bound_each_turn(body: str, bound: bool) -> None:
    flow, loop = flow_and_loop("for batch in data:\n" + body)
    assert flow.is_bound_each_turn(loop, "x") is bound


def reaching(text: str, name: str = "x") -> set[int]:
    """Lines of the definitions that reach the last read of ``name``."""
    script = read(text)
    reads = [node for node in script.nodes(ast.Name) if node.id == name]
    reads = [node for node in reads if isinstance(node.ctx, ast.Load)]
    use = max(reads, key=lambda node: (node.lineno, node.col_offset))
    return {node.lineno for node in script.flow.definitions(use)}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x = 1\nx = 2\nprint(x)\n", {2}),
        ("x = 1\nif a:\n    x = 2\nprint(x)\n", {1, 3}),
        ("if a:\n    x = 1\nelse:\n    x = 2\nprint(x)\n", {2, 4}),
        ("def f(x):\n    return x\n", {1}),
        ("def f(x):\n    x = x + 1\n    return x\n", {2}),
        ("x = 0\nfor i in a:\n    print(x)\n    x = i\n", {1, 4}),
        ("for x in a:\n    print(x)\n", {1}),
        ("with a as x:\n    print(x)\n", {1}),
        ("x: int = 1\nprint(x)\n", {1}),
    ],
)
def test_definitions_that_reach_a_use(text: str, lines: set[int]) -> None:
    assert reaching(text) == lines
