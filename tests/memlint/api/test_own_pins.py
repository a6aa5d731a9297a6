"""The versions that a script itself names."""

from __future__ import annotations

import json

import pytest

from memlint.project.own_pins import own_pins
from memlint.source.reading import read_source


def _script(text: str) -> dict[str, str]:
    return dict(own_pins(read_source("train.py", text.encode())))


def _notebook(*cells: str, kind: str = "code") -> dict[str, str]:
    document = {
        "cells": [
            {"cell_type": kind, "metadata": {}, "source": cell.splitlines(True), "outputs": [],
             "execution_count": None}
            for cell in cells
        ],
        "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    return dict(own_pins(read_source("train.ipynb", json.dumps(document).encode())))


def test_a_pep_723_block_is_read() -> None:
    text = (
        "#!/usr/bin/env -S uv run\n# /// script\n# requires-python = '>=3.10'\n# dependencies = [\n"
        '#     "trl[peft]==0.12.2",\n#     "transformers @ git+https://x/transformers@v4.46.0",\n'
        '#     "peft",\n# ]\n# ///\nimport trl\n'
    )
    assert _script(text) == {"trl": "==0.12.2", "transformers": "==4.46.0"}
    assert _script(text.replace("\n", "\r\n"))["trl"] == "==0.12.2"


@pytest.mark.parametrize(
    "text",
    [
        '# /// script\n# dependencies = ["trl==0.12.2"]\nimport trl\n',  # it does not end
        '# /// other\n# dependencies = ["trl==0.12.2"]\n# ///\n',
        "# !pip install trl==0.12.2\n",
    ],
)
def test_what_is_no_block_is_a_comment(text: str) -> None:
    assert _script(text) == {}


@pytest.mark.parametrize(
    "cell",
    [
        "!pip install -q trl==0.12.2 peft\nimport trl\n",
        "%pip install -U 'trl[peft]==0.12.2'\n",
        "!{sys.executable} -m pip install \\\n    trl==0.12.2\n",
        "%%bash\nset -e\npip install trl==0.12.2\n",
        "!uv pip install --system git+https://github.com/huggingface/trl.git@v0.12.2\n",
        "!pip install trl==0.9.6; pip install trl==0.12.2 > /dev/null\n",
    ],
)
def test_the_install_commands_of_a_notebook_are_read(cell: str) -> None:
    assert _notebook("print(1)\n", cell) == {"trl": "==0.12.2"}


def test_other_cells_install_nothing() -> None:
    assert _notebook("!pip install trl==0.12.2\n", kind="markdown") == {}
    assert _notebook("# !pip install trl==0.12.2\nprint('install')\n") == {}
    assert _notebook("!echo trl==0.12.2\n", "!pip install trl\n") == {}


@pytest.mark.parametrize(
    "text",
    [
        'import os\nos.system("pip install -q trl==0.12.2 peft")\n',
        'subprocess.check_call([sys.executable, "-m", "pip", "install", "trl==0.12.2"])\n',
        "get_ipython().system('pip install trl==0.12.2')\n",
        "os.system('pip' \"\" ' install trl==0.12.2')\n",
        "get_ipython().run_line_magic('pip', 'install trl==0.12.2')\n",
        'if True:\n  subprocess.run(\n    ["pip", "install",\n    "trl==0.12.2"],\n  )\n',
    ],
)
def test_what_a_script_installs_counts(text: str) -> None:
    assert _script(text) == {"trl": "==0.12.2"}


def test_what_a_comment_or_a_text_says_of_installing_does_not_count() -> None:
    assert (
        _script('# os.system("pip install trl==0.12.2")\nprint("pip install trl==0.12.2")\n') == {}
    )


@pytest.mark.parametrize(
    "cell",
    [
        "# MAGIC %pip install trl==0.12.2",
        "# MAGIC %pip install \\\n# MAGIC   trl==0.12.2 datasets",
        "# MAGIC %sh\n# MAGIC cd /tmp\n# MAGIC pip install trl==0.12.2",
        "# MAGIC %sh pip install trl==0.12.2",
        "# MAGIC !pip install trl==0.12.2",
    ],
)
def test_a_notebook_of_databricks_is_read(cell: str) -> None:
    head = "# Databricks notebook source\n"
    assert _script(f"{head}{cell}\n\n# COMMAND ----------\nimport trl\n") == {"trl": "==0.12.2"}


@pytest.mark.parametrize(
    "cell", ["# MAGIC %md pip install trl==0.12.2", "# MAGIC # %pip install trl==0.12.2"]
)
def test_its_other_cells_tell_nothing(cell: str) -> None:
    assert _script(f"# Databricks notebook source\n{cell}\n") == {}
