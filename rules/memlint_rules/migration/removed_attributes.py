"""Attributes and methods that objects of the target's classes no longer have."""

import ast
from collections.abc import Collection, Iterator

from memlint.rule import (
    Finding,
    Fix,
    How,
    Object,
    Script,
    Span,
    Symbol,
    advise,
    edits,
    facts,
    fix,
    is_guarded,
    successors,
    triggers,
)
from memlint_rules.migration.removed_names import MOST_UNKNOWN, removed_member
from memlint_rules.migration.replaced_methods import method_fix

_TOKENIZER = "transformers.PreTrainedTokenizerBase"
_MODEL = "transformers.PreTrainedModel"
# Methods by whose names alone a tokenizer is known, where nothing else says what is called.
_TOKENIZER_METHODS = (
    "encode_plus",
    "batch_encode_plus",
    "as_target_tokenizer",
    "prepare_seq2seq_batch",
)
# What makes instances of a class that has another name.
_INSTANCES = {
    "transformers.AutoTokenizer": _TOKENIZER,
    "transformers.PreTrainedTokenizer": _TOKENIZER,
    "transformers.PreTrainedTokenizerFast": _TOKENIZER,
}


def removed_attributes(script: Script) -> Iterator[Finding]:
    unknown = 0
    for node, value in script.attribute_reads():
        if isinstance(value, Symbol):
            if unknown < MOST_UNKNOWN and _is_gone(script, node, value):
                unknown += 1
                yield from removed_member(script, node, value)
        elif value.type is not None and (
            value.root.cls is None or _is_inherited(script, node, value)
        ):
            yield from _attribute(script, node, value, value.type)
    yield from _by_receiver(script)


def _is_inherited(script: Script, node: ast.Attribute, value: Object) -> bool:
    """True if a trainer of the script's own has an attribute from the library's class alone: no
    class of the project sets or defines it."""
    name, binding = node.attr, script.final_bindings(value).get(node.attr)
    if not (value.type or "").endswith("Trainer") or (binding and binding.how is How.ATTRIBUTE):
        return False
    classes = facts.classes_of(value)
    if not classes or any(facts.gives_attribute(one, name) for one in classes):
        return False
    return not script.definitions_of(name) and script.text(node) not in script.stores


def _is_gone(script: Script, node: ast.Attribute, value: Symbol) -> bool:
    """True if a library that we compare does not have the name at the target."""
    compared = value.name.partition(".")[0] in triggers.COMPARED
    return compared and script.api.exists(f"{value.name}.{node.attr}") is False


def _by_receiver(script: Script) -> Iterator[Finding]:
    """Methods of what is called a tokenizer and of an unknown type: an argument, an attribute."""
    if not script.imports_package("transformers"):
        return
    for call in script.method_calls(*_TOKENIZER_METHODS):
        function = call.node.func
        if not isinstance(function, ast.Attribute) or not _is_called_tokenizer(function.value):
            continue
        if not call.name.startswith("?.") or script.definitions_of(function.attr):
            # Known by its type: looked at with the attributes. Or a tokenizer of the script's own.
            continue
        yield from _attribute(script, function, None, _TOKENIZER)


def _is_called_tokenizer(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return "tokenizer" in name.lower() or name == "tok"


def _attribute(
    script: Script, node: ast.Attribute, value: Object | None, kind: str
) -> Iterator[Finding]:
    owner = _instance_of(script, kind)
    attributes = script.api.attributes(owner)
    if owner.partition(".")[0] not in triggers.COMPARED or node.attr in (attributes or ()):
        return
    replacement = script.api.successor(f"{owner}.{node.attr}")
    if replacement is not None:
        answer = method_fix(script, node, replacement)
    elif attributes is not None and value is not None:
        answer = _option_fix(script, node, value, owner, attributes)
    else:
        # Where the tables have no list of methods, those written down as gone are known.
        return
    if answer is None or is_guarded(script, node):
        return
    if value is None and answer.edits:
        # It may be a tokenizer of another library, which cannot be called.
        answer = answer.as_unsafe()
    end = script.span(node).end
    name, target = owner.rpartition(".")[2], script.api.at_target(owner)
    span = Span(end - len(node.attr.encode()), end)
    yield Finding(span, f"`{name}` of {target} has no `{node.attr}`", answer)


def _instance_of(script: Script, kind: str) -> str:
    """The class that is asked for attributes of what ``kind`` makes."""
    name = script.api.canonical(kind)
    if name in _INSTANCES:
        return _INSTANCES[name]
    return _MODEL if name.startswith("transformers.AutoModel") else name


def _option_fix(
    script: Script, node: ast.Attribute, value: Object, owner: str, attributes: Collection[str]
) -> Fix | None:
    """How to read an option that the configuration had once; None if it never had it."""
    binding = script.final_bindings(value).get(node.attr)
    is_set = binding is not None and binding.how is How.ATTRIBUTE
    if is_set or script.api.history(owner, node.attr) is None:
        return None
    option = script.api.successor(owner, node.attr)
    match option:
        case successors.Rename(parameter=new, source="{value}") if new in attributes:
            edit = edits.RenameAttribute(script.span(node), new)
            return fix(f"Read `{new}`", (edit,))
    note = option.note if option is not None else ""
    answer = _asked_of_value(script, node, owner) or _written_out(script, node, value)
    return answer or advise(note or f"Do without `{node.attr}`")


def _asked_of_value(script: Script, node: ast.Attribute, owner: str) -> Fix | None:
    """``args.group_by_length`` is ``args.train_sampling_strategy == "group_by_length"``."""
    match script.api.successor(owner, node.attr, True):
        case successors.Build(parameter=new, source=source):
            if source[:1] == '"' and source.count('"') == 2:
                text = f"{script.text(node.value)}.{new} == {source}"
                edit = edits.ReplaceExpression(script.span(node), text)
                return fix(f"Ask for `{new} == {source}`", (edit,))
    return None


def _written_out(script: Script, node: ast.Attribute, value: Object) -> Fix | None:
    """What the script itself gave the option is known without asking for it."""
    config = script.config_of(value)
    setting = config.setting(node.attr) if config is not None else None
    if setting is None or not setting.given or setting.is_overridable_default:
        return None
    if setting.value is not None and not isinstance(setting.value, bool | int | float | str):
        return None
    edit = edits.ReplaceExpression(script.span(node), repr(setting.value))
    return fix(f"Write its value, {setting.value!r}", (edit,))
