"""Bring every trainer script of a folder of checkouts to today's versions, and count what is left.

``python -m tests.migration FOLDER`` checks each trainer script below FOLDER for trl and
transformers as the newest tables know them, applies the safe fixes of ``memlint fix --select MEM9``
to the text (nothing is written), checks again and prints

* how many scripts had an error of MEM901, MEM903 or MEM905 before, and how many have one after,
* of those left, how many findings come with advice and how many with none,
* the most frequent findings that are left.

``--build`` then makes every configuration of the fixed scripts whose arguments are all literals
with the installed libraries: on the CPU (``use_cpu=True`` is added, and mixed precision that the
CPU refuses is turned off), with a temporary output folder. A TypeError is a failure.
Keywords that the installed class refuses and no finding names are listed: misspelt ones, those of
somebody's own fork, and calls that the script itself tries before another.

``--names`` asks the installed libraries whether each name reported as gone really is, and each
option reported as refused really is no parameter.

Vendored copies of the libraries and their own checkouts are left out: ``--leave-out`` adds folders.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import logging
import os
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.fix.fixpoint import fix_source
from memlint.rule.findings import Applicability, Finding
from memlint.rule.registry import known_rules, load
from memlint.run.engine import check_source
from memlint.script.calls import Config
from memlint.script.model import Script, build_script
from memlint.source import Source
from memlint.source.diagnostics import ReadError
from memlint.source.reading import encode, read_source

BREAKING = ("MEM901", "MEM903", "MEM905")
_LIBRARIES = (
    "huggingface__trl",
    "huggingface__peft",
    "huggingface__accelerate",
    "huggingface__transformers",
    "huggingface__diffusers",
    "axolotl-ai-cloud__axolotl",
    "hiyouga__LLaMA-Factory",
    "unslothai__unsloth",
    "unslothai__notebooks",
)
_VENDORED = re.compile(
    r"(^|/)(\.venv|venv|site-packages|node_modules|\.git|\.ipynb_checkpoints|"
    r"unsloth_compiled_cache|"
    r"(src/)?(trl|peft|transformers|unsloth)/(trainer|models|utils|src|tests|examples|commands)|"
    r"src/(trl|peft|transformers))(/|$)"
)
_TRAINS = re.compile(rb"Trainer|TrainingArguments|(SFT|DPO|GRPO|KTO|ORPO|Reward|PPO|RLOO)Config")


@dataclass
class Counts:
    """What migrating a folder showed."""

    scripts: int = 0
    broken: int = 0
    mended: int = 0
    errors: list[str] = field(default_factory=list)
    left: list[tuple[str, Source, Finding, str]] = field(default_factory=list)
    first: list[tuple[str, Source, Finding]] = field(default_factory=list)
    fixed: list[tuple[str, Source, Source]] = field(default_factory=list)


def trainer_scripts(folder: Path, leave_out: Sequence[str]) -> Iterator[tuple[str, Source]]:
    """Every readable script and notebook that names a trainer, by its path below ``folder``."""
    left_out = {*_LIBRARIES, *leave_out}
    for root, folders, files in os.walk(folder):
        here = Path(root).relative_to(folder)
        folders[:] = sorted(
            name
            for name in folders
            if name not in left_out and not _VENDORED.search((here / name).as_posix())
        )
        for name in sorted(files):
            path = Path(root, name)
            if path.suffix not in (".py", ".ipynb") or path.is_symlink():
                continue
            data = path.read_bytes()
            if not _TRAINS.search(data) or not (b"transformers" in data or b"trl" in data):
                continue
            with contextlib.suppress(ReadError):
                yield (here / name).as_posix(), read_source(path, data)


def uses_trainer(script: Script) -> bool:
    """True if it makes or imports a trainer or a configuration of transformers or TRL."""
    if script.configs or script.trainers:
        return True
    return any(
        name.startswith(("trl.", "transformers."))
        and name.endswith(("Trainer", "TrainingArguments", "TrainerArguments"))
        for _, _, name in script.imports
    )


def breaks(finding: Finding) -> bool:
    """True if the finding is one that stops the script, or gives it other defaults."""
    return finding.code in BREAKING and finding.level == "error"


def migrate(folder: Path, leave_out: Sequence[str], at_most: int | None = None) -> Counts:
    """Check and fix every trainer script below ``folder``; ``at_most`` so many of each checkout."""
    taken: Counter[str] = Counter()
    counts = Counts()
    rules = load([rule.code for rule in known_rules() if rule.code.startswith("MEM9")])
    api = Api(newest())
    for name, source in trainer_scripts(folder, leave_out):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                script = build_script(source, api)
        except (SyntaxError, RecursionError):
            continue
        if not uses_trainer(script):
            continue
        checkout = name.partition("/")[0]
        taken[checkout] += 1
        if at_most is not None and taken[checkout] > at_most:
            continue
        counts.scripts += 1

        def reread(text: str, source: Source = source) -> Source:
            return read_source(source.path, encode(source, text))

        try:
            fixed = fix_source(
                source,
                unsafe=False,
                check=lambda one: check_source(one, rules, api),
                reread=reread,
            )
            before = [one for one in check_source(source, rules, api) if breaks(one)]
        except Exception as error:
            counts.errors.append(f"{name}: {error!r}")
            continue
        if fixed.error:
            counts.errors.append(f"{name}: {fixed.error}")
        after = [one for one in fixed.left if breaks(one)]
        reasons = {(one.span, one.code): reason for one, reason in fixed.refused}
        counts.broken += bool(before)
        counts.mended += bool(before) and not after
        counts.first += [(name, source, one) for one in before]
        counts.left += [
            (name, fixed.source, one, reasons.get((one.span, one.code), "")) for one in after
        ]
        counts.fixed.append((name, source, fixed.source))
    return counts


def kind_of(finding: Finding, reason: str = "") -> str:
    """A finding without what belongs to one script, so that like ones can be counted."""
    fix = finding.fix
    how = "nothing" if fix is None else fix.applicability.value
    advice = fix.message if fix is not None else ""
    return f"{finding.code} [{reason or how}] {finding.message} -> {advice}"


def show(counts: Counts, most: int) -> None:
    """The counts, and the most frequent findings that are left."""
    share = counts.broken / max(1, counts.scripts)
    mended = counts.mended / max(1, counts.broken)
    click.echo(f"trainer scripts: {counts.scripts}")
    click.echo(f"with an error before: {counts.broken} ({share:.1%})")
    still = counts.broken - counts.mended
    click.echo(
        f"with an error after the safe fixes: {still} ({still / max(1, counts.scripts):.1%})"
    )
    click.echo(f"mended: {counts.mended} of {counts.broken} ({mended:.1%})")
    without = [one for _, _, one, _ in counts.left if one.fix is None or not one.fix.message]
    lost = {name for name, _, one, _ in counts.left if one.fix is None or not one.fix.message}
    refused = [one for _, _, one, reason in counts.left if reason]
    unsafe = [
        one
        for _, _, one, _ in counts.left
        if one.fix is not None and one.fix.applicability is Applicability.UNSAFE
    ]
    click.echo(
        f"findings left: {len(counts.left)}; for --unsafe-fixes: {len(unsafe)}, "
        f"fix refused: {len(refused)}, without advice: {len(without)} in {len(lost)} scripts"
    )
    files: dict[str, set[str]] = {}
    times: Counter[str] = Counter()
    for name, _, one, reason in counts.left:
        files.setdefault(kind_of(one, reason), set()).add(name)
        times[kind_of(one, reason)] += 1
    for kind in sorted(files, key=lambda each: -len(files[each]))[:most]:
        click.echo(f"  {len(files[kind])} files, {times[kind]} times: {kind[:240]}")


# -- the installed libraries -----------------------------------------------------------------------


def installed(qualname: str) -> object | None:
    """What the installed libraries have under a qualified name; None where nothing."""
    parts = qualname.split(".")
    for count in range(len(parts), 0, -1):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found: object = importlib.import_module(".".join(parts[:count]))
                for part in parts[count:]:
                    found = getattr(found, part)
        except (ImportError, AttributeError, RuntimeError):
            continue
        return found
    return None


def parameters(callee: object) -> set[str] | None:
    """The names that a class or function takes; None where it takes any."""
    signature = inspect.signature(callee)  # type: ignore[arg-type]
    if any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values()):
        return None
    return set(signature.parameters)


def refused_keywords(script: Script) -> Iterator[str]:
    """Keywords of configurations and trainers that the installed classes do not take."""
    for call in (*script.configs, *script.trainers):
        if call.subclass is not None or (isinstance(call, Config) and call.from_command_line):
            continue
        callee = installed(call.name)
        taken = parameters(callee) if callee is not None else None
        if taken is not None:
            for keyword in call.node.keywords:
                if keyword.arg is not None and keyword.arg not in taken:
                    yield f"{call.name} line {call.node.lineno}: {keyword.arg}"


def literal_arguments(call: ast.Call) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments of a call that are all literals; None for any other call."""
    try:
        positional = [ast.literal_eval(one) for one in call.args]
        named = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
    except (ValueError, TypeError, SyntaxError):
        return None
    return None if None in named else (positional, {str(k): v for k, v in named.items()})


def build(callee: Any, positional: list[Any], named: dict[str, Any]) -> Exception | None:
    """Make a configuration on the CPU; the exception that it raises, if it does."""
    with tempfile.TemporaryDirectory() as scratch:
        taken = parameters(callee) or set()
        if positional:
            positional = [scratch, *positional[1:]]
        elif "output_dir" in taken:
            named = {**named, "output_dir": scratch}
        if "use_cpu" in taken:
            named["use_cpu"] = True
        # A GPU's number formats, and loggers that are not installed here.
        here = {"fp16": False, "tf32": None, "report_to": "none", "deepspeed": None, "fsdp": None}
        named |= {name: value for name, value in here.items() if name in named}
        try:
            callee(*positional, **named)
        except Exception as error:
            return error
    return None


def build_all(counts: Counts) -> list[str]:
    """Make every configuration of the fixed scripts that literals describe; the TypeErrors."""
    api = Api(newest())
    made = calls = advised = 0
    failures: list[str] = []
    unknown: list[str] = []
    mistyped = 0
    others: Counter[str] = Counter()
    for name, _, source in counts.fixed:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            script = build_script(source, api)
        left = [one.span for path, _, one, _ in counts.left if path == name]
        calls += len(script.configs)
        if script.uses_unsloth:
            # Its shim takes what TRL does not.
            continue
        if not left:
            unknown += [f"{name}: {one}" for one in refused_keywords(script)]
        for config in script.configs:
            arguments = literal_arguments(config.node)
            callee = installed(config.kind)
            if arguments is None or config.subclass is not None or callee is None:
                continue
            if config.from_command_line:
                continue
            if any(config.span.contains(span) for span in left):
                advised += 1
                continue
            made += 1
            with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                error = build(callee, *arguments)
            if isinstance(error, TypeError):
                mistyped += 1
                failures.append(f"{name}:{config.node.lineno}: {error}")
            elif error is not None:
                others[f"{type(error).__name__}: {str(error)[:120]}"] += 1
    click.echo(f"configurations in the fixed scripts: {calls}, of literals alone: {made}")
    click.echo(f"  left out, since advice for them is left: {advised}")
    click.echo(f"built: {made - sum(others.values()) - mistyped}, TypeError: {mistyped}")
    for what, count in others.most_common(20):
        click.echo(f"  {count} times, not of type: {what}")
    click.echo(f"keywords that no finding names and the installed class refuses: {len(unknown)}")
    for one in unknown:
        click.echo(f"  {one}")
    return failures


_NO_NAME = re.compile(r"has no `([\w.]+)`")
_NO_OPTION = re.compile(r"^`(\w+)` of (\w+) \S+ does not take `(\w+)`")


def verify_names(counts: Counts) -> list[str]:
    """Ask the installed libraries for what findings say is gone."""
    gone: set[str] = set()
    options: set[tuple[str, str, str]] = set()
    for _, _, one in counts.first:
        name = _NO_NAME.search(one.message)
        if name is not None and "." in name[1]:
            gone.add(name[1])
        option = _NO_OPTION.match(one.message)
        if option is not None:
            options.add((option[2], option[1], option[3]))
    wrong = [f"{name} is importable" for name in sorted(gone) if installed(name) is not None]
    asked = 0
    for package, owner, option_name in sorted(options):
        callee = installed(f"{package}.{owner}")
        taken = parameters(callee) if callee is not None else None
        if taken is None:
            continue
        asked += 1
        if option_name in taken:
            wrong.append(f"{owner} takes {option_name}")
    click.echo(f"names reported as gone: {len(gone)}; options reported as refused: {len(options)}")
    click.echo(f"  asked of a signature: {asked}; wrong: {len(wrong)}")
    return wrong


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--most", default=40, help="How many kinds of findings to print.")
@click.option("--at-most", type=int, help="Take only so many scripts of each checkout.")
@click.option("--leave-out", multiple=True, help="A folder's name that is not looked into.")
@click.option("--build", "builds", is_flag=True, help="Make the configurations for real.")
@click.option("--names", is_flag=True, help="Ask the installed libraries for what is gone.")
@click.option("--into", type=click.Path(path_type=Path), help="Write the fixed scripts there.")
@click.option("--listing", type=click.Path(path_type=Path), help="Write every finding left there.")
def main(
    folder: Path,
    most: int,
    at_most: int | None,
    leave_out: tuple[str, ...],
    builds: bool,
    names: bool,
    into: Path | None,
    listing: Path | None,
) -> None:
    """Migrate the trainer scripts of FOLDER in memory and print what was seen."""
    logging.disable(logging.WARNING)
    counts = migrate(folder, leave_out, at_most)
    show(counts, most)
    if into is not None:
        for name, source, fixed in counts.fixed:
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            (into / name).write_bytes(encode(source, fixed.text))
    if listing is not None:
        listing.write_text(
            "".join(
                f"{name}:{source.line(one.span.start) + 1}: {kind_of(one, reason)}\n"
                for name, source, one, reason in counts.left
            )
        )
    failures = list(counts.errors)
    if names:
        failures += verify_names(counts)
    if builds:
        failures += build_all(counts)
    for failure in failures:
        click.echo(f"FAILED {failure}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
