"""Apply fixes until none is left: what one pass changes may be what the next one needs.

A file that has not come to rest after ten passes, or comes back to a text it had before, is left
as it was: two rules then undo each other, which is our own fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memlint.fix.apply import Applied, apply_to
from memlint.fix.spans import FixError, Tree, parse
from memlint.rule.edits import Edit
from memlint.rule.findings import Applicability, Violation
from memlint.source import Source

PASSES = 10
_REPORT = "nothing was written, please report this"

Apply = Callable[[Source, Sequence[Sequence[Edit]]], Applied]


@dataclass(frozen=True)
class Fixed:
    """What fixing a file came to.

    source: the file after all passes; the one given where nothing was fixed or ``error`` is set.
    fixed: the findings whose fixes were applied, pass by pass.
    left: the findings that ``source`` still has.
    refused: those of ``left`` whose fix was to be applied and could not be, and why.
    error: why the file as a whole was left alone; None if it was not.
    """

    source: Source
    fixed: tuple[Violation, ...] = ()
    left: tuple[Violation, ...] = ()
    refused: tuple[tuple[Violation, str], ...] = ()
    passes: int = 0
    error: str | None = None


def fix_source(
    source: Source,
    *,
    unsafe: bool,
    check: Callable[[Source], list[Violation]],
    reread: Callable[[str], Source],
    apply: Apply | None = None,
) -> Fixed:
    """Fix ``source`` until ``check`` finds nothing more that a fix would change.

    unsafe: whether fixes that change training are applied too.
    check: the findings of a source (suppressed ones left out).
    reread: the source of a new text of the same file.
    apply: carries out edits on a source that is no Python.
    """
    original = source
    seen = {source.text}
    fixed: list[Violation] = []
    tree: Tree | None = None
    first = violations = check(source)
    for passes in range(PASSES + 1):
        wanted = [one for one in violations if _wanted(one, unsafe)]
        if not wanted:
            return Fixed(source, tuple(fixed), tuple(violations), (), passes)
        edits = [one.fix.edits for one in wanted if one.fix is not None]
        try:
            if apply is not None:
                applied = apply(source, edits)
            else:
                applied, tree = apply_to(tree or parse(source.text), edits)
        except FixError as error:
            reason = f"the file cannot be rewritten: {error}"
            refused = tuple((one, reason) for one in wanted)
            return Fixed(source, tuple(fixed), tuple(violations), refused, passes)
        if applied.text == source.text:
            reasons = dict.fromkeys(applied.applied, "its fix changes nothing") | {
                **applied.refused
            }
            refused = tuple((wanted[at], reason) for at, reason in sorted(reasons.items()))
            return Fixed(source, tuple(fixed), tuple(violations), refused, passes)
        if passes == PASSES:
            error_text = f"its fixes do not come to an end in {PASSES} passes; {_REPORT}"
            return Fixed(original, (), tuple(first), (), passes, error_text)
        if applied.text in seen:
            error_text = f"its fixes undo each other; {_REPORT}"
            return Fixed(original, (), tuple(first), (), passes, error_text)
        changed = reread(applied.text)
        if [cell.number for cell in changed.cells] != [cell.number for cell in source.cells]:
            error_text = f"a fix would join or lose notebook cells; {_REPORT}"
            return Fixed(original, (), tuple(first), (), passes, error_text)
        fixed += [wanted[at] for at in applied.applied]
        source = changed
        if source.text != applied.text:
            tree = None
        seen.add(source.text)
        violations = check(source)
    raise AssertionError("every pass returns or goes on")


def _wanted(violation: Violation, unsafe: bool) -> bool:
    fix = violation.fix
    if fix is None or not fix.edits:
        return False
    return fix.applicability is Applicability.SAFE or (
        unsafe and fix.applicability is Applicability.UNSAFE
    )
