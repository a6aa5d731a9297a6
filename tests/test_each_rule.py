"""The fix of every rule on a small real script; a share of them is really run here.

``python -m tests.two_steps.each_rule`` runs all.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rules.fixing import fixed
from tests.two_steps.each_rule import Outcome, judge, summary
from tests.two_steps.rule_scripts import RuleScript, codes_with_a_fix, read_scripts
from tests.two_steps.stages import TARGET, Run

ROOT = Path(__file__).parents[1]
SCRIPTS = read_scripts()
SHARE = 2  # of the fast scripts run at once here


def _is_fast(script: RuleScript) -> bool:
    return "trl" not in script.job.text and not script.needs_gpu


def test_every_rule_that_fixes_has_a_script() -> None:
    assert sorted({script.code for script in SCRIPTS}) == codes_with_a_fix()


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.name for script in SCRIPTS])
def test_fix_of_the_level_that_is_said_changes_the_script(script: RuleScript) -> None:
    text, codes = script.job.text, script.job.select.split(",")
    safe = fixed(text, *codes, target=TARGET)
    assert (safe != text) == (script.fix == "safe")
    assert fixed(text, *codes, target=TARGET, unsafe=True) != text


@pytest.mark.draws(1)
@pytest.mark.parametrize("seed", [7, 8])
def test_a_share_of_the_scripts_runs_before_and_after_its_fixes(seed: int, tmp_path: Path) -> None:
    fast = [script.name for script in SCRIPTS if _is_fast(script)]
    chosen = random.Random(seed).sample(fast, SHARE)
    path = os.pathsep.join(map(str, (ROOT, ROOT / "rules", ROOT / "runtime")))
    done = subprocess.run(
        [sys.executable, "-m", "tests.two_steps.each_rule", "--cache", str(tmp_path),
         *(f"--only={name}" for name in chosen)],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"run: {len({name.partition('_')[0] for name in chosen})}, differ: 0" in done.stdout


def _run(*losses: float, norm: float = 1.0, ok: bool = True) -> Run:
    return Run(ok, len(losses), list(losses), norms=[norm] * len(losses), printed=losses)


BEFORE = _run(3.0, 2.0)


@pytest.mark.parametrize(
    ("safe", "problem"),
    [
        (_run(3.0, 2.000001), ""),
        (_run(3.0, 2.0001), "differs by"),
        (_run(3.0, 2.0, 1.0), "differs:"),
        (_run(3.0, 2.0, norm=1.1), "differs in its gradients"),
        (_run(3.0, 2.0, ok=False), "fails after safe fixes"),
        (_run(3.0), "fails after safe fixes"),
    ],
)
def test_a_safe_fix_keeps_losses_and_gradients(safe: Run, problem: str) -> None:
    script = next(script for script in SCRIPTS if script.name == "MEM301")
    _, problems = judge(script, BEFORE, BEFORE, {"safe": safe})
    assert [problem] == [one[: len(problem)] for one in problems or [""]]


def test_the_summary_counts_what_is_broken_and_what_differs() -> None:
    script = next(script for script in SCRIPTS if script.name == "MEM301")
    bad = Outcome(script, BEFORE, BEFORE, None, 0.1, ("differs by 0.1",), "")
    good = bad._replace(problems=())
    broken = bad._replace(problems=("fails after safe fixes",))
    end = "broken: 0, need a GPU: []"
    assert summary([good], ["MEM301"]) == f"rules that fix: 1, run: 1, differ: 0, {end}"
    assert summary([good, bad], ["MEM301"]) == f"rules that fix: 1, run: 0, differ: 1, {end}"
    assert "differ: 0, broken: 1" in summary([broken], ["MEM301"])
    assert "run: 1, differ: 0, broken: 1" in summary([good], ["MEM301", "MEM302"])
