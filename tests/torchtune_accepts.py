"""True if torchtune takes what the fixes write: ``python -m tests.torchtune_accepts FOLDER``.

Every training recipe below FOLDER is fixed by all rules, unsafe fixes and hints included, written
to a temporary file and given to torchtune's own loader and validation, before and after. Needs
torchtune and torchao beside memlint (0.6.1 and 0.9.0 were tried with torch 2.13).
"""

from __future__ import annotations

import difflib
import re
import sys
import tempfile
from pathlib import Path

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.fix.fixpoint import fix_source
from memlint.fix.recipe_edits import apply_recipe_edits
from memlint.recipes.document import DocumentError
from memlint.recipes.kinds import Kind
from memlint.recipes.recipe import read_recipe
from memlint.rule.findings import Finding
from memlint.rule.registry import load, selected
from memlint.run.engine import Asked
from memlint.run.recipes import examine_recipe_source
from memlint.run.runs import Runs
from memlint.source import Source


def check(source: Source) -> list[Finding]:
    """What every rule finds in a recipe of torchtune."""
    recipe = read_recipe(source)
    assert recipe is not None
    codes = selected(["ALL"])
    asked = Asked(load(codes), Api(newest()), codes)
    return examine_recipe_source(source, [recipe], asked, Runs("/nowhere/recipe.yaml")).findings


def fixed(text: str) -> str:
    """A recipe with all fixes made."""
    result = fix_source(
        Source("recipe.yaml", text),
        unsafe=True,
        check=check,
        reread=lambda text: Source("recipe.yaml", text),
        apply=apply_recipe_edits,
    )
    assert result.error is None, result.error
    assert not result.refused, result.refused
    return result.source.text


def verdict(text: str) -> str:
    """What torchtune says of a recipe: empty where it takes it."""
    from omegaconf import OmegaConf
    from torchtune.config import validate

    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        try:
            validate(OmegaConf.load(file.name))
        except Exception as error:  # whatever a component's import or signature raises
            return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""


def main(folder: str) -> int:
    files = changed = worse = lines = 0
    for path in sorted(Path(folder).rglob("*.y*ml")):
        text = path.read_text(encoding="utf-8")
        try:
            recipe = read_recipe(Source(str(path), text))
        except DocumentError:
            continue
        if recipe is None or recipe.kind is not Kind.TORCHTUNE or not recipe.has("optimizer"):
            continue
        files += 1
        after = fixed(text)
        changed += after != text
        assert fixed(after) == after
        comments = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
        assert comments.findall(after) == comments.findall(text), path
        diff = list(difflib.ndiff(text.splitlines(), after.splitlines()))
        lines += sum(line[:2] in ("- ", "+ ") for line in diff)
        before, now = verdict(text), verdict(after)
        if now and not before:
            worse += 1
            sys.stdout.write(f"{path}: {now}\n")
    sys.stdout.write(
        f"{files} training recipes, {changed} changed ({lines} lines of the diffs), "
        f"{worse} refused after the fixes that were taken before\n"
    )
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
