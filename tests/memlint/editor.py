"""An editor for tests: a real client of the language server, over pipes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

TARGET = "trl=1.16,transformers=5.23"
MEMLINT = (sys.executable, "-m", "memlint")
WAIT = 60.0


class Editor(LanguageClient):
    """A client that remembers what was published of each document."""

    def __init__(self, folder: Path) -> None:
        super().__init__("editor", "1")
        self.folder = folder
        self.published: dict[str, types.PublishDiagnosticsParams] = {}
        self.messages: list[str] = []
        self.footprints: dict[str, str] = {}
        self._news = asyncio.Event()

        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            self.published[params.uri] = params
            self._news.set()

        @self.feature(types.WINDOW_SHOW_MESSAGE)
        def told(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)
            self._news.set()

        @self.feature("memlint/footprint")
        def footprint(params: Any) -> None:
            self.footprints[params.uri] = params.text
            self._news.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until ``is_so``, which is asked after all that the server says."""

        async def wait() -> None:
            while not is_so():
                self._news.clear()
                await self._news.wait()

        await asyncio.wait_for(wait(), WAIT)

    def codes(self, uri: str) -> list[str]:
        known = self.published.get(uri)
        return [] if known is None else [str(each.code) for each in known.diagnostics]

    def open(self, name: str, text: str, language: str = "python") -> str:
        uri = (self.folder / name).as_uri()
        self.text_document_did_open(
            types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, language, 1, text))
        )
        return uri

    def change(self, uri: str, text: str, version: int) -> None:
        self.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(version, uri),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )


def edit(
    folder: Path,
    work: Callable[[Editor], Awaitable[None]],
    *,
    seconds: float = 4 * WAIT,
    **settings: object,
) -> None:
    """Start a server in ``folder``, let ``work`` use it for so long at most, and end it."""

    async def run() -> None:
        editor = Editor(folder)
        await editor.start_io(sys.executable, "-m", "memlint", "server", cwd=str(folder))
        await editor.initialize_async(
            types.InitializeParams(
                capabilities=types.ClientCapabilities(),
                root_uri=folder.as_uri(),
                initialization_options={"target": TARGET, **settings},
            )
        )
        editor.initialized(types.InitializedParams())
        try:
            await asyncio.wait_for(work(editor), seconds)
        finally:
            await editor.shutdown_async(None)
            editor.exit(None)
            await editor.stop()

    asyncio.run(run())


def applied(text: str, edits: list[types.TextEdit]) -> str:
    """Return ``text`` with edits in UTF-16 units."""
    lines = text.split("\n")

    def at(place: types.Position) -> int:
        before = sum(len(line) + 1 for line in lines[: place.line])
        line = lines[place.line] if place.line < len(lines) else ""
        return before + len(line.encode("utf-16-le")[: 2 * place.character].decode("utf-16-le"))

    for each in sorted(edits, key=lambda each: at(each.range.start), reverse=True):
        text = text[: at(each.range.start)] + each.new_text + text[at(each.range.end) :]
    return text


def actions(editor: Editor, uri: str, line: int, only: list[str] | None = None) -> Any:
    here = types.Range(types.Position(line, 0), types.Position(line, 0))
    context = types.CodeActionContext([], only)
    return editor.text_document_code_action_async(
        types.CodeActionParams(types.TextDocumentIdentifier(uri), here, context)
    )


def in_utf16(text: str, offset: int) -> types.Position:
    """Return an offset as a position in UTF-16 units."""
    before = text[:offset].replace("\r\n", "\n")
    lines = before.split("\n")
    return types.Position(len(lines) - 1, len(lines[-1].encode("utf-16-le")) // 2)
