"""Parameters that a command line fills in: options of click and typer, and fire's flags."""

from memlint.engine.command_line import CommandLine, kind_of_annotation
from memlint.engine.values import (
    UNKNOWN,
    Constant,
    Function,
    Invocation,
    Object,
    Provenance,
    Symbol,
    Value,
    truth,
)


def command_line_default(function: Function, name: str, default: Value | None) -> Value:
    """The default of a parameter that a command line (click, typer, fire) fills in."""
    for made in function.options:
        if is_click(made, "option") and name in _names(made):
            return _option_default(made)
    if not any(is_click(made, "command") for made in function.options):
        return UNKNOWN
    maker = default.made_by if isinstance(default, Object) else None
    if maker is not None and maker.name in ("typer.Option", "typer.Argument") and maker.arguments:
        default = maker.arguments[0]
        if isinstance(default, Constant) and default.value is ...:
            return UNKNOWN
    if isinstance(default, Constant):
        return Constant(default.value, default.node, Provenance.CLICK)
    return UNKNOWN


def is_click(made: Invocation, *kinds: str) -> bool:
    """True if a decorator is ``@click.option(...)``, ``@app.command()`` or their like."""
    return made.name.rpartition(".")[2] in kinds


def _option_default(option: Invocation) -> Value:
    default = option.keywords.get("default")
    if default is not None and isinstance(default.value, Constant):
        return Constant(default.value.value, default.value.node, Provenance.CLICK)
    flag = option.keywords.get("is_flag")
    if default is None and flag is not None and truth(flag.value):
        return Constant(False, None, Provenance.CLICK)
    return UNKNOWN


def given_to_parameter(
    given: CommandLine | None, function: Function, name: str, default: Value
) -> Value:
    """What the launch command gives to a parameter of a command; ``default`` where it does not."""
    if given is None or not any(is_click(made, "command") for made in function.options):
        return default
    option = next(
        (one for one in function.options if is_click(one, "option") and name in _names(one)), None
    )
    names = _names(option, dashed=True) if option is not None else [name]
    for each in names:
        if each in given.names:
            value = given.value(each, _kind(function, name, option, default))
            if each.startswith("no_") and each != name and isinstance(value, Constant):
                return Constant(value.value is not True, value.node, Provenance.COMMAND_LINE)
            return UNKNOWN if value is None else value
    return default


def given_by_look(given: CommandLine | None, name: str, default: Value) -> Value:
    """The same where the words themselves say what they are, as fire reads them."""
    value = given.value(name, "") if given is not None else None
    return default if value is None else value


def _names(option: Invocation, *, dashed: bool = False) -> list[str]:
    """``--packing/--no-packing``: what an option of click is called, as parameters are.

    dashed: what the command line calls it, and not its parameter.
    """
    return [
        part.strip().lstrip("-").replace("-", "_")
        for one in option.arguments
        if isinstance(one, Constant) and isinstance(one.value, str)
        for part in one.value.split("/")
        if part.strip().startswith("-") or not dashed
    ]


def _kind(function: Function, name: str, option: Invocation | None, default: Value) -> str:
    """The type of a parameter, as ``CommandLine.value`` wants it."""
    if option is not None:
        flag, kind = option.keywords.get("is_flag"), option.keywords.get("type")
        if (flag is not None and truth(flag.value)) or any(
            isinstance(one, Constant) and "/" in str(one.value) for one in option.arguments
        ):
            return "bool"
        if kind is not None:
            return kind.value.name if isinstance(kind.value, Symbol) else "?"
        if isinstance(default, Constant) and default.value is not None:
            return type(default.value).__name__
        return "str"
    arguments = function.node.args
    for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if parameter.arg == name:
            annotation = parameter.annotation
            return kind_of_annotation(annotation) if annotation is not None else "str"
    return "?"
