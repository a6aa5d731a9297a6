"""Every regular expression over a user's text takes time in proportion to the text.

The patterns are collected from the code itself. Each that repeats something without a near bound
gets the texts that such patterns fail on: what stands before the repetition, then sixty
thousand of what it repeats, then something that does not fit; and all of that again and again.
"""

from __future__ import annotations

import ast
import importlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
LENGTH = 60_000
SECONDS = 0.7  # a pattern that is linear takes milliseconds, any other some seconds
# A repetition that ends after so many costs a factor, no more.
NEAR = 1_000
ANCHORED = {"match", "fullmatch"}
METHODS = {*ANCHORED, "search", "finditer", "findall", "sub", "subn", "split"}
# Run by those who maintain the tables, on released wheels; and patterns that stand in our pages.
MAINTAINERS = {
    *("__main__", "recipe_schemas", "build", "wheels", "history", "option_values", "tabulate"),
    *("wheel", "deprecations"),
}


# Tables of patterns, and the calls that use them one by one.
TABLES = {
    "memlint.api.knowledge.families": ("_FAMILIES", "_WHOLE", "_REFUSED"),
    "memlint.api.knowledge.sizes": ("_WRITTEN", "_WORDS"),
    "memlint.memory.oom_log": ("_FRAMES", "_PHASES"),
    "memlint.profile.stacks": ("DATA",),
    "memlint.proof.comparing": ("_MISTAKEN",),
    "memlint.proof.stand_ins.sample_rows": ("TABLES",),
    "memlint.project.checkouts": (
        *("_PROJECT_NAME", "_SETUP_NAME", "_SETUP_VERSION", "_PROJECT_VERSION"),
    ),
}
OF_TABLES = {
    "memlint.api.knowledge.families": (
        *("re.compile('|'.join(patterns))", "re.search(pattern, self._name)"),
        "pattern.search(self._whole if whole else self._name)",
    ),
    "memlint.api.knowledge.sizes": ("re.search(written, name)", "re.search(pattern, name)"),
    "memlint.memory.oom_log": (
        "re.search(words, text, re.I)",
        "re.search(words, plain, re.I)",
    ),
    "memlint.profile.stacks": (
        *("re.compile(pattern, re.M)", "re.search(pattern, self.words)"),
        *("each.findall(native)", "pattern.search(f'{words}\\n{native}\\n{said}')"),
    ),
    "memlint.project.checkouts": (
        "re.search(pattern, text)",
        "re.search(_SETUP_VERSION if name == 'setup.py' else _PROJECT_VERSION, text)",
    ),
    "memlint.proof.stand_ins.tiny_models": ("re.search(pattern, name.lower())",),
    "memlint.proof.child": ("re.search(pattern, text)",),
    # What is replaced is no pattern but a word.
    "memlint.proof.comparing": (
        *("re.search(said, error)", "re.sub(old, found.expand(new), columns)"),
    ),
    "memlint.proof.stand_ins.asked_options": (
        *("re.search(asked, name)", "re.search(pattern, self._text)"),
    ),
    # Of names of imports; each of its repetitions is bounded.
    "memlint.engine.project": ("re.search(_HANDS % (bound, bound, settings), module.text)",),
    # Of names, which are escaped.
    "memlint.run.parsings": ("re.finditer(word, data)",),
    "memlint.fix.untouched": (
        r"re.findall(b'\\b%s[\\s\\\\]+as[\\s\\\\]+(\\w+)' % name, data)",
        r"re.compile(b'\\b(?:%s)\\b' % b'|'.join([b'import', *said]))",
    ),
    # Of the user: of names that ``_MOST_REPEATS`` bounds.
    "memlint.memory.weights": ("re.compile(pattern)",),
    # Of globs, by atomic groups: tests of ignore files say so.
    "memlint.project.ignores": ("re.compile(_translate(glob), re.DOTALL)",),
    # Rules hand it over, by ``script.matches``: those calls are collected.
    "memlint.script.tree": ("re.search(pattern, self.source.text)",),
}
# What a name or a marker that is escaped stands for in the texts.
ESCAPED = {"name": "name", "edit": SimpleNamespace(name="name"), "marks": SimpleNamespace(cell="c")}


class Pattern(NamedTuple):
    """``anchored``: it is tried at the beginning of a text alone."""

    place: str
    text: str | bytes
    flags: int
    anchored: bool


def modules() -> Iterator[tuple[str, Path]]:
    for top in (ROOT / "memlint", ROOT / "rules" / "memlint_rules"):
        for path in sorted(top.rglob("*.py")):
            if path.parent.name == "extract" and path.stem in MAINTAINERS:
                continue
            if path.name == "__main__.py":
                continue
            name = ".".join(path.relative_to(top.parent).with_suffix("").parts)
            yield name.removesuffix(".__init__"), path


def rows(module: Any, table: str) -> list[str]:
    value = getattr(module, table)
    if isinstance(value, str):
        return [value]
    if "families" in value:
        pairs = [*value["families"], *value["advice"]]
        answers = [pattern for row in value["answers"] for pattern in row[:2]]
        return [*(pattern for pattern, _ in pairs), *answers]
    if isinstance(value, dict):  # a file of several tables
        kinds = [pattern for _, _, pattern, _ in value["kinds"]]
        return [*value["patterns"].values(), *value["marks"].values(), *kinds]
    return [one for row in value for one in row[:1]]


def methods_of(name: str, text: str) -> set[str]:
    return set(re.findall(rf"\b{name}\.(\w+)", text)) & METHODS


def collected() -> tuple[list[Pattern], list[str]]:
    """All patterns, and the places of those that cannot be known before the run."""
    found: list[Pattern] = []
    unknown: list[str] = []
    texts = {name: path.read_text(encoding="utf-8") for name, path in modules()}
    for name, text in texts.items():
        module = importlib.import_module(name)
        for table in TABLES.get(name, ()):
            found += (Pattern(f"{name}: {table}", one, 0, False) for one in rows(module, table))
        tree = ast.parse(text)
        assigned = {
            id(node.value): node.targets[0].id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            method = called(node)
            if method is None or name == "memlint.source.patterns":
                continue
            assert isinstance(node, ast.Call)
            place = f"{name}: {ast.unparse(node)[:90]}"
            if place.removeprefix(f"{name}: ") in OF_TABLES.get(name, ()):
                continue
            space = {**vars(module), "re": re, **ESCAPED}
            try:
                pattern = evaluated(node.args[0], space)
                flags = sum(evaluated(each, space) for each in flags_of(node, method))
            except Exception:
                unknown.append(place)
                continue
            if isinstance(pattern, re.Pattern):
                pattern, flags = pattern.pattern, pattern.flags & ~re.UNICODE
            anchored = method in ANCHORED
            target = assigned.get(id(node))
            if method == "compile" and target is not None:
                users = [one for one in texts.values() if re.search(rf"import.*\b{target}\b", one)]
                uses = set().union(*(methods_of(target, one) for one in [text, *users]))
                anchored = bool(uses) and uses <= ANCHORED
            found.append(Pattern(place, pattern, flags, anchored))
    return found, unknown


def called(node: ast.AST) -> str | None:
    """``compile``, ``search``, ... of a call that takes a pattern."""
    match node:
        case ast.Call(func=ast.Name(id="lazy_pattern")):
            return "compile"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=attr)):
            return attr if attr in METHODS | {"compile"} else None
    return None


def flags_of(node: ast.Call, method: str) -> list[ast.expr]:
    named = [each.value for each in node.keywords if each.arg == "flags"]
    at = 1 if method == "compile" else 2
    return named or (node.args[at : at + 1] if method not in ("sub", "subn", "split") else [])


def evaluated(node: ast.expr, space: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "pattern", "eval"), space)


# -- texts that make a pattern try everything -----------------------------------------------------


def samples(parts: Any) -> str:
    """A short text that the parts of a pattern match, as far as that is easily said."""
    return "".join(sample(op, value) for op, value in parts)


def sample(op: Any, value: Any) -> str:
    if op is codes.LITERAL:
        return chr(value)
    if op is codes.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if op is codes.ANY:
        return "a"
    if op is codes.IN:
        return characters(value)[0]
    if op is codes.BRANCH:
        return samples(value[1][0])
    if op is codes.SUBPATTERN:
        return samples(value[3])
    if op is codes.ATOMIC_GROUP:
        return samples(value)
    if op in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return samples(value[2]) * value[0]
    return ""


def characters(items: Any) -> str:
    """Characters of a class."""
    negated = items[0][0] is codes.NEGATE
    found = "".join(
        each for each in " a1_-./\"'\\=,\n\t#([{:<>*$!%@+" if fits(each, items) is not negated
    )
    if not found and items[0][0] is codes.RANGE:
        found = chr(items[0][1][0])
    return found or (chr(items[0][1]) if items[0][0] is codes.LITERAL else "a")


def fits(character: str, items: Any) -> bool:
    code = ord(character)
    kinds = {
        codes.CATEGORY_DIGIT: character.isdigit(),
        codes.CATEGORY_NOT_DIGIT: not character.isdigit(),
        codes.CATEGORY_SPACE: character.isspace(),
        codes.CATEGORY_NOT_SPACE: not character.isspace(),
        codes.CATEGORY_WORD: character.isalnum() or character == "_",
        codes.CATEGORY_NOT_WORD: not (character.isalnum() or character == "_"),
    }
    return any(
        (op is codes.LITERAL and value == code)
        or (op is codes.RANGE and value[0] <= code <= value[1])
        or (op is codes.CATEGORY and kinds[value])
        for op, value in items
    )


def repetitions(parts: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """(what stands before, what is repeated) of every repetition without a near end."""
    for op, value in parts:
        if op in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            least, most, inner = value
            if most > NEAR:
                yield from ((before, pump) for pump in pumps(inner))
            yield from repetitions(inner, before)
            before += samples(inner) * max(least, 0)
            continue
        if op is codes.BRANCH:
            for branch in value[1]:
                yield from repetitions(branch, before)
        elif op is codes.SUBPATTERN:
            yield from repetitions(value[3], before)
        elif op is codes.ATOMIC_GROUP:
            yield from repetitions(value, before)
        before += sample(op, value)


def pumps(inner: Any) -> Iterator[str]:
    yield samples(inner) or "a"
    if len(inner) == 1 and inner[0][0] is codes.IN:
        yield from characters(inner[0][1])[:6]
    if len(inner) == 1 and inner[0][0] is codes.ANY:
        yield from (" ", ")")
    if len(inner) == 1 and inner[0][0] is codes.BRANCH:
        yield from (samples(branch) for branch in inner[0][1][1])


def texts_for(pattern: Pattern) -> Iterator[str]:
    tree = parser.parse(pattern.text, pattern.flags)
    seen = set()
    for before, pump in repetitions(tree):
        if not pump:
            continue
        for end in ("", "\0"):
            seen.add(before + pump * (LENGTH // len(pump)) + end)
        if not pattern.anchored:
            block = before + pump * 3
            seen.add(block * (LENGTH // len(block)) + "\0")
            seen.add(pump * (LENGTH // len(pump)) + "\0")
    yield from seen


class TooSlowError(BaseException):
    pass


def is_linear(pattern: Pattern, text: str) -> bool:
    compiled = re.compile(pattern.text, pattern.flags)
    subject = text.encode("utf-8") if isinstance(pattern.text, bytes) else text

    def stop(*_: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        if pattern.anchored:
            compiled.match(subject)
            compiled.fullmatch(subject)
        else:
            for _ in compiled.finditer(subject):
                pass
        return True
    except TooSlowError:
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_every_pattern_is_found() -> None:
    found, unknown = collected()
    assert len(found) > 200
    assert unknown == []


@pytest.mark.skipif(not hasattr(signal, "SIGVTALRM"), reason="stops itself by an alarm")
def test_every_pattern_is_linear() -> None:
    slow = {
        f"{pattern.place} on {text[:30]!r}...{text[-3:]!r}"
        for pattern in collected()[0]
        for text in texts_for(pattern)
        if not is_linear(pattern, text)
    }
    assert not slow


@pytest.mark.skipif(not hasattr(signal, "SIGVTALRM"), reason="stops itself by an alarm")
@pytest.mark.parametrize(
    "text",
    [r"\s*[=:\s]\s*(\d+)", r"(a+)+b", r"File [^,]+\.py[^,]*, line", r"\s+$", r"(?:\w+\s?)*x"],
)
def test_slow_patterns_are_told(text: str) -> None:
    pattern = Pattern("here", text, 0, anchored=False)
    assert not all(is_linear(pattern, each) for each in texts_for(pattern))
