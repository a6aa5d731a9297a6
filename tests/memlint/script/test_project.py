"""Other files of the project: found, run where they are called, bounded, and never reported in."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from memlint.engine.project import MAX_MODULES, Modules, Project, is_elsewhere, project_of
from memlint.engine.tensors import Role
from memlint.rule import edits
from memlint.rule.registry import load
from memlint.script.lengths import Lengths
from memlint.script.model import Script, build_script
from memlint.source import Source
from tests.memlint.script.scripts import api

MODELS = """
    from transformers import AutoModelForCausalLM
    def build(name="Qwen/Qwen3-0.6B"):
        return AutoModelForCausalLM.from_pretrained(name)
"""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")


def read_in(folder: Path, files: dict[str, str], script: str = "train.py") -> Script:
    """The model of one script of a project."""
    write(folder, {"pyproject.toml": "", **files})
    path = folder / script
    source = Source(str(path), path.read_text(encoding="utf-8"))
    return build_script(source, api(), Project(str(path)))


LOOP = """
    for batch in loader:
        model(**batch).loss.backward()
"""
PLACES: dict[str, tuple[dict[str, str], str]] = {
    "beside the script": (
        {"models.py": MODELS, "train.py": "from models import build\nmodel = build()\n"},
        "train.py",
    ),
    "as a module": (
        {"models.py": MODELS, "train.py": "import models\nmodel = models.build()\n"},
        "train.py",
    ),
    "in a package": (
        {
            "lib/__init__.py": "",
            "lib/models.py": MODELS,
            "train.py": "from lib.models import build\nmodel = build()\n",
        },
        "train.py",
    ),
    "exported by the package": (
        {
            "lib/__init__.py": "from .models import build\n",
            "lib/models.py": MODELS,
            "train.py": "from lib import build\nmodel = build()\n",
        },
        "train.py",
    ),
    "relative": (
        {
            "lib/__init__.py": "",
            "lib/models.py": MODELS,
            "lib/train.py": "from .models import build\nmodel = build()\n",
        },
        "lib/train.py",
    ),
    "relative, one up": (
        {
            "lib/__init__.py": "",
            "lib/models.py": MODELS,
            "lib/run/__init__.py": "",
            "lib/run/train.py": "from ..models import build\nmodel = build()\n",
        },
        "lib/run/train.py",
    ),
    "from the root of the project": (
        {
            "lib/models.py": MODELS,
            "scripts/train.py": "from lib.models import build\nmodel = build()\n",
        },
        "scripts/train.py",
    ),
    "imported as the script may be started": (
        {
            "lib/__init__.py": "",
            "lib/models.py": MODELS,
            "lib/train.py": "try:\n    from .models import build\nexcept ImportError:\n"
            "    from models import build\nmodel = build()\n",
        },
        "lib/train.py",
    ),
    "in src": (
        {
            "src/lib/models.py": MODELS,
            "scripts/train.py": "from lib.models import build\nmodel = build()\n",
        },
        "scripts/train.py",
    ),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_model_that_another_file_loads(case: str, tmp_path: Path) -> None:
    files, script = PLACES[case]
    files = {**files, script: files[script] + dedent(LOOP)}
    (forward,) = read_in(tmp_path, files, script).forwards
    assert forward.language_model is True
    assert forward.facts.name == "Qwen/Qwen3-0.6B"
    assert forward.in_training_step
    # It has no place in this file.
    assert forward.facts.load is not None
    assert is_elsewhere(forward.facts.load.node)


@pytest.mark.parametrize("folder", ["code", "torch"])
def test_a_package_by_the_name_of_its_folder_where_nothing_marks_the_project(
    folder: str, tmp_path: Path
) -> None:
    loop = f"from {folder}.parts.models import build\nmodel = build()\n{dedent(LOOP)}"
    files = {f"{folder}/parts/models.py": MODELS, f"{folder}/run/train.py": loop}
    write(tmp_path, files)
    path = tmp_path / folder / "run" / "train.py"
    script = build_script(Source(str(path), loop), api(), Project(str(path)))
    (forward,) = script.forwards
    assert (forward.facts.name == "Qwen/Qwen3-0.6B") is (folder == "code")


@pytest.mark.parametrize(
    ("line", "scripts"), [("for rows of text.", 1), ("for row in rows:", 0), ("while true", 1)]
)
def test_prose_makes_no_script_of_a_module(line: str, scripts: int, tmp_path: Path) -> None:
    models = f'"""Models\n{line}\n"""\n{dedent(MODELS)}'
    train = f"from models import build\nmodel = build()\n{dedent(LOOP)}"
    write(tmp_path, {"pyproject.toml": "", "models.py": models, "train.py": train})
    path = tmp_path / "models.py"
    project = project_of(str(path), models.encode(), Modules())
    assert len(project.scripts_above if project is not None else ()) == scripts


def test_without_a_project_it_is_unknown(tmp_path: Path) -> None:
    write(tmp_path, {"models.py": MODELS})
    path = tmp_path / "train.py"
    text = "from models import build\nmodel = build()\n" + dedent(LOOP)
    (forward,) = build_script(Source(str(path), text), api()).forwards
    assert forward.language_model is None


def test_a_helper_that_computes_log_probabilities(tmp_path: Path) -> None:
    script = read_in(
        tmp_path,
        {
            "losses.py": """
                import torch.nn.functional as F
                def logps(logits, labels):
                    return F.log_softmax(logits, -1).gather(-1, labels.unsqueeze(-1))
            """,
            "train.py": """
                from losses import logps
                from transformers import AutoModelForCausalLM
                model = AutoModelForCausalLM.from_pretrained("q")
                result = logps(model(ids).logits, ids)
                print(result)
            """,
        },
    )
    (name,) = [one for one in script.nodes(ast.Name) if one.id == "result" and one.lineno == 6]
    (found,) = script.tensors(name)
    assert found.role is Role.LOG_PROBABILITIES
    assert not found.as_large_as_logits


def test_a_wrapper_module_of_another_file(tmp_path: Path) -> None:
    script = read_in(
        tmp_path,
        {
            "wrapper.py": """
                import torch.nn as nn
                class Wrapper(nn.Module):
                    def __init__(self, inner):
                        super().__init__()
                        self.inner = inner
                    def forward(self, **batch):
                        return self.inner(**batch)
            """,
            "train.py": """
                from transformers import AutoModelForCausalLM
                from wrapper import Wrapper
                model = Wrapper(AutoModelForCausalLM.from_pretrained("q"))
                for batch in loader:
                    out = model(**batch)
                    out.loss.backward()
            """,
        },
    )
    (step,) = script.steps
    assert [(one.name, one.holds_logits) for one in step.held] == [("out", True)]
    assert {forward.elsewhere for forward in step.all_forwards} == {True, False}
    assert [forward.own for forward in step.forwards] == [True]


def test_a_step_whose_backward_is_in_another_file(tmp_path: Path) -> None:
    script = read_in(
        tmp_path,
        {
            "steps.py": """
                def step(model, batch):
                    loss = model(**batch).loss
                    loss.backward()
                    return loss.item()
            """,
            "train.py": """
                from steps import step
                from transformers import AutoModelForCausalLM
                model = AutoModelForCausalLM.from_pretrained("q")
                for batch in loader:
                    step(model, batch)
            """,
        },
    )
    (found,) = script.steps
    assert found.node.lineno == 5
    assert found.backwards == ()
    assert found.forwards == ()
    (forward,) = found.all_forwards
    assert forward.language_model
    assert script.trains


def test_rows_cut_into_blocks_by_another_file(tmp_path: Path) -> None:
    script = read_in(
        tmp_path,
        {
            "prepare.py": """
                def group_texts(rows):
                    joined = {k: sum(rows[k], []) for k in rows}
                    return {k: [t[i : i + 512] for i in range(0, 99)] for k, t in joined.items()}
            """,
            "train.py": """
                from datasets import load_dataset
                from prepare import group_texts
                from transformers import Trainer
                data = load_dataset("imdb")["train"].map(group_texts, batched=True)
                Trainer(model, train_dataset=data)
            """,
        },
    )
    (dataset,) = script.datasets
    (effect,) = dataset.effects
    assert (effect.kind, effect.tokens) == (Lengths.CUT, 512)
    # Its place is where the function is mapped.
    assert script.text(effect.node).endswith("batched=True)")


def test_nothing_of_another_file_is_listed(tmp_path: Path) -> None:
    script = read_in(
        tmp_path,
        {
            "lib.py": """
                from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
                def run():
                    import torch
                    class Local: pass
                    args = TrainingArguments("out")
                    model = AutoModelForCausalLM.from_pretrained("q")
                    for batch in loader:
                        model(**batch).loss.backward()
                    return Trainer(model, args)
            """,
            "train.py": "from lib import run\nprint(run())\n",
        },
    )
    assert [call.name for call in script.calls] == ["print", "lib.run"]
    nothing = (script.trainers, script.configs, script.model_loads, script.forwards, script.steps)
    assert not any(nothing)
    assert [full for _, _, full in script.imports] == ["lib.run"]
    assert script.classes == []
    assert not any(is_elsewhere(node) for node, _ in script.attribute_reads())


def test_settings_of_another_file_have_no_place_here(tmp_path: Path) -> None:
    script = read_in(
        tmp_path,
        {
            "options.py": "def options():\n    return {'packing': False}\n",
            "train.py": """
                from options import options
                from trl import SFTConfig
                config = SFTConfig("out", **options())
            """,
        },
    )
    setting = script.configs[0].setting("packing")
    assert setting.value is False
    assert (setting.node, setting.owner) == (None, None)
    assert edits.set_option(script, script.configs[0], "packing", "True") is None


@pytest.mark.parametrize(
    ("kept", "codes"),
    [
        ("name in signature(cls).parameters", set()),
        ("value is not None", {"MEM901"}),
        ("name in signature(unknown()).parameters", {"MEM901"}),
        ("value and 'out' in signature(cls).parameters", {"MEM901"}),
    ],
)
def test_options_that_another_file_sorts_out(kept: str, codes: set[str], tmp_path: Path) -> None:
    files = {
        "sorting.py": f"""
            from inspect import signature
            def sort(cls, options):
                return {{name: value for name, value in options.items() if {kept}}}
        """,
        "train.py": """
            from sorting import sort
            from trl import SFTConfig
            SFTConfig(**sort(SFTConfig, {"output_dir": "out", "evaluation_strategy": "no"}))
        """,
    }
    script = read_in(tmp_path, files)
    assert {rule.code for rule in load(["MEM901"]) if list(rule.check(script))} == codes


def test_trainers_derived_in_another_file_are_trainers(tmp_path: Path) -> None:
    script = read_in(
        tmp_path,
        {
            "own.py": "from transformers import Trainer\nclass Own(Trainer): pass\n",
            "train.py": "from own import Own\nOwn(model)\n",
        },
    )
    (trainer,) = script.trainers
    assert trainer.kind == "transformers.Trainer"
    assert trainer.subclass is not None
    assert not script.classes


@pytest.mark.parametrize(
    ("imported", "batch"),
    [
        ("from options import BATCH", "BATCH"),
        ("import options", "options.BATCH"),
        ("import options", "options.SFT['rows']"),
        ("from options import Options\noptions = Options()", "options.rows"),
        ("from options import ready", "ready.rows"),
    ],
)
def test_data_of_another_file_are_values(tmp_path: Path, imported: str, batch: str) -> None:
    script = read_in(
        tmp_path,
        {
            "options.py": """
                from dataclasses import dataclass
                BATCH = 4
                SFT = {"rows": BATCH}
                @dataclass
                class Options:
                    rows: int = 4
                ready = Options()
            """,
            "train.py": f"""
                {imported.replace(chr(10), chr(10) + " " * 16)}
                from trl import SFTConfig
                config = SFTConfig("out", per_device_train_batch_size={batch})
            """,
        },
    )
    (config,) = script.configs
    assert config.setting("per_device_train_batch_size").value == 4
    assert edits.set_option(script, config, "per_device_train_batch_size", "2") is None


def test_arguments_of_another_file_are_parsed(tmp_path: Path) -> None:
    script = read_in(
        tmp_path,
        {
            "arguments.py": """
                from dataclasses import dataclass, field
                import transformers
                @dataclass
                class Arguments(transformers.TrainingArguments):
                    cache_dir: str = field(default="cache")
            """,
            "train.py": """
                from arguments import Arguments
                from transformers import HfArgumentParser, Trainer
                (args,) = HfArgumentParser(Arguments).parse_args_into_dataclasses()
                Trainer(model, args).train()
            """,
        },
    )
    (trainer,) = script.trainers
    assert trainer.config is not None
    assert trainer.config.from_command_line


def test_arguments_of_two_ways_to_parse_are_one_configuration(tmp_path: Path) -> None:
    script = read_in(
        tmp_path,
        {
            "train.py": """
                import sys
                from transformers import HfArgumentParser, Trainer, TrainingArguments
                parser = HfArgumentParser(TrainingArguments)
                if sys.argv[1].endswith(".json"):
                    (args,) = parser.parse_json_file(sys.argv[1])
                else:
                    (args,) = parser.parse_args_into_dataclasses()
                Trainer(model, args).train()
            """,
        },
    )
    (trainer,) = script.trainers
    assert trainer.config is not None


def test_circles_are_cut(tmp_path: Path) -> None:
    script = read_in(
        tmp_path,
        {
            "a.py": "from b import g\nx = g()\ndef f():\n    return g()\n",
            "b.py": "from a import f\ny = f()\ndef g():\n    return f()\n",
            "train.py": "from a import f\nf()\n",
        },
    )
    assert len(script.calls) == 1


def test_number_of_files_is_bounded(tmp_path: Path) -> None:
    count = MAX_MODULES + 3
    files = {f"m{n}.py": MODELS for n in range(count)}
    lines = [f"from m{n} import build as b{n}\nmodel = b{n}()\nmodel(ids)\n" for n in range(count)]
    script = read_in(tmp_path, {**files, "train.py": "".join(lines)})
    known = [forward for forward in script.forwards if forward.language_model]
    assert len(known) == MAX_MODULES


def test_what_does_not_parse_is_unknown(tmp_path: Path) -> None:
    files = {"models.py": "def build(:\n", "train.py": "from models import build\nm = build()\n"}
    assert len(read_in(tmp_path, files).calls) == 1


def test_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"models.py": MODELS, "pyproject.toml": ""})
    modules, read = Modules(), []
    import memlint.engine.project as project

    before = project._read
    monkeypatch.setattr(project, "_read", lambda *given: (read.append(given), before(*given))[1])
    for name in ("one.py", "two.py"):
        path = str(tmp_path / name)
        source = Source(path, "from models import build\nmodel = build()\nmodel(ids)\n")
        found = Project(path, modules)
        assert build_script(source, api(), found).forwards[0].language_model
        assert str(tmp_path / "models.py") in found.relied_on
    assert len(read) == 1


def test_libraries_are_not_looked_for(tmp_path: Path) -> None:
    write(tmp_path, {"torch.py": "def zeros():\n    return None\n"})
    found = Project(str(tmp_path / "train.py"))
    assert found.find("torch.zeros") is None
    assert not found.relied_on


def test_a_settings_file_that_the_script_names(tmp_path: Path) -> None:
    text = "args = SFTConfig(deepspeed='configs/ds.json')\n"
    files = {"configs/ds.json": '{"zero_optimization": {"stage": 3}}', "runs/train.py": text}
    script = read_in(tmp_path, files, "runs/train.py")
    assert script.settings_file("configs/ds.json") == {"zero_optimization": {"stage": 3}}
    assert script.settings_file("configs/other.json") is None
    assert script.settings_file("configs/ds.yaml") is None
    (tmp_path / "configs/ds.json").write_text('{"zero_optimization": ', encoding="utf-8")
    assert script.settings_file("configs/ds.json") is None


def test_a_settings_file_is_relied_on(tmp_path: Path) -> None:
    write(tmp_path, {"ds.json": "{}", "train.py": ""})
    project = Project(str(tmp_path / "train.py"))
    assert project.settings_file("ds.json") == {}
    before = project.digests()
    (tmp_path / "ds.json").write_text('{"a": 1}', encoding="utf-8")
    assert project.digests() != before


def test_rules_of_loops_find_in_this_file_what_another_computes(tmp_path: Path) -> None:
    """A step whose forward pass is in another file is reported where the model is loaded."""
    steps = """
        def step(model, batch):
            return model(**batch).loss
    """
    text = """
        import torch
        from transformers import AutoModelForCausalLM
        from steps import step
        model = AutoModelForCausalLM.from_pretrained("distilgpt2", dtype=torch.float32).to("cuda")
        optimizer = torch.optim.AdamW(model.parameters())
        for batch in loader:
            step(model, batch).backward()
            optimizer.step()
    """
    script = read_in(tmp_path, {"steps.py": steps, "train.py": text})
    (rule,) = load(["MEM402"])
    (found,) = rule.findings(script)
    assert script.source.text[found.span.start :].startswith("AutoModelForCausalLM.from_pretrained")
