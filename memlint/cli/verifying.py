"""``memlint verify``: run a script and its fixed version, and show that they learn the same."""

import json
import math
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import click

from memlint.cli.inputs import Usage, check_targets, gather, versions_that_run
from memlint.cli.interrupts import end_cleanly, warn_of_programs
from memlint.cli.options import Common
from memlint.proof.comparing import Job, Run, Verified, verify
from memlint.proof.stand_ins import sample_rows
from memlint.reports.readable import finding_place, plural, saving_words
from memlint.reports.style import shown_path, visible
from memlint.rule.file_rules import BROKEN_FILE
from memlint.rule.registry import Choice
from memlint.run.jobs import Job as FileJob
from memlint.run.jobs import asking_for_peak
from memlint.run.results import FixResult, Rendered
from memlint.run.sampled_columns import sample_columns
from memlint.run.session import Session
from memlint.source.diagnostics import ReadError
from memlint.source.reading import read_file, read_source
from memlint.source.roots import repository_of

_GIB = 2**30
_STATUS = {"same": 0, "moved": 1, "stops": 1, "repaired": 2, "no answer": 2}


def verify_command(
    script: str,
    arguments: tuple[str, ...],
    *,
    recipe: bool,
    codes: tuple[str, ...],
    unsafe: bool,
    tiny: bool,
    columns: str | None,
    target: str | None,
    steps: int,
    seed: int,
    timeout: float,
    as_json: bool,
) -> int:
    """Fix, run, compare, report and return the exit status."""
    if os.name == "nt":
        raise Usage("verify needs Linux or macOS: its runs are ended by their process group")
    end_cleanly()
    if columns:
        try:
            sample_rows.rows(columns, 1)
        except ValueError as error:
            raise Usage(f"--columns {columns}: {error}") from None
    fixing = _Fixing(codes, unsafe, target or versions_that_run("verify"))
    here = os.path.realpath(os.getcwd())
    rows = {"*": columns or "text"} if tiny else None
    job = Job("", here, here, "", arguments, steps=steps, seed=seed, seconds=timeout, tiny=rows)
    if recipe:
        from memlint.proof.launching import LaunchError, jobs_of

        words = (script, *arguments)
        try:
            shown, before, after = jobs_of(words, job, fixing.texts)
        except LaunchError as error:
            raise Usage(f"{shlex.join(words)}: {error}") from None
    else:
        shown, before, after = _of_script(script, job, fixing)
    before, after = _with_modules(before, after, fixing, guesses=tiny and not columns)
    if not fixing.fixed:
        click.echo("Nothing to fix, nothing to verify.", err=True)
        return 0
    warn_of_programs(before.script)
    click.echo(_doing(shown, fixing.fixed, before), err=True)
    verified = verify(before, after)._replace(predicted=None if recipe else fixing.peaks)
    facts = json.dumps(_facts(fixing.fixed, verified), indent=2) if as_json else ""
    click.echo(facts or "\n".join(_lines(fixing.fixed, verified)))
    return _STATUS[verified.verdict]


class _Fixing:
    """Fixes files in memory. fixed: what was fixed so far. peaks: the bytes of the last file's run
    as it is, and fixed, by the memory model."""

    def __init__(self, codes: Sequence[str], unsafe: bool, target: str) -> None:
        self.fixed: list[Rendered] = []
        self._beside: set[str] = set()
        self.peaks: tuple[int, int] | None = None
        options = Common(Choice(), target, None, False, False, None, False, True)
        self._options = options._replace(fixable=tuple(codes)) if codes else options
        self._unsafe = unsafe
        check_targets([], target)

    def texts(self, path: str, data: bytes | None = None, beside: str = "") -> tuple[str, str]:
        """Return the text of a file as it is, and fixed. data: of launch commands, which may have
        nothing to fix; ``beside`` is the file whose settings they have."""
        may_fail = data is not None
        jobs = gather((beside or path,), self._options).jobs
        if not jobs:
            raise Usage(f"{path}: does not exist")
        try:
            data = read_file(path).data if data is None else data
            text = read_source(path, data).text
        except ReadError as error:
            raise Usage(f"{path}: {error.diagnostic.message}") from None
        absolute = os.path.abspath(path)
        job = jobs[0]._replace(path=path, absolute=absolute, unsafe_fixes=self._unsafe)
        result = Session().fix(job, data)
        self.fixed += result.fixed
        if not may_fail:
            _refuse_broken(path, result)
            self._beside |= {each for each, digest in result.checked.relied_on if digest}
            before, after = (_peak(job, each) for each in (data, result.after or data))
            self.peaks = (before, after) if before and after else None
        return text, text if result.after is None else read_source(path, result.after).text

    def modules(self, folder: str) -> dict[str, tuple[str, str]]:
        """Return the texts of modules below ``folder`` that what was fixed imports, and fixed."""
        below = [each for each in self._beside if each.startswith(os.path.join(folder, ""))]
        python = [each for each in sorted(below) if each.endswith(".py")]
        return {each: self.texts(each, read_file(each).data) for each in python}


def _refuse_broken(path: str, result: FixResult) -> None:
    for diagnostic in result.diagnostics:
        raise Usage(f"{path}: {diagnostic.message}")
    for finding in result.checked.findings:
        if finding.code == BROKEN_FILE.code:
            raise Usage(f"{finding_place(finding)}: {finding.message}")


def _peak(job: FileJob, data: bytes) -> int:
    """Return the peak of a script's run by the memory model; 0 where it knows none."""
    footprint = Session().check(asking_for_peak(job), data).footprint
    return 0 if footprint is None else footprint.peak


def _of_script(script: str, job: Job, fixing: _Fixing) -> tuple[str, Job, Job]:
    """Return what is shown of a script's run, the run, and the run of its fixed version."""
    if not script.endswith((".py", ".ipynb")):
        asked = "give a script or a notebook that trains, or a command with --recipe"
        raise Usage(f"{script}: {asked}")
    text, fixed = fixing.texts(script)
    absolute = os.path.realpath(script)
    root = repository_of(os.path.dirname(absolute)) or os.path.dirname(absolute)
    # The larger one: a script imports from beside and from above where it is started.
    if absolute.startswith(f"{job.folder}/") and not f"{job.folder}/".startswith(f"{root}/"):
        root = job.folder
    before = job._replace(script=absolute, folder=root, text=text)
    return script, before, before._replace(text=fixed)


def _with_modules(before: Job, after: Job, fixing: _Fixing, *, guesses: bool) -> tuple[Job, Job]:
    """Return the runs with what the script imports. guesses: rows of data, from all of it."""
    modules = fixing.modules(before.folder)
    if guesses:
        others = (old for old, _ in modules.values())
        before = before._replace(tiny={"*": sample_columns(before.text, *others)})
    files = {path: new for path, (old, new) in modules.items() if new != old}
    return before, after._replace(files={**files, **after.files}, tiny=before.tiny)


def _doing(shown: str, fixed: Sequence[Rendered], job: Job) -> str:
    what = f"{plural(len(fixed), 'fix', 'fixes')} of {shown_path(shown)}"
    how = f"{plural(job.steps, 'step')} each, in a copy of {shown_path(job.folder)}"
    tiny = "" if job.tiny is None else f"; tiny models, rows of {job.tiny['*']}"
    return f"Verifying {what}: three runs, {how}{tiny}."


def _lines(fixed: Sequence[Rendered], verified: Verified) -> Sequence[str]:
    before, after = verified.before, verified.after
    lines = [f"  {each.code} {each.fix.message}" for each in fixed if each.fix is not None]
    lines = [visible(line) for line in dict.fromkeys(lines)]
    if before.error or not before.losses:
        why = before.error or "no loss was seen: nothing called `backward`"
        return [*lines, f"not verified: the script itself: {visible(why)}", *_alone(verified)]
    if after.error:
        return [*lines, f"STOPS: the fixed script: {visible(after.error)}", *_log(after)]
    lines.append(f"{'':14}{'as it is':>14}{'fixed':>14}")
    for index, (one, other) in enumerate(zip(before.losses, after.losses, strict=False), 1):
        lines.append(f"loss, step {index:<3}{one:>14.6f}{other:>14.6f}")
    for index, (one, other) in enumerate(zip(before.norms, after.norms, strict=False), 1):
        lines.append(f"norm, step {index:<3}{one:>14.6f}{other:>14.6f}")
    for name, one, other, unit in _measured(verified):
        lines.append(f"{name:14}{one:>14.2f}{other:>14.2f} {unit}")
    if before.line:
        lines.append(f"ended in line {before.line}: what comes after the last step was not run")
    saved = [
        f"{each.code}: {saving_words(each.saving)}, by the memory model"
        for each in fixed
        if each.saving is not None
    ]
    return [*lines, *saved, _verdict(verified)]


def _alone(verified: Verified) -> list[str]:
    """Return what the fixed script does where the script itself has nothing to compare it with."""
    after = verified.after
    if after.error:
        return [*_log(verified.before), f"the fixed script stops, too: {visible(after.error)}"]
    if not after.losses:
        return [*_log(verified.before), "the fixed script ends, too, before it has a loss"]
    losses, norms = (", ".join(f"{one:.6f}" for one in of) for of in (after.losses, after.norms))
    lead = "repaired, compared with nothing: " * (verified.verdict == "repaired")
    took = f"the fixed script took {plural(after.steps, 'step')}"
    return [f"{lead}{took}: losses {losses}; norms {norms}"]


def _measured(verified: Verified) -> Iterator[tuple[str, float, float, str]]:
    before, after = verified.before, verified.after
    predicted = verified.predicted if before.allocated else None
    for name, one, other in (
        ("GPU, predicted", *(predicted or (None, None))),
        ("GPU, allocated", before.allocated, after.allocated),
        ("GPU, reserved", before.reserved, after.reserved),
        ("host memory", before.host, after.host),
    ):
        if one is not None and other is not None:
            yield name, one / _GIB, other / _GIB, "GiB"
    if before.step_seconds is not None and after.step_seconds is not None:
        yield "a step", before.step_seconds, after.step_seconds, "s"
        # Of the same data: what a fix leaves out (padding, prompts that are repeated) counts.
        if tokens := sum(before.tokens[1:]) / max(len(before.tokens) - 1, 1):
            rates = tokens / before.step_seconds, tokens / after.step_seconds
            yield "tokens", *rates, "a second"


def _verdict(verified: Verified) -> str:
    noise, moved = _share(verified.noise), _share(verified.moved)
    told = f"the fixes move losses and gradients by {moved}, one rounding of the weights by {noise}"
    match verified.verdict:
        case "same" | "moved" as verdict:
            shown = "MOVED" if verdict == "moved" else verdict
            return f"{shown}: {told}; up to {_share(verified.allowed)} is rounding"
        case "stops":
            steps = f"{verified.after.steps} of {verified.before.steps} steps"
            return f"STOPS: the fixed script took {steps}"
    if not any((*verified.before.losses, *verified.before.norms)):
        return "not verified: losses and gradients are all 0: rewards that are alike teach nothing"
    why = "the script does not repeat itself, or its losses hang on each rounding"
    return f"not verified: {told}; {why} (fix its seed, or verify it in float32)"


def _share(value: float) -> str:
    return f"{value:.1e}" if math.isfinite(value) else "more than can be compared"


def _log(run: Run) -> list[str]:
    return [f"    {visible(line)}" for line in run.log.splitlines()[-8:]]


def _facts(fixed: Sequence[Rendered], verified: Verified) -> dict[str, Any]:
    return {
        "verdict": verified.verdict,
        "fixes": [
            {
                "code": each.code,
                "message": each.fix.message if each.fix is not None else "",
                "saving": None if each.saving is None else each.saving._asdict(),
            }
            for each in fixed
        ],
        "predicted": verified.predicted,
        "noise": verified.noise if math.isfinite(verified.noise) else None,
        "moved": verified.moved if math.isfinite(verified.moved) else None,
        "before": verified.before._asdict(),
        "after": verified.after._asdict(),
    }
