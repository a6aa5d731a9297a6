"""The structure of the code in numbers: ``python -m tests.structure [CHECKOUT]``.

Measured from the syntax trees alone: packages and their lines, arrows between packages and those
that run upwards, import circles between files, lines of rule files, functions above a cyclomatic
complexity of 15, and walks over raw syntax trees in rules. Imports under ``TYPE_CHECKING`` are no
arrows: they vanish when the program runs. A reader follows them all the same, so that circles are
counted with them too, and `weights` measures what else makes the linter hard to read.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

# From the lowest layer to the highest. A package may import those before it, and none after it.
LAYERS = (
    ("source",), ("engine",), ("api",), ("flow",), ("script", "recipes"), ("runs",), ("rule",),
    ("project", "fix", "memory"), ("run",), ("parallel", "profile"), ("reports",),
    ("adopt", "page", "proof"), ("server", "trace"), ("cli",),
)  # fmt: skip
FOLDERS = {"memlint": "memlint", "memlint_rules": "rules/memlint_rules",
           "memlint_runtime": "runtime/memlint_runtime"}  # fmt: skip
# What stands beside the linter: with a bound of its own.
BESIDE = {"adopt", "page", "server", "proof", "parallel", "trace", "profile"}
COMPLEX = 15
RAW_WALKS = ("ast.walk", "ast.unparse", "ast.iter_child_nodes", "script.nodes")
# Packages that read syntax by their nature: text, edits, extracted tables.
SYNTAX = {"engine", "source", "fix", "api"}
# Tables that are written by hand, as code would be: their lines count as those of their package.
TABLES = (
    "*/data/*.rows", "parallel/data/launch.json", "trace/data/cuda.json",
    "run/data/columns.json", "proof/stand_ins/tables.json",
)  # fmt: skip
# The facade that rules import from.
OFFERED = ("memlint.rule.interface",)
_SYNTAX_NAME = re.compile(r"\bast\.[A-Za-z]")
_RULE_CODE = re.compile(r"[\"'`]MEM[1-9]\d\d\b")


class Import(NamedTuple):
    """One import of one file. lazy: it is made when a function runs. typed: only type checkers
    make it."""

    file: str
    module: str
    line: int
    lazy: bool
    typed: bool = False


class Measured(NamedTuple):
    """What was counted in one checkout."""

    lines: dict[str, int]
    imports: list[Import]
    complexity: dict[str, int]
    rule_lines: dict[str, int]
    raw_walks: Counter[str]
    weights: dict[str, int]


def modules(root: Path) -> dict[str, Path]:
    """Every module of the three packages by its dotted name."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root / folder).with_suffix("").parts
            names = (package, *(part for part in parts if part != "__init__"))
            found[".".join(names)] = path
    return found


def tables(root: Path) -> dict[str, str]:
    """The tables that are written by hand, by names as modules have them."""
    folder = root / FOLDERS["memlint"]
    found = [path for pattern in TABLES for path in sorted(folder.glob(pattern))]
    return {
        ".".join(("memlint", *path.relative_to(folder).parts)): path.read_text(encoding="utf-8")
        for path in found
    }


def imports_of(name: str, tree: ast.Module, known: Iterable[str]) -> Iterator[Import]:
    """The imports of modules of ours that a file makes, and those that type checkers make in it."""
    names = set(known)

    def visit(body: ast.AST, lazy: bool, typed: bool = False) -> Iterator[Import]:
        for node in ast.iter_child_nodes(body):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                yield from visit(ast.Module(node.body, []), lazy, True)
                yield from visit(ast.Module(node.orelse, []), lazy, typed)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name in names:
                        yield Import(name, alias.name, node.lineno, lazy, typed)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    target = inner if inner in names else node.module
                    if target in names:
                        yield Import(name, target, node.lineno, lazy, typed)
            else:
                function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from visit(node, lazy or function, typed)

    return visit(tree, False)


def complexities(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """(function, cyclomatic complexity); functions inside a function count on their own."""

    def count(node: ast.AST) -> int:
        total = 0
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if isinstance(
                child,
                ast.If | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.IfExp
                | ast.Assert | ast.With | ast.AsyncWith | ast.match_case,
            ):  # fmt: skip
                total += not isinstance(child, ast.With | ast.AsyncWith)
            elif isinstance(child, ast.BoolOp):
                total += len(child.values) - 1
            elif isinstance(child, ast.comprehension):
                total += 1 + len(child.ifs)
            total += count(child)
        return total

    def visit(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{prefix}{child.name}", 1 + count(child)
                yield from visit(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.ClassDef):
                yield from visit(child, f"{prefix}{child.name}.")
            else:
                yield from visit(child, prefix)

    return visit(tree, "")


def measure(root: Path) -> Measured:
    """Read every file of ``root`` once."""
    files = modules(root)
    lines: dict[str, int] = {}
    found: list[Import] = []
    complexity: dict[str, int] = {}
    rule_lines: dict[str, int] = {}
    walks: Counter[str] = Counter()
    for name, path in files.items():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        lines[name] = text.count("\n")
        found += imports_of(name, tree, files)
        complexity |= {f"{name}:{function}": value for function, value in complexities(tree)}
        if name.startswith("memlint_rules."):
            stem = path.stem
            if stem.startswith("mem") and stem[3:6].isdigit():
                rule_lines[name] = lines[name]
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute):
                    spelled = ast.unparse(node)
                    if spelled in RAW_WALKS:
                        walks[spelled] += 1
    return Measured(
        lines, found, complexity, rule_lines, walks, _weights(files, found, tables(root))
    )


def _weights(
    files: dict[str, Path], imports: list[Import], written: dict[str, str]
) -> dict[str, int]:
    """What makes the linter hard to read, in numbers that may only fall."""
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    linter = {name: text for name, text in texts.items() if package_of(name) != "memlint_runtime"}
    below = {name: text for name, text in linter.items() if package_of(name) != "memlint_rules"}
    names = Counter(files[name].name for name in below if not files[name].stem.startswith("__"))
    rings = circles((each for each in imports if each.file in linter), typed=True)
    return {
        "lines of the linter and its rules": sum(
            text.count("\n")
            for name, text in (linter | written).items()
            if package_of(name) not in BESIDE
        ),
        "lines of the packages beside the linter": sum(
            text.count("\n")
            for name, text in (linter | written).items()
            if package_of(name) in BESIDE
        ),
        "lines of the runtime": sum(
            text.count("\n") for name, text in texts.items() if name not in linter
        ),
        "files in circles, imports for types counted": sum(map(len, rings)),
        "references to ast outside the packages of syntax": sum(
            len(_SYNTAX_NAME.findall(text))
            for name, text in below.items()
            if package_of(name) not in SYNTAX
        ),
        "rule codes outside the rules": sum(len(_RULE_CODE.findall(t)) for t in below.values()),
        "file names used twice": sum(count > 1 for count in names.values()),
        "names offered to the author of a rule": len(_offered(texts)),
        "members of the model that fewer than two files outside it ask": len(_rarely_asked(linter)),
    }


def _rarely_asked(texts: dict[str, str]) -> set[str]:
    """Public methods and questions of the classes of ``memlint.script`` by their names."""
    members: set[str] = set()
    users: Counter[str] = Counter()
    for name, text in texts.items():
        tree = ast.parse(text)
        if package_of(name) == "script":
            classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
            members |= {each for node in classes for each in _questions(node)}
        else:
            nodes = list(ast.walk(tree))
            asked = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            matched = {each for n in nodes if isinstance(n, ast.MatchClass) for each in n.kwd_attrs}
            users.update(asked | matched)
    return {member for member in members if users[member] < 2}


def _questions(node: ast.ClassDef) -> Iterator[str]:
    """The public members of a class that are no fields and no members of an enum."""
    if any("Enum" in ast.unparse(base) for base in node.bases):
        return
    for each in node.body:
        name = ""
        if isinstance(each, ast.FunctionDef):
            name = each.name
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            name = each.targets[0].id
        if name and not name.startswith("_"):
            yield name


def _offered(texts: dict[str, str]) -> set[str]:
    """The names that the modules import which rules import from."""
    return {
        alias.asname or alias.name
        for module in OFFERED
        for node in ast.parse(texts.get(module, "")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def package_of(module: str) -> str:
    """``memlint.engine.values`` -> ``engine``; the top level of memlint is ``""``."""
    parts = module.split(".")
    if parts[0] != "memlint":
        return parts[0]
    packages = {package for row in LAYERS for package in row}
    return parts[1] if len(parts) > 1 and parts[1] in packages else ""


def circles(imports: Iterable[Import], *, typed: bool = False) -> list[list[str]]:
    """Groups of files that import each other in a circle (strongly connected components).

    typed: imports for types alone count too.
    """
    graph: dict[str, set[str]] = defaultdict(set)
    for each in imports:
        if each.file != each.module and (typed or not each.typed):
            graph[each.file].add(each.module)
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def connect(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                connect(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = [stack.pop()]
            while group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            connect(node)
    return sorted(found)


def upward(imports: Iterable[Import]) -> list[Import]:
    """Imports of memlint's packages that run against ``LAYERS``."""
    level = {package: height for height, row in enumerate(LAYERS) for package in row}
    return [
        each
        for each in imports
        if not each.typed
        and package_of(each.file) in level
        and package_of(each.module) in level
        and package_of(each.file) != package_of(each.module)
        and level[package_of(each.module)] >= level[package_of(each.file)]
    ]


def report(measured: Measured) -> str:
    """The numbers as text."""
    by_package: Counter[str] = Counter()
    for name, lines in measured.lines.items():
        top = name.split(".")[0]
        by_package[f"{top}/{package_of(name)}" if top == "memlint" else top] += lines
    rows = [f"{name:32} {lines:6}" for name, lines in sorted(by_package.items())]
    arrows = {
        (package_of(each.file), package_of(each.module))
        for each in measured.imports
        if package_of(each.file) != package_of(each.module) and not each.typed
    }
    against = upward(measured.imports)
    rings = circles(measured.imports)
    over = {name: value for name, value in measured.complexity.items() if value > COMPLEX}
    sizes = sorted(measured.rule_lines.values())
    rows += [
        f"files {len(measured.lines)}, lines {sum(measured.lines.values())}",
        f"arrows between packages {len(arrows)}, upwards {len(against)}",
        *(f"    {each.file}:{each.line} -> {each.module}" for each in against),
        f"import circles between files {len(rings)}",
        *(f"    {', '.join(ring)}" for ring in rings),
        f"rule files {len(sizes)}, lines: median {statistics.median(sizes or [0]):.0f}, "
        f"longest {max(sizes, default=0)}, above 150: {sum(size > 150 for size in sizes)}",
        f"functions {len(measured.complexity)}, cyclomatic complexity above {COMPLEX}: {len(over)}",
        *(
            f"    {value:3} {name}"
            for name, value in sorted(over.items(), key=lambda x: -x[1])[:25]
        ),
        f"raw walks over syntax trees in rules {sum(measured.raw_walks.values())} "
        f"{dict(measured.raw_walks)}",
        *(f"{what}: {count}" for what, count in measured.weights.items()),
    ]
    return "\n".join(rows)


def main() -> None:
    """Print the numbers of the checkout that the command line names, or of this one."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent
    sys.stdout.write(report(measure(root)) + "\n")


if __name__ == "__main__":
    main()
