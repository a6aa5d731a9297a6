"""Attributes and methods that objects of the target's classes no longer have."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from memlint.rule import (
    COMPARED,
    Applicability,
    Build,
    Call,
    Finding,
    Fix,
    How,
    InsertStatement,
    Object,
    RemoveStatement,
    Rename,
    RenameAttribute,
    RenameKeyword,
    Replace,
    ReplaceCallee,
    ReplaceExpression,
    Script,
    Span,
    Successor,
    Symbol,
)
from memlint.rule.migration.removal import fitness
from memlint.rule.migration.removed_names import MOST_UNKNOWN, removed_member
from memlint.script.version_guards import is_guarded

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
        elif value.cls is None and value.type is not None:
            yield from _attribute(script, node, value, value.type)
    yield from _by_receiver(script)


def _is_gone(script: Script, node: ast.Attribute, value: Symbol) -> bool:
    """True if a library that we compare does not have the name at the target."""
    compared = value.name.partition(".")[0] in COMPARED
    return compared and script.api.exists(f"{value.name}.{node.attr}") is False


def _by_receiver(script: Script) -> Iterator[Finding]:
    """Methods of what is called a tokenizer, though nothing says what it is: an argument of a
    function, an attribute of ``self``."""
    if not script.imports_package("transformers"):
        return
    calls = script.method_calls(*_TOKENIZER_METHODS)
    own = {node.name for node in script.nodes(ast.FunctionDef)} if calls else ()
    for call in calls:
        function = call.node.func
        if not isinstance(function, ast.Attribute) or not _is_called_tokenizer(function.value):
            continue
        if not call.name.startswith("?.") or function.attr in own:
            # Known by its type: looked at with the attributes. Or a tokenizer of the script's own.
            continue
        yield from _attribute(script, function, None, _TOKENIZER)


def _is_called_tokenizer(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return "tokenizer" in name.lower() or name == "tok"


def _is_assigned(script: Script, value: Object, name: str) -> bool:
    """True if the script itself gives the object such an attribute."""
    binding = script.final_bindings(value).get(name)
    return binding is not None and binding.how is How.ATTRIBUTE


def _attribute(
    script: Script, node: ast.Attribute, value: Object | None, kind: str
) -> Iterator[Finding]:
    owner = _instance_of(script, kind)
    if owner.partition(".")[0] not in COMPARED:
        return
    attributes = script.api.attributes(owner)
    if attributes is not None and node.attr in attributes:
        return
    replacement = script.api.successor(f"{owner}.{node.attr}")
    if replacement is not None:
        fix = _member_fix(script, node, replacement)
    elif attributes is not None and value is not None:
        fix = _option_fix(script, node, value, owner, attributes)
    else:
        # Where the tables have no list of methods, those written down as gone are known.
        return
    if fix is None or is_guarded(script, node):
        return
    if value is None and fix.edits:
        # It may be a tokenizer of another library, which cannot be called.
        fix = fix._replace(applicability=Applicability.UNSAFE)
    yield _finding(script, node, owner, fix)


def _member_fix(script: Script, node: ast.Attribute, replacement: Successor) -> Fix | None:
    """What takes the place of a method or an attribute; None where the class may have it."""
    if isinstance(replacement, Replace) and replacement.qualname.rpartition(".")[2] == node.attr:
        # A function of the library by that name: the class may well have taken it over.
        return None
    calls = script.method_calls(node.attr)
    call = next((one for one in calls if one.node.func is node), None)
    if node.attr == "as_target_tokenizer":
        fix = _target_mode(script, node, call)
    else:
        fix = _attribute_fix(script, node, replacement, call)
    return fix or _without(node, replacement.note)


def _option_fix(
    script: Script, node: ast.Attribute, value: Object, owner: str, attributes: Collection[str]
) -> Fix | None:
    """How to read an option that the configuration had once; None where it never had it, or the
    script itself gives it."""
    if script.api.history(owner, node.attr) is None:
        return None
    if _is_assigned(script, value, node.attr):
        return None
    option = script.api.successor(owner, node.attr)
    if isinstance(option, Rename) and option.source == "{value}" and option.parameter in attributes:
        edit = RenameAttribute(script.span(node), option.parameter)
        return Fix(f"Read `{option.parameter}`", (edit,))
    note = option.note if option is not None else ""
    answer = _asked_of_value(script, node, owner)
    return answer or _told(script, node, value) or _without(node, note)


def _without(node: ast.Attribute, note: str) -> Fix:
    return Fix(note or f"Do without `{node.attr}`", (), Applicability.DISPLAY)


def _finding(script: Script, node: ast.Attribute, owner: str, fix: Fix | None) -> Finding:
    end = script.span(node).end
    package = owner.partition(".")[0]
    return Finding(
        Span(end - len(node.attr.encode()), end),
        f"`{owner.rpartition('.')[2]}` of {package} "
        f"{script.api.target.version(package).version} has no `{node.attr}`",
        fix,
    )


def _instance_of(script: Script, kind: str) -> str:
    """The class that is asked for attributes of what ``kind`` makes."""
    name = script.api.canonical(kind)
    if name in _INSTANCES:
        return _INSTANCES[name]
    return _MODEL if name.startswith("transformers.AutoModel") else name


def _attribute_fix(
    script: Script, node: ast.Attribute, replacement: object, call: Call | None
) -> Fix | None:
    if not isinstance(replacement, Replace):
        return None
    new = replacement.qualname.rpartition(".")[2]
    if new == "__call__":
        if call is None:
            return None
        base = script.text(node.value)
        renamed = tuple(
            RenameKeyword(call.span, old, to)
            for old, to in replacement.arguments
            if to is not None and call.keyword_node(old) is not None
        )
        return Fix(
            f"Call `{base}(...)`",
            (ReplaceCallee(call.span, base), *renamed),
            fitness(replacement.safe),
        )
    edit = RenameAttribute(script.span(node), new)
    return Fix(f"Use `{new}`", (edit,), fitness(replacement.safe))


def _asked_of_value(script: Script, node: ast.Attribute, owner: str) -> Fix | None:
    """``args.group_by_length`` is ``args.train_sampling_strategy == "group_by_length"``."""
    replacement = script.api.successor(owner, node.attr, True)
    if (
        not isinstance(replacement, Build)
        or replacement.source[:1] != '"'
        or replacement.source.count('"') != 2
    ):
        return None
    source = f"{script.text(node.value)}.{replacement.parameter} == {replacement.source}"
    edit = ReplaceExpression(script.span(node), source)
    return Fix(f"Ask for `{replacement.parameter} == {replacement.source}`", (edit,))


def _told(script: Script, node: ast.Attribute, value: Object) -> Fix | None:
    """What the script itself gave the option is known without asking for it."""
    config = script.config_of(value)
    setting = config.setting(node.attr) if config is not None else None
    if setting is None or not setting.given or setting.is_overridable_default:
        return None
    if setting.value is not None and not isinstance(setting.value, bool | int | float | str):
        return None
    edit = ReplaceExpression(script.span(node), repr(setting.value))
    return Fix(f"Write its value, {setting.value!r}", (edit,))


def _target_mode(script: Script, node: ast.Attribute, call: Call | None) -> Fix | None:
    """What is tokenized ``with tokenizer.as_target_tokenizer()`` becomes a ``text_target``."""
    around = script.enclosing(node, ast.With)
    if call is None or not isinstance(around, ast.With) or len(around.items) != 1:
        return None
    if around.items[0].context_expr is not call.node or around.items[0].optional_vars is not None:
        return None
    texts = _tokenized(script, node, around)
    if not texts or "#" in script.text(around):
        return None
    first, last = script.span(around.body[0]), script.span(around.body[-1])
    written = script.source.data[first.start : last.end]
    for at in sorted((script.span(text).start - first.start for text in texts), reverse=True):
        written = written[:at] + b"text_target=" + written[at:]
    import textwrap

    source = textwrap.dedent((b" " * around.body[0].col_offset + written).decode())
    place = script.span(around)
    return Fix(
        f"Write `{script.text(node.value)}(text_target=...)`",
        (InsertStatement(place, source, "before"), RemoveStatement(place)),
    )


def _tokenized(script: Script, node: ast.Attribute, around: ast.With) -> list[ast.expr] | None:
    """The texts that are tokenized within; None where the tokenizer does anything else there."""
    name = script.text(node.value)
    texts: list[ast.expr] = []
    called: set[ast.expr] = set()
    for inner in (one for statement in around.body for one in ast.walk(statement)):
        if isinstance(inner, ast.JoinedStr) or _spans_lines(inner):
            # Lines of text are not moved.
            return None
        if isinstance(inner, ast.Call) and script.text(inner.func) == name:
            given = {keyword.arg for keyword in inner.keywords}
            match inner.args:
                case [text] if not isinstance(text, ast.Starred):
                    pass
                case _:
                    return None
            if not given.isdisjoint(("text", "text_target", "text_pair")):
                return None
            texts.append(text)
            called.add(inner.func)
        elif (
            isinstance(inner, ast.Name | ast.Attribute)
            and inner not in called
            and script.text(inner) == name
        ):
            return None
    return texts


def _spans_lines(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str | bytes)
        and node.end_lineno != node.lineno
    )
