"""Write down what decides whether a rule is asked: ``python -m memlint.rule.outlines``.

Importing all rules takes as long as checking a small script, and most of them have nothing to say
of it. The trigger words of every rule therefore stand in ``memlint_rules/outlines.py`` too, which
this command writes. A rule that it does not name is imported at once.
"""

import os
import sys
from collections.abc import Iterable

from memlint.rule import registry, triggers
from memlint.rule.faults import Rule

_WIDTH = 101  # of a line, its end included
_HEAD = '''"""The trigger words of every rule, which are known without importing it.

Written by ``python -m memlint.rule.outlines``; do not edit.
"""

import memlint.rule.triggers as words

# A file must hold a word of each set of a rule.
SETS: tuple[tuple[str, ...], ...] = (
'''


def outline_file() -> str:
    """The path of the file that the command writes."""
    return os.path.join(registry.rules_folder(), f"{registry.OUTLINES}.py")


def text(rules: Iterable[Rule]) -> str:
    """The text of that file for ``rules``, formatted as the rest of the code."""
    sets: dict[frozenset[str] | tuple[str, ...], int] = {}
    lines = []
    for rule in rules:
        numbers = [sets.setdefault(words, len(sets)) for words in rule.triggers]
        places = ", ".join(map(str, numbers))
        comma = "," if len(numbers) == 1 else ""
        asked = f"{rule.on_request}, {rule.is_of_run}, {rule.is_of_recipe}"
        lines.append(f'    "{rule.code}": ({asked}, ({places}{comma})),\n')
    named = ((name, value) for name, value in vars(triggers).items() if isinstance(value, tuple))
    names = {value: f"words.{name}" for name, value in named}
    parts = [_HEAD]
    for words in sets:
        ordered = words if isinstance(words, tuple) else tuple(sorted(words))
        begins = [one for one in names if ordered[: len(one)] == one and ordered != one]
        most = max(begins, key=len, default=())
        shown = [f"*{names[most]}"] if most else []
        shown += map(_quoted, ordered[len(most) :])
        words_written = ", ".join(shown) + "," * (len(shown) == 1)
        line = f"    {names.get(ordered, f'({words_written})')},\n"
        if len(line) <= _WIDTH:
            parts.append(line)
        else:
            parts += ["    (\n", *(f"        {one},\n" for one in shown), "    ),\n"]
    parts += [")\n\n# Whether a rule is asked on request only, of runs, of recipes; its sets.\n"]
    parts += ["RULES: dict[str, tuple[bool, bool, bool, tuple[int, ...]]] = {\n", *lines, "}\n"]
    return "".join(parts)


def _quoted(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> None:
    """Write the file anew."""
    rules = registry.load(registry.selected(None), at_once=True)
    with open(outline_file(), "w", encoding="utf-8") as file:
        file.write(text(rules))
    sys.stdout.write(f"{os.path.relpath(outline_file())}: {len(rules)} rules\n")


if __name__ == "__main__":
    main()
