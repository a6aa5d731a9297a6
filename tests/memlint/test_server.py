"""The language server, driven by a real client over pipes: what an editor sees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lsprotocol import types

from tests.memlint.editor import TARGET, Editor, actions, applied, edit
from tests.server_edits import random_edits

SCRIPT = """\
from trl import SFTConfig, SFTTrainer

# \N{ROCKET} before the place
args = SFTConfig("out", evaluation_strategy="no", max_seq_length=512)
trainer = SFTTrainer("gpt2", args=args, train_dataset=data)
trainer.train()
"""


def test_what_is_typed_is_checked_fixed_and_ignored(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        uri = editor.open("train.py", SCRIPT)
        await editor.until(lambda: editor.codes(uri) != [])
        assert editor.codes(uri).count("MEM901") == 2
        assert not (tmp_path / "train.py").exists(), "the text of the editor is checked"
        first = next(d for d in editor.published[uri].diagnostics if d.code == "MEM901")
        assert first.range.start == types.Position(3, 24)
        assert first.severity == types.DiagnosticSeverity.Error

        quick = await actions(editor, uri, 3)
        fix = next(a for a in quick if a.title.startswith("MEM901") and "`max_length`" in a.title)
        assert fix.is_preferred
        fixed = applied(SCRIPT, fix.edit.changes[uri])
        assert "max_length=512" in fixed
        assert "max_seq_length" not in fixed
        editor.change(uri, fixed, 2)
        await editor.until(lambda: editor.codes(uri).count("MEM901") == 1)

        again = await actions(editor, uri, 3)
        ignore = next(a for a in again if a.title == "memlint: ignore MEM901 on this line")
        quiet = applied(fixed, ignore.edit.changes[uri])
        assert "# memlint: ignore[MEM901]\n" in quiet
        editor.change(uri, quiet, 3)
        await editor.until(lambda: "MEM901" not in editor.codes(uri))

        editor.text_document_did_close(
            types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri))
        )
        await editor.until(lambda: editor.codes(uri) == [])

    edit(tmp_path, work)


def test_fix_all_says_what_the_command_line_writes(tmp_path: Path) -> None:
    async def work(editor: Editor) -> None:
        uri = editor.open("train.py", SCRIPT)
        await editor.until(lambda: editor.codes(uri) != [])
        (action,) = await actions(editor, uri, 0, ["source.fixAll"])
        fixed = applied(SCRIPT, action.edit.changes[uri])
        offered = [a for a in await actions(editor, uri, 0) if a.kind == "source.fixAll.memlint"]
        resolved = await editor.code_action_resolve_async(offered[0])
        assert resolved.edit == action.edit
        path = tmp_path / "train.py"
        path.write_text(SCRIPT)
        command = [sys.executable, "-m", "memlint", "fix", "--target", TARGET]
        subprocess.run([*command, "--no-cache", str(path)], check=False, capture_output=True)
        assert path.read_text() == fixed != SCRIPT

    edit(tmp_path, work)


def test_hovers_and_prices_in_the_margin(tmp_path: Path) -> None:
    text = SCRIPT.replace("max_seq_length=512", "max_length=512, per_device_train_batch_size=8")

    async def work(editor: Editor) -> None:
        uri = editor.open("train.py", text)
        await editor.until(lambda: uri in editor.footprints)
        column = text.split("\n")[3].index("max_length")
        found = await editor.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(3, column + 2))
        )
        assert "`max_length` of `trl.SFTConfig`" in found.contents.value
        assert "Default: `1024`" in found.contents.value
        nothing = await editor.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(1, 0))
        )
        assert nothing is None
        whole = types.Range(types.Position(0, 0), types.Position(9, 0))
        hints = await editor.text_document_inlay_hint_async(
            types.InlayHintParams(types.TextDocumentIdentifier(uri), whole)
        )
        assert any("saves" in each.label for each in hints)
        assert "peak" in editor.footprints[uri]
        assert "rtx4090-24gb" in editor.footprints[uri]

    edit(tmp_path, work, gpu="rtx4090-24gb")


def test_a_notebook_is_checked_by_its_cells(tmp_path: Path) -> None:
    texts = ["# words", "!pip list\nfrom trl import SFTConfig", 'SFTConfig("o", max_seq_length=3)']
    address = (tmp_path / "n.ipynb").as_uri()
    cells = [f"vscode-notebook-cell:{address.removeprefix('file:')}#c{n}" for n in range(3)]

    async def work(editor: Editor) -> None:
        kinds = [types.NotebookCellKind.Markup, types.NotebookCellKind.Code]
        editor.notebook_document_did_open(
            types.DidOpenNotebookDocumentParams(
                types.NotebookDocument(
                    address, "jupyter-notebook", 1,
                    [types.NotebookCell(kinds[n > 0], uri) for n, uri in enumerate(cells)],
                ),
                [
                    types.TextDocumentItem(uri, "python" if n else "markdown", 1, text)
                    for n, (uri, text) in enumerate(zip(cells, texts, strict=True))
                ],
            )
        )  # fmt: skip
        await editor.until(lambda: editor.codes(cells[2]) == ["MEM901"])
        assert editor.codes(cells[0]) == editor.codes(cells[1]) == []
        (diagnostic,) = editor.published[cells[2]].diagnostics
        assert diagnostic.range.start == types.Position(0, 15)
        fix = (await actions(editor, cells[2], 0))[0]
        assert "max_length=3" in applied(texts[2], fix.edit.changes[cells[2]])
        found = await editor.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(cells[2]), types.Position(0, 18))
        )
        assert "Gone since trl 0.20" in found.contents.value
        editor.notebook_document_did_change(
            types.DidChangeNotebookDocumentParams(
                types.VersionedNotebookDocumentIdentifier(2, address),
                types.NotebookDocumentChangeEvent(
                    cells=types.NotebookDocumentCellChanges(
                        text_content=[
                            types.NotebookDocumentCellContentChanges(
                                types.VersionedTextDocumentIdentifier(2, cells[2]),
                                [types.TextDocumentContentChangeWholeDocument("x = 1\n")],
                            )
                        ]
                    )
                ),
            )
        )
        await editor.until(lambda: editor.codes(cells[2]) == [])

    edit(tmp_path, work)


def test_the_configuration_counts_and_is_read_again(tmp_path: Path) -> None:
    config = tmp_path / "memlint.toml"
    config.write_text('ignore = ["MEM901"]\n')

    def saved(editor: Editor) -> None:
        editor.text_document_did_save(
            types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(config.as_uri()))
        )

    async def work(editor: Editor) -> None:
        uri = editor.open("train.py", SCRIPT)
        await editor.until(lambda: uri in editor.published)
        assert "MEM901" not in editor.codes(uri)
        config.write_text("")
        saved(editor)
        await editor.until(lambda: "MEM901" in editor.codes(uri))
        config.write_text("ignroe = 1\n")
        saved(editor)
        await editor.until(lambda: editor.messages != [])
        assert "did you mean 'ignore'?" in editor.messages[0]
        config.write_text("")
        editor.workspace_did_change_configuration(
            types.DidChangeConfigurationParams(
                {"memlint": {"target": "trl=1.16", "ignore": ["MEM901"]}}
            )
        )
        editor.change(uri, f"{SCRIPT}\n", 2)
        await editor.until(lambda: editor.published[uri].version == 2)
        assert "MEM901" not in editor.codes(uri)

    edit(tmp_path, work)


def test_a_recipe_is_checked_and_other_yaml_is_not(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("trl sft --config sft.yaml\n")
    recipe = "model_name_or_path: gpt2\ndataset_name: a/b\nmax_seq_length: 512\n"

    async def work(editor: Editor) -> None:
        other = editor.open("other.yaml", "name: ci\nsteps: []\n", "yaml")
        uri = editor.open("sft.yaml", recipe, "yaml")
        await editor.until(lambda: "MEM901" in editor.codes(uri))
        await editor.until(lambda: other in editor.published)
        assert editor.codes(other) == []

    edit(tmp_path, work)


@pytest.mark.parametrize("seed", [1])
def test_random_edits_end_where_the_command_line_does(tmp_path: Path, seed: int) -> None:
    """Incremental edits in UTF-16 units, many faster than a check: no crash and no drift."""
    outcome = random_edits(tmp_path, seed, edits=300, between=60)
    assert outcome.differing == ()
    assert outcome.compared == 10
    assert 0 < outcome.parsed < 10, "texts that parse and texts that do not"
