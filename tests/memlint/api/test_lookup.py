"""What an ``Api`` answers, against facts that were read in the releases themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest

from memlint.api.lookup import Api
from memlint.api.signatures import REQUIRED, Expression, History, Kind
from memlint.api.target_versions import Target, parse_target

NEW = "trl=1.16,transformers=5.23,peft=0.21,accelerate=1.15,torch=2.13"


@pytest.fixture(scope="module")
def new() -> Api:
    return Api(parse_target(NEW))


def _api(target: str) -> Api:
    return Api(parse_target(target))


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("trl.trainer.sft_config.SFTConfig", "trl.SFTConfig"),
        ("trl.trainer.SFTTrainer", "trl.SFTTrainer"),
        ("transformers.trainer.Trainer", "transformers.Trainer"),
        ("transformers.training_args.TrainingArguments", "transformers.TrainingArguments"),
        ("peft.tuners.lora.LoraConfig", "peft.LoraConfig"),
        ("torch.utils.data.dataloader.DataLoader", "torch.utils.data.DataLoader"),
        ("torch.optim.adamw.AdamW", "torch.optim.AdamW"),
        (
            "transformers.models.auto.modeling_auto.AutoModelForCausalLM.from_pretrained",
            "transformers.AutoModelForCausalLM.from_pretrained",
        ),
        ("trl.trainer.ppo_trainer.PPOTrainer", "trl.PPOTrainer"),
        ("setfit.Trainer", "setfit.Trainer"),
        ("trl.nothing.Here", "trl.nothing.Here"),
        ("trl", "trl"),
    ],
)
def test_names_have_one_canonical_form(new: Api, name: str, canonical: str) -> None:
    assert new.canonical(name) == canonical


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        ("trl.SFTTrainer", True),
        ("trl.trainer.sft_config", True),
        ("trl.PPOTrainer", False),
        ("trl.DataCollatorForCompletionOnlyLM", False),
        ("trl.trainer.ppo_trainer.PPOTrainer", False),
        ("trl.experimental.orpo.ORPOTrainer", True),
        ("transformers.LlamaForCausalLM", True),
        ("transformers.AdamW", False),
        ("transformers.Trainer.tokenizer", False),
        ("transformers.Trainer.train", True),
        ("transformers.PreTrainedTokenizerBase.encode_plus", False),
        ("transformers.models.llama.modeling_llama.LlamaAttention", True),
        ("transformers.models.llama.modeling_llama.LlamaFlashAttention2", False),
        ("torch.utils.data.DataLoader", True),
        ("torch.anything", None),
        ("numpy.zeros", None),
        ("accelerate.commands.launch", None),
    ],
)
def test_what_can_be_imported(new: Api, name: str, exists: bool | None) -> None:
    assert new.exists(name) is exists


def test_a_config_stands_on_the_transformers_that_the_user_has() -> None:
    old = _api("trl=0.15,transformers=4.46").signature("trl.SFTConfig")
    newer = _api("trl=0.15,transformers=4.51").signature("trl.SFTConfig")
    assert old is not None
    assert newer is not None
    assert "evaluation_strategy" in old.parameters
    assert "evaluation_strategy" not in newer.parameters
    assert old.parameters["max_seq_length"].default == 1024


def test_overridden_defaults_and_order(new: Api) -> None:
    signature = new.signature("trl.SFTConfig")
    assert signature is not None
    names = list(signature.parameters)
    assert names[0] == "output_dir"
    assert names.index("learning_rate") < names.index("max_length")
    assert not signature.accepts_any
    assert new.default("trl.SFTConfig", "gradient_checkpointing") is True
    assert new.default("transformers.TrainingArguments", "logging_steps") == 500
    assert new.default("trl.SFTConfig", "logging_steps") == 10
    with pytest.raises(KeyError, match="has no parameter 'packaging'"):
        new.default("trl.SFTConfig", "packaging")


@pytest.mark.parametrize(
    ("target", "name", "parameter", "default"),
    [
        ("trl=0.18", "trl.GRPOConfig", "beta", 0.04),
        ("trl=0.19", "trl.GRPOConfig", "beta", 0.0),
        ("trl=1.9", "trl.GRPOConfig", "max_completion_length", 256),
        ("trl=1.10", "trl.GRPOConfig", "max_completion_length", 512),
        ("trl=0.15", "trl.GRPOConfig", "vllm_gpu_memory_utilization", 0.9),
        ("trl=0.18", "trl.GRPOConfig", "vllm_gpu_memory_utilization", 0.3),
        ("trl=0.13", "trl.DPOConfig", "max_length", None),
        ("trl=0.14", "trl.DPOConfig", "max_length", 1024),
        ("trl=1.0", "trl.GRPOConfig", "vllm_mode", "colocate"),
        ("torch=2.7", "transformers.TrainingArguments", "optim", "adamw_torch"),
        ("torch=2.8", "transformers.TrainingArguments", "optim", "adamw_torch_fused"),
        (
            "transformers=4.53,torch=2.8",
            "transformers.TrainingArguments",
            "optim",
            "adamw_torch",
        ),
        ("torch=2.13", "torch.utils.data.DataLoader", "num_workers", 0),
        ("accelerate=1.15", "accelerate.Accelerator", "mixed_precision", None),
    ],
)
def test_defaults_of_the_history(target: str, name: str, parameter: str, default: object) -> None:
    assert _api(target).default(name, parameter) == default


def test_positional_order_kinds_and_expressions(new: Api) -> None:
    trainer = new.signature("trl.SFTTrainer")
    assert trainer is not None
    assert trainer.positional[:3] == ("model", "args", "data_collator")
    assert trainer.parameters["model"].default is REQUIRED
    adamw = new.signature("torch.optim.AdamW")
    assert adamw is not None
    assert adamw.parameters["fused"].kind is Kind.KEYWORD
    assert adamw.parameters["betas"].default == (0.9, 0.999)
    from_pretrained = new.signature("transformers.LlamaForCausalLM.from_pretrained")
    assert from_pretrained is not None
    assert from_pretrained.accepts_any
    assert Expression("x") == Expression("x")


@pytest.mark.parametrize(
    ("name", "parameter", "accepted"),
    [
        ("trl.SFTConfig", "max_seq_length", False),
        ("trl.SFTConfig", "max_length", True),
        ("trl.SFTTrainer", "tokenizer", False),
        ("transformers.AutoModelForCausalLM.from_pretrained", "load_in_4bit", False),
        ("transformers.AutoModelForCausalLM.from_pretrained", "dtype", True),
        ("transformers.AutoModelForCausalLM.from_pretrained", "rope_theta", None),
        ("numpy.zeros", "dtype", None),
    ],
)
def test_which_keywords_are_taken(
    new: Api, name: str, parameter: str, accepted: bool | None
) -> None:
    assert new.accepts(name, parameter) is accepted


def test_bases_reach_across_packages(new: Api) -> None:
    assert "transformers.TrainingArguments" in new.bases("trl.SFTConfig")
    assert "transformers.Trainer" in new.bases("trl.GRPOTrainer")
    assert new.bases("transformers.LlamaForCausalLM")[0] == "transformers.PreTrainedModel"
    assert new.is_a("trl.trainer.sft_config.SFTConfig", "transformers.TrainingArguments")
    # What the target no longer has is still known for what it was.
    assert new.is_a("trl.PPOTrainer", "transformers.Trainer")
    assert new.bases("numpy.ndarray") == ()


def test_attributes_are_inherited(new: Api) -> None:
    trainer = new.attributes("trl.SFTTrainer")
    assert trainer is not None
    assert {"train", "processing_class", "state"} <= trainer
    assert "tokenizer" not in trainer
    config = new.attributes("trl.SFTConfig")
    assert config is not None
    assert {"device", "max_length", "learning_rate"} <= config
    assert "overwrite_output_dir" not in config
    assert new.attributes("torch.nn.Module") is None  # __getattr__


@pytest.mark.parametrize(
    ("name", "parameter", "since", "until", "deprecated"),
    [
        ("trl.SFTConfig", "max_seq_length", "0.9", "0.20", "0.16"),
        ("trl.SFTConfig", "evaluation_strategy", None, "4.51", "4.41"),
        ("trl.SFTConfig", "bf16", None, None, None),
        ("trl.SFTTrainer", "tokenizer", None, "0.16", "0.12"),
        ("trl.SFTTrainer", "packing", None, "0.13", "0.12"),
        ("trl.GRPOConfig", "max_prompt_length", "0.14", "0.28", "0.26"),
        ("trl.PPOTrainer", None, None, "0.29", None),
        ("transformers.AdamW", None, None, "4.50", None),
        ("transformers.PreTrainedTokenizerBase.encode_plus", None, None, "5.0", None),
    ],
)
def test_histories(
    new: Api,
    name: str,
    parameter: str | None,
    since: str | None,
    until: str | None,
    deprecated: str | None,
) -> None:
    history = new.history(name, parameter)
    assert history is not None
    assert (history.since, history.until) == (since, until)
    if parameter != "packing":
        assert name == "trl.PPOTrainer" or history.deprecated_since == deprecated


def test_a_history_names_the_package_whose_versions_it_speaks_of(new: Api) -> None:
    history = new.history("trl.SFTConfig", "warmup_ratio")
    assert history is not None
    assert (history.package, history.until) == ("transformers", "5.15")
    assert new.history("trl.SFTConfig", "nothing") is None
    assert new.history("numpy.zeros") is None


def test_the_config_of_a_trainer(new: Api) -> None:
    assert new.config_of("trl.SFTTrainer") == "trl.SFTConfig"
    assert new.config_of("trl.experimental.orpo.ORPOTrainer") == "trl.experimental.orpo.ORPOConfig"
    assert new.config_of("transformers.Trainer") == "transformers.TrainingArguments"
    assert new.config_of("setfit.Trainer") is None
    assert _api("trl=0.8").config_of("trl.SFTTrainer") == "transformers.TrainingArguments"


def test_behaviours_follow_the_target() -> None:
    assert _api("transformers=4.57").behaviour("load-dtype") == "float32"
    assert _api("transformers=5.0").behaviour("load-dtype") == "auto"
    with pytest.raises(KeyError):
        _api("trl=1.0").behaviour("weather")


def test_an_api_assumes_the_newest_target() -> None:
    assert Api().target.assumed
    assert isinstance(Api().target, Target)


def test_nothing_heavy_is_imported() -> None:
    script = (
        "import sys; from memlint.api.lookup import Api; "
        "from memlint.api.target_versions import newest; "
        "Api(newest()).signature('trl.SFTConfig'); from memlint.project.resolve import Resolver; "
        "Resolver().resolve('.'); "
        "print([m for m in ('torch', 'trl', 'transformers', 'libcst', 'rich', 'subprocess', "
        "'importlib.metadata', 'tomllib', 'memlint.api.extract') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_what_is_still_to_come_is_not_over() -> None:
    history = History("trl", since="0.9", until="0.12")
    assert [history.is_over(one) for one in ("0.8.1", "0.11.4", "0.12.0", "1.16")] == [
        False, False, True, True,
    ]  # fmt: skip
    assert not History("trl", since="0.16", until=None).is_over("1.16")
