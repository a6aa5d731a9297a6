"""What a launch command gives to a script: options, and words by their places."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from memlint.cli.main import run

_TRAINS = """
    import sys
    from dataclasses import dataclass
    import yaml
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig, HfArgumentParser
    from trl import SFTConfig, SFTTrainer

    @dataclass
    class Choices:
        load_in_4bit: bool = False

    def main(name, four):
        bits = None
        if four:
            bits = BitsAndBytesConfig(load_in_4bit=four, bnb_4bit_compute_dtype="bfloat16")
        model = AutoModelForCausalLM.from_pretrained(name, quantization_config=bits)
        args, lora = SFTConfig("out"), LoraConfig()
        SFTTrainer(model, args=args, peft_config=lora, train_dataset=rows).train()
"""
_BY_FLAG = """
    (choices,) = HfArgumentParser(Choices).parse_args_into_dataclasses()
    main("Qwen/Qwen3-8B", choices.load_in_4bit)
"""
_BY_PLACE = """
    settings = yaml.safe_load(open(sys.argv[{place}]))
    main(settings["base"], settings.get("qlora", False))
"""


@pytest.mark.parametrize(
    ("reads", "command", "is_told"),
    [
        (_BY_FLAG, "python train.py --load_in_4bit True", True),
        (_BY_FLAG, "python train.py --load_in_4bit False", False),
        (_BY_FLAG, "python train.py", False),
        (_BY_PLACE.format(place=1), "python train.py conf/four.yaml", True),
        (_BY_PLACE.format(place=2), "python train.py run-3 conf/four.yaml", True),
        (_BY_PLACE.format(place=1), "python train.py conf/plain.yaml", False),
        (_BY_PLACE.format(place=1), "python train.py --name conf/four.yaml", False),
        (_BY_PLACE.format(place=2), "python train.py conf/four.yaml", False),
        (_BY_PLACE.format(place=1), "python train.py $CONFIG", False),
    ],
)
def test_a_switch_is_known_by_the_command(
    reads: str,
    command: str,
    is_told: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "four.yaml").write_text("qlora: true\nbase: Qwen/Qwen3-8B\n")
    (tmp_path / "conf" / "plain.yaml").write_text("qlora: false\nbase: Qwen/Qwen3-8B\n")
    (tmp_path / "train.py").write_text(dedent(_TRAINS) + dedent(reads))
    (tmp_path / "run.sh").write_text(f"{command}\n")
    run(["check", "--no-cache", "--output-format=json", "--select=MEM413", "train.py"])
    assert [each["code"] for each in json.loads(capsys.readouterr().out)] == ["MEM413"] * is_told
