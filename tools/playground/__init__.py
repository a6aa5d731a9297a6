"""Builds the playground: a page that runs the linter in the browser, without a server.

Pyodide (Python in WebAssembly) comes from npm, memlint's packages from this checkout and from the
index. libcst is 1.8.2 there, the last release that can parse without its native part; that parser
reads Python up to 3.9, so a script with newer syntax shows its findings without fixes.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tools.playground.answer import report

_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent
_PAGE = ("playground.css", "playground.mjs", "worker.mjs")
_PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip",
            "pyodide-lock.json")  # fmt: skip
_PINS = ("click==8.3.1", "rich==14.2.0", "PyYAML==6.0.3", "libcst==1.8.2")
_LEFT_OUT = {"tests", "testing", "__pycache__", "bin"}


def build(site: Path) -> None:
    """Write the playground to the folder ``site``.

    Raises CalledProcessError where npm or pip fails, FileNotFoundError where there is no npm.
    """
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=_HERE, check=True)
    site.mkdir(parents=True, exist_ok=True)
    for name in _PAGE:
        shutil.copy(_HERE / name, site / name)
    page = (_HERE / "index.html").read_text(encoding="utf-8")
    (site / "index.html").write_text(page.replace("REPORT_SCRIPT", report_script()), "utf-8")
    (site / "pyodide").mkdir(exist_ok=True)
    for name in _PYODIDE:
        shutil.copy(_HERE / "node_modules" / "pyodide" / name, site / "pyodide" / name)
    (site / "examples").mkdir(exist_ok=True)
    for path in examples():
        shutil.copy(path, site / "examples" / path.name)
    (site / "examples" / "names.json").write_text(json.dumps(titles()), encoding="utf-8")
    libraries = _ROOT / "build" / "playground-python"
    shutil.rmtree(libraries, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    subprocess.run([*pip, str(libraries), *_PINS], check=True)
    with zipfile.ZipFile(site / "packages.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for path, name in sorted(packed_files(libraries)):
            packed.write(path, name)


def report_script() -> str:
    """Return the hash of the one script that reports run: the page shows them in a frame."""
    page = report(examples()[0].read_text(encoding="utf-8"), "newest", "a100-80gb")
    return re.findall(r"script-src ('sha256-[^']+')", page)[0]


def examples() -> list[Path]:
    """Return the scripts that can be chosen."""
    return sorted((_ROOT / "tests" / "scripts").glob("*.py"))


def titles() -> dict[str, str]:
    """Return the first sentence of each example's docstring, by the name of its file."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in examples()}
    docs = {name: ast.get_docstring(ast.parse(text)) or name for name, text in texts.items()}
    return {name: doc.splitlines()[0].rstrip(".") for name, doc in docs.items()}


def packed_files(libraries: Path) -> Iterator[tuple[Path, str]]:
    """Yield what the browser's Python imports: each file, and its name there."""
    yield _HERE / "answer.py", "answer.py"
    for root, package in (
        (_ROOT, "memlint"),
        (_ROOT / "rules", "memlint_rules"),
        *((libraries, folder.name) for folder in libraries.iterdir() if folder.is_dir()),
    ):
        if package.endswith(".dist-info"):
            continue
        for path in (root / package).rglob("*"):
            name = path.relative_to(root)
            if path.is_file() and path.suffix != ".so" and not _LEFT_OUT & set(name.parts):
                yield path, name.as_posix()
