"""Scripts for a newer Python than the one that runs memlint are checked and fixed all the same."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from memlint.cli.main import run
from memlint.source.newer_syntax import as_older
from memlint.source.parsing import parse_python

ROOT = Path(__file__).parents[2]
OLD = sys.version_info < (3, 12)

# Newer text, and what it is read as.
READ_AS = [
    ('x = f"{a["b"]}"', "x = f\"{a['b']}\""),
    ("x = f'{a['b']['c']:.3f}' f'{e}'", "x = f'{a[\"b\"][\"c\"]:.3f}' f'{e}'"),
    ('x = f"{"\\n".join(y)} {z!r:>{w["u"]}}"', "x = f\"{'  '.join(y)} {z!r:>{w['u']}}\""),
    ('x = f"{f"{a}"}"', "x = f\"{f'{a}'}\""),
    ('x = f"{f"{a["b"]}"}"', "x = f\"{f'{a[_  ]}'}\""),
    ('x = f"{d["it\'s"]}"', 'x = f"{d[_     ]}"'),
    ('x = f"a\\"b{{}}\\{c["d"]} {q != "r"}"', "x = f\"a\\\"b{{}}\\{c['d']} {q != 'r'}\""),
    ("x = f'''{d['''k''']}'''", "x = f'''{d[\"\"\"k\"\"\"]}'''"),
    ("x = rf'\\d{a['b']}'  # f'{", "x = rf'\\d{a[\"b\"]}'  # f'{"),
    ("def f[T: (int, list[str])](x: T): ...", "def f                     (x: T): ..."),
    ("class A[*Ts, **P](B): ...", "class A          (B): ..."),
    ("async def f[T](): ...", "async def f   (): ..."),
    ("type Words = list[str]", "type=Words = list[str]"),
    ("type Words[T] = list[T]", "type=Words    = list[T]"),
]


@pytest.mark.filterwarnings("ignore:invalid escape")
@pytest.mark.parametrize(("newer", "older"), READ_AS)
def test_newer_text_is_read_as_older_text(newer: str, older: str) -> None:
    before, after = "s = '''\ntype X = f\"{\n'''\n", f"\nprint('ä', {'x'!r})\n"
    assert as_older(before + newer + after) == before + older + after
    if OLD:
        read = parse_python(before + newer + after)
        assert ast.dump(read, include_attributes=True) == ast.dump(
            ast.parse(before + older + after), include_attributes=True
        )


@pytest.mark.parametrize(
    "text",
    [
        'x = f"{a["ä"]["it\'s"]}"\ny = f"{b["c"]}"\nz = f"{',
        'x = f"{d["ä\'"]}"',
        'x = f"{',
        'x = f"{a',
        "x = '",
        "def f[",
        'x = f"{a #}"',
        'x = f"{\\\n a}"',
        "x = f\"{f'{f\"{f'{a}'}\"}'}\"",
        "def f" + "[" * 5000 + "]" * 5000 + "(): ...",
        'f"{' * 5000,
    ],
)
def test_what_cannot_be_written_in_older_syntax_stays_as_it_is(text: str) -> None:
    assert as_older(text) == text


@pytest.mark.skipif(not OLD, reason="this interpreter knows the syntax")
def test_code_with_its_quotes_made_alike_is_read_as_it_was() -> None:
    changed = 0
    for path in (ROOT / "memlint").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        newer = re.sub(r'(?<![\w"])f"[^"\\\n]*"(?!")', _alike, text)
        if newer != text:
            changed += 1
            assert ast.dump(parse_python(newer)) == ast.dump(parse_python(text)), path
    assert changed > 20


def _alike(found: re.Match[str]) -> str:
    """An f-string whose fields hold double quotes, as Python 3.12 lets them."""
    fields = re.sub(r"\{[^{}\"]*\}", lambda field: field[0].replace("'", '"'), found[0])
    return fields if "{{" not in found[0] else found[0]


NEWER = """\
from transformers import TrainingArguments

type Words = list[str]


def first[T](words: list[T]) -> T:
    print(f"{" ".join(str(word) for word in words)} {args["seed"]}")
    return words[0]


args = {"seed": 1}
print(f"{args["seed"]}", TrainingArguments("out", evaluation_strategy="steps", seed=args["seed"]))
"""


def test_scripts_in_newer_syntax_are_checked_and_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(NEWER)
    options = ("--select", "MEM0,MEM901", "--target", "newest", "train.py")
    assert run(["check", "--output-format", "concise", *options]) == 1
    assert "train.py:12:51: MEM901 [*]" in capsys.readouterr().out.split("\n")[0]
    assert run(["fix", *options]) == 0
    expected = NEWER.replace("evaluation_strategy", "eval_strategy")
    assert Path("train.py").read_text() == expected


def test_another_file_in_newer_syntax_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("settings.py").write_text(
        'names = {"run": "a"}\nOUT = f"runs/{names["run"]}"\nARGS = {"evaluation_strategy": "no"}\n'
    )
    Path("train.py").write_text(
        "from transformers import TrainingArguments\nfrom settings import ARGS, OUT\n"
        "TrainingArguments(OUT, **ARGS)\n"
    )
    run(["check", "--select", "MEM901", "--target", "newest", "--output-format", "concise"])
    assert "evaluation_strategy" in capsys.readouterr().out
