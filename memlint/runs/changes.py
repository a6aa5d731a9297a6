"""Edits that give a call a setting, made where its value lives.

A default of a command line is changed there, a key of a dict in the dict. What cannot be done
with certainty is not done: an unknown value is never overwritten. Nor is one that a comment
explains, a decision of the author's: the comment would no longer be true, or go. What a comment is
about is a guess by its place and words; it can only hold a fix back.
"""

import ast
import re
from typing import Any

from memlint.engine.nodes import called_name, holder_of
from memlint.engine.project import is_elsewhere, place_of_setting
from memlint.engine.values import How, Object, Provenance
from memlint.runs.places import Edits, place_in, place_of
from memlint.runs.references import reference_to
from memlint.script.call_settings import Setting
from memlint.script.called import Call
from memlint.script.calls import Config, Trainer
from memlint.script.model import Script
from memlint.source import Source, Span
from memlint.source.edits import Edit, InsertStatement, ReplaceExpression, SetKeyword
from memlint.source.patterns import lazy_pattern

# Methods that parse a command line, and what cannot stand behind two stars as it is.
_PARSE = ("parse_args_into_dataclasses", "parse_args_and_config")
_OPEN = lazy_pattern(r" or | and | if | for |:=")


def set_option(
    script: Script, call: Call, name: str, source: str, *, despite_comments: bool = False
) -> tuple[Edit, ...] | None:
    """Edits that give ``call`` the setting ``name=source`` where its value lives.

    None where it cannot be done with certainty: an unknown value is never overwritten, nor a value
    that a comment explains, but for ``despite_comments``: what stops the script has to go.
    """
    if is_elsewhere(call.node):
        return None
    setting = call.setting(name)
    if not despite_comments and setting.given is not False and _is_decided(script, call, setting):
        return None
    if setting.from_launch or setting.is_settled:
        return _set_default(script, setting, source)
    if setting.given is None or (isinstance(call, Config) and call.from_command_line):
        if setting.is_overridable_default:
            return _set_default(script, setting, source)
        return _set_parsed(script, call, setting, source)
    if call.subclass is not None and call.has_unknown_keywords:
        return None
    if setting.given is False:
        return _set_missing(script, call, name, source)
    if setting.is_overridable_default:
        return _set_default(script, setting, source)
    return _set_given(script, call, setting, source)


def together(*parts: tuple[Edit, ...] | None) -> tuple[Edit, ...] | None:
    """All edits of ``parts``; None where one of them cannot be made."""
    edits: tuple[Edit, ...] = ()
    for part in parts:
        if part is None:
            return None
        edits = _merged(edits, part)
    return edits


def set_item(script: Script, mapping: Object, key: str, source: str) -> tuple[Edit, ...] | None:
    """Edits that give a dict of the script ``key: source``, where it has that key.

    None where a command line or several places decide.
    """
    binding = script.final_bindings(mapping)[key]
    if getattr(binding.value, "origin", None) is not Provenance.LITERAL:
        return None
    place = place_in(script, key, binding.owner)
    if place is None or is_explained(script, key, place.value):
        return None
    return place.changed(source)


def add_item(script: Script, mapping: Object, key: str, source: str) -> tuple[Edit, ...] | None:
    """Edits that give a dict of the script an item that it does not have.

    None where something else than the call that takes it reads it, too.
    """
    node = mapping.node
    around = script.parent(node) if node is not None and not is_elsewhere(node) else None
    if isinstance(around, ast.Assign):
        match around.targets:
            case [ast.Name(id=name)] if script.is_read_once(name):
                pass
            case _:
                return None
    elif not isinstance(around, ast.keyword):
        return None
    place = place_in(script, key, node)
    return place.changed(source) if place is not None and not mapping.open else None


def add_option(call: Call, name: str, source: str) -> tuple[Edit, ...] | None:
    """Edits that write ``name=source`` into the call itself, which must not have it yet."""
    if call.has_unknown_keywords or call.subclass is not None:
        return None
    if any(name in invocation.keywords for invocation in call.invocations):
        return None
    # What ``**`` brings in is known, and this is not among it.
    return (SetKeyword(call.span, name, source, beside_unpacking=True),)


def configure(script: Script, trainer: Trainer, name: str, source: str) -> tuple[Edit, ...] | None:
    """Edits that give a trainer of TRL, which has no arguments, those that it makes itself, with
    ``name=source`` among them."""
    config, model = script.api.config_of(trainer.kind) or "", trainer.setting("model")
    if script.api.accepts(config, name) is not True:
        return None
    plain = trainer.args.given is False and trainer.subclass is None
    if not plain or trainer.has_unknown_keywords or model.is_overridable_default:
        return None
    reference = reference_to(script, config, trainer.node)
    if reference is None or not isinstance(model.value, str):
        return None
    short = trainer.kind.rpartition(".")[2].removesuffix("Trainer")
    folder = f"{model.value.rpartition('/')[2]}-{short}"
    made = f'{reference.text}("{folder}", {name}={source})'
    return (SetKeyword(trainer.span, "args", made), *reference.edits)


def _is_decided(script: Script, call: Call, setting: Setting) -> bool:
    """True if a comment explains the value, where it lives or where the call takes it."""
    keyword = call.keyword_node(setting.name)
    taken = keyword.value if keyword is not None else None
    return any(is_explained(script, setting.name, node) for node in (setting.node, taken))


def _set_default(script: Script, setting: Setting, source: str) -> Edits | None:
    node = setting.node
    if node is None or isinstance(node, ast.Call):
        return None
    return (ReplaceExpression(script.span(node), source),)


def _set_parsed(script: Script, call: Call, setting: Setting, source: str) -> Edits | None:
    """``parser.set_defaults(name=source)`` above the line that parses a library's arguments."""
    holder = holder_of(call.node) if called_name(call.node) in _PARSE else None
    parser = script.text(holder) if holder is not None else ""
    if not parser.isidentifier() or setting.given is not False or not call.has_option(setting.name):
        return None
    statement = f"{parser}.set_defaults({setting.name}={source})"
    return (InsertStatement(script.span(script.statement(call.node)), statement),)


def _set_missing(script: Script, call: Call, name: str, source: str) -> Edits | None:
    """The option beside what ``**`` brings in, which is known and has it not; below what a file may
    hold of it some day: ``**{"name": source, **config}``."""
    unpacked = [keyword.value for keyword in call.node.keywords if keyword.arg is None]
    if not unpacked or not any(one.from_launch for one in call.settings()):
        return (SetKeyword(call.span, name, source, beside_unpacking=True),)
    text = script.text(unpacked[0])
    if len(unpacked) > 1 or _OPEN.search(text):
        return None
    rest = text[1:] if text.startswith("{") else f"**{text}}}"
    return (ReplaceExpression(script.span(unpacked[0]), f'{{"{name}": {source}, {rest}'),)


def _merged(edits: Edits, part: Edits) -> Edits:
    """Both; two options above one mapping in one edit."""
    match (*edits[-1:], *part):
        case (ReplaceExpression() as one, ReplaceExpression() as other) if one.span == other.span:
            mapping: Any = ast.parse(one.source, mode="eval").body
            first = one.source[: mapping.values[0].end_col_offset]
            return (*edits[:-1], other._replace(source=f"{first}, {other.source[1:]}"))
    return edits + part


def _set_given(script: Script, call: Call, setting: Setting, source: str) -> Edits | None:
    if setting.owner is None or is_elsewhere(getattr(setting.raw, "node", None)):
        # What lives in another file is not overwritten here.
        return None
    if setting.how is How.POSITIONAL:
        return _set_positional(script, call, setting, source)
    if setting.how is How.KEYWORD and setting.owner is call.node:
        return _set_own_keyword(script, call, setting, source)
    place = place_of(script, setting)
    return place.changed(source) if place is not None else None


def _set_positional(script: Script, call: Call, setting: Setting, source: str) -> Edits | None:
    if setting.node is None or not call.span.contains(script.span(setting.node)):
        return None
    return (ReplaceExpression(script.span(setting.node), source),)


def _set_own_keyword(script: Script, call: Call, setting: Setting, source: str) -> Edits | None:
    """The call's own keyword, or the constant whose name it gives and nothing else reads."""
    keyword = call.keyword_node(setting.name)
    if keyword is None:
        return None
    constant = setting.node
    if isinstance(keyword.value, ast.Name) and _sole_use(script, keyword.value, constant):
        assert constant is not None
        return (ReplaceExpression(script.span(constant), source),)
    if script.takes_parameter(keyword.value):
        return None
    return (SetKeyword(call.span, setting.name, source),)


def _sole_use(script: Script, name: ast.Name, node: ast.expr | None) -> bool:
    """True if a constant's name is read at this one place only, and bound once."""
    return (
        node is not None
        and script.is_read_once(name.id)
        and isinstance(script.parent(node), ast.Assign)
    )


# What follows on a line up to its comment: strings may hold the sign as well.
_COMMENT = re.compile(r"""(?:[^#'"\n\\]|\\.|'(?:[^'\n\\]|\\.)*'|"(?:[^"\n\\]|\\.)*")*#([^\n]*)""")
# Comments for tools, which explain nothing.
_FOR_TOOLS = re.compile(
    r"\s*(?:noqa|type:|fmt:|isort:|pylint|pyright|mypy|ruff|memlint|pragma|nosec|@param|expect:)"
)
_WORD = re.compile(r"[a-z]+[0-9]*|[0-9]+")
# Words that say nothing of one option.
_COMMON = frozenset({"torch", "true", "false", "none", "model", "args", "config", "the", "for"})
_PRECISION = frozenset(
    {"dtype", "float32", "fp32", "float16", "fp16", "bfloat16", "bf16", "half", "precision"}
)


def is_explained(script: Script, option: str, node: ast.AST | None) -> bool:
    """True if a comment says why ``option`` has the value that is written at ``node``."""
    if node is None or is_elsewhere(node) or place_of_setting(node) is not None:
        return False
    source, span = script.source, script.span(node)
    statement = script.span(script.statement(node))
    alone = source.line(span.start) > source.line(statement.start)
    if _behind(source, span) or (alone and _above(source, span)):
        return True
    around = f"{_behind(source, statement)} {_above(source, statement)}"
    return _is_about(around, f"{option} {script.text(node)}")


def is_explained_key(source: Source, key: Span, value: Span) -> bool:
    """True if a comment says why a key of a document has its value: behind it, or above it."""
    written, behind = source.slice(value).lower(), _behind(source, value)
    # ``compile: false  # true is faster`` says what the option does.
    other = {"true": "false", "false": "true"}.get(written)
    if behind and other not in _WORD.findall(behind.lower()):
        return True
    return _is_about(_above(source, key), f"{source.slice(key)} {written}")


def _is_about(comment: str, said: str) -> bool:
    """True if a comment shares a word with what is said, or both are about precision."""
    words = _words(said)
    if words & _PRECISION:
        words |= _PRECISION
    return bool(words & _words(comment))


def _words(text: str) -> frozenset[str]:
    found = _WORD.findall(text.lower())
    return frozenset(word for word in found if len(word) > 1) - _COMMON


def _behind(source: Source, span: Span) -> str:
    """The comment at the end of the line on which a span ends."""
    end = span.end
    stop = source.data.find(b"\n", end)
    rest = source.data[end : stop if stop >= 0 else len(source.data)]
    match = _COMMENT.match(rest.decode("utf-8", "replace"))
    return _prose(match[1]) if match is not None else ""


def _above(source: Source, span: Span) -> str:
    """The comment on the lines right above the one on which a span begins."""
    found: list[str] = []
    line = source.line(span.start) - 1
    while line >= 0 and (text := source.line_text(line).lstrip()).startswith("#"):
        found.append(_prose(text[1:]))
        line -= 1
    return " ".join(found)


def _prose(comment: str) -> str:
    return "" if _FOR_TOOLS.match(comment) or not re.search(r"\w", comment) else comment
