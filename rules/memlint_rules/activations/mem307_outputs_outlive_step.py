"""A training loop in which the last step's logits are alive while the next forward pass runs.

``outputs = model(**batch)`` binds the name again only when the forward pass has returned, so what
the old outputs hold is there until then, and under the optimizer step before. Counted by fakes for
a 1B model's shape, 2 x 2,048 tokens and 128,256 words in bf16: both peaks of the step, forward and
backward, are higher by exactly the logits, 0.98 GiB of 16.5, or of 9.5 with activation
checkpointing. Hidden states asked for add theirs. A surviving scalar loss costs nothing: its graph
went with the backward pass. Source: ``tests/bench/outputs_outlive_step.py``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from memlint.rule import (
    Applicability,
    Example,
    Finding,
    Fix,
    InsertStatement,
    Level,
    Loop,
    Object,
    Rule,
    Script,
)
from memlint_rules._libraries import LIBRARIES

_LOADERS = ("CausalLM", "LMHead", "Seq2SeqLM", "ForConditionalGeneration")
# Methods whose result is the same memory, or as much of it.
_KEEPS = frozenset(
    {"contiguous", "view", "reshape", "float", "to", "detach", "transpose", "clone", "flatten"}
)
_AS_LARGE = frozenset({"log_softmax", "softmax", "exp", "log"})
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


class _Held(NamedTuple):
    """A name that holds logits when a step ends.

    statement: where it is bound. sure: whether every step binds it.
    """

    name: str
    statement: ast.stmt
    sure: bool


def check(script: Script) -> Iterator[Finding]:
    if not script.loops or script.uses_unsloth or script.uses_vision or script.off_cuda:
        return
    if script.avoids_logits("fuse_causal_lm_loss"):
        return
    for loop in script.loops:
        held = _held(script, loop)
        alive = [one for one in held if not _released(loop, one.name)]
        if alive and not _carried(script, loop, alive):
            yield _finding(script, loop, alive)


def _held(script: Script, loop: Loop) -> list[_Held]:
    """Names that a step leaves bound to logits, or to outputs with logits in them."""
    found: dict[str, _Held] = {}
    outputs: set[str] = set()
    for statement, sure in _statements(loop.node.body, sure=True):
        for name, value in _bindings(statement):
            whole = isinstance(value, ast.Call) and _is_forward(script, value)
            if whole or _is_logits(script, value, set(found), outputs):
                found[name] = _Held(name, statement, sure or _sure_already(found, name))
                if whole:
                    outputs.add(name)
            elif name in found and sure:
                del found[name]
                outputs.discard(name)
    return list(found.values())


def _bindings(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Names that an assignment binds, each with its value, as far as they are written so."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            for target, value in zip(names, values, strict=False):
                if isinstance(target, ast.Name):
                    yield target.id, value
        case _:
            pass


def _sure_already(found: dict[str, _Held], name: str) -> bool:
    return name in found and found[name].sure


def _statements(body: list[ast.stmt], *, sure: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """The statements that a step runs, loops within it left out; whether each step surely does."""
    for statement in body:
        yield statement, sure
        match statement:
            case ast.With(body=inner) | ast.AsyncWith(body=inner):
                yield from _statements(inner, sure=sure)
            case ast.If(body=first, orelse=second):
                both = _assigned(first) & _assigned(second)
                for one, certain in (
                    *_statements(first, sure=sure),
                    *_statements(second, sure=sure),
                ):
                    yield one, certain and bool(_assigned([one]) & both)
            case ast.Try(body=inner):
                yield from _statements(inner, sure=False)
            case _:
                pass


def _assigned(body: list[ast.stmt]) -> set[str]:
    return {
        target.id
        for statement, _ in _statements(body, sure=True)
        if isinstance(statement, ast.Assign)
        for target in ast.walk(statement)
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
    }


def _is_forward(script: Script, node: ast.Call) -> bool:
    """Whether a call is a forward pass of what surely is a language model."""
    call = script.call_at(node)
    if call is None:
        return False
    direct = call.name.endswith((".__call__", ".forward")) and isinstance(call.receiver, Object)
    if direct and isinstance(call.receiver, Object):
        load = script.model_facts(call.receiver).load
        if load is not None and load.name.startswith("transformers."):
            return any(part in load.name for part in _LOADERS)
        if call.receiver.cls is not None or call.receiver.type is not None:
            return False
    elif not call.name.startswith("?"):
        return False
    # A parameter, or what a helper made, called as models are where all models are such ones.
    if any(
        "Module" in ast.unparse(base) for one in script.nodes(ast.ClassDef) for base in one.bases
    ):
        return False
    loads = [load.name for load in script.model_loads]
    return (
        _is_called_model(script, node)
        and bool(loads)
        and all(any(part in load for part in _LOADERS) for load in loads)
    )


def _is_called_model(script: Script, node: ast.Call) -> bool:
    """Whether the name of what is called is a model's; of an attribute, what comes out, too."""
    called = node.func
    if isinstance(called, ast.Attribute) and called.attr == "forward":
        called = called.value
    match called:
        case ast.Name(id=name):
            return name == "model" or name.endswith("_model")
        case ast.Attribute(attr="model"):
            return _gives_outputs(script, node)
        case _:
            return False


def _gives_outputs(script: Script, node: ast.Call) -> bool:
    """Whether the loss or the logits are taken from what a call returns."""
    match script.parent(node):
        case ast.Attribute(attr="loss" | "logits"):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            function = script.function(node)
            return any(
                isinstance(one.value, ast.Name)
                and one.value.id == name
                and one.attr in ("loss", "logits")
                and script.function(one) is function
                for one in script.nodes(ast.Attribute)
            )
        case _:
            return False


def _is_logits(script: Script, node: ast.expr, held: set[str], outputs: set[str]) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="logits"):
            return name in outputs
        case ast.Attribute(value=ast.Call() as call, attr="logits"):
            return _is_forward(script, call)
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value="logits")):
            return name in outputs
        case ast.Subscript(value=inner):
            return _is_slice(node) and _is_logits(script, inner, held, outputs)
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _KEEPS:
            return _is_logits(script, inner, held, outputs)
        case ast.Call(func=ast.Attribute(attr=method), args=[inner, *_]) if method in _AS_LARGE:
            return _is_logits(script, inner, held, outputs)
        case ast.BinOp(left=left, right=right):
            return any(_is_logits(script, one, held, outputs) for one in (left, right))
        case ast.Name(id=name):
            return name in held - outputs
        case _:
            return False


def _is_slice(node: ast.Subscript) -> bool:
    """Whether a subscript keeps the sequence: ``logits[:, :-1]``, not ``logits[:, -1]``."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return all(
        isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is ...)
        for part in parts
    )


def _released(loop: Loop, name: str) -> bool:
    """Whether the loop lets go of a name by itself: ``del``, or another value."""
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Del)
        for node in ast.walk(loop.node)
    ) or any(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        for node in ast.walk(loop.node)
    )


def _carried(script: Script, loop: Loop, alive: list[_Held]) -> bool:
    """Whether a step reads what the one before it left, on purpose."""
    for one in alive:
        start = script.span(one.statement).start
        for node in ast.walk(loop.node):
            if (
                isinstance(node, ast.Name)
                and node.id == one.name
                and isinstance(node.ctx, ast.Load)
                and script.span(node).start < start
                and not _bound_before(script, node, loop.node)
            ):
                return True
    return False


def _finding(script: Script, loop: Loop, alive: list[_Held]) -> Finding:
    names = [f"`{one.name}`" for one in alive]
    what = " and ".join(names) if len(names) < 3 else ", ".join(names[:-1]) + f" and {names[-1]}"
    verb = "keeps" if len(names) == 1 else "keep"
    return Finding(
        script.span(_target(alive[0].statement)),
        f"{what} {verb} the last step's logits through the next forward pass: 2 bytes for every "
        "token and word of the vocabulary in bf16 on top of the peak, 1 GiB for 4,096 tokens and "
        "128k words",
        _fix(script, loop, alive),
    )


def _target(statement: ast.stmt) -> ast.AST:
    return statement.targets[0] if isinstance(statement, ast.Assign) else statement


def _fix(script: Script, loop: Loop, alive: list[_Held]) -> Fix:
    deletion = f"del {', '.join(one.name for one in alive)}"
    last = _last_use(script, loop, alive)
    if (
        last is None
        or any(not one.sure for one in alive)
        or any(_read_elsewhere(script, loop, one.name) for one in alive)
    ):
        return Fix(f"`{deletion}` when the step no longer needs them", (), Applicability.DISPLAY)
    return Fix(
        f"`{deletion}` after the last use", (InsertStatement(script.span(last), deletion, "after"),)
    )


def _last_use(script: Script, loop: Loop, alive: list[_Held]) -> ast.stmt | None:
    """The last statement of the loop's body that mentions one of the names.

    None where a closure may read them later, or the statement leaves the step.
    """
    names = {one.name for one in alive}
    found: ast.stmt | None = None
    for statement in loop.node.body:
        for node in ast.walk(statement):
            if isinstance(node, _Scope) and _mentions(node, names):
                return None
        if _mentions(statement, names):
            found = statement
    leaves = isinstance(found, ast.Return | ast.Continue | ast.Break | ast.Raise)
    return None if leaves else found


def _mentions(tree: ast.AST, names: set[str]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(tree))


def _read_elsewhere(script: Script, loop: Loop, name: str) -> bool:
    """Whether anything outside the loop may read what the loop left under a name."""
    inside = set(map(id, ast.walk(loop.node)))
    function = loop.function
    for node in script.nodes(ast.Name):
        if node.id != name or id(node) in inside or not isinstance(node.ctx, ast.Load):
            continue
        if script.function(node) is not function:
            # Another function's own name; or this one's closure, or a global of the script's.
            if _is_local(script, node):
                continue
            return True
        around = _loops_around(script, loop, node)
        after = script.span(node).start > script.span(loop.node).start
        if after and not _bound_before(script, node, loop.node):
            return True
        if around is not None and not after and not _bound_before(script, node, around):
            return True
    return False


def _loops_around(script: Script, loop: Loop, read: ast.Name) -> ast.AST | None:
    """The loop around both that brings control from the inner loop back to a read before it."""
    around = set(map(id, script.ancestors(read)))
    for one in script.ancestors(loop.node):
        if isinstance(one, ast.For | ast.AsyncFor | ast.While) and id(one) in around:
            return one
    return None


def _is_local(script: Script, node: ast.Name) -> bool:
    function = script.function(node)
    if function is None:
        return False
    return any(
        (isinstance(one, ast.arg) and one.arg == node.id)
        or (isinstance(one, ast.Name) and one.id == node.id and isinstance(one.ctx, ast.Store))
        for one in ast.walk(function)
    )


def _bound_before(script: Script, read: ast.Name, beyond: ast.AST) -> bool:
    """Whether a read surely finds a value bound after a loop or, inside it, in this turn of it."""
    around = {id(one) for one in script.ancestors(read)}
    beyond_span, start = script.span(beyond), script.span(read).start
    floor = beyond_span.start if id(beyond) in around else beyond_span.end
    for one in script.nodes(ast.Name):
        if one.id != read.id or not isinstance(one.ctx, ast.Store):
            continue
        statement = script.statement(one)
        place = script.span(statement)
        if place.start <= floor or script.span(one).end > start:
            continue
        while isinstance(script.parent(statement), ast.With | ast.AsyncWith):
            statement = script.statement(script.parent(statement) or statement)
        block = _block(script, statement)
        if place.end <= start and any(id(one) in around for one in block):
            return True
        if id(statement) in around:  # the target of a loop or a ``with`` around the read
            return True
    return False


def _block(script: Script, statement: ast.stmt) -> list[ast.stmt]:
    """The statements beside a statement."""
    parent = script.parent(statement)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return []


RULE = Rule(
    code="MEM307",
    name="outputs-outlive-step",
    level=Level.WASTE,
    summary="the last step's logits are alive while the next forward pass runs",
    why=(
        "`outputs = model(**batch)` lets go of the old outputs only when the new ones are there. "
        "Until then the last step's logits stay: 2 bytes for every token and word of the "
        "vocabulary in bf16, 4 in float32. They raise the peak of the whole step by that much: "
        "0.98 GiB of 9.5 for a 1B model with activation checkpointing, 2 x 2,048 tokens and "
        "128,256 words. A name for the logits, or for their shifted copy, keeps them as well; all "
        "have to go. A surviving `loss` costs nothing: it is one number, and its graph went with "
        "the backward pass. Seen for causal and encoder-decoder language models only; silent where "
        "a fused loss leaves no logits, and where a step reads the outputs of the one before."
    ),
    fix_safety=(
        "Safe: the names are deleted after their last use, before backward where they are not used "
        "after it, so that backward may have the memory, too. Advice only where a name is not bound "
        "in every step, or is read after the loop or by another function."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"backward"})),
    references=("https://docs.pytorch.org/docs/stable/notes/faq.html",),
    examples=(
        Example(
            title="outputs",
            bad="""\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(**batch)
    loss = outputs.loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
            good="""\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(**batch)
    loss = outputs.loss
    del outputs
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
        ),
        Example(
            title="a model held by an object, and `forward` called by its name",
            findings=2,
            bad="""\
from transformers import T5ForConditionalGeneration


def train(parts, loader):
    for batch in loader:
        outputs = parts.model(**batch)
        outputs.loss.backward()


model = T5ForConditionalGeneration.from_pretrained("google-t5/t5-base")
for batch in loader:
    output = model.forward(batch["input_ids"], labels=batch["labels"])
    output.loss.backward()
""",
            good="""\
from transformers import T5ForConditionalGeneration


def train(parts, loader):
    for batch in loader:
        outputs = parts.model(**batch)
        outputs.loss.backward()
        del outputs


model = T5ForConditionalGeneration.from_pretrained("google-t5/t5-base")
for batch in loader:
    output = model.forward(batch["input_ids"], labels=batch["labels"])
    output.loss.backward()
    del output
""",
        ),
    ),
)
