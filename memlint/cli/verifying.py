"""``memlint verify``: run a script and its fixed version, and show that they learn the same."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import click

from memlint.cli.inputs import Usage, check_targets, gather
from memlint.cli.options import Common
from memlint.proof.comparing import Job, Run, Verified, sample_columns, verify
from memlint.reports.readable import finding_place, plural, saving_words
from memlint.reports.style import shown_path, visible
from memlint.rule.file_rules import BROKEN_FILE
from memlint.rule.registry import Choice
from memlint.run.results import FixResult
from memlint.run.session import Session
from memlint.source.diagnostics import ReadError
from memlint.source.reading import read_file, read_source
from memlint.source.roots import repository_of

_GIB = 2**30
_LIBRARIES = ("trl", "transformers", "peft", "accelerate", "torch")
_STATUS = {"same": 0, "moved": 1, "stops": 1, "no answer": 2}


def verify_command(
    script: str,
    arguments: tuple[str, ...],
    *,
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
    fixed, before = _fix(script, codes, unsafe, target or _installed())
    if fixed.after is None:
        click.echo("Nothing to fix, nothing to verify.", err=True)
        return 0
    after = read_source(script, fixed.after).text
    rows = {"*": columns or sample_columns(before)} if tiny else None
    absolute = os.path.realpath(script)
    folder = repository_of(os.path.dirname(absolute)) or os.path.dirname(absolute)
    here = os.path.realpath(os.getcwd())
    if here == folder or absolute.startswith(os.path.join(here, "")):
        folder = here
    job = Job(absolute, folder, here, before, arguments, {}, (), {}, steps, seed, timeout, rows)
    click.echo(_doing(script, fixed, job), err=True)
    verified = verify(job, job._replace(text=after))
    if as_json:
        click.echo(json.dumps(_facts(fixed, verified), indent=2))
    else:
        for line in _lines(fixed, verified):
            click.echo(line)
    return _STATUS[verified.verdict]


def _fix(script: str, codes: Sequence[str], unsafe: bool, target: str) -> tuple[FixResult, str]:
    """Return what fixing the script comes to, and its text as it is."""
    if os.name == "nt":
        raise Usage("verify needs Linux or macOS: its runs are ended by their process group")
    if not script.endswith(".py"):
        raise Usage(f"{script}: give a Python script that trains")
    options = Common(Choice(), target, None, False, False, None, False, True)
    if codes:
        options = options._replace(fixable=tuple(codes))
    jobs = gather((script,), options).jobs
    check_targets([], target)
    if not jobs:
        raise Usage(f"{script}: does not exist")
    try:
        data = read_file(script).data
        text = read_source(script, data).text
    except ReadError as error:
        raise Usage(f"{script}: {error.diagnostic.message}") from None
    result = Session().fix(jobs[0]._replace(unsafe_fixes=unsafe), data)
    for diagnostic in result.diagnostics:
        raise Usage(f"{script}: {diagnostic.message}")
    for finding in result.checked.findings:
        if finding.code == BROKEN_FILE.code:
            raise Usage(f"{finding_place(finding)}: {finding.message}")
    return result, text


def _installed() -> str:
    """Return the versions of this environment, in which the script runs, as ``--target`` has
    them."""
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name}={version(name).partition('+')[0]}")
        except PackageNotFoundError:
            continue
    if not any(each.startswith("torch=") for each in found):
        raise Usage(
            "verify runs the script: use it in the environment that trains "
            "(pip install 'torch-memlint[runtime]'); torch is not installed in this one"
        )
    return ",".join(found)


def _doing(script: str, fixed: FixResult, job: Job) -> str:
    what = f"{plural(len(fixed.fixed), 'fix', 'fixes')} of {shown_path(script)}"
    how = f"{plural(job.steps, 'step')} each, in a copy of {shown_path(job.folder)}"
    tiny = "" if job.tiny is None else f"; tiny models, rows of {job.tiny['*']}"
    return f"Verifying {what}: three runs, {how}{tiny}."


def _lines(fixed: FixResult, verified: Verified) -> Sequence[str]:
    before, after = verified.before, verified.after
    lines = [f"  {each.code} {each.fix.message}" for each in fixed.fixed if each.fix is not None]
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
    for name, one, other, unit in _measured(before, after):
        lines.append(f"{name:14}{one:>14.2f}{other:>14.2f} {unit}")
    lines += [
        f"{each.code}: {saving_words(each.saving)}, by the memory model"
        for each in fixed.fixed
        if each.saving is not None
    ]
    lines.append(_verdict(verified))
    return lines


def _alone(verified: Verified) -> list[str]:
    """Return what the fixed script does where the script itself has nothing to compare it with."""
    after = verified.after
    if not after.losses or after.error:
        return _log(verified.before)
    losses = ", ".join(f"{loss:.6f}" for loss in after.losses)
    return [f"the fixed script took {plural(after.steps, 'step')}: losses {losses}"]


def _measured(before: Run, after: Run) -> Iterator[tuple[str, float, float, str]]:
    for name, one, other in (
        ("GPU, allocated", before.allocated, after.allocated),
        ("GPU, reserved", before.reserved, after.reserved),
        ("host memory", before.host, after.host),
    ):
        if one is not None and other is not None:
            yield name, one / _GIB, other / _GIB, "GiB"
    if before.step_seconds is not None and after.step_seconds is not None:
        yield "a step", before.step_seconds, after.step_seconds, "s"


def _verdict(verified: Verified) -> str:
    noise, moved = _share(verified.noise), _share(verified.moved)
    told = f"the fixes move losses and gradients by {moved}, one rounding of the weights by {noise}"
    match verified.verdict:
        case "same":
            return f"same: {told}"
        case "moved":
            return f"MOVED: {told}; up to {_share(verified.allowed)} is rounding"
        case "stops":
            steps = f"{verified.after.steps} of {verified.before.steps} steps"
            return f"STOPS: the fixed script took {steps}"
    return (
        f"not verified: {told}; the script does not repeat itself, or its losses hang on each "
        "rounding (fix its seed, or verify it in float32)"
    )


def _share(value: float) -> str:
    return f"{value:.1e}" if math.isfinite(value) else "more than can be compared"


def _log(run: Run) -> list[str]:
    return [f"    {visible(line)}" for line in run.log.splitlines()[-8:]]


def _facts(fixed: FixResult, verified: Verified) -> dict[str, Any]:
    return {
        "verdict": verified.verdict,
        "fixes": [
            {
                "code": each.code,
                "message": each.fix.message if each.fix is not None else "",
                "saving": None if each.saving is None else each.saving._asdict(),
            }
            for each in fixed.fixed
        ],
        "noise": verified.noise if math.isfinite(verified.noise) else None,
        "moved": verified.moved if math.isfinite(verified.moved) else None,
        "before": verified.before._asdict(),
        "after": verified.after._asdict(),
    }
