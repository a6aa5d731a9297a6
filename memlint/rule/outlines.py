"""Write down what decides whether a rule is asked: ``python -m memlint.rule.outlines``.

Importing all rules takes as long as checking a small script, and most of them have nothing to say
of it. The trigger words of every rule therefore stand in ``memlint_rules/outlines.py`` too, which
this command writes. A rule that it does not name is imported at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from memlint.rule import registry
from memlint.rule.interface import Rule

_HEAD = '''"""The trigger words of every rule, which are known without importing it.

Written by ``python -m memlint.rule.outlines``; do not edit.
"""

# A file must hold a word of each set of a rule.
'''
_TAIL = """
SETS = tuple(tuple(row.split("|")) for row in _SETS.replace("|\\n", "|").split("\\n")[1:-1])

# Whether a rule is asked on request only, of runs, of recipes; its sets.
RULES: dict[str, tuple[bool, bool, bool, tuple[int, ...]]] = {
"""


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
    rows = "\n".join(map(_row, sets))
    parts = [_HEAD, f'_SETS = """\n{rows}\n"""\n', _TAIL, *lines, "}\n"]
    return "".join(parts)


def _row(words: frozenset[str] | tuple[str, ...]) -> str:
    """Return the words of a set on lines of at most 100 characters, all but the last of which end
    in a bar."""
    ordered = words if isinstance(words, tuple) else sorted(words)
    assert not any(set(word) & set('|"\\\n') for word in ordered)
    lines = [ordered[0]]
    for word in ordered[1:]:
        lines[-1] += "|"
        if len(lines[-1]) + len(word) < 100:
            lines[-1] += word
        else:
            lines.append(word)
    return "\n".join(lines)


def main() -> None:
    """Write the file anew."""
    rules = registry.imported(registry.selected(None))
    with open(outline_file(), "w", encoding="utf-8") as file:
        file.write(text(rules))
    sys.stdout.write(f"{os.path.relpath(outline_file())}: {len(rules)} rules\n")


if __name__ == "__main__":
    main()
