"""The comparison with other tools: the same scripts by a seed, a row a finding, its verdicts."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from tools.peers import COLUMNS, Row, chosen, rows_of, score, write

TRAINING = "import torch\nfor rows in loader:\n    model(rows).loss.backward()\n"


def projects(folder: Path) -> None:
    for name in "abcd":
        (folder / name / "tests").mkdir(parents=True)
        for path in ("first.py", "second.py", "tests/test_it.py"):
            (folder / name / path).write_text(TRAINING)
        (folder / name / "plain.py").write_text("import torch\n")


def program(folder: Path, name: str, said: str, status: int = 1) -> str:
    """Write a program that says something of any script."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\nprint({said!r})\nraise SystemExit({status})\n")
    path.chmod(0o755)
    return str(path)


def test_scripts_that_train_are_chosen_by_the_seed_one_a_project(tmp_path: Path) -> None:
    projects(tmp_path)
    found = chosen(tmp_path, 3, seed=5)
    assert found == chosen(tmp_path, 3, seed=5)
    assert len({path.parts[len(tmp_path.parts)] for path in found}) == 3
    assert {path.name for path in found} <= {"first.py", "second.py"}
    assert any(chosen(tmp_path, 3, seed) != found for seed in range(9))


def test_findings_become_rows_and_failures_are_told(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    said = '{"findings": [{"line_number": 3, "rule_id": "X1", "severity": "info", ' + (
        '"title": "slow", "suggested_value": "fast"}]}'
    )
    assert rows_of("alloc", program(tmp_path, "one", said), script) == [
        Row(3, "X1", "(info) slow: fast")
    ]
    line = "train.py:2:1: TOR001 [*] gone: use another"
    assert rows_of("torchfix", program(tmp_path, "two", line), script) == [
        Row(2, "TOR001", "gone: use another")
    ]
    (failed,) = rows_of("ruff", program(tmp_path, "three", "it broke"), script)
    assert failed.code == "failed"


def test_a_sheet_is_written_and_its_verdicts_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    projects(tmp_path / "code")
    said = '[{"location": {"row": 3}, "code": "E1", "message": "a\\tb"}]'
    sheet = tmp_path / "sheet.tsv"
    write(tmp_path / "code", sheet, 2, 1, {"ruff": program(tmp_path, "ruff", said)})
    with sheet.open(newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    assert [row["message"] for row in rows] == ["a b", "a b"]
    assert rows[0]["source"] == "model(rows).loss.backward()"
    rows[0]["verdict"] = "w"
    with sheet.open("w", newline="") as stream:
        table = csv.DictWriter(stream, COLUMNS, delimiter="\t")
        table.writeheader()
        table.writerows(rows)
    capsys.readouterr()
    score(sheet)
    assert "| ruff | 0 | 1 | 0 | 1 |" in capsys.readouterr().out
