"""Notebooks: magics are masked and given back, only edited cells change, places are cells'."""

from __future__ import annotations

import ast
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.source.diagnostics import FileError, ReadError
from memlint.source.masking import Masks, magics, mask, mask_alone, unmask
from memlint.source.notebook import cell_texts
from memlint.source.parsing import parse_python
from memlint.source.reading import encode, read, read_source

MASKS = Masks("memlint-magic")


def notebook(*cells: str | list[str], **extra: Any) -> dict[str, Any]:
    return {
        "cells": [
            {
                "cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [],
                "source": source,
            }
            for source in cells
        ],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
        **extra,
    }  # fmt: skip


def as_bytes(document: dict[str, Any], **options: Any) -> bytes:
    return json.dumps(document, **{"indent": 1, "ensure_ascii": False, **options}).encode()


def test_cells_become_one_script_with_places_of_their_own() -> None:
    document = notebook("import trl\n", "x = 1\ny = 2")
    document["cells"].insert(1, {"cell_type": "markdown", "metadata": {}, "source": "# trl"})
    source = read_source("n.ipynb", as_bytes(document))
    ast.parse(source.text)
    offset = source.data.index(b"y = 2")
    assert source.location(offset) == (2, 1, 3)
    assert [cell.number for cell in source.cells] == [1, 3]
    assert [source.slice(cell.span) for cell in source.cells] == ["import trl\n", "x = 1\ny = 2"]


MAGICS = [
    "%matplotlib inline\nx = 1\n",
    "!pip install trl\n",
    "!pip install trl \\\n    transformers \\\n  peft\nx = 1\n",
    "?trl.SFTConfig\n",
    "trl.SFTConfig?\n",
    "trl.SFTConfig??",
    "files = !ls *.py\nprint(files)\n",
    "a, b = %time load()\n",
    "if x:\n    !nvidia-smi\nelse:\n    %pip list\n",
    "%%time\ntrainer.train()\n",
    "\n%%capture out\nx = 1\n",
    "  %cd /content  \r\nx = 1\r\n",
    "x = '''\n!not a magic\n'''\n!ls\n",
    "y = (10\n%3)\n%ls\n",
    'def f():\n    """Doc\n    %not\n    """\n    !echo "(" # [\n    return 1\n',
    "z = 1 \\\n% 2\n!ls {z}\n",
]


@pytest.mark.parametrize("text", MAGICS)
def test_magics_are_masked_and_given_back(text: str) -> None:
    masked = mask(text, MASKS)
    assert masked is not None
    tree = ast.parse(masked)
    assert len(masked.split("\n")) == len(text.split("\n"))
    assert unmask(masked, MASKS) == text
    assert not any("not a magic" in line and "memlint" in line for line in masked.split("\n"))
    assert tree.body


@pytest.mark.parametrize("text", ["pip install -U trl==0.12.2", "\n  mkdir -p runs/a \r\n"])
def test_one_line_alone_is_a_magic_without_its_sign(text: str) -> None:
    masked = mask_alone(text, MASKS)
    assert ast.parse(masked).body
    assert unmask(masked, MASKS) == text


@pytest.mark.parametrize("text", ["pip install trl\nx = 1\n", "trl install x", "pip = 3 +"])
def test_no_other_line_is_a_magic_without_its_sign(text: str) -> None:
    assert mask_alone(text, MASKS) == text


def test_assigned_magic_is_no_known_value() -> None:
    masked = mask("files = !ls\n", MASKS)
    assert masked is not None
    statement = ast.parse(masked).body[0]
    assert isinstance(statement, ast.Assign)
    assert isinstance(statement.value, ast.Call)


def test_masked_line_follows_a_new_indentation() -> None:
    masked = mask("!ls\n", MASKS)
    assert masked is not None
    assert unmask("with x:\n    " + masked, MASKS) == "with x:\n    !ls\n"


def test_other_languages_are_skipped_silently() -> None:
    read_ = read("n.ipynb", as_bytes(notebook("%%perl\nls -l trl\n", "%%html\n<b>", "x = 1")))
    assert [cell.number for cell in read_.source.cells] == [3]
    assert read_.diagnostics == ()
    julia = notebook("x = 1", metadata={"language_info": {"name": "julia"}})
    assert read_source("n.ipynb", as_bytes(julia)).text == ""


def test_broken_cell_is_left_out_and_told() -> None:
    read_ = read("n.ipynb", as_bytes(notebook("x = 1", "y = = 2\n", "z = (\n", "w = 1")))
    assert [cell.number for cell in read_.source.cells] == [1, 4]
    assert [(d.cell, d.row) for d in read_.diagnostics] == [(2, 1), (3, 1)]
    assert "cell 2 does not parse" in read_.diagnostics[0].message


@pytest.mark.parametrize(
    ("data", "message", "row"),
    [
        (b"", "is empty", 1),
        (b'{"cells": [\n  {"a": 1,]}', "broken JSON", 2),
        (b"[1]", "holds no object", None),
        (b'{"a": 1}', "no list of cells", None),
        (b'{"worksheets": []}', "nbconvert", None),
        (b'{"cells": "\xff"}', "not UTF-8", None),
        (b'{"cells": [5]}', "broken notebook: cell 1 is no object", None),
        (
            as_bytes(notebook("x", 5)),  # type: ignore[arg-type]
            "broken notebook: the source of cell 2 must be text or a list of lines, not 5",
            None,
        ),
        (
            as_bytes(notebook(["import torch\n", 5])),  # type: ignore[list-item]
            "broken notebook: the source of cell 1 must be text or a list of lines, and holds 5",
            None,
        ),
        (b"[" * 100_000, "nested too deeply", None),
    ],
)
def test_no_notebook(data: bytes, message: str, row: int | None) -> None:
    with pytest.raises(ReadError, match=message) as caught:
        read_source("n.ipynb", data)
    assert caught.value.diagnostic.row == row


# What dumping the JSON anew would change.
AWKWARD = (
    b'{ "nbformat":4 , "metadata": {"n": 1e5, "v": 1.10, "p": "a\\/b", "source": ["no"]},\n'
    b'"cells":[{"cell_type":"markdown","source":["# alpha"]},\n'
    b'  {"outputs": [{"data": {"source": "not this", "cells": [1]}}], "cell_type": "code",\n'
    b'   "source": [\n    "x = alpha\\n",\n    "# \\u00e4 \\/ kept\\n",\n    "y = 1"\n   ]},\n'
    b'  {"source": "!ls\\nz = alpha\\n", "cell_type": "code"},\n'
    b'  {"source": [], "cell_type": "code"}], "nbformat_minor": 5}\n\n'
)


def test_edits_are_spliced_and_every_other_byte_stays() -> None:
    source = read_source("n.ipynb", AWKWARD)
    edited = source.text.replace("alpha", "omega")
    assert encode(source, edited) == AWKWARD.replace(b"= alpha", b"= omega")
    assert encode(source, source.text) == AWKWARD


def test_lines_may_be_added_and_removed() -> None:
    source = read_source("n.ipynb", AWKWARD)
    added = encode(source, source.text.replace("x = alpha", "import q\nx = alpha"))
    assert added == AWKWARD.replace(
        b'    "x = alpha\\n",', b'    "import q\\n",\n    "x = alpha\\n",'
    )
    removed = encode(source, source.text.replace("x = alpha\n", ""))
    assert removed == AWKWARD.replace(b'    "x = alpha\\n",\n', b"")
    longer = encode(source, source.text.replace("y = 1", "y = 1\nz = 'ü'"))
    assert json.loads(longer)["cells"][1]["source"][-2:] == ["y = 1\n", "z = 'ü'"]
    assert b"\\u00fc" in longer, "this notebook writes its umlauts as escapes"


def test_byte_order_mark_and_single_line_lists_survive() -> None:
    data = b'\xef\xbb\xbf{"cells": [{"cell_type": "code", "source": ["x = alpha"]}]}'
    source = read_source("n.ipynb", data)
    assert encode(source, source.text.replace("alpha", "omega")) == data.replace(b"alpha", b"omega")
    two = encode(source, source.text.replace("alpha", "1\ny = 2"))
    assert b'["x = 1\\n", "y = 2"]' in two


def test_edit_across_cells_is_refused() -> None:
    source = read_source("n.ipynb", as_bytes(notebook("x = 1", "y = 2")))
    marker = source.text.split("\n")[2]
    with pytest.raises(ValueError, match="border between two cells"):
        encode(source, source.text.replace(marker + "\n", ""))
    with pytest.raises(ValueError, match="before the first cell"):
        encode(source, "import os\n" + source.text)


def test_user_text_that_looks_like_our_marks_is_kept() -> None:
    tricky = "# memlint-cell 2\nx = 1\npass  # memlint-magic: !ls\n!ls\n"
    source = read_source("n.ipynb", as_bytes(notebook(tricky, "y = alpha")))
    data = encode(source, source.text.replace("alpha", "omega").replace("x = 1", "x = 2"))
    cells = [cell["source"] for cell in json.loads(data)["cells"]]
    assert cells == [tricky.replace("x = 1", "x = 2"), "y = omega"]
    assert cell_texts(source, source.text)[1] == tricky


LINES = st.sampled_from(
    ["x = 1", "!ls", "%time f()", "y = !pwd", "", "    ", "f(a,", "  b)", "'''", "# ä", "obj?",
     "if x:", "    !ls \\", "    more", "z = '\u2028'", "%%bash", "\u00fc = 1\r"]
)  # fmt: skip
CELLS = st.lists(st.lists(LINES, max_size=6).map("\n".join), max_size=5)


@given(CELLS, st.booleans(), st.sampled_from([None, 0, 1, "\t"]), st.booleans())
def test_any_notebook_reads_and_appending_touches_only_its_cell(
    cells: list[str], as_list: bool, indent: int | str | None, ensure_ascii: bool
) -> None:
    sources = [cell.splitlines(keepends=True) if as_list else cell for cell in cells]
    data = as_bytes(notebook(*sources), indent=indent, ensure_ascii=ensure_ascii)
    source = read("n.ipynb", data).source
    assert encode(source, source.text) == data
    ast.parse(source.text)
    for cell in source.cells:
        end = cell.span.end
        new = (source.data[:end] + b"\nw = 9" + source.data[end:]).decode()
        after = ["".join(c["source"]) for c in json.loads(encode(source, new))["cells"]]
        assert after == [
            text + "\nw = 9" if number == cell.number else text
            for number, text in enumerate(cells, start=1)
        ]


def test_a_cell_that_is_most_of_a_notebook_is_parsed_once() -> None:
    parse_python.cache_clear()
    long = "".join(f"x{n} = {n}\n" for n in range(50)) + "@f\ndef g():\n    return 1"
    source = read_source("n.ipynb", as_bytes(notebook("import a", "b = (", long, "!ls", "c = 1")))
    parse_python(source.text)
    assert [cell.number for cell in source.cells] == [1, 3, 4, 5]
    # One for each short cell, two more for the one with a magic, and one for all of them.
    assert parse_python.cache_info().misses == 6


LONG = "a = 1\n" * 9


@pytest.mark.parametrize(
    "cells",
    [
        (f"{LONG}x = (1,", "2)"),
        ("x = (1,", f"2)\n{LONG}"),
        ("if a:\n    b()", f"else:\n    c()\n{LONG}"),
        ("if a:\n    b()", f"    c()\n{LONG}"),
        (f"{LONG}@f", "def g():\n    pass"),
        (f"{LONG}y = 1\r@f", "def g():\n    pass"),
        (f'{LONG}"""', '"""'),
        (f"{LONG}x = 1 \\", "y = 2"),
    ],
)
def test_a_cell_that_parses_with_others_alone_is_left_out(cells: tuple[str, ...]) -> None:
    whole = read("n.ipynb", as_bytes(notebook(*cells)))
    long = max((1, 2), key=lambda number: len(cells[number - 1]))
    assert long in [error.cell for error in whole.diagnostics]
    assert long not in [cell.number for cell in whole.source.cells]


def test_a_number_of_too_many_digits_is_one_error() -> None:
    data = as_bytes(notebook("x = 1")).replace(b'"nbformat": 4', b'"nbformat": ' + b"4" * 5000)
    with pytest.raises(ReadError, match="cannot be read as JSON"):
        read("n.ipynb", data)


def test_a_line_of_blanks_that_does_not_parse_takes_no_time() -> None:
    # Tried character by character this outlasts the test's time limit.
    text = "a" + " " * 60_000 + "b"
    assert mask(text, MASKS) == text
    assert mask("files  = !ls", MASKS).startswith("files = _magic()")  # type: ignore[union-attr]


@pytest.mark.parametrize("magic", ["%%bash", "%%sh -e", "%%script bash", "\n %%bash"])
def test_a_shell_s_cell_is_masked(magic: str) -> None:
    text = f"{magic}\nset -e\n\nif x; then\n  trl sft \\\n    --a 1\r\nfi"
    masked = mask(text, MASKS)
    assert masked is not None
    ast.parse(masked)
    assert unmask(masked, MASKS) == text
    assert "".join(line for line, _ in magics(masked, MASKS)) == text
    for line, start in magics(masked, MASKS):
        assert masked[start:].startswith(line)


def test_what_is_wrong_with_a_file_can_be_sent_by_a_process() -> None:
    error = ReadError(FileError("a.ipynb", "cell 2 does not parse", 1, 2, 2))
    again = pickle.loads(pickle.dumps(error))
    assert again.diagnostic == error.diagnostic
    assert str(again) == "cell 2 does not parse"
