"""What a value may hold: what doubles is followed to a limit, and unknown beyond it."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.engine.interpreter import MAX_MADE, Interpreter
from memlint.engine.tree import Tree
from memlint.engine.uncalled import callers_first
from memlint.engine.values import MAX_SIZE, Constant, Function, OneOf, Sequence
from memlint.script.call_effects import known_effects
from memlint.script.call_settings import UNSURE
from memlint.script.model import build_script
from memlint.source import Source

API = Api(newest())
HEAD = "from trl import SFTConfig\nfrom transformers import AutoModelForCausalLM\n"


def run_of(text: str) -> Interpreter:
    run = Interpreter(known_effects(), lines=(HEAD + text).split("\n"))
    run.run(ast.parse(HEAD + text))
    return run


def given(text: str) -> object:
    source = Source("a.py", f"{HEAD}{text}\nSFTConfig('o', run_name=v)\n")
    (config,) = build_script(source, API).configs
    return config.setting("run_name").value


@pytest.mark.parametrize(
    ("start", "step"),
    [
        ("'x'", "v = v + v"),
        ("'x'", "v += v"),
        ("'x'", "v = f'{v}{v}'"),
        ("'x'", "v = f'{v}' + f'{v}-{v}'"),
        ("2", "v = v * v"),
        ("2", "v *= v"),
        ("3", "v = v ** 9"),
        ("[1]", "v = v + v"),
        ("[1]", "v = [v, v]"),
        ("(1,)", "v = (*v, *v)"),
        ("[1]", "v.append(v)"),
        ("1", "v = [(v, v), (v, v)]"),
        ("1", "v = v if c else [v, v]"),
    ],
)
def test_what_grows_is_unknown_in_the_end(start: str, step: str) -> None:
    values = run_of(f"v = {start}\n" + f"{step}\n" * 90).values.values()
    assert max(value.size for value in values) <= MAX_SIZE
    assert given(f"v = {start}\n" + f"{step}\n" * 90) is UNSURE


@pytest.mark.parametrize(
    ("start", "step", "expected"),
    [("'x'", "v = v + v", "x" * 16), ("2", "v = v * v", 2**16), ("'a'", "v = f'{v}b'", "abbbb")],
)
def test_what_stays_small_is_known(start: str, step: str, expected: object) -> None:
    assert given(f"v = {start}\n" + f"{step}\n" * 4) == expected


def test_a_long_text_of_many_parts_is_unknown() -> None:
    text = f"s = {'x' * 60_000!r}\n"
    assert given(f"{text}v = f'{'{s}' * 4}'") == "x" * 240_000
    assert given(f"{text}v = f'{'{s}' * 5}'") is UNSURE
    assert given(f"{text}v = f'{'{s}' * 5_000}'") is UNSURE


def test_a_number_that_python_does_not_print_is_unknown() -> None:
    assert given(f"v = 0x{'f' * 6_000}") is UNSURE
    assert given(f"v = f'{{0x{'f' * 6_000}}}'") is UNSURE


def test_all_values_together_have_a_limit() -> None:
    lines = "".join(f"v{number} = [*v]\n" for number in range(100))
    values = run_of(f"v = [{'1, ' * 100_000}]\n{lines}").values.values()
    apart = {id(value): value.size for value in values}
    assert sum(apart.values()) < MAX_MADE + 200_000


def test_what_calls_keep_of_their_arguments_has_a_limit() -> None:
    """A call keeps what its argument holds then: that of ever more options would be quadratic."""
    lines = "".join(f"setattr(v, 'a{number}', v)\n" for number in range(3_000))
    run = run_of(f"v = SFTConfig('o')\n{lines}")
    kept = [one for each in run.invocations for one in each.snapshots.values()]
    assert 0 < sum(map(len, kept)) * 16 < MAX_MADE + 200_000
    options = (thing for thing in run.objects if thing.type == "trl.SFTConfig")
    assert next(options).open


def test_sizes_count_what_is_shared_each_time() -> None:
    pair = Sequence((Constant("abc"), Constant(1)), "list")
    assert pair.size == 1 + 3 + 1
    assert Sequence((pair, pair), "list").size == 11
    assert OneOf((pair, Constant(2))).size == 6
    assert "size" not in repr(pair)


@pytest.mark.parametrize(
    "line", ["def f{n}(): f{m}()", "def f{m}(): f{n}()", "def f(): f()", "lambda: 0"]
)
def test_functions_that_nothing_calls_are_ordered_in_time(line: str) -> None:
    count = 60_000
    lines = [line.replace("{n}", str(n)).replace("{m}", str(n + 1)) for n in range(count)]
    functions = []
    for number, text in enumerate(lines):
        node = ast.FunctionDef(name=text[4:].partition("(")[0])
        node.lineno = node.end_lineno = number + 1
        functions.append(Function(node, 0))
    ordered = list(callers_first(functions, lines, {}))
    assert len(ordered) == count
    assert ordered == (functions[::-1] if "f{m}(): f{n}" in line else functions)


def test_lambdas_of_a_line_read_it_once() -> None:
    lines = ["x = [" + "lambda: 0, " * 60_000 + "]"]
    functions = []
    for _ in range(60_000):
        node = ast.Lambda()
        node.lineno = node.end_lineno = 1
        functions.append(Function(node, 0))
    assert list(callers_first(functions, lines, {})) == functions


def test_names_are_looked_at_once_for_all_that_ask_who_shares_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "".join(f"a{n} = a{n}\n" for n in range(300))
    text += "print(locals())\nlate = 1\ndef f():\n    global a7\n    return locals()\n"
    tree = build_script(Source("a.py", text), API)
    looked: list[type[ast.AST]] = []
    own = Tree.nodes

    def counted(self: Tree, kind: Any) -> Any:
        looked.append(kind)
        return own(self, kind)

    monkeypatch.setattr(Tree, "nodes", counted)
    assert all(tree.is_shared(f"a{n}") for n in range(300))
    assert looked.count(ast.Name) <= 1
    assert not build_script(Source("a.py", "b = 1\n"), API).is_shared("b")
