"""Which model types of transformers the runtime serves, tried one by one: writes the table.

    python -m tests.runtime.model_table [--jobs N] [TYPE ...]
    python -m tests.runtime.model_table --page

Each causal-LM and image-text-to-text type is built tiny from its default configuration, and its
plain loss, logits, log-probabilities and gradients are compared with the fused loss, with packed
documents and with shared prompts (`model_trials`). The worst token and the worst gradient decide.
Where they are further off than rounding is, the trial is repeated in float64: what is exact there
was rounding, such as an expert that is chosen by a hair, and what is not is wrong.

A type that cannot be shrunk or run plainly is unknown. Each runs in a process of its own, which may
take a minute of a processor. The table is `memlint_runtime/model_types.json`: for each type and
feature "exact", "exact: IN WHAT", "refused: REASON", "differs: HOW MUCH", "fails: ERROR" or
"unknown: WHY".
`--page` writes `docs/model-types.md` from it and tries nothing; a run of types writes it too.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import re
import resource
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)
from transformers.utils import logging

from tests.runtime.model_trials import TRIALS, Errors, NotTriedError
from tests.runtime.tiny_models import ids_of, in_float64, tiny

TABLE = Path(__file__).parents[2] / "runtime/memlint_runtime/model_types.json"
PAGE = Path(__file__).parents[2] / "docs/model-types.md"
# Of a processor, so that a busy machine has the same table; and of the clock, for what hangs.
PROCESSOR_SECONDS = 120
CLOCK_SECONDS = 3600
# Of a token and of a parameter's gradient, the worst, relative: see `model_trials` for the noise.
TOLERATED = {torch.float32: 1e-5, torch.float64: 1e-6}
# Where float32 is further off and float64 is not, all but so many tokens are equal in float32 too.
_SHARE_EQUAL = 0.9
ROUNDING = "exact: in float64; in float32 rounding grows, as where a router ties or layers repeat"


class Verdict(NamedTuple):
    """measured: the errors that it was found by, or nothing."""

    text: str
    measured: str = ""


def verdicts(model_type: str) -> dict[str, Verdict]:
    """A verdict for each feature. A plain pass comes first: what fails there is no refusal."""
    try:
        model = tiny(model_type)
        ids = ids_of(2, 12)
        # Of a copy, since some keep their state, which cannot be copied.
        copy.deepcopy(model)(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    except Exception as error:
        return dict.fromkeys(TRIALS, Verdict(f"unknown: {_line(error)}"))
    return {feature: _verdict(model, feature) for feature in TRIALS}


def _verdict(model: Any, feature: str) -> Verdict:
    try:
        errors = TRIALS[feature](copy.deepcopy(model))
    except NotTriedError as error:
        return Verdict(f"not tried: {_line(error)}")
    except (ValueError, RuntimeError) as error:
        return Verdict(f"refused: {_line(error)}")
    except Exception as error:
        return Verdict(f"fails: {type(error).__name__}: {_line(error)}")
    if errors.within(TOLERATED[torch.float32]):
        return Verdict("exact", str(errors))
    try:
        exactly = TRIALS[feature](in_float64(model))
    except Exception as error:
        return Verdict(f"differs: {errors}", f"float64: {type(error).__name__}: {_line(error)}")
    measured = f"{errors}; float64: {exactly}"
    if exactly.within(TOLERATED[torch.float64]) and _mostly_equal(errors):
        return Verdict(ROUNDING, measured)
    return Verdict(f"differs: {errors}", measured)


def _mostly_equal(errors: Errors) -> bool:
    return float(errors.tokens.quantile(_SHARE_EQUAL)) <= TOLERATED[torch.float32]


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _report(model_type: str, sender: Any) -> None:
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS + 5))
    sender.send(verdicts(model_type))


class _Running(NamedTuple):
    model_type: str
    process: multiprocessing.process.BaseProcess
    until: float


def tried(model_types: Sequence[str], jobs: int) -> Iterator[tuple[str, dict[str, Verdict]]]:
    """Types with their verdicts as they come, from processes that may be ended."""
    context = multiprocessing.get_context("fork")
    waiting = list(reversed(model_types))
    running: dict[Connection, _Running] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_report, args=(waiting[-1], sender))
            process.start()
            sender.close()
            until = time.monotonic() + CLOCK_SECONDS
            running[receiver] = _Running(waiting.pop(), process, until)
        ready = wait(list(running), timeout=10)
        late = [pipe for pipe, one in running.items() if time.monotonic() > one.until]
        for receiver in [pipe for pipe in running if pipe in ready or pipe in late]:
            one = running.pop(receiver)
            yield one.model_type, _received(receiver, one.process)


def _received(receiver: Connection, process: Any) -> dict[str, Verdict]:
    try:
        if receiver.poll():
            result: dict[str, Verdict] = receiver.recv()
            return result
        reason = f"took over {CLOCK_SECONDS} s"
    except EOFError:
        process.join()
        slow = process.exitcode == -signal.SIGXCPU
        reason = f"took over {PROCESSOR_SECONDS} s of a processor" if slow else "its process ended"
    finally:
        process.kill()
        process.join()
    return dict.fromkeys(TRIALS, Verdict(f"unknown: {reason}"))


def types() -> list[str]:
    return sorted({*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES})


def read_table() -> dict[str, dict[str, str]]:
    """The verdicts by type, as written."""
    if not TABLE.exists():
        return {}
    found: dict[str, dict[str, str]] = json.loads(TABLE.read_text(encoding="utf-8"))["types"]
    return found


def write_table(table: dict[str, dict[str, str]]) -> None:
    stored = {"transformers": transformers.__version__, "types": dict(sorted(table.items()))}
    TABLE.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def page(table: dict[str, dict[str, str]]) -> str:
    """The table for readers: reasons as footnotes, since few reasons serve many types."""
    tried_types = {kind: row for kind, row in table.items() if not _unknown(row)}
    reasons: list[str] = []
    lines = []
    for kind, row in sorted(tried_types.items()):
        cells = [kind]
        for feature in TRIALS:
            verdict, _, reason = row.get(feature, "not tried").partition(": ")
            if verdict == "not tried":
                verdict = ""
            elif reason:
                reason = _general(reason)
                if reason not in reasons:
                    reasons.append(reason)
                verdict += f" ({reasons.index(reason) + 1})"
            cells.append(verdict)
        lines.append(f"| {' | '.join(cells)} |")
    count = {
        name: sum(row.get(name, "").startswith("exact") for row in tried_types.values())
        for name in TRIALS
    }
    untried = sorted(table.keys() - tried_types.keys())
    return "\n".join(
        [
            "# Model types",
            "",
            "<!-- generated by `python -m tests.runtime.model_table --page` -->",
            "",
            f"{len(tried_types)} causal-LM and image-text-to-text types of transformers "
            f"{transformers_of_table()}, each built tiny and compared with its own plain answers "
            "(text only but for the last column): the fused loss with the plain loss and every "
            "gradient, packed documents with each document alone, shared prompts with repeated "
            "ones. `images`: a group whose prompt holds an image, in TRL's scoring; empty where a "
            "type takes none, or wants them otherwise than as pixels with at most a grid. Where "
            "that is refused, such prompts are repeated, and that is said.",
            "`exact`: every token and every gradient equal up to rounding. `refused`: a ValueError "
            "with the reason, before or at the first use; nothing is silently wrong.",
            "",
            *(f"- {name.replace('_', ' ')}: {number} exact" for name, number in count.items()),
            "",
            f"| type | {' | '.join(name.replace('_', ' ') for name in TRIALS)} |",
            "| --- " * (1 + len(TRIALS)) + "|",
            *lines,
            "",
            "## Reasons",
            "",
            *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1)),
            "",
            "## Not tried",
            "",
            "Types that need more than tokens, or whose defaults do not shrink to a model of a few "
            f"thousand parameters: {', '.join(untried)}.",
            "",
        ]
    )


def _unknown(row: dict[str, str]) -> bool:
    return any(verdict.startswith("unknown") for verdict in row.values())


def _general(reason: str) -> str:
    """A reason without the class that it was raised for."""
    reason = re.sub(
        r"\b[A-Z]\w*(?:For\w+|Model|Attention|LMHead\w*|Linear|Decoder)\b", "the model", reason
    )
    reason = re.sub(r" by \d+\.\d%", "", reason)
    return reason.removeprefix("this model cannot share prompts: ").replace("|", "\\|")


def transformers_of_table() -> str:
    version: str = json.loads(TABLE.read_text(encoding="utf-8"))["transformers"]
    return version


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Try model types and write their table.")
    parser.add_argument("types", nargs="*", metavar="TYPE")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--page", action="store_true", help="write the page, try nothing")
    options = parser.parse_args(arguments)
    table = read_table() if options.types or options.page else {}
    if not options.page:
        for model_type, row in tried(options.types or types(), options.jobs):
            table[model_type] = {feature: verdict.text for feature, verdict in row.items()}
            for feature, verdict in row.items():
                parts = (model_type, feature, verdict.text, verdict.measured)
                sys.stdout.write(" | ".join(parts) + "\n")
            sys.stdout.flush()
            write_table(table)
    PAGE.write_text(page(table), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
