"""Which package may import which, and what starting the command line must not import.

``memlint`` runs in hooks without torch; rules are pure; the runtime ships inside users' scripts and
must not drag the linter along.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINTER = ROOT / "memlint"
RULES = ROOT / "rules" / "memlint_rules"
RUNTIME = ROOT / "runtime" / "memlint_runtime"

LINTER_MAY = {"click", "libcst", "memlint", "memlint_rules", "rich", "yaml"}
RULES_MAY = {"memlint.rule", "memlint_rules"}
RUNTIME_MUST_NOT = {"memlint", "memlint_rules"}


def imports(folder: Path) -> Iterator[tuple[str, str]]:
    """(file:line, module) of every import statement under ``folder``."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((place(path, node), alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{place(path, node)}: imports are absolute here"
                yield place(path, node), node.module or ""


def place(path: Path, node: ast.stmt | ast.expr) -> str:
    return f"{path.relative_to(ROOT)}:{node.lineno}"


def is_allowed(module: str, allowed: set[str]) -> bool:
    root = module.partition(".")[0]
    return (
        root in sys.stdlib_module_names
        or root == "__future__"
        or any(module == each or module.startswith(each + ".") for each in allowed)
    )


def test_linter_imports_only_light_libraries() -> None:
    wrong = [each for each in imports(LINTER) if not is_allowed(each[1], LINTER_MAY)]
    # The server has an extra of its own; what runs scripts lives in the environment that trains.
    heavy = ("memlint/server/protocol.py", "memlint/proof/", "memlint/trace/")
    assert [each for each in wrong if not each[0].startswith(heavy)] == []


def test_rules_import_only_the_rule_interface() -> None:
    wrong = [each for each in imports(RULES) if not is_allowed(each[1], RULES_MAY)]
    assert wrong == []


def test_runtime_never_imports_the_linter() -> None:
    wrong = [each for each in imports(RUNTIME) if each[1].partition(".")[0] in RUNTIME_MUST_NOT]
    assert wrong == []


def test_only_the_command_line_knows_click_and_prints() -> None:
    may = set((LINTER / "cli").glob("*.py"))
    for path in sorted(LINTER.rglob("*.py")):
        if path in may or "extract" in path.parts:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print", place(path, node)
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
                assert "click" not in names, place(path, node)


def modules_after(code: str, *arguments: str, cwd: Path) -> set[str]:
    """What ``sys.modules`` holds once ``code`` has run in a process of its own."""
    tail = "\nimport sys; sys.stderr.write('\\n'.join(['', *sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", code + tail, *arguments],
        cwd=cwd, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stderr.split("\n"))


SCRIPT = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

args = TrainingArguments(output_dir="out", gradient_checkpointing=True, bf16=True)
"""
HEAVY = {"torch", "transformers", "trl", "peft", "accelerate", "datasets", "numpy"}
RUN = "import sys; from memlint.cli.main import run; run(sys.argv[1:])"


def test_import_memlint_imports_next_to_nothing(tmp_path: Path) -> None:
    before = modules_after("", cwd=tmp_path)
    after = modules_after("import memlint", cwd=tmp_path)
    assert {name.partition(".")[0] for name in after - before} <= {"memlint", "__future__"}


@pytest.mark.parametrize("command", ["check", "fix"])
def test_commands_import_no_training_library(command: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("bf16=True", "evaluation_strategy='steps'"))
    after = modules_after(RUN, command, str(script), cwd=tmp_path)
    assert HEAVY.isdisjoint(after)
    assert "memlint.script" in after, "the script was really read"


def test_check_without_fixes_to_show_imports_no_libcst_and_no_rich(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    (tmp_path / "run.sh").write_text("trl sft --config sft.yaml\npython train.py --seed 1\n")
    (tmp_path / "evaluate.yaml").write_text(
        "model:\n  _component_: torchtune.models.llama3.llama3_8b\n"
    )
    options = ("check", "--output-format", "concise", str(tmp_path))
    after = modules_after(RUN, *options, cwd=tmp_path)
    unwanted = {"libcst", "rich", "concurrent.futures", "multiprocessing", "tomllib", "pathspec"}
    assert unwanted.isdisjoint(after)


def test_check_of_a_recipe_imports_no_libcst(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("base_model: a/b\nsequence_len: 8\ndatasets: []\nbf16: false\nfp16: false\n")
    after = modules_after(RUN, "check", "--no-cache", str(recipe), cwd=tmp_path)
    assert "memlint.fix.recipe_edits" in after, "the recipe has a finding with a fix"
    assert "libcst" not in after


def test_second_check_of_the_same_imports_no_rule(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    for _ in range(2):
        after = modules_after(RUN, "check", str(script), cwd=tmp_path)
    assert not any(name.startswith(("memlint_rules.", "memlint.script")) for name in after)


def test_version_and_help_import_no_engine(tmp_path: Path) -> None:
    after = modules_after(RUN, "--version", cwd=tmp_path)
    assert {"memlint.run.engine", "memlint.run.checking", "memlint.rule.interface"}.isdisjoint(
        after
    )


def test_each_module_of_the_rules_interface_may_be_the_first_to_be_imported() -> None:
    """Asking ``memlint.rule`` for a name imports the interface, which imports them all."""
    names = sorted(path.stem for path in (LINTER / "rule").glob("[a-z]*.py"))
    program = f"""
import sys
for name in {names}:
    for loaded in [each for each in sys.modules if each.partition(".")[0].startswith("memlint")]:
        del sys.modules[loaded]
    __import__("memlint.rule." + name)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
