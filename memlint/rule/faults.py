"""What a rule is, and how it is asked."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache

from memlint.engine.project import ElsewhereError
from memlint.recipes.recipe import Recipe
from memlint.rule.findings import Finding, Level
from memlint.rule.kit import Skip
from memlint.rule.page import Page, read_page
from memlint.rule.triggers import LIBRARIES, TRAINING
from memlint.runs import TrainingRun, run_of_recipe, runs_of
from memlint.runs.run import NOWHERE
from memlint.script.model import Script
from memlint.source.record import Record

# The words of a file that trains with one of the libraries.
_TRAINS = (LIBRARIES, TRAINING)


class Rule(Record):
    """One fault.

    summary: one line for tables. level: WASTE unless it says otherwise.
    triggers: the file must contain a word of each of these sets for the rule to be asked; a tuple
        of words is searched in its order. By default those of a file that trains.
    check: what it finds in a script. of_run: what it finds in the settings of a run, whatever that
        is written in. of_recipe: what it finds in the keys of a recipe. A rule has one or more.
    skips: scripts that the rule says nothing of, whatever is in them.
    written: what people read of it; by default the Markdown file beside the check's.
    on_request: whether it is asked only where its code or name is selected: a hint that would
        concern nearly every script.
    effect: settings of the memory model that its fixes change, where no fix says so itself; they
        give its findings their price.
    only_to_fit: unless selected, it is reported only where the run fits the GPU once all is
        fixed.
    code, name: by the file's name, ``mem301_unchecked_activations.py``: it names the fault, not the
        cure.
    """

    summary: str
    level: Level = Level.WASTE
    check: Callable[[Script], Iterable[Finding]] | None = None
    triggers: tuple[frozenset[str] | tuple[str, ...], ...] = _TRAINS
    skips: tuple[Skip, ...] = ()
    written: Page | None = None
    on_request: bool = False
    only_to_fit: bool = False
    of_run: Callable[[TrainingRun], Iterable[Finding]] | None = None
    of_recipe: Callable[[Recipe], Iterable[Finding]] | None = None
    effect: Mapping[str, object] = {}
    code: str = ""
    name: str = ""

    def may_speak(self, packages: frozenset[str]) -> bool:
        """True if it may say something of a script that imports these packages."""
        return all(packages.isdisjoint(skip.packages) for skip in self.skips)

    def findings(self, script: Script) -> Iterator[Finding]:
        """What the rule finds in ``script``; nothing in scripts that it skips."""
        for finding in self._findings(script):
            # A fault that another script leads to names that script.
            path = next((one for span, one in script.led_by if span.contains(finding.span)), None)
            named = f"{finding.message} (run by `{path}`)"
            yield finding if path is None else finding._replace(message=named)

    def _findings(self, script: Script) -> Iterator[Finding]:
        findings = self._wherever(script)
        first = next(findings, None)
        # What a script is takes longer to tell than most rules take to find nothing in it.
        if first is not None and not any(skip.holds(script) for skip in self.skips):
            yield first
            yield from findings

    def _wherever(self, script: Script) -> Iterator[Finding]:
        # What is decided in another file is reported there.
        if self.check is not None:
            with suppress(ElsewhereError):
                yield from self.check(script)
        of_run = self.of_run
        if of_run is not None:
            for run in runs_of(script):
                with suppress(ElsewhereError):
                    yield from (each for each in of_run(run) if each.span is not NOWHERE)

    def findings_of_recipe(self, recipe: Recipe) -> Iterator[Finding]:
        """What the rule finds in the keys of a recipe, and in the settings that they give a run."""
        if self.of_recipe is not None:
            yield from self.of_recipe(recipe)
        run = run_of_recipe(recipe) if self.of_run is not None else None
        if self.of_run is not None and run is not None:
            yield from self.of_run(run)

    @property
    def is_of_run(self) -> bool:
        """True if it asks of runs: of recipes, and of loops around torchtune's own classes."""
        return self.of_run is not None

    @property
    def is_of_recipe(self) -> bool:
        """True if recipes in words of their own may have its fault."""
        return self.of_run is not None or self.of_recipe is not None

    @property
    def page(self) -> Page:
        """What people read of it. Raises ValueError where that is missing or malformed."""
        return self.written or _page_beside((self.check or self.of_run).__module__)


@cache
def _page_beside(module: str) -> Page:
    path = sys.modules[module].__file__ or module
    return read_page(f"{os.path.splitext(path)[0]}.md")
