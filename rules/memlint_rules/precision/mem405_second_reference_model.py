"""A reference model in memory beside a policy that does not need it there."""

import ast
from collections.abc import Iterator

from memlint.rule import Finding, Object, Rule, Script, Trainer, edits, fix, triggers
from memlint_rules.precision.reference_copies import references_of_loops

_PREFERENCE = frozenset({"trl.DPOTrainer", "trl.KTOTrainer", "trl.experimental.kto.KTOTrainer"})
_COPIES = ("from_pretrained", "deepcopy", "create_reference_model")


def check(script: Script) -> Iterator[Finding]:
    for trainer in script.training:
        if trainer.model.is_toy:
            continue
        if trainer.peft:
            yield from _beside_adapter(script, trainer)
        elif trainer.kind in _PREFERENCE and trainer.peft is False:
            yield from _not_precomputed(script, trainer)
    yield from references_of_loops(script)


def _beside_adapter(script: Script, trainer: Trainer) -> Iterator[Finding]:
    """A second copy of the weights beside a PEFT policy."""
    setting = trainer.setting("ref_model")
    made = setting.value
    if setting.given is not True or not isinstance(made, Object) or made.made_by is None:
        return
    # ``get_peft_model`` and its like wrap the copy.
    call = script.call_at(made.root.node)
    if call is None or call.conditional or call.method not in _COPIES:
        return
    names = {one.checkpoint for one in (trainer.model, script.model_facts(made))} - {""}
    if len(names) > 1:
        # Other weights than the policy's base.
        return
    keyword = trainer.keyword_node("ref_model")
    yield Finding(
        script.span(keyword if keyword is not None else trainer.node.func),
        "a second copy of the weights as reference, beside a PEFT policy whose base is the "
        "reference when its adapter is off",
        fix(
            "Pass `ref_model=None`; where an SFT adapter was loaded, what the adapter-free policy "
            "is depends on the TRL version, and with it the objective",
            _drop(script, trainer, keyword),
            unsafe=True,
        ),
    )


def _given_copy(script: Script, trainer: Trainer) -> tuple[edits.Edit, ...] | None:
    """The edits that take away the reference that a trainer is given, which keeps it whatever was
    computed with it; None where it is no copy of the weights that are trained."""
    reference = trainer.setting("ref_model")
    if reference.given is False or reference.is_none:
        return ()
    copy, policy = script.model_facts(reference.raw), trainer.model
    same = copy.load == policy.load is not None or copy.checkpoint == policy.checkpoint != ""
    if len(script.training) > 1 or not same:
        return None
    return _drop(script, trainer, trainer.keyword_node("ref_model")) or None


def _drop(script: Script, trainer: Trainer, keyword: ast.keyword | None) -> tuple[edits.Edit, ...]:
    """Edits after which the copy is neither passed nor made; none where it is used otherwise."""
    value = keyword.value if keyword is not None else next(iter(trainer.node.args[1:2]), None)
    if isinstance(value, ast.Name):
        statement = script.sole_assignment(value)
        if statement is None:
            return ()
        return (
            edits.RemoveStatement(script.span(statement)),
            edits.ReplaceExpression(script.span(value), "None"),
        )
    return (
        (edits.ReplaceExpression(script.span(value), "None"),)
        if isinstance(value, ast.Call)
        else ()
    )


def _not_precomputed(script: Script, trainer: Trainer) -> Iterator[Finding]:
    """A full fine-tune that keeps its reference model for the whole run."""
    config = trainer.config
    if (
        config is None
        or config.from_command_line
        or script.uses_vision
        or trainer.subclass is not None
    ):
        return
    if not config.has_option("precompute_ref_log_probs"):
        return
    if config.effective("precompute_ref_log_probs").value is not False:
        return
    free = config.setting("reference_free")
    if config.effective("sync_ref_model").value is not False:
        return
    if free.given is not False and free.value is not False:
        return
    if script.streams_data or trainer.setting("model").given is not True:
        return
    changes = edits.set_option(script, config, "precompute_ref_log_probs", "True")
    dropped = _given_copy(script, trainer)
    if dropped is None:
        return
    changes = (*changes, *dropped) if changes is not None else None
    yield Finding(
        script.span(trainer.node.func),
        "keeps a frozen copy of the whole policy on the GPU as reference, although its "
        "log-probabilities can be computed once before training",
        fix("Set `precompute_ref_log_probs=True`", changes, unsafe=True),
    )


RULE = Rule(
    summary="a reference model held beside the policy for nothing",
    check=check,
    effect={"reference_model": False},
    triggers=(triggers.COPIES, triggers.UPDATES),
)
