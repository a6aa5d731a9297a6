"""What argument parsers make of a script's options: argparse, HfArgumentParser and its like, fire.

A parser remembers its arguments as bindings. What it parses is an object with the same bindings,
in which the launch command, as far as it is known, has its say.
"""

import ast
from collections.abc import Iterable

from memlint.engine.arguments import defaults_of
from memlint.engine.binding import about_receiver, set_bindings
from memlint.engine.command_line import CommandLine, kind_of_annotation, settled
from memlint.engine.command_options import given_by_look
from memlint.engine.functions import call_function, can_follow, finish, made_by
from memlint.engine.interpreter import CallEffect, Interpreter
from memlint.engine.project import is_library
from memlint.engine.values import (
    UNKNOWN,
    Binding,
    Class,
    Constant,
    Function,
    How,
    Invocation,
    Object,
    Provenance,
    Sequence,
    Symbol,
    Value,
    constant_text,
    library_base,
    merge,
    truth,
)
from memlint.script.written_settings import document_at, of_data
from memlint.source.record import NamedTuple


def _add_argument(run: Interpreter, invocation: Invocation, parser: Object) -> Value | None:
    """``parser.add_argument("--name", default=...)``: the parser remembers a binding."""
    flags = [text for text in map(constant_text, invocation.arguments) if text is not None]
    if not flags:
        return None
    explicit = invocation.keywords.get("dest")
    if explicit is not None and isinstance(explicit.value, Constant):
        name = str(explicit.value.value)
    else:
        long = [flag for flag in flags if flag.startswith("--")] or flags
        name = long[0].lstrip("-").replace("-", "_")
    # The launch command's words without an option are named by their places.
    place = sum(map(_is_word, run.bindings(parser.root).values()))
    words = flags if flags[0][:1] == "-" else [f"--{place}"]
    value = _launched(run, invocation, words) or settled(
        run.command_line, _parsed(invocation, flags)
    )
    run.set_binding(parser.root, name, Binding(value, How.ARGPARSE, invocation.node))
    return UNKNOWN


def _is_word(argument: Binding) -> bool:
    """True if a parser's argument is a word without an option: ``add_argument("model")``."""
    match argument.owner:
        case ast.Call(args=[ast.Constant(value=str(text)), *_]):
            return argument.how is How.ARGPARSE and text[:1] not in ("-", "")
    return False


def _launched(run: Interpreter, invocation: Invocation, flags: list[str]) -> Value | None:
    """What the launch command gives for an argument; None where it does not."""
    given = run.command_line
    if given is None:
        return None
    names = [flag.lstrip("-").replace("-", "_") for flag in flags if flag.startswith("-")]
    name = next((one for one in names if one in given.names), None)
    if name is None:
        return None
    if invocation.open_keywords or "nargs" in invocation.keywords:
        return UNKNOWN
    action = invocation.keywords.get("action")
    if action is not None:
        return _switched(given.value(name, "bool"), action.value)
    kind = invocation.keywords.get("type")
    if kind is None:
        return given.value(name, "str")
    known = kind.value.name if isinstance(kind.value, Symbol) else ""
    if known == "bool":
        # Every text but the empty one is true.
        return Constant(True, None, Provenance.COMMAND_LINE)
    return given.value(name, known) if known in ("int", "float", "str") else UNKNOWN


def _switched(value: Value | None, action: Value) -> Value | None:
    """What a switch is that the launch command gives."""
    switch = action.value if isinstance(action, Constant) else None
    if switch == "store_true":
        return value
    if switch == "store_false" and isinstance(value, Constant):
        return Constant(value.value is not True, None, Provenance.COMMAND_LINE)
    return UNKNOWN


def _parsed(invocation: Invocation, flags: list[str]) -> Value:
    """What an argument is where the command line does not give it."""
    required = invocation.keywords.get("required")
    if not flags[0].startswith("-") or (
        required is not None and truth(required.value) is not False
    ):
        return UNKNOWN
    default = invocation.keywords.get("default")
    if default is not None:
        value = default.value
        if isinstance(value, Constant):
            return Constant(_typed(invocation, value), value.node, Provenance.ARGPARSE)
        return value if isinstance(value, Sequence) else UNKNOWN
    action = invocation.keywords.get("action")
    kind = action.value.value if action and isinstance(action.value, Constant) else None
    if kind in ("store_true", "store_false"):
        return Constant(kind == "store_false", invocation.node, Provenance.ARGPARSE)
    if invocation.open_keywords:
        return UNKNOWN
    return Constant(None, invocation.node, Provenance.ARGPARSE)


def _typed(invocation: Invocation, default: Constant) -> object:
    """argparse passes string defaults through ``type``."""
    kind = invocation.keywords.get("type")
    if isinstance(default.value, str) and kind is not None and isinstance(kind.value, Symbol):
        convert = {"int": int, "float": float}.get(kind.value.name)
        if convert is not None:
            try:
                return convert(default.value)
            except ValueError:
                return default.value
    return default.value


def _argument_group(run: Interpreter, invocation: Invocation, parser: Object) -> Value | None:
    return run.new_object(type=parser.type, made_by=invocation, base=parser)


def _deepspeed_arguments(run: Interpreter, invocation: Invocation) -> Value | None:
    """``deepspeed.add_config_arguments(parser)``: the same parser, with DeepSpeed's options."""
    parser = invocation.first_object
    if parser is None:
        return None
    for name in ("deepspeed", "deepspeed_config"):
        default = settled(run.command_line, Constant(None, None, Provenance.ARGPARSE))
        value = _launched(run, invocation, [f"--{name}"]) or default
        run.set_binding(parser.root, name, Binding(value, How.ARGPARSE, invocation.node))
    return parser


def _set_defaults(run: Interpreter, invocation: Invocation, parser: Object) -> Value | None:
    if parser.type is None or "ArgumentParser" not in parser.type:
        return None
    for name, binding in invocation.keywords.items():
        value = binding.value
        if isinstance(value, Constant):
            value = Constant(value.value, value.node, Provenance.ARGPARSE)
        run.set_binding(parser.root, name, Binding(value, How.ARGPARSE, invocation.node))
    return Constant(None)


_PARSER_OWN = frozenset({"description", "prog", "usage", "epilog", "formatter_class", "add_help"})


def _parse_args(run: Interpreter, invocation: Invocation, parser: Object) -> Value | None:
    made = run.new_object(type="argparse.Namespace", made_by=invocation)
    for name, binding in run.bindings(parser.root).items():
        if binding.how is How.ARGPARSE and name not in _PARSER_OWN:
            run.set_binding(made, name, binding)
    if invocation.node.func.attr == "parse_known_args":  # type: ignore[attr-defined]
        return Sequence((made, UNKNOWN), "tuple")
    return made


def _dataclass_parser(run: Interpreter, invocation: Invocation) -> Value:
    """``HfArgumentParser((A, B))``: keeps the classes for ``parse_args_into_dataclasses``."""
    made = run.new_object(type="transformers.HfArgumentParser", made_by=invocation)
    given = run.argument(invocation, 0, "dataclass_types")
    run.set_binding(made, "dataclass_types", given or Binding(UNKNOWN))
    return made


def _parse_dataclasses(run: Interpreter, invocation: Invocation, parser: Object) -> Value | None:
    binding = run.get_binding(parser, "dataclass_types")
    if binding is None:
        return None
    given = binding.value
    classes = given.items if isinstance(given, Sequence) else (given,)
    if isinstance(given, Sequence) and given.open:
        return UNKNOWN
    declared = {name for cls in classes if isinstance(cls, Class) for name, _ in run.fields(cls)}
    hidden = not all(
        isinstance(cls, Class) or (isinstance(cls, Symbol) and is_library(cls.name))
        for cls in classes
    )
    wants_rest = invocation.keywords.get("return_remaining_strings")
    options = _Options(declared, hidden) if wants_rest is None else None
    made = tuple(_parsed_class(run, invocation, cls, options) for cls in classes)
    _fill(run, _written(run, invocation, parser), classes, made)
    if wants_rest is not None:
        return Sequence((*made, UNKNOWN), "tuple")
    return Sequence(made, "tuple")


_OF_A_LINE = ("parse_args_into_dataclasses", "parse_args_and_config")


def _written(run: Interpreter, invocation: Invocation, parser: Object) -> dict[str, Binding]:
    """What is parsed: a dict, or the file that the script names; else what ``set_defaults`` set."""
    method = getattr(invocation.node.func, "attr", "")
    if method in _OF_A_LINE:
        known = run.bindings(parser.root).items()
        return {name: one for name, one in known if one.how is How.ARGPARSE}
    document: Value | None = None
    if method == "parse_dict":
        document = invocation.first_object
    elif method in ("parse_json_file", "parse_yaml_file"):
        document = document_at(run, invocation)
    if not isinstance(document, Object) or document.type != "dict" or document.open:
        return {}
    if run.argument(invocation, 1, "allow_extra_keys") is None:
        return run.bindings(document)
    # What no class takes is dropped: nobody has to write it elsewhere.
    return {name: Binding(one.value) for name, one in run.bindings(document).items()}


def _fill(
    run: Interpreter, rest: dict[str, Binding], classes: Iterable[Value], made: Iterable[Value]
) -> None:
    """Give instances what is written: own classes their fields, the one library's the rest."""
    of_library = []
    for cls, one in zip(classes, made, strict=True):
        if isinstance(cls, Class) and isinstance(one, Object):
            for name, _ in run.fields(cls):
                if name in rest:
                    run.set_binding(one, name, rest.pop(name))
        if isinstance(one, Object) and not (isinstance(cls, Class) and library_base(cls) is None):
            of_library.append(one)
    for one in of_library[:1] if rest and len(of_library) == 1 else ():
        # The command line has its say beside a default.
        one.open = one.open and any(each.how is How.ARGPARSE for each in rest.values())
        set_bindings(run, one, rest)


class _Options(NamedTuple):
    """What a parser takes that stops at all else.

    declared: the fields of all classes of the script that it fills. hidden: it fills others, whose
    fields are out of sight.
    """

    declared: set[str]
    hidden: bool


def _parsed_class(
    run: Interpreter, invocation: Invocation, cls: Value, options: _Options | None
) -> Value:
    """An instance whose fields a command line or a file may set; their defaults are a default.

    options: None where the parser passes over what no class takes.
    """
    complete = (
        run.command_line is not None
        and run.command_line.complete
        and options is not None
        and not _reads_file(invocation)
    )
    if isinstance(cls, Class):
        made = run.new_object(library_base(cls), invocation, cls=cls, from_command_line=True)
        run.set_fields(cls, made, Provenance.SETTLED if complete else Provenance.PARSED_FIELD)
    elif isinstance(cls, Symbol):
        made = run.new_object(type=cls.name, made_by=invocation, from_command_line=True)
    else:
        return UNKNOWN
    made.open = not complete
    if run.command_line is not None:
        _launched_fields(run, run.command_line, made, options)
    if isinstance(cls, Class) and cls.is_dataclass and made.type is None:
        finish(run, made, invocation)
    return made


def _reads_file(invocation: Invocation) -> bool:
    """True if a file fills the classes, which the command line does not name."""
    method = getattr(invocation.node.func, "attr", "")
    if method in _OF_A_LINE:
        return False
    return not any(getattr(one, "attr", "") == "argv" for one in ast.walk(invocation.node))


def _launched_fields(
    run: Interpreter, given: CommandLine, made: Object, options: _Options | None
) -> None:
    """Give an instance what the launch command sets.

    What the script's classes declare is no option of a library's. An option that a class no longer
    has may be that of a class out of sight, or be passed over.
    """
    own = dict(run.fields(made.cls)) if made.cls is not None else {}
    for option in given.names:
        if option in own:
            kind = kind_of_annotation(own[option].annotation)
            value = given.value(option, kind)
            if value is not None:
                # No place of the name: what the script declares itself, no release renames.
                run.set_binding(made, option, Binding(value, How.FIELD))
            continue
        if options is None or option in options.declared or made.type is None:
            continue
        # ``--config`` of ``TrlParser`` is its own.
        takes = given.accepts if options.hidden or option == "config" else given.takes
        if not takes(made.type, option):
            continue
        value = given.value(option, "")
        if option in given.data and made.made_by is not None:
            value = of_data(run, given.data[option], made.made_by, "dict")
        if value is not None:
            run.set_binding(made, option, Binding(value, How.ITEM, given.node))


def _fire(run: Interpreter, invocation: Invocation) -> Value | None:
    """``fire.Fire(train)``: the parameters' defaults are what runs when no flag is given."""
    function = invocation.arguments[0] if invocation.arguments else None
    if isinstance(function, Function) and can_follow(run, function):
        call = Invocation(invocation.node, "fire", invocation.order)
        arguments = function.node.args
        defaults = defaults_of(arguments)
        for parameter in (*arguments.posonlyargs, *arguments.args):
            default = defaults.get(parameter.arg)
            known = run.values.get(default, UNKNOWN) if default is not None else UNKNOWN
            if isinstance(known, Constant):
                known = settled(
                    run.command_line, Constant(known.value, known.node, Provenance.CLICK)
                )
            given = given_by_look(run.command_line, parameter.arg, known)
            call.keywords[parameter.arg] = Binding(given)
        call_function(run, function, call)
    return UNKNOWN


_KINDS = {"string": "str", "enum": "str", "integer": "int", "float": "float"}


def _define(run: Interpreter, invocation: Invocation) -> Value:
    """``flags.DEFINE_integer("rank", 8, "...")`` of absl: ``FLAGS.rank``."""
    name, default = (*invocation.arguments, UNKNOWN, UNKNOWN)[:2]
    default = invocation.keywords.get("default", Binding(default)).value
    word, given = constant_text(name) or "", run.command_line
    kind = _KINDS.get(invocation.name.rpartition("_")[2], "bool")
    value = given.value(word, kind) if given is not None else None
    if given is not None and kind == "bool" and given.value(f"no{word}", "bool") is not None:
        value = Constant(False, None, Provenance.COMMAND_LINE)
    if value is None and isinstance(default, Constant):
        default = Constant(default.value, default.node, Provenance.ARGPARSE)
    value = settled(given, default) if value is None else value
    run.outside[f"absl.flags.FLAGS.{word}"] = value
    holder = run.new_object(made_by=invocation)
    run.set_binding(holder, "value", Binding(value, How.ARGPARSE, invocation.node))
    return holder


_DEFINERS = ("string", "integer", "float", "bool", "boolean", "enum")


def _add_class(run: Interpreter, invocation: Invocation, parser: Object) -> Value | None:
    """``parser.add_arguments(Options, dest="options")`` of simple_parsing."""
    given, name = run.argument(invocation, 0, "dataclass"), run.argument(invocation, 1, "dest")
    place = constant_text(name.value) if name is not None else None
    if given is None or place is None:
        return None
    value = _parsed_class(run, invocation, given.value, None)
    run.set_binding(parser.root, place, Binding(value, How.ARGPARSE, invocation.node))
    return UNKNOWN


def _cli(run: Interpreter, invocation: Invocation) -> Value | None:
    """``tyro.cli(Options)``: an instance of the class; a function runs, as fire runs it."""
    given = invocation.arguments[0] if invocation.arguments else None
    if not isinstance(given, Class):
        return _fire(run, invocation)
    made = _parsed_class(run, invocation, given, None)
    if (by_command := run.command_line) is not None:
        for name in by_command.names:
            _set_part(run, by_command, made, name)
    return made


def _set_part(run: Interpreter, given: CommandLine, holder: Value, name: str) -> None:
    """``--lora.rank 32``: a field of what a field holds."""
    *above, last = name.split(".")
    for part in above:
        binding = run.get_binding(holder, part) if isinstance(holder, Object) else None
        holder = binding.value if binding is not None else UNKNOWN
    cls = holder.cls if above and isinstance(holder, Object) else None
    fields = dict(run.fields(cls)) if cls is not None else {}
    if last in fields and isinstance(holder, Object):
        value = given.value(name, kind_of_annotation(fields[last].annotation))
        run.set_binding(holder, last, Binding(value or UNKNOWN, How.FIELD))


# -- what TRL's helpers make of its options --------------------------------------------------------

# The keyword that is given, and the option of ``trl.ModelConfig``.
ADAPTER = {
    "r": "lora_r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout",
    "target_modules": "lora_target_modules", "modules_to_save": "lora_modules_to_save",
    "use_rslora": "use_rslora", "use_dora": "use_dora",
}  # fmt: skip
QUANTIZATION = {
    "load_in_8bit": "load_in_8bit", "load_in_4bit": "load_in_4bit",
    "bnb_4bit_quant_type": "bnb_4bit_quant_type",
    "bnb_4bit_use_double_quant": "use_bnb_nested_quant",
}  # fmt: skip
# Where TRL's defaults are not those of the classes that are made.
DEFAULTS = {"lora_r": 16, "bnb_4bit_quant_type": "nf4"}


def _by_options(kind: str, switches: tuple[str, ...], names: dict[str, str]) -> CallEffect:
    """``get_peft_config(model_args)``: what TRL makes of its options where a switch is on, and
    None where all are off, as they are by default."""

    def effect(run: Interpreter, invocation: Invocation) -> Value | None:
        given = invocation.first_object
        if given is None or given.root.type != "trl.ModelConfig":
            return None
        bound = run.bindings(given)
        states = [_switch(bound[name].value) if name in bound else None for name in switches]
        is_off = not (given.root.open or bound.keys() & set(switches)) or set(states) == {False}
        origin = Provenance.SETTLED if is_off else Provenance.PARSED_FIELD
        nothing = Constant(None, invocation.node, origin)
        if is_off:
            return nothing
        # It takes no other options.
        invocation.name, invocation.arguments, invocation.open_keywords = kind, (), True
        defaults = {name: Binding(Constant(value)) for name, value in DEFAULTS.items()}
        bound = {**defaults, **bound}
        invocation.keywords = {name: bound[key] for name, key in names.items() if key in bound}
        made = made_by(run, invocation, kind)
        return made if True in states else merge([nothing, made])

    return effect


def _switch(value: Value) -> bool | None:
    return value.value if isinstance(value, Constant) and isinstance(value.value, bool) else None


PARSERS: dict[str, CallEffect] = {
    "trl.get_peft_config": _by_options("peft.LoraConfig", ("use_peft",), ADAPTER),
    "trl.get_quantization_config": _by_options(
        "transformers.BitsAndBytesConfig", ("load_in_4bit", "load_in_8bit"), QUANTIZATION
    ),
    "fire.Fire": _fire,
    **dict.fromkeys(("tyro.cli", "simple_parsing.parse", "jsonargparse.CLI"), _cli),
    **{f"absl.flags.DEFINE_{kind}": _define for kind in _DEFINERS},
    ".add_arguments": about_receiver(_add_class),
    ".add_argument": about_receiver(_add_argument),
    ".add_argument_group": about_receiver(_argument_group),
    ".add_mutually_exclusive_group": about_receiver(_argument_group),
    ".set_defaults": about_receiver(_set_defaults),
    "deepspeed.add_config_arguments": _deepspeed_arguments,
    ".parse_args": about_receiver(_parse_args),
    ".parse_known_args": about_receiver(_parse_args),
    ".parse_args_into_dataclasses": about_receiver(_parse_dataclasses),
    ".parse_args_and_config": about_receiver(_parse_dataclasses),
    ".parse_json_file": about_receiver(_parse_dataclasses),
    ".parse_yaml_file": about_receiver(_parse_dataclasses),
    ".parse_dict": about_receiver(_parse_dataclasses),
    "transformers.HfArgumentParser": _dataclass_parser,
    "transformers.hf_argparser.HfArgumentParser": _dataclass_parser,
    "trl.TrlParser": _dataclass_parser,
    "trl.H4ArgumentParser": _dataclass_parser,
}
