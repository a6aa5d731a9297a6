"""What the files of a project may ask a file of settings for, told by their words.

A key counts as asked for where a program may take it from a file: in a string or as an attribute
of Python, as a field of a class, anywhere in another program's text or in a command. An option, an
argument, a variable that is assigned, and a document's own setting ask for nothing. This is a
guess, which can make a fix unsafe and nothing else.
"""

import ast
import os
import re
from collections.abc import Callable, Collection, Iterator
from itertools import filterfalse, pairwise, starmap
from string import ascii_letters, digits

from memlint.source.bounded import read_regular
from memlint.source.diagnostics import ReadError
from memlint.source.parsing import parsed
from memlint.source.reading import read_source

_MAX_BYTES, _MAX_FILES = 300_000, 20_000
_SKIPPED = frozenset({"node_modules", "site-packages", "venv", "__pycache__", ".git", ".hg"})
# Other hidden folders hold what tools wrote, but for those of services that run commands.
_HIDDEN = (".git", ".circleci", ".buildkite", ".ci", ".dvc", ".azure", ".config")
_TEXTS = (".md", ".rst", ".txt", ".html", ".adoc", ".log", ".csv", ".tsv", ".lock", ".patch")
_DOCUMENTS = (".yaml", ".yml", ".json", ".toml", ".jsonl")
# What a schema, or a search over settings, says below a key in place of a value.
_SCHEMA = re.compile(
    r"[\s{\"']*+(?:type|values?|default|min|max|minimum|maximum|enum|distribution|required|nullable"
    r"|allowed|items|anyOf|oneOf|description)[\"']?\s*+:"
)
# Attributes that configurations set by their new names too.
_MIRRORED = frozenset({"gradient_checkpointing", "gradient_checkpointing_kwargs"})
_INNER = frozenset(f"{ascii_letters}{digits}_")
# How far around a word of a text it is looked for what the word is.
_NEAR = 200
_COMMENT = re.compile(r"(?:^|(?<=\s))(?:#|//)[^\n]*", re.MULTILINE)


class Asking:
    """The files below ``root`` that may ask for keys; they are read when the first is named.

    is_apart: whether a file asks for none of them, whatever is in it.
    asked: the files of each key; under ``Class.key`` those that only read the attribute of
        a parameter that is annotated so.
    """

    def __init__(self, root: str, is_apart: Callable[[str], bool]) -> None:
        self._root = root
        self._is_apart = is_apart
        self.asked: dict[str, tuple[str, ...]] = {}

    def read(self, keys: Collection[str]) -> None:
        """Look for ``keys`` in all files. Of more files than are read each may ask for all."""
        new = {key: key.encode() for key in keys if key not in self.asked}
        if not new:
            return
        asked: dict[str, list[str]] = {key: [] for key in new}
        for number, path in enumerate(filterfalse(self._is_apart, _files(self._root))):
            if number == _MAX_FILES:
                for paths in asked.values():
                    paths.append(self._root)
                break
            try:
                data = read_regular(path, _MAX_BYTES)
            except OSError:
                continue
            words = [key for key, word in new.items() if word in data]
            for key in _asked_in(path, data, words) if words and b"\0" not in data else ():
                asked.setdefault(key, []).append(path)
        self.asked |= {key: tuple(paths) for key, paths in asked.items()}


def _files(root: str) -> Iterator[str]:
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(
            name
            for name in inner
            if name not in _SKIPPED and (name[0] != "." or name.startswith(_HIDDEN))
        )
        if "pyvenv.cfg" in names:
            inner.clear()
            continue
        yield from (
            os.path.join(folder, each) for each in sorted(names) if not each.endswith(_TEXTS)
        )


def _asked_in(path: str, data: bytes, keys: Collection[str]) -> set[str]:
    """Return those of ``keys`` that the file at ``path`` may ask for, named as in ``asked``."""
    if path.endswith((".py", ".ipynb", ".pyi")) or re.match(rb"#![^\n]*python", data):
        try:
            tree = parsed(read_source(path, data).text)
        except (ReadError, SyntaxError, ValueError, RecursionError):
            return set(keys)
        return _asked_of_python(tree, keys)
    text = _COMMENT.sub("", data.decode("utf-8", "replace"))
    return {key for key in keys if _is_asked(text, key, path.endswith(_DOCUMENTS))}


def _is_asked(text: str, key: str, is_document: bool) -> bool:
    """True if commands, another program or a document may ask for a key."""
    at = 0
    for part in text.split(key)[:-1]:
        at += len(part)
        before = text[max(at - _NEAR, 0) : at].rpartition("\n")[2]
        at += len(key)
        after = text[at : at + _NEAR]
        is_own = _is_set(before, after) if is_document else _is_variable(before, after)
        if _is_word(before, after) and not is_own:
            return True
    return False


def _is_set(before: str, after: str) -> bool:
    """True if a document gives the key between two texts a value of its own, and asks nobody."""
    before, after = before.rstrip(" \t\"'"), after.lstrip(" \t\"'")
    value = after[1:].lstrip(" \t")
    is_key = (not before or before[-1] in "{,-") and after[:1] in (":", "=")
    return is_key and not _SCHEMA.match(value)


def _is_variable(before: str, after: str) -> bool:
    """True if the word between two texts is a variable: ``.key = 8`` of yq changes a key."""
    after = after.lstrip().lstrip("?:+")
    is_assigned = after[:1] == "=" != after[1:2] and not before.endswith(".")
    is_read = before.endswith("$") and not (before[-2:-1] in _INNER or before[-2:-1] == ")")
    return is_assigned or is_read or before.endswith(("$(", "${", "{{ "))


def _asked_of_python(tree: ast.Module, keys: Collection[str]) -> set[str]:
    """Return the keys in strings, but for options and docstrings, those that are fields of classes,
    and those that are attributes of what the script does not define itself."""
    docs: set[ast.AST] = set()
    read: set[str] = set()
    of_classes: dict[str, str] = {}
    defined: set[str] = set()
    texts: list[str] = []
    classes = _annotated(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=value):
                docs.add(value)
            case ast.Constant(value=str(text)) if node not in docs:
                texts.append(text)
            case ast.AnnAssign(target=ast.Name(id=name)):
                texts.append(name)
            case ast.Attribute(attr=name, ctx=ast.Load()) if node in classes:
                of_classes[f"{classes[node]}.{name}"] = name
            case ast.Attribute(attr=name, ctx=context):
                (read if isinstance(context, ast.Load) else defined).add(name)
    defined.update(text.lstrip("-").replace("-", "_") for text in texts)
    asked = {
        key for key in keys for text in texts if any(starmap(_is_word, pairwise(text.split(key))))
    }
    read = (read - defined - _MIRRORED).intersection(keys)
    silent = asked | read | defined | _MIRRORED
    named = {name for name, key in of_classes.items() if key in keys and key not in silent}
    return asked | read | named


def _annotated(tree: ast.Module) -> dict[ast.AST, str]:
    """Return the attributes that functions read of annotated parameters, with the class's name."""
    found: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            of = {one.arg: ast.unparse(one.annotation) for one in given if one.annotation}
            for each in ast.walk(node):
                if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
                    name = of.get(each.value.id, "").rpartition(".")[2]
                    found |= {each: name} if name else {}
    return found


def _is_word(before: str, after: str) -> bool:
    """True if what stands between two texts is a word of its own, and no option."""
    return not (before[-1:] in _INNER or before.endswith("-") or after[:1] in _INNER)
