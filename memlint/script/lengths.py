"""What code does to the lengths of rows: tokenize, truncate, pad, cut into blocks."""

import ast
from collections.abc import Iterable, Iterator
from enum import StrEnum

from memlint.engine.imported import project_value
from memlint.engine.nodes import Definition, Expression, Node, called_name, holder_of, last_name
from memlint.engine.preparing import cuts_of, joins_and_cuts, kept_by_length
from memlint.engine.values import (
    Class,
    Function,
    FunctionNode,
    Invocation,
    Provenance,
    Symbol,
    Value,
    options,
)
from memlint.flow.evaluated import query
from memlint.script.called import Call, Called
from memlint.script.calls import Host
from memlint.script.guesses import may_be_tokenizer
from memlint.source.patterns import lazy_pattern
from memlint.source.record import NamedTuple


class Lengths(StrEnum):
    """What a preparation does to the lengths of rows."""

    TOKENIZED = "tokenized without a limit"
    TRUNCATED = "truncated"
    PADDED = "padded to a fixed length"
    PADDED_TO_LONGEST = "padded to the longest"
    EVENED_OUT = "padded by hand to the longest"
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
    node: Node
    call: Call | None = None


_TOKENIZING = frozenset(
    {"encode", "encode_plus", "batch_encode_plus", "prepare_for_model", "apply_chat_template"}
)
TOKENIZING_METHODS = _TOKENIZING | {"pad", "__call__"}
FROM_TEXT = frozenset({"__call__", "encode", "encode_plus", "batch_encode_plus"})
# What only a tokenizer takes, and what the processors of sound and images take beside it.
_OPTIONS_OF_TEXT = frozenset(
    {
        *("truncation", "text_target", "text_pair", "add_special_tokens", "is_split_into_words"),
        *("return_special_tokens_mask", "return_overflowing_tokens", "return_token_type_ids"),
        *("return_attention_mask", "add_generation_prompt", "return_offsets_mapping"),
    }
)
_OPTIONS_OF_OTHERS = frozenset({"sampling_rate", "images", "audio", "audios", "videos"})
# What only a tokenizer has.
_OF_TOKENIZERS = frozenset(
    {
        *("pad_token", "pad_token_id", "padding_side", "truncation_side", "model_max_length"),
        *("batch_decode", "convert_tokens_to_ids", "convert_ids_to_tokens", "add_special_tokens"),
        *("eos_token", "bos_token", "as_target_tokenizer", "chat_template", "all_special_ids"),
    }
)
# What cannot change lengths unseen: its effects are known, or are read off its calls.
_KNOWN_PACKAGES = frozenset(
    {
        *("datasets", "transformers", "torch", "numpy", "itertools", "functools", "copy", "math"),
        *("re", "json", "random", "collections", "os", "time", "logging", "string", "operator"),
        *("trl", "typing", "warnings", "pathlib", "hashlib", "sys", "ast", "textwrap", "PIL"),
        *("tqdm",),
    }
)
# What such a function is called for.
_BLOCKS = lazy_pattern("group|chunk|pack|block|concat_text")
_LENGTH_WORDS = ("ids", "input", "token", "label", "mask", "text_chunk", "seq")


def is_tokenizer_call(call: Call) -> bool:
    """True if something that is a tokenizer, by type or by use, is called to make tokens.

    ``tokenizer.pad`` counts; calls of processors do not.
    """
    holder = holder_of(call.node) if called_name(call.node) in TOKENIZING_METHODS else None
    kind = call.name.rpartition(".")[0]
    if "Tokenizer" in kind and "from_" not in call.method:
        return call.method in TOKENIZING_METHODS
    if "Processor" in kind or call.name.endswith(".from_pretrained"):
        return False
    if holder is None and not call.name.startswith("?"):
        # A function of the script or of a library.
        return False
    return _is_used_as_tokenizer(call, holder if holder is not None else call.node.func)


def _is_used_as_tokenizer(call: Call, what: Expression) -> bool:
    """True if something of an unknown type is a tokenizer by what the script does with it: it gives
    it options, or asks it for attributes, that nothing else has."""
    given = set(call.keywords)
    if given & _OPTIONS_OF_OTHERS:
        return False
    return bool(given & _OPTIONS_OF_TEXT) or call.script.text(what) in _tokenizers_by_use(
        call.script
    )


@query
def _tokenizers_by_use(script: Called) -> frozenset[str]:
    """What the script asks for attributes that only tokenizers have, as it is written."""
    return frozenset(
        script.text(holder)
        for word in _OF_TOKENIZERS
        for one in script.mentions(word)
        if (holder := holder_of(one)) is not None and last_name(holder)
    )


def effects_of(
    script: Host, function: FunctionNode, invocations: Iterable[Invocation]
) -> Iterator[Effect]:
    """What a run of a function does to the lengths of rows. invocations: that run's calls."""
    functions: dict[Node, None] = {function: None}
    for invocation in invocations:
        if invocation.function is not None:
            functions[invocation.function] = None
        node = invocation.node
        # A function that calls nothing has no invocation of its own.
        callees = [of_project(script, one) for one in options(script.value(node.func))]
        in_sight = [one for one in callees if isinstance(one, Function | Class)]
        functions |= dict.fromkeys(one.node for one in in_sight if isinstance(one, Function))
        call = script.call_anywhere(node)
        if call is None:
            continue
        if is_tokenizer_call(call):
            yield from tokenizer_effects(call)
        elif len(in_sight) < len(callees) and _is_out_of_sight(call, invocation):
            yield Effect(Lengths.UNKNOWN, None, node, call)
    for one in functions:
        yield from _written_effects(script, one)


def of_project(script: Host, value: Value) -> Value:
    """A function or a class that another file of the project defines, or the value itself."""
    there = project_value(script._run, value.name) if isinstance(value, Symbol) else None
    return there or value


def _is_out_of_sight(call: Call, invocation: Invocation) -> bool:
    """True if a function elsewhere is called, that may do anything to rows."""
    package = call.name.split(".")[0]
    if call.name.startswith("."):
        return True
    if "?" in call.name:
        unknown = call.name == "?" and holder_of(invocation.node) is None
        return unknown or may_be_tokenizer(called_name(invocation.node))
    return "." in call.name and package not in _KNOWN_PACKAGES and invocation.receiver is None


def tokenizer_effects(call: Call) -> Iterator[Effect]:
    """What a tokenizer's call does to lengths."""
    if call.method == "apply_chat_template" and call.setting("tokenize").value is False:
        return
    if call.method != "pad":
        yield from _truncation(call)
    yield from padding_effects(call)


def _truncation(call: Call) -> Iterator[Effect]:
    setting, kind = call.setting("truncation"), Lengths.UNKNOWN
    overflow = call.setting("return_overflowing_tokens")
    if overflow.given is not False and overflow.value is not False:
        kind = Lengths.CUT if overflow.value is True else Lengths.UNKNOWN
    elif setting.given is False or setting.value in (False, "do_not_truncate"):
        kind = Lengths.TOKENIZED
    elif setting.value is True or isinstance(setting.value, str):
        kind = Lengths.TRUNCATED
    limited = kind in (Lengths.CUT, Lengths.TRUNCATED)
    yield Effect(kind, _tokens(call) if limited else None, call.node, call)


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


def _written_effects(script: Host, function: Node) -> Iterator[Effect]:
    """What is done to lists by hand: cut into blocks, cut off, filled up."""
    turns: list[Effect] = []
    blocks: list[Effect] = []
    for cut in cuts_of(function):
        if cut.how == "cut off" and cut.of is not None:
            # How many of what: only tokens are counted, by what is cut or what it is then called.
            words = script.text(cut.of) + script.text(script.statement(cut.node)).partition("=")[0]
            counted = any(word in words.lower() for word in _LENGTH_WORDS)
            count = _number(script, cut.size) if counted else None
            yield Effect(Lengths.TRUNCATED, count, cut.node)
        elif cut.how in ("filled up", "evened out"):
            kind = Lengths.PADDED if cut.how == "filled up" else Lengths.EVENED_OUT
            yield Effect(kind, _number(script, cut.size), cut.node)
        else:
            found = blocks if cut.how == "block" else turns
            found.append(Effect(Lengths.CUT, _number(script, cut.size), cut.node))
    if is_named_for_blocks(function):
        turns.append(Effect(Lengths.CUT, None, function))
    # The last block that is written, else the first turn of a ``range``.
    yield from [*reversed(blocks), *turns][:1]


def filled_up_in(script: Host, function: Node) -> Iterator[Effect]:
    """Yield where a function fills rows up, but where it cuts blocks and fills the last."""
    cuts = list(cuts_of(function))
    if not any(one.how in ("block", "turn") for one in cuts):
        for cut in cuts:
            if cut.how == "filled up" and script.function(cut.node) is function:
                yield Effect(Lengths.PADDED, _number(script, cut.size), cut.node)


def is_named_for_blocks(definition: Node) -> bool:
    """True if a function or a class is called for blocks: ``group_texts``, ``PackedDataset``."""
    return _BLOCKS.search(getattr(definition, "name", "").lower()) is not None


def kept_tokens(script: Host, function: Node | None) -> int | None:
    """How many tokens the rows that a filter keeps have at most, where it counts tokens."""
    cuts = kept_by_length(function) if function is not None else ()
    names = [(script.text(one.of), one) for one in cuts if one.of is not None]
    sizes = [_number(script, one.size) for text, one in names if "ids" in text or "token" in text]
    return min(filter(None, sizes), default=None)


def _number(script: Host, node: Expression) -> int | None:
    value = script.python(node)
    # Of several what a flag or its default says: others are a model's limits.
    flags = (one for one in options(script.value(node)) if getattr(one, "origin", 0) in _FLAGS)
    values = [value, *(getattr(one, "value", None) for one in flags)]
    return next((one for one in values if type(one) is int), None)


_FLAGS = (Provenance.ARGPARSE, Provenance.PARSED_FIELD, Provenance.COMMAND_LINE)


@query
def block_functions_of(script: Host) -> tuple[Definition, ...]:
    """Innermost functions that lay rows end to end and cut them into equal blocks."""
    cutting = [node for node in script.functions if joins_and_cuts(node)]
    around = {outer for node in cutting for outer in script.functions_around(node)}
    return tuple(node for node in cutting if node not in around)


# -- functions of rows -----------------------------------------------------------------------------

_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


class RowFunction(NamedTuple):
    """A function of the script that gets rows of data."""

    node: ast.FunctionDef | ast.Lambda

    @property
    def returns_list(self) -> bool:
        """True if all that it returns is a list, to all appearances."""
        if isinstance(self.node, ast.Lambda):
            return _is_list(self.node.body)
        lists = {name for name, value in self._assignments if _is_list(value)}
        lists -= {name for name, value in self._assignments if not _is_list(value)}
        returned = [node.value for node in self._nodes if isinstance(node, ast.Return)]
        return bool(returned) and all(
            _is_list(value) or getattr(value, "id", None) in lists for value in returned
        )

    @property
    def goes_through_rows(self) -> bool:
        """True if it goes through the rows of a batch, one text after the other."""
        first = next(iter(self.node.args.posonlyargs + self.node.args.args), None)
        rows = {first.arg} if first is not None else set()
        rows |= {name for name, value in self._assignments if _mentions(value, rows)}
        return any(
            _mentions(node.iter, rows)
            for node in self._nodes
            if isinstance(node, ast.For | ast.comprehension)
        )

    @property
    def takes_first_row(self) -> bool:
        """True if it asks a column for one of its rows: ``example["text"][0]``."""
        return any(
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Subscript)
            and isinstance(getattr(node.slice, "value", None), int)
            for node in self._nodes
        )

    @property
    def _nodes(self) -> Iterator[ast.AST]:
        """Its nodes, those of functions within left out."""
        body = self.node.body
        waiting: list[ast.AST] = [body] if isinstance(body, ast.expr) else list(body)
        while waiting:
            node = waiting.pop()
            yield node
            waiting += [one for one in ast.iter_child_nodes(node) if not isinstance(one, _Scope)]

    @property
    def _assignments(self) -> list[tuple[str, ast.expr]]:
        """The names that it assigns to, with what they get."""
        return [
            (target.id, node.value)
            for node in self._nodes
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        ]


def row_functions(script: Host, value: ast.expr) -> list[RowFunction]:
    """Return the functions of the script that ``value`` may be; none where it may be more."""
    thing = script.value(value)
    options = (thing,) if isinstance(thing, Function) else getattr(thing, "options", ())
    nodes = [getattr(option, "node", None) for option in options]
    functions = [
        RowFunction(node) for node in nodes if isinstance(node, ast.FunctionDef | ast.Lambda)
    ]
    return functions if len(functions) == len(nodes) else []


def _is_list(value: ast.expr | None) -> bool:
    return isinstance(value, ast.List | ast.ListComp)


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id in names for inner in ast.walk(node))
