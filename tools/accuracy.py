"""Writes ``docs/accuracy.md``: ``python -m tools.accuracy FILE.jsonl``.

FILE has published measurements of real GPUs, one a line, as ``tests.memory_rows`` reads them. The
page says how far the memory model is from each of them, by source, with every row.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.memory_rows import Compared, compare

PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"
_INTRODUCTION = """\
# Accuracy

Each row is a run that somebody else made on real GPUs and published. Its settings are written by
hand from what the source says; the [memory model](memory-model.md) computes the peak of the same
kind (allocated, reserved, nvidia-smi); no constant is fitted to a source. *Complete*: everything
that decides is said. *Quality A*: the code that measured was read. *Cap*: only the longest possible
row is known, so that the model, which takes it, should never be low. *Inside*: the measurement lies
in the interval that `memlint estimate` prints. `python -m tools.accuracy FILE.jsonl` made this
page.

Beside them stand 87 runs of our own on an H200 with torch 2.11 and transformers 5.17: full
fine-tunes and LoRA of 20 architectures, three or four layers deep, which the model had not seen.
Allocated: 0.05 % off in the median, 0.7 % at the 90th percentile, 6.8 % at worst, all inside.
Reserved: 1.1 %, 6.8 %, 25 %; 86 inside.
"""
_HEAD = ("rows", "median error", "90th percentile", "median, signed", "low by over 3 %", "inside")


def page(rows: list[dict[str, object]]) -> Iterator[str]:
    """Yield the lines of the page."""
    done, left = compare(rows)
    groups: dict[str, list[Compared]] = {}
    for each in done:
        groups.setdefault(_group(each), []).append(each)
    yield _INTRODUCTION
    yield f"{len(done)} of {len(rows)} rows can be said in settings. Not said:\n"
    yield from (f"- {len(ids)}: {reason}" for reason, ids in sorted(left.items()))
    for title in sorted(groups):
        members = groups[title]
        sources = _by(members, _source)
        means = [statistics.median(abs(one.error) for one in of) for of in sources.values()]
        yield f"\n## {title}\n"
        yield f"Mean of the medians of {len(sources)} sources: {statistics.mean(means):.1%}.\n"
        yield from _table("of", {"all": members, **_by(members, _kind), **sources})
    yield "\n## Rows\n"
    yield "GiB, measured and predicted.\n"
    yield _line("run", "model", "kind", "measured", "predicted", "error")
    yield _line(*["---"] * 3, *["---:"] * 3)
    for each in sorted(done, key=lambda one: (_group(one), str(one.row["id"]))):
        numbers = f"{each.measured:.2f}", f"{each.predicted:.2f}", f"{each.error:+.1%}"
        yield _line(str(each.row["id"]), str(each.row["model"])[:60], _kind(each), *numbers)


def _group(row: Compared) -> str:
    if row.capped:
        return "Length known as a cap"
    return f"Complete, quality {'A' if row.row['quality'] == 'A' else 'B'}"


def _kind(row: Compared) -> str:
    return str(row.row["metric_class"])


def _source(row: Compared) -> str:
    return str(row.row["source"]).split(" ")[0]


def _by(rows: list[Compared], key: Callable[[Compared], str]) -> dict[str, list[Compared]]:
    groups: dict[str, list[Compared]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def _table(title: str, groups: dict[str, list[Compared]]) -> Iterator[str]:
    yield _line(title, *_HEAD)
    yield _line("---", *["---:"] * len(_HEAD))
    for name, rows in groups.items():
        errors = sorted(abs(row.error) for row in rows)
        p90 = errors[min(int(len(errors) * 0.9), len(errors) - 1)]
        low = sum(row.error < -0.03 for row in rows)
        inside = sum(row.interval[0] <= row.measured <= row.interval[1] for row in rows)
        signed = statistics.median(row.error for row in rows)
        shares = f"{statistics.median(errors):.1%}", f"{p90:.1%}", f"{signed:+.1%}"
        yield _line(name, str(len(rows)), *shares, str(low), f"{inside / len(rows):.0%}")


def _line(*cells: str) -> str:
    """A row of a table; what a source says must not end a cell."""
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def main(arguments: list[str]) -> int:
    """Write the page from the rows of a file."""
    if len(arguments) != 1:
        sys.stderr.write("python -m tools.accuracy takes one file of measurements (JSON lines)\n")
        return 2
    lines = Path(arguments[0]).read_text("utf-8").splitlines()
    text = "\n".join(page([json.loads(line) for line in lines if line])) + "\n"
    PAGE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{PAGE}: {len(lines)} measurements\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
