"""What known callables do to the values that the interpreter follows.

Only what carries settings or models from one place of a script to another: containers and attribute
helpers and wrappers around models here, argument parsers in ``parsers``, data sets in ``rows``. An
effect returns the call's value, or None to leave it at "a new object made by this
call".
"""

import ast
from operator import attrgetter

from memlint.engine.binding import about_first, about_receiver, drop_item, set_bindings, wrapped
from memlint.engine.command_line import converted, processes_of
from memlint.engine.expressions import variable_of
from memlint.engine.forwards import LAUNCHERS, is_module
from memlint.engine.functions import call_function, made_by
from memlint.engine.interpreter import CallEffect, Interpreter
from memlint.engine.modes import flag_of, rebind, set_gradients, set_training
from memlint.engine.name_uses import parameters
from memlint.engine.rows import row_effects
from memlint.engine.tensors import Output
from memlint.engine.values import (
    MAPPINGS,
    UNKNOWN,
    Absent,
    Binding,
    Constant,
    FilePath,
    Function,
    How,
    Invocation,
    Object,
    Partial,
    Provenance,
    Sequence,
    Symbol,
    Value,
    constant_text,
    first_object,
    merge,
    options,
)
from memlint.script.parsers import PARSERS
from memlint.script.written_settings import (
    FROM_COMMAND,
    beside,
    composed,
    document_at,
    folder_of,
    merged,
    of_command_line,
    path,
    same_path,
    sections,
    to_container,
    variables,
)

# -- containers ------------------------------------------------------------------------------------


def _dict(run: Interpreter, invocation: Invocation) -> Value:
    made = run.new_dict(invocation.node)
    _fill(run, invocation, made)
    made.open |= invocation.open_arguments
    return made


def _update(run: Interpreter, invocation: Invocation, thing: Object) -> Value | None:
    _fill(run, invocation, thing)
    return Constant(None)


def _fill(run: Interpreter, invocation: Invocation, thing: Object) -> None:
    """Give a dict what a call is given."""
    for value in invocation.arguments:
        run.update_dict(thing, value)
    set_bindings(run, thing, invocation.keywords)
    thing.open |= invocation.open_keywords


def _key(invocation: Invocation) -> str | None:
    return constant_text(invocation.arguments[0] if invocation.arguments else None)


def _get(run: Interpreter, invocation: Invocation, thing: Object) -> Value | None:
    key = _key(invocation)
    if (thing.type or "").startswith(_INI):
        return _of_ini(run, invocation, thing)
    if thing.type not in MAPPINGS or key is None:
        return None
    binding = run.get_binding(thing, key)
    if binding is not None and not any(isinstance(one, Absent) for one in options(binding.value)):
        return binding.value
    if binding is None and not thing.open:
        return invocation.arguments[1] if len(invocation.arguments) > 1 else Constant(None)
    return UNKNOWN


_INI = "configparser."
_INI_KINDS = {"getint": "int", "getfloat": "float", "getboolean": "bool"}


def _of_ini(run: Interpreter, invocation: Invocation, thing: Object) -> Value | None:
    """``config.getint("train", "rows")``, ``config["train"].getint("rows", fallback=1)``."""
    depth = 1 if (thing.type or "").endswith(".SectionProxy") else 2
    rest = invocation.arguments[depth:] or (UNKNOWN,)
    value: Value = thing
    for name in map(constant_text, invocation.arguments[:depth]):
        inside = run.get_binding(value, name) if isinstance(value, Object) and name else None
        if inside is None:
            return invocation.keywords.get("fallback", Binding(rest[0])).value
        value = inside.value
    kind = _INI_KINDS.get(invocation.name.rpartition(".")[2], "str")
    text = constant_text(value)
    known = converted(text, kind) if text is not None else None
    return Constant(known, None, Provenance.COMMAND_LINE) if known is not None else UNKNOWN


def _pop(run: Interpreter, invocation: Invocation) -> Value | None:
    if isinstance(invocation.receiver, Sequence):
        return _change(run, invocation)
    thing = invocation.receiver_object
    if thing is None or thing.type not in MAPPINGS or not invocation.arguments:
        return None
    value = _get(run, invocation, thing)
    drop_item(run, thing, invocation.arguments[0])
    return value


def _setdefault(run: Interpreter, invocation: Invocation, thing: Object) -> Value | None:
    key = _key(invocation)
    if key is None or len(invocation.arguments) < 2:
        return None
    if run.get_binding(thing, key) is None:
        run.set_binding(thing, key, Binding(invocation.arguments[1], How.OTHER, invocation.node))
    return _get(run, invocation, thing)


def _change(run: Interpreter, invocation: Invocation) -> Value | None:
    """``names.append("lm_head")`` and its like: the list has other items from here on."""
    func = invocation.node.func
    before = invocation.receiver
    if not isinstance(before, Sequence) or not isinstance(func, ast.Attribute):
        return None
    adds = (
        func.attr == "append" and len(invocation.arguments) == 1 and not invocation.open_arguments
    )
    items, is_open = before.items, True
    if adds and not before.open and run.loops == 0 and run.has_room(before.size):
        items, is_open = (*items, invocation.arguments[0]), False
    changed = run.bounded(Sequence(items, before.kind, before.node, is_open))
    if before.node in run.filled:
        run.filled[before.node] = run.filled[before.node][0], run._order
    if isinstance(func.value, ast.Name):
        rebind(run, func.value.id, changed)
    elif isinstance(func.value, ast.Attribute):
        holder = run.values.get(func.value.value)
        if isinstance(holder, Object):
            run.set_binding(holder, func.value.attr, Binding(changed, How.OTHER, invocation.node))
    return UNKNOWN if func.attr == "pop" else Constant(None)


def _copy(run: Interpreter, invocation: Invocation) -> Value | None:
    """``copy.copy``, ``copy.deepcopy``, ``.copy()``: the same bindings, another object."""
    is_method = invocation.name.startswith("?") or not invocation.arguments
    thing = (is_method and invocation.receiver_object) or invocation.first_object
    return wrapped(run, invocation, thing, thing.cls) if thing is not None else None


def _vars(run: Interpreter, invocation: Invocation, thing: Object) -> Value | None:
    made = run.new_dict(invocation.node)
    run.copy_bindings(thing, made)
    made.open |= thing.type is not None and thing.cls is None and thing.type != "dict"
    return made


def _getattr(run: Interpreter, invocation: Invocation) -> Value | None:
    if len(invocation.arguments) < 2 or not isinstance(invocation.arguments[1], Constant):
        return UNKNOWN
    name = invocation.arguments[1].value
    thing = invocation.arguments[0]
    if isinstance(thing, Symbol):
        return Symbol(f"{thing.name}.{name}", invocation.node)
    if isinstance(thing, Object) and isinstance(name, str):
        binding = run.get_binding(thing, name)
        return (
            binding.value if binding is not None and len(options(binding.value)) == 1 else UNKNOWN
        )
    return UNKNOWN


def _setattr(run: Interpreter, invocation: Invocation) -> Value | None:
    if len(invocation.arguments) == 3:
        thing, name, value = invocation.arguments
        for one in options(thing):
            if isinstance(one, Object) and isinstance(name, Constant):
                run.set_binding(
                    one, str(name.value), Binding(value, How.ATTRIBUTE, invocation.node)
                )
            elif isinstance(one, Object):
                one.open = True
    return Constant(None)


def _replace(run: Interpreter, invocation: Invocation) -> Value | None:
    """``dataclasses.replace(config, name=value)``, ``attrs.evolve(...)``."""
    made = _copy(run, invocation)
    if isinstance(made, Object):
        set_bindings(run, made, invocation.keywords)
    return made


def _hyperparameters(run: Interpreter, invocation: Invocation, thing: Object) -> Value:
    """``self.save_hyperparameters()``: Lightning keeps what ``__init__`` was given, or a mapping
    that is given here, as items that are attributes of ``self.hparams``, too."""
    made = run.new_object(type=MAPPINGS[1], made_by=invocation)
    given = invocation.first_object
    if given is not None:
        run.copy_bindings(given, made)
    elif isinstance(run.function, ast.FunctionDef):
        for one in parameters(run.function)[1:]:
            if (binding := run.lookup(one.arg)) is not None:
                run.set_binding(made, one.arg, binding)
    made.open = invocation.open_keywords
    run.set_binding(thing, "hparams", Binding(made, How.OTHER, invocation.node))
    return Constant(None)


def _namespace(run: Interpreter, invocation: Invocation) -> Value:
    made = run.new_object(type=invocation.name, made_by=invocation)
    set_bindings(run, made, invocation.keywords)
    made.open = invocation.open_keywords
    return made


def _least(run: Interpreter, invocation: Invocation) -> Value | None:
    """``min(args.block_size, tokenizer.model_max_length)``: what is asked of a model is taken to be
    within its limits."""
    pairs = zip(invocation.node.args, invocation.arguments, strict=False)
    asked = [one for node, one in pairs if getattr(node, "attr", "") not in _LIMITS]
    # Of ``args.block_size or 1024`` the first that is a number.
    firsts = [next(filter(_is_count, options(one)), None) for one in asked]
    known = [one for one in firsts if one is not None]
    if len(asked) == len(invocation.arguments) or len(known) < len(asked):
        return None
    return min(known, key=attrgetter("value"), default=None)


def _is_count(value: Value) -> bool:
    return type(getattr(value, "value", None)) is int


_LIMITS = ("model_max_length", "max_position_embeddings", "n_positions", "max_len_single_sentence")


def _partial(run: Interpreter, invocation: Invocation) -> Value | None:
    return Partial(invocation.arguments[0], invocation) if invocation.arguments else None


def _convert(run: Interpreter, invocation: Invocation) -> Value:
    """``int("8")``, ``float(x)``, ``str(x)``, ``bool(x)`` of a constant."""
    if len(invocation.arguments) == 1 and isinstance(invocation.arguments[0], Constant):
        constant = invocation.arguments[0]
        if isinstance(constant.value, FilePath):
            return constant
        convert = {"int": int, "float": float, "str": str, "bool": bool}[invocation.name]
        try:
            return Constant(convert(constant.value), invocation.node, constant.origin)
        except (TypeError, ValueError):
            return UNKNOWN
    return UNKNOWN


def _variable(run: Interpreter, invocation: Invocation) -> Value:
    """``os.environ.get("ROWS", "8")``: what the launch command gives, or else the default, which
    whoever starts the script may change."""
    key, default = (*invocation.arguments, None, None)[:2]
    name = constant_text(key)
    given = variable_of(run, name)
    if isinstance(given, Constant):
        return given
    if isinstance(default, Constant):
        return Constant(default.value, invocation.node, Provenance.ENVIRONMENT)
    return UNKNOWN


# Of a text that is split: names of modules, not data.
_MOST_PARTS = 1_000


def _text(run: Interpreter, invocation: Invocation) -> Value | None:
    """``name.lower()``, ``path.endswith(".json")``, ``names.split(",")`` of constants."""
    text, said = invocation.receiver, invocation.arguments
    words = [one.value for one in said if isinstance(one, Constant) and type(one.value) is str]
    plain = len(words) == len(said) and not (invocation.keywords or invocation.open_arguments)
    if not plain or not isinstance(text, Constant) or type(text.value) is not str:
        return None
    try:
        value = getattr(text.value, invocation.name.rpartition(".")[2])(*words)
    except (TypeError, ValueError):
        return None
    if isinstance(value, list):
        if len(value) > _MOST_PARTS:
            return UNKNOWN
        parts = tuple(Constant(one, invocation.node, text.origin) for one in value)
        return Sequence(parts, "list", invocation.node)
    return Constant(value, invocation.node, text.origin)


def _length(run: Interpreter, invocation: Invocation) -> Value | None:
    """``len(sys.argv)``: by the words of a launch command, or by default none."""
    if not invocation.arguments or invocation.arguments[0] != Symbol("sys.argv"):
        return None
    names = run.command_line.names if run.command_line is not None else []
    if not all(map(str.isdigit, names)):
        return None
    origin = Provenance.COMMAND_LINE if names else Provenance.ENVIRONMENT
    return Constant(1 + len(names), invocation.node, origin)


def _listed(run: Interpreter, invocation: Invocation) -> Value | None:
    """``list(config.targets)``: the same items."""
    given = invocation.arguments[0] if invocation.arguments else None
    if not isinstance(given, Sequence) or given.kind == "set":
        return None
    return Sequence(given.items, "list", invocation.node, given.open)


def _isinstance(run: Interpreter, invocation: Invocation) -> Value:
    """``isinstance(model, str)``: what a library made is no text, number, list or dict."""
    if len(invocation.arguments) != 2:
        return UNKNOWN
    value, kind = invocation.arguments
    plain = _PLAIN.get(kind.name) if isinstance(kind, Symbol) else None
    if plain is not None and isinstance(value, Constant):
        return Constant(isinstance(value.value, plain), invocation.node, value.origin)
    if plain is not None and isinstance(value, Object) and "." in (value.root.type or ""):
        return Constant(False, invocation.node)
    return UNKNOWN


_PLAIN: dict[str, type] = {"str": str, "int": int, "float": float, "list": list, "dict": dict}


def _hasattr(run: Interpreter, invocation: Invocation) -> Value:
    """``hasattr(outputs, "loss")``: a library's model with a head returns both, if only as None."""
    thing, name = (*invocation.arguments, UNKNOWN, UNKNOWN)[:2]
    if not isinstance(thing, Output) or thing.forward.own or thing.open:
        return UNKNOWN
    models = [one for one in options(thing.forward.module) if isinstance(one, Object)]
    with_head = bool(models) and all("For" in (one.root.type or "") for one in models)
    if with_head and isinstance(name, Constant) and name.value in ("loss", "logits"):
        return Constant(True, invocation.node)
    return UNKNOWN


def _executed(run: Interpreter, invocation: Invocation) -> Value:
    """``exec(open("configurator.py").read())``: what the module has set so far are defaults that a
    file or a command line may change."""
    scope = run.root_scope()
    for name in run.bound[scope] if len(invocation.arguments) == 1 else ():
        binding = run.state.get((scope, name))
        value = binding.value if binding is not None else None
        if binding is not None and isinstance(value, Constant):
            default = Constant(value.value, value.node, Provenance.ENVIRONMENT)
            run.state.facts[scope, name] = Binding(default, binding.how, binding.owner)
    return UNKNOWN


def _processes(run: Interpreter, invocation: Invocation) -> Value:
    """``torch.distributed.get_world_size()``."""
    return processes_of(run.processes, invocation.node)


def _launched(run: Interpreter, invocation: Invocation) -> Value:
    """``Accelerator(...)``, ``Fabric(devices=2)``: they know the number of processes."""
    made = made_by(run, invocation, invocation.name)
    number, given = _processes(run, invocation), invocation.keywords.get("devices")
    if given is not None and "num_nodes" not in invocation.keywords and _is_count(given.value):
        number = given.value
    for name in ("num_processes", "world_size"):
        run.set_binding(made, name, Binding(number))
    return made


def _exit(run: Interpreter, invocation: Invocation) -> Value:
    run.state.unreachable = True
    return UNKNOWN


_EFFECTS: dict[str, CallEffect] = {
    "dict": _dict,
    "list": _listed,
    "collections.OrderedDict": _dict,
    "vars": about_first(_vars),
    "dataclasses.asdict": about_first(_vars),
    "getattr": _getattr,
    "min": _least,
    "setattr": _setattr,
    "hasattr": _hasattr,
    "isinstance": _isinstance,
    "os.environ.get": _variable,
    "os.getenv": _variable,
    "int": _convert,
    "float": _convert,
    "str": _convert,
    "bool": _convert,
    "len": _length,
    **dict.fromkeys((".lower", ".upper", ".strip", ".split", ".startswith", ".endswith"), _text),
    **dict.fromkeys(("yaml.safe_load", "yaml.load", "yaml.full_load", "json.load"), document_at),
    **dict.fromkeys(("tomllib.load", "toml.load", "tomli.load"), document_at),
    **dict.fromkeys(("json.loads", "tomllib.loads", "toml.loads", "tomli.loads"), document_at),
    ".read": about_receiver(sections),
    **{f".{name}": about_receiver(_of_ini) for name in _INI_KINDS},
    "dotenv.load_dotenv": variables,
    "dotenv.dotenv_values": variables,
    **dict.fromkeys(("torch.distributed.get_world_size", "torch.cuda.device_count"), _processes),
    **dict.fromkeys((*LAUNCHERS, "accelerate.PartialState"), _launched),
    "omegaconf.OmegaConf.load": document_at,
    **dict.fromkeys(FROM_COMMAND, of_command_line),
    **dict.fromkeys(("omegaconf.OmegaConf.merge", "omegaconf.OmegaConf.create"), merged),
    "hydra.main": composed,
    "omegaconf.OmegaConf.to_container": to_container,
    "omegaconf.OmegaConf.to_object": to_container,
    **dict.fromkeys(("pathlib.Path", "os.path.join", "os.path.abspath"), path),
    **dict.fromkeys((".resolve", ".absolute"), same_path),
    ".with_name": beside,
    ".joinpath": beside,
    **dict.fromkeys(("os.path.dirname", "pathlib.Path.cwd", "os.getcwd"), folder_of),
    "copy.copy": _copy,
    "copy.deepcopy": _copy,
    **dict.fromkeys(("dataclasses.replace", "attrs.evolve", "attr.evolve"), _replace),
    "functools.partial": _partial,
    "types.SimpleNamespace": _namespace,
    "argparse.Namespace": _namespace,
    "exec": _executed,
    "sys.exit": _exit,
    "exit": _exit,
    "quit": _exit,
    "os._exit": _exit,
    ".save_hyperparameters": about_receiver(_hyperparameters),
    ".update": about_receiver(_update),
    ".get": about_receiver(_get),
    ".pop": _pop,
    ".append": _change,
    ".extend": _change,
    ".insert": _change,
    ".remove": _change,
    ".clear": _change,
    ".add": _change,
    ".discard": _change,
    ".setdefault": about_receiver(_setdefault),
    ".copy": _copy,
}


def known_effects() -> dict[str, CallEffect]:
    """Every effect by the name it answers to."""
    return _EFFECTS | PARSERS | WRAPPERS | row_effects()


# -- wrappers of models ----------------------------------------------------------------------------


_NOTHING = Constant(None)


def _same(run: Interpreter, invocation: Invocation) -> Value | None:
    """A method that returns its object: ``model.to(...)``, ``.cuda()``, ``.eval()``."""
    # What is None on some path is not there when its method is called.
    values = [one for one in options(invocation.receiver or UNKNOWN) if one != _NOTHING]
    return merge(values) if all(isinstance(one, Object) for one in values) else None


def _mode(run: Interpreter, invocation: Invocation) -> Value | None:
    """``model.eval()``, ``model.train()``, ``model.train(mode)``: the mode is followed, and the
    model comes back; a trainer's ``train`` as well."""
    training = flag_of(invocation) if invocation.name.endswith(".train") else False
    return set_training(run, invocation, training) or _same(run, invocation)


def _set_grad_enabled(run: Interpreter, invocation: Invocation) -> Value | None:
    """As a statement it holds from here on; ``with`` restores what was before."""
    set_gradients(run, flag_of(invocation))
    return None


def _first_argument(run: Interpreter, invocation: Invocation) -> Value | None:
    """``accelerator.unwrap_model(model)`` returns what was wrapped; ``limit_prompts(X, 8)`` is
    a class of trainers as the one that it takes."""
    return invocation.arguments[0] if invocation.arguments else None


def _deepspeed(run: Interpreter, invocation: Invocation) -> Value | None:
    """``deepspeed.initialize`` returns the wrapped model, an optimizer, a loader, a scheduler."""
    given = invocation.keywords.get("model")
    values = [given.value] if given is not None else list(invocation.arguments[1:2])
    inner = first_object(values)
    if inner is None:
        return None
    return Sequence((wrapped(run, invocation, inner), UNKNOWN, UNKNOWN, UNKNOWN), "tuple")


def _set_up(run: Interpreter, invocation: Invocation) -> Value | None:
    """``fabric.setup(model, optimizer)`` returns what it was given, wrapped."""
    receiver = invocation.receiver
    kind = receiver.type if isinstance(receiver, Object) else None
    return _prepare(run, invocation) if kind is not None and kind.endswith(".Fabric") else None


def _prepare(run: Interpreter, invocation: Invocation) -> Value | None:
    """``accelerator.prepare(a, b)`` returns what it was given, wrapped."""
    if len(invocation.arguments) == 1 and not invocation.open_arguments:
        return invocation.arguments[0]
    if invocation.arguments and not invocation.open_arguments:
        return Sequence(invocation.arguments, "tuple")
    return None


# What Lightning's trainer calls of a data module and a module, in its order.
_OF_DATA = ("prepare_data", "setup", "train_dataloader", "val_dataloader")
_OF_MODULE = ("configure_model", *_OF_DATA, "configure_optimizers", "training_step")


def _fit(run: Interpreter, invocation: Invocation) -> Value | None:
    """``Trainer.fit(module, datamodule=data)`` of Lightning runs methods of both."""
    runner = invocation.receiver_object
    if runner is None or not (runner.type or "").startswith(("lightning.", "pytorch_lightning.")):
        return None
    given = [*invocation.arguments, *(one.value for one in invocation.keywords.values())]
    things = [one for value in given for one in options(value)]
    for thing in reversed([one for one in things if isinstance(one, Object)]):
        for name in _OF_MODULE if is_module(thing) else _OF_DATA:
            method = run.attribute(thing, name)
            if isinstance(method, Function) and method.node not in run.runs:
                call_function(run, method, None)
    return UNKNOWN


_MOVING = (".to", ".cuda", ".cpu", ".half", ".bfloat16", ".float", ".requires_grad_")
_WRAPPING = (
    *("peft.get_peft_model", "peft.prepare_model_for_kbit_training"),
    *("peft.prepare_model_for_int8_training", "peft.PeftModel.from_pretrained"),
    *("peft.PeftModelForCausalLM.from_pretrained", "peft.PeftModel", "torch.compile"),
    *("trl.create_reference_model", "trl.AutoModelForCausalLMWithValueHead.from_pretrained"),
    "torch.nn.DataParallel",
    *(
        "torch.nn.parallel.DistributedDataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
    ),
)
WRAPPERS: dict[str, CallEffect] = {
    "memlint_runtime.limit_prompts": _first_argument,
    "torch.set_grad_enabled": _set_grad_enabled,
    "torch.autograd.set_grad_enabled": _set_grad_enabled,
    "torch.autograd.grad_mode.set_grad_enabled": _set_grad_enabled,
    "torch._C._set_grad_enabled": _set_grad_enabled,
    **dict.fromkeys((".prepare", "trl.setup_chat_format", "trl.clone_chat_template"), _prepare),
    "apex.amp.initialize": _prepare,
    **dict.fromkeys((".setup", ".setup_module", ".setup_dataloaders"), _set_up),
    ".unwrap_model": _first_argument,
    # Old releases return the model, and scripts of their time bind it again.
    "peft.set_peft_model_state_dict": _first_argument,
    **dict.fromkeys((".eval", ".train"), _mode),
    "deepspeed.initialize": _deepspeed,
    ".fit": _fit,
    # A plain model again.
    ".merge_and_unload": about_receiver(
        lambda run, made, inner: run.new_object(type=inner.type, made_by=made, base=inner)
    ),
    **dict.fromkeys(_WRAPPING, about_first(wrapped)),
    **dict.fromkeys(_MOVING, _same),
}
