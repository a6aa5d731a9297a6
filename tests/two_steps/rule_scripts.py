"""The scripts of ``rules/``: each has the fault of one rule, and says what to expect of its fix.

``rules/MEM301.py``, or ``rules/MEM301_in_a_loop.py`` where a rule has fixes of several kinds. Its
first lines may say, one each:

    # data: preference         the shape of its rows (``memlint.proof.stand_ins.sample_rows``)
    # fix: unsafe              the level of its fix; safe, if nothing is said
    # before: why it fails     it does not run on the installed versions until it is fixed
    # tolerance: 0.02 why      how far losses may differ; 1e-5, if nothing is said
    # metrics: why             what it prints may differ, its losses may not
    # stand-in: what for what  what its run replaces besides weights, data and the GPU
    # needs a GPU: why         it is fixed, and not run
    # environment: NAME=VALUE  a variable of its run
    # arguments: --name value  its command line
    # file: NAME               a file of ``rules/files`` beside it
    # with: MEM905             rules that are selected beside its own, for faults of one line

Where the fault changes what is learned, or does not run, ``rules/right/NAME.py`` is what the author
meant: the fixed script is compared with it and not with itself before.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from memlint.rule import Rule
from memlint.rule.docs import has_fix
from memlint.rule.registry import known_rules, load
from tests.two_steps.jobs import Job

FOLDER = Path(__file__).with_name("rules")
_HEADER = re.compile(r"# (?P<key>[a-zA-Z -]+): (?P<value>.+)$")
_KEYS = frozenset(
    ["data", "fix", "before", "tolerance", "metrics", "stand-in", "needs a GPU", "environment",
     "file", "with", "arguments"]
)  # fmt: skip
_NOTES = ("needs a GPU", "before", "tolerance", "metrics", "stand-in")
_TOLERANCE = 1e-5


class RuleScript(NamedTuple):
    """A script and what is said of it; see the file's docstring. note: why it is unlike others.

    always_fp32: load every model in fp32, whatever the script says.
    """

    code: str
    name: str
    job: Job
    right: Job | None
    fix: str
    fails_before: str
    tolerance: float
    metrics_differ: str
    needs_gpu: str
    note: str
    always_fp32: bool = False


def codes_with_a_fix() -> list[str]:
    """Every rule that ``memlint rules`` shows with a fix, but those that fix older releases alone:
    nothing of these is installed."""
    rules = load(rule.code for rule in known_rules())
    return [rule.code for rule in rules if has_fix(rule) and not _is_of_old_releases(rule)]


def _is_of_old_releases(rule: Rule) -> bool:
    return all(one.target.startswith("trl=0.") for one in rule.page.examples if one.good)


def read_scripts(codes: Sequence[str] = ()) -> list[RuleScript]:
    """The scripts of ``rules/``, or those of ``codes``, in the order of names."""
    paths = sorted(FOLDER.glob("MEM*.py"))
    found = [_read(path) for path in paths]
    return [each for each in found if not codes or each.code in codes or each.name in codes]


def fixed_by_all(script: RuleScript) -> RuleScript:
    """The same, fixed by all rules together, at whatever level.

    The weights are in fp32 whatever the script says: a frozen base in bf16 is a safe fix, too.
    """
    job = script.job._replace(select="ALL")
    return script._replace(job=job, fix="", always_fp32=True)


def _read(path: Path) -> RuleScript:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    said = defaultdict[str, list[str]](list)
    while header := _HEADER.match(lines[0]):
        if header["key"] not in _KEYS:
            raise ValueError(f"{path.name}: '{header['key']}' is no key of a header")
        said[header["key"]].append(header["value"].strip())
        del lines[0]
    first = {key: values[0] for key, values in said.items()}
    code = path.stem.partition("_")[0]
    right = path.parent / "right" / path.name
    return RuleScript(
        code=code,
        name=path.stem,
        job=_job(path, "".join(lines), said),
        right=_job(path, right.read_text(encoding="utf-8"), said) if right.is_file() else None,
        fix=first.get("fix", "safe"),
        fails_before=first.get("before", ""),
        tolerance=float(first["tolerance"].split()[0]) if "tolerance" in first else _TOLERANCE,
        metrics_differ=first.get("metrics", ""),
        needs_gpu=first.get("needs a GPU", ""),
        note="; ".join(f"{key}: {first[key]}" for key in _NOTES if key in first),
    )


def _job(path: Path, text: str, said: dict[str, list[str]]) -> Job:
    kinds = dict(pair.rpartition("=")[::2] for pair in said.get("data", ["text"]))
    return Job(
        repository="memlint/rules",
        script=path.name,
        data={name or "*": kind for name, kind in kinds.items()},
        arguments=" ".join(said.get("arguments", ())).split(),
        folder=".",
        environment=dict(pair.split("=", 1) for pair in said.get("environment", ())),
        files={name: (FOLDER / "files" / name).read_text() for name in said.get("file", ())},
        rows=64,
        chat_template=True,
        text=text.lstrip("\n"),
        exact=True,
        select=",".join([path.stem.partition("_")[0], *said.get("with", ())]),
    )
