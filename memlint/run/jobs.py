"""What is to be done: a file, the rules that are selected for it, and for which versions."""

import os
from collections.abc import Iterable

from memlint.project.config import Settings
from memlint.project.discover import Found
from memlint.project.ignores import Patterns
from memlint.rule import registry as rule_files
from memlint.rule.file_rules import BROKEN_FILE
from memlint.rule.registry import Choice
from memlint.rule.savings import Pricing
from memlint.source.record import NamedTuple
from memlint.source.roots import folders_above, is_root, repository_of

_TESTS = frozenset({"test", "tests"})


class Job(NamedTuple):
    """One file to check with the rules of ``codes`` for the versions of ``target``.

    by_code: the rules that the user selected by code or name: the fixes of their hints are applied.
    absolute: its path from the root, where it is at hand.
    runtime: whether fixes may import the runtime package.
    pricing: what findings are priced for; None: they are not.
    only: (code, message) of the fixes that are applied; None: all.
    fixable: the rules whose fixes are applied; None: all.
    in_tests: the rules that speak of functions that are tests; None: all.
    """

    path: str
    codes: frozenset[str]
    target: str
    named: bool = False
    unsafe_fixes: bool = False
    absolute: str = ""
    by_code: frozenset[str] = frozenset()
    runtime: bool = True
    pricing: Pricing | None = None
    only: frozenset[tuple[str, str]] | None = None
    in_tests: frozenset[str] | None = None
    fixable: frozenset[str] | None = None

    @property
    def place(self) -> str:
        """The path from the root."""
        return self.absolute or os.path.abspath(self.path)


def plan(found: Iterable[Found], choice: Choice) -> list[Job]:
    """Return a job for each file: its configuration's rules, less those ignored for its path.

    A file below a folder of tests has the rules of ``in_tests`` alone, unless the user names it.
    """
    by_settings: dict[int, _Chosen] = {}
    jobs = []
    for file in found:
        known = by_settings.get(id(file.settings))
        if known is None:
            known = by_settings[id(file.settings)] = _chosen(file.settings, choice)
        job, per_file = known
        codes = job.codes
        if per_file:
            relative = relative_to(os.path.abspath(file.path), file.settings.root)
            dropped = [code for globs, more in per_file if globs.ignores(relative) for code in more]
            if dropped:
                codes = codes - rule_files.selected(dropped)
        if job.in_tests is not None and not file.named and _is_among_tests(file):
            codes = codes & job.in_tests
        jobs.append(
            job._replace(path=file.path, absolute=file.absolute, named=file.named, codes=codes)
        )
    return jobs


def asking_for_peak(job: Job) -> Job:
    """Where nothing is found in a script, its run is priced for a named GPU alone: return a job
    that has one. It may find what only matters on a GPU: take its footprint's bytes alone."""
    if job.pricing is None or job.pricing.gpu:
        return job
    return job._replace(pricing=job.pricing._replace(gpu="h100-80gb"))


# What one configuration and the command line choose for every file, and what for some.
_Chosen = tuple[Job, list[tuple[Patterns, tuple[str, ...]]]]


def _chosen(settings: Settings, choice: Choice) -> _Chosen:
    named = (*(settings.select or ()), *settings.extend_select)
    by_code = rule_files.named((*named, *(choice.select or ()), *choice.extend_select))
    limits = settings.fixable is not None or settings.unfixable
    job = Job(
        "",
        chosen_codes(settings, choice),
        settings.target,
        unsafe_fixes=settings.unsafe_fixes,
        by_code=by_code,
        runtime=settings.runtime,
        pricing=Pricing(settings.gpu, settings.assume) if settings.prices else None,
        in_tests=None if settings.tests else by_code | rule_files.rules_on_versions(),
        fixable=rule_files.selected(settings.fixable, settings.unfixable) if limits else None,
    )
    return job, [(Patterns([glob]), codes) for glob, codes in settings.per_file_ignores]


def _is_among_tests(file: Found) -> bool:
    """True if a file lies below a folder of tests of its project, or of the current folder."""
    absolute = file.absolute or os.path.abspath(file.path)
    folder = os.path.dirname(absolute)
    if _TESTS.isdisjoint(folder.split(os.sep)):
        return False
    root: str | None = file.settings.root if file.settings.origin else os.getcwd()
    if not absolute.startswith(os.path.join(root or "", "")):
        # The project is checked from elsewhere: what it finds is the same.
        marked = (one for one in folders_above(folder) if is_root(one))
        root = repository_of(folder) or next(marked, None)
    return root is not None and not _TESTS.isdisjoint(folder[len(root) :].split(os.sep))


def relative_to(absolute: str, root: str) -> str:
    """``absolute`` from ``root``, with ``/``; as it is where it lies on another drive."""
    try:
        return os.path.relpath(absolute, root or ".").replace(os.sep, "/")
    except ValueError:
        return absolute.replace(os.sep, "/")


def chosen_codes(settings: Settings, choice: Choice) -> frozenset[str]:
    """The rules that the configuration and then the command line choose."""
    codes = rule_files.selected(settings.select, settings.ignore, settings.extend_select)
    codes = rule_files.narrowed(codes, choice.select, choice.ignore, choice.extend_select)
    # Who selects some rules still has to know what no rule could look at.
    ignored = (*settings.ignore, *choice.ignore)
    is_ignored = any(rule_files.matches(each, BROKEN_FILE.code) for each in ignored)
    return codes if is_ignored else codes | {BROKEN_FILE.code}
