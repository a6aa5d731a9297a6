"""What a stack of frames says of the memory that it allocated: place, operator and phase.

``data/stacks.json`` has the patterns, the first that fits counts: of phases for one Python frame
(file and function, from the innermost outwards); of kinds for the words of a stack, with the phases
in which they hold and what must be so beside. Nothing is guessed: what none knows is "other".
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

from memlint.source.bounded import read_regular
from memlint.source.record import Record

DATA: Mapping[str, Any] = json.loads(
    read_regular(os.path.join(os.path.dirname(__file__), "data", "stacks.json"))
)
PATTERNS = {name: re.compile(pattern, re.M) for name, pattern in DATA["patterns"].items()}
_GROUPS = "|".join(f"(?P<{name}>{'|'.join(words)})" for name, words in DATA["phases"].items())
_PHASE = re.compile(f"(?:{_GROUPS}).*", re.M)
_CALLED = [PATTERNS[name] for name in ("operator", "node", "outside")]
_MARKS = [(mark, re.compile(pattern, re.M)) for mark, pattern in DATA["marks"].items()]


class Stack(Record):
    """A stack. place: the user's innermost line, with a library's in brackets; C++ if no Python.

    operator: of torch, such as ``bmm``; "" if there are no frames of C++. phase: "" if unknown.
    words: the operator and the frames that tell the phase. marks: what the words and frames of C++
    say: "engine" if autograd's called, and so on.
    """

    place: str = ""
    operator: str = ""
    phase: str = ""
    words: str = ""
    marks: frozenset[str] = frozenset()

    def kind(self, facts: Set[str]) -> str:
        """Return the kind of a tensor. facts: what is so of its size and of its life."""
        return next((kind for kind, phases, pattern, fact in DATA["kinds"]
                     if self.phase in phases.split(",") and (not fact or fact in facts)
                     and re.search(pattern, self.words)), "other")  # fmt: skip


def read_frame(frame: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return its origin ("native", "torch", "library" or "user"), its words and its place.

    words: the function; of Python after its file, from its package on: folders are the user's own.
    """
    path, function = frame["filename"].replace("\\", "/"), frame["name"]
    if not PATTERNS["Python"].search(path):
        return "native", function, function
    package = PATTERNS["package"].search(path)
    file = path[package.end() :] if package else path.rpartition("/")[2]
    origin = "library" if package or PATTERNS["library"].search(path) else "user"
    place = f"{'/'.join(path.split('/')[-3:])}:{frame['line']} in {function}"
    return "torch" if file.startswith("torch/") else origin, f"{file} {function}", place


def read_stacks(lists: Sequence[Sequence[Mapping[str, Any]]]) -> list[Stack]:
    """Read stacks, innermost frame first; frames of C++ and of Python may alternate."""
    known = {id(frame): read_frame(frame) for frames in lists for frame in frames}
    stacks = [_read([known[id(frame)] for frame in frames]) for frames in lists]
    if known and all(origin != "native" for origin, *_ in known.values()):
        stacks[0] = Stack(phase="backward", marks=frozenset(["engine"]))  # autograd's thread
    return stacks


def _read(frames: Sequence[tuple[str, str, str]]) -> Stack:
    python = [frame for frame in frames if frame[0] != "native"]
    native = "\n".join(words for origin, words, _ in frames if origin == "native")
    operator, node, outside = ("".join(each.findall(native)[:1]) for each in _CALLED)
    engine = ["autograd"] * ("autograd::Engine" in native)
    said = "\n".join((*(words for _, words, _ in python), *engine))
    told = _PHASE.search(said)
    words = f"{operator or node or '-'} {said[: told and told.end()]}".replace("\n", " ")
    marks = (mark for mark, pattern in _MARKS if pattern.search(f"{words}\n{native}\n{said}"))
    place = next(filter(None, (_place(python), node, *engine, outside)), "")
    phase = (told and told.lastgroup) or ""
    return Stack(place, operator, phase, words, frozenset(marks))


def _place(python: Sequence[tuple[str, str, str]]) -> str:
    theirs = [frame for frame in python if frame[0] != "torch"] or python
    inner = next((place for _, _, place in theirs), "")
    user = next((place for origin, _, place in theirs if origin == "user"), inner)
    return inner if user == inner else f"{user} ({inner})"
