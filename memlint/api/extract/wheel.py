"""A release, from its wheel or its installed files, as a tree of modules parsed on demand.

What a module binds at run time is read off its top-level statements: definitions, imports,
assignments, and the import structures from which lazily loading packages serve their names.
"""

from __future__ import annotations

import ast
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Defined:
    """A class or function that the module itself defines."""

    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Imported:
    """``name`` of ``module``, or ``module`` itself where ``name`` is None."""

    module: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Assigned:
    """Any other value."""

    value: ast.expr | None


@dataclass(frozen=True, slots=True)
class Outlined:
    """A definition in a module that is read by outline only; ``bases`` as they are written."""

    bases: tuple[str, ...]


Binding = Defined | Imported | Assigned | Outlined

# A model's file is known by its outline: parsing the thousands of them would take an hour, and
# what scripts want of them is which names they define and from what.
_OUTLINE = re.compile(
    r"^(?:class[ ]+(?P<class>\w+)[ ]*(?:\((?P<bases>[^)]*)\))?[ ]*:"
    r"|(?:async[ ]+)?def[ ]+(?P<function>\w+)"
    r"|(?P<value>[A-Za-z_]\w*)[ ]*(?::[^=\n]+)?=[^=]"
    r"|[ ]*from[ ]+(?P<source>\.*[\w.]*)[ ]+import[ ]+(?:\((?P<many>[^)]*)\)|(?P<few>[^\n(]*)))",
    re.M,
)

# Placeholders for missing optional dependencies: never what a script means.
_PLACEHOLDERS = re.compile(r"\bdummy_\w*objects$")


class Module:
    """One module of a wheel."""

    def __init__(self, name: str, source: str, *, is_package: bool, outline: bool = False) -> None:
        self.name = name
        self.source = source
        self.is_package = is_package
        self.outline = outline

    @cached_property
    def tree(self) -> ast.Module:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.parse(self.source)

    @property
    def package(self) -> str:
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @cached_property
    def bindings(self) -> dict[str, Binding]:
        """Top-level names, star imports left out (see ``stars``)."""
        if self.outline:
            return _outline(self)
        found: dict[str, Binding] = {}
        for statement in _executed(self.tree.body):
            for name, binding in _bound(statement, self):
                old = found.get(name)
                # A fallback (`X = None`, a placeholder) never hides the real thing.
                if old is None or isinstance(old, Assigned) or isinstance(binding, Defined):
                    found[name] = binding
        return found

    @cached_property
    def stars(self) -> tuple[str, ...]:
        """Modules imported with ``*``."""
        if self.outline:
            return ()
        return tuple(
            module
            for statement in _executed(self.tree.body)
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*"
            if not _PLACEHOLDERS.search(module := absolute(self, statement))
        )

    @cached_property
    def exported(self) -> tuple[str, ...] | None:
        """``__all__``, as far as it is made of literals."""
        names: list[str] = []
        known = False
        for statement in _executed(self.tree.body):
            match statement:
                case (
                    ast.Assign(targets=[ast.Name(id="__all__")], value=value)
                    | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
                    | ast.AugAssign(target=ast.Name(id="__all__"), value=value)
                ):
                    known = True
                    names.extend(strings(value))
        return tuple(names) if known else None

    @cached_property
    def is_lazy(self) -> bool:
        return "_LazyModule(" in self.source and bool(
            re.search(r"sys\.modules\[__name__\]\s*=\s*_LazyModule\(", self.source)
        )

    @cached_property
    def reads_files(self) -> bool:
        """True if the import structure is gathered from the files beside this one."""
        return "define_import_structure(" in self.source

    @cached_property
    def structure(self) -> dict[str, str]:
        """Name -> module that defines it, from the literal import structure."""
        found: dict[str, str] = {}
        for statement in _executed(self.tree.body):
            for submodule, names in _structure_entries(statement):
                for name in names:
                    found.setdefault(name, f"{self.name}.{submodule}")
        return found

    @cached_property
    def is_dynamic(self) -> bool:
        """True if names may appear that no statement shows."""
        if "__getattr__" in self.bindings:
            return True
        return bool(
            re.search(r"^(globals\(\)\[|globals\(\)\.update|vars\(\)\[)", self.source, re.M)
        )


def absolute(module: Module, statement: ast.ImportFrom) -> str:
    """Return the absolute name of the module that ``statement`` imports from."""
    if not statement.level:
        return statement.module or ""
    parts = module.package.split(".")
    parts = parts[: len(parts) - (statement.level - 1)]
    return ".".join([*parts, statement.module] if statement.module else parts)


def _outline(module: Module) -> dict[str, Binding]:
    """Top-level names of a module that is not parsed."""
    found: dict[str, Binding] = {}
    for match in _OUTLINE.finditer(module.source):
        for name, binding in _outlined(match, module):
            if isinstance(binding, Outlined) or name not in found:
                found[name] = binding
    return found


def _outlined(match: re.Match[str], module: Module) -> Iterator[tuple[str, Binding]]:
    """Yield the names that one line of an outline binds."""
    if name := match["class"]:
        bases = re.sub(r"\[[^\]]*\]|#[^\n]*", "", match["bases"] or "")
        parts = [base.strip() for base in bases.split(",")]
        yield name, Outlined(tuple(part for part in parts if part and "=" not in part))
    elif name := match["function"]:
        yield name, Outlined(())
    elif name := match["value"]:
        yield name, Assigned(None)
    elif match["source"] is not None:
        yield from _outlined_imports(match["source"], match["many"] or match["few"] or "", module)


def _outlined_imports(source: str, listed: str, module: Module) -> Iterator[tuple[str, Binding]]:
    """Read ``from source import listed``."""
    level = len(source) - len(source.lstrip("."))
    statement = ast.ImportFrom(module=source[level:] or None, names=[], level=level)
    origin = absolute(module, statement)
    if _PLACEHOLDERS.search(origin):
        return
    for item in re.sub(r"#[^\n]*", "", listed).split(","):
        original, _, bound = item.strip().partition(" as ")
        bound = bound.strip() or original
        if bound.isidentifier():
            yield bound, Imported(origin, original.strip())


def strings(node: ast.AST) -> list[str]:
    """Return all string literals under ``node``, in order."""
    return [
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]


def _executed(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run at import, whatever is installed; type-checking branches do not."""
    for statement in body:
        if isinstance(statement, ast.If):
            test = ast.unparse(statement.test)
            if test not in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
                yield from _executed(statement.body)
            yield from _executed(statement.orelse)
        elif isinstance(statement, ast.Try):
            yield from _executed(statement.body)
            yield from _executed(statement.orelse)
            for handler in statement.handlers:
                yield from _executed(handler.body)
            yield from _executed(statement.finalbody)
        elif isinstance(statement, ast.With):
            yield from _executed(statement.body)
        else:
            yield statement


def _bound(statement: ast.stmt, module: Module) -> Iterator[tuple[str, Binding]]:
    match statement:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            yield statement.name, Defined(statement)
        case ast.ImportFrom(names=aliases):
            source = absolute(module, statement)
            if not _PLACEHOLDERS.search(source):
                for alias in aliases:
                    if alias.name != "*":
                        yield alias.asname or alias.name, Imported(source, alias.name)
        case ast.Import(names=aliases):
            for alias in aliases:
                root = alias.name.partition(".")[0]
                yield alias.asname or root, Imported(alias.name if alias.asname else root, None)
        case ast.Assign(targets=targets, value=value):
            for name in _stored(targets):
                yield name, Assigned(value)
        case ast.AnnAssign(target=ast.Name(id=name), value=annotated):
            yield name, Assigned(annotated)


def _stored(targets: list[ast.expr]) -> Iterator[str]:
    for target in targets:
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _structure_entries(statement: ast.stmt) -> Iterator[tuple[str, list[str]]]:
    """Yield the entries that ``statement`` adds to ``_import_structure``: submodule and names."""
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id="_import_structure")], value=ast.Dict() as table)
            | ast.AnnAssign(target=ast.Name(id="_import_structure"), value=ast.Dict() as table)
        ):
            for key, value in zip(table.keys, table.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, strings(value)
        case (
            ast.Assign(
                targets=[
                    ast.Subscript(
                        value=ast.Name(id="_import_structure"), slice=ast.Constant(value=str(key))
                    )
                ],
                value=value,
            )
            | ast.AugAssign(
                target=ast.Subscript(
                    value=ast.Name(id="_import_structure"), slice=ast.Constant(value=str(key))
                ),
                value=value,
            )
            | ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(
                        value=ast.Subscript(
                            value=ast.Name(id="_import_structure"),
                            slice=ast.Constant(value=str(key)),
                        ),
                        attr="extend" | "append",
                    ),
                    args=[value],
                )
            )
        ):
            yield (
                key,
                [
                    text
                    for text in strings(value)
                    if text != key or not isinstance(value, ast.Subscript)
                ],
            )
        case _:
            return


@dataclass
class Wheel:
    """One release: the modules of it that are read."""

    package: str
    version: str
    path: Path
    modules: dict[str, Module] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)

    @classmethod
    def open(
        cls, package: str, version: str, path: Path, keep: re.Pattern[str], outline: re.Pattern[str]
    ) -> Wheel:
        """Read the modules whose dotted name ``keep`` matches in full.

        Those that ``outline`` matches too are not parsed.
        """
        wheel = cls(package, version, path)
        prefix = f"{package}/"
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if member.startswith(prefix) and member.endswith(".py"):
                    wheel._add(member, partial(archive.read, member), keep, outline)
        return wheel

    @classmethod
    def of_files(
        cls,
        package: str,
        version: str,
        files: Mapping[str, Callable[[], bytes]],
        keep: re.Pattern[str],
        outline: re.Pattern[str],
    ) -> Wheel:
        """Return the readers of single files: path (``trl/trainer/utils.py``) and its reader."""
        wheel = cls(package, version, Path())
        for member, content in files.items():
            wheel._add(member, content, keep, outline)
        return wheel

    def _add(
        self,
        member: str,
        content: Callable[[], bytes],
        keep: re.Pattern[str],
        outline: re.Pattern[str],
    ) -> None:
        name = member[:-3].replace("/", ".")
        is_package = name.endswith(".__init__")
        name = name.removesuffix(".__init__")
        if not keep.fullmatch(name):
            self.unread.add(name)
            return
        self.modules[name] = Module(
            name,
            content().decode("utf-8", errors="replace"),
            is_package=is_package,
            outline=not is_package and bool(outline.fullmatch(name)),
        )
