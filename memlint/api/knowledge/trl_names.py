"""Classes and functions of TRL that moved or went.

What only moved needs no line: a name that exactly one module of the target still offers is found
there (``trl.ORPOTrainer`` in ``trl.experimental.orpo``).
"""

from __future__ import annotations

from memlint.api.knowledge.migrations import Migration
from memlint.api.successors import Advice, Inline, Replace

_NO_TRAINER = "TRL has no such trainer any more: stay below"


def _renamed(old: str, new: str, origin: str = "") -> Migration:
    return Migration(old, None, (Replace(new, origin=origin),))


def _advice(names: str, note: str, origin: str = "") -> tuple[Migration, ...]:
    return tuple(
        Migration(name, None, (Advice(note=note, origin=origin),)) for name in names.split()
    )


MIGRATIONS: tuple[Migration, ...] = (
    _renamed("trl.set_seed", "transformers.set_seed", "trl/core.py, 0.12"),
    _renamed("trl.core.set_seed", "transformers.set_seed", "trl/core.py, 0.12"),
    _renamed("trl.PPOv2Config", "trl.PPOConfig", "trl/trainer/ppov2_config.py, 0.12"),
    _renamed("trl.PPOv2Trainer", "trl.PPOTrainer", "trl/trainer/ppov2_trainer.py, 0.12"),
    *(
        _renamed(f"trl.{name}", "trl.ScriptArguments", "trl/utils.py, 0.12")
        for name in (
            "SFTScriptArguments",
            "DPOScriptArguments",
            "SftScriptArguments",
            "DpoScriptArguments",
        )
    ),
    *(
        _renamed(f"trl.{name}", f"transformers.utils.{name}", "trl/import_utils.py")
        for name in ("is_peft_available", "is_bitsandbytes_available")
    ),
    _renamed("trl.import_utils.is_peft_available", "transformers.utils.is_peft_available"),
    *(
        _renamed(
            f"{module}.is_{device}_available", f"transformers.utils.is_torch_{device}_available"
        )
        for module in ("trl", "trl.import_utils")
        for device in ("npu", "xpu")
    ),
    *(
        _renamed(f"{module}.is_rich_available", "transformers.utils.is_rich_available")
        for module in ("trl", "trl.import_utils")
    ),
    Migration(
        "trl.get_kbit_device_map",
        None,
        (
            Inline(
                '{"": PartialState().local_process_index}',
                imports=("accelerate.PartialState",),
                origin="trl/trainer/utils.py, get_kbit_device_map",
            ),
        ),
    ),
    # TRL took these away without another of the kind: the runtime has them under their names.
    _renamed(
        "trl.setup_chat_format",
        "memlint_runtime.setup_chat_format",
        "trl/models/utils.py, 0.26",
    ),
    _renamed(
        "trl.DataCollatorForCompletionOnlyLM",
        "memlint_runtime.DataCollatorForCompletionOnlyLM",
        "trl/trainer/utils.py, 0.20",
    ),
    *_advice(
        "trl.trainer.ConstantLengthDataset trl.trainer.utils.ConstantLengthDataset",
        "set packing=True in SFTConfig",
        "trl/trainer/utils.py, 0.20",
    ),
    *_advice(
        "trl.trainer.utils.DPODataCollatorWithPadding",
        "DPOTrainer brings its own collator",
        "trl/trainer/dpo_trainer.py, 0.26",
    ),
    *_advice(
        "trl.trainer.utils.RewardDataCollatorWithPadding",
        "RewardTrainer brings its own collator",
        "trl/trainer/reward_trainer.py, 0.24",
    ),
    *_advice(
        "trl.PPOTrainer trl.PPOConfig trl.AutoModelForCausalLMWithValueHead "
        "trl.AutoModelForSeq2SeqLMWithValueHead trl.PreTrainedModelWrapper",
        "PPO left TRL in 1.13: use GRPOTrainer or RLOOTrainer, or take trl 1.12 with "
        "`trl.experimental.ppo`",
        "trl/experimental/ppo, until 1.12",
    ),
    *_advice(
        "trl.BCOTrainer trl.BCOConfig trl.NashMDTrainer trl.NashMDConfig trl.XPOTrainer "
        "trl.XPOConfig trl.PRMTrainer trl.PRMConfig",
        f"{_NO_TRAINER} trl 1.14, whose `trl.experimental` has it since 0.29",
    ),
    *_advice(
        "trl.DDPOTrainer trl.DDPOConfig trl.AlignPropTrainer trl.AlignPropConfig "
        "trl.DefaultDDPOStableDiffusionPipeline trl.IterativeSFTTrainer trl.IterativeSFTConfig",
        f"{_NO_TRAINER} trl 0.24",
    ),
    *_advice(
        "trl.BestOfNSampler trl.core.LengthSampler trl.TextEnvironment trl.TextHistory",
        "TRL no longer has it: write the few lines yourself",
    ),
    *_advice(
        "trl.PairRMJudge trl.HfPairwiseJudge trl.OpenAIPairwiseJudge trl.BasePairwiseJudge "
        "trl.BaseJudge trl.WinRateCallback",
        "judges were removed from TRL; score with a reward function",
    ),
    *_advice("trl.truncate_dataset", "set max_length in the config", "trl/data_utils.py"),
    _renamed("trl.pack_examples", "trl.pack_dataset", "trl/data_utils.py, 0.17"),
)
