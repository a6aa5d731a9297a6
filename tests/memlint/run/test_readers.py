"""Who reads a file of settings: generated projects, and their own parsers after all fixes."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from memlint.cli.main import run

VERSIONS = "trl==1.16.0\ntransformers==5.23.0\n"
# What TRL renamed or dropped, beside what it takes.
KEYS = """\
model_name_or_path: Qwen/Qwen3-0.6B
max_seq_length: 1024
learning_rate: 1.0e-5
warmup_ratio: 0.03
output_dir: out
gradient_checkpointing: true
overwrite_output_dir: true
evaluation_strategy: "no"
torch_dtype: bfloat16
"""
OWN = """\
import sys
from dataclasses import dataclass
from transformers import HfArgumentParser


@dataclass
class Arguments:
    model_name_or_path: str
    max_seq_length: int = 1024
    learning_rate: float = 1e-5
    warmup_ratio: float = 0.03
    output_dir: str = "out"
    gradient_checkpointing: bool = False
    overwrite_output_dir: bool = False
    evaluation_strategy: str = "no"
    torch_dtype: str = "auto"


(args,) = HfArgumentParser(Arguments).parse_yaml_file(sys.argv[1])
"""
SUBCLASS = """\
from dataclasses import dataclass
from transformers import TrainingArguments


@dataclass
class PairArguments(TrainingArguments):
    max_prompt_length: int = 128
    warmup_ratio: float = 0.1


@dataclass
class ModelArguments:
    model_name_or_path: str = ""
    torch_dtype: str = "auto"
"""
PAIRS = """\
from transformers import HfArgumentParser
from src.settings import ModelArguments, PairArguments

parser = HfArgumentParser((ModelArguments, PairArguments))
model, args = parser.parse_yaml_file("pairs.yaml")
"""
TRL = """\
from trl import ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser

script, args, model = TrlParser((ScriptArguments, SFTConfig, ModelConfig)).parse_args_and_config()
trainer = SFTTrainer(model=model.model_name_or_path, args=args, train_dataset=data)
trainer.train()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write({"requirements.txt": VERSIONS})
    return tmp_path


def write(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def found(capsys: pytest.CaptureFixture[str], *options: str) -> set[str]:
    capsys.readouterr()
    run(["check", "--no-cache", "--output-format", "concise", *options, "."])
    lines = (line.split() for line in capsys.readouterr().out.splitlines())
    return {
        f"{line[0].split(':')[0]}:{line[0].split(':')[1]} {line[1]}"
        for line in lines
        if len(line) > 1 and line[1].startswith("MEM")
    }


def of_documents(places: set[str]) -> set[str]:
    return {each for each in places if each.partition(":")[0].endswith((".yaml", ".json"))}


def debugged(capsys: pytest.CaptureFixture[str], name: str) -> str:
    capsys.readouterr()
    run(["debug", name])
    captured = capsys.readouterr()
    return captured.out + captured.err


SILENT = {
    "own dataclass, named by a command": {
        "finetune.py": OWN,
        "sft.yaml": KEYS,
        "run.sh": "accelerate launch finetune.py sft.yaml\n",
    },
    "own dataclass, a file of the command line": {"finetune.py": OWN, "sft.yaml": KEYS},
    "own dataclass, far from the file": {
        "code/finetune.py": OWN,
        "settings/large/sft.yaml": KEYS,
    },
    "own dataclass, from a Makefile": {
        "finetune.py": OWN,
        "conf/a.yaml": KEYS,
        "Makefile": "CONF = conf/a.yaml\ntrain:\n\tpython finetune.py $(CONF)\n",
    },
    "own parser class": {
        "lib/parsing.py": "from transformers import HfArgumentParser\n"
        "class FileParser(HfArgumentParser):\n    def read(self): ...\n",
        "finetune.py": OWN.replace(
            "HfArgumentParser(Arguments).parse_yaml_file(sys.argv[1])",
            "FileParser((Arguments,)).read()",
        ).replace(
            "from transformers import HfArgumentParser", "from lib.parsing import FileParser"
        ),
        "sft.yaml": KEYS,
    },
    "a dict": {
        "train.py": "import argparse, yaml\nfrom trl import SFTConfig\n"
        "p = argparse.ArgumentParser()\np.add_argument('--config')\n"
        "d = yaml.safe_load(open(p.parse_args().config))\n"
        "args = SFTConfig(d['output_dir'], max_length=d['max_seq_length'])\n",
        "sft.yaml": KEYS,
    },
    "a dict that another module loads": {
        "helpers.py": "import yaml\ndef load(path):\n    return yaml.safe_load(open(path))\n",
        "train.py": "from helpers import load\nimport sys\nd = load(sys.argv[1])\n"
        "print(d.get('max_seq_length'))\n",
        "sft.yaml": KEYS,
    },
    "attributes of OmegaConf": {
        "train.py": "import sys\nfrom omegaconf import OmegaConf\n"
        "c = OmegaConf.load(sys.argv[1])\nprint(c.learning_rate)\n",
        "sft.yaml": KEYS,
    },
    "Hydra": {
        "train.py": "import hydra\n@hydra.main(config_path='conf', config_name='sft')\n"
        "def main(cfg):\n    print(cfg.max_seq_length)\nmain()\n",
        "conf/sft.yaml": KEYS,
    },
    "a class that is not at hand": {
        "train.py": "from transformers import HfArgumentParser\nfrom elsewhere import Settings\n"
        "import sys\nHfArgumentParser(Settings).parse_yaml_file(sys.argv[1])\n",
        "sft.yaml": KEYS,
    },
    "written, never read": {
        "train.py": "import json\nd = {'model_name_or_path': 'a'}\n"
        "json.dump(d, open('args.json', 'w'))\n",
        "args.json": '{"model_name_or_path": "a", "max_seq_length": 4, "learning_rate": 1,\n'
        ' "evaluation_strategy": "no", "output_dir": "o"}\n',
    },
    "one key that TRL never had": {"sft.yaml": KEYS + "with_tracking: true\n"},
    "a program that is not at hand": {
        "sft.yaml": KEYS,
        "run.sh": "python ../other/train.py --settings sft.yaml\n",
    },
    "two programs": {
        "sft.yaml": KEYS,
        "finetune.py": OWN,
        "run.sh": "trl sft --config sft.yaml\npython finetune.py sft.yaml\n",
    },
    "a dataclass filled from a dict": {
        "train.py": OWN.replace(
            "(args,) = HfArgumentParser(Arguments).parse_yaml_file(sys.argv[1])",
            "import yaml\nargs = Arguments(**yaml.safe_load(open(sys.argv[1])))",
        ),
        "sft.yaml": KEYS,
    },
    "a module of a package, started as one": {
        "tool/start.py": OWN,
        "tool/__init__.py": "",
        "conf/a.yaml": KEYS,
        "Justfile": "train:\n  python -m tool.start conf/a.yaml\n",
    },
    "a parser from a helper, JSON": {
        "start.py": OWN.replace(
            "(args,) = HfArgumentParser(Arguments).parse_yaml_file(sys.argv[1])",
            "def parser():\n    kinds = [Arguments]\n    return HfArgumentParser(kinds)\n"
            "(args,) = parser().parse_json_file(json_file=sys.argv[1])",
        ),
        "a.json": '{"model_name_or_path": "a", "max_seq_length": 4, "learning_rate": 1,\n'
        ' "warmup_ratio": 0.1, "torch_dtype": "float32", "output_dir": "o"}\n',
    },
    "fields of several classes, in other modules": {
        "src/lib/basis.py": "from dataclasses import dataclass\n@dataclass\nclass Model:\n"
        "    model_name_or_path: str = ''\n    torch_dtype: str = 'auto'\n",
        "src/lib/__init__.py": "from .basis import Model\nfrom .more import All\n",
        "src/lib/more.py": "from dataclasses import dataclass\nfrom lib import basis\n@dataclass\n"
        "class All(basis.Model):\n    max_seq_length: int = 1\n    learning_rate: float = 1\n"
        "    warmup_ratio: float = 0\n    output_dir: str = ''\n    evaluation_strategy: str = ''\n"
        "    gradient_checkpointing: bool = True\n    overwrite_output_dir: bool = True\n",
        "bin/go.py": "import sys\nimport lib\nfrom transformers import HfArgumentParser\n"
        "HfArgumentParser(lib.All).parse_yaml_file(sys.argv[1])\n",
        "conf/a.yaml": KEYS,
    },
    "a section of it goes into a class of TRL": {
        "train.py": "import sys, yaml\nfrom trl import SFTConfig\n"
        "d = yaml.safe_load(open(sys.argv[1]))\nd['max_length'] = d.pop('max_seq_length')\n"
        "args = SFTConfig(**{k: v for k, v in d.items() if k in SFTConfig.__annotations__})\n",
        "sft.yaml": KEYS,
    },
    "options of a parser of its own are set by it": {
        "train.py": "import argparse, sys\nfrom yaml import safe_load as read\n"
        "p = argparse.ArgumentParser()\np.add_argument('--max-seq-length')\n"
        "p.set_defaults(**read(open(sys.argv[1])))\n",
        "sft.yaml": KEYS,
    },
    "a list of options of a Slurm job": {
        "train.py": OWN,
        "conf/sft.yaml": KEYS,
        "job.slurm": "ARGS=(conf/sft.yaml --seed 1)\nsrun python train.py ${ARGS[@]}\n",
    },
    "axolotl's keys and one more": {
        "a.yaml": "base_model: a\ndatasets: []\nsequence_len: 4\nmicro_batch_size: 4\n"
        "flash_attention: true\nsample_packing: false\nteam: b\n",
    },
}


@pytest.mark.parametrize("project", SILENT.values(), ids=SILENT)
def test_a_file_of_another_reader_is_left_alone(
    project: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(project)
    assert of_documents(found(capsys)) == set()
    run(["fix", "--no-cache", "--unsafe-fixes", "."])
    documents = {k: v for k, v in project.items() if k.endswith((".yaml", ".json"))}
    assert {name: Path(name).read_text() for name in documents} == documents
    for name in documents:
        assert "passed over" in debugged(capsys, name)


READ = {
    "trl's command": ("sft.yaml", {"run.sh": "trl sft --config sft.yaml\n"}, "run.sh:1 starts TRL"),
    "every key": ("sft.yaml", {}, "every key is an option of TRL"),
    "a script named by a command": (
        "conf/sft.yaml",
        {"train.py": TRL, "run.sh": "torchrun train.py --config conf/sft.yaml\n"},
        "run.sh:1 gives it to train.py:3",
    ),
    "a script of the command line": ("conf/sft.yaml", {"train.py": TRL}, "train.py:3, which reads"),
    "classes by another name": (
        "sft.yaml",
        {
            "train.py": TRL.replace("TrlParser((", "TrlParser(dataclass_types=(")
            .replace("SFTConfig,", "Config,", 1)
            .replace(
                "import ModelConfig, ScriptArguments, Config",
                "import ModelConfig, ScriptArguments, SFTConfig as Config",
            )
            .replace("(ScriptArguments, SFTConfig, M", "(ScriptArguments, Config, M")
        },
        "train.py:3, which reads",
    ),
    "unpacked into a class": (
        "sft.yaml",
        {
            "train.py": "import yaml\nfrom trl import ModelConfig, SFTConfig\nimport sys\n"
            "args = SFTConfig(**yaml.safe_load(open('sft.yaml')))\n"
        },
        "train.py:4, which reads",
    ),
}


@pytest.mark.parametrize(("name", "files", "evidence"), READ.values(), ids=READ)
def test_a_file_of_trl_is_checked_and_says_why(
    name: str, files: Mapping[str, str], evidence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write({name: KEYS, **files})
    assert found(capsys) >= {f"{name}:2 MEM901", f"{name}:8 MEM901"}
    assert f"read by TRL: {evidence}" in debugged(capsys, name)


def test_keys_of_the_projects_own_classes_stay(capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "model_name_or_path: a\ntorch_dtype: float32\nmax_prompt_length: 64\nwarmup_ratio: 0.1\n"
        "evaluation_strategy: steps\noutput_dir: out\n"
    )
    write({"pairs.yaml": text, "src/settings.py": SUBCLASS, "train.py": PAIRS})
    capsys.readouterr()
    run(["check", "--no-cache", "pairs.yaml"])
    said = capsys.readouterr().out
    assert "pairs.yaml:5" in said
    assert "`TrainingArguments` of transformers" in said
    assert "SFTConfig" not in said
    run(["fix", "--no-cache", "--unsafe-fixes", "pairs.yaml"])
    assert Path("pairs.yaml").read_text() == text.replace("evaluation_strategy", "eval_strategy")


def test_a_recipe_without_a_model_is_one_where_a_command_names_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "output_dir: out\nnum_generations: 8\nmax_prompt_length: 512\n"
    zero = (
        "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\n"
        "deepspeed_config:\n  zero_stage: 3\nnum_processes: 8\n"
    )
    command = (
        "trl grpo --config grpo.yaml --accelerate_config zero3.yaml "
        "--model_name_or_path Qwen/Qwen2.5-7B\n"
    )
    write({"grpo.yaml": text})
    assert of_documents(found(capsys)) == set()
    write({"run.sh": command, "zero3.yaml": zero})
    assert of_documents(found(capsys)) >= {"grpo.yaml:3 MEM901", "grpo.yaml:1 MEM602"}
    assert "read by TRL: run.sh:1 starts TRL with it" in debugged(capsys, "grpo.yaml")
    assert "gives it to accelerate" in debugged(capsys, "zero3.yaml")


# A key that no release has: the keys alone do not say that the file is TRL's.
ODD = "max_seq_length: 1024\nlearning_rate: 1.0e-5\noutput_dir: out\npurpose: second try\n"
RECIPE = "model_name_or_path: Qwen/Qwen3-0.6B\nconf_of_ours: 1\n" + ODD


@pytest.mark.parametrize(
    "page",
    [
        "# Run\n\n```bash\naccelerate launch --num_processes 2 \\\n  train.py "
        "--config sft.yaml\n```\n",
        "1. Then train:\n\n   ```\n   python train.py --config conf/sft.yaml\n   ```\n",
        "~~~bash\npython train.py --config conf/sft.yaml\n~~~\n",
        "```bash\npython train.py --config conf/sft.yaml\n````\n",
        "```console\n$ ls\ntrain.py\n$ python train.py --config conf/sft.yaml\n```\n",
        "<!-- a note\nof two lines -->\n```\npython train.py --config conf/sft.yaml\n```\n",
        "<!-- a note -->\n```\npython train.py --config conf/sft.yaml\n```\n",
        "```python\nimport trl\n```\n\n````sh\ncd code\nls\n````\n```shell\ntorchrun train.py "
        "--config sft.yaml --seed 1\n```\n",
    ],
)
def test_a_command_that_a_page_shows_says_who_reads_a_file(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write({"conf/sft.yaml": RECIPE, "train.py": TRL})
    assert of_documents(found(capsys)) == set()
    write({"README.md": page})
    assert of_documents(found(capsys)) >= {"conf/sft.yaml:3 MEM901"}
    assert "read by TRL: README.md:" in debugged(capsys, "conf/sft.yaml")


def test_a_page_says_how_a_recipe_is_sharded(capsys: pytest.CaptureFixture[str]) -> None:
    files = {"train.py": TRL, "conf/z3.yaml": "distributed_type: DEEPSPEED\nnum_processes: 8\n"}
    sizes = "per_device_train_batch_size: 64\nmax_length: 1024\n"
    write({**files, "conf/sft.yaml": KEYS.replace("0.6B", "1.7B") + sizes})
    started = "train.py --config conf/sft.yaml"
    write({"README.md": f"```bash\naccelerate launch --num_processes 1 {started}\n```\n"})
    alone = found(capsys, "--select", "MEM109")
    assert alone == {"conf/sft.yaml:1 MEM109"}
    # The page is an example: who reads it sets the variable, or not.
    assert not alone & found(capsys)
    command = "accelerate launch --config_file conf/z3.yaml --zero_stage 3"
    write({"README.md": f"```bash\n{command} {started} --per_device_train_batch_size 3\n```\n"})
    assert not found(capsys, "--select", "MEM109")
    run(["estimate", "conf/sft.yaml"])
    assert "; 64 x 1,024" in capsys.readouterr().out  # what the recipe says, not the example


@pytest.mark.parametrize(
    "files",
    [
        {"README.md": "Start `python train.py --config conf/sft.yaml` and wait.\n"},
        {"README.md": "```python\npython train.py --config conf/sft.yaml\n```\n"},
        {"README.md": "```bash\npython other.py --config conf/sft.yaml\n```\n"},
        {"README.md": "<!--\n```bash\npython train.py --config conf/sft.yaml\n```\n-->\n"},
        {"README.md": "~~~python\npython train.py --config conf/sft.yaml\n~~~\n"},
        {"README.md": "~~~\nls\n~~~\npython train.py --config conf/sft.yaml\n"},
        {"README.md": "```bash\npython train.py --config conf/dpo.yaml\n```\n"},
        {
            "README.md": "```bash\npython train.py --config conf/sft.yaml\n```\n",
            "run.sh": "python other.py --config conf/sft.yaml\n",
        },
        {
            "README.md": "```bash\npython train.py --config conf/sft.yaml\n```\n",
            "look.py": "import yaml\nrows = yaml.safe_load(open(path))['purpose']\n",
        },
    ],
)
def test_what_a_page_does_not_show_to_be_trls_is_left_alone(
    files: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    write({"conf/sft.yaml": RECIPE, "train.py": TRL, "other.py": "import sys\n", **files})
    assert of_documents(found(capsys)) == set()


@pytest.mark.draws(2)
@pytest.mark.parametrize("seed", range(6))
def test_a_parser_of_the_projects_own_still_takes_the_file(seed: int) -> None:
    """Fixes never write a key that the project's parser does not have, nor take one out."""
    chance = random.Random(seed)
    options = {
        "model_name_or_path": ("str", "a/b"), "max_seq_length": ("int", "512"),
        "learning_rate": ("float", "1.0e-5"), "warmup_ratio": ("float", "0.1"),
        "output_dir": ("str", "out"), "gradient_checkpointing": ("bool", "true"),
        "overwrite_output_dir": ("bool", "true"), "evaluation_strategy": ("str", "steps"),
        "torch_dtype": ("str", "float32"), "packing": ("bool", "false"),
        "per_device_train_batch_size": ("int", "8"), "max_prompt_length": ("int", "64"),
        "bf16": ("bool", "false"), "logging_dir": ("str", "logs"), "optim": ("str", "adamw_hf"),
    }  # fmt: skip
    names = chance.sample(sorted(options), chance.randint(4, len(options)))
    fields = "".join(f"    {name}: {options[name][0]} = None\n" for name in names)
    script = (
        "import sys\nfrom dataclasses import dataclass\nfrom transformers import HfArgumentParser\n"
        f"@dataclass\nclass Settings:\n{fields}\n"
        "HfArgumentParser(Settings).parse_yaml_file(sys.argv[1])\n"
    )
    written = chance.sample(names, chance.randint(3, len(names)))
    write(
        {
            "start.py": script,
            "x/settings.yaml": "".join(f"{name}: {options[name][1]}\n" for name in written),
        }
    )
    if chance.random() < 0.5:
        write({"run.sh": "python start.py x/settings.yaml\n"})
    run(["fix", "--no-cache", "--unsafe-fixes", "."])
    parsed = subprocess.run(
        [sys.executable, "start.py", "x/settings.yaml"], capture_output=True, text=True, check=False
    )
    assert parsed.returncode == 0, parsed.stderr


def test_a_recipe_goes_into_the_run_of_its_script(capsys: pytest.CaptureFixture[str]) -> None:
    text = "output_dir: out\nper_device_train_batch_size: 4\n"
    command = "python train.py --config sft.yaml --model_name_or_path Qwen/Qwen3-0.6B\n"
    script = TRL.replace("train_dataset=data)", "train_dataset=load_dataset('a', split='train'))")
    write({"train.py": f"from datasets import load_dataset\n{script}", "run.sh": command})

    def peak(batch: str) -> str:
        write({"sft.yaml": text.replace("4", batch)})
        capsys.readouterr()
        run(["estimate", "train.py"])
        return next(x for x in capsys.readouterr().out.splitlines() if "allocated" in x)

    assert peak("4") != peak("64")


ALTERNATIVES = {
    f"{name}.py": (
        f"from trl import {cls}Config, {cls}Trainer, ModelConfig, ScriptArguments, TrlParser\n"
        f"parser = TrlParser((ScriptArguments, {cls}Config, ModelConfig))\n"
        "script, args, model = parser.parse_args_and_config()\n"
    )
    for name, cls in (("pairs", "DPO"), ("first", "SFT"))
}


def test_what_holds_for_every_script_that_may_read_a_file_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write({**ALTERNATIVES, "a.yaml": KEYS.replace("max_seq_length: 1024\n", "")})
    assert of_documents(found(capsys)) >= {"a.yaml:3 MEM901", "a.yaml:7 MEM901"}
    write({"a.yaml": KEYS})  # one of the two alone had the option
    assert "a.yaml:8 MEM901" in found(capsys)
    assert "first.py:2" in debugged(capsys, "a.yaml")
    write({"first.py": OWN})
    assert of_documents(found(capsys)) == set()


def test_a_notebook_may_read_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    cell = {
        "cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None,
        "source": "import yaml\nc = yaml.safe_load(open('sft.yaml'))\nprint(c['learning_rate'])",
    }  # fmt: skip
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    write({"sft.yaml": KEYS, "a.ipynb": json.dumps(notebook)})
    assert of_documents(found(capsys)) == set()


def test_a_key_that_stands_twice_is_never_rewritten(capsys: pytest.CaptureFixture[str]) -> None:
    text = KEYS + "gradient_checkpointing: true\n"
    write({"sft.yaml": text, "run.sh": "trl sft --config sft.yaml\n"})
    run(["fix", "--no-cache", "--unsafe-fixes", "sft.yaml"])
    captured = capsys.readouterr()
    assert "report" not in captured.out + captured.err
    after = Path("sft.yaml").read_text()
    assert after.count("gradient_checkpointing: true") == 2
    assert "max_length: 1024" in after


def test_a_program_without_python_gets_no_advice_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    write({"dpo.yaml": "max_prompt_length: 64\noutput_dir: o\n"})
    write({"run.sh": "trl dpo --config dpo.yaml --model_name_or_path a\n"})
    capsys.readouterr()
    run(["check", "--no-cache", "dpo.yaml"])
    said = capsys.readouterr().out
    assert "MEM901" in said
    assert "memlint_runtime" not in said


def test_a_new_script_changes_who_reads_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    write({"sft.yaml": KEYS})
    assert run(["check", "."]) == 1
    write({"finetune.py": OWN})
    assert run(["check", "."]) == 0
    write({"finetune.py": TRL})
    assert run(["check", "."]) == 1


def test_what_tests_hold_is_read_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    write({"helper.py": OWN, "tests/case/a.yaml": KEYS, "tests/case/train.py": TRL})
    assert found(capsys) >= {"tests/case/a.yaml:2 MEM901"}


@pytest.mark.parametrize(("others", "is_read_above"), [(31, False), (3, True)])
def test_a_folder_of_many_projects_is_no_project(
    others: int, is_read_above: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stands above it reads no file of theirs, whichever has no mark of its own."""
    Path("requirements.txt").unlink()
    write({f"all/p{each}/notes.md": "" for each in range(others)})
    write({"count.py": OWN, "all/mine/train.py": TRL, "all/mine/a.yaml": KEYS})
    assert ("all/mine/a.yaml:2 MEM901" not in found(capsys)) is is_read_above


RENAMED = "max_length: 1024"
BESIDE = {
    "a glob": {
        "report.py": "import glob, yaml\nfor path in glob.glob('*.yaml'):\n"
        "    print(yaml.safe_load(open(path))['max_seq_length'])\n"
    },
    "a parser of the project's": {
        "audit.py": OWN.replace("parse_yaml_file(sys.argv[1])", "parse_yaml_file(latest())")
    },
    "a parser that names the file": {"audit.py": OWN.replace("sys.argv[1]", "'sft.yaml'")},
    "a script that names the file": {
        "plot.py": "import yaml\nfrom pathlib import Path\n"
        "print(yaml.safe_load(Path('sft.yaml').read_text())['max_seq_length'])\n"
    },
    "yq": {"length.sh": "LENGTH=$(yq .max_seq_length $1)\necho $LENGTH\n"},
    "sed": {"Makefile": "short:\n\tsed -i 's/max_seq_length: .*/max_seq_length: 8/' $(FILE)\n"},
    "a test": {
        "tests/test_lengths.py": "from yaml import safe_load\n\ndef test_short(path):\n"
        "    assert safe_load(path.open())['max_seq_length'] < 2048\n"
    },
    "a test beside": {"test_all.py": "import yaml\nassert yaml.safe_load(f)['max_seq_length']\n"},
    "a text that is searched": {
        "short.py": "import pathlib, re\nfor path in pathlib.Path('.').iterdir():\n"
        "    print(re.search(r'^max_seq_length: (\\d+)', path.read_text())[1])\n"
    },
    "a loader of another package": {
        "size.py": "from house.loading import read\nprint(read('sft').max_seq_length)\n"
    },
    "a reader of whatever is read elsewhere": {
        "size.py": "from omegaconf import DictConfig\nfrom house.loading import read\n"
        "def show(settings: DictConfig):\n    print(settings.max_seq_length)\nshow(read('sft'))\n"
    },
    "a schema in another module": {
        "shape.py": "from pydantic import BaseModel\nclass Shape(BaseModel):\n"
        "    max_seq_length: int = 8\n",
        "look.py": "import glob, yaml\nfrom shape import Shape\nfor path in glob.glob('*.yaml'):\n"
        "    Shape(**yaml.safe_load(open(path)))\n",
    },
    "helpers of tests": {
        "tests/reading.py": "import yaml\ndef read(path):\n"
        "    return yaml.safe_load(path.open())\n",
        "tests/test_size.py": "from .reading import read\n\ndef test_size(path):\n"
        "    assert read(path)['max_seq_length']\n",
    },
    "a workflow": {
        ".github/workflows/x.yml": "jobs:\n  a:\n    - run: yq .max_seq_length a.yaml\n"
    },
    "a pipeline's parameters": {"dvc.yaml": "params:\n  - sft.yaml:\n      - max_seq_length\n"},
    "a JSON schema": {"s.json": '{"properties": {"max_seq_length": {"type": "integer"}}}\n'},
    "a search": {"s.yaml": "parameters:\n  max_seq_length:\n    values: [512, 1024]\n"},
    "a schema in YAML": {"s.yaml": "max_seq_length: {type: integer}\n"},
    "a shell's loop": {
        "x.sh": 'while IFS=: read k v; do [ "$k" = max_seq_length ] && echo $v; done < sft.yaml\n'
    },
    "yq that writes": {"x.sh": "yq -i '.max_seq_length = 8' $1\n"},
    "Python in a shell": {"x.sh": "python -c \"print(load()['max_seq_length'])\"\n"},
    "a script without a suffix": {"bin/size": "#!/bin/sh\nyq .max_seq_length $1\n"},
    "Python without a suffix": {"bin/size": "#!/usr/bin/env python3\nprint(f['max_seq_length'])\n"},
    "another language": {"size.rb": "puts YAML.load_file(ARGV[0])['max_seq_length']\n"},
    "a template": {"card.j2": "Trained at {{ recipe.max_seq_length }} tokens.\n"},
}
APART = {
    "other keys": {"report.py": "import yaml\nprint(yaml.safe_load(open('b.yaml'))['rounds'])\n"},
    "other files": {"report.py": "import json\nprint(json.load(open(path))['max_seq_length'])\n"},
    "no files": {"plain.py": "def f(max_seq_length):\n    return max_seq_length\n"},
    "other commands": {"more.sh": "sed -i 's/learning_speed/x/' $1\n"},
    "an option": {
        "p.py": "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--max_seq_length')\nprint(p.parse_args().max_seq_length)\n"
    },
    "a docstring": {"p.py": '"""max_seq_length is gone."""\n'},
    "a comment": {"x.sh": "# max_seq_length is in the recipe\nsed -i s/a/b/ c\n"},
    "variables": {"y.sh": "max_seq_length=8\npython p.py --max_seq_length $max_seq_length\n"},
    "another document": {"conf/other.yaml": "max_seq_length: 8\ntask: x\n"},
    "a section of another document": {"conf/other.yaml": "max_seq_length:\n  train: 8\n"},
    "words for people": {"README.md": "Set `max_seq_length` in sft.yaml.\n"},
    "an environment": {
        "venv/pyvenv.cfg": "home = /usr\n",
        "venv/lib/a.py": "print(c['max_seq_length'])\n",
    },
}


@pytest.mark.parametrize("name", BESIDE)
def test_keys_that_something_else_asks_for_are_no_safe_fix(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write({"sft.yaml": KEYS, "run.sh": "trl sft --config sft.yaml\n", **BESIDE[name]})
    assert "sft.yaml:2 MEM901" in found(capsys)
    run(["fix", "--no-cache", "."])
    assert RENAMED not in Path("sft.yaml").read_text()
    run(["fix", "--no-cache", "--unsafe-fixes", "."])
    assert RENAMED in Path("sft.yaml").read_text()


@pytest.mark.parametrize("name", APART)
def test_keys_that_nothing_else_asks_for_are_renamed(name: str) -> None:
    write({"sft.yaml": KEYS, "run.sh": "trl sft --config sft.yaml\n", **APART[name]})
    run(["fix", "--no-cache", "."])
    assert RENAMED in Path("sft.yaml").read_text()


TYPED = {
    "train.py": """\
from trl import ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser

from loading import load

parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))
script_args, args, model_args = parser.parse_args_and_config()
SFTTrainer(load(model_args), args=args, train_dataset=rows).train()
""",
    "loading.py": """\
from transformers import AutoModelForCausalLM
from trl import ModelConfig


def load(chosen: ModelConfig):
    name = chosen.model_name_or_path
    return AutoModelForCausalLM.from_pretrained(name, dtype=chosen.torch_dtype)
""",
    "run.sh": "accelerate launch train.py --config sft.yaml\n",
    "sft.yaml": KEYS,
}


def test_a_recipe_and_what_reads_its_class_are_renamed_together() -> None:
    """An object of a class that has lost an option is asked for it in vain anyway."""
    write(TYPED)
    run(["fix", "--no-cache", "."])
    assert "\ndtype: bfloat16" in Path("sft.yaml").read_text()
    assert "dtype=chosen.dtype" in Path("loading.py").read_text()
    before = {path: path.read_text() for path in map(Path, TYPED)}
    run(["fix", "--no-cache", "."])
    assert {path: path.read_text() for path in before} == before


STRICT = """\
import glob
from dataclasses import dataclass

from transformers import HfArgumentParser


@dataclass
class Online:
    model_name_or_path: str = ""
    output_dir: str = ""
    use_vllm: bool = False
    vllm_mode: str = ""
    bf16: bool = False
    dtype: str = ""


for path in glob.glob("*.yaml"):
    HfArgumentParser(Online).parse_yaml_file(path)
"""
ONLINE = """\
model_name_or_path: Qwen/Qwen3-0.6B
output_dir: out
use_vllm: true
vllm_mode: colocate
bf16: true
dtype: bfloat16
"""


@pytest.mark.parametrize("strict", [True, False])
def test_no_key_is_added_safely_beside_a_parser_that_refuses_it(*, strict: bool) -> None:
    write({"grpo.yaml": ONLINE, "run.sh": "trl grpo --config grpo.yaml\n"})
    write({"audit.py": STRICT if strict else ""})
    run(["fix", "--no-cache", "."])
    assert ("vllm_enable_sleep_mode" in Path("grpo.yaml").read_text()) is not strict


HOMES = "from lib.settings import {0}Config\nfrom trl import {0}Trainer, ModelConfig, TrlParser\n"
PARSES = "a, b = TrlParser(({0}Config, ModelConfig)).parse_args_and_config()\n"


def test_recipes_of_two_scripts_whose_classes_moved(capsys: pytest.CaptureFixture[str]) -> None:
    settings = "from dataclasses import dataclass\nimport trl\n"
    for name in ("DPO", "ORPO"):
        settings += f"@dataclass\nclass {name}Config(trl.{name}Config):\n    template: str = ''\n"
        write({f"{name.lower()}.py": (HOMES + PARSES).format(name)})
    keys = "model_name_or_path: a\nbeta: 0.1\ntemplate: x\nwarmup_ratio: 0.1\noutput_dir: o\n"
    write({"lib/settings.py": settings, "x.yaml": f"{keys}gradient_checkpointing: true\n"})
    assert of_documents(found(capsys)) == {"x.yaml:4 MEM901", "x.yaml:6 MEM902"}
    run(["fix", "--no-cache", "."])
    after = Path("x.yaml").read_text()
    assert "warmup_steps: 0.1" in after
    assert "activation_checkpointing: true" in after


def test_memlint_itself_is_no_reader(capsys: pytest.CaptureFixture[str]) -> None:
    Path("requirements.txt").write_text(VERSIONS)
    Path("run.yaml").write_text(KEYS)
    Path("Makefile").write_text("train:\n\ttrl sft --config run.yaml\n")
    run(["check", "--no-cache", "run.yaml"])
    alone = capsys.readouterr().out
    assert "MEM901" in alone
    with Path("Makefile").open("a") as makefile:
        makefile.write("lint:\n\tpython -m memlint check run.yaml\n")
    run(["check", "--no-cache", "run.yaml"])
    assert capsys.readouterr().out == alone


GENERATES = """\
from filters import kept
from strange import score
from trl import GRPOConfig, ModelConfig, ScriptArguments, TrlParser
from vllm import LLM, SamplingParams

parser = TrlParser((ScriptArguments, GRPOConfig, ModelConfig))
script, args, model = parser.parse_args_and_config()
llm = LLM(model=model.model_name_or_path)
answers = llm.generate(["a"], SamplingParams(n=args.num_generations))
print(kept(answers, args), score("a"))
"""
FILTERS = "def kept(answers, args):\n    return answers[: args.num_generations]\n"
GENERATED = {
    "generate.py": GENERATES,
    "filters.py": FILTERS,
    "grpo.yaml": (
        "model_name_or_path: Qwen/Qwen3-8B\nnum_generations: 8\nmax_completion_length: 32000\n"
        "output_dir: out\ndtype: float32\nlearning_rate: 1.0e-6\n"
    ),
    "run.sh": "python generate.py --config grpo.yaml\n",
}
MAY_TRAIN = {
    "what it calls": {"filters.py": f"from training import run\n{FILTERS}    run(args)\n"}
    | {"training.py": "from trl import GRPOTrainer\ndef run(a): GRPOTrainer('m', a).train()\n"},
    "a name of training": {"generate.py": GENERATES + "train(args)\n"},
    "a loop": {"generate.py": GENERATES + "loss.backward()\n"},
    "a package that is not known": {"generate.py": GENERATES.replace('score("a")', "score(args)")},
    "a package, of what it calls": {
        "filters.py": f"from strange import score\n{FILTERS}    return score(args)\n"
    },
    "another program": {"generate.py": GENERATES + "import subprocess\nsubprocess.run(['a'])\n"},
    "another script, by a command": {"b.sh": "python sft.py --config grpo.yaml\n"}
    | {"sft.py": GENERATES + "GRPOTrainer(args=args)\n"},
    "a script that imports it": {"sft.py": "from generate import args\nGRPOTrainer(args=args)\n"},
    "the program itself": {"run.sh": ""},
}


def test_nothing_is_said_of_training_where_the_reader_trains_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(GENERATED)
    assert of_documents(found(capsys)) == set()
    write({"grpo.yaml": f"{GENERATED['grpo.yaml']}max_prompt_length: 512\n"})
    assert of_documents(found(capsys)) == {"grpo.yaml:7 MEM901"}
    # A key of the project's own is no program's.
    write({"run.sh": "", "grpo.yaml": GENERATED["grpo.yaml"] + "rate: 0.5\n"})
    own = "@dataclass\nclass Own(ScriptArguments):\n    rate: float = 0.1\n\nparser"
    changed = GENERATES.replace("\nparser", own, 1).replace("((ScriptArguments", "((Own")
    write({"generate.py": f"from dataclasses import dataclass\n{changed}"})
    assert of_documents(found(capsys)) == set()


@pytest.mark.parametrize("name", MAY_TRAIN)
def test_a_reader_that_may_train_keeps_what_is_said(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write({**GENERATED, **MAY_TRAIN[name]})
    assert of_documents(found(capsys))
