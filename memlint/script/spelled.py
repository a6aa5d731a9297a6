"""What a script spells out: functions by name, strings, attributes, the keys that it reads."""

import ast
import builtins
import sys
from collections.abc import Iterator

from memlint.engine.imported import project_value
from memlint.engine.nodes import Node, holder_of, last_name, literal_of, targets_of, walk
from memlint.engine.project import is_library
from memlint.engine.usage import Usage, Way, parameter_of, places_of
from memlint.engine.values import Class, Function, Object, Symbol, Value, library_base, options
from memlint.script.calls import Host

# What is of these asks no dict of a script for an option of a trainer's.
_LIBRARIES = sys.stdlib_module_names | {
    *("accelerate", "datasets", "mlflow", "numpy", "omegaconf", "pandas", "rich", "tensorboard"),
    *("torch", "transformers", "trl", "wandb", "yaml"),
}


def exports(script: Host, name: str) -> bool:
    """True if ``__all__`` lists the name."""
    return any(
        isinstance(item, ast.Constant) and item.value == name
        for node in script.nodes(ast.Assign)
        if isinstance(node.value, ast.List | ast.Tuple)
        and len(node.targets) == 1
        and getattr(node.targets[0], "id", "") == "__all__"
        for item in node.value.elts
    )


def reads_key(script: Host, key: str, but_in: ast.AST) -> bool:
    """True if some mapping is asked for ``key``, elsewhere than within ``but_in``."""
    outside = script.span(but_in)
    asked: list[ast.AST] = [
        node
        for node in script.nodes(ast.Subscript)
        if isinstance(node.ctx, ast.Load) and getattr(node.slice, "value", None) == key
    ]
    asked += [
        call.node
        for call in script.method_calls("get", "pop", "setdefault")
        if call.node.args and getattr(call.node.args[0], "value", None) == key
    ]
    return not all(outside.contains(script.span(node)) for node in asked)


def reads_of_self(definition: ast.ClassDef) -> Iterator[ast.Attribute]:
    """Yield ``self.name`` where methods read what the class itself does not set or define."""
    inside = list(ast.walk(definition))
    of_self = [
        node
        for node in inside
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self"
    ]
    own = {node.attr for node in of_self if not isinstance(node.ctx, ast.Load)}
    own |= {node.name for node in inside if isinstance(node, ast.FunctionDef)}
    own |= attributes_of_class(definition)
    for node in of_self:
        if isinstance(node.ctx, ast.Load) and node.attr not in own:
            yield node


def attributes_of_class(definition: ast.ClassDef) -> frozenset[str]:
    """Return the names to which statements of the class's body assign."""
    targets: list[ast.expr] = []
    for statement in definition.body:
        if isinstance(statement, ast.Assign):
            targets += statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets.append(statement.target)
    return frozenset(target.id for target in targets if isinstance(target, ast.Name))


def gives_attribute(definition: ast.ClassDef, name: str) -> bool:
    """True if a class has an attribute by its body, or by what its methods set."""
    for node in walk(definition.body):
        is_set = isinstance(getattr(node, "ctx", None), ast.Store)
        if getattr(node, "attr" if is_set else "name", "") == name:
            return True
    return name in attributes_of_class(definition)


def classes_of(thing: Object) -> list[ast.ClassDef]:
    """Return the classes of an instance, its own first; none where a base is out of sight."""
    classes: list[Value | None] = [thing.cls]
    for one in classes:  # grows meanwhile
        if not isinstance(one, Class):
            return []
        of_libraries = [base for base in one.bases if isinstance(base, Symbol)]
        if not all(is_library(base.name) for base in of_libraries):
            return []
        classes += [base for base in one.bases if base not in of_libraries]
    return [one.node for one in classes if isinstance(one, Class)]


def library_class(script: Host, base: ast.expr) -> str:
    """The class of a library that a base of a class is, or is derived from in the project."""
    value = script.value(base)
    name = library_base(value) if isinstance(value, Class) else script.name(base)
    return script.api.canonical(name or "")


def is_handed_to_asker(script: Host, statement: Node, key: str) -> bool:
    """True if the dict that an assignment makes, or sets an item of, is handed to a function that
    may ask it for ``key``: one of the project that spells the key, or one that is out of sight."""
    targets = [place for one in targets_of(statement) for place in places_of(one)]
    uses = [node for place in targets for node in script.mentions(place.name)]
    return any(_may_be_asked(script, node, key) for node in uses)


def _may_be_asked(script: Host, node: Node, key: str, depth: int = 3) -> bool:
    use = script.use(node)
    if use.way is not Way.GIVEN or (use.keyword is None and use.position is None):
        # ``**options`` makes arguments of its items.
        return False
    return any(_may_ask(script, use, value, key, depth) for value in options(_called(script, use)))


def _called(script: Host, use: Usage) -> Value:
    """What is called; of a method that is not known, what it is called on."""
    value, holder = script.value(use.call.func), holder_of(use.call)
    if holder is None or isinstance(value, Symbol | Function):
        return value
    return script.value(holder)


def _may_ask(script: Host, use: Usage, called: Value, key: str, depth: int) -> bool:
    if isinstance(called, Symbol) and script._run.project is not None:
        called = project_value(script._run, called.name) or called
    if isinstance(called, Symbol | Object):
        made = called if isinstance(called, Symbol) else called.root.made_by
        return made is None or not _is_of_library(made.name)
    parameter = parameter_of(called, use) if isinstance(called, Function) else None
    if not isinstance(called, Function) or parameter is None or not depth:
        return True
    nodes = walk([called.node])
    return any(
        literal_of(node) == key
        or (last_name(node) == parameter.arg and _may_be_asked(script, node, key, depth - 1))
        for node in nodes
    )


def _is_of_library(name: str) -> bool:
    package, _, rest = name.partition(".")
    return package in _LIBRARIES or (not rest and package in vars(builtins))


def texts_given_to(script: Host, name: str, block: ast.With) -> list[ast.expr] | None:
    """Return what calls of ``name`` within a block get, one text each.

    None where ``name`` is used otherwise there, or lines of text would not bear another indent.
    """
    texts: list[ast.expr] = []
    called: set[ast.expr] = set()
    for node in (inner for statement in block.body for inner in ast.walk(statement)):
        if isinstance(node, ast.JoinedStr) or _spans_lines(node):
            return None
        if isinstance(node, ast.Call) and script.text(node.func) == name:
            given = {keyword.arg for keyword in node.keywords}
            if len(node.args) != 1 or isinstance(node.args[0], ast.Starred):
                return None
            if not given.isdisjoint(("text", "text_target", "text_pair")):
                return None
            texts.append(node.args[0])
            called.add(node.func)
        elif node not in called and isinstance(node, ast.expr) and script.text(node) == name:
            return None
    return texts


def _spans_lines(node: ast.AST) -> bool:
    text = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    return text and node.end_lineno != node.lineno  # type: ignore[attr-defined]
