"""Checks or fixes file after file in one process; what was loaded for one file serves the next."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Generic, TypeVar

from memlint.project.targets import Targets
from memlint.recipes.files import is_notebook_of_commands, is_recipe_file
from memlint.rule import registry as rule_files
from memlint.rule.file_rules import BROKEN_FILE, UNUSED_SUPPRESSION
from memlint.rule.findings import Applicability
from memlint.run.checked import Checked, check_data, guarded
from memlint.run.engine import Asked, OnError, Prefilter, examine
from memlint.run.rendering import render_findings
from memlint.run.results import FileResult, FixResult, Rendered
from memlint.source.diagnostics import FileError
from memlint.source.reading import encode, read_source
from memlint.source.record import NamedTuple
from memlint.source.roots import repository_of

if TYPE_CHECKING:
    from memlint.api.lookup import Api
    from memlint.engine.project import Modules, Project
    from memlint.fix.fixpoint import Apply, Fixed
    from memlint.rule import Rule
    from memlint.rule.findings import Finding
    from memlint.run.command_lines import CommandSettings, Launches
    from memlint.run.jobs import Job
    from memlint.run.runs import Runs
    from memlint.source import Source

# Objects, made since the last garbage collection and still there, that are worth another.
_COLLECTED = 3_000_000


Result = TypeVar("Result")


class Work(NamedTuple):
    """A job and the bytes of its file."""

    job: Job
    data: bytes


# Of every script that ``memlint.run.command_lines`` looks at.
_COMMAND_LINES = (
    *(b"arse", b"import click", b"typer", b"fire.Fire", b"hydra.main", b"Trainer", b"Accelerator"),
    *(b"fully_shard", b"DataParallel", b"deepspeed", b"tp_plan", b"distributed_config"),
)


class _Rules(NamedTuple):
    rules: tuple[Rule, ...]
    prefilter: Prefilter
    unused_suppressions: bool
    broken_files: bool


class Session:
    """``show_fixes``: a check shows fixes as text, which takes libcst."""

    def __init__(self, show_fixes: bool = False) -> None:
        self._show_fixes = show_fixes
        self._rules: dict[tuple[frozenset[str], bool], _Rules] = {}
        self._targets = Targets()

    def check(self, job: Job, data: bytes) -> FileResult:
        """What is found in ``data``; never raises for bad input."""
        rules = self._selected(job)
        return guarded(
            lambda: self._checked(job, data, rules).result(
                rules.rules, show_fixes=self._show_fixes, show_broken=rules.broken_files
            ),
            lambda error: FileResult(job.path, diagnostics=(error,)),
            job.path,
        )

    def fix(self, job: Job, data: bytes) -> FixResult:
        """What fixing ``data`` comes to; never raises for bad input."""
        return guarded(
            partial(self._fix, job, data), lambda error: failed_fix(job.path, error), job.path
        )

    def _fix(self, job: Job, data: bytes) -> FixResult:
        rules = self._selected(job)
        checked = self._checked(job, data, rules)
        if job.only is not None:
            checked = checked._replace(findings=_only(checked.findings, job.only))
        result = checked.result(rules.rules, show_broken=rules.broken_files)
        source = checked.source
        if source is None or not any(is_wanted(each, job.unsafe_fixes) for each in result.findings):
            return not_fixed(result)
        try:
            fixed, withheld = self._fixed(job, rules, checked, source)
        except (RecursionError, MemoryError):
            raise
        except Exception as error:
            message = (
                f"could not be fixed ({type(error).__name__}: {error}) and was left as it was. "
                "This is a defect of memlint: please report it with the script"
            )
            return not_fixed(result, FileError(job.path, message))
        if fixed.error is not None:
            return not_fixed(result, FileError(job.path, fixed.error))
        fix_result = _fix_result(result, source, fixed, checked.findings)
        return fix_result._replace(withheld=withheld)

    def _checked(self, job: Job, data: bytes, rules: _Rules) -> Checked:
        """What is found in a script or a recipe."""

        def asking(source: Source, on_error: OnError) -> Asked:
            api = self._api(job, source)
            return _asked(job, rules, api, on_error)._replace(pricing=job.pricing)

        if is_recipe_file(job.path):
            from memlint.run.recipes import check_recipe_data

            runs = self._runs_around(job)
            checked = check_recipe_data(job.path, data, asking, runs, named=job.named)
            return self._over_range(job, rules, checked)
        around = self._project(job, data), self._command_line(job, data)
        checked = check_data(job.path, data, asking, *around, named=job.named)
        checked = self._over_range(job, rules, checked)
        if checked.source is None or not is_notebook_of_commands(job.path, data):
            return checked
        from memlint.run.recipes import with_commands

        asked = asking(checked.source, _pass_over)
        asked = asked._replace(runtime=True, pricing=None, unused_suppressions=False)
        return with_commands(checked, asked, self._runs_around(job))

    def _over_range(self, job: Job, rules: _Rules, checked: Checked) -> Checked:
        """What is found with all versions of a range, where the user asks for that."""
        source = checked.source
        target = self._api(job, source).target
        if source is None or checked.broken or not target.others:
            return checked
        from memlint.run.ranges import over_range

        apis = [self._targets.opened(each) for each in (*target.others, target)]
        ask = partial(self._findings, job, rules, source, is_alone=False)
        footprint = checked.footprint and checked.footprint._replace(safe=None)
        findings = over_range(checked.findings, apis, ask)
        return checked._replace(findings=findings, footprint=footprint, naming=job.target)

    def _findings(
        self,
        job: Job,
        rules: _Rules,
        source: Source,
        codes: frozenset[str] | None,
        api: Api,
        is_alone: bool = True,
    ) -> list[Finding]:
        """What the rules (those of ``codes``) find in a version of a job's file. is_alone: without
        the files around it, where there are codes."""
        asked = _asked(job, rules, api, _pass_over)
        if codes is not None:
            chosen = [each for each in rules.rules if each.code in codes]
            asked = Asked(chosen, api, None, _pass_over, unused_suppressions=False, to_fit=True)
        if is_recipe_file(job.path):
            from memlint.run.recipes import examine_recipe_source, recipes_of

            runs = self._runs_around(job)
            return examine_recipe_source(source, recipes_of(source, runs), asked, runs).findings
        is_alone = is_alone and codes is not None
        project = None if is_alone else self._project(job, source.data)
        command_line = self._command_line(job, source.data)
        return examine(source, asked, project, command_line).findings

    def _fixed(
        self, job: Job, rules: _Rules, checked: Checked, source: Source
    ) -> tuple[Fixed, int]:
        """What fixing comes to, and how many fixes are withheld in the end."""
        from memlint.fix.fixpoint import fix_source

        api = self._api(job, source)
        latest = source
        withheld: list[Finding] = []

        def check(changed: Source) -> list[Finding]:
            nonlocal withheld
            findings = list(checked.findings)
            if changed is not source:
                findings = self._findings(job, rules, changed, None, api)
                again = Checked(job.path, changed, findings)
                findings = list(self._over_range(job, rules, again).findings)
            if checked.assumed:
                from memlint.run.advice import right_everywhere

                libraries = _libraries(changed, findings)
                others = self._targets.others(job.place, job.target, changed, libraries)
                ask = partial(self._findings, job, rules, changed)
                findings, withheld = right_everywhere(changed, findings, others, ask)
            if job.fixable is not None:
                findings = [
                    each if each.code in job.fixable else each.as_advice() for each in findings
                ]
            return findings if job.only is None else _only(findings, job.only)

        def reread(text: str) -> Source:
            # Bytes follow from pass to pass.
            nonlocal latest
            latest = read_source(source.path, encode(latest, text))
            return latest

        apply: Apply | None = None
        if is_recipe_file(job.path):
            from memlint.run.rendering import applier

            apply = applier(job.path)
        fixed = fix_source(source, unsafe=job.unsafe_fixes, check=check, reread=reread, apply=apply)
        count = sum(
            each.fix is not None and is_selected(each.fix.applicability, job.unsafe_fixes)
            for each in withheld
        )
        return fixed, count

    def _project(self, job: Job, data: bytes) -> Project | None:
        """The files around a script that trains; each of them is read once."""
        from memlint.engine.project import project_of

        return project_of(job.place, data, self._modules)

    def _command_line(self, job: Job, data: bytes) -> CommandSettings | None:
        """What the launch commands of the project decide for a script."""
        if not (job.place.endswith(".py") and any(word in data for word in _COMMAND_LINES)):
            return None
        return self._launches.of(job.place, data)

    def _api(self, job: Job, source: Source | None) -> Api:
        """The tables for a file: a recipe that one notebook starts runs with what that installs."""
        starter = self._runs_around(job).starter if is_recipe_file(job.path) else None
        return self._targets.api(job.place, job.target, starter or source)

    def _runs_around(self, job: Job) -> Runs:
        """The runs that the files around a recipe start."""
        return self._runs.at(job.place)

    # What is read of projects, for all files. It is imported where a file asks for it.

    @cached_property
    def _modules(self) -> Modules:
        from memlint.engine.project import Modules

        return Modules()

    @cached_property
    def _runs(self) -> Runs:
        from memlint.run.runs import Runs

        return Runs(release=self._targets.release, modules=self._modules)

    @cached_property
    def _launches(self) -> Launches:
        from memlint.run.command_lines import Launches

        return Launches(lambda: self._runs)

    def _selected(self, job: Job) -> _Rules:
        fits = job.only is not None
        known = self._rules.get((job.codes, fits))
        if known is None:
            loaded = rule_files.load(job.codes)
            if fits:
                from memlint.run.smaller_batches import RULE

                loaded = (*loaded, RULE)
            unused = UNUSED_SUPPRESSION.code in job.codes
            broken = BROKEN_FILE.code in job.codes
            known = self._rules[job.codes, fits] = _Rules(loaded, Prefilter(loaded), unused, broken)
        return known


def _asked(job: Job, rules: _Rules, api: Api, on_error: OnError) -> Asked:
    """What a job asks of a version of its file."""
    how = (rules.prefilter, job.in_tests, job.runtime or is_recipe_file(job.path))
    # Beside older versions, a comment may be there for one of them.
    unused = rules.unused_suppressions and not api.target.others
    return Asked(rules.rules, api, job.by_code, on_error, *how, unused)


def _pass_over(rule: Rule, error: Exception) -> None:
    """A rule that failed is said once, where a file is checked first."""


def _only(findings: Sequence[Finding], wanted: frozenset[tuple[str, str]]) -> list[Finding]:
    """The findings, those with another fix as advice, smaller batches where they are chosen."""
    from memlint.memory.trades import SMALLER

    kept = [
        each if each.fix is None or (each.code, each.fix.message) in wanted else each.as_advice()
        for each in findings
    ]
    return [each for each in kept if each.code != SMALLER or (each.fix and each.fix.edits)]


class Doing(Generic[Result]):
    """What a process does with files, one after another."""

    def __init__(self, do: Callable[[Job, bytes], Result]) -> None:
        self._do = do

    def each(self, work: Iterable[Work]) -> Iterator[Result]:
        """Yield a result for each file, in order, and collect garbage once in so many objects.

        The cyclic garbage collector took a quarter of the time and more: it searched syntax trees,
        which live for one file. It is off meanwhile.
        """
        was_on = gc.isenabled()
        gc.disable()
        try:
            for job, data in work:
                yield self._do(job, data)
                if gc.get_count()[0] > _COLLECTED:
                    gc.collect()
        finally:
            if was_on:
                # What is there now counts as old: it is not searched at once.
                gc.freeze()
                gc.unfreeze()
                gc.enable()

    def __call__(self, work: Iterable[Work]) -> list[Result]:
        return list(self.each(work))


class CheckWork(Doing[FileResult]):
    """Files are checked."""

    def __init__(self, show_fixes: bool) -> None:
        super().__init__(Session(show_fixes).check)


class FixWork(Doing[FixResult]):
    """Files are fixed."""

    def __init__(self) -> None:
        super().__init__(Session().fix)


def is_wanted(finding: Rendered, unsafe: bool) -> bool:
    """True if this finding's fix is to be applied; ``unsafe``: those that change training too."""
    return finding.fix is not None and is_selected(finding.fix.applicability, unsafe)


def is_selected(applicability: str, unsafe: bool) -> bool:
    """True if fixes of this kind are to be applied."""
    return applicability == Applicability.SAFE or (unsafe and applicability == Applicability.UNSAFE)


def not_fixed(checked: FileResult, error: FileError | None = None) -> FixResult:
    """A file that stays as it is."""
    diagnostics = checked.diagnostics if error is None else (*checked.diagnostics, error)
    return FixResult(checked.path, checked, left=checked.findings, diagnostics=diagnostics)


def failed_fix(path: str, error: FileError) -> FixResult:
    """A file that could not even be checked."""
    return not_fixed(FileResult(path, diagnostics=(error,)))


def _libraries(source: Source, findings: Sequence[Finding]) -> frozenset[str]:
    """The libraries on whose versions the findings depend."""
    if is_recipe_file(source.path):
        from memlint.run.launches import LIBRARIES

        return LIBRARIES
    from memlint.run.advice import libraries_of

    return libraries_of(source, findings)


def _fix_result(
    checked: FileResult, source: Source, fixed: Fixed, first: Sequence[Finding]
) -> FixResult:
    after = fixed.source.raw
    changed = after != source.raw
    broken = [each for each in checked.findings if each.code == BROKEN_FILE.code]
    reasons = [reason for _, reason in fixed.refused]
    refused = render_findings(fixed.source, [each for each, _ in fixed.refused])
    return FixResult(
        checked.path,
        checked,
        after if changed else None,
        _patch(source, fixed.source) if changed else "",
        tuple(_without_place(source, fixed.fixed)),
        sum(any(each is known for known in first) for each in fixed.fixed),
        (*broken, *render_findings(fixed.source, fixed.left)),
        tuple(zip(refused, reasons, strict=True)),
        checked.diagnostics,
    )


def _without_place(source: Source, findings: Sequence[Finding]) -> list[Rendered]:
    """Fixed findings. Their places are those of the pass that found them, so that only the first
    pass's are true of ``source``; they are reported by message, not by place."""
    from memlint.source import Span

    return render_findings(source, [each._replace(span=Span(0, 0)) for each in findings])


def _patch(before: Source, after: Source) -> str:
    from memlint.fix.patches import unified_diff

    name = _patch_name(before.path)
    if not before.is_notebook:
        if not before.masked:
            return "".join(unified_diff(before.text, after.text, name))
        from memlint.source.notebook import unmasker

        return "".join(
            unified_diff(unmasker(before)(before.text), unmasker(before)(after.text), name)
        )
    from memlint.source.notebook import cell_texts

    old, new = cell_texts(before, before.text), cell_texts(after, after.text)
    return "".join(
        line
        for number in old
        if old[number] != new.get(number, "")
        for line in unified_diff(old[number], new.get(number, ""), f"{name}:cell {number}")
    )


def _patch_name(path: str) -> str:
    """How a patch names a file, so that ``git apply`` and ``patch -p1`` find it.

    Git refuses a name with ``..`` in it. A file below the current folder is named from there, any
    other from the root of its repository, which is where the patch is then to be applied.
    """
    name = os.path.normpath(path)
    if os.path.isabs(path) or os.pardir in path.replace(os.sep, "/").split("/"):
        folder = os.path.realpath(os.path.dirname(path))
        name = os.path.join(folder, os.path.basename(path))
        for base in (os.path.realpath(os.curdir), repository_of(folder)):
            start = os.path.join(base or "", "")
            if start and name.startswith(start):
                name = name[len(start) :]
                break
    return name.replace(os.sep, "/").lstrip("/")
