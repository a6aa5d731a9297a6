"""Trainers of a script's own class: where the model computes the loss, its logits are there."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.engine.project import Modules, project_of
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source
from tests.rules.test_scripts_above import codes, reported

SCRIPT = """
    import numpy as np
    import torch
    from transformers import (
        AutoModelForCausalLM, Trainer, TrainingArguments, default_data_collator,
    )
    class Tutor(Trainer):
        {body}
    def share(found):
        return {{"right": (np.argmax(found.predictions, -1) == found.label_ids).mean()}}
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16)
    choice = TrainingArguments(
        "out", bf16=True, per_device_train_batch_size=1, eval_strategy="steps", eval_steps=50,
        gradient_checkpointing=True,
    )
    tutor = Tutor(
        model=net, args=choice, train_dataset=first, eval_dataset=second,
        data_collator=default_data_collator, compute_metrics=share,
    )
    tutor.train()
"""
READS_LOSS = """
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            answer = model(**inputs)
            return (answer.loss, answer) if return_outputs else answer.loss
"""
CALLS_BASE = """
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            cost, answer = super().compute_loss(model, inputs, return_outputs=True, **kwargs)
            self.seen += 1
            return (cost, answer) if return_outputs else cost
"""
LOGS = """
        def log(self, logs, *rest):
            super().log({**logs, "hours": 1.0}, *rest)
"""
ADDS_LOGITS = """
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            answer = model(**inputs)
            sharp = answer.logits.float().softmax(-1).max(-1).values.mean()
            cost = answer["loss"] - 0.1 * sharp
            return (cost, answer) if return_outputs else cost
"""
COMPUTES = """
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            return my_cost(model, inputs)
"""
EVALUATES = """
        def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
            return super().prediction_step(model, inputs, True, ignore_keys)
"""


def found(folder: Path, body: str) -> set[str]:
    text = dedent(SCRIPT).replace("    {body}", body.replace("\n    ", "\n").strip("\n"), 1)
    return codes(reported(folder, {"go.py": text})["go.py"])


@pytest.mark.parametrize("body", [READS_LOSS, CALLS_BASE, LOGS])
def test_the_loss_is_that_of_the_model(body: str, tmp_path: Path) -> None:
    assert {"MEM201", "MEM205", "MEM207"} <= found(tmp_path, body)


def test_what_reads_the_logits_needs_them(tmp_path: Path) -> None:
    told = found(tmp_path, ADDS_LOGITS)
    assert {"MEM205", "MEM207"} <= told
    assert "MEM201" not in told


def test_a_loss_of_which_nothing_is_known(tmp_path: Path) -> None:
    assert not {"MEM201", "MEM205", "MEM207"} & found(tmp_path, COMPUTES)


def test_an_evaluation_of_its_own(tmp_path: Path) -> None:
    assert not {"MEM205", "MEM207"} & found(tmp_path, LOGS + EVALUATES)


def test_a_base_in_another_file_decides(tmp_path: Path) -> None:
    base = "from transformers import Trainer\nclass Base(Trainer):" + COMPUTES.replace(
        "\n    ", "\n"
    )
    text = dedent(SCRIPT).replace("class Tutor(Trainer):\n    {body}", "class Tutor(Base): pass")
    files = {"base.py": base, "go.py": "from base import Base\n" + text}
    assert not {"MEM201", "MEM205", "MEM207"} & codes(reported(tmp_path, files)["go.py"])
    files["base.py"] = base.replace("return my_cost(model, inputs)", "return model(**inputs).loss")
    assert {"MEM205", "MEM207"} <= codes(reported(tmp_path, files)["go.py"])


OWN_INIT = """
        def __init__(self, *args, share=0.5, **kwargs):
            super().__init__(*args, {more}**kwargs)
            self.share = share
"""


def test_a_constructor_that_hands_all_on(tmp_path: Path) -> None:
    plain, more = (
        OWN_INIT.format(more=one) for one in ("", "preprocess_logits_for_metrics=pick, ")
    )
    assert "MEM205" in found(tmp_path, plain + READS_LOSS)
    assert "MEM205" not in found(tmp_path, more + READS_LOSS)


UNSEEN = """
    import yaml
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    def work(place):
        with open(place) as file:
            told = yaml.safe_load(file)
        net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
        Trainer(model=net, args=TrainingArguments(**told["run"]), train_dataset=rows).train()
    if __name__ == "__main__":
        import sys
        work(sys.argv[1])
"""
FEW = "run:\n  output_dir: out\n  bf16: true\n"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"plans/few.yaml": FEW}, True),
        ({"plans/few.yaml": FEW, "go.sh": "python go.py plans/few.yaml"}, True),
        ({}, True),
        ({"plans/few.yaml": FEW + "  use_liger_kernel: true\n"}, False),
        ({"plans/more.json": '{"run": {"use_liger_kernel": true}}'}, False),
        ({"plans.py": "PLAN = dict(label_smoothing_factor=0.1)\n"}, False),
    ],
)
def test_options_that_no_file_of_the_project_names(
    files: dict[str, str], *, told: bool, tmp_path: Path
) -> None:
    """What a script reads from a file that nobody knows may be any option that the project has."""
    found = reported(tmp_path, {"pyproject.toml": "", **files, "go.py": UNSEEN})["go.py"]
    assert ("MEM201" in codes(found)) is told


def test_a_result_depends_on_what_settings_say(tmp_path: Path) -> None:
    plan = tmp_path / "plans" / "few.yaml"
    reported(tmp_path, {"pyproject.toml": "", "plans/few.yaml": FEW, "go.py": UNSEEN})
    start = tmp_path / "go.py"
    project = project_of(str(start), start.read_bytes(), Modules())
    assert project is not None
    assert project.says("use_liger_kernel") is False
    assert {str(plan), str(plan.parent)} <= {path for path, _ in project.digests()}


BY_COMMAND = """
    from transformers import AutoModelForCausalLM, HfArgumentParser
    from trl import {kind}Config, {kind}Trainer
    choice, = HfArgumentParser({kind}Config).parse_args_into_dataclasses()
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    {kind}Trainer(net, args=choice, train_dataset=rows{more}).train()
"""


def told_by(folder: Path, files: dict[str, str], code: str) -> set[str]:
    """What a rule says of a script at versions whose losses keep full logits."""
    reported(folder, {"pyproject.toml": "", **files}, load([]))
    start = folder / "go.py"
    project = project_of(str(start), start.read_bytes(), Modules())
    source = Source(str(start), start.read_text())
    versions = Api(parse_target("trl=0.19,transformers=4.57"))
    return {one.code for one in check_source(source, load([code]), versions, project=project)}


@pytest.mark.parametrize(
    ("kind", "more", "code", "heard"),
    [("SFT", "", "MEM201", True), ("GRPO", ", reward_funcs=score", "MEM203", False)],
)
def test_recipes_of_a_command_line_may_ask_for_another_loss(
    kind: str, more: str, code: str, *, heard: bool, tmp_path: Path
) -> None:
    """Where some recipe does, a script of them all is told nothing; a policy's loss is another."""
    files = {"go.py": BY_COMMAND.format(kind=kind, more=more)}
    assert told_by(tmp_path / "a", files, code) == {code}
    files["recipes/a.yaml"] = "use_liger_kernel: true\n"
    assert told_by(tmp_path / "b", files, code) == (set() if heard else {code})


def test_a_constructor_that_is_not_followed_may_take_any_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = """\
from transformers import Trainer

class Preferring(Trainer):
    def __init__(self, model=None, train_dataset=None, tokenizer=None):
        super().__init__(model, None, None, train_dataset, None, tokenizer)

Preferring(model=model, train_dataset=rows, tokenizer=tokenizer).train()
"""
    monkeypatch.setattr("memlint.engine.functions.MAX_STATEMENTS", 0)
    rules = load(["MEM901"])
    assert check_source(Source("a.py", text), rules, Api(newest())) == []


DISTILS = """
    from transformers import Trainer
    class Tutor(Trainer):
        def __init__(self, share, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.share = share
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            answer = model(**{"input_ids": inputs["ids"], "labels": inputs["ids"]})
            return self.share * distil(answer.logits)
"""
BUILDS = """
    from transformers import {kind}, TrainingArguments
    from tutor import Tutor
    net = {kind}.from_pretrained("Qwen/Qwen3-0.6B")
    Tutor(0.5, model=net, args=TrainingArguments("o"), train_dataset=rows).train()
"""


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (["AutoModelForCausalLM"], True),
        (["AutoModelForTokenClassification"], False),
        (["AutoModelForCausalLM", "AutoModelForTokenClassification"], False),
    ],
)
def test_the_model_of_a_trainer_that_other_files_make(
    kinds: list[str], *, told: bool, tmp_path: Path
) -> None:
    files = {"tutor.py": DISTILS} | {f"{one}.py": BUILDS.format(kind=one) for one in kinds}
    assert ("MEM208" in codes(reported(tmp_path, files)["tutor.py"])) is told


def test_a_trainer_of_another_file_that_wraps_its_model(tmp_path: Path) -> None:
    wraps = DISTILS.replace("*args, **kwargs):", "model, **kwargs):", 1)
    wraps = wraps.replace("__init__(*args, ", "__init__(model=Wrapped(model), ")
    files = {"tutor.py": wraps, "go.py": BUILDS.format(kind="AutoModelForCausalLM")}
    assert "MEM208" not in codes(reported(tmp_path, files)["tutor.py"])
