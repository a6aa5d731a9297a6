"""What the playground shows of a script, by the commands themselves.

Pyodide runs this in the browser; nothing leaves the page. Each function returns JSON.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

# How many of the newest releases the lists offer.
_RELEASES = {"trl": 30, "transformers": 30}
_SCRIPT = "script.py"


def choices() -> str:
    """Return the releases and the GPUs that can be chosen, the newest releases first."""
    from memlint.api.tables import table
    from memlint.memory.gpus import known_gpus

    gpus = list(dict.fromkeys(gpu.name for gpu in known_gpus().values()))
    releases = {name: list(table(name).releases)[::-1][:most] for name, most in _RELEASES.items()}
    return json.dumps({**releases, "gpus": gpus})


def answer(script: str, target: str, gpu: str) -> str:
    """Return the findings, the memory and the fixed texts of a script.

    target: versions as ``--target`` takes them. gpu: a name as ``--gpu`` takes it. ``safe`` and
    ``all`` are the script after its safe fixes, and after the unsafe ones too.
    """
    chosen = ["--target", target]
    texts = {"safe": [], "all": ["--unsafe-fixes"]}
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        path = Path(_SCRIPT)
        path.write_text(script, encoding="utf-8")
        checked = ["--isolated", "--no-cache", "--output-format", "json", "--gpu", gpu]
        out, said = _run(["check", _SCRIPT, *checked, *chosen])
        result["findings"] = json.loads(out or "[]")
        result["said"] = said
        result["memory"], result["unpriced"] = _memory(chosen, gpu)
        for name, options in texts.items():
            path.write_text(script, encoding="utf-8")
            _run(["fix", _SCRIPT, "--isolated", "--quiet", *chosen, *options])
            result[name] = path.read_text(encoding="utf-8")
            result[f"{name}_memory"], _ = _memory(chosen, gpu)
    return json.dumps(result)


def report(script: str, target: str, gpu: str) -> str:
    """Return the page that ``memlint report`` writes of a script."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path(_SCRIPT).write_text(script, encoding="utf-8")
        _run(["report", _SCRIPT, "-o", "page.html", "--target", target, "--gpu", gpu])
        return Path("page.html").read_text(encoding="utf-8")


def _memory(chosen: list[str], gpu: str) -> tuple[Any, str]:
    """Return what ``memlint estimate`` says as data, or None and why it says nothing."""
    options = ["--gpu", gpu, "--output-format", "json"]
    out, said = _run(["estimate", _SCRIPT, *options, *chosen])
    try:
        return json.loads(out), ""
    except ValueError:
        return None, said


def _run(arguments: list[str]) -> tuple[str, str]:
    """Run a command in this process; return what it prints and what it says beside that."""
    from memlint.cli.main import main

    out, said = io.StringIO(), io.StringIO()
    # The status says no more than the text does.
    with redirect_stdout(out), redirect_stderr(said), suppress(SystemExit):
        main(arguments, prog_name="memlint")
    return out.getvalue(), said.getvalue().strip()


def warm_up() -> None:
    """Read the tables and load the rules, so that the first answer comes at once."""
    answer("import trl\n\ntrl.SFTTrainer('gpt2').train()\n", "newest", "rtx4090-24gb")


def prepare(packages: str) -> None:
    """Make the packed packages importable; libcst has no native parser among them."""
    sys.path.insert(0, packages)
    os.environ["LIBCST_PARSER_TYPE"] = "pure"
