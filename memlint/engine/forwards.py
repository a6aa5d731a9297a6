"""Which calls are forward passes, and under which modes they run.

A call of a module that the script loads, makes or wraps is one for certain; a call of something
unknown that is used as models are is one possibly.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from memlint.engine import modes
from memlint.engine.nodes import walk
from memlint.engine.project import is_elsewhere
from memlint.engine.subscripts import index_parts
from memlint.engine.tensors import (
    Output,
    Positions,
    Role,
    Tensor,
    Width,
    known_tensors,
    tensor_from,
)
from memlint.engine.values import Constant, Object, OneOf, Opaque, Symbol, Unknown, Value, options

if TYPE_CHECKING:
    from memlint.engine.interpreter import Interpreter
    from memlint.engine.values import Invocation


class Certainty(StrEnum):
    DEFINITE = "definite"
    POSSIBLE = "possible"
    UNKNOWN = "unknown"


class ForwardRun:
    """One forward pass as the interpreter met it.

    module: what is called. certainty: whether it certainly is a module.
    own: whether it is a module that the script defines; its ``forward`` is followed.
    gradients: whether autograd records; training: which mode the module was last put in; autocast:
        the dtype that is on, ABSENT where none is. All None or UNKNOWN where not known.
    labels: whether labels are given. logits_kept: for which positions logits are computed.
    loops: the loops around it, outermost first, those of callers included.
    called: whether the script reaches it from its top.
    guessed: whether its function ran with unknown arguments, as nothing had called it by then.
    hook: the method around it that a library's trainer calls in every step.
    headless: whether it is of a language model's layers alone, and gives no logits.
    """

    def __init__(
        self, run: Interpreter, invocation: Invocation, module: Value, certainty: Certainty
    ) -> None:
        self.invocation = invocation
        self.module = module
        self.certainty = certainty
        self.own = False
        self.headless = all(isinstance(one, Part) for one in options(module))
        self.words: int | None = None
        self.gradients = modes.gradients(run)
        self.training = modes.training(run, module)
        self.autocast = modes.autocast(run)
        self.labels = _labels(invocation)
        self.logits_kept = _logits_kept(invocation)
        self.loops = run.loop_nest
        self.function = run.function
        self.called = run.called
        self.guessed = run.guessed
        self.hook = run.hook
        self.order = invocation.order
        self.output: Output | None = None


class Part(Object):
    """A part of a causal language model that a library loads: all of its layers, which wrap it as
    far as modes and gradients go, or its head, whose pass is an operation."""

    __slots__ = ("model",)

    def __init__(self, model: Object, *, is_head: bool) -> None:
        super().__init__(
            None if is_head else model.type, base=None if is_head else model, node=model.node
        )
        self.model = model


# What classes of transformers call their layers and their head.
_LAYERS = frozenset({"model", "transformer", "gpt_neox", "base_model"})
_OUTPUT_HEADS = frozenset({"lm_head", "embed_out"})


def part_of(run: Interpreter, model: Object, name: str) -> Object | None:
    """``model.model``, ``model.lm_head`` of a causal language model; what an adapter wraps."""
    if name not in _LAYERS | _OUTPUT_HEADS or isinstance(model, Part):
        return None
    kind = model.root.type or ""
    if not kind.startswith("transformers.") or not ("CausalLM" in kind or "LMHead" in kind):
        return None
    if model.base is not None and model.made_by and model.made_by.name.startswith("peft."):
        return model if name == "base_model" else model.base if name == "model" else None
    part = run.parts.get((id(model), name))
    if part is None:
        part = run.parts[id(model), name] = Part(model, is_head=name in _OUTPUT_HEADS)
    return part


_MODEL_PARTS = ("Model", "For", "LMHead")
_NOT_MODELS = ("Tokenizer", "Processor", "Config", "FeatureExtractor", "Pipeline", "pipeline")
_MODULE_BASES = (
    *("torch.nn.Module", "torch.nn.modules.module.Module", "transformers.PreTrainedModel"),
    "torch.nn.modules.Module",
)
_FORWARDS = frozenset({"forward", "__call__"})
# What puts models on the GPU where there is one, and says where that is.
LAUNCHERS = frozenset({"accelerate.Accelerator", "lightning.Fabric", "lightning.fabric.Fabric"})


def is_module(value: Value) -> bool:
    """True if an object certainly is a module: loaded, constructed, or of an own class."""
    if not isinstance(value, Object) or isinstance(value, Output):
        return False
    kind = value.root.type
    return kind is not None and _makes_module(kind)


# Scripts call the same few hundred things.
@lru_cache(maxsize=4096)
def _makes_module(kind: str) -> bool:
    """True if what is called by this qualified name is a module."""
    if kind.startswith(("transformers.", "liger_kernel.", "unsloth.", "auto_gptq.", "awq.")):
        short = kind.removesuffix(".from_config").removesuffix(".from_pretrained")
        short = short.rpartition(".")[2]
        return any(part in short for part in _MODEL_PARTS) and not any(
            part in short for part in _NOT_MODELS
        )
    return (
        kind in _MODULE_BASES
        or kind.endswith(".LightningModule")
        or (kind.startswith("torch.nn.") and not kind.endswith("Loss"))
        or (kind.startswith("peft.") and "Model" in kind)
        or kind == "trl.AutoModelForCausalLMWithValueHead"
    )


def _is_used_as_model(run: Interpreter, invocation: Invocation) -> bool:
    """True if the file that a call stands in uses what is called as a model."""
    if is_elsewhere(invocation.node):
        return invocation.node in run.calls_of_models_elsewhere
    return invocation.node in run.calls_of_models


def module_of(
    run: Interpreter, invocation: Invocation, callee: Value
) -> tuple[Value, Certainty] | None:
    """The module that a call runs forward, where it possibly is one."""
    func = invocation.node.func
    by_name = isinstance(func, ast.Attribute) and func.attr in _FORWARDS
    module = invocation.receiver if by_name else callee
    if module is None:
        return None
    known = is_module(module) or (not _is_other(module) and modes.is_known_module(run, module))
    unsure = by_name and not isinstance(module, Symbol) and _is_used_as_model(run, invocation)
    if not (known or unsure or (not by_name and _may_be_called(run, callee, invocation))):
        return None
    return module, Certainty.DEFINITE if known else Certainty.POSSIBLE


def _may_be_called(run: Interpreter, callee: Value, invocation: Invocation) -> bool:
    """True if ``callee(...)``, of what is not known to be a module, may be a forward pass."""
    if isinstance(callee, Opaque):
        return True
    # ``from setup import model``
    by_import = isinstance(callee, Symbol) and "." in callee.name
    unknown = isinstance(callee, Object | Unknown) and not _is_other(callee)
    return (by_import or unknown) and _is_used_as_model(run, invocation)


def _is_other(thing: Value) -> bool:
    """True for what surely is no model, by its class."""
    kind = thing.type if isinstance(thing, Object) else None
    return kind is not None and any(part in kind for part in _NOT_MODELS) and not is_module(thing)


def one_of_modules(
    run: Interpreter, invocation: Invocation, callees: Sequence[Value]
) -> tuple[Value, Certainty] | None:
    """The modules that a call runs forward, where it is one of several by the path."""
    modules = tuple(one for one in callees if isinstance(one, Object))
    if not modules or len(modules) < len(callees) or any(isinstance(o, Output) for o in modules):
        return None
    known = [is_module(one) or modes.is_known_module(run, one) for one in modules]
    if all(known):
        return OneOf(modules), Certainty.DEFINITE
    possible = any(known) or _is_used_as_model(run, invocation)
    return (OneOf(modules), Certainty.POSSIBLE) if possible else None


def forward(
    run: Interpreter, invocation: Invocation, module: Value, certainty: Certainty
) -> Output:
    """The output of a forward pass, which the run remembers."""
    made = ForwardRun(run, invocation, module, certainty)
    output = Output(made, invocation)
    made.output = output
    asked = invocation.keywords.get("return_dict")
    if asked is not None and isinstance(asked.value, Constant) and not asked.value.value:
        output.open = True
    run.objects.append(output)
    run.state.allocated.add(id(output))
    run.forwards.append(made)
    return output


def own_forward(run: Interpreter, invocation: Invocation, module: Object) -> ForwardRun:
    """The call of a module that the script defines."""
    made = ForwardRun(run, invocation, module, Certainty.DEFINITE)
    made.own = True
    run.forwards.append(made)
    return made


_WHOLE = (Positions.ALL, Positions.SHIFTED)
# The size of a tokenizer's vocabulary, of which only that is known.
VOCABULARY = Symbol("tokenizer.vocab_size")
_SIZES = frozenset({"vocab_size", "n_vocab"})


def size_of_vocabulary(thing: Object, name: str) -> Value | None:
    """``tokenizer.vocab_size`` of a tokenizer that a library loads; None for anything else."""
    return VOCABULARY if name in _SIZES and _is_tokenizer(thing) else None


def _is_tokenizer(thing: Value) -> bool:
    """True for what a library loads to tokenize."""
    if not isinstance(thing, Object) or thing.made_by is None:
        return False
    kind = thing.type or thing.made_by.name
    known = kind.startswith("transformers.") and "Tokenizer" in kind
    return known or kind.startswith(("tiktoken.", "tokenizers.", "sentencepiece."))


def _counts_words(size: Value) -> bool:
    """True for the size of a tokenizer's vocabulary, also by ``len`` or by a method of it."""
    made = size.made_by if isinstance(size, Object) else None
    if made is None:
        return size == VOCABULARY
    asked = made.arguments[0] if made.name == "len" and made.arguments else made.receiver
    return asked is not None and _is_tokenizer(asked)


# Fewer numbers a position are classes, or characters.
_FEWEST_WORDS = 4_000
_HEADS = ("torch.nn.Linear", "torch.nn.modules.linear.Linear")
_TABLES = ("torch.nn.Embedding", "torch.nn.modules.sparse.Embedding")


def logits_of_head(run: Interpreter, invocation: Invocation, head: Object) -> Tensor | None:
    """The logits that the head of a language model of the script's own computes in its pass.

    A linear layer is a head where a table of the script embeds as many words. None where it gets a
    part of the positions, or may.
    """
    if isinstance(head, Part) and invocation.arguments:
        found = known_tensors(invocation.arguments[0])
        return _read_by_head(run, found[0], invocation.node) if found else None
    if not run.own_passes or not _is_layer(head, _HEADS):
        return None
    given = invocation.node.args[0] if invocation.node.args else None
    return _logits(run, head, given, invocation.node)


def _read_by_head(run: Interpreter, states: Tensor, node: ast.expr) -> Tensor | None:
    """The logits of hidden states; None of a part of them, or where a loop goes by chunks."""
    whole = states.role is Role.HIDDEN_STATES and states.positions in _WHOLE
    if not whole or states.forward is None or states.forward.loops != run.loop_nest:
        return None
    return tensor_from(
        states, "head", node, role=Role.LOGITS, width=Width.LOGITS, copy=True, dtype=None
    )


def logits_of_weights(run: Interpreter, product: ast.expr) -> Tensor | None:
    """The logits of ``linear(hidden, table.weight)`` and ``hidden @ table.weight.T``: words that
    are read as they are embedded."""
    match product:
        case ast.Call(args=[ast.Constant(), hidden, weight]):  # an einsum
            pass
        case ast.Call(args=[hidden, weight]) | ast.BinOp(left=hidden, right=weight):
            pass
        case _:
            return None
    while isinstance(weight, ast.Call) or getattr(weight, "attr", "") in ("T", "mT", "data"):
        inner = weight.func if isinstance(weight, ast.Call) else weight
        if not isinstance(inner, ast.Attribute):
            return None
        weight = inner.value
    layer = run.values.get(weight.value) if isinstance(weight, ast.Attribute) else None
    if not isinstance(layer, Object) or getattr(weight, "attr", "") != "weight":
        return None
    known = _is_layer(layer, _HEADS) or (_is_layer(layer, _TABLES) and _has_embedded(run, layer))
    return _logits(run, layer, hidden, product) if known else None


def _has_embedded(run: Interpreter, table: Object) -> bool:
    """True if the pass began with rows of a table: a codebook's are taken for what was nearest."""
    start = run.own_passes[0].order
    return any(one.receiver is table and one.order > start for one in run.invocations)


def _logits(
    run: Interpreter, layer: Object, given: ast.expr | None, node: ast.expr
) -> Tensor | None:
    """What a layer with a row for each word makes of all positions; None where a loop of the pass
    goes by chunks."""
    words = _words(run, layer)
    whole = run.loop_nest == run.own_passes[-1].loops and not _may_be_cut(run, given)
    if words is None or not whole:
        return None
    run.has_tensors = True
    for passing in run.own_passes:
        passing.words = words
    return Tensor(
        Role.LOGITS,
        Width.LOGITS,
        Positions.ALL,
        copy=True,
        graph=modes.gradients(run),
        forward=run.own_passes[0],
        operation="head",
        node=node,
    )


def has_small_head(model: Value) -> bool:
    """True if a script gives a model a head of its own that may have few numbers a position."""
    models = [one.root for one in options(model) if isinstance(one, Object)]
    given = [binding.value for one in models for binding in one.names.get("lm_head", ())]
    heads = [one for value in given for one in options(value) if isinstance(one, Object)]
    sizes = (_sizes(one, 1, "out_features") for one in heads if one.type in _HEADS)
    return any(VOCABULARY not in each and not any(map(_is_many, each)) for each in sizes)


def _is_many(size: Value) -> bool:
    return isinstance(size, Constant) and type(size.value) is int and size.value >= _FEWEST_WORDS


def _words(run: Interpreter, head: Object) -> int | None:
    """The fewest words that a head may have, where a table of the script has as many."""
    sizes = _sizes(head, *_place_of_words(head))
    counted = any(map(_counts_words, sizes))
    numbers = [one.value for one in sizes if isinstance(one, Constant)]
    if not sizes or (len(numbers) < len(sizes) and not counted):
        return _FEWEST_WORDS if _is_vocabulary(run, head) else None
    words = [one for one in numbers if isinstance(one, int) and one >= _FEWEST_WORDS]
    tables = (_sizes(one, 0, "num_embeddings") for one in _tables(run))
    if len(words) < len(numbers) or not (counted or sizes in tables):
        return None
    return min(words, default=_FEWEST_WORDS)


def _place_of_words(layer: Object) -> tuple[int, str]:
    return (0, "num_embeddings") if _is_layer(layer, _TABLES) else (1, "out_features")


def _tables(run: Interpreter) -> list[Object]:
    return [one for one in (*run.objects, *run.instances) if _is_layer(one, _TABLES)]


def _is_layer(layer: Object, kinds: tuple[str, ...]) -> bool:
    """True for a layer of torch, or of a class of the script that does the same."""
    return layer.type in kinds if layer.cls is None else _kinds_of(layer.cls.node) is kinds


PRODUCTS = frozenset({"torch.nn.functional.linear", "torch.matmul", "torch.mm", "torch.einsum"})
# What multiplies with weights, as ``unparse`` writes it.
_PRODUCT = re.compile(r"@|\b(?:linear|einsum|matmul|mm|dot)\(")
# What has a part of the words alone.
_SHARDED = re.compile(r"(?i:parallel)|world_size|all_(?:reduce|gather)|get_rank|\btp_")


@lru_cache(maxsize=1024)
def _kinds_of(node: ast.ClassDef) -> tuple[str, ...]:
    """Which layers of torch a class is like, of which it has no part alone and whose pass gets
    nothing else: it picks rows of a parameter, or multiplies."""
    methods = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
    forward, text = methods.get("forward"), ""
    if forward is not None:
        text = ast.unparse(forward)
        if len(forward.args.args) - len(forward.args.defaults) != 2:
            return ()
    if _SHARDED.search(ast.unparse(node)):
        return ()
    products = [line for line in text.splitlines() if _PRODUCT.search(line)]
    init = methods["__init__"].args.args if products and "__init__" in methods else []
    named = _kinds_by_names(node, ", ".join(one.arg for one in init))
    if named:
        return named
    return () if re.search(r"self\.\w+\(", text) else _kinds_by_weights(node, text, products)


def _kinds_by_names(node: ast.ClassDef, parameters: str) -> tuple[str, ...]:
    """Which layers a class is like by the parameters of its constructor, or by its base."""
    if "num_embeddings, embedding_dim" in parameters:
        return _TABLES
    linear = any(ast.unparse(base).endswith("nn.Linear") for base in node.bases)
    return _HEADS if linear or "in_features, out_features" in parameters else ()


def _kinds_by_weights(node: ast.ClassDef, text: str, products: list[str]) -> tuple[str, ...]:
    assigned = (one for one in walk([node]) if isinstance(one, ast.Assign | ast.AnnAssign))
    made = (one for one in assigned if "Parameter(" in ast.unparse(one))
    weights = {re.split(" = |: ", ast.unparse(one))[0] for one in made}
    if any(f"{one}[" in text for one in weights):
        return _TABLES
    return _HEADS if any(one in line for line in products for one in weights) else ()


# How settings write a number of words, and how a script makes a vocabulary of characters: other
# things are sorted as well.
_MANY = re.compile(
    r"(?i:vocab)\w{0,20}+[\"']?\s*+"
    r"(?:[:=]\s*+(?:int\s*+=\s*+)?+|,\s*+(?:type\s*+=\s*+int\s*+,\s*+)?+default\s*+=\s*+)"
    r"(?:[4-9]|[1-9]\d\d?)_?\d{3}\b"
)
_CHARACTERS = re.compile(
    r"(?i:char|vocab|letter|symbol|word)\w{0,20}+\s*+=\s*+sorted\((?:list\()?+set\("
    r"|sorted\((?:list\()?+set\("
    r"(?:[\"']{2}\.join|data\)|[^)\n]{0,60}?(?i:text|corpus|content|char|read\())"
)


def _is_vocabulary(run: Interpreter, head: Object) -> bool:
    """True if a head has a size that is called one of a vocabulary, as a table has, and the project
    gives numbers of words to such names, and characters to none."""
    name = _size_written(head, *_place_of_words(head))
    tables = (_size_written(one, 0, "num_embeddings") for one in _tables(run))
    if "vocab" not in name.lower() or run.project is None or name not in tables:
        return False
    return run.project.says(_MANY) is True and run.project.says(_CHARACTERS) is False


def _size_written(layer: Object, place: int, name: str) -> str:
    call = layer.made_by.node if layer.made_by is not None else None
    given = [one.value for one in call.keywords if one.arg == name] if call is not None else []
    written = given or (call.args[place : place + 1] if call is not None else [])
    return ast.unparse(written[0]) if written else ""


def _sizes(layer: Object, place: int, name: str) -> frozenset[Value]:
    """The sizes that a layer may be made with: the numbers that are written for it, though
    something else may give another (``size or 50304``), or that of a tokenizer's vocabulary."""
    made = layer.made_by
    if made is None:
        return frozenset()
    given = made.keywords.get(name)
    values = [given.value] if given is not None else made.arguments[place : place + 1]
    said = (one for value in values for one in options(value) if not isinstance(one, Unknown))
    return frozenset(one for one in said if one != Constant(None))


def _may_be_cut(run: Interpreter, given: ast.expr | None) -> bool:
    """True if what a head gets is an item or a mean, in the call or under the name that it gets."""
    bound = _bound_in(run, given.id) if isinstance(given, ast.Name) else []
    values = walk([one for one in (given, *bound) if one is not None])
    return given is None or any(_cuts(one) and not _takes_all(run, one) for one in values)


def _bound_in(run: Interpreter, name: str) -> list[ast.expr]:
    """What a name is bound to in the function that runs."""
    return [
        node.value
        for node in walk([run.function] if run.function is not None else [])
        if isinstance(node, ast.Assign)
        and any(isinstance(one, ast.Name) and one.id == name for one in node.targets)
    ]


def _takes_all(run: Interpreter, node: ast.AST) -> bool:
    """True of ``hidden[:, last, :]`` where that is ``slice(-kept, None)`` and 0 are to be kept, as
    transformers' own models have it: all are."""
    parts = index_parts(node.slice) if isinstance(node, ast.Subscript) else []
    named = [one.id for one in parts if isinstance(one, ast.Name)]
    others = [one for one in parts if not isinstance(one, ast.Name)]
    if len(named) != 1 or any(ast.unparse(one) != ":" for one in others):
        return False
    written = "".join(map(ast.unparse, _bound_in(run, named[0])))
    kept = re.findall(r"slice\(-(\w+), None\)", written)
    bound = run.lookup(kept[0]) if len(kept) == 1 else None
    return bound is not None and bound.value == Constant(0)


def _cuts(node: ast.AST) -> bool:
    """True if a node takes a part of something: an item of ``self.scales`` is a weight."""
    if isinstance(node, ast.Subscript):
        of = node.value
        return not (isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name))
    return isinstance(node, ast.Attribute) and node.attr in ("mean", "select", "index_select")


def _labels(invocation: Invocation) -> bool | None:
    binding = invocation.keywords.get("labels")
    if binding is not None:
        values = options(binding.value)
        none = [isinstance(one, Constant) and one.value is None for one in values]
        return True if not any(none) else False if all(none) else None
    return None if invocation.open_keywords or invocation.open_arguments else False


def _logits_kept(invocation: Invocation) -> Positions:
    """For which positions a language model computes logits."""
    for name in ("logits_to_keep", "num_logits_to_keep"):
        binding = invocation.keywords.get(name)
        if binding is None:
            continue
        if isinstance(binding.value, Constant):
            value = binding.value.value
            if type(value) is int and value < 2:
                return Positions.LAST if value == 1 else Positions.ALL
        return Positions.SOME
    return Positions.ALL
