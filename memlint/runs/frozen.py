"""Which weights of a model a script leaves out of training: its backbone, its embeddings, or a part
whose share nobody can tell."""

from collections.abc import Iterator

from memlint.engine.constants import UNSURE, python_value
from memlint.engine.growth import root_of
from memlint.engine.guards import words_tested
from memlint.engine.modes import module_root
from memlint.engine.nodes import Expression, Node, holder_of
from memlint.engine.values import options
from memlint.runs.plain_options import Options
from memlint.script.loaded_models import ModelFacts
from memlint.script.model import Script

# Transformers' ``base_model_prefix`` of usual families, and what PyTorch models call the same.
_BACKBONES = frozenset(
    {
        *("base_model", "model", "transformer", "backbone", "bert", "roberta", "distilbert"),
        *("electra", "albert", "deberta", "mpnet", "longformer", "camembert", "xlnet", "funnel"),
        *("vit", "deit", "beit", "swin", "swinv2", "convnext", "resnet", "dinov2", "wav2vec2"),
        *("hubert", "wavlm", "audio_spectrogram_transformer", "gpt_neox", "xlm_roberta"),
    }
)
_HEADS = ("classifier", "score", "head", "qa_outputs", "pooler", "cls", "fc")
_TABLES = ("embed", "wte")
_PART = "the script freezes a part of the weights, whose share is not known"


def frozen_of(script: Script, facts: ModelFacts) -> Options:
    """The settings of what the script does not train of a model that it would train whole."""
    off = list(_switched(script, facts, on=False))
    loops = {place for place, _ in off}
    parts = [part for _, part in off]
    # What is switched on again, outside the loop that switches others off.
    on = [part for place, part in _switched(script, facts, on=True) if place not in loops]
    if not parts:
        return {}
    if any(part != "head" for part in on):
        return {"notes": {"frozen": _PART}}
    if "backbone" in parts:
        return {"frozen": "backbone"}
    if set(parts) == {"embeddings"}:
        return {"frozen": "embeddings"}
    return {"notes": {"frozen": _PART}}


def _switched(script: Script, facts: ModelFacts, *, on: bool) -> Iterator[tuple[Node, str]]:
    """Yield the parts of a model whose gradients are switched on or off, with the loop or the
    statement that does it: ``backbone``, ``embeddings``, ``head`` or ``part``."""
    for call in script.method_calls("requires_grad_"):
        value = python_value(call.argument(0)) if call.node.args else True
        module = holder_of(call.node)
        if value is on and module is not None:
            yield from _part_of(script, facts, module, call.node)
    for node in filter(script.is_target, script.attributes("requires_grad")):
        statement, module = script.statement(node), holder_of(node)
        value = script.python(getattr(statement, "value", node))
        if module is not None and (value is on or (value is UNSURE and not on)):
            yield from _part_of(script, facts, module, statement)


def _part_of(
    script: Script, facts: ModelFacts, switched: Expression, place: Node
) -> Iterator[tuple[Node, str]]:
    """Yield the part that one place switches, where it is of the model and runs."""
    loops = script.flow.loops_around(place)
    iterated = getattr(loops[0], "iter", None) if loops else None
    module, around = switched, place
    if iterated is not None and script.text(switched).isidentifier():
        module, around = holder_of(iterated) or iterated, loops[0]
    root = root_of(module)
    runs = script.runs_by_default(around)
    if root is None or runs is False or not _is_of(script, facts, root):
        return
    words = script.text(module).split(".")[1:]
    tests = list(words_tested(script, place, around)) if around is not place else []
    if runs is None or len(tests) > 1 or (tests and words):
        yield around, "part"
    else:
        yield around, _by_names(*tests[0]) if tests else _by_path(words)


def _by_path(words: list[str]) -> str:
    """The part that attributes of the model lead to."""
    if not words or (len(words) == 1 and words[0] in _BACKBONES):
        return "backbone"
    if words[-1].endswith(_HEADS):
        return "head"
    return "embeddings" if any(word in words[-1] for word in _TABLES) else "part"


def _is_of(script: Script, facts: ModelFacts, root: Expression) -> bool:
    """True if a name may be the trained model."""
    roots = {id(module_root(one)) for one in facts.objects}
    return any(id(module_root(one)) in roots for one in options(script.value(root)))


def _by_names(named: list[str], negated: bool) -> str:
    """The part that a condition on the names of weights picks. negated: all others."""
    heads = all(one.endswith(_HEADS) for one in named)
    if not named or negated:
        return "backbone" if named and heads else "part"
    if any(one in _BACKBONES for one in named):
        return "backbone"
    tables = all(any(word in one for word in _TABLES) for one in named)
    return "head" if heads else "embeddings" if tables else "part"
