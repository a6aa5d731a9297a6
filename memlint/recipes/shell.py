"""Reads the simple commands of a shell script. Nothing is run.

Variables are followed as long as the text decides them: a value that a branch, a loop or another
program chooses is unknown. One pass over the text; what is never closed ends it.
"""

import itertools
import posixpath
import re
from collections.abc import Iterator, Mapping

from memlint.recipes.word_reader import NAME, WordReader
from memlint.recipes.words import UNKNOWN_WORD, Block, Piece, Uses, Variable, Variables, Word
from memlint.source.record import NamedTuple

# Programs that start training, and those that start them.
PROGRAM = re.compile(
    r"python[\d.]*|torchrun|accelerate|accelerate-launch|deepspeed|trl|tune|llamafactory-cli|lmf"
    r"|axolotl"
)
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
    |(?P<plain>[^\s\\'"$`#&|;<>(){}]+|(?s:.))""",
    re.VERBOSE,
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=", re.ASCII)
_ELEMENT = re.compile(r"([A-Za-z_]\w*)\[.*?\]\+?=", re.ASCII | re.DOTALL)
_DELIMITER = re.compile(r"""[ \t]*\\?(['"]?)([\w.+!-]+)\1""")
_DECLARES = frozenset({"export", "declare", "typeset", "readonly", "local"})
_FILLS = frozenset({"read", "mapfile", "readarray", "getopts", "unset", "printf", "let"})
_BLOCKS = {"if": "fi", "while": "done", "until": "done", "{": "}"}
_CLOSERS = frozenset({"fi", "done", "esac", "}"})
_RESERVED = _BLOCKS.keys() | _CLOSERS | {"then", "do", "else", "elif", "!", "time"}
# ``"$(dirname "$0")/.."``: the folder of the file that the shell runs, and what follows it.
_OWN_FOLDER = re.compile(
    r'"?\$\(dirname (?:-- )?"?\$\{?(?:0|BASH_SOURCE(?:\[0\])?)\}?"?\)"?(?:/([\w./-]*+))?"?'
)
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "sbatch", "ssh"})
_MOST_EXPORTED = 64
_MOST_HEREDOCS = 100
_DEEPEST = 8


class Simple(NamedTuple):
    """A simple command: its words, the environment that it gets, the folder it runs in."""

    words: tuple[Word, ...]
    environment: tuple[tuple[str, Word], ...]
    folder: str | None


class _Array(NamedTuple):
    """``NAME=(`` or ``NAME+=(``; ``first``: the number of words before it."""

    name: str
    appends: bool
    first: int


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
        self.end = len(text) if end is None else end
        self.dialect = dialect
        self.uses = uses or Uses(text)
        self.variables = Variables(dialect, variables or {}, self.uses)
        self.exported = set(exported)
        self.depth = depth
        self.folder: str | None = ""
        self.commands: list[Simple] = []
        self._reader = WordReader(text, start, self.end, dialect, self.variables, self._take)
        self._words: list[Word] = []
        self._array: _Array | None = None
        self._drops = False  # the next word is a redirection's file
        self._conditional = False  # behind && or ||
        self._heredocs: list[tuple[str, bool]] = []
        self._takes_body = False  # a command of this line runs its heredoc

    def read(self) -> list[Simple]:
        """All simple commands, in the order of the text."""
        reader = self._reader
        while reader.at < self.end:
            token = _TOKEN.match(self.text, reader.at, self.end)
            assert token is not None
            assert token.lastgroup is not None
            reader.at = token.end()
            follow = getattr(self, f"_on_{token.lastgroup}", None)
            if follow is not None:
                follow(token)
            else:
                getattr(reader, token.lastgroup)(token.start())
        self._end_command()
        return self.commands

    # -- tokens ----------------------------------------------------------------------------------

    def _on_blank(self, token: re.Match[str]) -> None:
        self._reader.finish(token.start())

    def _on_newline(self, token: re.Match[str]) -> None:
        self._reader.finish(token.start())
        if self._array is not None:
            return
        self._end_command()
        self._conditional = False
        heredocs, self._heredocs = self._heredocs, []
        for delimiter, indented in heredocs:
            self._skip_heredoc(delimiter, indented)
        self._takes_body = False

    def _on_redirection(self, token: re.Match[str]) -> None:
        self._reader.finish(token.start())
        if token[0].lstrip("0123456789") in ("<<", "<<-"):
            delimiter = _DELIMITER.match(self.text, self._reader.at, self.end)
            if delimiter is not None and len(self._heredocs) < _MOST_HEREDOCS:
                self._heredocs.append((delimiter[2], token[0].endswith("-")))
                self._reader.at = delimiter.end()
            return
        self._drops = True

    def _on_operator(self, token: re.Match[str]) -> None:
        mark = token[0]
        if mark == "(" and self._begins_array():
            return
        self._reader.finish(token.start())
        if mark == ")" and self._array is not None:
            self._end_array(self._array)
            return
        self._array = None
        self._end_command()
        if mark == "(":
            self.variables.blocks.append(Block(")", self.folder, repeats=False))
        elif mark == ")":
            self._close(")")
        elif mark.startswith(";;"):
            self.variables.end_arm()
        self._conditional = mark in ("&&", "||")

    def _on_substitution(self, token: re.Match[str]) -> None:
        self._reader.add(UNKNOWN_WORD, token.start())
        self._reader.skip_to_closing("(")

    def _on_hash(self, token: re.Match[str]) -> None:
        if self._reader.is_open:
            self._reader.plain(token.start())
            return
        newline = self.text.find("\n", self._reader.at, self.end)
        self._reader.at = self.end if newline < 0 else newline

    # -- words -----------------------------------------------------------------------------------

    def _take(self, word: Word) -> None:
        if self._drops:
            self._drops = False
        elif self._words or self._array is not None or not self._is_reserved(word):
            self._words.append(word)

    def _begins_array(self) -> bool:
        """True if an opening bracket stands behind ``NAME=``."""
        match = _ASSIGNMENT.fullmatch(self._reader.shown)
        if match is None:
            return False
        self._reader.drop()
        self._array = _Array(match[1], bool(match[2]), len(self._words))
        return True

    def _end_array(self, array: _Array) -> None:
        elements = tuple(word.pieces for word in self._words[array.first :])
        del self._words[array.first :]
        self._array = None
        change = self.variables.append if array.appends else self.variables.assign
        change(array.name, elements, possible=self._conditional)

    # -- commands --------------------------------------------------------------------------------

    def _end_command(self) -> None:
        self._reader.finish(self._reader.at)
        self._drops = False
        words, self._words = self._words, []
        text = words[0].text if words and words[0].is_unquoted else None
        known = not words and self._is_certain
        if text in ("for", "select"):
            if len(words) > 1:
                self.variables.assign(words[1].text or "", None)
            self.variables.blocks.append(Block("done", self.folder, repeats=True))
        elif text == "case":
            self.variables.blocks.append(Block("esac", self.folder, repeats=False))
        elif words and text != "function":
            known = self._run(words)
        # What a branch puts into a variable is lost where the branch ends.
        self.variables.settle(known=known)

    def _is_reserved(self, word: Word) -> bool:
        """Follow a word that begins or ends a part of a compound command."""
        text = word.text if word.is_unquoted else None
        if text is None or text not in _RESERVED:
            return False
        if text in ("else", "elif"):
            self.variables.end_arm()
        elif text in _BLOCKS:
            block = Block(_BLOCKS[text], self.folder, repeats=text != "if")
            self.variables.blocks.append(block)
        elif text in _CLOSERS:
            self._close(text)
        return True

    def _close(self, closer: str) -> None:
        blocks = self.variables.blocks
        if not blocks or blocks[-1].closer != closer:
            return
        block = self.variables.end_block()
        if closer == ")":
            self.folder = block.folder
        elif self.folder != block.folder:
            self.folder = None

    def _run(self, words: list[Word]) -> bool:
        """Follow a simple command: assignments, a change of folder, or a program.

        Returns whether all that it reads goes where it is known.
        """
        first = 0
        prefixes: list[tuple[str, Word]] = []
        while first < len(words) and (match := _ASSIGNMENT.match(words[first].head)):
            prefixes.append((match[0], words[first].after(match.end())))
            first += 1
        rest = words[first:]
        is_certain = self._is_certain
        if not rest:
            self._set(prefixes)
            return is_certain
        program = rest[0].text
        if program in _DECLARES:
            self._declare(program, rest[1:])
            return is_certain
        self._conditional = False
        if element := _ELEMENT.match(rest[0].head):
            self.variables.assign(element[1], None)
        elif program in _FILLS:
            self._fill(rest[1:])
        elif program in ("cd", "pushd"):
            self.folder = None if len(rest) == 1 or self.folder is None else self._in(rest[1])
        elif program == "popd":
            self.folder = None
        else:
            return self._start(rest, prefixes)
        return False

    def _in(self, word: Word) -> str | None:
        """Return the folder that a word leads to; None where it is unknown."""
        own = _OWN_FOLDER.fullmatch(self.text, word.start, word.end)
        if own is not None and self.dialect == "shell" and not self.folder:
            return own[1] or "."
        return None if word.text is None else posixpath.join(self.folder or "", word.text)

    @property
    def _is_certain(self) -> bool:
        """True if nothing decides if the command is run, so that what it sets stays set."""
        return not (self._conditional or self.variables.blocks)

    def _start(self, words: list[Word], prefixes: list[tuple[str, Word]]) -> bool:
        """A program: kept where it may start training; whether it is."""
        names = {posixpath.basename(word.text or "") for word in words}
        if names & _SHELLS:
            self._takes_body = True
            self._read_inner(words)
        if not any(PROGRAM.fullmatch(name) for name in names):
            return False
        given = ((name.rstrip("+="), word) for name, word in prefixes)
        environment = (*self._environment(), *given)
        self.commands.append(Simple(tuple(words), environment, self.folder))
        return True

    def _set(self, assignments: list[tuple[str, Word]]) -> None:
        for target, word in assignments:
            name = target.rstrip("+=")
            if target.endswith("+="):
                self.variables.extend(name, word.pieces, possible=self._conditional)
            else:
                self.variables.assign(name, (word.pieces,), possible=self._conditional)
        # An assignment succeeds: what stands behind its && is not conditional.
        self._conditional = False

    def _declare(self, program: str, words: list[Word]) -> None:
        for word in words:
            match = _ASSIGNMENT.match(word.head)
            name = match[1] if match else word.text
            if not name or not NAME.fullmatch(name):
                continue
            if match is not None:
                self._set([(match[0], word.after(match.end()))])
            if program == "export":
                self.exported.add(name)

    def _fill(self, words: list[Word]) -> None:
        """``read NAME``: another program gives the value."""
        for word in words:
            name = NAME.match(word.text or "")
            if name is not None and name[0] in self.variables.values:
                self.variables.assign(name[0], None)

    def _environment(self) -> Iterator[tuple[str, Word]]:
        at = self._reader.at
        for name in sorted(self.exported)[:_MOST_EXPORTED]:
            value = self.variables.values.get(name)
            if value is None or len(value) != 1:
                yield name, Word((UNKNOWN_WORD,), at, at)
                continue
            start = next((piece.start for piece in value[0] if piece.start >= 0), at)
            yield name, Word(value[0] or (Piece(""),), start, start)

    # -- shells within ---------------------------------------------------------------------------

    def _inner(self, start: int, end: int) -> None:
        """Read a part of the text as commands of its own."""
        if not self.variables.spend(max(end - start, 0)) or self.depth >= _DEEPEST:
            return
        inner = Shell(
            self.text,
            start,
            end,
            self.dialect,
            self.variables.values,
            frozenset(self.exported),
            self.uses,
            self.depth + 1,
        )
        inner.folder = self.folder
        inner.variables.expanded = self.variables.expanded
        self.commands.extend(inner.read())
        self.variables.expanded = inner.variables.expanded

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
        start = at = self._reader.at
        while at < self.end:
            newline = self.text.find("\n", at, self.end)
            stop = self.end if newline < 0 else newline
            line = self.text[at:stop].rstrip("\r")
            if (line.lstrip("\t") if indented else line) == delimiter:
                break
            at = stop + 1
        if self._takes_body:
            self._inner(start, min(at, self.end))
        at = min(at, self.end)
        newline = self.text.find("\n", at, self.end)
        self._reader.at = self.end if newline < 0 else newline + 1
