"""Begin a rule: ``python -m memlint.rule.new MEM799 unpinned-loader``.

Copies the shortest rule of the folder that the code selects, with its page and its cases, into the
checkout that one stands in: a rule that works, to be changed part by part.
"""

import re
import sys
from pathlib import Path

from memlint.source.bounded import read_regular_text

_MOST_BYTES = 1 << 20


def begin(root: Path, code: str, name: str) -> list[Path]:
    """Write the files of a new rule below ``root``; the files.

    Raises ``ValueError`` where the code or the name is not one, or is taken.
    """
    if re.fullmatch(r"MEM[1-9]\d\d", code) is None:
        raise ValueError(f"a code is MEM and three digits, as MEM799; got {code!r}")
    if re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", name) is None:
        raise ValueError(f"a name is words joined by hyphens, as unpinned-loader; got {name!r}")
    rules, cases = root / "rules" / "memlint_rules", root / "tests" / "cases"
    snake = name.replace("-", "_")
    beside = sorted(rules.glob(f"*/mem{code[3]}??_*.py"), key=lambda path: path.stat().st_size)
    if not beside:
        raise ValueError(f"{root} is no checkout of memlint: it has no rules/memlint_rules")
    taken = [*rules.glob(f"*/{code.lower()}_*.py"), *rules.glob(f"*/mem???_{snake}.py")]
    if taken:
        raise ValueError(f"taken already: {taken[0].relative_to(root)}")
    rule, old = beside[0].with_name(f"{code.lower()}_{snake}.py"), beside[0].name[:6].upper()
    sources = {rule: beside[0], rule.with_suffix(".md"): beside[0].with_suffix(".md")}
    sources |= {cases / code / one.name: one for one in sorted(cases.glob(f"{old}/*.py"))}
    for path, source in sources.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(read_regular_text(str(source), _MOST_BYTES).replace(old, code))
    return list(sources)


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
