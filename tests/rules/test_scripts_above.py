"""What a module of a project defines is judged with what the scripts that lead to it give."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.engine.project import Modules, project_of
from memlint.rule import Rule
from memlint.rule.registry import known_rules, load
from memlint.run.engine import check_source
from memlint.source import Source
from memlint.source.reading import read_source

CODES = [rule.code for rule in known_rules() if rule.code[3] in "1234567"]


@cache
def api() -> Api:
    return Api(newest())


def reported(
    folder: Path, files: dict[str, str], rules: Sequence[Rule] = ()
) -> dict[str, set[str]]:
    """The codes and messages of the rules, by default of all memory rules, by file."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    modules = Modules()
    found: dict[str, set[str]] = {}
    for name in files:
        path = folder / name
        if path.suffix not in (".py", ".ipynb"):
            continue
        data = path.read_bytes()
        project = project_of(str(path), data, modules)
        findings = check_source(
            read_source(str(path), data), rules or load(CODES), api(), project=project
        )
        found[name] = {f"{one.code} {one.message}" for one in findings}
    return found


def codes(found: set[str]) -> set[str]:
    return {one.partition(" ")[0] for one in found}


LOADS = """
    from transformers import AutoModelForCausalLM
    def fetch(name):
        return AutoModelForCausalLM.from_pretrained(name, attn_implementation="eager").cuda()
"""
FITS = """
    class Coach:
        def __init__(self, net, optimizer):
            self.net, self.optimizer = net, optimizer
        def work(self, batches):
            self.net.train()
            for batch in batches:
                answer = self.net(**batch)
                answer.loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
"""
STARTS = """
    import torch
    {imports}
    net = fetch("Qwen/Qwen3-0.6B")
    Coach(net, torch.optim.AdamW(net.parameters(), fused=True)).work(batches)
"""
LAYOUTS: dict[str, dict[str, str]] = {
    "side by side": {
        "loads.py": LOADS,
        "fits.py": FITS,
        "start.py": STARTS.format(imports="from fits import Coach; from loads import fetch"),
    },
    "a package of relative imports": {
        "pyproject.toml": "",
        "src/school/__init__.py": "",
        "src/school/loads.py": LOADS,
        "src/school/fits.py": FITS,
        "src/school/start.py": """
            import torch
            from .fits import Coach
            from .loads import fetch
            def main():
                net = fetch("Qwen/Qwen3-0.6B")
                Coach(net, torch.optim.AdamW(net.parameters(), fused=True)).work(batches)
            if __name__ == "__main__":
                main()
        """,
    },
    "a script that adds to the path": {
        "requirements.txt": "torch",
        "lib/parts/loads.py": LOADS,
        "lib/parts/fits.py": FITS,
        "bin/start.py": STARTS.format(
            imports="import sys; sys.path.append('../lib')\n"
            "    from parts.fits import Coach; from parts.loads import fetch"
        ),
    },
    "through a package that exports it": {
        "requirements.txt": "torch",
        "school/__init__.py": "from .fits import Coach\nfrom .loads import fetch\n",
        "school/loads.py": LOADS,
        "school/fits.py": FITS,
        "start.py": STARTS.format(imports="from school import Coach, fetch"),
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_three_files_find_what_one_file_finds(layout: str, tmp_path: Path) -> None:
    alone = reported(
        tmp_path / "alone",
        {"whole.py": dedent(LOADS) + dedent(FITS) + dedent(STARTS.format(imports=""))},
    )["whole.py"]
    assert codes(alone) == {"MEM201", "MEM301", "MEM302", "MEM304", "MEM307"}
    found = reported(tmp_path / "apart", LAYOUTS[layout])
    (loads,) = [one for one in found if one.endswith("loads.py")]
    (fits,) = [one for one in found if one.endswith("fits.py")]
    (start,) = [one for one in found if one.endswith("start.py")]
    assert codes(found[loads]) == {"MEM301", "MEM304"}
    assert codes(found[fits]) == {"MEM201", "MEM302", "MEM307"}
    assert not found[start]
    # Who reads a finding in a library is told what runs it.
    assert all(one.endswith(f"(run by `{start}`)") for one in found[fits] | found[loads])


def test_arguments_and_model_of_a_trainer(tmp_path: Path) -> None:
    files = {
        "options.py": """
            from transformers import TrainingArguments
            def options():
                return TrainingArguments("o", per_device_train_batch_size=8)
        """,
        "nets.py": """
            from transformers import AutoModelForCausalLM
            def net():
                return AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="float32")
        """,
        "go.py": """
            from transformers import Trainer
            from nets import net
            from options import options
            Trainer(model=net(), args=options(), train_dataset=rows).train()
        """,
    }
    found = reported(tmp_path, files)
    assert codes(found["options.py"]) == {"MEM301", "MEM402"}
    assert codes(found["nets.py"]) == {"MEM401"}
    assert codes(found["go.py"]) == {"MEM201", "MEM501"}


def test_what_a_script_decides_is_known_in_the_module(tmp_path: Path) -> None:
    quiet = {
        "loads.py": LOADS,
        "start.py": """
            import torch
            from loads import fetch
            net = fetch("Qwen/Qwen3-0.6B")
            net.gradient_checkpointing_enable()
            net.train()
            for batch in batches:
                net(**batch).loss.backward()
        """,
    }
    assert codes(reported(tmp_path / "a", quiet)["loads.py"]) == {"MEM304"}
    # Nothing trains what another script only generates with.
    asks = "from loads import fetch\nprint(fetch('Qwen/Qwen3-0.6B').generate(ids))\n"
    assert not reported(tmp_path / "b", {"loads.py": LOADS, "start.py": asks})["loads.py"]
    # A test's models are no run's.
    tests = {"loads.py": LOADS, "tests/test_it.py": quiet["start.py"]}
    assert not reported(tmp_path / "c", tests)["loads.py"]


def test_rows_that_another_file_maps(tmp_path: Path) -> None:
    prepares = """
        def prepare(rows, tokenizer):
            def encode(part):
                return tokenizer(part["text"], padding="max_length", max_length=512)
            return rows.map(encode, batched=True)
    """
    trains = """
        from datasets import load_dataset
        from transformers import (
            AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer,
            TrainingArguments,
        )
        from prepares import prepare
        tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
        model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
        rows = prepare(load_dataset("some", split="train"), tokenizer)
        Trainer(
            model, TrainingArguments("o"), {name}=rows,
            data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
        ).train()
    """
    files = {"prepares.py": prepares, "trains.py": trains.format(name="train_dataset")}
    assert codes(reported(tmp_path / "a", files)["prepares.py"]) == {"MEM102"}
    files["trains.py"] = trains.format(name="eval_dataset")
    assert not reported(tmp_path / "b", files)["prepares.py"]


def test_a_cached_result_depends_on_the_scripts(tmp_path: Path) -> None:
    reported(tmp_path, LAYOUTS["side by side"])
    path = tmp_path / "fits.py"
    project = project_of(str(path), path.read_bytes(), Modules())
    assert project is not None
    assert project.scripts_above == (str(tmp_path / "start.py"),)
    before = dict(project.digests())
    assert before[str(tmp_path / "start.py")]
    (tmp_path / "another.py").write_text("from fits import Coach\n", encoding="utf-8")
    assert dict(project.digests()) != before


SCORES = """
    import torch
    def of_tokens(net, ids, wanted):
        spread = torch.log_softmax(net(ids).logits, dim=-1)
        return spread.gather(-1, wanted[..., None]).squeeze(-1)
    def learn(entries):
        (-entries.mean()).backward()
    {end}
"""
LEARNS = """
    import torch
    import scores
    from transformers import AutoModelForCausalLM
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    for ids, wanted in batches:
        scores.learn(scores.of_tokens(net, ids, wanted))
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("end", ["", 'if __name__ == "__main__":\n        print(of_tokens)'])
def test_a_script_that_others_import(end: str, tmp_path: Path) -> None:
    """A file that can be run by itself is judged with what imports it as well."""
    files = {"scores.py": SCORES.format(end=end), "start.py": LEARNS}
    found = reported(tmp_path, files)["scores.py"]
    assert codes(found) == {"MEM204"}
    assert all(one.endswith("(run by `start.py`)") for one in found)


def test_a_script_that_nobody_imports(tmp_path: Path) -> None:
    """Nothing says what its functions are given."""
    text = SCORES.format(end='if __name__ == "__main__":\n        print(of_tokens)')
    assert not reported(tmp_path, {"scores.py": text})["scores.py"]


FAR = {
    "pyproject.toml": "",
    "tools/__init__.py": "from .scores import of_tokens\nfrom .seeds import sow\n",
    "tools/seeds.py": "def sow():\n    pass\n",
    "tools/scores.py": SCORES.format(end=""),
    "school/__init__.py": "from .coach import teach\n",
    "school/coach.py": """
        from tools.scores import learn, of_tokens
        def teach(net, optimizer, batches):
            for ids, wanted in batches:
                learn(of_tokens(net, ids, wanted))
                optimizer.step()
                optimizer.zero_grad()
    """,
    "start.py": """
        import torch
        from school import teach
        from tools import sow
        from transformers import AutoModelForCausalLM
        net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
        teach(net, torch.optim.AdamW(net.parameters(), fused=True), batches)
    """,
}


def test_a_script_that_is_near_by_a_way_that_hands_on_nothing(tmp_path: Path) -> None:
    """The package that exports a module is one import away, what runs it are two."""
    assert codes(reported(tmp_path, FAR)["tools/scores.py"]) == {"MEM204"}


def test_a_script_behind_one_that_imports_much(tmp_path: Path) -> None:
    """What one script imports takes nothing from the next."""
    much = {f"part_{number}.py": "def part():\n    pass\n" for number in range(20)}
    parts = "".join(f"import part_{number}\npart_{number}.part()\n" for number in range(20))
    first = {"a_first.py": f"{parts}from tools.scores import learn\nlearn(train(1))\n"}
    found = reported(tmp_path, FAR | much | first)["tools/scores.py"]
    assert codes(found) == {"MEM204"}


LIGHT = """
    import lightning as L
    import torch
    from transformers import AutoModelForCausalLM
    class Tuned(L.LightningModule):
        def __init__(self, name):
            super().__init__()
            self.lm = AutoModelForCausalLM.from_pretrained(name)
        def training_step(self, batch, batch_idx):
            return self.lm(**batch).loss
        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())
"""


@pytest.mark.parametrize(
    ("precision", "expected"), [("", {"MEM402"}), (', precision="bf16-mixed"', set())]
)
def test_modules_of_lightning(precision: str, expected: set[str], tmp_path: Path) -> None:
    """Their trainer is made in the script that leads to them."""
    start = f"""
        import lightning as L
        from light import Tuned
        L.Trainer(max_epochs=1, accelerator="gpu"{precision}).fit(Tuned("gpt2"), batches)
    """
    found = reported(tmp_path, {"light.py": LIGHT, "start.py": start})
    assert codes(found["light.py"]) == {"MEM201", "MEM301", *expected}


def test_a_trainer_of_lightning_that_is_made_of_arguments(tmp_path: Path) -> None:
    """The module is of another file, and gets its model from the script."""
    light = LIGHT.replace("AutoModelForCausalLM.from_pretrained(name)", "name")
    start = """
        import lightning as L
        from transformers import AutoModelForCausalLM
        from light import Tuned
        lm = AutoModelForCausalLM.from_pretrained("gpt2")
        L.Trainer.from_argparse_args(args, callbacks=[]).fit(Tuned(lm), batches)
    """
    found = reported(tmp_path, {"light.py": light, "start.py": start})
    assert "MEM301" in codes(found["start.py"])
    # What the arguments say of the precision is not known.
    assert "MEM402" not in codes(found["start.py"] | found["light.py"])


@pytest.mark.parametrize(
    ("option", "after", "expected"),
    [
        ("", "pass", {"MEM302"}),
        (", use_cache=saves", "pass", set()),
        ("", "lm.config.use_cache = False", set()),
    ],
)
def test_another_file_decides_about_the_cache(
    option: str, after: str, expected: set[str], tmp_path: Path
) -> None:
    made = f"""
        from transformers import AutoModelForCausalLM
        def fetch(name, saves=False):
            lm = AutoModelForCausalLM.from_pretrained(name{option}).cuda()
            {after}
            return lm
    """
    work = """
        import torch
        from made import fetch
        lm = fetch("Qwen/Qwen3-0.6B")
        rule = torch.optim.AdamW(lm.parameters())
        for batch in batches:
            out = lm(**batch)
            out.loss.backward()
            rule.step()
            rule.zero_grad()
    """
    found = reported(tmp_path, {"made.py": made, "work.py": work}, load(["MEM302"]))
    assert codes(found["work.py"]) == expected


def test_a_method_with_a_new_name_that_two_callers_reach(tmp_path: Path) -> None:
    """The module's own method and a script in another file call the same loader."""
    coach = """
        from transformers import AutoModelForCausalLM
        class Coach:
            def fetch(self):
                self.net = AutoModelForCausalLM.from_pretrained("gpt2")
                self.net.gradient_checkpointing_enable()
            def work(self):
                self.fetch()
    """
    main = "from coach import Coach\nif __name__ == '__main__':\n    Coach().fetch()\n"
    found = reported(tmp_path, {"coach.py": coach, "main.py": main}, load(["MEM902"]))
    assert codes(found["coach.py"]) == {"MEM902"}


CHORUS = {
    "pyproject.toml": "",
    "choir/__init__.py": "from .tenor import Tenor\nfrom .alto import Alto\n",
    "choir/alto.py": "class Alto:\n    pass\n",
    "choir/tenor.py": """
        class Tenor:
            def __init__(self, singer, optimizer, accelerator=None):
                self.accelerator = accelerator
                self.singer, self.optimizer = singer.to("cuda"), optimizer
            def sing(self, songs):
                self.singer, self.optimizer = shared(
                    self.accelerator, self.singer, self.optimizer
                )
                self.singer.train()
                for song in songs:
                    answer = self.singer(**song)
                    answer.loss.backward()
                    self.optimizer.step()
                    self.optimizer.zero_grad()

        def shared(accelerator, *things):
            return accelerator.prepare(*things) if accelerator is not None else things
    """,
    **{f"play_{name}.py": "from choir import Alto\nAlto()\n" for name in "abcde"},
    "smoke_it.py": "from choir import Tenor\nTenor(tiny.to('cpu'), None).sing([])\n",
    "train_it.py": """
        import torch
        from accelerate import Accelerator
        from choir import Tenor
        from transformers import AutoModelForCausalLM
        accelerator = Accelerator() if several else None
        net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
        if adapters:
            net = net.to("cuda")
        Tenor(net, torch.optim.AdamW(net.parameters(), fused=True), accelerator).sing(batches)
    """,
}


def test_the_script_that_trains_with_a_module_leads_to_it_first(tmp_path: Path) -> None:
    """A package hands all of its modules to every script, whatever that wants of it."""
    found = reported(tmp_path, CHORUS)["choir/tenor.py"]
    assert codes(found) == {"MEM201", "MEM302", "MEM307"}
    assert all(one.endswith("(run by `train_it.py`)") for one in found)


def test_the_loss_of_a_trainer_in_a_third_file(tmp_path: Path) -> None:
    files = {
        "losses.py": """
            import torch.nn.functional as F
            def token_logprobs(net, ids):
                scores = net(input_ids=ids).logits[:, :-1]
                return F.log_softmax(scores, -1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
        """,
        "coach.py": """
            from losses import token_logprobs
            from transformers import Trainer
            class Coach(Trainer):
                def compute_loss(self, model, inputs, return_outputs=False, **rest):
                    return -(token_logprobs(model, inputs["ids"]) * inputs["weight"]).mean()
        """,
        "begin.py": """
            from coach import Coach
            from transformers import AutoModelForCausalLM, TrainingArguments
            net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
            Coach(model=net, args=TrainingArguments("o"), train_dataset=rows).train()
        """,
    }
    assert codes(reported(tmp_path / "a", files)["losses.py"]) == {"MEM204"}
    files["begin.py"] = files["begin.py"].replace("Coach(model=net", "print(net) or dict(model=net")
    files["begin.py"] = files["begin.py"].replace(").train()", ")")
    assert not reported(tmp_path / "b", files)["losses.py"]


def test_a_folder_below_a_root_that_the_script_computes(tmp_path: Path) -> None:
    files = {
        "requirements.txt": "torch",
        "shared/fits.py": FITS,
        "runs/first/start.py": """
            import os
            import sys
            import torch
            from transformers import AutoModelForCausalLM
            ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
            sys.path.insert(0, os.path.join(os.path.dirname(ROOT), "shared"))
            from fits import Coach
            net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
            Coach(net, torch.optim.AdamW(net.parameters(), fused=True)).work(batches)
        """,
    }
    found = reported(tmp_path, files)
    assert codes(found["shared/fits.py"]) == {"MEM201", "MEM302", "MEM307"}
    assert codes(found["runs/first/start.py"]) == {"MEM301"}


NEIGHBOURS = {f"{number:03d}/part.py": "VALUE = 1\n" for number in range(401)}
PAIRED_ITEMS = """
    from torch.utils.data import Dataset
    class Pairs(Dataset):
        def __init__(self, rows, tok, longest):
            self.rows, self.tokenizer, self.longest = rows, tok, longest
        def __getitem__(self, at):
            good, bad = self.rows[at]
            ids = [
                self.tokenizer.encode(
                    one, padding="max_length", max_length=self.longest, truncation=True
                )
                for one in (good, bad)
            ]
            return {"labels": ids[0], "others": ids[1]}
"""
LOOPS_OVER_PAIRS = """
    import torch
    from torch.utils.data import DataLoader
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from items import Pairs
    tok = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    pairs = DataLoader(Pairs(rows, tok, 512), batch_size=4)
    for batch in pairs:
        loss = compare(net, batch)
        loss.{step}()
"""


def test_a_project_without_a_mark_among_many_others(tmp_path: Path) -> None:
    """A folder of projects is no project: what leads to a file is looked for beside it."""
    files = {"loads.py": LOADS, "fits.py": FITS}
    files["start.py"] = STARTS.format(imports="from fits import Coach; from loads import fetch")
    expected = reported(tmp_path / "alone" / "school", files)
    assert "MEM304" in codes(expected["loads.py"])
    reported(tmp_path / "many", NEIGHBOURS)
    assert reported(tmp_path / "many" / "school", files) == expected


def test_scripts_in_a_folder_beside_the_modules(tmp_path: Path) -> None:
    """Where little stands beside a folder without a mark, it is of the same project."""
    files = {
        "school/__init__.py": "",
        "school/loads.py": LOADS,
        "school/fits.py": FITS,
        "runs/start.py": STARTS.format(
            imports="import sys; sys.path.append('..'); from school.fits import Coach; "
            "from school.loads import fetch"
        ),
    }
    assert "MEM304" in codes(reported(tmp_path / "a" / "b", files)["school/loads.py"])


def test_items_that_a_method_of_the_tokenizer_pads(tmp_path: Path) -> None:
    """A file that names no library shows by a tokenizer's methods that it makes rows."""
    files = {"items.py": PAIRED_ITEMS, "go.py": LOOPS_OVER_PAIRS.format(step="backward")}
    assert codes(reported(tmp_path / "a", files)["items.py"]) == {"MEM102"}
    files["go.py"] = LOOPS_OVER_PAIRS.format(step="item")
    assert not reported(tmp_path / "b", files)["items.py"]


def test_rows_that_a_method_of_the_tokenizer_makes_in_a_map(tmp_path: Path) -> None:
    prepares = """
        def ready(rows, tok):
            def words(row):
                ids = tok.encode(row["text"], truncation=True, padding="max_length", max_length=900)
                return {"input_ids": ids, "labels": ids}
            return rows.map(words)
    """
    trains = """
        from datasets import load_dataset
        from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
        from prepares import ready
        tok = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
        net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
        rows = ready(load_dataset("some", split="train"), tok)
        Trainer(net, TrainingArguments("o"), {name}=rows).train()
    """
    files = {"prepares.py": prepares, "trains.py": trains.format(name="train_dataset")}
    assert codes(reported(tmp_path / "a", files)["prepares.py"]) == {"MEM102"}
    files["trains.py"] = trains.format(name="eval_dataset")
    assert not reported(tmp_path / "b", files)["prepares.py"]


STARRED = {
    "libraries.py": """
        import torch
        from torch.utils.data import DataLoader
        LIMIT = 64
    """,
    "settings.py": "SLOW = True\n",
    "go.py": """
        from transformers import AutoModelForCausalLM
        {stars}
        how = "eager" if SLOW else "sdpa"
        net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", attn_implementation=how)
        net = net.to("cuda")
        optimizer = torch.optim.AdamW(net.parameters())
        for batch in DataLoader(rows):
            net(**batch).loss.backward()
            optimizer.step()
    """,
}


@pytest.mark.parametrize(
    ("stars", "is_eager"),
    [
        ("from libraries import *; from settings import *", True),
        ("from settings import *; from libraries import *", True),
        ("from settings import *; from libraries import *; SLOW = False", False),
        ("from settings import *; from libraries import *; from later import *", False),
        ("from later import *; from libraries import *; from settings import *", True),
        ("from libraries import *; from bundle import SLOW", True),
        ("from libraries import *; from bundle import EAGER as SLOW", False),
    ],
)
def test_stars_bring_in_what_a_file_imports_and_the_last_decides(
    stars: str, is_eager: bool, tmp_path: Path
) -> None:
    files = {**STARRED, "later.py": "SLOW = False\n"}
    files["bundle/__init__.py"] = "from .choices import *\nEAGER = False\n"
    files["bundle/choices.py"] = "SLOW = EAGER = True\n"
    files["go.py"] = STARRED["go.py"].format(stars=stars)
    found = codes(reported(tmp_path, files)["go.py"])
    assert "MEM201" in found
    assert ("MEM304" in found) is is_eager


@pytest.mark.parametrize("stars", ["from unseen import *; from libraries import *"])
def test_a_name_that_a_library_may_bring_in_by_a_star(stars: str, tmp_path: Path) -> None:
    """What the project's files lack comes from the library, where that is a single one."""
    files = {**STARRED, "go.py": STARRED["go.py"].format(stars=stars)}
    found = codes(reported(tmp_path, files)["go.py"])
    assert "MEM201" in found
    assert "MEM304" not in found


ROUNDS = """
    import torch
    from drawing import draw
    from scoring import token_scores, weighted
    from transformers import AutoModelForCausalLM, AutoTokenizer
    name = "Qwen/Qwen2.5-1.5B-Instruct"
    tokenizer = AutoTokenizer.from_pretrained(name)
    actor = AutoModelForCausalLM.from_pretrained(name).cuda()
    optimizer = torch.optim.SGD(actor.parameters(), lr=1e-5)
    for questions in loader:
        rows = draw(actor, tokenizer, questions, times=6)
        with torch.no_grad():
            before = token_scores(actor, rows)
        for _ in range(2):
            loss = weighted(actor, rows, before, judge(rows))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
"""
SCORING = """
    import torch
    def token_scores(model, rows):
        logprobs = model(rows, use_cache=False).logits[:, :-1].log_softmax(-1)
        return logprobs.gather(-1, rows[:, 1:].unsqueeze(-1)).squeeze(-1)
    def weighted(model, rows, before, weights):
        return -((token_scores(model, rows) - before).exp() * weights).mean()
"""
DRAWING = """
    import torch
    @torch.no_grad()
    def draw(model, tokenizer, questions, times):
        given = tokenizer(questions, return_tensors="pt", padding=True).to(model.device)
        given["input_ids"] = given["input_ids"].repeat_interleave(times, dim=0)
        return model.generate(given["input_ids"], do_sample=True)
"""


def test_completions_that_one_file_draws_and_another_scores(tmp_path: Path) -> None:
    """What is said stands where the loop asks for scores with a gradient, not where it does so
    without."""
    files = {"drawing.py": DRAWING, "rounds.py": ROUNDS, "scoring.py": SCORING}
    rule = load(["MEM601"])
    assert codes(reported(tmp_path / "a", files, rule)["rounds.py"]) == {"MEM601"}
    path = tmp_path / "a" / "rounds.py"
    project = project_of(str(path), path.read_bytes(), Modules())
    source = Source(str(path), path.read_text())
    places = check_source(source, rule, api(), project=project)
    assert ["weighted(" in source.line_text(source.line(one.span.start)) for one in places] == [
        True
    ]
    files["drawing.py"] = DRAWING.replace(".repeat_interleave(times, dim=0)", "")
    assert not reported(tmp_path / "b", files, rule)["rounds.py"]


def test_completions_that_another_file_draws_for_no_step(tmp_path: Path) -> None:
    """A measure after the training draws several answers of each question."""
    text = dedent(ROUNDS).replace(
        "rows = draw(actor, tokenizer, questions, times=6)", "rows = questions"
    )
    rounds = text + "print(measure(draw(actor, tokenizer, held_out, times=6)))\n"
    files = {"drawing.py": DRAWING, "rounds.py": rounds, "scoring.py": SCORING}
    assert not reported(tmp_path, files, load(["MEM601"]))["rounds.py"]


def test_a_helper_that_restores_a_model_and_its_optimizer(tmp_path: Path) -> None:
    files = {
        "saved.py": """
            import torch
            def restore(path, model, optimizer):
                saved = torch.load(path)
                model.load_state_dict(saved["model"])
                optimizer.load_state_dict(saved["optimizer"])
                return saved["step"]
        """,
        "go.py": """
            import torch
            from saved import restore
            from transformers import AutoModelForCausalLM
            net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
            optimizer = torch.optim.SGD(net.parameters(), lr=1e-5)
            restore("last.pt", net, optimizer)
            for batch in loader:
                net(**batch).loss.backward()
                optimizer.step()
        """,
    }
    assert codes(reported(tmp_path / "a", files)["saved.py"]) == {"MEM410"}
    files["go.py"] = (
        files["go.py"].replace("backward()", "item()").replace("optimizer.step()", "pass")
    )
    assert not reported(tmp_path / "b", files)["saved.py"]


TIDIES = """
    import gc
    import torch
    class Room:
        def tidy(self):
            gc.collect()
            torch.cuda.empty_cache()
"""
TRAINS_TIDILY = """
    import torch
    from rooms import Room
    from transformers import AutoModelForCausalLM
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
    optimizer, room = torch.optim.SGD(net.parameters(), lr=1e-5), Room()
    for epoch in range(3):
        for ids in loader:
            {before}
            net(ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            {within}
        {behind}
"""


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ({"within": "room.tidy()"}, {"MEM705"}),
        ({"behind": "room.tidy()"}, set[str]()),
        ({"within": "if epoch == 1: room.tidy()"}, set[str]()),
        ({"before": "ids = net.generate(ids)", "within": "room.tidy()"}, set[str]()),
    ],
)
def test_a_method_that_empties_the_cache_in_steps_of_another_file(
    places: dict[str, str], expected: set[str], tmp_path: Path
) -> None:
    lines = {"before": "pass", "within": "pass", "behind": "pass"} | places
    files = {"rooms.py": TIDIES, "go.py": TRAINS_TIDILY.format(**lines)}
    assert codes(reported(tmp_path, files)["rooms.py"]) == expected


@pytest.mark.parametrize("mark", ["src/requirements.txt", "src/notes.txt", "requirements.txt"])
def test_scripts_and_modules_in_a_folder_called_src(mark: str, tmp_path: Path) -> None:
    """Whether the folder is marked as a project's, or nothing is."""
    files = {
        mark: "torch\n",
        "src/loads.py": LOADS,
        "src/fits.py": FITS,
        "src/start.py": STARTS.format(imports="from fits import Coach; from loads import fetch"),
    }
    assert "MEM304" in codes(reported(tmp_path, files)["src/loads.py"])


PYDANTIC = """
    from pydantic import BaseModel
    from transformers import TrainingArguments
    class Plan(BaseModel):
        rows: int
        half: bool = True
        def arguments(self):
            return TrainingArguments("o", per_device_train_batch_size=self.rows, fp16=self.half)
"""
FOLLOWS_PLAN = """
    from transformers import AutoModelForCausalLM
    from trl import SFTTrainer
    from plans import Plan
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="float32")
    SFTTrainer(net, args=Plan({given}).arguments(), train_dataset=rows).train()
"""


def test_arguments_that_a_model_of_pydantic_makes(tmp_path: Path) -> None:
    """Its constructor takes fields; what is missing has the default that stands in the class."""
    rules = load(["MEM402", "MEM905"])
    files = {"plans.py": PYDANTIC, "go.py": FOLLOWS_PLAN.format(given="rows=4")}
    found = reported(tmp_path / "a", files, rules)
    assert codes(found["go.py"]) == {"MEM905"}
    assert not found["plans.py"]
    files["go.py"] = FOLLOWS_PLAN.format(given="rows=4, half=False")
    found = reported(tmp_path / "b", files, rules)
    assert codes(found["go.py"]) == {"MEM402", "MEM905"}  # where it is decided
    assert not found["plans.py"]


PLAIN = """
    from transformers import TrainingArguments
    def options(out):
        return TrainingArguments(out{more})
"""


@pytest.mark.parametrize(
    ("more", "is_plain"), [("", True), (", bf16=True, gradient_checkpointing=True", False)]
)
def test_plain_arguments_of_another_file_for_a_trainer_of_trl(
    more: str, is_plain: bool, tmp_path: Path
) -> None:
    """It is said where the trainer gets them: the other file may serve others too."""
    trains = """
        from trl import SFTTrainer
        from makes import options
        SFTTrainer("Qwen/Qwen3-0.6B", args=options("o"), train_dataset=rows).train()
    """
    files = {"makes.py": PLAIN.format(more=more), "go.py": trains}
    found = reported(tmp_path, files, load(["MEM905"]))
    assert codes(found["go.py"]) == ({"MEM905"} if is_plain else set())
    assert not found["makes.py"]


PREPARES = """
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig
    def adapted(name):
        bits = BitsAndBytesConfig(load_in_4bit=True)
        net = AutoModelForCausalLM.from_pretrained(name, quantization_config=bits)
        net = prepare_model_for_kbit_training(net)
        return get_peft_model(net, LoraConfig(task_type="CAUSAL_LM"))
"""
TRAINS_ADAPTED = """
    from transformers import Trainer, TrainingArguments
    from nets import adapted
    from settings import settings
    if __name__ == "__main__":
        options = TrainingArguments("o", bf16=True{more})
        Trainer(adapted("Qwen/Qwen3-0.6B"), options, train_dataset=rows).train()
"""


@pytest.mark.parametrize(
    ("first", "second", "is_reentrant"),
    [
        ("", ", gradient_checkpointing=settings.saves", True),
        ("", "", True),
        (", gradient_checkpointing=True", ", gradient_checkpointing=settings.saves", False),
        (", gradient_checkpointing=True", ", gradient_checkpointing=True", False),
    ],
)
def test_a_preparation_for_two_scripts(
    first: str, second: str, is_reentrant: bool, tmp_path: Path
) -> None:
    """A script whose options leave checkpointing to the preparation is enough."""
    files = {
        "nets.py": PREPARES,
        "first.py": TRAINS_ADAPTED.format(more=first),
        "second.py": TRAINS_ADAPTED.format(more=second),
    }
    found = reported(tmp_path, files, load(["MEM303"]))
    assert codes(found["nets.py"]) == ({"MEM303"} if is_reentrant else set())


def test_a_preparation_that_another_trainer_has_beside_its_own_options(tmp_path: Path) -> None:
    """The model of the trainer that switches nothing on is another, which is not prepared."""
    trains = """
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
        from nets import adapted
        on = TrainingArguments("o", bf16=True, gradient_checkpointing=True)
        Trainer(adapted("Qwen/Qwen3-0.6B"), on, train_dataset=rows).train()
        plain = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
        Trainer(plain, TrainingArguments("p", bf16=True), train_dataset=rows).train()
    """
    found = reported(tmp_path, {"nets.py": PREPARES, "go.py": trains}, load(["MEM303"]))
    assert not found["nets.py"]


def test_a_limit_of_prompts_whose_trainer_stands_in_another_file(tmp_path: Path) -> None:
    """Where the trainer cannot be rewritten, the option that is gone is still told."""
    files = {
        "settings.py": """
            import os
            from trl import GRPOConfig
            def settings():
                longest = int(os.environ.get("LONGEST", "512"))
                return GRPOConfig("o", max_prompt_length=longest, warmup_ratio=0.1)
        """,
        "go.py": """
            from trl import GRPOTrainer
            from settings import settings
            GRPOTrainer(
                "Qwen/Qwen3-0.6B", reward_funcs=score, args=settings(), train_dataset=rows
            ).train()
        """,
    }
    said = reported(tmp_path, files, load(["MEM901"]))["settings.py"]
    assert any("max_prompt_length" in one for one in said)
    assert any("warmup_ratio" in one for one in said)


DECIDES = {
    "parts.py": """
        from transformers import AutoModelForCausalLM, TrainingArguments
        def fetch(name, precision):
            return AutoModelForCausalLM.from_pretrained(name, dtype=precision)
        def choose(half, spare):
            return TrainingArguments("out", bf16=half, gradient_checkpointing=spare)
    """,
    "decide.py": """
        import torch
        from parts import choose, fetch
        {imports}
        work(fetch("Qwen/Qwen3-0.6B", torch.float32), choose(False, False))
    """,
}
WORKS = """
    from transformers import Trainer
    def work(net, choice):
        Trainer(model=net, args=choice, train_dataset=load_dataset("rows")["train"]).train()
"""


def test_what_the_file_of_a_trainer_decides_is_told_there_alone(tmp_path: Path) -> None:
    told = {"MEM301", "MEM401", "MEM402"}
    files = DECIDES | {"decide.py": dedent(DECIDES["decide.py"]).format(imports=dedent(WORKS))}
    found = reported(tmp_path, files)
    assert codes(found["decide.py"]) >= told
    assert not codes(found["parts.py"]) & told


def test_what_a_script_decides_for_a_trainer_of_a_third_file_is_told_at_the_call(
    tmp_path: Path,
) -> None:
    start = dedent(DECIDES["decide.py"]).format(imports="from works import work")
    found = reported(tmp_path, DECIDES | {"decide.py": start, "works.py": WORKS})
    assert codes(found["parts.py"]) >= {"MEM301", "MEM401", "MEM402"}


MADE = """
    from transformers import AutoModelForCausalLM, TrainingArguments
    student = AutoModelForCausalLM.from_pretrained("google/gemma-2-2b", dtype="float32")
    plan = TrainingArguments("runs", per_device_train_batch_size=8)
"""
TRAINS_WHAT_IS_MADE = {
    "names": "from made import plan, student",
    "module": "import made\n    plan, student = made.plan, made.student",
    "package": "from parts.made import plan\n    import parts.made as it\n    student = it.student",
}


@pytest.mark.parametrize("shape", TRAINS_WHAT_IS_MADE)
def test_models_and_arguments_that_another_file_makes_as_it_is_imported(
    shape: str, tmp_path: Path
) -> None:
    made = "parts/made.py" if shape == "package" else "made.py"
    script = f"""
    from transformers import Trainer
    {TRAINS_WHAT_IS_MADE[shape]}
    def main():
        Trainer(model=student, args=plan, train_dataset=rows).train()
    main()
    """
    files = {made: MADE, "train.py": script, "pyproject.toml": ""}
    if shape == "package":
        files["parts/__init__.py"] = ""
    found = reported(tmp_path, files)
    assert {"MEM301", "MEM401", "MEM402"} <= codes(found[made])
    assert {"MEM201", "MEM501"} <= codes(found["train.py"])


@pytest.mark.parametrize(
    "plan",
    [
        'plan = TrainingArguments("runs")\n    plan.bf16 = plan.gradient_checkpointing = True',
        'if LARGE:\n        plan = TrainingArguments("runs", bf16=True)\n'
        '    else:\n        plan = TrainingArguments("tiny")',
        'def fetch():\n        return 1\n    plan = REGISTRY["plan"]',
    ],
)
def test_arguments_of_another_file_that_are_not_certain(plan: str, tmp_path: Path) -> None:
    made = f"""
    from transformers import TrainingArguments
    from elsewhere import LARGE, REGISTRY
    {plan}
    """
    script = """
    from transformers import AutoModelForCausalLM, Trainer
    from made import plan
    net = AutoModelForCausalLM.from_pretrained("google/gemma-2-2b", dtype="bfloat16")
    Trainer(net, plan, train_dataset=rows).train()
    """
    found = reported(tmp_path, {"made.py": made, "train.py": script, "pyproject.toml": ""})
    assert not codes(found["made.py"] | found["train.py"]) & {"MEM301", "MEM402"}


READS = """
    import torch
    from torch import nn
    from torch.nn import functional as F
    class Layer(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        def forward(self, x):
            return x + self.back(self.wide(x).relu())
    class Reader(nn.Module):
        def __init__(self, words, width, depth):
            super().__init__()
            self.table = nn.Embedding(words, width)
            self.layers = nn.ModuleList([Layer(width) for _ in range(depth)])
            self.head = nn.Linear(width, words, bias=False)
        def forward(self, ids, wanted=None):
            x = self.table(ids)
            for layer in self.layers:
                x = layer(x)
            scores = self.head(x){cast}
            if wanted is None:
                return scores, None
            return scores, F.cross_entropy(scores.view(-1, scores.size(-1)), wanted.view(-1))
"""
TEACHES_READER = """
    import torch
    from reads import Reader
    reader = Reader(50304, 768, 12).to("cuda")
    adam = torch.optim.AdamW(reader.parameters())
    for ids, wanted in batches:
        scores, cost = reader(ids, wanted)
        adam.zero_grad()
        cost.backward()
        adam.step()
"""


@pytest.mark.parametrize(("cast", "code"), [("", "MEM201"), (".float()", "MEM204")])
def test_the_loss_in_a_model_of_another_file(cast: str, code: str, tmp_path: Path) -> None:
    """The file of the model speaks of no library of models, and of no training."""
    files = {"reads.py": READS.format(cast=cast), "go.py": TEACHES_READER}
    assert code in codes(reported(tmp_path / "a", files)["reads.py"])
    files["go.py"] = """
        import torch
        from reads import Reader
        reader = Reader(50304, 768, 12).to("cuda").eval()
        with torch.no_grad():
            print(sum(reader(ids, wanted)[1] for ids, wanted in batches))
    """
    assert code not in codes(reported(tmp_path / "b", files)["reads.py"])


def notebook(*cells: str, indent: int | None = 1) -> str:
    """A notebook's file."""
    made = [
        {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": dedent(cell).strip().splitlines(keepends=True),
        }
        for cell in cells
    ]
    document = {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=indent)


TEACHES = """
    import torch
    def teach(net, batches):
        net.train()
        adam = torch.optim.AdamW(net.parameters(), fused=True)
        for batch in batches:
            answer = net(**batch)
            answer.loss.backward()
            adam.step()
            adam.zero_grad()
"""
LOADED = """
    from transformers import AutoModelForCausalLM
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
"""
NOTEBOOKS: dict[str, dict[str, str]] = {
    "a folder that it adds to the path": {
        "src/lessons.py": TEACHES,
        "notebooks/try.ipynb": notebook(
            'import sys\nsys.path.append("../src")\nfrom lessons import teach',
            LOADED,
            "teach(net, batches)",
        ),
    },
    "a package beside it": {
        "school/__init__.py": "",
        "school/lessons.py": TEACHES,
        "try.ipynb": notebook(
            "%load_ext autoreload\nfrom school.lessons import teach",
            LOADED,
            "teach(net, batches)",
            indent=None,
        ),
    },
    "a module by its name": {
        "setup.cfg": "",
        "lessons.py": TEACHES,
        "try.ipynb": notebook(
            "!pip install transformers\nimport lessons as school",
            LOADED,
            "school.teach(net, batches)",
        ),
    },
}


@pytest.mark.parametrize("layout", NOTEBOOKS)
def test_notebooks_that_train_with_a_module(layout: str, tmp_path: Path) -> None:
    """The model is judged in the notebook, and the loop in the module, as if they were one."""
    found = reported(tmp_path, NOTEBOOKS[layout])
    both = set().union(*(codes(one) for name, one in found.items()))
    assert {"MEM201", "MEM301", "MEM302", "MEM307"} <= both
    (written,) = (one for name, one in found.items() if name.endswith(".ipynb"))
    assert "MEM301" in codes(written)


@pytest.mark.parametrize(
    "call",
    [
        "net.gradient_checkpointing_enable(); net.config.use_cache = False; teach(net, batches)",
        "print(net.generate(**batch))",
    ],
)
def test_notebooks_that_waste_nothing(call: str, tmp_path: Path) -> None:
    """What a notebook does to its model is known in the module; what it never calls trains none."""
    cells = ["from lessons import teach", LOADED, call]
    found = reported(
        tmp_path, {"setup.cfg": "", "lessons.py": TEACHES, "try.ipynb": notebook(*cells)}
    )
    assert not {"MEM301", "MEM302"} & codes(set().union(*found.values()))


SUMS = """
    import torch
    class Sums(torch.utils.data.Dataset):
        def __init__(self, tokenizer, rows):
            self.asked = tokenizer([one["question"] for one in rows], padding=False)
            self.told = tokenizer([one["answer"] for one in rows], padding=False)
        def __getitem__(self, place):
            ids = self.asked["input_ids"][place] + self.told["input_ids"][place]
            return {"input_ids": torch.tensor(ids)}
    class Puts:
        def __init__(self, tokenizer):
            self.tokenizer = tokenizer
        def __call__(self, rows):
            return self.tokenizer(rows, padding="max_length", max_length=512)
"""
TEACHES_SUMS = """
    import torch
    from torch.utils.data import DataLoader
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from rows import Puts, Sums
    words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    loaders = DataLoader({given}), DataLoader({other})
    for batch in loaders[0]:
        model(**batch, labels=batch["input_ids"]).loss.backward()
    with torch.no_grad():
        for batch in loaders[1]:
            print(model(**batch).logits)
"""


@pytest.mark.parametrize(
    ("given", "other", "told"),
    [
        ("Sums(words, rows)", "more", {"MEM101"}),
        ("texts, collate_fn=Puts(words)", "more", {"MEM102"}),
        ("more", "Sums(words, rows)", set()),
        ("more", "texts, collate_fn=Puts(words)", set()),
    ],
)
def test_a_data_set_and_a_collator_that_get_a_tokenizer_of_another_file(
    given: str, other: str, told: set[str], tmp_path: Path
) -> None:
    files = {"rows.py": SUMS, "go.py": TEACHES_SUMS.format(given=given, other=other)}
    assert codes(reported(tmp_path, files)["rows.py"]) == told


FEED = """
    from torch.utils.data import DataLoader

    def joined(texts, words=None, most=512):
        return words(texts, truncation=True, padding="max_length", max_length=most)

    def feed(rows, collate_fn=None, size=4):
        return DataLoader(rows, batch_size=size, collate_fn=collate_fn)
"""
TAUGHT = """
    from functools import partial
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from torch.utils.data import DataLoader
    from feed import feed, joined

    words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
    optimizer = torch.optim.SGD(net.parameters())
    for batch in {training}:
        net(**batch, labels=batch["input_ids"]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        for batch in {evaluation}:
            print(net(**batch).logits.argmax(-1))
"""


@pytest.mark.parametrize(
    ("training", "evaluation", "expected"),
    [
        ("feed(texts, partial(joined, words=words))", "texts", {"MEM102"}),
        ("DataLoader(texts, collate_fn=partial(joined, words=words))", "texts", {"MEM102"}),
        ("feed(texts, joined)", "texts", {"MEM102"}),
        ("texts", "DataLoader(texts, collate_fn=partial(joined, words=words))", set()),
    ],
)
def test_a_collator_of_another_file_and_what_makes_a_loader_with_it(
    training: str, evaluation: str, expected: set[str], tmp_path: Path
) -> None:
    main = TAUGHT.format(training=training, evaluation=evaluation)
    found = reported(tmp_path, {"feed.py": FEED, "learn.py": main}, load(["MEM102"]))
    assert codes(found["feed.py"]) == expected


def test_more_scripts_that_each_reach_what_no_other_does(tmp_path: Path) -> None:
    names = [f"fit_{number}" for number in range(5)]
    files = {
        "parts.py": "import torch\n"
        + "".join(
            f"def {name}(net, optimizer, rows):\n"
            "    for ids in rows:\n"
            "        net(ids, labels=ids).loss.backward()\n"
            "        optimizer.step()\n"
            "        torch.cuda.empty_cache()\n"
            for name in names
        )
    }
    for name in names:
        files[f"go_{name}.py"] = f"""
            import torch
            from parts import {name}
            from transformers import AutoModelForCausalLM
            net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
            {name}(net, torch.optim.SGD(net.parameters(), lr=1e-5), loader)
        """
    found = reported(tmp_path, files, load(["MEM302", "MEM201"]))
    assert codes(found["parts.py"]) == {"MEM201"}
    assert len(found["parts.py"]) == len(names)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("extra = 1", True),
        ("loss_type = 'sigmoid'", False),
        ("def set_up(self):\n            self.loss_type = 'hinge'", False),
        ("@property\n        def loss_type(self):\n            return 'hinge'", False),
    ],
)
def test_attributes_of_a_base_whose_heir_is_made_in_another_file(
    body: str, told: bool, tmp_path: Path
) -> None:
    """The library's trainer has none: it is there only where a class of the project gives it."""
    files = {
        "base.py": """
            from trl import DPOTrainer
            class Base(DPOTrainer):
                def score(self, losses):
                    return losses if self.loss_type == "sigmoid" else -losses
            """,
        "train.py": f"""
    from base import Base
    class Own(Base):
        {body}
    trainer = Own("Qwen/Qwen3-0.6B", args=None, train_dataset=rows)
    trainer.train()
    """,
    }
    found = reported(tmp_path, files, load(["MEM901"]))
    assert any("has no `loss_type`" in one for one in found["base.py"]) == told


OPTIMIZES = """
    import torch
    def groups_of(net):
        decayed, others = [], []
        for name, weight in net.named_parameters():
            (decayed if weight.dim() > 1 else others).append(weight)
        return torch.optim.AdamW([{"params": decayed}, {"params": others, "weight_decay": 0.0}])
"""
COLLATES = """
    import torch
    from torch.utils.data import DataLoader
    def together(rows):
        ids = torch.zeros(len(rows), LIMIT, dtype=torch.long)
        for place, row in enumerate(rows):
            ids[place, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
        return {"input_ids": ids, "labels": ids.clone()}
    def loader_of(rows):
        return DataLoader(rows, batch_size=8, shuffle=True, collate_fn=together)
    LIMIT = 1024
"""
LOADS_WIDE = """
    from transformers import AutoModelForCausalLM, AutoTokenizer
    def load(name):
        net = AutoModelForCausalLM.from_pretrained(name, dtype="float32").cuda()
        return net, AutoTokenizer.from_pretrained(name)
"""
TRAINS_WITH_ALL = """
    from datasets import load_dataset
    from loads import load
    from optimizes import groups_of
    from collates import loader_of
    class Learner:
        def __init__(self, net, optimizer):
            self.net, self.optimizer = net, optimizer
        def learn(self, batch):
            hidden = self.net.model(batch["input_ids"].cuda()).last_hidden_state
            scores = self.net.lm_head(hidden[:, :-1]).float()
            targets = batch["labels"][:, 1:].cuda()
            loss = torch.nn.functional.cross_entropy(scores.transpose(1, 2), targets)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            return loss.item()
    import torch
    net, words = load("Qwen/Qwen3-8B")
    net.train()
    cut = lambda row: {"input_ids": words(row["text"], truncation=True, max_length=900).input_ids}
    rows = load_dataset("imdb", split="train").map(cut)
    learner = Learner(net, groups_of(net))
    for batch in loader_of(rows):
        print(learner.learn(batch))
"""


def test_an_optimizer_a_collator_a_model_and_steps_in_a_file_each(tmp_path: Path) -> None:
    files = {
        "optimizes.py": OPTIMIZES,
        "collates.py": COLLATES,
        "loads.py": LOADS_WIDE,
        "go.py": TRAINS_WITH_ALL,
    }
    found = {name: codes(said) for name, said in reported(tmp_path / "a", files).items()}
    assert found["optimizes.py"] == {"MEM501", "MEM507"}
    assert found["collates.py"] == {"MEM102"}
    assert found["loads.py"] == {"MEM301", "MEM401", "MEM402", "MEM406"}
    assert found["go.py"] == {"MEM204", "MEM302"}
    line = "(decayed if weight.dim() > 1 else others).append(weight)"
    assert line in OPTIMIZES
    files["optimizes.py"] = OPTIMIZES.replace(line, "if name: decayed.append(weight)")
    files["collates.py"] = COLLATES.replace("LIMIT, d", "max(len(r['input_ids']) for r in rows), d")
    found = {name: codes(said) for name, said in reported(tmp_path / "b", files).items()}
    assert found["optimizes.py"] == set[str]()
    assert found["collates.py"] == {"MEM104"}


FARTHER = {
    "src/nets/__init__.py": "from .net import Net\n",
    "src/nets/net.py": """
        import torch.nn as nn
        from transformers import AutoModelForCausalLM
        class Net(nn.Module):
            def __init__(self, path):
                super().__init__()
                self.net = AutoModelForCausalLM.from_pretrained(path, use_cache=False)
                self.criterion = nn.CrossEntropyLoss()
            def forward(self, ids, labels):
                scores = self.net(ids).logits[:, :-1]
                return self.criterion(scores.transpose(1, 2), labels[:, 1:])
    """,
    "src/learning/__init__.py": "from .learner import Learner\n",
    "src/learning/making.py": """
        def make(path):
            from nets import Net
            return Net(path)
    """,
    "src/learning/learner.py": """
        import torch
        from learning.making import make
        class Learner:
            def __init__(self, path):
                self.net = make(path).cuda()
                self.net.net.gradient_checkpointing_enable()
                self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-5)
            def learn(self, loader):
                self.net.train()
                for ids, labels in loader:
                    self.net(ids, labels).backward()
                    self.optimizer.step()
                    self.optimizer.zero_grad()
    """,
    "src/run/go.py": """
        import os, sys
        sys.path.append(os.path.dirname(os.path.abspath(os.path.dirname(__file__))))
        from learning import Learner
        if __name__ == "__main__":
            Learner("Qwen/Qwen3-8B").learn(rows())
    """,
    "requirements.txt": "transformers",
}


def test_packages_that_hand_on_what_others_import_lie_between(tmp_path: Path) -> None:
    assert "MEM201" in codes(reported(tmp_path, FARTHER)["src/nets/net.py"])


def test_a_file_that_loads_a_model_freezes_it(tmp_path: Path) -> None:
    frozen = """
        net = net.cuda()
        for weight in net.parameters():
            weight.requires_grad = False
        net.lm_head = adapted(net.lm_head)
    """
    loads = """
    from transformers import AutoModelForCausalLM
    def load(name):
        net = AutoModelForCausalLM.from_pretrained(name, dtype="bfloat16"){more}
        return net
    """
    go = """
    import torch
    from loads import load
    net = load("Qwen/Qwen3-8B")
    optimizer = torch.optim.AdamW([one for one in net.parameters() if one.requires_grad])
    net.train()
    for batch in loader:
        net(input_ids=batch["ids"].cuda(), labels=batch["labels"].cuda()).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    whole = {"loads.py": loads.format(more=".cuda()"), "go.py": go}
    assert "MEM507" in codes(reported(tmp_path / "a", whole)["go.py"])
    parts = {"loads.py": loads.format(more=frozen.rstrip()), "go.py": go}
    assert not codes(reported(tmp_path / "b", parts)["go.py"]) & {"MEM501", "MEM504", "MEM507"}


# A load that is prepared for k bits in one file, and the trainer of another.
PREPARES_TABLES = """
    import torch
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig
    def load(settings):
        bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
        net = AutoModelForCausalLM.from_pretrained(settings.name, quantization_config=bits)
        net = prepare_model_for_kbit_training(net)
        return {returned}
"""
NAMES_MODEL = """
    from dataclasses import dataclass
    @dataclass(frozen=True)
    class Settings:
        name: str = "{name}"
"""
ADAPTED = "get_peft_model(net, LoraConfig(r=8))"
TRAINS_TABLES = "Trainer(net, TrainingArguments('out', bf16=True), train_dataset=rows).train()"


@pytest.mark.parametrize(
    ("name", "returned", "starts", "is_told"),
    [
        ("Qwen/Qwen3-8B", ADAPTED, f"net = load(Settings())\n{TRAINS_TABLES}", True),
        (
            "Qwen/Qwen3-8B",
            ADAPTED,
            "import argparse\nparser = argparse.ArgumentParser()\n"
            "parser.add_argument('--name', default=Settings.name)\n"
            f"net = load(Settings(**vars(parser.parse_args())))\n{TRAINS_TABLES}",
            True,
        ),
        (
            "meta-llama/Llama-3.1-8B",
            "net",
            "net = load(Settings())\nSFTTrainer(net, args=SFTConfig('out'), "
            "peft_config=LoraConfig(), train_dataset=rows).train()",
            True,
        ),
        ("mistralai/Mistral-7B-v0.1", ADAPTED, f"net = load(Settings())\n{TRAINS_TABLES}", False),
        ("Qwen/Qwen3-8B", ADAPTED, f"net = load(Settings(name=pick()))\n{TRAINS_TABLES}", False),
        ("Qwen/Qwen3-8B", ADAPTED, "net = load(Settings())\nprint(net.generate(ids))", False),
    ],
)
def test_tables_that_are_upcast_for_a_trainer_of_another_file(
    name: str, returned: str, starts: str, is_told: bool, tmp_path: Path
) -> None:
    imports = (
        "from peft import LoraConfig\nfrom transformers import Trainer, TrainingArguments\n"
        "from trl import SFTConfig, SFTTrainer\n"
        "from loads import load\nfrom names import Settings\n"
    )
    files = {
        "names.py": NAMES_MODEL.format(name=name),
        "loads.py": PREPARES_TABLES.format(returned=returned),
        "start.py": imports + starts,
    }
    assert reported(tmp_path, files, load(["MEM408"]))["start.py"] == set()
    assert ("MEM408" in codes(reported(tmp_path, files)["loads.py"])) is is_told
