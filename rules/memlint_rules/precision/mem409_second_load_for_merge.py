"""The base loaded on the GPU again, to merge or to generate, while training still holds it."""

import ast
from collections.abc import Iterator

from memlint.rule import (
    Call,
    Finding,
    Fix,
    Object,
    Rule,
    Script,
    Skip,
    advise,
    edits,
    facts,
    fix,
    triggers,
)

_LEAST = 0.5  # billions of parameters
_WITH_ADAPTER = tuple(
    f"peft.{name}.from_pretrained" for name in ("AutoPeftModelForCausalLM", "AutoPeftModel")
)


def check(script: Script) -> Iterator[Finding]:
    loads = [*script.model_loads, *script.calls_to(*_WITH_ADAPTER)]
    reported: set[object] = set()
    for one in script.trained:
        if (one.facts.billions or _LEAST) < _LEAST:
            continue
        load = next((each for each in loads if _is_second(script, one, each)), None)
        if load is None or load.node in reported:
            continue
        reported.add(load.node)
        yield Finding(
            script.span(load.node.func),
            "the model is loaded on the GPU again while the trained one, its gradients and its "
            "optimizer are still there",
            _fix(script, one, load),
        )


def _fix(script: Script, one: facts.Trained, load: Call) -> Fix:
    """The second load on the CPU, where it is loaded to be merged, and the load says where; else
    after what training holds is gone, where nothing reads that again."""
    effect = {"second_load": _format(script, load)}
    made = script.model_facts(script.value(load.node))
    moved = script.calls_on(made, "cuda", "to", "generate")
    placed = load.setting("device_map").given is True and effect["second_load"] != "nf4"
    if placed and script.calls_on(made, "merge_and_unload") and not moved:
        changes = edits.set_option(script, load, "device_map", '"cpu"')
        return fix('Merge on the CPU: `device_map="cpu"`', changes, unsafe=True, effect=effect)
    at = script.statement(load.node)
    names = ", ".join(facts.names_let_go_at(script, one, at))
    changes = edits.call_beside(script, "gc.collect", "", at) if names else None
    if changes is not None:
        changes = (edits.InsertStatement(script.span(at), f"del {names}"), *changes)
        message = f"`del {names}` before the model is loaded again"
        return fix(message, changes, unsafe=True, effect=effect)
    return advise(
        "Use the trained model (`merge_and_unload()`), or delete trainer, model and "
        'optimizer first, or load on the CPU: `device_map="cpu"`',
        effect,
    )


def _is_second(script: Script, one: facts.Trained, load: Call) -> bool:
    first = one.load
    if first is None or load.node is first.node or not _is_same(script, one, first, load):
        return False
    trains = facts.last_training(script, one)
    if trains is None or not any(
        invocation.order > trains.order for invocation in load.invocations
    ):
        return False
    node = trains.node
    home = script.function(node)
    return (
        (home is None or home is script.function(load.node))
        and _is_on_gpu(script, load)
        and not facts.are_exclusive(script, node, load.node)
        and not facts.lets_go_between(script, node, load.node)
    )


def _is_same(script: Script, one: facts.Trained, first: Call, load: Call) -> bool:
    """True if it loads the trained model's base again, or what training has saved."""
    if load.name.startswith(_WITH_ADAPTER):
        return True
    left, right = _checkpoint(first), _checkpoint(load)
    if load.name != first.name or left is None or right is None:
        return False
    value = script.python(right)
    if isinstance(value, str):
        return value == script.python(left) or value.rstrip("/") in _saved(script, one)
    written = script.text(right)
    return written == script.text(left) or written.endswith(".base_model_name_or_path")


def _checkpoint(load: Call) -> ast.expr | None:
    keyword = load.keyword_node("pretrained_model_name_or_path")
    return keyword.value if keyword is not None else next(iter(load.node.args), None)


def _format(script: Script, load: Call) -> str:
    """The dtype of the second load, or 4 bits; where nothing says it, that of most checkpoints."""
    if load.setting("quantization_config").given is not False:
        return "nf4"
    for name in ("dtype", "torch_dtype"):
        dtype = script.dtype_name(load.setting(name))
        if dtype in ("torch.float32", "torch.float16", "torch.bfloat16"):
            return dtype.removeprefix("torch.")
    return "bfloat16"


def _saved(script: Script, one: facts.Trained) -> set[str]:
    """Where the script saves what it trains."""
    calls = script.method_calls("save_model", "save_pretrained", "push_to_hub")
    places = [script.python(call.node.args[0]) for call in calls if call.node.args]
    if one.config is not None:
        places += [one.config.setting(name).value for name in ("output_dir", "hub_model_id")]
    return {place.rstrip("/") for place in places if isinstance(place, str)}


def _is_on_gpu(script: Script, load: Call) -> bool:
    place = load.setting("device_map")
    if place.given is True and place.value is not None:
        value = script.item(place.value, "") if isinstance(place.value, Object) else place.value
        named = isinstance(value, str) and value not in ("cpu", "disk", "meta")
        return named or type(value) is int
    made = script.model_facts(script.value(load.node))
    return any(
        call.method == "cuda" or script.text(call.node).endswith(("'cuda')", '"cuda")'))
        for call in script.calls_on(made, "cuda", "to")
    )


RULE = Rule(
    summary="the base loaded on the GPU again while training holds it",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({"from_pretrained"})),
)
