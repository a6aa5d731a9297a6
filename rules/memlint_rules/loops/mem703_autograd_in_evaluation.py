"""Evaluation that records a graph nobody will run backward through.

``model.eval()`` turns dropout off, not autograd: without ``no_grad`` or ``inference_mode`` every
forward pass keeps what backward would need, the activations of all layers, until its outputs are
released. Transformers' ``generate`` and ``Trainer.evaluate`` have their own. Source: PyTorch
documentation, "Autograd mechanics" (locally disabling gradient computation).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memlint.rule import (
    AddDecorator,
    Edit,
    Example,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Span,
    WrapStatements,
)

_WITHOUT_GRADIENTS = ("no_grad", "inference_mode", "set_grad_enabled", "validating")
# Contexts that leave autograd as it is. Of any other we do not know.
_NEUTRAL = ("autocast", "nullcontext", "open", "tqdm", "record_function", "profile", "Progress")
_NEUTRAL_DECORATORS = ("staticmethod", "classmethod", "property", "compile")
# Trainers and Lightning call these without gradients, or differentiate through them.
_HOOKS = frozenset(
    {"forward", "compute_loss", "prediction_step", "evaluation_step"}
    | {f"{stage}_step" for stage in ("training", "validation", "test", "predict")}
)
_DIFFERENTIATES = frozenset(
    {"backward", "retain_grad", "requires_grad_", "autograd", "grad", "jacobian", "step"}
)
Function = ast.FunctionDef | ast.AsyncFunctionDef
_Scope = Function | ast.Lambda | ast.ClassDef


class _Evaluation(NamedTuple):
    """What follows ``model.eval()``, up to ``model.train()``, in the same block.

    model: the expression that names the model. statements: those that run it, in order.
    """

    model: str
    statements: tuple[ast.stmt, ...]
    forwards: tuple[ast.Call, ...]
    after: tuple[ast.stmt, ...]


def check(script: Script) -> Iterator[Finding]:
    if not script.imports_package("torch", "transformers", "accelerate"):
        return
    if _gradients_off(script) or script.imports_package("pytest", "unittest"):
        # (A test compares the outputs of small models.)
        return
    seen: set[ast.Call] = set()
    for call in script.method_calls("eval"):
        if any(part in call.name for part in ("Processor", "Tokenizer")):
            continue
        evaluation = _evaluation(script, call.node)
        if evaluation is None or not _surely_recorded(script, call.node, evaluation):
            continue
        for statements, forwards in _runs(script, evaluation):
            if seen.isdisjoint(forwards):
                seen.update(forwards)
                yield _finding(script, call.node, evaluation, statements, forwards)


def _gradients_off(script: Script) -> bool:
    """Whether the script turns autograd off for good."""
    return any(
        isinstance(script.parent(call.node), ast.Expr)
        for call in script.method_calls("set_grad_enabled", "_set_grad_enabled")
    )


def _evaluation(script: Script, call: ast.Call) -> _Evaluation | None:
    if call.args or call.keywords or not isinstance(call.func, ast.Attribute):
        return None
    statement = script.statement(call)
    model = _model_name(statement, call.func.value)
    block = _block(script, statement)
    if model is None or statement not in block:
        return None
    after: list[ast.stmt] = []
    for following in block[block.index(statement) + 1 :]:
        if _switches_back(following, model):
            break
        after.append(following)
    names = {model, f"{model}.module", f"{model}.forward"}
    forwards = [
        node
        for one in after
        for node in _walk(one)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names
    ]
    statements = [one for one in after if any(node in forwards for node in _walk(one))]
    if not forwards:
        return None
    return _Evaluation(model, tuple(statements), tuple(forwards), tuple(after))


def _model_name(statement: ast.stmt, receiver: ast.expr) -> str | None:
    """What the model is called after the statement: ``model`` for ``model.to(0).eval()``."""
    match statement:
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            return ast.unparse(target)
        case ast.Expr():
            while isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute):
                receiver = receiver.func.value
            return ast.unparse(receiver) if isinstance(receiver, ast.Name | ast.Attribute) else None
        case _:
            return None


def _block(script: Script, statement: ast.stmt) -> list[ast.stmt]:
    """The statements of the block that holds a statement."""
    parent = script.parent(statement)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return []


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run with a statement: not those of functions that it defines."""
    pending: list[ast.AST] = [node]
    while pending:
        one = pending.pop()
        yield one
        if not isinstance(one, _Scope):
            pending.extend(ast.iter_child_nodes(one))


def _switches_back(statement: ast.stmt, model: str) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "train"
        and ast.unparse(node.func.value) == model
        for node in _walk(statement)
    )


def _surely_recorded(script: Script, call: ast.Call, evaluation: _Evaluation) -> bool:
    """Whether nothing else can be in the way of autograd, and nothing wants its gradients."""
    function = script.function(call)
    if function is not None and (function.name in _HOOKS or not _neutral_decorators(function)):
        return False
    if function is not None and function.name.startswith("test_") and _asserts(function):
        return False
    if any(_differentiates(node) for one in evaluation.after for node in _walk(one)):
        return False
    if _frozen(script, evaluation.model):
        return False
    return all(_recorded(script, forward) for forward in evaluation.forwards)


def _asserts(function: Function) -> bool:
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and _last(node).startswith("assert"))
        for node in ast.walk(function)
    )


def _neutral_decorators(function: Function) -> bool:
    return all(_last(decorator) in _NEUTRAL_DECORATORS for decorator in function.decorator_list)


def _last(node: ast.expr) -> str:
    """The last part of a dotted name, or of the name of what is called."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _differentiates(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) if name in _DIFFERENTIATES:
            return True
        case ast.keyword(arg="create_graph" | "retain_graph"):
            return True
        case ast.Name(id="grad"):
            return True
        case _:
            return False


def _frozen(script: Script, model: str) -> bool:
    """Whether the model's parameters are said to want no gradient."""
    for node in script.nodes(ast.Attribute):
        if node.attr == "requires_grad_" and ast.unparse(node.value).startswith(model):
            return True
        if node.attr == "requires_grad" and isinstance(node.ctx, ast.Store):
            loop = script.enclosing(node, ast.For)
            if isinstance(loop, ast.For) and ast.unparse(loop.iter).startswith(model):
                return True
    return False


def _recorded(script: Script, forward: ast.Call) -> bool:
    """Whether no context around a forward pass turns autograd off, in this function or a caller."""
    call = script.call_at(forward)
    if call is None:
        return False
    for record in call.records:
        for context in record.contexts:
            last = context.rpartition(".")[2]
            if last in _WITHOUT_GRADIENTS or "grad" in last or "inference" in last:
                return False
    for around in script.ancestors(forward):
        items = around.items if isinstance(around, ast.With | ast.AsyncWith) else []
        if not all(_neutral(script, item.context_expr) for item in items):
            return False
    return True


def _neutral(script: Script, context: ast.expr) -> bool:
    name = script.name(context.func) if isinstance(context, ast.Call) else script.name(context)
    return (name or _last(context)).rpartition(".")[2] in _NEUTRAL


def _runs(
    script: Script, evaluation: _Evaluation
) -> list[tuple[tuple[ast.stmt, ...], tuple[ast.Call, ...]]]:
    """The statements that run the model, neighbours together (of one notebook cell)."""
    groups: list[list[ast.stmt]] = []
    for statement in evaluation.statements:
        before = evaluation.after.index(statement) - 1
        joined = (
            groups
            and groups[-1][-1] is evaluation.after[before]
            and _cell(script, groups[-1][-1]) == _cell(script, statement)
        )
        if joined:
            groups[-1].append(statement)
        else:
            groups.append([statement])
    return [
        (
            tuple(group),
            tuple(one for one in evaluation.forwards if any(one in _walk(part) for part in group)),
        )
        for group in groups
    ]


def _cell(script: Script, statement: ast.stmt) -> int | None:
    cell = script.source.cell_at(script.span(statement).start)
    return cell.number if cell is not None else None


def _finding(
    script: Script,
    call: ast.Call,
    evaluation: _Evaluation,
    statements: Sequence[ast.stmt],
    forwards: Sequence[ast.Call],
) -> Finding:
    return Finding(
        script.span(forwards[0]),
        f"`{evaluation.model}` runs in evaluation with autograd on: the activations of all layers "
        "are kept for a backward pass that never comes",
        _fix(script, call, statements),
    )


def _fix(script: Script, call: ast.Call, statements: Sequence[ast.stmt]) -> Fix | None:
    function = script.function(call)
    if isinstance(function, ast.FunctionDef) and _only_evaluates(script, function, call):
        reference = script.reference("torch.no_grad", function)
        if reference is None:
            return None
        decorator = AddDecorator(script.span(function), f"{reference.text}()")
        return Fix("Decorate the function with `no_grad`", (decorator, *reference.edits))
    reference = script.reference("torch.no_grad", statements[0])
    if reference is None:
        return None
    first, last = script.span(statements[0]), script.span(statements[-1])
    edits: tuple[Edit, ...] = (
        WrapStatements(Span(*first), Span(*last), f"with {reference.text}():"),
        *reference.edits,
    )
    return Fix("Evaluate under `no_grad`", edits)


def _only_evaluates(script: Script, function: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether the whole function may run without gradients: it is evaluation and nothing else."""
    nodes = list(ast.walk(function))
    return (
        script.statement(call) in function.body
        and not function.decorator_list
        and not any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes)
        and not any(_differentiates(node) for node in nodes)
        and not any(isinstance(node, _Scope) for node in nodes if node is not function)
        and not any(isinstance(node, ast.Call) and _last(node) == "train" for node in nodes[1:])
    )


RULE = Rule(
    code="MEM703",
    name="autograd-in-evaluation",
    level=Level.WASTE,
    summary="evaluation without no_grad or inference_mode",
    why=(
        "`model.eval()` switches dropout and batch statistics, not autograd. Without "
        "`torch.no_grad()` or `torch.inference_mode()` every forward pass of an evaluation keeps "
        "the activations of all layers until its outputs are released: as much as training, on "
        "batches that are often larger. `generate` of transformers and the evaluation of "
        "`Trainer` and Lightning turn autograd off by themselves. Silent where anything between "
        "`eval()` and `train()` asks for a gradient, where the model is frozen, and under contexts "
        "and decorators that are not known, and in tests, whose models are small."
    ),
    fix_safety=(
        "Safe: the numbers are the same. A function that only evaluates is decorated; elsewhere "
        "the statements that run the model are put under `with torch.no_grad():`."
    ),
    check=check,
    triggers=(frozenset({".eval()"}),),
    references=("https://docs.pytorch.org/docs/stable/notes/autograd.html",),
    examples=(
        Example(
            title="a function that evaluates",
            bad="""\
import torch


def evaluate(model, loader):
    model.eval()
    total = 0.0
    for batch in loader:
        total += model(**batch).loss.item()
    return total / len(loader)
""",
            good="""\
import torch


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total = 0.0
    for batch in loader:
        total += model(**batch).loss.item()
    return total / len(loader)
""",
        ),
        Example(
            title="within the training loop",
            bad="""\
import torch

for epoch in range(3):
    model.train()
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
    model.eval()
    losses = []
    for batch in test_loader:
        losses.append(model(**batch).loss.item())
    print(sum(losses))
""",
            good="""\
import torch

for epoch in range(3):
    model.train()
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
    model.eval()
    losses = []
    with torch.no_grad():
        for batch in test_loader:
            losses.append(model(**batch).loss.item())
    print(sum(losses))
""",
        ),
    ),
)
