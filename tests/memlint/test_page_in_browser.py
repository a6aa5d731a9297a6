"""The page in a browser, where one is installed: its script runs, its sliders say the estimate."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from memlint.memory import estimate
from memlint.memory.gpus import find_gpu
from memlint.memory.settings import with_pricing
from memlint.rule.savings import Pricing
from tests.memlint.test_page import SCRIPT, report, run_of

BROWSER = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome", "chrome")
        if (found := shutil.which(name))
    ),
    "",
)
pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium is installed")

# Sets the sliders to each point, and notes what the page then says.
ASK = """
const points = POINTS, said = [];
const sliders = [...document.querySelectorAll("input[type=range]")];
for (const point of points) {
  sliders.forEach((slider, axis) => {
    slider.value = point[axis];
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  });
  said.push([...document.querySelectorAll("output")].map(each => each.textContent)
    .concat(document.querySelector("[data-verdicts]").textContent));
}
const answer = document.createElement("pre");
answer.id = "answer";
answer.textContent = JSON.stringify({
  said,
  wide: document.documentElement.scrollWidth,
  shown: document.querySelector(".shown").textContent,
});
document.body.append(answer);
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def browse(page: Path, width: int = 1280) -> tuple[str, str]:
    """The page's elements once its script has run, and what the browser logged of it."""
    done = subprocess.run(
        [
            BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
            "--enable-logging=stderr", f"--user-data-dir={page.parent / 'profile'}",
            f"--window-size={width},2000", "--virtual-time-budget=5000", page.as_uri(),
        ],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return done.stdout, "\n".join(line for line in done.stderr.split("\n") if "CONSOLE" in line)


def asked(page: Path, points: list[tuple[int, int]]) -> dict[str, Any]:
    """What the page answers: its policy lets no other script run, so that a copy has none."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    script = ASK.replace("POINTS", json.dumps(points))
    copy = page.with_name("asked.html")
    copy.write_text(text.replace("</body>", f"<script>{{{script}}}</script></body>"))
    shown, _ = browse(copy)
    found = re.search(r'<pre id="answer">(.*?)</pre>', shown, re.DOTALL)
    assert found is not None
    answer: dict[str, Any] = json.loads(unescape(found[1]))
    return answer


def test_the_script_runs_under_the_policy_without_an_error(folder: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    report("train.py", "--gpu", "a100-80gb", "-o", "page.html")
    shown, console = browse(folder / "page.html")
    assert console == ""
    forms = re.findall(r"<form[^>]*>", shown)
    assert len(forms) == 2
    assert not [form for form in forms if "hidden" in form]
    assert re.search(r"as it is: [\d.]+ GiB, (fits|tight|does not fit)", shown)


def test_sliders_say_what_an_estimate_says(folder: Path) -> None:
    Path("one.py").write_text(SCRIPT)
    report("one.py", "--gpu", "a100-80gb", "--target", "newest", "-o", "page.html")
    data = json.loads(
        (folder / "page.html").read_text().split('id="data">')[1].split("</script>")[0]
    )
    rows, lengths = data["runs"][0]["stops"]
    described, _ = run_of(SCRIPT, "a100-80gb")
    settings = with_pricing(described.settings, Pricing("a100-80gb"))
    room = find_gpu("a100-80gb").room
    draw = random.Random(3)
    points = [(draw.randrange(len(rows)), draw.randrange(len(lengths))) for _ in range(20)]
    answer = asked(folder / "page.html", points)
    for (row, length), (_, tokens, verdicts) in zip(points, answer["said"], strict=True):
        assert tokens == f"{lengths[length]:,} tokens"
        own = settings._replace(micro_batch=rows[row], seq_len=lengths[length])
        true = estimate(own)
        found = re.match(r"as it is: ([\d.]+) GiB, ([a-z ]+)", verdicts)
        assert found is not None
        gib = true.allocated.estimate / 2**30
        assert float(found[1]) == pytest.approx(gib, rel=0.02, abs=0.05)
        ends = true.allocated.low, true.allocated.high
        if min(abs(end - room) for end in ends) > 0.02 * room:
            assert found[2] == true.verdict.removeprefix("is ").removesuffix(" on")
    assert answer["wide"] <= 1280
    assert re.fullmatch(r"(\d+) of \1 shown", answer["shown"])
