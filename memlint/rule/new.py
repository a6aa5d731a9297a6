"""Begin a rule: ``python -m memlint.rule.new MEM799 unpinned-loader``.

Writes the rule's file, its page and two cases, a faulty and a clean one, into the checkout that
one stands in. The tests of the new rule fail until its check is written.
"""

import re
import sys
from pathlib import Path

GROUPS = {
    "1": "sequences", "2": "logits", "3": "activations", "4": "precision", "5": "optimizer",
    "6": "online", "7": "loops", "8": "feeding", "9": "migration",
}  # fmt: skip

_RULE = '''"""TODO: the fault, in one line: the page beside says what it costs, with sources."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, TrainingRun, by_change


def check(run: TrainingRun) -> Iterator[Finding]:
    rows = run.micro_batch
    if rows.is_value(0):
        yield Finding(rows.span, f"{{rows.said}}: TODO: cost", by_change(run.set(micro_batch=1)))


RULE = Rule(
    level=Level.WASTE,
    summary="TODO: one line for the table of rules",
    of_run=check,
)
'''
_PAGE = """## Why it matters

TODO: what it costs and why.

## Example: TODO: what the example shows

```python
from transformers import Trainer

Trainer(model, args, train_dataset=dataset).train()
```
"""
_FAULTY = """from transformers import Trainer

Trainer(model, args, train_dataset=dataset).train()  # expect: {code}
"""
_CLEAN = """from transformers import Trainer

Trainer(model, args, train_dataset=dataset).train()
"""


def begin(root: Path, code: str, name: str) -> list[Path]:
    """Write the files of a new rule below ``root``; the files.

    Raises ``ValueError`` where the code or the name is not one, or is taken.
    """
    if re.fullmatch(r"MEM[1-9]\d\d", code) is None:
        raise ValueError(f"a code is MEM and three digits, as MEM799; got {code!r}")
    if re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", name) is None:
        raise ValueError(f"a name is words joined by hyphens, as unpinned-loader; got {name!r}")
    rules = root / "rules" / "memlint_rules"
    if not rules.is_dir():
        raise ValueError(f"{root} is no checkout of memlint: it has no rules/memlint_rules")
    taken = [*rules.glob(f"*/{code.lower()}_*.py"), *rules.glob(f"*/mem???_{_snake(name)}.py")]
    if taken:
        raise ValueError(f"taken already: {taken[0].relative_to(root)}")
    cases = root / "tests" / "cases" / code
    rule = rules / GROUPS[code[3]] / f"{code.lower()}_{_snake(name)}.py"
    texts = {
        rule: _RULE,
        rule.with_suffix(".md"): _PAGE,
        cases / "faulty.py": _FAULTY,
        cases / "clean.py": _CLEAN,
    }
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(code=code, name=name))
    package = rules / GROUPS[code[3]] / "__init__.py"
    if not package.exists():
        package.write_text('"""Rules of one topic."""\n')
    return list(texts)


def _snake(name: str) -> str:
    return name.replace("-", "_")


def main(arguments: list[str]) -> int:
    """Run the command; its exit status."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m memlint.rule.new CODE name\n")
        return 2
    try:
        written = begin(Path.cwd(), *arguments)
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write("".join(f"{path.relative_to(Path.cwd())}\n" for path in written))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
