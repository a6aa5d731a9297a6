"""Reads the simple commands of a shell script. Nothing is run.

Variables are followed as long as the text decides them: a value that a branch, a loop or another
program chooses is unknown. One pass over the text; what is never closed ends it.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from memlint.recipes.words import Piece, Word
from memlint.source.record import NamedTuple

# Programs that start training, and those that start them.
PROGRAM = re.compile(
    r"python[\d.]*|torchrun|accelerate|accelerate-launch|deepspeed|trl|tune|llamafactory-cli|lmf"
    r"|axolotl"
)
# The elements of a variable: one, or those of an array; None where the text does not decide.
Variable = tuple[tuple[Piece, ...], ...] | None

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\f\v]+|\\\r?\n)
    |(?P<newline>\n)
    |(?P<redirection>(?:(?<![^\s;&|()])\d+)?(?:<<<|<<-|<<|<>|<&|>>|>\||>&|&>>|&>|<(?!\()|>(?!\()))
    |(?P<operator>&&|\|\||\|&|\||;;&|;;|;&|;|&|\(|\))
    |(?P<substitution>[<>]\()
    |(?P<single>')
    |(?P<double>")
    |(?P<escape>\\(?s:.)?)
    |(?P<dollar>\$)
    |(?P<backtick>`)
    |(?P<brace>[{}])
    |(?P<hash>\#)
    |(?P<plain>[^\s\\'"$`#&|;<>(){}]+)
    |(?P<other>(?s:.))""",
    re.VERBOSE,
)
_QUOTED = re.compile(r"""(?P<plain>[^"\\$`{]+)|(?P<escape>\\(?s:.)?)|(?P<other>(?s:.))""")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=", re.ASCII)
_DEFAULT = re.compile(r"(\w+):?[-=]", re.ASCII)
_ARRAY = re.compile(r"(\w+)\[[@*]\]", re.ASCII)
_CLOSING = {
    "(": re.compile(r"""\\(?s:.)|'[^']*+'|"(?:[^"\\]|\\(?s:.))*+"|[()]"""),
    "{": re.compile(r"""\\(?s:.)|'[^']*+'|"(?:[^"\\]|\\(?s:.))*+"|[{}]"""),
}
_DELIMITER = re.compile(r"""[ \t]*\\?(['"]?)([\w.+!-]+)\1""")
_WRITES = re.compile(r"(?<![^\s;&|(])([A-Za-z_]\w*)\s*(?:\+|\?|:{1,3})?=", re.ASCII)
_READS = re.compile(r"\$+[{(]?([A-Za-z_]\w*)|\{\{\s*+([A-Za-z_]\w*)", re.ASCII)
_DECLARES = frozenset({"export", "declare", "typeset", "readonly", "local"})
_FILLS = frozenset({"read", "mapfile", "readarray", "getopts", "unset", "printf", "let"})
_BLOCKS = {"if": "fi", "while": "done", "until": "done", "{": "}"}
_CLOSERS = frozenset({"fi", "done", "esac", "}"})
_RESERVED = _BLOCKS.keys() | _CLOSERS | {"then", "do", "else", "elif", "!", "time"}
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "sbatch", "ssh"})
# Beyond these a value is unknown: what doubles itself stays small.
_MOST_PIECES = 2_000
_MOST_EXPANDED = 200_000
_MOST_EXPORTED = 64
_MOST_HEREDOCS = 100
_DEEPEST = 8


class Simple(NamedTuple):
    """A simple command: its words, the environment that it gets, the folder it runs in."""

    words: tuple[Word, ...]
    environment: tuple[tuple[str, Word], ...]
    folder: str | None


class Uses(NamedTuple):
    """How often the text sets and reads each name."""

    writes: Counter[str]
    reads: Counter[str]

    @classmethod
    def of(cls, text: str) -> Uses:
        """Counted by words: a name within a string may count as well."""
        writes = Counter(match[1] for match in _WRITES.finditer(text))
        reads = Counter(match[1] or match[2] for match in _READS.finditer(text))
        return cls(writes, reads)


class _Block:
    """A branch, loop, function or subshell; what it sets is unknown after it."""

    def __init__(self, closer: str, folder: str | None, *, repeats: bool) -> None:
        self.closer = closer
        self.folder = folder
        self.repeats = repeats
        self.names: set[str] = set()


class Shell:
    """One reading of ``text[start:end]``.

    dialect: ``shell``; ``make`` (``$(NAME)``, ``$$NAME``); ``just`` (``{{name}}``); ``notebook``
    (``{name}`` and ``$name`` are Python's).
    """

    def __init__(
        self,
        text: str,
        start: int = 0,
        end: int | None = None,
        dialect: str = "shell",
        variables: Mapping[str, Variable] | None = None,
        exported: frozenset[str] = frozenset(),
        uses: Uses | None = None,
        depth: int = 0,
    ) -> None:
        self.text = text
        self.at = start
        self.end = len(text) if end is None else end
        self.dialect = dialect
        self.variables: dict[str, Variable] = dict(variables or {})
        self.exported = set(exported)
        self.uses = uses or Uses.of(text)
        self.depth = depth
        self.folder: str | None = ""
        self.expanded = 0
        self.commands: list[Simple] = []
        self._words: list[Word] = []
        self._pieces: list[Piece] | None = None
        self._word_start = start
        self._blocks: list[_Block] = []
        self._array: tuple[str, bool, int] | None = None
        self._drops = False  # the next word is a redirection's file
        self._conditional = False  # behind && or ||
        self._heredocs: list[tuple[str, bool]] = []
        self._takes_body = False  # a command of this line runs its heredoc

    def read(self) -> list[Simple]:
        """All simple commands, in the order of the text."""
        while self.at < self.end:
            token = _TOKEN.match(self.text, self.at, self.end)
            assert token is not None
            assert token.lastgroup is not None
            self.at = token.end()
            getattr(self, f"_on_{token.lastgroup}")(token)
        self._end_command()
        return self.commands

    # -- tokens ----------------------------------------------------------------------------------

    def _on_blank(self, token: re.Match[str]) -> None:
        self._end_word(token.start())

    def _on_newline(self, token: re.Match[str]) -> None:
        self._end_word(token.start())
        if self._array is not None:
            return
        self._end_command()
        self._conditional = False
        heredocs, self._heredocs = self._heredocs, []
        for delimiter, indented in heredocs:
            self._skip_heredoc(delimiter, indented)
        self._takes_body = False

    def _on_redirection(self, token: re.Match[str]) -> None:
        self._end_word(token.start())
        if token[0].lstrip("0123456789") in ("<<", "<<-"):
            delimiter = _DELIMITER.match(self.text, self.at, self.end)
            if delimiter is not None and len(self._heredocs) < _MOST_HEREDOCS:
                self._heredocs.append((delimiter[2], token[0].endswith("-")))
                self.at = delimiter.end()
            return
        self._drops = True

    def _on_operator(self, token: re.Match[str]) -> None:
        mark = token[0]
        if mark == "(" and self._begins_array():
            return
        self._end_word(token.start())
        if mark == ")" and self._array is not None:
            self._end_array()
            return
        self._array = None
        self._end_command()
        if mark == "(":
            self._blocks.append(_Block(")", self.folder, repeats=False))
        elif mark == ")":
            self._close(")")
        elif mark.startswith(";;"):
            self._forget()
        self._conditional = mark in ("&&", "||")

    def _on_substitution(self, token: re.Match[str]) -> None:
        self._add(Piece(None, quoted=True), token.start())
        self._skip_to_closing("(")

    def _on_single(self, token: re.Match[str]) -> None:
        close = self.text.find("'", self.at, self.end)
        stop = self.end if close < 0 else close
        self._add(Piece(self.text[self.at : stop], self.at, quoted=True), token.start())
        self.at = min(stop + 1, self.end)

    def _on_double(self, token: re.Match[str]) -> None:
        self._add(Piece("", quoted=True), token.start())
        while self.at < self.end:
            match = _QUOTED.match(self.text, self.at, self.end)
            assert match is not None
            start, self.at = self.at, match.end()
            if match.lastgroup == "plain":
                self._add(Piece(match[0], start, quoted=True), start)
            elif match.lastgroup == "escape":
                self._escape(match[0], start, quoted=True)
            elif match[0] == '"':
                return
            elif match[0] == "$":
                self._dollar(start, quoted=True)
            elif match[0] == "`":
                self._skip_backticks(quoted=True)
            else:
                self._brace(start, quoted=True)

    def _on_escape(self, token: re.Match[str]) -> None:
        self._escape(token[0], token.start(), quoted=False)

    def _on_dollar(self, token: re.Match[str]) -> None:
        self._dollar(token.start(), quoted=False)

    def _on_backtick(self, token: re.Match[str]) -> None:
        self._add(None, token.start())
        self._skip_backticks(quoted=False)

    def _on_brace(self, token: re.Match[str]) -> None:
        self._brace(token.start(), quoted=False)

    def _on_hash(self, token: re.Match[str]) -> None:
        if self._pieces is None:
            newline = self.text.find("\n", self.at, self.end)
            self.at = self.end if newline < 0 else newline
        else:
            self._add(Piece("#", token.start()), token.start())

    def _on_plain(self, token: re.Match[str]) -> None:
        self._add(Piece(token[0], token.start()), token.start())

    _on_other = _on_plain

    # -- words -----------------------------------------------------------------------------------

    def _add(self, piece: Piece | None, start: int) -> None:
        """Put a piece at the end of the word, or begin one at ``start``."""
        if self._pieces is None:
            self._pieces = []
            self._word_start = start
        if piece is not None:
            self._pieces.append(piece)

    def _end_word(self, end: int) -> None:
        pieces, self._pieces = self._pieces, None
        if not pieces:
            return
        if self._drops:
            self._drops = False
            return
        word = Word(_joined(pieces), self._word_start, end)
        if self._words or self._array is not None or not self._is_reserved(word):
            self._words.append(word)

    def _escape(self, text: str, start: int, *, quoted: bool) -> None:
        escaped = text[1:]
        if escaped == "\n":
            return
        if escaped == "$":
            # Another shell may expand it later.
            self._add(Piece(None, quoted=True), start)
        elif quoted and escaped not in ('"', "\\", "`"):
            self._add(Piece(text, start, quoted=True), start)
        else:
            self._add(Piece(escaped, quoted=True), start)

    def _skip_backticks(self, *, quoted: bool) -> None:
        close = self.text.find("`", self.at, self.end)
        self.at = self.end if close < 0 else close + 1
        self._add(Piece(None, quoted=quoted), self.at)

    def _skip_to_closing(self, opening: str) -> int:
        """Go behind the bracket that closes one before ``at``; where that one is."""
        level = 1
        for match in _CLOSING[opening].finditer(self.text, self.at, self.end):
            mark = match[0]
            level += (mark == opening) - (mark in (")", "}"))
            if level == 0:
                self.at = match.end()
                return match.start()
        self.at = self.end
        return self.end

    def _brace(self, start: int, *, quoted: bool) -> None:
        """``{{name}}`` of just, ``{name}`` of a notebook; otherwise a character."""
        if self.dialect == "just" and self.text.startswith("{{", start):
            close = self.text.find("}}", start, self.end)
            self.at = self.end if close < 0 else close + 2
            name = self.text[start + 2 : max(close, start + 2)].strip()
            self._expand(name if _NAME.fullmatch(name) else "", start, quoted=quoted)
        elif self.dialect == "notebook" and self.text[start] == "{":
            self._add(Piece(None, quoted=quoted), start)
            self._skip_to_closing("{")
        else:
            self._add(Piece(self.text[start], start, quoted=quoted), start)

    def _dollar(self, start: int, *, quoted: bool) -> None:
        text = self.text
        if self.dialect == "make":
            if text.startswith("$", self.at):
                self.at += 1
            elif text.startswith(("(", "{"), self.at):
                opening = text[self.at]
                self.at += 1
                inner = self.at
                name = text[inner : self._skip_to_closing(opening)]
                self._expand(name if _NAME.fullmatch(name) else "", start, quoted=quoted)
                return
            else:
                self.at = min(self.at + 1, self.end)
                self._add(Piece(None, quoted=quoted), start)
                return
        mark = text[self.at : self.at + 1] if self.at < self.end else ""
        name_match = _NAME.match(text, self.at, self.end)
        if name_match is not None:
            self.at = name_match.end()
            self._expand(name_match[0], start, quoted=quoted)
        elif mark == "{":
            self.at += 1
            self._parameter(start, self.at, self._skip_to_closing("{"), quoted=quoted)
        elif mark == "(":
            self.at += 1
            self._skip_to_closing("(")
            self._add(Piece(None, quoted=quoted), start)
        elif mark == "'" and not quoted:
            self.at += 1
            close = re.compile(r"(?:[^'\\]|\\(?s:.))*+").match(text, self.at, self.end)
            assert close is not None
            plain = None if "\\" in close[0] else close[0]
            self._add(Piece(plain, self.at if plain else -1, quoted=True), start)
            self.at = min(close.end() + 1, self.end)
        elif mark and (mark.isdigit() or mark in "@*#?$!-"):
            self.at += 1
            self._add(Piece(None, quoted=quoted and mark not in "@*"), start)
        else:
            self._add(Piece("$", start, quoted=quoted), start)

    def _parameter(self, start: int, inner: int, stop: int, *, quoted: bool) -> None:
        """``${...}``: a name, an array, or a name with a default."""
        body = self.text[inner:stop]
        array = _ARRAY.fullmatch(body)
        default = _DEFAULT.match(body)
        if _NAME.fullmatch(body):
            self._expand(body, start, quoted=quoted)
        elif array is not None:
            self._expand_array(array[1], start)
        elif default is not None and default[1] not in self.variables:
            at = inner + default.end()
            text = self.text[at:stop]
            if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
                text, at = text[1:-1], at + 1
            known = not any(mark in text for mark in "$`\\\"'")
            shared = self.uses.reads[default[1]] > 1 and not default[1].isdigit()
            self._insert((Piece(text if known else None, at, shared),), start, quoted=quoted)
        elif default is not None and not default[1].isdigit():
            self._expand(default[1], start, quoted=quoted)
        else:
            self._add(Piece(None, quoted=quoted), start)

    # -- variables -------------------------------------------------------------------------------

    def _value(self, name: str) -> Variable:
        value = self.variables.get(name)
        if value is None or self.dialect == "notebook":
            return None
        if self.uses.writes[name] > 1 and any(block.repeats for block in self._blocks):
            return None
        self.expanded += sum(len(pieces) for pieces in value) + 1
        if self.expanded > _MOST_EXPANDED:
            return None
        if self.uses.writes[name] > 1 or self.uses.reads[name] > 1:
            return tuple(tuple(piece._replace(shared=True) for piece in pieces) for pieces in value)
        return value

    def _expand(self, name: str, start: int, *, quoted: bool) -> None:
        value = self._value(name)
        pieces = (Piece(None),) if value is None else (value[0] if value else ())
        self._insert(pieces, start, quoted=quoted)

    def _insert(self, pieces: tuple[Piece, ...], start: int, *, quoted: bool) -> None:
        """Put an expansion into the word; unquoted, its blanks end words."""
        self._add(Piece("", quoted=True) if quoted else None, start)
        for piece in pieces:
            if piece.text is None or quoted:
                self._add(piece._replace(quoted=quoted), start)
                continue
            end = 0
            for match in re.finditer(r"\S+", piece.text):
                if match.start() > end or (match.start() and not end):
                    self._end_word(self.at)
                end = match.end()
                at = piece.start + match.start() if piece.start >= 0 else -1
                self._add(piece._replace(text=match[0], start=at), start)
            if end < len(piece.text):
                self._end_word(self.at)

    def _expand_array(self, name: str, start: int) -> None:
        value = self._value(name)
        if value is None:
            self._add(Piece(None), start)
            return
        for number, pieces in enumerate(value):
            if number:
                self._end_word(self.at)
            for piece in pieces:
                self._add(piece._replace(quoted=piece.text is not None), start)

    def _assign(self, name: str, value: Variable, *, append: bool = False) -> None:
        if append:
            before = self.variables.get(name)
            value = None if before is None or value is None else (*before, *value)
        if value is not None and sum(len(pieces) for pieces in value) > _MOST_PIECES:
            value = None
        self.variables[name] = value
        if self._blocks:
            self._blocks[-1].names.add(name)

    def _begins_array(self) -> bool:
        """Whether an opening bracket stands behind ``NAME=``."""
        text = "".join(piece.text or "$" for piece in self._pieces or ())
        match = _ASSIGNMENT.fullmatch(text)
        if match is None:
            return False
        self._pieces = None
        self._array = (match[1], bool(match[2]), len(self._words))
        return True

    def _end_array(self) -> None:
        assert self._array is not None
        name, append, first = self._array
        elements: Variable = tuple(word.pieces for word in self._words[first:])
        if any(word.may_be_several for word in self._words[first:]):
            elements = None
        del self._words[first:]
        self._array = None
        self._assign(name, None if self._conditional else elements, append=append)

    # -- commands --------------------------------------------------------------------------------

    def _end_command(self) -> None:
        self._end_word(self.at)
        self._drops = False
        words, self._words = self._words, []
        if not words:
            return
        text = words[0].text if words[0].is_unquoted else None
        if text in ("for", "select"):
            if len(words) > 1:
                self._assign(words[1].text or "", None)
            self._blocks.append(_Block("done", self.folder, repeats=True))
        elif text == "case":
            self._blocks.append(_Block("esac", self.folder, repeats=False))
        elif text != "function":
            self._run(words)

    def _is_reserved(self, word: Word) -> bool:
        """Follow a word that begins or ends a part of a compound command."""
        text = word.text if word.is_unquoted else None
        if text is None or text not in _RESERVED:
            return False
        if text in ("else", "elif"):
            self._forget()
        elif text in _BLOCKS:
            self._blocks.append(_Block(_BLOCKS[text], self.folder, repeats=text != "if"))
        elif text in _CLOSERS:
            self._close(text)
        return True

    def _forget(self) -> None:
        """Another arm begins: what this one set is not set there."""
        if self._blocks:
            for name in self._blocks[-1].names:
                self.variables[name] = None

    def _close(self, closer: str) -> None:
        if not self._blocks or self._blocks[-1].closer != closer:
            return
        self._forget()
        block = self._blocks.pop()
        if closer == ")":
            self.folder = block.folder
        elif self.folder != block.folder:
            self.folder = None
        if self._blocks:
            self._blocks[-1].names.update(block.names)

    def _run(self, words: list[Word]) -> None:
        """Follow a simple command: assignments, a change of folder, or a program."""
        first = 0
        prefixes: list[tuple[str, Word]] = []
        while first < len(words) and (match := _ASSIGNMENT.match(words[first].head)):
            prefixes.append((match[0], words[first].after(match.end())))
            first += 1
        rest = words[first:]
        if not rest:
            self._set(prefixes)
            return
        conditional, self._conditional = self._conditional, False
        program = rest[0].text
        if program in _DECLARES:
            self._conditional = conditional
            self._declare(program, rest[1:])
        elif program in _FILLS:
            for word in rest[1:]:
                name = _NAME.match(word.text or "")
                if name is not None and name[0] in self.variables:
                    self._assign(name[0], None)
        elif program in ("cd", "pushd"):
            target = rest[1].text if len(rest) > 1 else None
            both = target is not None and self.folder is not None
            self.folder = posixpath.join(self.folder or "", target or "") if both else None
        elif program == "popd":
            self.folder = None
        else:
            names = {posixpath.basename(word.text or "") for word in rest}
            if names & _SHELLS:
                self._takes_body = True
                self._read_inner(rest)
            if any(PROGRAM.fullmatch(name) for name in names):
                given = ((name.rstrip("+="), word) for name, word in prefixes)
                environment = (*self._environment(), *given)
                self.commands.append(Simple(tuple(rest), environment, self.folder))

    def _set(self, assignments: list[tuple[str, Word]]) -> None:
        for target, word in assignments:
            value: Variable = None if self._conditional else (word.pieces,)
            name = target.rstrip("+=")
            if target.endswith("+=") and (before := self.variables.get(name)) is not None:
                value = None if value is None else ((*before[0], *word.pieces), *before[1:])
            elif target.endswith("+="):
                value = None
            self._assign(name, value)
        # An assignment succeeds: what stands behind its && is not conditional.
        self._conditional = False

    def _declare(self, program: str, words: list[Word]) -> None:
        for word in words:
            match = _ASSIGNMENT.match(word.head)
            name = match[1] if match else word.text
            if not name or not _NAME.fullmatch(name):
                continue
            if match is not None:
                self._set([(match[0], word.after(match.end()))])
            if program == "export":
                self.exported.add(name)

    def _environment(self) -> Iterator[tuple[str, Word]]:
        for name in sorted(self.exported)[:_MOST_EXPORTED]:
            value = self.variables.get(name)
            if value is None or len(value) != 1:
                yield name, Word((Piece(None, quoted=True),), self.at, self.at)
                continue
            start = next((piece.start for piece in value[0] if piece.start >= 0), self.at)
            yield name, Word(value[0] or (Piece(""),), start, start)

    # -- shells within ---------------------------------------------------------------------------

    def _inner(self, start: int, end: int) -> None:
        """Read a part of the text as commands of its own."""
        self.expanded += max(end - start, 0)
        if self.depth >= _DEEPEST or self.expanded > _MOST_EXPANDED:
            return
        inner = Shell(
            self.text,
            start,
            end,
            self.dialect,
            self.variables,
            frozenset(self.exported),
            self.uses,
            self.depth + 1,
        )
        inner.folder = self.folder
        inner.expanded = self.expanded
        self.commands.extend(inner.read())
        self.expanded = inner.expanded

    def _read_inner(self, words: list[Word]) -> None:
        """``bash -c "..."``: the commands in the string."""
        for option, word in itertools.pairwise(words):
            if re.fullmatch(r"-[a-z]*c", option.text or ""):
                mark = self.text[word.start : word.start + 1]
                if len(word.pieces) == 1 and word.text and word.pieces[0].start >= 0:
                    self._inner(*word.place)
                elif mark in ('"', "'") and self.text[word.end - 1 : word.end] == mark:
                    self._inner(word.start + 1, word.end - 1)
                return

    def _skip_heredoc(self, delimiter: str, indented: bool) -> None:
        start, at = self.at, self.at
        while at < self.end:
            newline = self.text.find("\n", at, self.end)
            stop = self.end if newline < 0 else newline
            line = self.text[at:stop].rstrip("\r")
            if (line.lstrip("\t") if indented else line) == delimiter:
                break
            at = stop + 1
        if self._takes_body:
            self._inner(start, min(at, self.end))
        self.at = min(at, self.end)
        newline = self.text.find("\n", self.at, self.end)
        self.at = self.end if newline < 0 else newline + 1


def _joined(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Pieces that are written next to each other as one; empty ones only where nothing else is."""
    joined: list[Piece] = []
    for piece in pieces:
        if piece.text == "" and (joined or len(pieces) > 1):
            if not joined:
                joined.append(piece)
            continue
        if joined and joined[-1].text == "":
            joined.pop()
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.text is not None
            and piece.text is not None
            and last.start >= 0
            and last.start + len(last.text) == piece.start
            and last.shared == piece.shared
        ):
            joined[-1] = last._replace(text=last.text + piece.text)
        else:
            joined.append(piece)
    return tuple(joined)
