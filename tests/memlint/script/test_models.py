"""Facts that no single call holds: what a model is, which trainer gets what, where it runs."""

from __future__ import annotations

from textwrap import dedent

import pytest

from memlint.script.call_settings import UNSURE
from tests.memlint.script.scripts import IMPORTS, read

LOAD = dedent("""
    from peft import LoraConfig, PeftModel, get_peft_model, prepare_model_for_kbit_training
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
    from trl import SFTConfig, SFTTrainer
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
""")

PEFT = {
    "get_peft_model": "Trainer(model=get_peft_model(model, LoraConfig()))",
    "peft_config": 'SFTTrainer(model="m", peft_config=LoraConfig())',
    "a loaded adapter": 'Trainer(model=PeftModel.from_pretrained(model, "adapter"))',
    "loaded with its base": """
        import peft
        model = peft.AutoPeftModelForCausalLM.from_pretrained("adapter", is_trainable=True)
        Trainer(model=model)
    """,
    "of another kind": 'Trainer(peft.PeftModelForSeq2SeqLM.from_pretrained(model, "adapter"))'.join(
        ("import peft\n", "")
    ),
    "moved afterwards": 'model = get_peft_model(model, LoraConfig()).to("cuda")\nTrainer(model)',
    "in a function": """
        def adapt(model):
            return get_peft_model(model, LoraConfig())
        Trainer(model=adapt(model))
    """,
    "compiled": "import torch\nTrainer(torch.compile(get_peft_model(model, LoraConfig())))",
}


@pytest.mark.parametrize("text", PEFT.values(), ids=list(PEFT))
def test_adapters_are_seen(text: str) -> None:
    (trainer,) = read(LOAD + dedent(text)).trainers
    assert trainer.peft is True


@pytest.mark.parametrize(
    "text",
    ["Trainer(model=model)", "Trainer(model)", "SFTTrainer(model, peft_config=None)"],
)
def test_a_plain_model_trains_all_weights(text: str) -> None:
    (trainer,) = read(LOAD + text).trainers
    assert trainer.peft is False
    assert trainer.model.name == "Qwen/Qwen3-0.6B"
    assert trainer.model.causal_lm is True


@pytest.mark.parametrize(
    "text",
    [
        # May be None.
        "from trl import get_peft_config\nSFTTrainer(model, peft_config=get_peft_config(options))",
        "SFTTrainer(model, peft_config=LoraConfig() if unknown() else None)",
        "if unknown():\n    model = get_peft_model(model, LoraConfig())\nTrainer(model)",
        "Trainer(model=unknown())",
    ],
)
def test_what_only_some_path_wraps_is_unsure(text: str) -> None:
    (trainer,) = read(LOAD + text).trainers
    assert trainer.peft is None


@pytest.mark.parametrize(
    ("arguments", "quantized"),
    [
        ("", False),
        (", load_in_4bit=True", True),
        (", load_in_8bit=False", False),
        (", quantization_config=BitsAndBytesConfig(load_in_4bit=True)", True),
        (", quantization_config=None", False),
        (", quantization_config=unknown()", None),
        (", **unknown()", None),
    ],
)
def test_quantization(arguments: str, quantized: bool | None) -> None:
    text = LOAD + f'model = AutoModelForCausalLM.from_pretrained("m"{arguments})\nTrainer(model)'
    (trainer,) = read(text).trainers
    assert trainer.model.quantized is quantized


def test_k_bit_preparation_is_seen() -> None:
    (trainer,) = read(LOAD + "Trainer(prepare_model_for_kbit_training(model))").trainers
    assert trainer.model.kbit is True
    (trainer,) = read(LOAD + "Trainer(model)").trainers
    assert trainer.model.kbit is False


def test_a_model_given_by_name() -> None:
    (trainer,) = read(IMPORTS + 'SFTTrainer(model="Qwen/Qwen3-0.6B")').trainers
    assert trainer.model.by_name
    assert trainer.model.name == "Qwen/Qwen3-0.6B"
    assert trainer.model.load is None


def test_a_model_from_elsewhere_is_unsure() -> None:
    (trainer,) = read(IMPORTS + "SFTTrainer(model=unknown)").trainers
    assert trainer.model.name is UNSURE
    assert (trainer.model.peft, trainer.model.quantized) == (None, None)


def test_each_trainer_has_its_own_configuration_and_model() -> None:
    script = read(
        LOAD
        + dedent("""
            other = AutoModelForCausalLM.from_pretrained("gpt2")
            first, second = TrainingArguments("a"), SFTConfig("b")
            Trainer(model=model, args=first)
            SFTTrainer(model=other, args=second)
        """)
    )
    plain, sft = script.trainers
    assert plain.config is not None
    assert sft.config is not None
    assert plain.config.setting("output_dir").value == "a"
    assert (plain.kind, plain.model.name) == ("transformers.Trainer", "Qwen/Qwen3-0.6B")
    assert (sft.config.kind, sft.model.name) == ("trl.SFTConfig", "gpt2")
    assert script.trainers_with(sft.config)[0].node is sft.node
    assert len(script.trainers_with(sft.config)) == 1


def test_a_trainer_without_arguments_has_no_configuration() -> None:
    (trainer,) = read(IMPORTS + 'SFTTrainer("m")').trainers
    assert trainer.args.given is False
    assert trainer.config is None


@pytest.mark.parametrize(
    "text",
    [
        "from unsloth import FastLanguageModel",
        "import unsloth.models",
        "def main():\n    import unsloth",
    ],
)
def test_unsloth(text: str) -> None:
    assert read(text).uses_unsloth
    assert not read("unsloth = 3").uses_unsloth


@pytest.mark.parametrize(
    "text",
    [
        "import torch_xla.core.xla_model as xm",
        "from optimum.neuron import NeuronTrainer",
        'from transformers import TrainingArguments\nTrainingArguments("o", use_cpu=True)',
        "from accelerate import Accelerator\nAccelerator(cpu=True)",
        'from transformers import TrainingArguments\nTrainingArguments("o", use_mps_device=True)',
        LOAD.replace(")", ', device_map="cpu")') + "batch = tokens(text).to(model.device)",
    ],
)
def test_runs_off_cuda(text: str) -> None:
    assert read(text).off_cuda


LOOP = LOAD + "{moves}" + "for batch in loader:\n    model(**batch).loss.backward()\n"


@pytest.mark.parametrize(
    ("moves", "off"),
    [
        ('model.to("cpu")\n', True),
        ('model.to("mps")\n', True),
        ("model.cpu()\n", True),
        ('import torch\nmodel.to(torch.device("cpu"))\n', True),
        ('device = "mps" if flag else "cpu"\nmodel.to(device)\n', True),
        ('device = "cuda" if flag else "cpu"\nmodel.to(device)\n', False),
        ("model.to(device)\n", False),
        ('model.cpu()\nmodel.to("cuda")\n', False),
        ("", False),
    ],
)
def test_a_loop_trains_where_its_model_is_moved(moves: str, off: bool) -> None:
    assert read(LOOP.format(moves=moves)).off_cuda is off


def test_runs_on_cuda_otherwise() -> None:
    assert not read(LOAD + 'TrainingArguments("o", use_cpu=False)').off_cuda
    assert not read(LOAD.replace(")", ', device_map="cpu")') + "model.cuda()").off_cuda
    assert not read(LOAD.replace(")", ', device_map="cpu")') + LOAD).off_cuda


@pytest.mark.parametrize(
    "text",
    [
        'from transformers import AutoProcessor\nAutoProcessor.from_pretrained("m")',
        "from transformers import Qwen2_5_VLForConditionalGeneration",
        "from transformers import Mistral3ForConditionalGeneration",
        "from transformers import AutoModelForVision2Seq",
    ],
)
def test_images(text: str) -> None:
    assert read(text).uses_vision


@pytest.mark.parametrize(
    "text",
    [
        LOAD,
        "from transformers import T5ForConditionalGeneration",
        "from transformers import BartForConditionalGeneration",
        "from mylib import Mistral3ForConditionalGeneration",
    ],
)
def test_no_images(text: str) -> None:
    assert not read(text).uses_vision


def test_loops_are_those_that_run_backward() -> None:
    script = read(
        """
        for epoch in range(3):
            for batch in loader:
                loss = model(**batch).loss
                loss.backward()
                accelerator.backward(loss)
        for batch in test:
            model(**batch)
        """
    )
    (loop,) = script.loops
    assert loop.node.lineno == 3
    assert len(loop.backwards) == 2
    assert loop.function is None


def test_contexts_come_from_with_decorators_and_callers() -> None:
    script = read(
        """
        import torch
        def run(model):
            model.step_one()
        @torch.no_grad()
        def decorated(model):
            model.step_two()
        context = torch.inference_mode()
        with context:
            run(m)
        decorated(m)
        """
    )
    (one,) = script.method_calls("step_one")
    (two,) = script.method_calls("step_two")
    assert one.contexts == ("torch.inference_mode",)
    assert two.contexts == ("torch.no_grad",)


def test_a_value_in_a_dict_is_read_by_key() -> None:
    script = read("from trl import SFTConfig\nSFTConfig(dataset_kwargs={'a': 1})")
    (config,) = script.configs
    mapping = config.setting("dataset_kwargs").value
    assert script.item(mapping, "a") == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "load", ["AutoPeftModelForCausalLM.from_pretrained('a')", "get_peft_model(model, LoraConfig())"]
)
def test_a_merged_adapter_is_none(load: str) -> None:
    text = f"{LOAD}from peft import AutoPeftModelForCausalLM\nmodel = {load}.merge_and_unload()\n"
    (trainer,) = read(text + "Trainer(model)").trainers
    assert trainer.model.peft is False
    (again,) = read(text + "Trainer(get_peft_model(model, LoraConfig()))").trainers
    assert again.model.peft is True


def test_a_model_that_two_paths_load_is_what_both_load() -> None:
    text = LOAD + dedent("""
        if unknown():
            model = {other}.from_pretrained("other", load_in_8bit=True)
        Trainer(model=model)
    """)
    (same,) = read(text.format(other="AutoModelForCausalLM")).trainers
    assert same.model.causal_lm is True
    assert same.model.load is None
    assert same.model.name is UNSURE
    (differs,) = read(
        "from transformers import AutoModelForMaskedLM\n"
        + text.format(other="AutoModelForMaskedLM")
    ).trainers
    assert differs.model.causal_lm is None


def test_unsloth_may_be_imported_elsewhere() -> None:
    assert read("model, tokenizer = experiment.get_unsloth_model()").uses_unsloth
    assert not read('load("unsloth/Qwen3-4B")').uses_unsloth


def test_a_notebook_that_installs_for_tpus_runs_there() -> None:
    shell = "pass  # !pip install -q cloud-tpu-client==0.10 torch_xla-1.9.whl\n"
    assert read(shell + "import torch").off_cuda
    assert not read("# !pip install cloud-tpu-client\nimport torch_xla_free").off_cuda
