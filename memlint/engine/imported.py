"""What names of other files of the project stand for.

A file is run when one of its names is first needed, as an import does: its names are bound, and
nothing of it that is not called is run. A script that leads to the file that is checked is run as
it runs by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint.engine.frames import frame_of, return_to
from memlint.engine.project import MAX_DEPTH, MAX_MODULES, Module, may_be_of_project
from memlint.engine.values import (
    UNKNOWN,
    Class,
    Constant,
    Function,
    Object,
    Sequence,
    Symbol,
    Value,
    library_base,
)

if TYPE_CHECKING:
    from memlint.engine.interpreter import Interpreter
    from memlint.engine.state import State

# Beyond so many statements no other script is run for a file: it has some of its own.
MAX_STEPS_ABOVE = 10_000
# What a script trains with, made by another file: dicts, and a library's models and configurations.
_FOLLOWED = ("dict", "transformers.", "trl.", "peft.")


def project_value(run: Interpreter, name: str) -> Value | None:
    """The function or class that a name of another file of the project stands for."""
    value = _value_elsewhere(run, name)
    return value if isinstance(value, Function | Class) else None


def project_constant(run: Interpreter, symbol: Symbol) -> Value:
    """What a name of another file stands for where that is plain data; else the name.

    ``from config import BATCH_SIZE``, ``config.SFT_OPTIONS``: numbers, strings, lists, dicts,
    instances of data classes; models and configurations of a library; and classes of arguments
    and trainers.
    """
    if run.project is None or not may_be_of_project(symbol.name):
        return symbol
    value = _value_elsewhere(run, symbol.name)
    if value is None or not _is_plain(value):
        return symbol
    # ``settings.MODEL = ...``: what is set on a module is not followed.
    name = symbol.name.rpartition(".")[2]
    changed = name in run.setters.foreign or (not run.called and name in run.setters.names)
    return symbol if changed and not isinstance(value, Class) else value


def starred(run: Interpreter, name: str) -> Value:
    """What a name is that nothing binds here: ``from settings import *`` may bring it in, with what
    that file imports itself. The last import decides; of several, libraries are not told apart."""
    left = []
    for module in reversed(run.stars):
        full = f"{module}.{name}"
        found = run.project.find(full, run.homes.get(run.root_scope())) if run.project else None
        scope = _scope_of(run, found[0]) if found is not None and found[1] == name else None
        binding = run.state.get((scope, name)) if scope is not None else None
        if binding is None:
            left += [module] if scope is None else []
        elif isinstance(binding.value, Symbol) and not binding.value.name.startswith("."):
            return project_constant(run, binding.value)
        else:
            return project_constant(run, Symbol(full))
    return Symbol(f"{left[0]}.{name}") if len(left) == 1 else UNKNOWN


def _is_plain(value: Value) -> bool:
    if isinstance(value, Class):
        # Of settings, or derived from a library's configuration or trainer.
        library = library_base(value) or ""
        return library.startswith(_FOLLOWED[1:3]) or (value.is_dataclass and not library)
    if isinstance(value, Object):
        own, kind = value.cls, value.type or ""
        return own.is_dataclass if own is not None else kind.startswith(_FOLLOWED)
    return isinstance(value, Constant | Sequence)


def _value_elsewhere(run: Interpreter, name: str, depth: int = 3) -> Value | None:
    if run.project is None or not may_be_of_project(name):
        return None
    found = run.project.find(name, run.homes.get(run.root_scope()))
    if found is None:
        return None
    module, path = found
    scope = _scope_of(run, module)
    first, _, rest = path.partition(".")
    binding = run.state.get((scope, first)) if scope is not None else None
    if binding is None or scope is None:
        return _by_star(run, scope, path, depth) if scope is not None else None
    value = binding.value
    if isinstance(value, Symbol) and depth:
        full = f"{value.name}.{rest.partition('.')[0]}" if rest else value.name
        return _from_there(run, scope, full, depth)
    if isinstance(value, Class) and rest:
        method = run.class_binding(value, rest)
        return method.value if method is not None else None
    return value if not rest else None


def _by_star(run: Interpreter, scope: int, name: str, depth: int) -> Value | None:
    """What a name stands for that another file imports with all others of a third."""
    stars = run.stars_of.get(scope, ()) if depth else ()
    values = (_from_there(run, scope, f"{star}.{name}", depth) for star in reversed(stars))
    return next((one for one in values if one is not None), None)


def _from_there(run: Interpreter, scope: int, name: str, depth: int) -> Value | None:
    """What a name stands for that another file imports from a third."""
    before, run.scope = run.scope, scope
    third = _value_elsewhere(run, name, depth - 1)
    run.scope = before
    return third


def _scope_of(run: Interpreter, module: Module) -> int | None:
    """The scope of another file; None while it runs, and beyond the bounds."""
    path = module.path
    if path in run.module_scopes:
        return run.module_scopes[path]
    # Each script that leads to the file may import as many.
    most = MAX_MODULES * (1 + len(run.led_by))
    if len(run.module_scopes) >= most or run.module_depth >= MAX_DEPTH:
        return None
    run.module_scopes[path] = None
    scope = run.module_scopes[path] = _run_module(run, module)
    return scope


def run_scripts_above(run: Interpreter) -> None:
    """Run the scripts that lead to the file, until they have called all that it defines; of a file
    that only makes models or configurations the nearest."""
    if run.project is None:
        return
    is_whole = _is_called(run) if run.defined else not run.project.is_library
    # What runs no model as it is run makes rows and models for what imports it.
    is_whole = is_whole and (run.project.trains or bool(run.forwards))
    if (is_whole and not run.project.is_led_alone) or not run.project.scripts_above:
        return
    run.project.lead_to(run.trees[0])
    assert run.project.own is not None
    run.module_scopes[run.project.own.path] = 0
    for path in run.project.scripts_above:
        module = run.project.script(path)
        if module is None or path in run.module_scopes:
            continue
        if run.steps > MAX_STEPS_ABOVE or (run.led_by and _is_called(run)):
            return
        first = run._order
        run.scripts.add(path)
        run.module_scopes[path] = None
        run.module_scopes[path] = _run_module(run, module)
        run.led_by.append((path, first, run._order))


def _is_called(run: Interpreter) -> bool:
    return all(one.node in run.runs for one in run.defined)


def _run_module(run: Interpreter, module: Module) -> int:
    """Run a file as an import does: its names are bound, and nothing of it is uncalled. What a
    script defines and never calls is run as well: something out of sight may call it."""
    state, run.state = run.state, _first_state(run)
    unreachable, run.state.unreachable = run.state.unreachable, False
    frame = frame_of(run)
    lengths = len(run.defined), len(run.classes), len(run.imports)
    run.scope = scope = run.new_scope(None)
    run.homes[scope] = module.path
    run.contexts, run.loop_nest = (), ()
    run.branches = run.loops = 0
    run.function, run.returns, run.stars = None, [], {}
    run.trees.append(module.tree)
    run.texts.append(module.text)
    is_script = module.path in run.scripts
    run.module_depth += not is_script
    run.block(module.tree.body)
    if is_script:
        run.state.unreachable = False
        run.run_uncalled(lengths[0])
    run.module_depth -= not is_script
    run.stars_of[scope] = tuple(run.stars)
    del run.defined[lengths[0] :], run.classes[lengths[1] :], run.imports[lengths[2] :]
    return_to(run, frame)
    run.state.unreachable = unreachable
    run.state = state
    return scope


def _first_state(run: Interpreter) -> State:
    """What all branches know: where the names of other files are kept."""
    state = run.state
    while state.parent is not None:
        state = state.parent
    return state
