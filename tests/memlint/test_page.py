"""The page: its structure, its escaping, its numbers against the model's, its sizes."""

from __future__ import annotations

import json
import os
import random
import stat
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memlint.cli.main import run
from memlint.memory import estimate
from memlint.memory.settings import with_pricing
from memlint.page.escaped import data_text
from memlint.page.finding_parts import detail_for
from memlint.page.shown_runs import MOST, ShownRun, shown
from memlint.page.slider_grid import Grid, interpolated
from memlint.project.targets import Targets
from memlint.rule.savings import Pricing
from memlint.run.described import runs_in
from memlint.run.description import Described
from memlint.run.runs import Runs

Out = pytest.CaptureFixture[str]

SCRIPT = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", dtype="float32")
config = SFTConfig(
    output_dir="out",
    per_device_train_batch_size=4,
    max_length=2048,
    gradient_checkpointing=False,
)
trainer = SFTTrainer(model, args=config, train_dataset=load_dataset("rows", split="train"))
trainer.train()
"""


class Page(HTMLParser):
    """A page that was parsed: its elements with their attributes, its text, what is not closed."""

    EMPTY = frozenset({"meta", "input", "br"})

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.feed(Path(path).read_text("utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts.append(data)
        elif self.open[-1:] != ["style"]:
            self.text += data

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        """The attributes of each element of a tag that has these."""
        wanted = {name.removesuffix("_"): value for name, value in attributes.items()}
        return [
            found
            for name, found in self.elements
            if name == tag and wanted.items() <= found.items()
        ]

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def report(*arguments: str) -> int:
    return run(["report", "--no-cache", "-q", *arguments])


def run_of(text: str, gpu: str = "") -> tuple[Described, ShownRun]:
    Path("one.py").write_text(text)
    targets = Targets()
    (described,) = runs_in(
        "one.py", lambda file, source: targets.api(file, "newest", source), Runs()
    )
    assert described.find is not None
    found = shown(described, Pricing(gpu), described.find(None, True))
    assert found is not None
    return described, found


def test_a_page_has_findings_charts_steps_and_sliders() -> None:
    Path("train.py").write_text(SCRIPT)
    assert report("train.py", "--gpu", "rtx4090-24gb", "-o", "page.html") == 0
    page = Page("page.html")
    assert page.open == []
    codes = [each["data-code"] for each in page.all("details", class_="finding")]
    assert "MEM301" in codes
    assert "gradient_checkpointing=False" in page.text
    assert len(page.all("svg", role="img")) == len(page.data["runs"][0]["points"]) > 1
    for name in ("title", "desc"):
        ids = [each["id"] for each in page.all(name) if "id" in each]
        assert len(ids) == len(page.all("svg"))
    assert "does not fit rtx4090-24gb" in page.text
    assert "What each fix saves" in page.text
    assert "--assume" in page.text
    assert len(page.all("input", type="range")) == 2
    named = {each["for"] for each in page.all("label") if "for" in each}
    assert {each["id"] for each in page.all("input")} <= named
    assert page.all("main")
    ids = [each["id"] for _, each in page.elements if "id" in each]
    assert len(ids) == len(set(ids))
    targets = [str(each["href"])[1:] for each in page.all("a") if str(each["href"])[0] == "#"]
    assert set(targets) <= set(ids)


def test_places_of_one_finding_count_each() -> None:
    made = 'TrainingArguments("out", evaluation_strategy="no")\n'
    Path("twice.py").write_text(f"from transformers import TrainingArguments\n{made}{made}")
    report("twice.py", "--target", "newest", "-o", "page.html")
    page = Page("page.html")
    cards = [keys for name, keys in page.elements if "finding" in (keys.get("class") or "")]
    assert sum(int(keys.get("data-places") or 0) for keys in cards) == 2
    assert "2 findings" in page.text


def test_headings_skip_no_level() -> None:
    Path("train.py").write_text(SCRIPT)
    report("train.py", "-o", "page.html")
    levels = [
        int(tag[1])
        for tag, _ in Page("page.html").elements
        if tag in {"h1", "h2", "h3", "h4", "h5"}
    ]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_nothing_is_loaded_and_only_the_own_script_runs() -> None:
    Path("train.py").write_text(SCRIPT)
    report("train.py", "-o", "page.html")
    page = Page("page.html")
    policy = page.all("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"] or ""
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert not [each for _, each in page.elements if "src" in each or "style" in each]
    assert not page.all("link")
    assert len(page.scripts) == 2


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;"


def test_nothing_of_a_file_becomes_markup() -> None:
    folder = Path("a\"b<i>&amp;'")
    folder.mkdir()
    text = SCRIPT.replace(
        "gradient_checkpointing=False,", f"gradient_checkpointing=False,  # {HOSTILE}"
    )
    text = text.replace('"out"', repr(HOSTILE)).replace("dtype=", "nonsense='\u2028', dtype=")
    (folder / "x<script>.py").write_text(text)
    Path("plain.py").write_text(SCRIPT)
    report(".", "-o", "page.html")
    page = Page("page.html")
    assert page.open == []
    assert page.all("img") == page.all("i") == []
    assert len(page.scripts) == 2
    assert HOSTILE in page.text
    assert "x<script>.py" in page.text
    events = [name for _, each in page.elements for name in each if name.startswith("on")]
    assert events == []


def test_data_cannot_end_its_element() -> None:
    value = ["</script><!--", "\u2028\u2029&"]
    said = data_text(value)
    assert not set("<>&\u2028\u2029") & set(said)
    assert json.loads(said) == value


def between(grid: Grid, rows: int, length: int) -> float:
    """Return the peak that the page's script shows."""
    start = grid.rows.index(rows) * len(grid.lengths)
    return interpolated(grid.lengths, grid.points[0][start : start + len(grid.lengths)], length)


def test_the_grid_is_the_estimate() -> None:
    described, found = run_of(SCRIPT, "a100-80gb")
    grid = found.grid
    assert grid is not None
    settings = with_pricing(described.settings, Pricing("a100-80gb"))
    draw = random.Random(7)
    worst = 0.0
    for _ in range(20):
        rows = draw.choice(grid.rows)
        length = draw.randint(grid.lengths[0], grid.lengths[-1])
        own = settings._replace(micro_batch=rows, **{grid.name: length})
        true = estimate(own).allocated.estimate
        worst = max(worst, abs(between(grid, rows, length) / true - 1))
    assert worst <= 0.02
    assert grid.error <= 0.02
    rows, length = grid.own
    assert between(grid, rows, length) == found.estimate.allocated.estimate


def test_each_step_lowers_the_peak_to_the_last_chart() -> None:
    _, found = run_of(SCRIPT)
    peaks = [max(sum(kinds.values()) for kinds in each.bars.values()) for each in found.variants]
    assert found.peaks[-1] == peaks[-1] < peaks[0]
    assert list(found.peaks) == sorted(found.peaks, reverse=True)


def test_a_page_is_the_same_each_time() -> None:
    Path("train.py").write_text(SCRIPT)
    report("train.py", "-o", "first.html")
    report("train.py", "-o", "second.html")
    assert Path("first.html").read_bytes() == Path("second.html").read_bytes()


def test_a_page_of_a_script_is_small() -> None:
    Path("train.py").write_text(SCRIPT)
    report("train.py", "-o", "page.html")
    assert os.path.getsize("page.html") < 400_000


@pytest.mark.matrix
def test_a_page_of_a_repository_is_small_and_says_what_it_leaves_out() -> None:
    for number in range(400):
        lengths = SCRIPT.replace("2048", str(1024 + number))
        Path(f"train_{number}.py").write_text(lengths + f"# {'long ' * 400}\n" * 3)
    report(".", "-o", "page.html")
    page = Page("page.html")
    assert os.path.getsize("page.html") < 2_000_000
    assert len(page.data["runs"]) == MOST
    assert f"Charts of {400 - MOST} scripts with smaller savings are left out" in page.text
    assert len(page.all("details", class_="file")) == 400


def test_many_findings_are_shown_shorter() -> None:
    widths = [detail_for(count).diff for count in (10, 500, 100_000)]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == 3


def test_a_clean_script_has_a_chart_and_an_empty_folder_a_page() -> None:
    Path("train.py").write_text(SCRIPT)
    report("--select", "MEM001", "train.py", "-o", "page.html")
    assert len(Page("page.html").all("svg")) == 1
    Path("empty").mkdir()
    assert report("empty", "-o", "empty.html") == 0
    assert "Nothing was found" in Page("empty.html").text


def test_check_writes_the_page_with_its_own_status(capsys: Out) -> None:
    Path("train.py").write_text(SCRIPT)
    assert run(["check", "--no-cache", "--output-format", "html", "train.py"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("<!doctype html>")
    assert out.endswith("</html>\n")
    report("train.py", "-o", "-")
    assert capsys.readouterr().out == out


def test_a_folder_or_a_place_that_is_not_there_is_one_error(capsys: Out) -> None:
    Path("train.py").write_text(SCRIPT)
    for place in (".", "no/such/page.html"):
        assert report("train.py", "-o", place) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert f"{place}: cannot be written" in error


@pytest.mark.skipif(os.name == "nt", reason="modes and links")
def test_a_page_takes_the_place_of_the_old_one_whole() -> None:
    Path("train.py").write_text(SCRIPT)
    old = Path("old.html")
    old.write_text("x" * 1_000_000)
    old.chmod(0o640)
    Path("page.html").symlink_to(old)
    report("train.py", "-o", "page.html")
    assert Path("page.html").is_symlink()
    assert old.read_text().startswith("<!doctype html>")
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert sorted(each.name for each in Path(".").iterdir()) == [
        "old.html",
        "page.html",
        "train.py",
    ]


def test_estimate_writes_the_page_of_its_runs(capsys: Out) -> None:
    Path("train.py").write_text(SCRIPT)
    arguments = ["estimate", "train.py", "--gpu", "rtx4090-24gb", "--output-format", "html"]
    assert run(arguments) == 1
    Path("page.html").write_text(capsys.readouterr().out)
    page = Page("page.html")
    assert len(page.all("svg")) == len(page.data["runs"][0]["points"]) == 2
    assert "What each fix saves" in page.text
    assert not page.all("details", class_="finding")
    assert run([*arguments, "--fit"]) == 2
    assert "no --fit" in capsys.readouterr().err


def test_what_cannot_be_read_is_told_beside_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert run(["report", "--no-cache", str(tmp_path / "gone.py"), "-o", str(page)]) == 2
    assert "gone.py: does not exist" in capsys.readouterr().err
    assert "gone.py" in page.read_text()
