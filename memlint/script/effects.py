"""What known callables do to the values that the interpreter follows.

Only what carries settings or models from one place of a script to another: containers, attribute
helpers, argument parsers, wrappers around models. A handler returns the call's value, or None to
leave it at "a new object made by this call".
"""

from __future__ import annotations

import ast

from memlint.script.command_line import CommandLine, kind_of_annotation
from memlint.script.functions import call_function
from memlint.script.interpreter import Handler, Interpreter
from memlint.script.invocations import Record
from memlint.script.modes import flag_of, set_gradients, set_training
from memlint.script.rows import row_handlers
from memlint.script.values import (
    UNKNOWN,
    Absent,
    Class,
    Constant,
    Function,
    How,
    Object,
    Origin,
    Partial,
    Sequence,
    Slot,
    Symbol,
    Value,
    library_base,
    options,
    truth,
)


def _first_object(record: Record) -> Object | None:
    """The object that a call is about: its first argument."""
    values = list(record.arguments[:1]) or [slot.value for slot in record.keywords.values()][:1]
    for value in values:
        for one in options(value):
            if isinstance(one, Object):
                return one
    return None


def _receiver(record: Record) -> Object | None:
    if record.receiver is None:
        return None
    for one in options(record.receiver):
        if isinstance(one, Object):
            return one
    return None


# -- containers ------------------------------------------------------------------------------------


def _dict(run: Interpreter, record: Record) -> Value:
    made = run.new_dict(record.node)
    for value in record.arguments:
        run.update_dict(made, value)
    for name, slot in record.keywords.items():
        run.set_slot(made, name, slot)
    made.open |= record.open_keywords or record.open_arguments
    return made


def _update(run: Interpreter, record: Record) -> Value | None:
    thing = _receiver(record)
    if thing is None:
        return None
    for value in record.arguments:
        run.update_dict(thing, value)
    for name, slot in record.keywords.items():
        run.set_slot(thing, name, slot)
    thing.open |= record.open_keywords
    return Constant(None)


def _key(record: Record) -> str | None:
    if record.arguments and isinstance(record.arguments[0], Constant):
        value = record.arguments[0].value
        return value if isinstance(value, str) else None
    return None


def _get(run: Interpreter, record: Record) -> Value | None:
    thing, key = _receiver(record), _key(record)
    if thing is None or thing.type != "dict" or key is None:
        return None
    slot = run.get_slot(thing, key)
    if slot is not None and not any(isinstance(one, Absent) for one in options(slot.value)):
        return slot.value
    if slot is None and not thing.open:
        return record.arguments[1] if len(record.arguments) > 1 else Constant(None)
    return UNKNOWN


def _pop(run: Interpreter, record: Record) -> Value | None:
    if isinstance(record.receiver, Sequence):
        return _change(run, record)
    thing, key = _receiver(record), _key(record)
    if thing is None or thing.type != "dict" or key is None:
        return None
    value = _get(run, record)
    run.set_slot(thing, key, Slot(Absent()))
    return value


def _setdefault(run: Interpreter, record: Record) -> Value | None:
    thing, key = _receiver(record), _key(record)
    if thing is None or key is None or len(record.arguments) < 2:
        return None
    if run.get_slot(thing, key) is None:
        run.set_slot(thing, key, Slot(record.arguments[1], How.OTHER, record.node))
    return _get(run, record)


def _change(run: Interpreter, record: Record) -> Value | None:
    """``names.append("lm_head")`` and its like: the list has other items from here on."""
    func = record.node.func
    before = record.receiver
    if not isinstance(before, Sequence) or not isinstance(func, ast.Attribute):
        return None
    adds = func.attr == "append" and len(record.arguments) == 1 and not record.open_arguments
    items, is_open = before.items, True
    if adds and not before.open and run.loops == 0:
        items, is_open = (*items, record.arguments[0]), False
    changed = Sequence(items, before.kind, before.node, is_open)
    if isinstance(func.value, ast.Name):
        run.rebind(func.value.id, changed)
    elif isinstance(func.value, ast.Attribute):
        holder = run.values.get(func.value.value)
        if isinstance(holder, Object):
            run.set_slot(holder, func.value.attr, Slot(changed, How.OTHER, record.node))
    return UNKNOWN if func.attr == "pop" else Constant(None)


def _copy(run: Interpreter, record: Record) -> Value | None:
    """``copy.copy``, ``copy.deepcopy``, ``.copy()``: the same slots, another object."""
    thing = _receiver(record) if record.name.startswith("?") or not record.arguments else None
    thing = thing or _first_object(record)
    if thing is None:
        return None
    made = run.new_object(
        type=thing.type, made_by=record, base=thing, cls=thing.cls, node=record.node
    )
    run.copy_slots(thing, made)
    return made


def _vars(run: Interpreter, record: Record) -> Value | None:
    thing = _first_object(record)
    if thing is None:
        return None
    made = run.new_dict(record.node)
    run.copy_slots(thing, made)
    made.open |= thing.type is not None and thing.cls is None and thing.type != "dict"
    return made


def _getattr(run: Interpreter, record: Record) -> Value | None:
    if len(record.arguments) < 2 or not isinstance(record.arguments[1], Constant):
        return UNKNOWN
    name = record.arguments[1].value
    thing = record.arguments[0]
    if isinstance(thing, Symbol):
        return Symbol(f"{thing.name}.{name}", record.node)
    if isinstance(thing, Object) and isinstance(name, str):
        slot = run.get_slot(thing, name)
        return slot.value if slot is not None and len(options(slot.value)) == 1 else UNKNOWN
    return UNKNOWN


def _setattr(run: Interpreter, record: Record) -> Value | None:
    if len(record.arguments) == 3:
        thing, name, value = record.arguments
        for one in options(thing):
            if isinstance(one, Object) and isinstance(name, Constant):
                run.set_slot(one, str(name.value), Slot(value, How.OTHER, record.node))
            elif isinstance(one, Object):
                one.open = True
    return Constant(None)


def _replace(run: Interpreter, record: Record) -> Value | None:
    """``dataclasses.replace(config, name=value)``."""
    made = _copy(run, record)
    if isinstance(made, Object):
        for name, slot in record.keywords.items():
            run.set_slot(made, name, slot)
    return made


def _namespace(run: Interpreter, record: Record) -> Value:
    made = run.new_object(type=record.name, made_by=record, node=record.node)
    for name, slot in record.keywords.items():
        run.set_slot(made, name, slot)
    made.open = record.open_keywords
    return made


def _partial(run: Interpreter, record: Record) -> Value | None:
    return Partial(record.arguments[0], record) if record.arguments else None


def _convert(run: Interpreter, record: Record) -> Value:
    """``int("8")``, ``float(x)``, ``str(x)``, ``bool(x)`` of a constant."""
    if len(record.arguments) == 1 and isinstance(record.arguments[0], Constant):
        constant = record.arguments[0]
        convert = {"int": int, "float": float, "str": str, "bool": bool}[record.name]
        try:
            return Constant(convert(constant.value), record.node, constant.origin)
        except (TypeError, ValueError):
            return UNKNOWN
    return UNKNOWN


def _nothing_known(run: Interpreter, record: Record) -> Value:
    return UNKNOWN


def _exit(run: Interpreter, record: Record) -> Value:
    run.state.dead = True
    return UNKNOWN


# -- command lines ---------------------------------------------------------------------------------


def _add_argument(run: Interpreter, record: Record) -> Value | None:
    """``parser.add_argument("--name", default=...)``: the parser remembers a slot."""
    parser = _receiver(record)
    if parser is None:
        return None
    flags = [
        one.value
        for one in record.arguments
        if isinstance(one, Constant) and isinstance(one.value, str)
    ]
    if not flags:
        return None
    explicit = record.keywords.get("dest")
    if explicit is not None and isinstance(explicit.value, Constant):
        name = str(explicit.value.value)
    else:
        long = [flag for flag in flags if flag.startswith("--")] or flags
        name = long[0].lstrip("-").replace("-", "_")
    value = _launched(run, record, flags) or _parsed(record, flags)
    run.set_slot(_parser_root(parser), name, Slot(value, How.ARGPARSE, record.node))
    return UNKNOWN


def _launched(run: Interpreter, record: Record, flags: list[str]) -> Value | None:
    """What the launch command gives for an argument; None where it does not."""
    given = run.command_line
    names = [flag.lstrip("-").replace("-", "_") for flag in flags if flag.startswith("-")]
    name = next((one for one in names if given is not None and one in given.names), None)
    if given is None or name is None:
        return None
    action = record.keywords.get("action")
    kind = record.keywords.get("type")
    if record.open_keywords or "nargs" in record.keywords:
        return UNKNOWN
    if action is not None:
        switch = action.value.value if isinstance(action.value, Constant) else None
        value = given.value(name, "bool")
        if switch == "store_true":
            return value
        if switch == "store_false" and isinstance(value, Constant):
            return Constant(value.value is not True, None, Origin.COMMAND_LINE)
        return UNKNOWN
    if kind is None:
        return given.value(name, "str")
    known = kind.value.name if isinstance(kind.value, Symbol) else ""
    if known == "bool":
        # Every text but the empty one is true.
        return Constant(True, None, Origin.COMMAND_LINE)
    return given.value(name, known) if known in ("int", "float", "str") else UNKNOWN


def _parsed(record: Record, flags: list[str]) -> Value:
    """What an argument is where the command line does not give it."""
    required = record.keywords.get("required")
    if not flags[0].startswith("-") or (
        required is not None and truth(required.value) is not False
    ):
        return UNKNOWN
    default = record.keywords.get("default")
    if default is not None:
        value = default.value
        if isinstance(value, Constant):
            return Constant(_typed(record, value), value.node, Origin.ARGPARSE)
        return value if isinstance(value, Sequence) else UNKNOWN
    action = record.keywords.get("action")
    kind = action.value.value if action and isinstance(action.value, Constant) else None
    if kind in ("store_true", "store_false"):
        return Constant(kind == "store_false", record.node, Origin.ARGPARSE)
    if record.open_keywords:
        return UNKNOWN
    return Constant(None, record.node, Origin.ARGPARSE)


def _typed(record: Record, default: Constant) -> object:
    """argparse passes string defaults through ``type``."""
    kind = record.keywords.get("type")
    if isinstance(default.value, str) and kind is not None and isinstance(kind.value, Symbol):
        convert = {"int": int, "float": float}.get(kind.value.name)
        if convert is not None:
            try:
                return convert(default.value)
            except ValueError:
                return default.value
    return default.value


def _parser_root(parser: Object) -> Object:
    while parser.base is not None:
        parser = parser.base
    return parser


def _argument_group(run: Interpreter, record: Record) -> Value | None:
    parser = _receiver(record)
    if parser is None:
        return None
    return run.new_object(type=parser.type, made_by=record, base=parser, node=record.node)


def _set_defaults(run: Interpreter, record: Record) -> Value | None:
    parser = _receiver(record)
    if parser is None or parser.type is None or "ArgumentParser" not in parser.type:
        return None
    for name, slot in record.keywords.items():
        value = slot.value
        if isinstance(value, Constant):
            value = Constant(value.value, value.node, Origin.ARGPARSE)
        run.set_slot(_parser_root(parser), name, Slot(value, How.ARGPARSE, record.node))
    return Constant(None)


_PARSER_OWN = frozenset({"description", "prog", "usage", "epilog", "formatter_class", "add_help"})


def _parse_args(run: Interpreter, record: Record) -> Value | None:
    parser = _receiver(record)
    if parser is None:
        return None
    parser = _parser_root(parser)
    made = run.new_object(type="argparse.Namespace", made_by=record, node=record.node)
    for name, slot in run.slots(parser).items():
        if slot.how is How.ARGPARSE and name not in _PARSER_OWN:
            run.set_slot(made, name, slot)
    if record.node.func.attr == "parse_known_args":  # type: ignore[attr-defined]
        return Sequence((made, UNKNOWN), "tuple")
    return made


def _dataclass_parser(run: Interpreter, record: Record) -> Value:
    """``HfArgumentParser((A, B))``: keeps the classes for ``parse_args_into_dataclasses``."""
    made = run.new_object(type="transformers.HfArgumentParser", made_by=record, node=record.node)
    given = run.argument(record, 0, "dataclass_types")
    run.set_slot(made, "dataclass_types", given or Slot(UNKNOWN))
    return made


def _parse_dataclasses(run: Interpreter, record: Record) -> Value | None:
    parser = _receiver(record)
    if parser is None:
        return None
    slot = run.get_slot(parser, "dataclass_types")
    if slot is None:
        return None
    given = slot.value
    classes = given.items if isinstance(given, Sequence) else (given,)
    if isinstance(given, Sequence) and given.open:
        return UNKNOWN
    declared = {name for cls in classes if isinstance(cls, Class) for name, _ in run.fields(cls)}
    wants_rest = record.keywords.get("return_remaining_strings")
    strict = wants_rest is None
    made = tuple(_fed_by_parser(run, record, cls, declared, strict) for cls in classes)
    if wants_rest is not None:
        return Sequence((*made, UNKNOWN), "tuple")
    return Sequence(made, "tuple")


def _fed_by_parser(
    run: Interpreter, record: Record, cls: Value, declared: set[str], strict: bool
) -> Value:
    """An instance whose fields a command line or a file may set; their defaults are a default.

    declared: the fields of all classes of the script that the parser fills. strict: what no class
    takes stops the script.
    """
    if isinstance(cls, Class):
        made = run.new_object(
            type=library_base(cls), made_by=record, cls=cls, node=record.node, fed_by_parser=True
        )
        run.set_fields(cls, made, Origin.PARSED_FIELD)
    elif isinstance(cls, Symbol):
        made = run.new_object(type=cls.name, made_by=record, node=record.node, fed_by_parser=True)
    else:
        return UNKNOWN
    made.open = True
    if run.command_line is not None:
        _launched_fields(run, run.command_line, made, declared if strict else None)
    return made


def _launched_fields(
    run: Interpreter, given: CommandLine, made: Object, declared: set[str] | None
) -> None:
    """Give an instance what the launch command sets.

    declared: fields of the script's classes, which are no options of a library's; None: an option
    that the class no longer has would be passed over, and is left out.
    """
    own = dict(run.fields(made.cls)) if made.cls is not None else {}
    for option in given.names:
        if option in own:
            kind = kind_of_annotation(ast.unparse(own[option].annotation))
            value = given.value(option, kind)
            if value is not None:
                # No place of the name: what the script declares itself, no release renames.
                run.set_slot(made, option, Slot(value, How.FIELD))
            continue
        if (
            declared is None
            or option in declared
            or made.type is None
            or not given.takes(made.type, option)
        ):
            continue
        value = given.value(option, "")
        if value is not None:
            run.set_slot(made, option, Slot(value, How.ITEM, given.node))


def _fire(run: Interpreter, record: Record) -> Value | None:
    """``fire.Fire(train)``: the parameters' defaults are what runs when no flag is given."""
    for value in record.arguments[:1]:
        if isinstance(value, Function) and value.node not in run.active:
            node = value.node
            arguments = node.args
            parameters = [*arguments.posonlyargs, *arguments.args]
            with_default = parameters[len(parameters) - len(arguments.defaults) :]
            keywords = {}
            for parameter, default in zip(with_default, arguments.defaults, strict=True):
                known = run.values.get(default, UNKNOWN)
                if isinstance(known, Constant):
                    known = Constant(known.value, known.node, Origin.CLICK)
                keywords[parameter.arg] = Slot(known)
            for parameter in parameters[: len(parameters) - len(arguments.defaults)]:
                keywords[parameter.arg] = Slot(UNKNOWN)
            call = Record(record.node, "fire", record.order)
            call.keywords = keywords
            call_function(run, value, call)
    return UNKNOWN


# -- models ----------------------------------------------------------------------------------------


def _wraps(run: Interpreter, record: Record) -> Value | None:
    """A function that returns its model in another coat (PEFT, compile, k-bit preparation)."""
    inner = _first_object(record)
    if inner is None:
        return None
    made = run.new_object(type=inner.type, made_by=record, base=inner, node=record.node)
    run.copy_slots(inner, made)
    return made


def _same(run: Interpreter, record: Record) -> Value | None:
    """A method that returns its object: ``model.to(...)``, ``.cuda()``, ``.eval()``."""
    return record.receiver if isinstance(record.receiver, Object) else None


def _eval_mode(run: Interpreter, record: Record) -> Value | None:
    """``model.eval()``: the mode is followed, and the model comes back."""
    return set_training(run, record, False) or _same(run, record)


def _train_mode(run: Interpreter, record: Record) -> Value | None:
    """``model.train()``, ``model.train(mode)``; a trainer's ``train`` as well."""
    return set_training(run, record, flag_of(record)) or _same(run, record)


def _set_grad_enabled(run: Interpreter, record: Record) -> Value | None:
    """As a statement it holds from here on; ``with`` restores what was before."""
    set_gradients(run, flag_of(record))
    return None


def _first_argument(run: Interpreter, record: Record) -> Value | None:
    """``accelerator.unwrap_model(model)`` returns what was wrapped."""
    return record.arguments[0] if record.arguments else None


def _deepspeed(run: Interpreter, record: Record) -> Value | None:
    """``deepspeed.initialize`` returns the wrapped model, an optimizer, a loader, a scheduler."""
    given = record.keywords.get("model")
    values = [given.value] if given is not None else list(record.arguments[1:2])
    inner = next(
        (one for value in values for one in options(value) if isinstance(one, Object)), None
    )
    if inner is None:
        return None
    made = run.new_object(type=inner.type, made_by=record, base=inner, node=record.node)
    run.copy_slots(inner, made)
    return Sequence((made, UNKNOWN, UNKNOWN, UNKNOWN), "tuple")


def _prepare(run: Interpreter, record: Record) -> Value | None:
    """``accelerator.prepare(a, b)`` returns what it was given, wrapped."""
    if len(record.arguments) == 1 and not record.open_arguments:
        return record.arguments[0]
    if record.arguments and not record.open_arguments:
        return Sequence(record.arguments, "tuple")
    return None


def _merge_adapter(run: Interpreter, record: Record) -> Value | None:
    """``peft_model.merge_and_unload()``: a plain model again."""
    inner = _receiver(record)
    if inner is None:
        return None
    return run.new_object(type=inner.type, made_by=record, base=inner, node=record.node)


def _limited(run: Interpreter, record: Record) -> Value | None:
    """``limit_prompts(DPOTrainer, 512)`` is a trainer's class as the one given."""
    return record.arguments[0] if record.arguments else None


def handlers() -> dict[str, Handler]:
    """Every handler by the name it answers to."""
    table: dict[str, Handler] = {
        "dict": _dict,
        "collections.OrderedDict": _dict,
        "vars": _vars,
        "dataclasses.asdict": _vars,
        "getattr": _getattr,
        "setattr": _setattr,
        "hasattr": _nothing_known,
        "int": _convert,
        "float": _convert,
        "str": _convert,
        "bool": _convert,
        "copy.copy": _copy,
        "copy.deepcopy": _copy,
        "dataclasses.replace": _replace,
        "functools.partial": _partial,
        "memlint_runtime.limit_prompts": _limited,
        "types.SimpleNamespace": _namespace,
        "argparse.Namespace": _namespace,
        "sys.exit": _exit,
        "exit": _exit,
        "quit": _exit,
        "os._exit": _exit,
        "fire.Fire": _fire,
        "torch.set_grad_enabled": _set_grad_enabled,
        "torch.autograd.set_grad_enabled": _set_grad_enabled,
        "torch.autograd.grad_mode.set_grad_enabled": _set_grad_enabled,
        "torch._C._set_grad_enabled": _set_grad_enabled,
        ".update": _update,
        ".get": _get,
        ".pop": _pop,
        ".append": _change,
        ".extend": _change,
        ".insert": _change,
        ".remove": _change,
        ".clear": _change,
        ".add": _change,
        ".discard": _change,
        ".setdefault": _setdefault,
        ".copy": _copy,
        ".add_argument": _add_argument,
        ".add_argument_group": _argument_group,
        ".add_mutually_exclusive_group": _argument_group,
        ".set_defaults": _set_defaults,
        ".parse_args": _parse_args,
        ".parse_known_args": _parse_args,
        ".parse_args_into_dataclasses": _parse_dataclasses,
        ".parse_args_and_config": _parse_dataclasses,
        ".parse_json_file": _parse_dataclasses,
        ".parse_yaml_file": _parse_dataclasses,
        ".parse_dict": _parse_dataclasses,
        ".prepare": _prepare,
        ".unwrap_model": _first_argument,
        ".eval": _eval_mode,
        ".train": _train_mode,
        "deepspeed.initialize": _deepspeed,
        ".merge_and_unload": _merge_adapter,
    }
    for name in ("HfArgumentParser", "hf_argparser.HfArgumentParser"):
        table[f"transformers.{name}"] = _dataclass_parser
    for name in ("TrlParser", "H4ArgumentParser"):
        table[f"trl.{name}"] = _dataclass_parser
    for name in (
        "peft.get_peft_model",
        "peft.prepare_model_for_kbit_training",
        "peft.prepare_model_for_int8_training",
        "peft.PeftModel.from_pretrained",
        "peft.PeftModelForCausalLM.from_pretrained",
        "peft.PeftModel",
        "torch.compile",
        "trl.create_reference_model",
        "trl.AutoModelForCausalLMWithValueHead.from_pretrained",
        "torch.nn.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
    ):
        table[name] = _wraps
    for name in (
        "to",
        "cuda",
        "cpu",
        "half",
        "bfloat16",
        "float",
        "requires_grad_",
    ):
        table[f".{name}"] = _same
    return table | row_handlers()
