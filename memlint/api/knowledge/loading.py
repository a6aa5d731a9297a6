"""Loading and tokenizing: ``from_pretrained``, quantization, tokenizer methods, moved names."""

from __future__ import annotations

from memlint.api.knowledge.migrations import Migration
from memlint.api.successors import Advice, Build, Remove, Rename, Replace

_MODEL = "transformers.PreTrainedModel.from_pretrained"
_AUTO = "transformers.models.auto.auto_factory._BaseAutoModelClass.from_pretrained"
_TOKENIZER = "transformers.PreTrainedTokenizerBase"
_SOURCE = "transformers/modeling_utils.py, from_pretrained"

_QUANTIZED = tuple(
    line
    for name in ("load_in_4bit", "load_in_8bit")
    for owner in (_MODEL, _AUTO)
    for line in (
        Migration(
            owner,
            name,
            (Remove(note="not quantizing is the default", origin=_SOURCE),),
            values=(False, None),
        ),
        Migration(
            owner,
            name,
            (
                Build(
                    "quantization_config",
                    f"BitsAndBytesConfig({name}={{value}})",
                    imports=("transformers.BitsAndBytesConfig",),
                    merge=(
                        "load_in_4bit",
                        "load_in_8bit",
                        "bnb_4bit_compute_dtype",
                        "bnb_4bit_quant_type",
                        "bnb_4bit_use_double_quant",
                        "llm_int8_enable_fp32_cpu_offload",
                    ),
                    origin=_SOURCE,
                ),
            ),
        ),
    )
)

_LOADED = tuple(
    line
    for owner in (_MODEL, _AUTO)
    for line in (
        Migration(owner, "torch_dtype", (Rename("dtype", origin=f"{_SOURCE}, since 4.56"),)),
        Migration(owner, "dtype", (Rename("torch_dtype", origin=f"{_SOURCE}, until 4.55"),)),
        Migration(
            owner,
            "use_flash_attention_2",
            (Build("attn_implementation", '"flash_attention_2"', origin=_SOURCE),),
            values=(True,),
        ),
        Migration(owner, "use_flash_attention_2", (Remove(origin=_SOURCE),), values=(False,)),
        Migration(
            owner,
            "use_flash_attention_2",
            (
                Build(
                    "attn_implementation",
                    '"flash_attention_2" if {value} else None',
                    origin=_SOURCE,
                ),
            ),
        ),
        Migration(
            owner, "low_cpu_mem_usage", (Remove(note="always so since 5.0", origin=_SOURCE),)
        ),
        Migration(owner, "_fast_init", (Remove(note="always so since 5.0", origin=_SOURCE),)),
        Migration(
            owner, "offload_state_dict", (Remove(note="always so since 5.0", origin=_SOURCE),)
        ),
        Migration(
            owner,
            "resume_download",
            (Remove(note="downloads are always resumed", origin="transformers/utils/hub.py"),),
        ),
    )
)

_HUB = tuple(
    line
    for owner in (
        _MODEL,
        _AUTO,
        "transformers.AutoTokenizer.from_pretrained",
        f"{_TOKENIZER}.from_pretrained",
        "transformers.AutoConfig.from_pretrained",
        "transformers.AutoProcessor.from_pretrained",
    )
    for line in (
        Migration(owner, "use_auth_token", (Rename("token", origin="transformers/utils/hub.py"),)),
    )
)

_CALL = f"{_TOKENIZER}.__call__"

MIGRATIONS: tuple[Migration, ...] = (
    *(
        Migration(
            f"transformers.PreTrainedModel.{name}",
            None,
            (
                Advice(
                    note="remove the call: models use torch's fused attention by default (sdpa)",
                    origin="transformers/modeling_utils.py, 5.0",
                ),
            ),
            since="5.0",
        )
        for name in ("to_bettertransformer", "reverse_bettertransformer")
    ),
    *_QUANTIZED,
    *_LOADED,
    *_HUB,
    Migration(
        "transformers.utils.default_cache_path",
        None,
        (
            Replace(
                "huggingface_hub.constants.default_cache_path",
                origin="transformers/utils/hub.py, 4.57",
            ),
        ),
        since="5.0",
    ),
    Migration(
        f"{_TOKENIZER}.encode_plus",
        None,
        (Replace(_CALL, origin="transformers/tokenization_utils_base.py"),),
        since="5.0",
    ),
    Migration(
        f"{_TOKENIZER}.batch_encode_plus",
        None,
        (
            Replace(
                _CALL,
                arguments=(("batch_text_or_text_pairs", "text"),),
                origin="transformers/tokenization_utils_base.py",
            ),
        ),
        since="5.0",
    ),
    Migration(
        f"{_TOKENIZER}.as_target_tokenizer",
        None,
        (Advice(note="tokenize targets with tokenizer(text_target=...)"),),
        since="5.0",
    ),
    Migration(
        f"{_TOKENIZER}.prepare_seq2seq_batch",
        None,
        (Advice(note="tokenize with tokenizer(text, text_target=...)"),),
        since="5.0",
    ),
    # transformers' AdamW had an epsilon and a weight decay of its own.
    Migration(
        "transformers.AdamW",
        None,
        (
            Replace(
                "torch.optim.AdamW",
                arguments=(("correct_bias", None), ("no_deprecation_warning", None)),
                written=(("eps", "1e-6"), ("weight_decay", "0.0")),
                origin="transformers/optimization.py, AdamW.__init__",
            ),
        ),
    ),
    Migration(
        "transformers.AutoModelForVision2Seq",
        None,
        (Replace("transformers.AutoModelForImageTextToText", origin="modeling_auto.py"),),
    ),
    Migration(
        "transformers.AutoModelForImageTextToText",
        None,
        (Replace("transformers.AutoModelForVision2Seq", origin="modeling_auto.py"),),
    ),
    Migration(
        "transformers.AutoModelWithLMHead",
        None,
        (
            Advice(
                note="use AutoModelForCausalLM, AutoModelForMaskedLM or AutoModelForSeq2SeqLM, "
                "whichever the model is"
            ),
        ),
    ),
    Migration(
        "transformers.deepspeed.HfDeepSpeedConfig",
        None,
        (Replace("transformers.integrations.HfDeepSpeedConfig"),),
    ),
    Migration(
        "transformers.deepspeed.is_deepspeed_zero3_enabled",
        None,
        (Replace("transformers.integrations.is_deepspeed_zero3_enabled"),),
    ),
    Migration(
        "transformers.deepspeed.deepspeed_init",
        None,
        (Replace("transformers.integrations.deepspeed_init"),),
    ),
    Migration("transformers.deepspeed", None, (Replace("transformers.integrations.deepspeed"),)),
    Migration(
        "transformers.utils.send_example_telemetry",
        None,
        (Remove(note="examples report no use any more", origin="transformers/utils, 4.57"),),
    ),
    Migration(
        "transformers.is_torch_tpu_available",
        None,
        (Replace("transformers.is_torch_xla_available"),),
    ),
    Migration(
        "transformers.modeling_utils.shard_checkpoint",
        None,
        (Advice(note="huggingface_hub.split_torch_state_dict_into_shards does it now"),),
    ),
    *(
        Migration(
            f"transformers.{name}",
            None,
            (Advice(note="build the dataset with datasets.load_dataset and a tokenizing map"),),
        )
        for name in ("TextDataset", "LineByLineTextDataset", "LineByLineWithRefDataset")
    ),
    Migration(
        "transformers.infer_device",
        None,
        (Advice(note="torch.accelerator.current_accelerator() says what there is"),),
    ),
    Migration(
        "peft.prepare_model_for_int8_training",
        None,
        (Replace("peft.prepare_model_for_kbit_training", origin="peft/utils/other.py, 0.7"),),
    ),
    *(
        Migration(
            "accelerate.Accelerator",
            name,
            (
                Build(
                    "dataloader_config",
                    f"DataLoaderConfiguration({name}={{value}})",
                    imports=("accelerate.DataLoaderConfiguration",),
                    merge=(
                        "dispatch_batches",
                        "even_batches",
                        "split_batches",
                        "use_seedable_sampler",
                    ),
                    origin="accelerate/accelerator.py, 1.0",
                ),
            ),
        )
        for name in ("dispatch_batches", "even_batches", "use_seedable_sampler")
    ),
)
