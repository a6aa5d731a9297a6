"""An option, class, function, attribute or value that the target version does not have.

Libraries rename and move: a script of last year raises TypeError or ImportError on today's trl and
transformers, often only after the model has been loaded. The tables say what each release has; what
took a thing's place is written down with its source in ``memlint.api``.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

from memlint.rule import (
    AddParameter,
    Advice,
    Applicability,
    Build,
    Call,
    Config,
    Edit,
    Example,
    Finding,
    Fix,
    History,
    Inline,
    InsertStatement,
    Level,
    Object,
    Remove,
    RemoveImport,
    RemoveKeyword,
    RemoveStatement,
    Rename,
    RenameAttribute,
    RenameImport,
    RenameKeyword,
    Replace,
    ReplaceCallee,
    ReplaceExpression,
    Rule,
    Script,
    SetKeyword,
    Setting,
    Span,
    Symbol,
)
from memlint_rules._libraries import LIBRARIES, PACKAGES
from memlint_rules._succession import (
    is_guarded,
    names_looked_up,
    option_fix,
    option_span,
    successor_of,
    written,
)

_TOKENIZER = "transformers.PreTrainedTokenizerBase"
# What makes instances of a class that has another name.
_INSTANCES = {
    "transformers.AutoTokenizer": _TOKENIZER,
    "transformers.PreTrainedTokenizer": _TOKENIZER,
    "transformers.PreTrainedTokenizerFast": _TOKENIZER,
}


def check(script: Script) -> Iterator[Finding]:
    yield from _imports(script)
    looked_up = names_looked_up(script)
    for call in (*script.configs, *script.trainers, *_other_calls(script)):
        yield from _options(script, call, looked_up)
    yield from _attributes(script)
    yield from _overrides(script)


def _other_calls(script: Script) -> Iterator[Call]:
    known = {one.node for one in (*script.configs, *script.trainers)}
    for call in script.calls:
        if call.node not in known and call.name.partition(".")[0] in PACKAGES:
            yield call


# -- options ---------------------------------------------------------------------------------------


def _options(script: Script, call: Call, looked_up: frozenset[str]) -> Iterator[Finding]:
    if call.subclass is not None and call.open_ended:
        return
    if script.uses_unsloth and call.name.startswith("trl."):
        # Its shim takes the old keywords of TRL's trainers.
        return
    for found in call.settings():
        setting = written(call, found)
        if setting.given is False or setting.name in looked_up or setting.owner is None:
            continue
        if isinstance(call, Config) and call.declares(setting.name):
            # A field of the script's own class, whatever its base has.
            continue
        if is_guarded(script, call.node):
            return
        if script.api.accepts(call.name, setting.name) is False:
            yield from _removed_option(script, call, setting)
        elif setting.known and not setting.by_default:
            yield from _removed_value(script, call, setting)


def _removed_option(script: Script, call: Call, setting: Setting) -> Iterator[Finding]:
    way = successor_of(script, call, setting)
    history = script.api.history(call.name, setting.name)
    signature = script.api.signature(call.name)
    open_ended = signature is not None and signature.accepts_any
    if way is None and (history is None or open_ended or call.name in _TAKE_ANY):
        # Never an option of this class: a misspelling, or something that we do not know. Or what
        # it no longer names is taken all the same, among ``**kwargs``.
        return
    owner = call.name.removesuffix(".from_pretrained").rpartition(".")[2]
    span = option_span(script, call, setting)
    message = (
        f"`{owner}` of {_target(script, call)} does not take `{setting.name}`"
        f"{_since(script, history)}"
    )
    fix = option_fix(script, call, setting, way)
    yield Finding(span, message, fix or _without(f"`{setting.name}`", history))


# Their fields are a dataclass's; whatever else they are given becomes an attribute.
_TAKE_ANY = frozenset({"transformers.PretrainedConfig", "transformers.PreTrainedConfig"})


def _without(what: str, history: History | None) -> Fix:
    """Advice where nothing is known to take a thing's place."""
    stay = f", or stay below {history.package} {history.until}" if history and history.until else ""
    return Fix(f"Do without {what}{stay}", (), Applicability.DISPLAY)


def _removed_value(script: Script, call: Call, setting: Setting) -> Iterator[Finding]:
    """An option that is still there, with a value that is not."""
    if not isinstance(setting.value, str) or script.api.warns(
        call.name, setting.name, setting.value
    ):
        return
    way = script.api.successor(call.name, setting.name, setting.value)
    if way is None or way == script.api.successor(call.name, setting.name):
        return
    replaced = isinstance(way, Build) and way.parameter == setting.name
    if not (replaced or isinstance(way, Advice)):
        return
    yield Finding(
        option_span(script, call, setting),
        f"`{setting.name}` of {_target(script, call)} does not take {setting.value!r}",
        option_fix(script, call, setting, way),
    )


def _target(script: Script, call: Call) -> str:
    package = call.name.partition(".")[0]
    return f"{package} {script.api.target.version(package).version}"


def _since(script: Script, history: History | None) -> str:
    """Since when it is gone; nothing where the target is older than what it lacks."""
    if history is None or not history.is_over(script.api.target.version(history.package).version):
        return ""
    return f" (gone since {history.package} {history.until})"


# -- names -----------------------------------------------------------------------------------------


def _imports(script: Script) -> Iterator[Finding]:
    for statement, alias, qualname in script.imports:
        package = qualname.partition(".")[0]
        if package not in PACKAGES or alias.name == "*" or is_guarded(script, statement):
            continue
        if script.api.exists(qualname) is not False:
            continue
        way = script.api.successor(qualname)
        if way is None and script.api.history(qualname) is None:
            continue
        version = script.api.target.version(package).version
        yield Finding(
            script.span(alias),
            f"{package} {version} has no `{qualname}`{_since(script, script.api.history(qualname))}",
            _unused(script, statement, alias, qualname)
            or _import_fix(script, statement, alias, qualname, way)
            or _without(f"`{alias.name}`", script.api.history(qualname)),
        )


def _unused(
    script: Script, statement: ast.Import | ast.ImportFrom, alias: ast.alias, qualname: str
) -> Fix | None:
    """What is imported and never used can go: with it the import fails, without it nothing is lost."""
    if not isinstance(statement, ast.ImportFrom) or statement.module is None:
        return None
    if script.source.path.endswith("__init__.py") or _uses(script, alias, qualname) != []:
        return None
    bound = alias.asname or alias.name
    if any(node.value == bound for node in script.nodes(ast.Constant)):
        # An annotation in quotes, or a lookup by name.
        return None
    edit = RemoveImport(statement.module, alias.name)
    return Fix(f"Remove the import of `{alias.name}`: nothing uses it", (edit,))


def _import_fix(
    script: Script,
    statement: ast.Import | ast.ImportFrom,
    alias: ast.alias,
    qualname: str,
    way: object,
) -> Fix | None:
    match way:
        case Replace(qualname=new, arguments=(), written=()) if isinstance(
            statement, ast.ImportFrom
        ):
            module, _, name = new.rpartition(".")
            edit = RenameImport(
                script.span(statement), statement.module or "", alias.name, module, name
            )
            return Fix(f"Import `{name}` from `{module}`", (edit,), _applicability(way.safe))
        case Replace(qualname=new) if isinstance(statement, ast.ImportFrom):
            edits = _replaced_calls(script, statement, alias, qualname, way)
            fitness = _applicability(way.safe) if edits else Applicability.DISPLAY
            return Fix(f"Use `{new}`", edits or (), fitness)
        case Replace(qualname=new):
            return Fix(f"Use `{new}`", (), Applicability.DISPLAY)
        case Remove(note=note):
            edits = _removed_calls(script, statement, alias, qualname)
            fitness = _applicability(way.safe) if edits else Applicability.DISPLAY
            return Fix(f"Remove `{alias.name}`: {note}", edits or (), fitness)
        case Inline(source=source):
            return _inline(script, alias, qualname, source, way.imports, way.safe)
        case Advice(note=note):
            return Fix(note[:1].upper() + note[1:], (), Applicability.DISPLAY)
    return None


def _applicability(safe: bool) -> Applicability:
    return Applicability.SAFE if safe else Applicability.UNSAFE


def _uses(script: Script, alias: ast.alias, qualname: str) -> list[Call] | None:
    """The calls of what ``alias`` binds, None where it is used otherwise than by being called."""
    bound = alias.asname or alias.name
    if any(isinstance(node, ast.Constant) and node.value == bound for node in _exported(script)):
        return None
    name = script.api.canonical(qualname)
    calls = {call.node.func: call for call in script.calls if call.name == name}
    found = []
    for node in script.nodes(ast.Name):
        if node.id == bound:
            if node not in calls:
                return None
            found.append(calls[node])
    return found


def _exported(script: Script) -> Iterator[ast.expr]:
    for statement in script.nodes(ast.Assign):
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() | ast.Tuple()):
                yield from statement.value.elts  # type: ignore[attr-defined]


def _replaced_calls(
    script: Script, statement: ast.ImportFrom, alias: ast.alias, qualname: str, way: Replace
) -> tuple[Edit, ...] | None:
    """Every call of a function or class becomes one of what took its place, as it worked before."""
    calls = _uses(script, alias, qualname)
    if calls is None or statement.module is None:
        return None
    module, _, name = way.qualname.rpartition(".")
    edits: list[Edit] = [
        RenameImport(script.span(statement), statement.module, alias.name, module, name)
    ]
    for call in calls:
        if call.open_ended or call.subclass is not None:
            return None
        for old, new in way.arguments:
            if call.keyword_node(old) is not None:
                edits.append(
                    RemoveKeyword(call.span, old)
                    if new is None
                    else RenameKeyword(call.span, old, new)
                )
        positions = script.api.signature(way.qualname)
        given = positions.positional[: len(call.node.args)] if positions is not None else ()
        if any(isinstance(one, ast.Starred) for one in call.node.args):
            return None
        for name, source in way.written:
            if call.keyword_node(name) is None and name not in given:
                edits.append(SetKeyword(call.span, name, source))
    return tuple(edits)


def _removed_calls(
    script: Script, statement: ast.Import | ast.ImportFrom, alias: ast.alias, qualname: str
) -> tuple[Edit, ...] | None:
    """Every statement that is nothing but a call of the function goes, and its import."""
    calls = _uses(script, alias, qualname)
    if calls is None or not isinstance(statement, ast.ImportFrom) or statement.module is None:
        return None
    holders = [script.parent(call.node) for call in calls]
    if not all(isinstance(holder, ast.Expr) for holder in holders):
        return None
    gone = (RemoveStatement(script.span(holder)) for holder in holders if holder is not None)
    return (*gone, RemoveImport(statement.module, alias.name, unless_used=bool(calls)))


def _inline(
    script: Script,
    alias: ast.alias,
    qualname: str,
    source: str,
    imports: tuple[str, ...],
    safe: bool,
) -> Fix | None:
    """Every call of the function becomes the expression that it was."""
    calls = [call for call in script.calls if call.name == script.api.canonical(qualname)]
    edits: list[Edit] = []
    for call in calls:
        text = source
        for name in imports:
            reference = script.reference(name, call.node)
            if reference is None:
                return None
            text = text.replace(name.rpartition(".")[2], reference.text)
            edits += reference.edits
        edits.append(ReplaceExpression(call.span, text))
    if not calls:
        return None
    module = qualname.rpartition(".")[0]
    edits.append(RemoveImport(module, alias.name))
    return Fix(f"Write `{source}` instead", tuple(dict.fromkeys(edits)), _applicability(safe))


# -- attributes and methods ------------------------------------------------------------------------


def _attributes(script: Script) -> Iterator[Finding]:
    called = {call.node.func: call for call in script.calls}
    for node in script.nodes(ast.Attribute):
        if not isinstance(node.ctx, ast.Load):
            continue
        value = script.value(node.value)
        if isinstance(value, Object) and value.type is not None:
            if value.cls is None:
                yield from _attribute(script, node, value.type, called.get(node))
        elif isinstance(value, Symbol) and value.name.partition(".")[0] in PACKAGES:
            yield from _module_attribute(script, node, value)


def _attribute(
    script: Script, node: ast.Attribute, kind: str, call: Call | None
) -> Iterator[Finding]:
    owner = _INSTANCES.get(script.api.canonical(kind), script.api.canonical(kind))
    if owner.partition(".")[0] not in PACKAGES or is_guarded(script, node):
        return
    attributes = script.api.attributes(owner)
    qualname = f"{owner}.{node.attr}"
    way = script.api.successor(qualname)
    if node.attr in (attributes or ()) or (attributes is None and way is None):
        # Where the tables have no list of methods, those written down as gone are known.
        return
    if isinstance(way, Replace) and way.qualname.rpartition(".")[2] == node.attr:
        # A function of the library by that name: the class may well have taken it over.
        return
    if way is None:
        option = script.api.successor(owner, node.attr)
        history = script.api.history(owner, node.attr)
        if history is None or not script.api.is_a(owner, "transformers.TrainingArguments"):
            return
        note = getattr(option, "note", "")
        new = getattr(option, "parameter", None)
        fix = Fix(note or f"Do without `{node.attr}`", (), Applicability.DISPLAY)
        if isinstance(option, Rename) and option.source == "{value}" and new in (attributes or ()):
            edit = RenameAttribute(script.span(node), option.parameter)
            fix = Fix(f"Read `{new}`", (edit,))
        else:
            fix = _asked_of_value(script, node, owner) or fix
    else:
        fix = (
            _target_mode(script, node, call)
            if node.attr == "as_target_tokenizer"
            else _attribute_fix(script, node, way, call)
        ) or Fix(way.note or f"Do without `{node.attr}`", (), Applicability.DISPLAY)
    end = script.span(node).end
    yield Finding(
        Span(end - len(node.attr.encode()), end),
        f"`{owner.rpartition('.')[2]}` of {owner.partition('.')[0]} "
        f"{script.api.target.version(owner.partition('.')[0]).version} has no `{node.attr}`",
        fix,
    )


def _attribute_fix(
    script: Script, node: ast.Attribute, way: object, call: Call | None
) -> Fix | None:
    if not isinstance(way, Replace):
        return None
    new = way.qualname.rpartition(".")[2]
    if new == "__call__":
        if call is None:
            return None
        base = script.text(node.value)
        renamed = tuple(
            RenameKeyword(call.span, old, to)
            for old, to in way.arguments
            if to is not None and call.keyword_node(old) is not None
        )
        return Fix(
            f"Call `{base}(...)`",
            (ReplaceCallee(call.span, base), *renamed),
            _applicability(way.safe),
        )
    edit = RenameAttribute(script.span(node), new)
    return Fix(f"Use `{new}`", (edit,), _applicability(way.safe))


def _asked_of_value(script: Script, node: ast.Attribute, owner: str) -> Fix | None:
    """``args.group_by_length`` is ``args.train_sampling_strategy == "group_by_length"``."""
    way = script.api.successor(owner, node.attr, True)
    if not isinstance(way, Build) or way.source[:1] != '"' or way.source.count('"') != 2:
        return None
    source = f"{script.text(node.value)}.{way.parameter} == {way.source}"
    edit = ReplaceExpression(script.span(node), source)
    return Fix(f"Ask for `{way.parameter} == {way.source}`", (edit,))


def _target_mode(script: Script, node: ast.Attribute, call: Call | None) -> Fix | None:
    """``with tokenizer.as_target_tokenizer(): y = tokenizer(x)`` is ``y = tokenizer(text_target=x)``."""
    around = script.enclosing(node, ast.With)
    if call is None or not isinstance(around, ast.With) or len(around.items) != 1:
        return None
    if around.items[0].context_expr is not call.node or around.items[0].optional_vars is not None:
        return None
    match around.body:
        case [ast.Assign(value=ast.Call(func=func, args=[text]) as inner) as body]:
            pass
        case _:
            return None
    same = script.text(func) == script.text(node.value)
    target = any(keyword.arg in (None, "text_target", "text_pair") for keyword in inner.keywords)
    if not same or target or isinstance(text, ast.Starred) or "#" in script.text(around):
        return None
    span, at = script.span(body), script.span(text).start
    written = script.source.data[span.start : span.end]
    cut = at - span.start
    line = b" " * body.col_offset + written[:cut] + b"text_target=" + written[cut:]
    source = textwrap.dedent(line.decode())
    place = script.span(around)
    return Fix(
        f"Write `{script.text(func)}(text_target=...)`",
        (InsertStatement(place, source, "before"), RemoveStatement(place)),
    )


def _module_attribute(script: Script, node: ast.Attribute, value: Symbol) -> Iterator[Finding]:
    """``trl.PPOTrainer`` by its module."""
    qualname = f"{value.name}.{node.attr}"
    if script.api.exists(qualname) is not False or is_guarded(script, node):
        return
    if script.api.exists(value.name) is False:
        return
    way = script.api.successor(qualname)
    history = script.api.history(qualname)
    if way is None and history is None:
        return
    package = qualname.partition(".")[0]
    fix = None
    match way:
        case Replace(qualname=new, arguments=(), written=()):
            reference = script.reference(new, node)
            if reference is not None:
                edits = (ReplaceExpression(script.span(node), reference.text), *reference.edits)
                fix = Fix(f"Use `{new}`", edits, _applicability(way.safe))
        case Advice(note=note):
            fix = Fix(note[:1].upper() + note[1:], (), Applicability.DISPLAY)
        case _:
            fix = _without(f"`{node.attr}`", history)
    yield Finding(
        script.span(node),
        f"{package} {script.api.target.version(package).version} has no `{qualname}`"
        f"{_since(script, history)}",
        fix,
    )


# -- overrides -------------------------------------------------------------------------------------


# Methods of Trainer that scripts override, and what the Trainer gives them since.
_GIVEN = {
    "compute_loss": "num_items_in_batch",
    "training_step": "num_items_in_batch",
    "log": "start_time",
}


def _overrides(script: Script) -> Iterator[Finding]:
    """A ``compute_loss`` that cannot be called as the target's Trainer calls it."""
    given = {
        method: parameter
        for method, parameter in _GIVEN.items()
        if (signature := script.api.signature(f"transformers.Trainer.{method}")) is not None
        and parameter in signature.parameters
    }
    for definition in script.nodes(ast.ClassDef) if given else ():
        names = [script.name(base) for base in definition.bases]
        library = [name for name in names if name and script.api.is_a(name, "transformers.Trainer")]
        if not library:
            continue
        for method in definition.body:
            if not isinstance(method, ast.FunctionDef) or method.name not in given:
                continue
            parameter, arguments = given[method.name], method.args
            taken = {one.arg for one in (*arguments.args, *arguments.kwonlyargs)}
            if parameter in taken or arguments.kwarg is not None:
                continue
            if arguments.vararg is not None and method.name != "compute_loss":
                # The Trainer gives it by position.
                continue
            start = script.span(method).start
            yield Finding(
                Span(start, start + len(f"def {method.name}".encode())),
                f"`{method.name}` is called with `{parameter}`, which it does not take",
                _override_fix(script, definition, method, parameter, library[0]),
            )


def _override_fix(
    script: Script,
    definition: ast.ClassDef,
    method: ast.FunctionDef,
    parameter: str,
    library: str,
) -> Fix:
    """The parameter, and where a loss is computed: that it is a mean still to be divided.

    A Trainer whose model takes ``num_items_in_batch`` believes that ``compute_loss`` has divided by
    it. A method that never saw the number has not: without a word of ours the gradients would be
    ``gradient_accumulation_steps`` times too large.
    """
    edits: tuple[Edit, ...] = (AddParameter(script.span(method), parameter, "None"),)
    message = f"Add the parameter `{parameter}=None`"
    if method.name != "compute_loss":
        return Fix(message, edits)
    if any(_assigns(statement, _SCALED) for statement in definition.body):
        return Fix(message, edits)
    attributes = script.api.attributes("transformers.Trainer")
    if attributes is None or _SCALED not in attributes or not library.startswith("transformers."):
        # Which loss the target divides cannot be told it from here.
        return Fix(message, edits, Applicability.UNSAFE)
    line = InsertStatement(script.span(method), f"{_SCALED} = False\n", "before")
    return Fix(f"{message}, and say that the loss is a mean of its batch", (line, *edits))


_SCALED = "loss_is_scaled_for_ga"


def _assigns(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == name for target in statement.targets
    )


RULE = Rule(
    code="MEM901",
    name="removed-option",
    level=Level.ERROR,
    summary="an option, name, attribute or value that the target version does not have",
    why=(
        "It raises TypeError or ImportError, often after the model has been loaded. Keywords count "
        "even when they are False; trainer keywords moved to the configuration, classes to "
        "`trl.experimental`, quantization flags to `BitsAndBytesConfig`."
    ),
    fix_safety=(
        "Safe where the successor means the same; unsafe where a limit or an option is lost; advice "
        "where nothing took its place or the value cannot be read where it has to go."
    ),
    check=check,
    triggers=(LIBRARIES,),
    references=(
        "https://github.com/huggingface/trl/releases",
        "https://github.com/huggingface/transformers/blob/main/MIGRATION_GUIDE_V5.md",
    ),
    examples=(
        Example(
            title="renamed",
            findings=2,
            bad="""\
from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", evaluation_strategy="epoch")  # every epoch
trainer = Trainer(model=model, args=args, tokenizer=tokenizer)
""",
            good="""\
from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", eval_strategy="epoch")  # every epoch
trainer = Trainer(model=model, args=args, processing_class=tokenizer)
""",
        ),
        Example(
            title="moved to the configuration",
            findings=3,
            bad="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out")
trainer = SFTTrainer(
    model,
    args=args,
    max_seq_length=2048,
    packing=True,
    dataset_text_field="text",
)
""",
            good="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", dataset_text_field="text", max_length=2048, packing=True)
trainer = SFTTrainer(
    model,
    args=args,
)
""",
        ),
        Example(
            title="no configuration yet",
            bad="""\
from trl import SFTTrainer

trainer = SFTTrainer(model, train_dataset=dataset, packing=True)
""",
            good="""\
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(model, train_dataset=dataset, args=SFTConfig(packing=True))
""",
        ),
        Example(
            title="plain arguments from the command line",
            findings=2,
            bad="""\
from transformers import HfArgumentParser, TrainingArguments
from trl import SFTTrainer

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
trainer = SFTTrainer(model, args=args, max_seq_length=2048, packing=True)
""",
            good="""\
from transformers import HfArgumentParser, TrainingArguments
from trl import SFTConfig, SFTTrainer

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
trainer = SFTTrainer(model, args=SFTConfig(**{**args.to_dict(), "hub_token": args.hub_token}, max_length=2048, packing=True))
""",
        ),
        Example(
            title="quantization flags",
            bad="""\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", load_in_4bit=True, device_map="auto")
""",
            good="""\
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto", quantization_config=BitsAndBytesConfig(load_in_4bit=True))
""",
        ),
        Example(
            title="flags that may both be off",
            findings=2,
            bad="""\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", load_in_4bit=four, load_in_8bit=eight)
""",
            good="""\
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=BitsAndBytesConfig(load_in_4bit=four, load_in_8bit=eight) if four or eight else None)
""",
        ),
        Example(
            title="a flag that the command line may set",
            bad="""\
import argparse
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--four", default=False)
options = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", load_in_4bit=options.four)
""",
            good="""\
import argparse
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

parser = argparse.ArgumentParser()
parser.add_argument("--four", default=False)
options = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=BitsAndBytesConfig(load_in_4bit=options.four) if options.four else None)
""",
        ),
        Example(
            title="a limit that the runtime keeps",
            bad="""\
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", max_prompt_length=512)
trainer = GRPOTrainer("Qwen/Qwen3-0.6B", reward_funcs=reward, args=args, train_dataset=dataset)
""",
        ),
        Example(
            title="a limit that the runtime keeps, with the tokenizer that the trainer loads",
            bad="""\
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", max_prompt_length=512)
trainer = GRPOTrainer(model="Qwen/Qwen3-0.6B", reward_funcs=reward, args=args, train_dataset=dataset)
""",
            good="""\
from trl import GRPOConfig, GRPOTrainer
from memlint_runtime import truncate_text
from transformers import AutoTokenizer

args = GRPOConfig("out")
trainer = GRPOTrainer(model="Qwen/Qwen3-0.6B", reward_funcs=reward, args=args, train_dataset=dataset.map(truncate_text, fn_kwargs={"tokenizer": AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"), "max_length": 512}))
""",
        ),
        Example(
            title="a class with other defaults",
            bad="""\
from transformers import AdamW

optimizer = AdamW(model.parameters(), lr=1e-4, correct_bias=True)
""",
            good="""\
from torch.optim import AdamW

optimizer = AdamW(model.parameters(), lr=1e-4, eps=1e-6, weight_decay=0.0)
""",
        ),
        Example(
            title="methods of tokenizers",
            findings=2,
            bad="""\
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
one = tokenizer.encode_plus(text, return_tensors="pt")
many = tokenizer.batch_encode_plus(batch_text_or_text_pairs=texts, padding=True)
""",
            good="""\
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
one = tokenizer(text, return_tensors="pt")
many = tokenizer(text=texts, padding=True)
""",
        ),
        Example(
            title="known only when the trainer is made",
            bad="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out")
limit = longest(dataset)
trainer = SFTTrainer(model, args=args, train_dataset=dataset, max_seq_length=limit)
""",
            good="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out")
limit = longest(dataset)
args.max_length = limit
trainer = SFTTrainer(model, args=args, train_dataset=dataset)
""",
        ),
        Example(
            title="options that are read",
            findings=3,
            bad="""\
from transformers import TrainingArguments

args = TrainingArguments("out", evaluation_strategy="no")
if args.group_by_length and not args.no_cuda:
    print("sorted")
""",
            good="""\
from transformers import TrainingArguments

args = TrainingArguments("out", eval_strategy="no")
if args.train_sampling_strategy == "group_by_length" and not args.use_cpu:
    print("sorted")
""",
        ),
        Example(
            title="targets",
            bad="""\
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("t5-small")

def tokenized(rows):
    inputs = tokenizer(rows["text"], truncation=True)
    with tokenizer.as_target_tokenizer():
        labels = tokenizer(
            rows["summary"],
            max_length=64,
            truncation=True,
        )
    inputs["labels"] = labels["input_ids"]
    return inputs
""",
            good="""\
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("t5-small")

def tokenized(rows):
    inputs = tokenizer(rows["text"], truncation=True)
    labels = tokenizer(
        text_target=rows["summary"],
        max_length=64,
        truncation=True,
    )
    inputs["labels"] = labels["input_ids"]
    return inputs
""",
        ),
        Example(
            title="a folder that may be None",
            bad="""\
import os
from transformers import TrainingArguments

args = TrainingArguments("out", logging_dir=options.logs)
""",
            good="""\
import os
from transformers import TrainingArguments

if options.logs is not None:
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(options.logs)
args = TrainingArguments("out")
""",
        ),
        Example(
            title="a program that reports its errors",
            bad="""\
from transformers import TrainingArguments

try:
    print("starting")
    print("reading options")
    print("making arguments")
    args = TrainingArguments("out", evaluation_strategy="no")
except Exception as error:
    print(error)
""",
            good="""\
from transformers import TrainingArguments

try:
    print("starting")
    print("reading options")
    print("making arguments")
    args = TrainingArguments("out", eval_strategy="no")
except Exception as error:
    print(error)
""",
        ),
        Example(
            title="imported and never used",
            bad="""\
from trl import SFTConfig, setup_chat_format

args = SFTConfig("out")
""",
            good="""\
from trl import SFTConfig

args = SFTConfig("out")
""",
        ),
        Example(
            title="an override that gets more than it takes",
            bad="""\
from transformers import Trainer

class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        outputs = model(**inputs)
        return (outputs.loss, outputs) if return_outputs else outputs.loss
""",
            good="""\
from transformers import Trainer

class Weighted(Trainer):
    loss_is_scaled_for_ga = False
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        return (outputs.loss, outputs) if return_outputs else outputs.loss
""",
        ),
        Example(
            title="for an older version",
            target="trl=0.15,transformers=4.48",
            bad="""\
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(model, args=SFTConfig("out"), max_seq_length=2048)
""",
            good="""\
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(model, args=SFTConfig("out", max_seq_length=2048))
""",
        ),
        Example(
            title="a flag that a command line may turn on",
            bad="""\
import argparse
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--load_8bit", action="store_true", default=False)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", load_in_8bit=args.load_8bit)
""",
            good="""\
import argparse
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

parser = argparse.ArgumentParser()
parser.add_argument("--load_8bit", action="store_true", default=False)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=BitsAndBytesConfig(load_in_8bit=args.load_8bit) if args.load_8bit else None)
""",
        ),
    ),
    clean=(
        # Fields of the script's own class, with names that its base once had.
        """\
import trl
from transformers import HfArgumentParser


class Config(trl.DPOConfig):
    max_prompt_length: int = 512


class More(Config):
    beta: float = 0.2


(args,) = HfArgumentParser((Config,)).parse_args_into_dataclasses()
more = More(output_dir="out", max_prompt_length=128)
""",
        # The script minds the version itself.
        """\
try:
    from trl import setup_chat_format
except ImportError:
    setup_chat_format = None
""",
        """\
import inspect
from transformers import TrainingArguments

name = "evaluation_strategy"
if name not in inspect.signature(TrainingArguments).parameters:
    name = "eval_strategy"
args = TrainingArguments("out", **{name: "epoch"})
""",
        # Taken, among ``**kwargs``, though no signature names it.
        """\
from transformers import PretrainedConfig

config = PretrainedConfig(num_labels=3)
""",
        # A few lines that try the new name first.
        """\
from transformers import TrainingArguments

try:
    args = TrainingArguments("out", eval_strategy="no")
except TypeError:
    args = TrainingArguments("out", evaluation_strategy="no")
""",
        # A class of the same name from elsewhere, and a dataclass of the script's own.
        """\
from dataclasses import dataclass
from setfit import Trainer

@dataclass
class Options:
    warmup_ratio: float = 0.1

trainer = Trainer(model=model, tokenizer=tokenizer, evaluation_strategy="no")
options = Options(warmup_ratio=0.2)
""",
    ),
)
