"""Really run the fix of every rule: ``python -m tests.two_steps.each_rule``.

Each script of ``rules/`` is run as it is, after the safe fixes of its rule, and after all of them,
on the CPU with the installed libraries. Safe fixes must keep losses, gradients and what is printed;
unsafe ones must run.
"""

from __future__ import annotations

import concurrent.futures
import difflib
import functools
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from tests.two_steps.child import import_libraries
from tests.two_steps.jobs import Job
from tests.two_steps.rule_scripts import RuleScript, codes_with_a_fix, fixed_by_all, read_scripts
from tests.two_steps.stages import STAGES, Run, Settings, fixed_text, run_stage

# Norms of gradients agree up to this part of themselves, in fp32.
_SAME_NORMS = 1e-4


class Outcome(NamedTuple):
    """What became of one script.

    safe and all: None where the fixes change no more than the stage before did. difference: the
    largest, of losses and printed numbers, that safe fixes make; None where nothing compares.
    diff: what all fixes change.
    """

    script: RuleScript
    before: Run | None
    safe: Run | None
    all: Run | None
    difference: float | None
    problems: tuple[str, ...]
    diff: str

    @property
    def differs(self) -> bool:
        return any(problem.startswith("differs") for problem in self.problems)

    @property
    def broken(self) -> bool:
        return bool(self.problems) and not self.differs


def outcome(script: RuleScript, settings: Settings) -> Outcome:
    """Fix and run ``script``."""
    job = script.job
    texts = {
        name: fixed_text(job, options) for name, options in STAGES.items() if options is not None
    }
    changes = {"safe": texts["safe"] != job.text, "all": texts["all"] != texts["safe"]}
    diff = _diff(job.text, texts["all"])
    problems = list(_level_problems(script, changes))
    if script.needs_gpu or problems:
        return Outcome(script, None, None, None, None, tuple(problems), diff)

    def run(each: Job) -> Run:
        return run_stage(each, None, settings, fp32=script.always_fp32)

    before = run(job)
    runs = {name: run(job._replace(text=texts[name])) for name in changes if changes[name]}
    wanted = run(script.right) if script.right else before
    difference, problems = judge(script, before, wanted, runs)
    return Outcome(
        script, before, runs.get("safe"), runs.get("all"), difference, tuple(problems), diff
    )


def judge(
    script: RuleScript, before: Run, wanted: Run, runs: dict[str, Run]
) -> tuple[float | None, list[str]]:
    """The largest difference that safe fixes make to ``wanted``, and what is wrong.

    wanted: what the script should do; before, unless that is the fault.
    """
    problems = list(_failures(script, before, runs))
    if not _ran(wanted) and wanted is not before:
        problems.append(f"fails as it is right: {_words(wanted)}")
    if problems or "safe" not in runs or not wanted.ok:
        return None, problems
    difference = _largest(wanted, runs["safe"], printed=not script.metrics_differ)
    return difference, list(_differences(script, wanted, runs["safe"], difference))


def _diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return "\n".join(f"    {line}" for line in list(lines)[2:])


def _level_problems(script: RuleScript, changes: dict[str, bool]) -> Iterator[str]:
    if not any(changes.values()):
        yield "the fix changes nothing"
    elif script.fix not in ("safe", "unsafe", ""):
        yield f"'{script.fix}' is no level of a fix"
    elif script.fix and changes["safe"] != (script.fix == "safe"):
        yield f"the fix is not {script.fix}"


def _failures(script: RuleScript, before: Run, runs: dict[str, Run]) -> Iterator[str]:
    if script.fails_before and before.ok:
        yield "runs before its fix, although its header says that it does not"
    elif not script.fails_before and not _ran(before):
        yield f"fails before its fix: {_words(before)}"
    for name, run in runs.items():
        if not _ran(run):
            yield f"fails after {name} fixes: {_words(run)}"
        elif not run.losses:
            yield f"has no losses after {name} fixes"


def _differences(
    script: RuleScript, wanted: Run, safe: Run, difference: float | None
) -> Iterator[str]:
    if difference is None:
        yield f"differs: {wanted.losses} {wanted.printed}, then {safe.losses} {safe.printed}"
    elif not difference <= script.tolerance:
        yield f"differs by {difference:.1e}: {wanted.losses}, then {safe.losses}"
    elif len(wanted.norms) != len(safe.norms):
        yield f"differs: {len(wanted.norms)} steps, then {len(safe.norms)}"
    else:
        same = max(_SAME_NORMS, script.tolerance)
        for one, other in zip(wanted.norms, safe.norms, strict=True):
            if not abs(one - other) <= same * max(1, abs(one)):
                yield f"differs in its gradients: norm {one}, then {other}"
                return


def _ran(run: Run) -> bool:
    return run.ok and run.two_steps


def _words(run: Run) -> str:
    return " ".join([f"{run.steps} steps", run.source, run.error, run.deepest]).strip()


def _largest(one: Run, other: Run, *, printed: bool) -> float | None:
    """The largest difference; None where the numbers do not stand side by side."""
    pairs = [(one.losses, other.losses)]
    if printed:
        pairs.append((one.printed, other.printed))
    if not one.losses or any(len(a) != len(b) for a, b in pairs):
        return None
    return max(abs(a - b) for left, right in pairs for a, b in zip(left, right, strict=True))


def _row(result: Outcome) -> str:
    script = result.script
    difference = "-" if result.difference is None else f"{result.difference:.1e}"
    cells = [
        script.name.ljust(34), script.fix.ljust(6), _cell(result.before), _cell(result.safe),
        _cell(result.all), difference.ljust(10), script.note,
    ]  # fmt: skip
    return "  ".join(cells).rstrip()


def _cell(run: Run | None) -> str:
    return ("-" if run is None else "yes" if _ran(run) else "no").ljust(6)


def summary(results: Sequence[Outcome], codes: Sequence[str]) -> str:
    """One line of what became of ``codes``, the rules that fix."""
    bad = {each.script.code for each in results if each.problems}
    gpu = sorted({each.script.code for each in results if each.script.needs_gpu} - bad)
    ran = {each.script.code for each in results if each.all or each.safe} - bad
    differ = {each.script.code for each in results if each.differs}
    missing = set(codes) - {each.script.code for each in results}
    broken = {each.script.code for each in results if each.broken} | missing
    return (
        f"rules that fix: {len(codes)}, run: {len(ran & set(codes))}, differ: {len(differ)}, "
        f"broken: {len(broken)}, need a GPU: [{', '.join(code for code in gpu if code not in ran)}]"
    )


@click.command()
@click.option("--only", multiple=True, help="Codes or names of scripts.")
@click.option("--together", is_flag=True, help="Apply the fixes of all rules to every script.")
@click.option("--timeout", default=240, help="Seconds for one run.")
@click.option("--workers", default=2)
@click.option("--show", is_flag=True, help="Print what fixes change.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    default=Path(tempfile.gettempdir()) / "memlint-two-steps",
    help="Where results of runs are kept.",
)
def main(
    only: tuple[str, ...], together: bool, timeout: int, workers: int, show: bool, cache: Path
) -> None:
    """Run the script of every rule that fixes before and after its fixes."""
    scripts = [fixed_by_all(each) if together else each for each in read_scripts(only)]
    codes = codes_with_a_fix()
    if only:
        codes = [code for code in codes if code in {script.code for script in scripts}]
    import_libraries()
    settings = Settings(cache.resolve(), cache.resolve(), timeout)
    click.echo(_HEADING)
    results = []
    # Not a pool of multiprocessing: its processes must have no children, and loaders have.
    fork = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=fork) as pool:
        for result in pool.map(functools.partial(outcome, settings=settings), scripts):
            results.append(result)
            click.echo(_row(result))
            for problem in result.problems:
                click.echo(f"    {problem}")
            if show:
                click.echo(result.diff)
            sys.stdout.flush()
    for code in sorted(set(codes) - {each.script.code for each in results}):
        click.echo(f"{code}: has no script")
    line = summary(results, codes)
    click.echo(line)
    sys.exit(0 if "differ: 0, broken: 0," in line else 1)


_HEADING = "  ".join(
    ["script".ljust(34), "fix   ", "before", "safe  ", "all   ", "difference", "note"]
)

if __name__ == "__main__":
    main()
