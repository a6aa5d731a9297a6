"""What code does to the lengths of rows: tokenize, truncate, pad, cut into blocks.

Read off the calls that one run of a function makes, and off how it writes lists by hand. Where a
function out of sight is called, the effect is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from memlint.engine.invocations import Invocation
from memlint.engine.nodes import walk
from memlint.engine.values import Function, FunctionNode, options
from memlint.script.calls import Call
from memlint.script.tokenization import is_tokenizer_call
from memlint.source.patterns import lazy_pattern
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.script.model import Script


class Lengths(StrEnum):
    """What a preparation does to the lengths of rows."""

    TOKENIZED = "tokenized without a limit"
    TRUNCATED = "truncated"
    PADDED = "padded to a fixed length"
    PADDED_TO_LONGEST = "padded to the longest"
    CUT = "cut into blocks"
    FILTERED = "filtered by length"
    UNKNOWN = "unknown"


class Effect(NamedTuple):
    """One thing that a preparation does to lengths.

    tokens: the length, where it is a number that is known. call: the tokenizer's call, where one
    does it. node: where it is written.
    """

    kind: Lengths
    tokens: int | None
    node: ast.AST
    call: Call | None = None


# What cannot change lengths unseen: its effects are known, or are read off its calls.
_KNOWN_PACKAGES = frozenset(
    {
        *("datasets", "transformers", "torch", "numpy", "itertools", "functools", "copy", "math"),
        *("re", "json", "random", "collections", "os", "time", "logging", "string", "operator"),
        *("trl", "typing", "warnings", "pathlib", "hashlib", "sys", "ast", "textwrap", "PIL"),
    }
)
# What such a function is called for.
_BLOCKS = lazy_pattern("group|chunk|pack|block|concat_text")
_LENGTH_WORDS = ("ids", "input", "token", "label", "mask", "text_chunk", "seq")


def effects_of(
    script: Script, function: FunctionNode, invocations: Iterable[Invocation]
) -> Iterator[Effect]:
    """What a run of a function does to the lengths of rows. invocations: that run's calls."""
    functions: dict[ast.AST, None] = {function: None}
    for invocation in invocations:
        if invocation.function is not None:
            functions[invocation.function] = None
        node = invocation.node
        # A function that calls nothing has no invocation of its own.
        callees = options(script.value(node.func))
        functions |= dict.fromkeys(one.node for one in callees if isinstance(one, Function))
        call = script.call_anywhere(node)
        if call is None:
            continue
        if is_tokenizer_call(call):
            yield from tokenizer_effects(call)
        elif _is_out_of_sight(call, invocation):
            yield Effect(Lengths.UNKNOWN, None, node, call)
    for one in functions:
        yield from _written_effects(script, one)


def _is_out_of_sight(call: Call, invocation: Invocation) -> bool:
    """True if a function elsewhere is called, that may do anything to rows."""
    package = call.name.split(".")[0]
    if call.name.startswith("."):
        return True
    if "?" in call.name:
        return call.name == "?" and not isinstance(invocation.node.func, ast.Attribute)
    return "." in call.name and package not in _KNOWN_PACKAGES and invocation.receiver is None


def tokenizer_effects(call: Call) -> Iterator[Effect]:
    """What a tokenizer's call does to lengths."""
    if call.method == "apply_chat_template" and call.setting("tokenize").value is False:
        return
    if call.method != "pad":
        yield from _truncation(call)
    yield from padding_effects(call)


def _truncation(call: Call) -> Iterator[Effect]:
    setting = call.setting("truncation")
    tokens = _tokens(call)
    overflow = call.setting("return_overflowing_tokens")
    if overflow.given is not False and overflow.value is not False:
        yield Effect(
            Lengths.CUT if overflow.value is True else Lengths.UNKNOWN, tokens, call.node, call
        )
    elif setting.given is False or setting.value is False or setting.value in ("do_not_truncate",):
        yield Effect(Lengths.TOKENIZED, None, call.node, call)
    elif setting.value is True or isinstance(setting.value, str):
        yield Effect(Lengths.TRUNCATED, tokens, call.node, call)
    else:
        yield Effect(Lengths.UNKNOWN, None, call.node, call)


def padding_effects(call: Call) -> Iterator[Effect]:
    """What a ``padding`` option does, of a tokenizer's call or of a collator."""
    setting = call.setting("padding")
    if setting.value == "max_length":
        yield Effect(Lengths.PADDED, _tokens(call), call.node, call)
    elif setting.value is True or setting.value == "longest":
        yield Effect(Lengths.PADDED_TO_LONGEST, None, call.node, call)
    elif setting.given is not False and not setting.known:
        yield Effect(Lengths.UNKNOWN, None, call.node, call)


def _tokens(call: Call) -> int | None:
    value = call.setting("max_length").value
    return value if type(value) is int else None


def _written_effects(script: Script, function: ast.AST) -> Iterator[Effect]:
    """What is done to lists by hand: cut into blocks, cut off, filled up."""
    body = function.body if isinstance(function, FunctionNode) else []
    blocks: list[Effect] = []
    for node in walk(body if isinstance(body, list) else [body]):
        match node:
            case ast.Subscript(
                slice=ast.Slice(
                    lower=ast.Name(id=low), upper=ast.BinOp(ast.Name(id=also), ast.Add(), size)
                )
            ) if low == also:
                blocks.insert(0, Effect(Lengths.CUT, _number(script, size), node))
            case ast.Subscript(value=inner, slice=ast.Slice(lower=None, upper=upper)) if (
                upper is not None and not isinstance(upper, ast.UnaryOp)
            ):
                # How many of what: only tokens are counted.
                count = _number(script, upper) if _is_tokens(script, inner) else None
                yield Effect(Lengths.TRUNCATED, count, node)
            case ast.Call(func=ast.Name(id="range"), args=[_, _, size]):
                blocks.append(Effect(Lengths.CUT, _number(script, size), node))
            case ast.BinOp(
                left=ast.List(), op=ast.Mult(), right=ast.BinOp(left=size, op=ast.Sub())
            ) if "len(" in script.text(node):
                yield Effect(Lengths.PADDED, _number(script, size), node)
    if not blocks and is_named_for_blocks(function):
        blocks.append(Effect(Lengths.CUT, None, function))
    yield from blocks[:1]


def is_named_for_blocks(definition: ast.AST) -> bool:
    """True if a function or a class is called for blocks: ``group_texts``, ``PackedDataset``."""
    return _BLOCKS.search(getattr(definition, "name", "").lower()) is not None


def _is_tokens(script: Script, node: ast.expr) -> bool:
    text = script.text(node).lower()
    return any(word in text for word in _LENGTH_WORDS)


def _number(script: Script, node: ast.expr) -> int | None:
    value = script.python(node)
    return value if type(value) is int else None


def joins_and_cuts(function: ast.FunctionDef) -> bool:
    """True if a function lays the rows of each column end to end and cuts them into equal blocks:
    what run_clm calls ``group_texts``."""
    joins = cuts = False
    for node in walk([function]):
        match node:
            case ast.Call(func=ast.Name(id="sum"), args=[_, ast.List(elts=[])]):
                joins = True
            case ast.Call(
                func=ast.Name(id="chain") | ast.Attribute(attr="chain" | "from_iterable")
            ):
                joins = True
            case ast.Slice(lower=ast.Name(id=start), upper=ast.BinOp(left=ast.Name(id=end))):
                cuts |= start == end
    return joins and cuts


def block_functions_of(script: Script) -> tuple[ast.FunctionDef, ...]:
    """Functions that lay rows end to end and cut them into equal blocks; the innermost, where one
    is defined in another."""
    cutting = [node for node in script.nodes(ast.FunctionDef) if joins_and_cuts(node)]
    return tuple(node for node in cutting if not set(walk(node.body)) & set(cutting))
