"""``memlint fits``: whether a run fits its GPUs, with which batch, and what to type next."""

import json
from collections.abc import Iterator
from typing import Any

import click

from memlint.cli.estimate import Asked, results
from memlint.cli.runs_of_file import configured, runs_of_file
from memlint.memory.fit import Fitted, run_of
from memlint.memory.settings import Settings, with_pricing
from memlint.memory.trainer_kinds import kind_of
from memlint.parallel.sharding_search import Shared
from memlint.reports.fit_report import gib, range_of
from memlint.rule.savings import Pricing, ends, verdict


def fits_command(
    script: str,
    *,
    gpu: str | None,
    gpus: int,
    assumptions: tuple[str, ...],
    target: str | None,
    as_json: bool,
) -> int:
    """Print the answer for each run and return the exit status: 1 if one does not fit as it is."""
    runs = runs_of_file(script, None, target)
    settings = configured(runs[0].path, target, gpu, assumptions)
    gpu, assumptions = settings.gpu, settings.assume
    if not gpu:
        raise click.UsageError("name the GPU with --gpu, such as rtx4090-24gb")
    pricing = Pricing(gpu, assumptions)
    more = "".join(f" --assume {each}" for each in assumptions)
    answers = []
    for run, result in results(runs, Asked(pricing, True, gpus)):
        words = f"--gpu {gpu}{more} {run.path}"
        if isinstance(result, Fitted):
            known = run_of(with_pricing(run.settings, pricing)).known
            answer = _on_one(result, known, words)
        else:
            assert isinstance(result, Shared)
            answer = _on_many(result, words)
        answers.append({"run": run.place if len(runs) > 1 else run.path, **answer})
    if as_json:
        click.echo(json.dumps(answers[0] if len(answers) == 1 else {"runs": answers}, indent=2))
    else:
        click.echo("\n\n".join("\n".join(_lines(each)) for each in answers))
    return 0 if all(each["verdict"] == "fits" for each in answers) else 1


def _on_one(fitted: Fitted, known: Settings, words: str) -> dict[str, Any]:
    """The answer where no other GPU is spoken of. words: the end of a command on the run."""
    said = verdict(*ends(fitted.before), fitted.room)
    largest, steps = fitted.micro_batch, known.gradient_accumulation or 1
    rows = (known.micro_batch or 1) * steps
    if largest and not kind_of(known.trainer).generates:
        largest = max(each for each in range(1, min(largest, rows) + 1) if rows % each == 0)
        steps = rows // largest
    if said == "fits":
        after = f"memlint check {words}"
    elif fitted.applied and fitted.fits:
        after = f"memlint fix --fit {words}"
    else:
        after = f"memlint estimate --fit {words}"
    return {
        "gpu": fitted.gpu,
        "gpus": 1,
        "verdict": said.removeprefix("is ").removesuffix(" on"),
        "room": fitted.room,
        "peak": fitted.before,
        "with": [each.message for each in fitted.chosen],
        "peak_then": fitted.after if fitted.fits else None,
        "micro_batch": largest,
        "gradient_accumulation": steps,
        "next": after,
    }


def _on_many(shared: Shared, words: str) -> dict[str, Any]:
    """The answer for so many GPUs. words: as above."""
    best = shared.chosen or min(shared.candidates, key=lambda each: each.peak)
    fits = shared.chosen is not None
    launch = f"--write-launch launch --gpus {shared.gpus}" if fits else ""
    return {
        "gpu": shared.gpu.name,
        "gpus": shared.gpus,
        "verdict": {"just": "tight"}.get(best.verdict, best.verdict),
        "room": shared.gpu.room,
        "peak": best.peak,
        "with": [best.strategy.name, *(each.message for each in shared.fixes)],
        "peak_then": best.peak if fits else None,
        "micro_batch": best.micro_batch if fits else 0,
        "gradient_accumulation": best.accumulation,
        "next": " ".join(f"memlint estimate --fit {launch} {words}".split()),
    }


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    count = f"{answer['gpus']} x " if answer["gpus"] > 1 else ""
    room = f"{gib(answer['room'])} of {count}{answer['gpu']}"
    verb = {"fits": "fits", "tight": "is tight in"}.get(answer["verdict"], "does not fit")
    yield f"{answer['run']} {verb} the {room}: {range_of(answer['peak'])} GiB"
    if answer["with"]:
        then = answer["peak_then"]
        held = f" ({range_of(then)} GiB)" if then and then != answer["peak"] else ""
        yield f"  with{held}: {'; '.join(answer['with'])}"
    if answer["peak_then"] is None:
        yield "  not even so"
    else:
        what = "micro-batch" if answer["gpus"] > 1 else "largest micro-batch"
        yield f"  {what}: {answer['micro_batch']}, {answer['gradient_accumulation']} accumulated"
    yield f"next: {answer['next']}"
