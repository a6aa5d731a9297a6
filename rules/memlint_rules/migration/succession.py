"""Turning what the tables say of a successor into edits.

What was called, moved, merged or dropped is knowledge of ``memlint.api``; here it meets one call of
one script: where the option stands (keyword, dict item, subscript, attribute), whether its value
can be read where it has to go, and what else the call already says. Where an edit would be a guess
there is advice instead.
"""

import ast

from memlint.rule import (
    UNSURE,
    Call,
    Fix,
    How,
    Script,
    Setting,
    Trainer,
    advise,
    edits,
    facts,
    fix,
    places,
    successors,
)
from memlint_rules.migration.built_options import built
from memlint_rules.migration.option_places import Edits, Option, assigned, option_of
from memlint_rules.migration.prompt_limits import kept_limit
from memlint_rules.migration.relocation import moved_to_config

# Configurations set these by their new names, and the old ones after them.
_MIRRORED = frozenset({"gradient_checkpointing", "gradient_checkpointing_kwargs"})


def option_fix(
    script: Script, call: Call, setting: Setting, replacement: successors.Successor | None
) -> Fix | None:
    """What to do about an option of a call, as edits where they are certain, else as advice."""
    if replacement is None:
        return None
    if isinstance(replacement, successors.Environment) and _logs_elsewhere(script, call):
        replacement = successors.Remove(note="nothing is logged to TensorBoard")
    message = _message(setting.name, replacement)
    if _is_read_back(script, call, setting):
        return advise(message)
    if isinstance(replacement, successors.Runtime):
        option = option_of(script, call, setting)
        limited = kept_limit(option, replacement) if option is not None else None
        changes, unsafe = limited or (None, False)
        return fix(message, changes, unsafe=unsafe)
    changes = _option_edits(script, call, setting, replacement)
    if isinstance(replacement, successors.Rename) and changes is not None:
        place = places.place_of(script, setting)
        if place is not None and changes == place.removed():
            message = f"Remove `{setting.name}`: `{replacement.parameter}` is given, and holds"
    if changes is None and _has_plain_arguments(call):
        message += ", once that is TRL's own (MEM905)"
    is_safe = replacement.safe and not _may_be_missed(script, call, setting)
    return fix(message, changes, unsafe=not is_safe)


def _has_plain_arguments(call: Call) -> bool:
    """True for a trainer whose configuration is to become another."""
    config = call.config if isinstance(call, Trainer) else None
    return config is not None and config.kind == "transformers.TrainingArguments"


def _may_be_missed(script: Script, call: Call, setting: Setting) -> bool:
    """True if a script that runs at the target may ask for the option by its old name: of what is
    made with it, or of a dict that it reads more than once."""
    owner = setting.owner
    if owner is None:
        return False
    if setting.how in (How.ITEM, How.SUBSCRIPT):
        bound = owner if setting.how is How.SUBSCRIPT else script.parent(owner)
        if bound is not None and facts.is_handed_to_asker(script, bound, setting.name):
            return True
    if script.api.accepts(call.name, setting.name) is False:
        return False
    if script.reads_of_attribute(setting.name) and setting.name not in _MIRRORED:
        return True
    around = script.parent(owner)
    if isinstance(around, ast.Assign) and isinstance(around.targets[0], ast.Name):
        return owner is not call.node and not script.is_read_once(around.targets[0].id)
    return not (owner is call.node or isinstance(around, ast.keyword))


def _logs_elsewhere(script: Script, call: Call) -> bool:
    """True if a configuration certainly has no tracker that would ask the environment."""
    if script.may_use("TensorBoardCallback"):
        return False
    trackers = call.effective("report_to").value
    named = trackers if isinstance(trackers, list) else [trackers]
    return not any(not isinstance(one, str) or one in ("all", "tensorboard") for one in named)


def _message(name: str, replacement: successors.Successor) -> str:
    match replacement:
        case successors.Rename(parameter=new):
            text = f"Write `{new}` instead of `{name}`"
        case successors.Move(parameter=new):
            text = f"Set `{new}` in the trainer's configuration"
        case successors.Build(parameter=new, source=source):
            shown = source.replace("{{", "{").replace("}}", "}").replace("{value}", "...")
            text = f"Write `{new}={shown}`"
        case successors.Environment(variable=variable):
            text = f"Set `{variable}` in the environment"
        case successors.Runtime(function=function):
            text = f"Let `{function}` do it"
        case successors.Remove():
            text = f"Remove `{name}`"
        case _:
            return replacement.note[:1].upper() + replacement.note[1:]
    return f"{text}: {replacement.note}" if replacement.note else text


def _is_read_back(script: Script, call: Call, setting: Setting) -> bool:
    """True if the option stands in a dictionary from which the script reads it by its old name.

    What is read while the dictionary is made (``{"packing": recipe["packing"]}``) is another's.
    """
    owner = setting.owner
    if setting.how is How.ATTRIBUTE or owner is call.node or owner is None:
        return False
    return facts.reads_key(script, setting.name, but_in=owner)


def _option_edits(
    script: Script, call: Call, setting: Setting, replacement: successors.Successor
) -> Edits | None:
    if isinstance(replacement, successors.Remove):
        place = places.place_of(script, setting)
        return place.removed() if place is not None else None
    option = option_of(script, call, setting)
    if option is None:
        return None
    match replacement:
        case successors.Rename():
            return _renamed(option, replacement)
        case successors.Build():
            return built(option, replacement)
        case successors.Move():
            return moved_to_config(option, replacement)
        case successors.Environment():
            return _in_environment(option, replacement.variable)
        case _:
            return None


def _renamed(option: Option, replacement: successors.Rename) -> Edits | None:
    present = option.call.setting(replacement.parameter)
    if present.given is not False and not _is_apart(option, replacement.parameter):
        return _beside_new_name(option, replacement, present)
    renamed = option.place.renamed(replacement.parameter)
    if renamed is None or replacement.source == "{value}":
        return renamed
    filled = replacement.source.format(value=option.text)
    return (*renamed, edits.ReplaceExpression(option.script.span(option.value), filled))


def _is_apart(option: Option, new: str) -> bool:
    """True if the new name could come in unseen only, which makes it another thing.

    What ``**`` or a command line may bring in beside the old name is no new name of the same
    thing; what is assigned after it counts.
    """
    unseen = option.call.has_unknown_keywords and new not in option.call.keywords
    setting = option.setting
    return unseen and (setting.how in (How.KEYWORD, How.ATTRIBUTE) or setting.from_launch)


def _beside_new_name(
    option: Option, replacement: successors.Rename, present: Setting
) -> Edits | None:
    """The call gives the old name and, as ``present``, the new one."""
    gone = option.place.removed()
    if gone is None or not present.given:
        return None
    if not (present.is_none or present.is_value(0)):
        return gone if present.known else None
    if present.is_overridable_default:
        # A flag may make it count.
        return None
    # ``warmup_steps=0, warmup_ratio=0.1``: the one that says something counts.
    source = replacement.source.format(value=option.text)
    moved = edits.set_option(
        option.script, option.call, replacement.parameter, source, despite_comments=True
    )
    return (*gone, *moved) if moved is not None else None


def _in_environment(option: Option, variable: str) -> Edits | None:
    """``os.environ[variable] = str(value)`` before the statement that gives the option."""
    script, owner = option.script, option.setting.owner or option.call.node
    gone = option.place.removed()
    if gone is None or isinstance(option.place, places.InAssignment):
        return None
    statement = script.statement(owner)
    if not script.is_bound_before(option.value, statement):
        return None
    reference = edits.reference_to(script, "os.environ", statement)
    if reference is None or not isinstance(statement, ast.Assign | ast.Expr | ast.AnnAssign):
        return None
    if option.says_nothing is not False:
        return option.where_unsaid()
    line = _environment_line(option, f'{reference.text}["{variable}"] = ')
    return (*gone, edits.InsertStatement(script.span(statement), line), *reference.edits)


def _environment_line(option: Option, target: str) -> str:
    value, text = option.value, assigned(option.text)
    chooses, known = isinstance(value, ast.IfExp), option.setting.value
    if (isinstance(known, str) and not chooses) or _is_string(option.script, value):
        return target + text
    is_read = isinstance(value, ast.Name | ast.Attribute | ast.Subscript)
    if isinstance(value, ast.Call) and len(value.args) == 1:
        is_read = option.script.text(value.func).endswith((".get", "getenv"))  # no default
    if chooses or (known is UNSURE and is_read):
        condition = f"({text})" if chooses else text
        return f"if {condition} is not None:\n    {target}str({text})"
    return f"{target}str({text})"


def _is_string(script: Script, value: ast.expr) -> bool:
    """True if an expression definitely makes a string."""
    if isinstance(value, ast.JoinedStr):
        return True
    return isinstance(value, ast.Call) and script.name(value.func) in _MAKE_STRINGS


_MAKE_STRINGS = frozenset({"builtins.str", "str", "os.path.join", "os.path.abspath"})
