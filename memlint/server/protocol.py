"""The language server: diagnostics as one types, fixes, ignores, hovers and prices in the margin.

Checks run one at a time in a thread; a text that changes meanwhile is checked again, and what was
found of the old one is never shown. Places are rows and characters here, and the client's units
there. Needs pygls (``pip install 'torch-memlint[server]'``).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

import memlint
from memlint.project.config import ConfigError
from memlint.reports.readable import footprint_line, saving_words
from memlint.run.results import FileResult, Rendered
from memlint.server.documents import Checker, cells_of, ignored, line_edits, notebook
from memlint.source import Location
from memlint.source.diagnostics import ReadError
from memlint.source.reading import read_source
from memlint.source.record import NamedTuple

_Result = TypeVar("_Result")

_SECONDS = 0.08  # of silence before a changed text is checked
_SEVERITIES = {"error": "Error", "waste": "Warning", "notice": "Information", "hint": "Hint"}
_FIX_ALL = "source.fixAll.memlint"
_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    notebook_selector=[
        types.NotebookDocumentFilterWithCells(
            cells=[types.NotebookCellLanguage("python"), types.NotebookCellLanguage("markdown")]
        )
    ],
    save=True,
)


class Document(NamedTuple):
    """A text, or the cells of a notebook, as the client has it at this moment.

    parts: the address and the lines of the text, or of each cell. versions: of the parts.
    """

    uri: str
    path: str
    data: bytes
    parts: list[tuple[str, list[str]]]
    versions: list[int | None]
    is_notebook: bool

    def part(self, location: Location) -> tuple[str, list[str]] | None:
        """Return the part that a place is in; None for a cell that has gone."""
        number = (location.cell or 1) - 1
        return self.parts[number] if number < len(self.parts) else None


class Server(LanguageServer):
    """The server's state: what was found of each open document, and what is being checked."""

    def __init__(self) -> None:
        super().__init__("memlint", memlint.__version__, notebook_document_sync=_NOTEBOOKS)
        self.checker = Checker()
        self.found: dict[str, tuple[Document, FileResult]] = {}
        self._opened: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memlint")
        self._told = ""

    # -- documents -------------------------------------------------------------------------------

    def document(self, uri: str) -> Document:
        """Return the open document, or the notebook that a cell is of."""
        whole = self.workspace.get_notebook_document(
            notebook_uri=uri
        ) or self.workspace.get_notebook_document(cell_uri=uri)
        if whole is None:
            text = self.workspace.get_text_document(uri)
            data = text.source.encode("utf-8", "surrogatepass")
            parts = [(uri, list(text.lines))]
            return Document(uri, _path(uri), data, parts, [text.version], False)
        texts = [self.workspace.get_text_document(cell.document) for cell in whole.cells]
        kinds = [
            "code" if cell.kind == types.NotebookCellKind.Code else "markdown"
            for cell in whole.cells
        ]
        data = notebook([(kind, text.source) for kind, text in zip(kinds, texts, strict=True)])
        parts = [(text.uri, list(text.lines)) for text in texts]
        versions = [whole.version, *(text.version for text in texts)]
        path = os.path.splitext(_path(whole.uri))[0] + ".ipynb"
        return Document(whole.uri, path, data, parts, versions, True)

    def open(self, uri: str) -> None:
        """Check a document from now on."""
        uri = self.document(uri).uri
        self._opened.add(uri)
        self.schedule(uri, 0)

    def close(self, uri: str, cells: Sequence[str] = ()) -> None:
        """Forget a document and what was said of it."""
        self._opened.discard(uri)
        self.found.pop(uri, None)
        if (task := self._tasks.pop(uri, None)) is not None:
            task.cancel()
        for each in cells or [uri]:
            self._publish(each, [], None)

    def schedule(self, uri: str, seconds: float = _SECONDS) -> None:
        """Check a document once it has been left alone for a moment."""
        if (task := self._tasks.get(uri)) is not None:
            task.cancel()
        self._tasks[uri] = asyncio.ensure_future(self._check_later(uri, seconds))

    def again(self) -> None:
        """Check all open documents: files of the project, or settings, changed."""
        self.found.clear()
        for uri in self._opened:
            self.schedule(uri, 0)

    async def reload(self, options: dict[str, Any] | None = None) -> None:
        """Read the project anew, with other settings of the editor if they are given."""
        checker = self.checker
        do = checker.reload if options is None else lambda: checker.configure(options)
        await self.in_thread(do)
        self.again()

    async def in_thread(self, do: Callable[[], _Result]) -> _Result:
        """Return what ``do`` returns, called where all checks run."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, do)

    async def _check_later(self, uri: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.checked(uri)

    async def checked(self, uri: str) -> tuple[Document, FileResult] | None:
        """Return what is found in the document as it is now, and show it; None if it cannot be."""
        document = self.document(uri)
        known = self.found.get(document.uri)
        if known is not None and known[0].versions == document.versions:
            return known
        try:
            result = await self.in_thread(lambda: self.checker.check(document.path, document.data))
        except (ConfigError, ValueError) as error:
            self._tell(str(error))
            return None
        if self.document(uri).versions != document.versions:
            return None  # what was typed since is being checked
        self.found[document.uri] = (document, result)
        self._show(document, result)
        return document, result

    # -- what is shown ---------------------------------------------------------------------------

    def _tell(self, message: str) -> None:
        if message != self._told:
            self._told = message
            error = types.MessageType.Error
            self.window_show_message(types.ShowMessageParams(error, f"memlint: {message}"))

    def _show(self, document: Document, result: FileResult) -> None:
        self._told = ""
        by_part: dict[str, list[types.Diagnostic]] = {uri: [] for uri, _ in document.parts}
        for finding in result.findings:
            if (part := document.part(finding.start)) is not None:
                by_part[part[0]].append(self.diagnostic(finding, part[1]))
        for uri, diagnostics in by_part.items():
            self._publish(uri, diagnostics, None if document.is_notebook else document.versions[0])
        text = footprint_line(document.path, result.footprint) if result.footprint else ""
        self.protocol.notify("memlint/footprint", {"uri": document.uri, "text": text})
        capabilities = self.client_capabilities.workspace
        if capabilities and capabilities.inlay_hint and capabilities.inlay_hint.refresh_support:
            self.workspace_inlay_hint_refresh(None)

    def _publish(self, uri: str, diagnostics: list[types.Diagnostic], version: int | None) -> None:
        said = types.PublishDiagnosticsParams(uri, diagnostics, version)
        self.text_document_publish_diagnostics(said)

    def diagnostic(self, finding: Rendered, lines: Sequence[str]) -> types.Diagnostic:
        """Return a finding as the client shows it."""
        message = finding.message
        if finding.saving is not None:
            message += f"; {saving_words(finding.saving)}"
        return types.Diagnostic(
            self.range(finding.start, finding.end, lines),
            message,
            types.DiagnosticSeverity[_SEVERITIES[finding.level]],
            finding.code,
            types.CodeDescription(finding.url) if finding.url else None,
            "memlint",
        )

    def range(self, start: Location, end: Location, lines: Sequence[str]) -> types.Range:
        """Return a range in the client's units."""
        return types.Range(self.position(start, lines), self.position(end, lines))

    def position(self, place: Location, lines: Sequence[str]) -> types.Position:
        """Return a place in the client's units."""
        position = types.Position(place.row - 1, place.column - 1)
        if position.line >= len(lines):
            return types.Position(len(lines), 0)
        return self.workspace.position_codec.position_to_client_units(lines, position)

    def place(self, position: types.Position, lines: Sequence[str]) -> tuple[int, int]:
        """Return the 0-based line and character of a position of the client."""
        found = self.workspace.position_codec.position_from_client_units(list(lines), position)
        return found.line, found.character

    def edits(self, document: Document, after: bytes) -> types.WorkspaceEdit:
        """Return what makes ``after`` of a document, whole lines alone."""
        decoded = after.decode("utf-8", "surrogatepass")
        texts = cells_of(after) if document.is_notebook else [decoded]
        changes: dict[str, list[types.TextEdit]] = {}
        for (uri, lines), text in zip(document.parts, texts, strict=True):
            for first, last, new in line_edits("".join(lines), text):
                place = types.Range(types.Position(first, 0), types.Position(last, 0))
                changes.setdefault(uri, []).append(types.TextEdit(place, new))
        return types.WorkspaceEdit(changes=changes)


def _path(uri: str) -> str:
    """Return the path of a document; one that is not saved lies in the working folder."""
    if uri.startswith("file:") and (path := uris.to_fs_path(uri)) is not None:
        return os.path.abspath(path)
    name = uri.rpartition(":")[2].strip("/").replace("/", "_") or "untitled"
    return os.path.abspath(name if "." in name else f"{name}.py")


def _address(params: Any) -> str:
    """Return the address of the text or the notebook that a message speaks of."""
    return str((getattr(params, "text_document", None) or params.notebook_document).uri)


def make_server() -> Server:
    """Return the server with all that it answers."""
    server = Server()

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        options = params.initialization_options
        if isinstance(options, dict):
            server.checker.configure(options.get("settings", options))

    @server.feature(types.INITIALIZED)
    async def initialized(_: types.InitializedParams) -> None:
        workspace = server.client_capabilities.workspace
        watched = workspace and workspace.did_change_watched_files
        if watched and watched.dynamic_registration:
            pattern = "**/{*.py,*.ipynb,*.toml,*.yaml,*.yml,*.json,*.lock,*.txt,*.sh}"
            options = types.DidChangeWatchedFilesRegistrationOptions(
                [types.FileSystemWatcher(pattern)]
            )
            await server.client_register_capability_async(
                types.RegistrationParams(
                    [types.Registration("watch", "workspace/didChangeWatchedFiles", options)]
                )
            )

    def closed(params: Any) -> None:
        cells = [each.uri for each in getattr(params, "cell_text_documents", ())]
        server.close(_address(params), cells)

    async def saved(_: Any) -> None:
        await server.reload()  # what a saved file says is read where others use it

    does: dict[str, Callable[[Any], Any]] = {
        "didOpen": lambda told: server.open(_address(told)),
        "didChange": lambda told: server.schedule(_address(told)),
        "didClose": closed,
        "didSave": saved,
    }
    for event, do in does.items():
        server.feature(f"textDocument/{event}")(do)
        server.feature(f"notebookDocument/{event}")(do)
    server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)(saved)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def settings_changed(params: types.DidChangeConfigurationParams) -> None:
        settings = params.settings
        if isinstance(settings, dict):
            await server.reload(settings.get("memlint", settings))

    _answer_questions(server)
    return server


def _answer_questions(server: Server) -> None:
    """Register what the client asks for: fixes, hovers, prices in the margin."""

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(
            code_action_kinds=[types.CodeActionKind.QuickFix, _FIX_ALL], resolve_provider=True
        ),
    )
    async def code_actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri, only = params.text_document.uri, params.context.only
        actions: list[types.CodeAction] = []
        wants_fixes = _is_wanted(types.CodeActionKind.QuickFix, only)
        if wants_fixes and (checked := await server.checked(uri)) is not None:
            actions += _quick_fixes(server, uri, params.range, *checked)
        if _is_wanted(_FIX_ALL, only):
            action = types.CodeAction("memlint: fix all safe", _FIX_ALL, data={"uri": uri})
            # An editor that fixes on save does not resolve.
            actions.append(await resolve(action) if only else action)
        return actions

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(action: types.CodeAction) -> types.CodeAction:
        data: Any = action.data
        if isinstance(data, dict) and isinstance(data.get("uri"), str):
            document = server.document(data["uri"])
            checker = server.checker
            after = await server.in_thread(lambda: checker.fix(document.path, document.data))
            action.edit = server.edits(document, document.data if after is None else after)
        return action

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        checked = await server.checked(uri)
        document = server.document(uri)
        number = [each for each, _ in document.parts].index(uri)
        line, column = server.place(params.position, document.parts[number][1])
        cell = number + 1 if document.is_notebook else None
        here = (line + 1, column + 1)
        option = await server.in_thread(lambda: _option(server, document, cell, line, column))
        parts = [option] if option else []
        if checked is not None:
            parts += [
                _words(each)
                for each in checked[1].findings
                if each.start.cell == cell and each.start[:2] <= here <= each.end[:2]
            ]
        text = types.MarkupContent(types.MarkupKind.Markdown, "\n\n---\n\n".join(parts))
        return types.Hover(text) if parts else None

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    async def inlay_hints(params: types.InlayHintParams) -> list[types.InlayHint]:
        uri = params.text_document.uri
        checked = await server.checked(uri)
        if checked is None:
            return []
        document, result = checked
        hints = []
        for finding in result.findings:
            part = document.part(finding.start)
            if finding.saving is None or part is None or part[0] != uri:
                continue
            row = finding.start.row
            text = part[1][row - 1].rstrip("\r\n") if row <= len(part[1]) else ""
            place = server.position(Location(row, len(text) + 1), part[1])
            if params.range.start.line <= place.line <= params.range.end.line:
                label = f"{finding.code} {saving_words(finding.saving)}"
                hints.append(types.InlayHint(place, label, padding_left=True))
        return hints


def _is_wanted(kind: str, only: Sequence[str] | None) -> bool:
    """True if a client that asks for ``only`` these kinds wants this one."""
    return not only or any(kind == each or kind.startswith(f"{each}.") for each in only)


def _quick_fixes(
    server: Server, uri: str, wanted: types.Range, document: Document, result: FileResult
) -> Iterator[types.CodeAction]:
    """Yield the fix of each finding in a range, and the suppression of it."""
    for finding in result.findings:
        part = document.part(finding.start)
        if part is None or part[0] != uri:
            continue
        diagnostic = server.diagnostic(finding, part[1])
        place = diagnostic.range
        if place.end.line < wanted.start.line or wanted.end.line < place.start.line:
            continue
        fix = finding.fix
        if fix is not None and fix.edits:
            changes: dict[str, list[types.TextEdit]] = {}
            for edit in fix.edits:
                where = document.part(edit.start)
                if where is not None:
                    span = server.range(edit.start, edit.end, where[1])
                    changes.setdefault(where[0], []).append(types.TextEdit(span, edit.content))
            is_safe = fix.applicability == "safe"
            yield types.CodeAction(
                f"{finding.code}: {fix.message}{'' if is_safe else ' (changes training)'}",
                types.CodeActionKind.QuickFix,
                [diagnostic],
                is_preferred=is_safe,
                edit=types.WorkspaceEdit(changes=dict(changes)),
            )
        after = ignored(document.path, document.data, finding)
        if after is not None:
            yield types.CodeAction(
                f"memlint: ignore {finding.code} on this line",
                types.CodeActionKind.QuickFix,
                [diagnostic],
                edit=server.edits(document, after),
            )


def _words(finding: Rendered) -> str:
    """Return a finding as Markdown, with its reason."""
    lines = [f"**{finding.code} {finding.name}**: {finding.message}"]
    if finding.saving is not None:
        lines.append(f"The fix {saving_words(finding.saving)}.")
    lines.append(finding.why)
    if finding.url:
        lines.append(f"[Source]({finding.url}); `memlint rule {finding.code}` says more.")
    return "\n\n".join(line for line in lines if line)


def _option(server: Server, document: Document, cell: int | None, line: int, column: int) -> str:
    """Return what the tables know of the option at a place; empty where there is none."""
    from memlint.server.hover import option_at

    if not document.path.endswith((".py", ".ipynb")):
        return ""
    try:
        source = read_source(document.path, document.data)
        settings = server.checker.settings(document.path)
        api = server.checker.targets.api(document.path, settings.target, source)
    except (ReadError, ValueError):
        return ""
    for each in source.cells:
        if each.number == cell:
            line += source.line(each.span.start)
    return option_at(source, api, line, column) if line < len(source.line_starts) else ""


def serve() -> None:
    """Answer a client on standard input and output until it says goodbye."""
    # Streams of its own: pygls closes them, and the program flushes its own when it ends.
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as answers:
        make_server().start_io(requests, answers)
