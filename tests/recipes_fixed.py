"""What the fixes make of real recipes: ``python -m tests.recipes_fixed FOLDER ...``.

Every folder is copied. Each recipe and launch command in the copy is fixed with all rules, unsafe
fixes and hints included (``--safe``: as plain ``memlint fix`` does), and written. Then:

- a second run changes nothing;
- all comments are there, in their order;
- only keys that the fixes name have changed.

A line for each file where one of these does not hold, then counts by program and by rule. With
``--list N`` it prints N findings, spread over all, to be read by eye; with ``--readers`` each
recipe that changed, with what reads it and how that is known.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memlint.recipes.document import DocumentError, read_document, values
from memlint.recipes.files import is_document, is_recipe_file, may_hold_recipe
from memlint.recipes.kinds import Reader
from memlint.recipes.launch import kind_of, read_commands
from memlint.rule.registry import known_rules, selected
from memlint.run.jobs import Job
from memlint.run.results import FixResult, Rendered
from memlint.run.runs import Runs
from memlint.run.session import Session
from memlint.source import Source

_LARGEST = 256 << 10
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_CODES = frozenset(rule.code for rule in known_rules())


def recipe_files(folder: Path) -> Iterator[Path]:
    """The files that may hold a recipe or launch commands."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or ".git" in path.parts:
            continue
        if not is_recipe_file(path.name) or path.stat().st_size > _LARGEST:
            continue
        if may_hold_recipe(path.name, path.read_bytes()):
            yield path


def fixed(session: Session, path: Path, *, safe: bool) -> FixResult:
    """One file, fixed by all rules and written."""
    job = Job(str(path), _CODES, "", unsafe_fixes=True, by_code=_CODES)
    if safe:
        job = Job(str(path), selected(None), "")
    result = session.fix(job, path.read_bytes())
    if result.after is not None:
        path.write_bytes(result.after)
    return result


def settings(path: Path, text: str) -> dict[str, Any]:
    """Every setting of a recipe or of the commands of a file, by its path."""
    if is_document(path.name):
        try:
            return dict(_flat("", values(read_document(Source(path.name, text)).root)))
        except (DocumentError, ValueError):
            return {}
    commands = read_commands(text, kind_of(path.name) or "shell")
    return {
        f"{number}.{flag.name}": flag.value
        for number, command in enumerate(commands)
        for flag in (*command.launcher, *command.settings)
    }


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        yield prefix, value
        return
    for key, inner in value.items():
        yield from _flat(f"{prefix}.{key}", inner)


def unnamed(path: Path, before: str, after: str, findings: tuple[Rendered, ...]) -> list[str]:
    """The settings that changed and that no fix names."""
    said = " ".join(f"{one.message} {one.fix.message if one.fix else ''}" for one in findings)
    words = set(re.findall(r"\w+", said))
    old, new = settings(path, before), settings(path, after)
    changed = [key for key in {**old, **new} if old.get(key, "none") != new.get(key, "none")]
    return [
        key
        for key in changed
        if not words & {*re.findall(r"\w+", key)[-2:], *re.findall(r"\w+", str(new.get(key)))}
    ]


def faults(path: Path, before: str, result: FixResult) -> Iterator[str]:
    """What is wrong with a fixed file."""
    for _, reason in result.refused:
        if "report this" in reason:
            yield reason
    for diagnostic in result.diagnostics:
        if "please report" in diagnostic.message:
            yield diagnostic.message
    if result.after is None:
        return
    after = result.after.decode("utf-8")
    if _COMMENT.findall(before) != _COMMENT.findall(after):
        yield "comments changed"
    for key in unnamed(path, before, after, result.fixed):
        yield f"changed `{key}`, which no fix names"


def reader_of(path: Path, text: str, runs: Runs) -> Reader | None:
    """What reads a recipe; None for what is none."""
    try:
        root = read_document(Source(path.name, text)).root
    except DocumentError:
        return None
    return runs.at(str(path)).reader_of(root)


def program(path: Path, reader: Reader | None) -> str:
    """The program that reads a file, in words."""
    if not is_document(path.name):
        return f"commands in a {kind_of(path.name)}"
    return reader.kind.value if reader is not None and reader.kind is not None else "no recipe"


def main(folders: list[str], listed: int, *, safe: bool, readers: bool) -> int:
    kinds: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    made: Counter[str] = Counter()
    wrong = 0
    found: list[Rendered] = []
    with tempfile.TemporaryDirectory() as place:
        for number, folder in enumerate(folders):
            copy = Path(place) / str(number) / Path(folder).name
            shutil.copytree(
                folder, copy, symlinks=True, ignore=shutil.ignore_patterns(".git", "*.bin")
            )
            (copy / ".git").mkdir(exist_ok=True)
            session, runs = Session(), Runs()
            paths = list(recipe_files(copy))
            for path in paths:
                before = path.read_bytes().decode("utf-8", "surrogateescape")
                reader = reader_of(path, before, runs) if is_document(path.name) else None
                result = fixed(session, path, safe=safe)
                kind = program(path, reader)
                if readers and result.after is not None and is_document(path.name):
                    known = reader.evidence if reader is not None else "nobody knows"
                    sys.stdout.write(f"{path.relative_to(place)}: {kind}: {known}\n")
                kinds[kind] += 1
                changed[kind] += result.after is not None
                made.update(one.code for one in result.fixed)
                found += result.checked.findings
                for fault in faults(path, before, result):
                    wrong += 1
                    sys.stdout.write(f"{path.relative_to(copy)}: {fault}\n")
            again = Session()
            for path in paths:
                if fixed(again, path, safe=safe).after is not None:
                    wrong += 1
                    sys.stdout.write(f"{path.relative_to(copy)}: a second run changes it\n")
        shown = found[:: max(1, len(found) // listed)][:listed] if listed else []
        for one in shown:
            name = str(Path(one.path).relative_to(place))
            sys.stdout.write(f"{name}:{one.start.row} {one.code} {one.message}\n    {one.line}\n")
            if one.fix is not None:
                sys.stdout.write(f"    {one.fix.applicability}: {one.fix.message}\n")
    for kind, count in kinds.most_common():
        sys.stdout.write(f"{count:5} {kind}, {changed[kind]} changed\n")
    totals = Counter(one.code for one in found)
    for code, count in sorted(totals.items()):
        sys.stdout.write(f"{code}: {count} found, {made[code]} fixed\n")
    sys.stdout.write(f"{sum(kinds.values())} files, {sum(changed.values())} changed, ")
    sys.stdout.write(f"{sum(made.values())} fixes, {wrong} wrong\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word not in ("--safe", "--readers")]
    switches = {word[2:]: word in sys.argv for word in ("--safe", "--readers")}
    count = int(words[words.index("--list") + 1]) if "--list" in words else 0
    sys.exit(
        main(words[: words.index("--list")] if "--list" in words else words, count, **switches)
    )
