"""Where shell commands stand in a file of each kind, and what its variables are."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence

from memlint.recipes.shell import Shell, Simple
from memlint.recipes.words import Piece, Uses, Variable, Word
from memlint.source.notebook import magic_lines
from memlint.source.patterns import lazy_pattern
from memlint.source.text import ByteOffsets, Source, Span

_LINE = re.compile(r"(?:[^\\\n]|\\\r?\n|\\)*+(?:\n|$)")
_MAKE_VARIABLE = re.compile(
    r"[ ]*(?:(?:export|override)[ ]+)?([A-Za-z_]\w*)[ ]*(\?|\+|:{0,3})=[ \t]*", re.ASCII
)
_JUST_VARIABLE = re.compile(
    r"(?:(export)[ \t]+)?([A-Za-z_][\w-]*)[ \t]*:=[ \t]*+(?:'([^'\n]*)'|\"([^\"\\\n]*)\")?[ \t]*"
    r"(?:\#[^\n]*+)?(\r?\n|$)?",
    re.ASCII,
)
_INSTRUCTION = re.compile(r"[ \t]*([A-Za-z]+)(?:[ \t]|\\\r?\n)+")
_DOCKER_OPTION = re.compile(r"(?:--[\w-]+(?:=\S*)?(?:[ \t]|\\\r?\n)+)*+")
_DOCKER_SHELL = frozenset({"RUN", "CMD", "ENTRYPOINT"})
_JSON_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"')
_MAGIC = re.compile(r"[ \t]*(?:!{1,2}|%(?:sx|system|time[ ]+!|timeit[ ]+!)[ ])")
_ENV_MAGIC = re.compile(
    r"[ \t]*%(?:env|set_env)[ \t]+([A-Za-z_]\w*)[= \t][ \t]*([^\r\n]*)", re.ASCII
)
_SHELL_CELL = re.compile(r"\s*%%\s*(?:bash|sh|shell|script\s+(?:--\S+\s+)*(?:ba)?sh)\b[^\n]*\n?")
_CELL_LINE = re.compile(r"(?:[^\\\n]|\\\r?\n|\\)*+(?:\n|$)")


class Place:
    """Turns offsets of characters in a text into spans of bytes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._offsets = ByteOffsets(text)

    def span(self, start: int, end: int) -> Span:
        """The bytes of the characters from ``start`` to ``end``."""
        return self._offsets.span(start, end)

    def text(self, start: int, end: int) -> str:
        """What the file holds there."""
        return self._text[start:end]


class CellPlace(Place):
    """The same for a cell of a notebook.

    starts: offsets in the cell at which a line begins, with its offset in the joined text.
    """

    def __init__(self, inner: Place, starts: Sequence[tuple[int, int]]) -> None:
        self._inner = inner
        self._cell = [cell for cell, _ in starts]
        self._file = [file for _, file in starts]

    def _raw(self, at: int) -> int:
        index = max(bisect_right(self._cell, at) - 1, 0)
        return self._file[index] + at - self._cell[index]

    def span(self, start: int, end: int) -> Span:
        """An end is that of the last character: a line break may lie behind it."""
        last = self._raw(max(end - 1, start)) + (end > start)
        return self._inner.span(self._raw(start), max(last, self._raw(start)))

    def text(self, start: int, end: int) -> str:
        last = self._raw(max(end - 1, start)) + (end > start)
        return self._inner.text(self._raw(start), last)


Reader = Callable[[str], Iterator[tuple[Simple, Place]]]


def _shell(text: str) -> Iterator[tuple[Simple, Place]]:
    uses = Uses(text)
    yield from _settled(Shell(text, variables=_by_slurm(text), uses=uses).read(), uses, Place(text))


# What Slurm tells a job of what it asked for, by the option.
_SLURM_NODES, _SLURM_GPUS = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), ("SLURM_GPUS_ON_NODE",)
_SLURM = {"nodes": _SLURM_NODES, "N": _SLURM_NODES, "gpus-per-node": _SLURM_GPUS}
_ASKED = re.compile(r"(?m)^#SBATCH[ \t]+--?(nodes|N|gpus-per-node)[ =]*(?:\w+:)?(\d{1,4})[ \t]*$")


def _by_slurm(text: str) -> dict[str, Variable]:
    found = _ASKED.finditer(text) if "#SBATCH" in text else ()
    return {
        name: ((Piece(match[2], match.start(2), shared=True),),)
        for match in found
        for name in _SLURM[match[1]]
    }


def _settled(found: list[Simple], uses: Uses, place: Place) -> Iterator[tuple[Simple, Place]]:
    """Commands of a text of which all is read: it is known what reads each variable."""
    shared = uses.shared()
    for simple in found:
        words = tuple(word.settled(shared) for word in simple.words)
        environment = tuple((name, word.settled(shared)) for name, word in simple.environment)
        yield simple._replace(words=words, environment=environment), place


def _makefile(text: str) -> Iterator[tuple[Simple, Place]]:
    uses = Uses(text)
    variables: dict[str, Variable] = {}
    recipes: list[tuple[int, int]] = []
    for line in _LINE.finditer(text):
        start, end = line.span()
        if text.startswith("\t", start):
            recipes.append((_behind(text, start, end, "\t @-+"), end))
        elif (match := _MAKE_VARIABLE.match(text, start, end)) is not None:
            variables[match[1]] = _make_value(text, match, end, uses)
    # A recipe is expanded when all of the file is read.
    found: list[Simple] = []
    for start, end in recipes:
        found += Shell(text, start, end, "make", variables, uses=uses).read()
    yield from _settled(found, uses, Place(text))


def _make_value(text: str, match: re.Match[str], end: int, uses: Uses) -> Variable:
    if match[2] == "+" or uses.writes[match[1]] > 1:
        return None
    value = text[match.end() : end].partition("#")[0].rstrip()
    if "$" in value or "\\" in value or '"' in value or "'" in value:
        return None
    return ((Piece(value, match.end()),),)


_STARTING = lazy_pattern(
    r"(?m)^[ \t]{0,40}(?:[\w.]{1,80}[ ]=[ ])?"
    r"(?:os\.system|subprocess\.(?:run|call|check_call|check_output|Popen))\(\s{0,200}"
    r"(?:f?([\"'])(?P<line>(?:(?!\1)[^\\\n]){1,4000})\1|(?P<words>\[[^\[\]\\#]{1,4000}\]))"
)
_WORD = lazy_pattern(r"\"([^\"\n]*)\"(?=[\s,\]])|'([^'\n]*)'(?=[\s,\]])|[^\s,\[\]]+")


def _python(text: str) -> Iterator[tuple[Simple, Place]]:
    """The commands that a script of Python starts: ``subprocess.run(["trl", "sft"])``."""
    place = Place(text)
    for call in _STARTING.finditer(text):
        if call["words"] is None:
            # Braces are those of a formatted string, as in a notebook.
            shell = Shell(text, *call.span("line"), "notebook", {}, frozenset(), _NONE)
            yield from ((simple, place) for simple in shell.read())
            continue
        words = []
        for one in _WORD.finditer(text, *call.span("words")):
            start, end = one.span(one.lastindex or 0)
            known = text[start:end] if one.lastindex else None
            words.append(Word((Piece(known, start if known else -1, quoted=True),), start, end))
        if words:
            yield Simple(tuple(words), (), ""), place


# Each line of a justfile is a shell of its own, with all its variables.
_MOST_VARIABLES, _MOST_BODIES = 500, 1_000


def _justfile(text: str) -> Iterator[tuple[Simple, Place]]:
    uses = Uses(text)
    variables: dict[str, Variable] = {}
    exported: set[str] = set()
    bodies: list[tuple[int, int, bool]] = []
    own_shell = False  # the body begins with ``#!``: it is one script
    fresh = True
    for line in _LINE.finditer(text):
        start, end = line.span()
        if text.startswith((" ", "\t"), start):
            begin = _behind(text, start, end, " \t")
            if fresh:
                own_shell = text.startswith("#!", begin)
                bodies.append((begin, end, own_shell))
            elif own_shell:
                bodies[-1] = (bodies[-1][0], end, True)
            else:
                bodies.append((_behind(text, begin, end, "@-"), end, False))
            fresh = False
            continue
        if line[0].strip():
            fresh = True
        match = _JUST_VARIABLE.match(text, start, end)
        if match is not None and len(variables) < _MOST_VARIABLES:
            variables[match[2]] = _just_value(match)
            if match[1]:
                exported.add(match[2])
    found: list[Simple] = []
    for start, end, _ in bodies[:_MOST_BODIES]:
        begin = _behind(text, start, end, "@-")
        found += Shell(text, begin, end, "just", variables, frozenset(exported), uses).read()
    yield from _settled(found, uses, Place(text))


def _just_value(match: re.Match[str]) -> Variable:
    for group in (3, 4):
        if match[group] is not None and match[5] is not None:
            return ((Piece(match[group], match.start(group)),),)
    return None


def _dockerfile(text: str) -> Iterator[tuple[Simple, Place]]:
    found: list[Simple] = []
    uses = Uses(text)
    variables: dict[str, Variable] = {}
    exported: set[str] = set()
    for line in _LINE.finditer(text):
        start, end = line.span()
        match = _INSTRUCTION.match(text, start, end)
        if match is None:
            continue
        instruction, begin = match[1].upper(), match.end()
        if instruction in ("ENV", "ARG"):
            names = _docker_variables(text, begin, end, variables, uses)
            exported |= names if instruction == "ENV" else set()
        elif instruction in _DOCKER_SHELL:
            option = _DOCKER_OPTION.match(text, begin, end)
            begin = option.end() if option is not None else begin
            simple = _exec_form(text, begin, end)
            if simple is not None:
                environment = tuple(
                    (name, Word(value[0], begin, begin))
                    for name in sorted(exported)
                    if (value := variables.get(name))
                )
                found.append(simple._replace(environment=environment))
                continue
            shell = Shell(text, begin, end, "shell", variables, frozenset(exported), uses)
            found += shell.read()
    yield from _settled(found, uses, Place(text))


def _docker_variables(
    text: str, begin: int, end: int, variables: dict[str, Variable], uses: Uses
) -> set[str]:
    """``ENV A=b C=d`` or ``ENV A b``, read as a shell reads assignments."""
    body = text[begin:end]
    if "=" not in body.split(None, 1)[0] if body.split() else True:
        return set()
    shell = Shell(text, begin, end, "shell", variables, uses=uses)
    shell.read()
    after = shell.variables.values
    names = {name for name in after if after[name] is not variables.get(name)}
    variables.update(after)
    return names


def _exec_form(text: str, begin: int, end: int) -> Simple | None:
    """``["torchrun", "train.py"]``: words that no shell reads."""
    body = text[begin:end].rstrip()
    if not (body.startswith("[") and body.endswith("]")):
        return None
    words = []
    for match in _JSON_STRING.finditer(text, begin, end):
        known = None if "\\" in match[1] else match[1]
        words.append(Word((Piece(known, match.start(1), quoted=True),), *match.span(1)))
    return Simple(tuple(words), (), "") if words else None


def read_cells(source: Source) -> Iterator[tuple[Simple, Place]]:
    """The same for a notebook: places are those of its joined cells."""
    place = Place(source.text)
    environment: dict[str, Variable] = {}
    for lines in magic_lines(source):
        starts: list[tuple[int, int]] = []
        length = 0
        for text, start in lines:
            starts.append((length, start))
            length += len(text)
        if lines:
            cell = "".join(text for text, _ in lines)
            yield from _cell(cell, CellPlace(place, starts), environment)


def _cell(
    source: str, place: Place, environment: dict[str, Variable]
) -> Iterator[tuple[Simple, Place]]:
    exported = frozenset(environment)
    magic = _SHELL_CELL.match(source)
    if magic is not None:
        uses = Uses(source)
        shell = Shell(source, magic.end(), None, "shell", environment, exported, uses)
        yield from _settled(shell.read(), uses, place)
        return
    for line in _CELL_LINE.finditer(source):
        start, end = line.span()
        setting = _ENV_MAGIC.match(source, start, end)
        if setting is not None:
            known = None if re.search(r"[${]", setting[2]) else setting[2].strip()
            environment[setting[1]] = ((Piece(known, setting.start(2), shared=True),),)
        elif (command := _MAGIC.match(source, start, end)) is not None:
            shell = Shell(
                source, command.end(), end, "notebook", environment, frozenset(environment), _NONE
            )
            for simple in shell.read():
                yield simple, place


_NONE = Uses("")


def _behind(text: str, start: int, end: int, marks: str) -> int:
    while start < end and text[start] in marks:
        start += 1
    return start


READERS: Mapping[str, Reader] = {
    "shell": _shell,
    "makefile": _makefile,
    "python": _python,
    "justfile": _justfile,
    "dockerfile": _dockerfile,
}
