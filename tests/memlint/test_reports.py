"""Every output format says where, what and how to mend it, in the shape its readers expect."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from memlint.cli import options
from memlint.reports import FORMATS, Report, RuleWords, render
from memlint.reports.readable import footprint_lines, summary
from memlint.reports.statistics import render_statistics
from memlint.reports.style import visible, width
from memlint.rule.savings import Footprint, Saving
from memlint.run.results import DiffLine, FileResult, Rendered, RenderedFix, TextEdit
from memlint.source import Location
from memlint.source.diagnostics import FileError
from tests.memlint.sarif_schema import SCHEMA

WORDS = {
    "MEM301": RuleWords(
        "MEM301", "unchecked-activations", "waste", "no checkpointing",
        "Activations of all layers stay, e.g. 40 GiB for 7B. Checkpointing keeps one a layer.",
    ),
    "MEM901": RuleWords("MEM901", "removed-option", "error", "gone", "A TypeError."),
}  # fmt: skip
WHY = "Activations of all layers stay, e.g. 40 GiB for 7B."
FIX = RenderedFix(
    "turn on checkpointing",
    "unsafe",
    (TextEdit(Location(2, 5), Location(2, 10), "True"),),
    (DiffLine("-", 2, "    gc=False,"), DiffLine("+", 2, "    gc=True,")),
)
SCRIPT = FileResult(
    "src/train.py",
    (
        Rendered(
            "src/train.py", "MEM301", "unchecked-activations", "waste", "no checkpointing: 30 %",
            Location(2, 5), Location(2, 13), "    gc=False,", FIX, WHY,
            "https://example.org/c",
        ),
        Rendered(
            "src/train.py", "MEM901", "removed-option", "error", "gone: a,b\nreally",
            Location(7, 1), Location(9, 2), "\tf('ä', 文字)", RenderedFix("drop it", "safe"),
            "A TypeError.",
        ),
    ),
)  # fmt: skip
NOTEBOOK = FileResult(
    "n.ipynb",
    (
        Rendered(
            "n.ipynb", "MEM301", "unchecked-activations", "hint", "perhaps",
            Location(1, 2, 3), Location(1, 4, 3), "x=y", FIX, WHY,
        ),
    ),
    (FileError("n.ipynb", "cell 4 does not parse", 2, 3, 4),),
)  # fmt: skip
BROKEN = FileResult("b.py", (), (FileError("b.py", "cannot be read"),))
REPORT = Report((SCRIPT, NOTEBOOK, BROKEN), WORDS)


def text(output_format: str, report: Report = REPORT) -> str:
    return "".join(render(output_format, report))


def test_full() -> None:
    assert text("full") == (
        "src/train.py:2:5: MEM301 no checkpointing: 30 %\n"
        "  why: Activations of all layers stay, e.g. 40 GiB for 7B.\n"
        "  fix: turn on checkpointing (changes training: applied with --unsafe-fixes)\n"
        "  2 -     gc=False,\n"
        "  2 +     gc=True,\n"
        "\n"
        "src/train.py:7:1: MEM901 [*] gone: a,b␊really\n"
        "  why: A TypeError.\n"
        "  7 |     f('ä', 文字)\n"
        "  fix: drop it\n"
        "\n"
        "n.ipynb:3:1:2: MEM301 (hint) perhaps\n"
        "  1 | x=y\n"
        "    |  ^^\n"
        "  fix: turn on checkpointing (changes training: applied with --unsafe-fixes)\n"
        "  2 -     gc=False,\n"
        "  2 +     gc=True,\n"
        "\n"
        "error: n.ipynb:4:2:3: cell 4 does not parse\n\n"
        "error: b.py: cannot be read\n\n"
    )


def test_long_diffs_are_cut_and_gaps_are_marked() -> None:
    diff = tuple(DiffLine("-", row, "x") for row in (1, *range(5, 60)))
    finding = SCRIPT.findings[0]._replace(fix=FIX._replace(diff=diff))
    shown = text("full", REPORT._replace(results=[FileResult("a", (finding,))]))
    assert "   1 - x\n ...\n   5 - x\n" in shown
    assert "(52 more lines: `memlint fix --diff`)" in shown


def test_colours_are_escapes_only_where_wanted() -> None:
    for output_format in FORMATS:
        assert "\x1b" not in text(output_format)
    assert "\x1b[1;33mMEM301\x1b[0m" in text("full", REPORT._replace(colour=True))
    assert "\x1b" in text("concise", REPORT._replace(colour=True))


HOSTILE = "5.20.0+\x1b]0;PWN\x07\n::error::INJECTED\r\x7f\x9b31m\u202e"


@pytest.mark.parametrize("output_format", FORMATS)
def test_nothing_that_a_terminal_or_ci_service_obeys_is_printed(output_format: str) -> None:
    hostile = SCRIPT.findings[0]._replace(
        path=f"a{HOSTILE}.py",
        message=HOSTILE,
        line=f"x = 1 # {HOSTILE}",
        fix=FIX._replace(message=HOSTILE, diff=(DiffLine("+", 1, HOSTILE),)),
        why=HOSTILE,
    )
    broken = FileError(f"b{HOSTILE}.py", HOSTILE, 1, 1)
    out = text(output_format, Report((FileResult("a", (hostile,), (broken,)),), WORDS))
    assert not set(out) & set("\x1b\x07\r\x7f\x9b\u202e")
    assert not any(line.startswith("::error::") for line in out.split("\n"))
    if output_format in ("full", "concise"):
        assert "5.20.0+\N{SYMBOL FOR ESCAPE}]0;PWN\N{SYMBOL FOR BELL}" in out


@pytest.mark.parametrize(
    "name",
    ["::error::x.py", "  ::warning x.py", "##vso[task]x.py", "##[group]x.py", "\t##teamcity[x"],
)
@pytest.mark.parametrize("output_format", FORMATS)
def test_no_path_begins_a_line_as_a_command(name: str, output_format: str) -> None:
    saving = Saving(1, 1, "loss", True)
    finding = SCRIPT.findings[0]._replace(path=name, line="##vso[task]", saving=saving)
    footprint = Footprint(2**30, 2**30, 2**30, "loss")
    result = FileResult(name, (finding,), (FileError(name, "##[x"),), footprint=footprint)
    report = Report((result,), WORDS)
    lines = text(output_format, report).split("\n") + list(summary(report))
    if output_format == "github":
        lines = [line.partition("::")[2].partition("::")[2] for line in lines]
    if output_format == "azure":
        lines = [line.removeprefix("##vso[task.logissue type=") for line in lines]
        lines += [line.partition("]")[2] for line in lines]
    assert not [line for line in lines if re.match(r"\s*(::|##(\[|vso|teamcity))", line)]


def test_what_belongs_to_a_script_is_shown_as_it_is() -> None:
    text = (
        "\N{MAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER} \N{IDEOGRAPHIC SPACE}x\N{NO-BREAK SPACE}"
    )
    assert visible(text) == text
    assert width("\N{MAN}\N{ZERO WIDTH JOINER}x") == 3


def test_what_a_diff_says_is_not_said_twice() -> None:
    safe = SCRIPT.findings[0]._replace(fix=FIX._replace(applicability="safe"))
    shown = text("full", REPORT._replace(results=[SCRIPT._replace(findings=(safe,))]))
    assert "turn on checkpointing" not in shown
    assert shown.count("gc=False") == 1
    bare = safe._replace(fix=safe.fix and safe.fix._replace(diff=()))
    shown = text("full", REPORT._replace(results=[SCRIPT._replace(findings=(bare,))]))
    assert "fix: turn on checkpointing" in shown


def test_findings_of_one_rule_stand_together() -> None:
    again = SCRIPT.findings[0]._replace(message="no checkpointing: 40 %")
    findings = (SCRIPT.findings[0], again, SCRIPT.findings[1])
    shown = text("full", REPORT._replace(results=[SCRIPT._replace(findings=findings)]))
    assert shown.count("\n\n") == 2, "behind the rule, and at the end"


def _of_run(name: str, peak: int, safe: int, gpu: str = "") -> FileResult:
    """A script whose run needs so many GiB as it is and with safe fixes."""
    saved = Saving((peak - safe) << 30, (peak - safe) << 30, "loss")
    finding = SCRIPT.findings[0]._replace(path=name, saving=saved)
    sizes = (peak << 30, peak << 30, peak << 30, "loss", safe << 30)
    return FileResult(name, (finding,), footprint=Footprint(*sizes, gpu=gpu, room=20 << 30))


@pytest.mark.parametrize("gpu", ["", "rtx4090-24gb"])
def test_of_many_scripts_those_are_shown_whose_fixes_save_most(gpu: str) -> None:
    sizes = {"huge.py": (532, 530), "a.py": (30, 10), "b.py": (8, 2), "c.py": (40, 30)}
    results = [_of_run(name, *both, gpu) for name, both in sizes.items()]
    shown = [line.split(":")[0] for line in footprint_lines(Report(results))]
    assert shown[:3] == ["b.py", "a.py", "c.py"]
    assert not any("huge" in line for line in shown)
    said = "3 of 4 scripts do not fit" if gpu else "The peaks of 1 more script are known."
    assert shown[3].startswith(said)
    assert len(list(footprint_lines(Report(results[:3])))) == 3


def test_a_reason_is_given_once_a_rule() -> None:
    again = SCRIPT._replace(findings=(*SCRIPT.findings, SCRIPT.findings[0]))
    assert text("full", REPORT._replace(results=[again])).count("why: Activations") == 1
    assert text("full", REPORT._replace(results=[again, again])).count("why: Activations") == 1


def test_what_is_said_of_several_places_of_a_file_is_said_once() -> None:
    first = SCRIPT.findings[0]
    others = [first._replace(start=first.start._replace(row=row)) for row in range(10, 20)]
    shown = text("full", REPORT._replace(results=[SCRIPT._replace(findings=(first, *others))]))
    assert shown.count("no checkpointing") == 1
    assert "= also at 10:5, 11:5, 12:5, 13:5, 14:5, 15:5, 16:5, 17:5 and 2 more\n" in shown
    priced = others[0]._replace(message="no checkpointing: 40 %")
    shown = text("full", REPORT._replace(results=[SCRIPT._replace(findings=(first, priced))]))
    assert shown.count("no checkpointing") == 2


def test_concise() -> None:
    assert text("concise").split("\n") == [
        "src/train.py:2:5: MEM301 no checkpointing: 30 %",
        "src/train.py:7:1: MEM901 [*] gone: a,b␊really",
        "n.ipynb:3:1:2: MEM301 (hint) perhaps",
        "error: n.ipynb:4:2:3: cell 4 does not parse",
        "error: b.py: cannot be read",
        "",
    ]


def test_json_has_the_shape_of_ruffs() -> None:
    first, _, hint, cell, unread = json.loads(text("json"))
    assert first == {
        "assumed_versions": [],
        "cell": None,
        "code": "MEM301",
        "end_location": {"column": 13, "row": 2},
        "filename": os.path.abspath("src/train.py"),
        "fix": {
            "applicability": "unsafe",
            "edits": [
                {
                    "content": "True",
                    "end_location": {"column": 10, "row": 2},
                    "location": {"column": 5, "row": 2},
                }
            ],
            "message": "turn on checkpointing",
            "requires": None,
        },
        "level": "waste",
        "location": {"column": 5, "row": 2},
        "message": "no checkpointing: 30 %",
        "name": "unchecked-activations",
        "noqa_row": 2,
        "saving": None,
        "url": "https://example.org/c",
    }
    assert (hint["cell"], hint["level"]) == (3, "hint")
    assert (cell["cell"], cell["code"], cell["location"]) == (4, None, {"column": 3, "row": 2})
    assert unread["message"] == "cannot be read"


def test_sarif_is_valid() -> None:
    log = json.loads(text("sarif"))
    validator = jsonschema.Draft7Validator(SCHEMA)
    validator.check_schema(SCHEMA)
    assert [error.message for error in validator.iter_errors(log)] == []
    (run,) = log["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["MEM301", "MEM901"]
    waste, error, hint = run["results"]
    assert [each["level"] for each in run["results"]] == ["warning", "error", "note"]
    assert waste["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "src/train.py"
    (replacement,) = waste["fixes"][0]["artifactChanges"][0]["replacements"]
    assert replacement["insertedContent"] == {"text": "True"}
    assert "fixes" not in hint, "a row within a cell is no row of the file"
    assert hint["locations"][0]["logicalLocations"] == [{"name": "cell 3", "kind": "module"}]
    assert "fixes" not in error, "advice has no edits"
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert len(invocation["toolExecutionNotifications"]) == 2
    # The schema can fail.
    log["runs"][0]["results"][0]["level"] = "waste"
    assert list(validator.iter_errors(log))


def test_sarif_says_what_code_scanning_asks_for() -> None:
    (run,) = json.loads(text("sarif"))["runs"]
    driver = run["tool"]["driver"]
    assert driver["informationUri"].startswith("https://")
    assert all(rule["help"]["text"] for rule in driver["rules"])
    prints = [result["partialFingerprints"]["memlint/v1"] for result in run["results"]]
    assert len(set(prints)) == 3
    cell = run["results"][2]
    assert cell["message"]["text"] == "cell 3, row 1: perhaps"
    assert cell["locations"][0]["physicalLocation"]["region"]["startLine"] == 1


@pytest.mark.skipif(os.name == "nt", reason="file names are text there")
def test_sarif_names_files_that_are_not_utf8() -> None:
    finding = SCRIPT.findings[0]._replace(path=os.fsdecode(b"\xff.py"))
    out = text("sarif", REPORT._replace(results=[FileResult("a", (finding,))]))
    assert '"uri": "%FF.py"' in out


def test_sarif_paths_are_uris(tmp_path: Path) -> None:
    outside = SCRIPT.findings[0]._replace(path=str(tmp_path / "ä b.py"))
    log = json.loads(text("sarif", REPORT._replace(results=[FileResult("a", (outside,))])))
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == f"file://{tmp_path}/%C3%A4%20b.py"


def test_github() -> None:
    waste, error, hint, cell, unread, end = text("github").split("\n")
    assert waste == (
        "::warning title=memlint (MEM301),file=src/train.py,line=2,col=5,endLine=2,endColumn=13"
        "::src/train.py:2:5: MEM301 no checkpointing: 30 %25"
    )
    assert error.startswith("::error title=memlint (MEM901),")
    assert error.endswith("gone: a,b%0Areally")
    assert hint == ("::notice title=memlint (MEM301),file=n.ipynb::n.ipynb:3:1:2: MEM301 perhaps")
    assert cell.startswith("::error title=memlint,file=n.ipynb::n.ipynb:4:2:3:")
    place = "file=b.py,line=1,col=1,endLine=1,endColumn=1::b.py:1:1"
    assert unread == f"::error title=memlint,{place}: cannot be read"
    assert end == ""


def test_gitlab() -> None:
    items = json.loads(text("gitlab"))
    assert [item["severity"] for item in items] == ["minor", "major", "info", "blocker", "blocker"]
    assert len({item["fingerprint"] for item in items}) == 5
    assert items[0]["location"] == {
        "path": "src/train.py",
        "positions": {"begin": {"line": 2, "column": 5}, "end": {"line": 2, "column": 13}},
    }
    # A finding that moves keeps its fingerprint; two of a kind differ.
    moved = SCRIPT.findings[0]._replace(start=Location(9, 5))
    twice = REPORT._replace(results=[FileResult("src/train.py", (moved, moved))])
    prints = [item["fingerprint"] for item in json.loads(text("gitlab", twice))]
    assert prints[0] == items[0]["fingerprint"] != prints[1]


def test_junit_has_a_failed_case_for_all_that_is_said() -> None:
    script, notebook, unread = ElementTree.fromstring(text("junit").encode())
    assert script.attrib == {
        "name": "src/train.py", "tests": "2", "failures": "2", "errors": "0", "disabled": "0"
    }  # fmt: skip
    assert [case.attrib["name"] for case in script] == [
        "MEM301 src/train.py:2:5", "MEM901 src/train.py:7:1"
    ]  # fmt: skip
    (failure,) = script[0]
    assert failure.attrib["message"] == "no checkpointing: 30 %"
    assert notebook[0].attrib["name"] == "MEM301 n.ipynb:3:1:2"
    assert unread[0].attrib["classname"] == "b.py"


def test_azure() -> None:
    waste, error, hint, *_ = text("azure").split("\n")
    assert waste == (
        "##vso[task.logissue type=warning;sourcepath=src/train.py;linenumber=2;columnnumber=5;"
        "code=MEM301;]src/train.py:2:5: no checkpointing: 30 %AZP25"
    )
    assert error.startswith("##vso[task.logissue type=error;")
    assert "gone: a,b%0Areally" in error
    assert "linenumber" not in hint, "a row within a cell is no row of the file"


def test_rdjson() -> None:
    waste, error, hint, *rest = json.loads(text("rdjson"))["diagnostics"]
    assert waste["code"]["value"] == "MEM301"
    assert waste["severity"] == "WARNING"
    assert waste["location"]["range"]["start"] == {"line": 2, "column": 5}
    assert [each["text"] for each in waste["suggestions"]] == ["True"]
    assert "suggestions" not in error, "advice has no edits"
    assert hint["location"] == {"path": "n.ipynb"}, "a row within a cell is no row of the file"
    assert [each["severity"] for each in rest] == ["ERROR", "ERROR"]


def test_the_command_line_names_every_format() -> None:
    assert options.FORMATS == FORMATS


@pytest.mark.parametrize("output_format", FORMATS)
def test_nothing_found(output_format: str) -> None:
    out = text(output_format, Report((FileResult("a.py"),), {}))
    if output_format in ("json", "gitlab"):
        assert json.loads(out) == []
    elif output_format == "sarif":
        assert json.loads(out)["runs"][0]["results"] == []
    elif output_format == "rdjson":
        assert json.loads(out)["diagnostics"] == []
    elif output_format == "junit":
        (suite,) = ElementTree.fromstring(out.encode())
        assert suite.attrib["failures"] == "0"
        assert suite.attrib["tests"] == "1"
    else:
        assert out == ""


def test_summary_counts_what_counts() -> None:
    assert list(summary(REPORT)) == [
        "Found 2 findings and 1 hint in 2 of 3 files.\n",
        "[*] 1 fixable with `memlint fix`, 2 more with `--unsafe-fixes`.\n",
        "2 problems kept files, or parts of them, from being checked.\n",
    ]
    assert list(summary(Report((FileResult("a"), FileResult("b")), {}))) == [
        "Nothing found in 2 files.\n"
    ]
    assert list(summary(Report((BROKEN,), {}))) == [
        "1 problem kept files, or parts of them, from being checked.\n"
    ]


def test_statistics() -> None:
    assert "".join(render_statistics(REPORT, as_json=False)).split("\n")[:2] == [
        "2  MEM301  [ ]  unchecked-activations",
        "1  MEM901  [*]  removed-option",
    ]
    assert json.loads("".join(render_statistics(REPORT, as_json=True)))[0] == {
        "code": "MEM301",
        "name": "unchecked-activations",
        "count": 2,
        "fixable": False,
    }
