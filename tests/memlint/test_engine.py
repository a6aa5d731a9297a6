"""One source against rules: who is asked, what order, and what happens when things fail."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from memlint.rule import Rule
from memlint.rule.findings import Finding, Level
from memlint.run.checked import Asking, check_data, guarded
from memlint.run.engine import Asked, Prefilter, check_source
from memlint.run.rendering import first_sentence
from memlint.run.results import FileResult
from memlint.script.model import Script
from memlint.source.reading import read_source
from tests.memlint.fakes import ALPHA, BETA, GAMMA, RULES, TABLES, install


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


def check(data: bytes, path: str = "a.py", **options: Any) -> FileResult:
    show_fixes = bool(options.pop("show_fixes", False))
    how = {name: options.pop(name) for name in ("unused_suppressions",) if name in options}
    return check_data(path, data, asking(**how), **options).result(RULES, show_fixes=show_fixes)


def asking(rules: Sequence[Rule] = RULES, **how: Any) -> Asking:
    return lambda source, on_error: Asked(rules, TABLES, on_error=on_error, **how)


def test_only_rules_with_a_trigger_are_asked() -> None:
    rules = Prefilter(RULES)
    assert list(rules.asked(b"beta and gamma")) == [BETA, GAMMA]
    assert list(rules.asked(b"x = delta")) == []
    assert not any(Prefilter([]).asked(b"anything"))


def test_a_word_of_each_set_is_needed() -> None:
    both = ALPHA._replace(triggers=(frozenset({"alpha", "alphabet"}), frozenset({"psi", "chi"})))
    rules = Prefilter([both, BETA])
    assert list(rules.asked(b"alphabet chi")) == [both]
    assert list(rules.asked(b"alpha psi beta")) == [both, BETA]
    assert list(rules.asked(b"alphabet beta")) == [BETA]
    assert list(rules.asked(b"chi psi")) == []


def test_no_model_is_built_if_no_rule_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlint.script.model.build_script", lambda *_, **__: 1 / 0)
    source = read_source("a.py", b"def broken(:\n")
    assert check_source(source, RULES, TABLES) == []


def test_no_model_is_built_for_words_in_prose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlint.script.model.build_script", lambda *_, **__: 1 / 0)
    prose = b'"""As alpha does."""\n# beta\nclass A:\n    "gamma"\n    def f(self): "alpha"; pass\n'
    assert check_source(read_source("a.py", prose), RULES, TABLES) == []


@pytest.mark.parametrize(
    "code",
    [b'"beta"; alpha', b"def f():\n  'beta'; return alpha", b"if x:\n  'a'\nelse: alpha  # b"],
)
def test_code_beside_prose_is_checked(code: bytes) -> None:
    found = check_source(read_source("a.py", code), RULES, TABLES)
    assert [each.code for each in found] == ["MEM301"]


def test_findings_come_in_order_of_place_with_rule_and_level() -> None:
    found = check_source(read_source("a.py", b"gamma\nbeta + alpha\n"), RULES, TABLES)
    assert [(each.code, each.level, each.span.start) for each in found] == [
        ("MEM401", Level.HINT, 0),
        ("MEM302", Level.ERROR, 6),
        ("MEM301", Level.WASTE, 13),
    ]
    assert found[2].name == "alpha-used"


def test_what_is_said_twice_of_one_place_is_said_once() -> None:
    def twice(script: Any) -> Iterator[Any]:
        for finding in ALPHA.check(script):
            yield finding._replace(fix=None)
            yield finding
            yield finding._replace(message="another reason")

    rule = ALPHA._replace(check=twice)
    found = check_source(read_source("a.py", b"alpha\n"), [rule], TABLES)
    assert [each.message for each in found] == ["alpha is wasteful", "another reason"]
    assert all(each.fix is not None for each in found)


def test_places_are_characters_and_cells() -> None:
    result = check("x = 'ä'; alpha\n".encode())
    (shown,) = result.findings
    assert (shown.start, shown.end) == ((1, 10, None), (1, 15, None))
    assert shown.line == "x = 'ä'; alpha"


def test_a_failing_rule_is_one_diagnostic_and_others_speak() -> None:
    def fail(script: Any) -> Iterator[Any]:
        raise KeyError("oops")
        yield

    broken = ALPHA._replace(check=fail)
    source = read_source("a.py", b"alpha beta".replace(b" ", b"\n"))
    with pytest.raises(KeyError):
        check_source(source, (broken, BETA), TABLES)
    rules = (broken, BETA)
    result = check_data("a.py", source.raw, asking(rules)).result(rules)
    assert [each.code for each in result.findings] == ["MEM302"]
    (diagnostic,) = result.diagnostics
    assert "rule MEM301 failed (KeyError: 'oops' at test_engine.py:" in diagnostic.message


def test_a_failing_model_is_one_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlint.script.model.build_script", lambda *_, **__: 1 / 0)
    (diagnostic,) = check(b"alpha\n").diagnostics
    assert "the script model failed (ZeroDivisionError" in diagnostic.message


def test_too_deep_is_one_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    def deep(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr("memlint.script.model.build_script", deep)
    result = guarded(
        lambda: check(b"alpha\n"), lambda error: FileResult("a.py", diagnostics=(error,)), "a.py"
    )
    (diagnostic,) = result.diagnostics
    assert "nested too deeply" in diagnostic.message


@pytest.mark.parametrize(
    ("data", "message", "row"),
    [
        (b"x = 1\nalpha = (\n", "does not parse: '(' was never closed", 2),
        (b"alpha\nprint 'python 2'\n", "does not parse: Missing parentheses", 2),
        (b"alpha\nif x:\n\ty\n        z\n", "does not parse", 4),
        (b"f(alpha=1, 2)\n", "does not parse: positional argument follows keyword", 1),
        (b"alpha = 1 = 2\n", "does not parse: cannot assign to literal", 1),
        (b"x: int = yield = alpha\n", "does not parse", 1),
    ],
)
def test_broken_syntax(data: bytes, message: str, row: int) -> None:
    result = check(data)
    assert result.diagnostics == ()
    (finding,) = result.findings
    assert (finding.code, finding.name, finding.level) == ("MEM002", "broken-file", "error")
    assert message in finding.message
    assert (finding.start.row, finding.start.cell) == (row, None)
    assert finding.line == data.decode().split("\n")[row - 1]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this interpreter knows the syntax")
@pytest.mark.parametrize("data", [b'alpha = f"{a  # alpha\n}"\n', b'alpha = f"{"a" "it\'s"}"\n'])
def test_newer_syntax_is_called_newer(data: bytes) -> None:
    (finding,) = check(data).findings
    version = ".".join(str(part) for part in sys.version_info[:3])
    assert f"uses syntax newer than Python {version}" in finding.message


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this interpreter knows the syntax")
@pytest.mark.parametrize(
    ("clause", "word"),
    [
        ("except ValueError, e:", "does not parse"),
        ("except (ValueError, KeyError), error :", "does not parse"),
        ("except socket.error, e:", "does not parse"),
        ("except ValueError, KeyError:", "syntax newer"),
        ("except ValueError, errors.Other:", "syntax newer"),
        ("except (ValueError), KeyError:", "syntax newer"),
    ],
)
def test_python_2_is_not_called_newer(clause: str, word: str) -> None:
    text = f"try:\n    alpha\n{clause}\n    pass\n"
    (finding,) = check(text.encode()).findings
    assert word in finding.message
    assert finding.start.row == 3


def test_a_named_file_is_parsed_even_if_no_rule_is_asked() -> None:
    broken = b"def f(:\n"
    assert check(broken).findings == ()
    assert [each.code for each in check(broken, named=True).findings] == ["MEM002"]


def test_warnings_of_the_users_code_stay_silent() -> None:
    assert check(b"alpha = '\\d'\nif 1 is 1: pass\n", named=True).diagnostics == ()
    with pytest.warns(DeprecationWarning, match="invalid escape"):  # the interpreter does warn
        ast.parse("'\\d'")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("One. Two.", "One."),
        ("It costs 2.5 GiB, e.g. for\n    7B. More.", "It costs 2.5 GiB, e.g. for 7B."),
        ("No end", "No end"),
        ("Is it `x`? `Yes`.", "Is it `x`?"),
    ],
)
def test_first_sentence(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence


def test_findings_carry_their_rules_reason_and_link() -> None:
    alpha, unused = check(b"alpha\nx  # memlint: ignore\n").findings
    assert alpha.why == "Each alpha costs 2 GiB."
    assert alpha.url == "https://example.org/alpha"
    assert unused.why.startswith("A suppression that suppresses nothing")


def test_result_survives_json() -> None:
    result = check("alpha\nbeta  # ä\ngamma\n".encode())
    assert result.findings
    assert FileResult.from_json("a.py", result.to_json()) == result
    broken = check(b"alpha = (\n")
    assert FileResult.from_json("a.py", broken.to_json()) == broken


def test_suppressed_findings_are_left_out(tmp_path: Path) -> None:
    text = b"alpha  # memlint: ignore[MEM301]\nbeta  # memlint: ignore[MEM301]\n"
    assert [each.code for each in check(text).findings] == ["MEM302", "MEM001"]
    assert [each.code for each in check(text, unused_suppressions=False).findings] == ["MEM302"]


def test_findings_that_cannot_be_shown_are_one_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlint.run.checked.render_findings", lambda *_, **__: 1 / 0)
    result = check(b"alpha\n")
    assert result.findings == ()
    (diagnostic,) = result.diagnostics
    assert "showing what was found failed (ZeroDivisionError" in diagnostic.message


def test_a_finding_on_request_is_told_where_its_rule_is_selected_by_code() -> None:
    def leftovers(script: Script) -> Iterator[Finding]:
        for finding in ALPHA.check(script):
            yield finding._replace(on_request=True)

    def found(by_code: frozenset[str] | None) -> list[str]:
        rules = [ALPHA._replace(check=leftovers)]
        checked = check_data("a.py", b"alpha\n", asking(rules, by_code=by_code))
        return [each.code for each in checked.findings]

    assert found(frozenset()) == []
    assert found(frozenset({ALPHA.code})) == [ALPHA.code]


def test_a_rule_on_request_is_asked_where_it_is_selected_by_code() -> None:
    rules = [ALPHA._replace(on_request=True)]

    def found(by_code: frozenset[str] | None) -> list[str]:
        checked = check_data("a.py", b"alpha\n", asking(rules, by_code=by_code))
        result = checked.result(rules)
        return [each.code for each in result.findings]

    assert found(frozenset()) == []
    assert found(frozenset({"MEM301"})) == ["MEM301"]
    assert found(None) == ["MEM301"]
