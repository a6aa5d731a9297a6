"""Apply fixes until none is left: what one pass changes may be what the next one needs.

A file that has not come to rest after ten passes, or comes back to a text it had before, is left
as it was: two rules then undo each other, which is our own fault.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memlint.fix.apply import apply_to
from memlint.fix.outcome import Applied, FixError
from memlint.fix.spans import Tree, parse
from memlint.rule.findings import Applicability, Finding
from memlint.source import Source
from memlint.source.edits import Edit

PASSES = 10

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
    fixed: tuple[Finding, ...] = ()
    left: tuple[Finding, ...] = ()
    refused: tuple[tuple[Finding, str], ...] = ()
    passes: int = 0
    error: str | None = None


def fix_source(
    source: Source,
    *,
    unsafe: bool,
    check: Callable[[Source], list[Finding]],
    reread: Callable[[str], Source],
    apply: Apply | None = None,
) -> Fixed:
    """Fix ``source`` until ``check`` finds nothing more that a fix would change.

    unsafe: whether fixes that change training are applied too.
    check: the findings of a source (suppressed ones left out).
    reread: the source of a new text of the same file.
    apply: carries out edits on a source that is no Python.
    """
    original, seen = source, {source.text}
    fixed: list[Finding] = []
    rewriter = _Rewriter(apply)
    first = findings = check(source)
    for passes in range(PASSES + 1):
        wanted = [finding for finding in findings if _wanted(finding, unsafe)]
        if not wanted:
            return Fixed(source, tuple(fixed), tuple(findings), (), passes)
        try:
            applied = rewriter.rewrite(source, wanted)
        except FixError as error:
            refused = dict.fromkeys(range(len(wanted)), f"the file cannot be rewritten: {error}")
            applied = Applied(source.text, refused=refused)
        if applied.text == source.text:
            reasons = _reasons(wanted, applied)
            return Fixed(source, tuple(fixed), tuple(findings), reasons, passes)
        changed = reread(applied.text)
        trouble = _trouble(source, changed, applied.text in seen, passes)
        if trouble is not None:
            error_text = f"{trouble}; nothing was written, please report this"
            return Fixed(original, (), tuple(first), (), passes, error_text)
        fixed += [wanted[at] for at in applied.applied]
        source = changed
        seen.add(source.text)
        findings = check(source)
    raise AssertionError("every pass returns or goes on")


class _Rewriter:
    """Carries out fixes; the tree of a Python file is kept from one pass to the next."""

    def __init__(self, apply: Apply | None) -> None:
        self._apply = apply
        self._text = ""
        self._tree: Tree | None = None

    def rewrite(self, source: Source, wanted: Sequence[Finding]) -> Applied:
        """Raises FixError where the file as a whole cannot be rewritten."""
        edits = [one.fix.edits for one in wanted if one.fix is not None]
        if self._apply is not None:
            return self._apply(source, edits)
        tree = self._tree if self._tree is not None and self._text == source.text else None
        applied, self._tree = apply_to(tree or parse(source.text), edits)
        self._text = applied.text
        return applied


def _reasons(wanted: Sequence[Finding], applied: Applied) -> tuple[tuple[Finding, str], ...]:
    """Return the reasons why fixes that should have changed something did not."""
    reasons = dict.fromkeys(applied.applied, "its fix changes nothing") | {**applied.refused}
    return tuple((wanted[at], reason) for at, reason in sorted(reasons.items()))


def _trouble(before: Source, after: Source, is_repeated: bool, passes: int) -> str | None:
    """Return the reason why a pass shows a defect of our fixes; None if it does not."""
    if passes == PASSES:
        return f"its fixes do not come to an end in {PASSES} passes"
    if is_repeated:
        return "its fixes undo each other"
    if [cell.number for cell in after.cells] != [cell.number for cell in before.cells]:
        return "a fix would join or lose notebook cells"
    return None


def _wanted(finding: Finding, unsafe: bool) -> bool:
    fix = finding.fix
    if fix is None or not fix.edits:
        return False
    return fix.applicability is Applicability.SAFE or (
        unsafe and fix.applicability is Applicability.UNSAFE
    )
