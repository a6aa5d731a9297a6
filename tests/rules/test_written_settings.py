"""Settings that a script reads from files which it names, and from variables with a default."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.cli.main import run
from memlint.engine.project import Modules, Project
from memlint.runs.changes import set_option, together
from memlint.script.model import Script, build_script
from memlint.source import Source
from memlint.source.edits import ReplaceExpression
from tests.rules.test_scripts_above import codes, load, reported

TRAINS = """
    import {imports}
    from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="auto")
    {reads}
    Trainer(model, args, train_dataset=rows).train()
"""
FLAT = "output_dir: out\nbf16: true\nactivation_checkpointing: {on}\n"
NESTED = "name: x\ntraining:\n  output_dir: out\n  bf16: true\n  activation_checkpointing: {on}\n"
READS = {
    "a file that is opened": (
        "yaml", "args = TrainingArguments(**yaml.safe_load(open('flat.yaml')))"
    ),
    "a file in a context": (
        "yaml",
        "with open('nested.yaml') as file:\n        config = yaml.safe_load(file)\n"
        "    args = TrainingArguments(**config['training'])",
    ),
    "OmegaConf": (
        "omegaconf",
        "config = omegaconf.OmegaConf.load('nested.yaml')\n"
        "    args = TrainingArguments(**omegaconf.OmegaConf.to_container(config.training))",
    ),
    "JSON": ("json", "args = TrainingArguments(**json.load(open('flat.json')))"),
    "a parser of a file": (
        "os", "(args,) = HfArgumentParser(TrainingArguments).parse_yaml_file('flat.yaml')"
    ),
    "a path of parts": (
        "os, pathlib, yaml",
        "path = pathlib.Path(__file__).resolve().parent / 'sub' / 'flat.yaml'\n"
        "    args = TrainingArguments(**yaml.safe_load(path.read_text()))",
    ),
    "a path that the system joins": (
        "os, yaml",
        "name = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'sub', 'flat.yaml')\n"
        "    args = TrainingArguments(**yaml.safe_load(open(name)))",
    ),
    "a path by a function and the command line": (
        "argparse, pathlib, yaml",
        "def read(name: str):\n        path = pathlib.Path(name)\n"
        "        if not path.exists():\n            raise FileNotFoundError(path)\n"
        "        with path.open('r') as file:\n            return yaml.safe_load(file)\n"
        "    parser = argparse.ArgumentParser()\n"
        "    parser.add_argument('--folder', type=pathlib.Path, default=pathlib.Path('sub'))\n"
        "    given = parser.parse_args()\n"
        "    args = TrainingArguments(**read(str(given.folder / 'flat.yaml')))",
    ),
    "a parser of a dict": (
        "yaml",
        "(args,) = HfArgumentParser(TrainingArguments).parse_dict("
        "yaml.safe_load(open('flat.yaml')))",
    ),
}  # fmt: skip
OTHERS = {
    "a name that the user gives": (
        "sys, yaml", "args = TrainingArguments(**yaml.safe_load(open(sys.argv[1])))"
    ),
    "a path with a part that nobody knows": (
        "pathlib, sys, yaml",
        "path = pathlib.Path('sub') / sys.argv[1] / 'flat.yaml'\n"
        "    args = TrainingArguments(**yaml.safe_load(path.read_text()))",
    ),
    "what something unknown resolves to": (
        "settings, yaml",
        "path = settings.find().resolve() / 'flat.yaml'\n"
        "    args = TrainingArguments(**yaml.safe_load(path.open()))",
    ),
    "a file that is not there": (
        "yaml", "args = TrainingArguments(**yaml.safe_load(open('other.yaml')))"
    ),
    "settings that are added": (
        "sys, yaml", "config = yaml.safe_load(open('flat.yaml'))\n    config.update(more())\n"
        "    args = TrainingArguments(**config)"
    ),
}  # fmt: skip


def found(folder: Path, name: str, on: str) -> set[str]:
    imports, reads = {**READS, **OTHERS}[name]
    as_json = f'{{"output_dir": "out", "bf16": true, "activation_checkpointing": {on}}}'
    files = {
        "flat.yaml": FLAT.format(on=on),
        "sub/flat.yaml": FLAT.format(on=on),
        "nested.yaml": NESTED.format(on=on),
        "flat.json": as_json,
        "train.py": TRAINS.format(imports=imports, reads=reads),
    }
    return codes(reported(folder, files)["train.py"])


@pytest.mark.parametrize("name", READS)
def test_what_a_file_says_counts(name: str, tmp_path: Path) -> None:
    assert "MEM301" in found(tmp_path, name, "false")
    assert "MEM301" not in found(tmp_path, name, "true")


def test_settings_beside_the_scripts_folder_where_nothing_marks_a_project(tmp_path: Path) -> None:
    imports, reads = READS["a path of parts"]
    script = TRAINS.format(imports=imports, reads=reads.replace(".parent", ".parents[1]"))
    files = {"sub/flat.yaml": FLAT.format(on="false"), "code/train.py": script}
    assert "MEM301" in codes(reported(tmp_path, files)["code/train.py"])
    # A file above that is in no folder may be anybody's.
    script = script.replace("'sub' / ", "")
    files = {"flat.yaml": FLAT.format(on="false"), "code/train.py": script}
    assert "MEM301" not in codes(reported(tmp_path, files)["code/train.py"])


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_known_is_no_fault(name: str, tmp_path: Path) -> None:
    assert "MEM301" not in found(tmp_path, name, "false")


GONE = "output_dir: out\nevaluation_strategy: steps\n"
NAMED = {
    "a dict of it": ("yaml", "args = TrainingArguments(**yaml.safe_load(open('gone.yaml')))"),
    "OmegaConf": (
        "omegaconf", "args = TrainingArguments(**omegaconf.OmegaConf.load('gone.yaml'))"
    ),
    "a parser": (
        "os", "(args,) = HfArgumentParser(TrainingArguments).parse_yaml_file('gone.yaml')"
    ),
}  # fmt: skip
LEFT_OUT = {
    "a key that is taken out": (
        "omegaconf",
        "config = omegaconf.OmegaConf.load('gone.yaml')\n"
        "    when = config.pop('evaluation_strategy')\n"
        "    args = TrainingArguments(eval_strategy=when, **config)",
    ),
    "a parser that drops it": (
        "os",
        "(args,) = HfArgumentParser(TrainingArguments).parse_yaml_file("
        "'gone.yaml', allow_extra_keys=True)",
    ),
    "what is caught": (
        "yaml",
        "config = yaml.safe_load(open('gone.yaml'))\n    try:\n"
        "        args = TrainingArguments(**config)\n    except TypeError:\n"
        "        config['eval_strategy'] = config.pop('evaluation_strategy')\n"
        "        args = TrainingArguments(**config)",
    ),
}


@pytest.mark.parametrize(
    ("name", "told"), [*((one, 1) for one in NAMED), *((one, 0) for one in LEFT_OUT)]
)
def test_an_option_of_a_file_that_the_target_lacks(name: str, told: int, tmp_path: Path) -> None:
    imports, reads = {**NAMED, **LEFT_OUT}.get(name, ("", ""))
    files = {"gone.yaml": GONE, "train.py": TRAINS.format(imports=imports, reads=reads)}
    said = reported(tmp_path, files, load(["MEM901"]))["train.py"]
    gone = [text for text in said if "`evaluation_strategy`" in text]
    assert len(gone) == told
    assert all("which a settings file gives it" in text for text in gone)


def test_an_option_is_given_below_what_a_file_may_hold(tmp_path: Path) -> None:
    """Whoever gives the option in the file later, or another file, gives it all the same."""
    (tmp_path / "flat.yaml").write_text("output_dir: out\nbf16: true\n", encoding="utf-8")
    for reads, below in (
        ("**yaml.safe_load(open('flat.yaml'))", "**yaml.safe_load(open('flat.yaml'))}"),
        ("**{'fp16': False, **yaml.safe_load(open('flat.yaml'))}", "'fp16': False, **yaml."),
        ("**(config := yaml.safe_load(open('flat.yaml')))", None),
    ):
        read = f"args = TrainingArguments({reads})"
        (config,) = script(tmp_path, TRAINS.format(imports="yaml", reads=read)).configs
        assert config.setting("activation_checkpointing").given is False
        edits = set_option(config.script, config, "activation_checkpointing", "True")
        if below is None:
            assert edits is None
            continue
        both = together(edits, set_option(config.script, config, "tf32", "True"))
        for (edit,), told in ((edits or (), ""), (both or (), '"tf32": True, ')):
            assert isinstance(edit, ReplaceExpression)
            assert edit.source.startswith('{"activation_checkpointing": True, ' + told + below)


PARSED = """
    import sys
    from dataclasses import dataclass
    from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

    @dataclass
    class Own:
        name: str = "x"

    parser = HfArgumentParser(({classes}))
    {parse}
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="auto")
    Trainer(model, args, train_dataset=rows).train()
"""


@pytest.mark.parametrize(
    ("classes", "parse", "fixed"),
    [
        ("TrainingArguments,", "(args,) = parser.parse_args_into_dataclasses()", True),
        ("Own, TrainingArguments", "own, args = parser.parse_args_into_dataclasses()", True),
        ("TrainingArguments,", "(args,) = parser.parse_json_file(sys.argv[1])", False),
        ("TrainingArguments,", "(args,) = make().parse_args_into_dataclasses()", False),
    ],
)
def test_a_parser_gets_another_default(
    classes: str, parse: str, fixed: bool, tmp_path: Path
) -> None:
    """The commands in sight leave it out; who gives it there is heard as before."""
    path = tmp_path / "train.py"
    path.write_text(dedent(PARSED).format(classes=classes, parse=parse), encoding="utf-8")
    (tmp_path / "run.sh").write_text("python train.py --output_dir out --bf16 True\n", "utf-8")
    before = path.read_text(encoding="utf-8")
    run(["fix", "--no-cache", "--select", "MEM301", "--target", "transformers=5.17", str(path)])
    line = "parser.set_defaults(gradient_checkpointing=True)\n"
    after = before.replace(parse, line + parse) if fixed else before
    assert path.read_text(encoding="utf-8") == after


HYDRA = """
    import hydra
    from omegaconf import OmegaConf
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    @hydra.main(version_base=None, config_path="conf", config_name="start")
    def main(cfg):
        model = AutoModelForCausalLM.from_pretrained(cfg.model.name, dtype="auto")
        args = TrainingArguments(**OmegaConf.to_container(cfg.fit, resolve=True))
        Trainer(model, args, train_dataset=rows).train()
    if __name__ == "__main__":
        main()
"""
START = "defaults:\n  - model: small\n  - tuning@fit: plain\n  - _self_\nseed: 1\n"


@pytest.mark.parametrize(
    ("over", "plain", "expected"),
    [
        ("", "output_dir: out\nbf16: true\nactivation_checkpointing: false\n", True),
        ("", "output_dir: out\nbf16: true\nactivation_checkpointing: true\n", False),
        # What the first file says itself comes last.
        ("fit:\n  activation_checkpointing: true\n",
         "output_dir: out\nbf16: true\nactivation_checkpointing: false\n", False),
        # What a user has to fill in, and what another setting gives.
        ("", "output_dir: out\nbf16: true\nactivation_checkpointing: ???\n", False),
        ("", "output_dir: out\nbf16: true\nactivation_checkpointing: ${oc.env:CKPT}\n", False),
        # A group that is no file: a class of the script's may stand for it.
        (None, "output_dir: out\nbf16: true\nactivation_checkpointing: false\n", False),
    ],
)  # fmt: skip
def test_what_hydra_composes(over: str | None, plain: str, expected: bool, tmp_path: Path) -> None:
    start = START + over if over is not None else f"defaults:\n  - data: rows\n  - {START[12:]}"
    files = {
        "conf/start.yaml": start,
        "conf/model/small.yaml": "name: Qwen/Qwen3-8B\n",
        "conf/tuning/plain.yaml": plain,
        "train.py": HYDRA,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    assert ("MEM301" in codes(reported(tmp_path, {"train.py": HYDRA})["train.py"])) is expected


def script(folder: Path, text: str) -> Script:
    path = folder / "train.py"
    path.write_text(dedent(text), encoding="utf-8")
    source = Source(str(path), path.read_text(encoding="utf-8"))
    return build_script(source, Api(newest()), Project(str(path), Modules()))


def test_names_that_stand_for_more_than_is_written(tmp_path: Path) -> None:
    """A document with aliases is not read: they may stand for more than any memory holds."""
    (tmp_path / "a.yaml").write_text("a: &a [1, 2]\noutput_dir: out\nb: *a\n", encoding="utf-8")
    text = """
        import yaml
        from transformers import TrainingArguments
        args = TrainingArguments(**yaml.safe_load(open("a.yaml")))
    """
    (config,) = script(tmp_path, text).configs
    assert config.setting("output_dir").given is None


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('int(os.environ.get("ROWS", "3"))', 3),
        ('int(os.getenv("ROWS", 3))', 3),
        ('float(os.getenv("ROWS", "0.5"))', 0.5),
    ],
)
def test_variables_with_a_default(written: str, value: object, tmp_path: Path) -> None:
    text = f"""
        import os
        from transformers import TrainingArguments
        args = TrainingArguments("out", per_device_train_batch_size={written})
    """
    (config,) = script(tmp_path, text).configs
    setting = config.setting("per_device_train_batch_size")
    assert setting.value == value
    assert setting.is_overridable_default


@pytest.mark.parametrize("written", ['os.environ["ROWS"]', 'os.getenv("ROWS")'])
def test_variables_without_a_default(written: str, tmp_path: Path) -> None:
    text = f"""
        import os
        from transformers import TrainingArguments
        args = TrainingArguments("out", per_device_train_batch_size=int({written}))
    """
    (config,) = script(tmp_path, text).configs
    assert not config.setting("per_device_train_batch_size").known


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ("seed=2", True),
        ("fit.activation_checkpointing=true", False),
        ("+fit.packing=true fit.activation_checkpointing=$KEEP", False),
        ("~fit.activation_checkpointing", False),
        # Another file of the group says what it does.
        ("tuning@fit=long", False),
    ],
)
def test_what_a_launch_command_gives_beside_what_hydra_composes(
    overrides: str, expected: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "conf/start.yaml": START,
        "conf/model/small.yaml": "name: Qwen/Qwen3-8B\n",
        "conf/tuning/plain.yaml": "output_dir: o\nbf16: true\nactivation_checkpointing: false\n",
        "train.py": HYDRA,
        "run.sh": f"python train.py {overrides}\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    run(["check", "--no-cache", "--target", "newest", "--no-prices", str(tmp_path / "train.py")])
    assert ("MEM301" in capsys.readouterr().out) is expected


QUANTIZED = """
    import hydra
    import torch
    from peft import LoraConfig, TaskType, get_peft_model, prepare_model_for_kbit_training
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig
    from trl import SFTConfig, SFTTrainer

    class Tuner:
        def __init__(self, cfg):
            self.options = cfg.model
            bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
            self.model = AutoModelForCausalLM.from_pretrained(
                self.options.name, quantization_config=bits, dtype=torch.bfloat16
            )
            if self.options.lora is not None and self.options.lora != "None":
                if self.options.qlora:
                    self.model = prepare_model_for_kbit_training(self.model)
                lora = LoraConfig(r=self.options.lora.r, task_type=TaskType.CAUSAL_LM)
                self.model = get_peft_model(self.model, lora)

        def train(self, rows, args):
            SFTTrainer(model=self.model, args=args, train_dataset=rows).train()

    @hydra.main(version_base=None, config_path="conf", config_name="start")
    def main(cfg):
        Tuner(cfg).train(load(cfg.path), SFTConfig(**cfg.training))

    if __name__ == "__main__":
        main()
"""


@pytest.mark.parametrize(("lora", "told"), [("\n  r: 16", 1), (" None", 0), (" ${oc.env:LORA}", 0)])
def test_a_group_that_a_mapping_turns_on(lora: str, told: int, tmp_path: Path) -> None:
    """``lora: None`` in YAML is a word; a mapping is another thing than any word."""
    start = "defaults:\n  - _self_\n  - model: qwen3\ntraining:\n  output_dir: out\n"
    files = {
        "conf/start.yaml": start,
        "conf/model/qwen3.yaml": f"name: Qwen/Qwen3-8B\nqlora: true\nlora:{lora}\n",
        "train.py": QUANTIZED,
    }
    assert len(reported(tmp_path, files, load(["MEM408"])).get("train.py", ())) == told
