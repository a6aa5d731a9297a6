"""Where a script evaluates: neighbouring statements that run models in evaluation mode.

A forward pass evaluates where its model was last put in evaluation mode, no training step runs it,
and no backward pass or other derivative follows before training mode comes back.
"""

from memlint.engine.forwards import ForwardRun
from memlint.engine.growth import binds_as_target, root_of
from memlint.engine.guards import asserts, blocks_around, calls_of_plain
from memlint.engine.modes import module_root
from memlint.engine.name_uses import is_loop
from memlint.engine.nodes import (
    CallNode,
    Definition,
    Expression,
    Node,
    Statement,
    called_name,
    calls_in,
    holder_of,
)
from memlint.engine.values import Invocation, Object, Opaque, Value, options
from memlint.flow.evaluated import query
from memlint.flow.events import EventKind, events_of
from memlint.script.calls import Host
from memlint.script.forward_passes import Forward, forwards_of
from memlint.script.guesses import may_be_refused
from memlint.source.record import NamedTuple

# Trainers and Lightning call these in modes of their own, or differentiate through them.
_HOOKS = frozenset(
    {"forward", "compute_loss", "prediction_step", "evaluation_step"}
    | {f"{stage}_step" for stage in ("training", "validation", "test", "predict")}
)
# What takes derivatives, or prepares for it.
_DERIVATIVES = frozenset(
    {
        *("backward", "manual_backward", "retain_grad", "grad", "jacobian", "hessian"),
        *("jacrev", "jacfwd", "vjp", "jvp", "grad_and_value", "requires_grad_"),
    }
)
_KEYWORDS = frozenset({"create_graph", "retain_graph"})
_WITHOUT_GRADIENTS = ("no_grad", "inference_mode")


class Evaluation(NamedTuple):
    """Neighbouring statements that evaluate.

    forwards: the passes that they run. statements: what may run without gradients as a whole: the
    outermost loops around the passes, or the statements that hold them; empty where these do more.
    function: the function that does nothing else; None where it does, or there is none.
    sets_mode: whether the function that holds them puts the model in evaluation mode itself.
    called: whether the script reaches all passes from its top; other files may call what it does
        not reach.
    """

    forwards: tuple[Forward, ...]
    statements: tuple[Statement, ...]
    function: Definition | None
    sets_mode: bool
    called: bool


@query
def evaluations_of(script: Host) -> tuple[Evaluation, ...]:
    """Statements that run models in evaluation mode where autograd is on, or may be."""
    forwards = [one for one in forwards_of(script) if one.gradients is not False]
    passes = [one for one in forwards if _evaluates(script, one)]
    groups: list[tuple[list[Forward], list[Statement]]] = []
    for forward in passes:
        statement = _widest(script, forward, passes)
        if may_be_refused(script, statement or forward.statement, *_WITHOUT_GRADIENTS):
            continue
        if groups and statement is not None and _is_next(script, groups[-1][1], statement):
            groups[-1][0].append(forward)
            groups[-1][1][:] = dict.fromkeys([*groups[-1][1], statement])
        else:
            groups.append(([forward], [statement] if statement is not None else []))
    return tuple(_made(script, *group) for group in groups)


def _made(script: Host, forwards: list[Forward], statements: list[Statement]) -> Evaluation:
    function = script.function(forwards[0].node)
    root: Node = function if function is not None else script.tree
    switches = [call for call in calls_in(root) if called_name(call) == "eval"]
    own = [call for call in switches if script.function(call) is function]
    whole = function is not None and _only_evaluates(script, function, own)
    return Evaluation(
        tuple(forwards),
        tuple(statements),
        function if whole else None,
        bool(own),
        all(forward.called for forward in forwards),
    )


# -- which forward passes --------------------------------------------------------------------------


def _evaluates(script: Host, forward: Forward) -> bool:
    if forward.training is not False or forward.in_training_step:
        return False
    function = script.function(forward.node)
    # A test's models are small.
    tests = function is not None and function.name.startswith("test_") and asserts(function)
    if tests or (function is not None and function.name in _HOOKS):
        return False
    if any(called_name(one) in _DERIVATIVES for one in script.calls_around(forward.node)):
        # ``autograd.grad(model(x).sum(), x)``
        return False
    if any(_wants_gradients(script, run) for run in forward.runs):
        return False
    return not _is_frozen(script, forward)


def _wants_gradients(script: Host, run: ForwardRun) -> bool:
    """True if a derivative follows a pass, before anything is put in training mode."""
    steps = {
        id(one.invocation) for one in events_of(script) if one.kind is EventKind.OPTIMIZER_STEP
    }
    for invocation in script._invocations_between(run.order, script._end_of_run(run.invocation)):
        if invocation.name.rpartition(".")[2] == "train":
            return False
        if id(invocation) in steps or _takes_derivative(invocation):
            return True
    return False


def _takes_derivative(invocation: Invocation) -> bool:
    name = invocation.name
    return (
        name.rpartition(".")[2] in _DERIVATIVES
        or name.startswith(("torch.autograd.functional", "torch.func."))
        or not _KEYWORDS.isdisjoint(invocation.keywords)
    )


def _is_frozen(script: Host, forward: Forward) -> bool:
    """True if the script says of the model's parameters whether they want gradients."""
    called = forward.called_as
    modules = _identities(forward.module)
    return any(
        script.text(holder).startswith(called)
        or not modules.isdisjoint(_identities(script.value(holder)))
        for holder in frozen_modules_of(script)
    )


def _identities(value: Value) -> set[int]:
    roots = map(module_root, options(value))
    return {id(root) for root in roots if isinstance(root, Object | Opaque)}


@query
def frozen_modules_of(script: Host) -> tuple[Expression, ...]:
    """Expressions for modules of which the script says whether they want gradients: ``model`` of
    ``model.requires_grad_(False)``, and of a loop that sets ``requires_grad`` of its parameters."""
    methods = tuple(script.attributes("requires_grad_"))
    switched: list[Expression] = []
    for node in (*methods, *filter(script.is_target, script.attributes("requires_grad"))):
        loops = script.flow.loops_around(node)
        iterated = getattr(loops[0], "iter", None) if loops else None
        if iterated is not None:
            # ``model`` of ``model.parameters()``
            switched.append(holder_of(iterated) or iterated)
        name = root_of(node.value)
        turned = loops and name is not None and binds_as_target(script, loops[0], name.id)
        if node in methods and not turned:
            switched.append(node.value)
    return tuple(switched)


# -- which statements ------------------------------------------------------------------------------


def _widest(script: Host, forward: Forward, passes: list[Forward]) -> Statement | None:
    """The outermost loop around a pass that only evaluates, else the statement that holds it."""
    statement = forward.statement
    if not _is_plain(script, statement, passes):
        return None
    for around in blocks_around(script, statement):
        if not _is_plain(script, around, passes):
            break
        if is_loop(around):
            statement = around
    return statement


def _is_plain(script: Host, around: Node, passes: list[Forward]) -> bool:
    """True if a statement only evaluates: no change of mode, no derivative, and no other pass that
    may want gradients."""
    evaluated, calls = {one.node for one in passes}, calls_of_plain(around)
    recorded = [one.node for one in forwards_of(script) if one.gradients is not False]
    others = set(recorded) - evaluated
    return calls is not None and not any(
        call in others or called_name(call) in _DERIVATIVES | {"eval", "train"} for call in calls
    )


def _is_next(script: Host, group: list[Statement], statement: Statement) -> bool:
    """True if a statement follows a group in its block, in the same cell of a notebook."""
    if not group:
        return False
    last, block = group[-1], script.flow.block(statement)
    if last is statement:
        return True
    if last not in block or block.index(statement) != block.index(last) + 1:
        return False
    return _cell(script, last) == _cell(script, statement)


def _cell(script: Host, statement: Statement) -> int | None:
    cell = script.source.cell_at(script.span(statement).start)
    return cell.number if cell is not None else None


def _only_evaluates(script: Host, function: Definition, switches: list[CallNode]) -> bool:
    """True if all of a function may run without gradients: it sets evaluation mode first, comes
    back to training mode nowhere, and takes no derivative."""
    calls = calls_of_plain(*function.body)
    return (
        any(script.statement(node) in function.body for node in switches)
        and not function.decorator_list
        and calls is not None
        and not any(called_name(call) in _DERIVATIVES | {"train", "step"} for call in calls)
        and not may_be_refused(script, function, *_WITHOUT_GRADIENTS)
    )
