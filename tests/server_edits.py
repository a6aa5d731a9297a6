"""Random edits in an editor, against the command line: ``python -m tests.server_edits``.

A client types into a script that the server holds: pieces of code and of nothing, in UTF-16 units,
faster than a check. It asks for fixes, hovers and prices meanwhile. Now and then it waits, and what
is shown must be what `memlint check` says of the same text, to the column; what "fix all" would
write must be what `memlint fix` does. Nothing else is right: a text that does not parse has its
finding, too. Prints each text that differs, and exits with 1 if any does.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click
from lsprotocol import types

from tests.memlint.editor import MEMLINT, TARGET, Editor, actions, applied, edit, in_utf16

SCRIPTS = Path(__file__).parent / "scripts"
PIECES = (
    "x", "\n", "(", ")", "\N{ROCKET}", " = 1\n", '"', "\r\n", "    ", "#", "max_length=3, ",
    "bf16=True, ", "\n\nfor row in rows:\n    pass\n", "\u00e4", "\t", "'''", "None", ",",
)  # fmt: skip
BETWEEN = 100  # edits between two comparisons
QUESTIONS = 0.02  # share of edits after which the client asks for something


class Outcome(NamedTuple):
    """How many edits were made, texts compared, of these with findings and parsed, and which
    differ."""

    edits: int = 0
    compared: int = 0
    with_findings: int = 0
    parsed: int = 0
    differing: tuple[str, ...] = ()


class Typist:
    """Edits one document, and knows what its text must be."""

    def __init__(self, editor: Editor, chance: random.Random, scripts: Sequence[str]) -> None:
        self._editor, self._chance, self._scripts = editor, chance, scripts
        self._version = 1
        self.text = chance.choice(scripts)
        self._uri = editor.open("train.py", self.text)

    def replace(self, start: int, end: int, piece: str) -> None:
        """Put ``piece`` in the place of a part of the text."""
        self._version += 1
        places = types.Range(in_utf16(self.text, start), in_utf16(self.text, end))
        self._editor.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(self._version, self._uri),
                [types.TextDocumentContentChangePartial(places, piece)],
            )
        )
        self.text = self.text[:start] + piece + self.text[end:]

    def type(self) -> bool:
        """Make a random edit; False where the place lies within a newline of two characters."""
        text, chance = self.text, self._chance
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice([0, 0, 0, 1, 5, 40]))
        if "\r" in (text[start - 1 : start], text[end - 1 : end]):
            return False
        self.replace(start, end, chance.choice([*PIECES, text[start : start + 12].strip("\r\n")]))
        return True

    def take_back(self) -> None:
        """Put another script in the place of the whole text: most random texts do not parse."""
        self.replace(0, len(self.text), self._chance.choice(self._scripts))

    async def ask(self) -> None:
        """Ask for what an editor asks for while one types."""
        line = self._chance.randrange(self.text.count("\n") + 1)
        document = types.TextDocumentIdentifier(self._uri)
        match self._chance.randrange(3):
            case 0:
                await actions(self._editor, self._uri, line)
            case 1:
                place = types.Position(line, self._chance.randrange(12))
                await self._editor.text_document_hover_async(types.HoverParams(document, place))
            case _:
                whole = types.Range(types.Position(0, 0), types.Position(line, 0))
                hints = types.InlayHintParams(document, whole)
                await self._editor.text_document_inlay_hint_async(hints)

    async def shown(self) -> list[tuple[str, int, int]]:
        """Return what the editor shows of the text as it is, once it does."""
        published = self._editor.published
        version = self._version
        await self._editor.until(
            lambda: self._uri in published and published[self._uri].version == version
        )
        return [
            (str(each.code), each.range.start.line, each.range.start.character)
            for each in published[self._uri].diagnostics
        ]

    async def fixed(self) -> str:
        """Return the text after "fix all"."""
        found = await actions(self._editor, self._uri, 0, ["source.fixAll"])
        edits = found[0].edit.changes.get(self._uri, []) if found else []
        return applied(self.text, edits)


def wanted(folder: Path, text: str) -> list[tuple[str, int, int]]:
    """Return what ``memlint check`` says of a text, with columns in UTF-16 units."""
    done = _memlint(folder, text, "check", "--output-format", "json")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    places = []
    for each in json.loads(done.stdout):
        row, column = each["location"]["row"] - 1, each["location"]["column"] - 1
        line = lines[row] if row < len(lines) else ""
        places.append((each["code"], row, len(line[:column].encode("utf-16-le")) // 2))
    return places


def _memlint(folder: Path, text: str, *command: str) -> subprocess.CompletedProcess[bytes]:
    options = (
        "--no-cache",
        "--force-exclude",
        "--target",
        TARGET,
        "--stdin-filename",
        "train.py",
        "-",
    )
    given = text.encode("utf-8", "surrogatepass")
    done = subprocess.run(
        [*MEMLINT, *command, *options], input=given, capture_output=True, cwd=folder, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done


def random_edits(folder: Path, seed: int, edits: int, between: int = BETWEEN) -> Outcome:
    """Make so many edits; compare after each ``between`` of them."""
    chance = random.Random(seed)
    scripts = [path.read_text(encoding="utf-8") for path in sorted(SCRIPTS.glob("*.py"))]
    outcome = Outcome()

    async def work(editor: Editor) -> None:
        nonlocal outcome
        typist = Typist(editor, chance, [each for each in scripts if len(each) < 6000])
        while outcome.edits < edits:
            outcome = outcome._replace(edits=outcome.edits + typist.type())
            if chance.random() < QUESTIONS:
                await typist.ask()
            if outcome.edits % between:
                continue
            outcome = _compared(outcome, folder, typist.text, await typist.shown())
            if outcome.compared % 5 == 0:
                by_command = _memlint(folder, typist.text, "fix").stdout.decode()
                if (by_editor := await typist.fixed()) != by_command:
                    outcome = _differs(outcome, typist.text, by_editor, by_command)
            typist.take_back()
            for _ in range(chance.randrange(4)):  # few edits: most of these texts parse
                typist.type()
            outcome = _compared(outcome, folder, typist.text, await typist.shown())

    edit(folder, work, seconds=60 + edits)
    return outcome


def _compared(
    outcome: Outcome, folder: Path, text: str, shown: list[tuple[str, int, int]]
) -> Outcome:
    said = wanted(folder, text)
    outcome = outcome._replace(
        compared=outcome.compared + 1,
        with_findings=outcome.with_findings + bool(said),
        parsed=outcome.parsed + all(code != "MEM002" for code, *_ in said),
    )
    return outcome if said == shown else _differs(outcome, text, shown, said)


def _differs(outcome: Outcome, text: str, shown: object, said: object) -> Outcome:
    told = f"shown: {shown}\nsaid: {said}\n{text!r}"
    return outcome._replace(differing=(*outcome.differing, told))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--edits", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = random_edits(Path(folder), options.seed, options.edits)
    for each in outcome.differing:
        click.echo(each)
    click.echo(
        f"edits: {outcome.edits}, texts compared: {outcome.compared} ({outcome.parsed} that parse,"
        f" {outcome.with_findings} with findings), differ: {len(outcome.differing)}, crashes: 0"
    )
    return 1 if outcome.differing else 0


if __name__ == "__main__":
    sys.exit(main())
