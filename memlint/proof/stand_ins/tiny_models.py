"""Tiny models with the classes that the names of checkpoints stand for."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from memlint.proof.stand_ins.tiny_tokens import VOCABULARY

# Keywords that loaders of transformers take although their signatures only say ``**kwargs``.
_LOADER_TAKES = frozenset(
    [
        "attn_implementation",
        "cache_dir",
        "code_revision",
        "config",
        "device_map",
        "dtype",
        "experts_implementation",
        "force_download",
        "from_tf",
        "ignore_mismatched_sizes",
        "key_mapping",
        "local_files_only",
        "low_cpu_mem_usage",
        "max_memory",
        "max_position_embeddings",
        "num_labels",
        "id2label",
        "label2id",
        "offload_buffers",
        "offload_folder",
        "output_attentions",
        "output_hidden_states",
        "problem_type",
        "proxies",
        "quantization_config",
        "resume_download",
        "return_unused_kwargs",
        "revision",
        "subfolder",
        "token",
        "torch_dtype",
        "tp_plan",
        "trust_remote_code",
        "use_auth_token",
        "use_cache",
        "use_kernels",
        "use_safetensors",
        "variant",
        "weights_only",
        "pad_token_id",
        "bos_token_id",
        "eos_token_id",
        "sliding_window",
        "rope_scaling",
        "rope_theta",
        "finetuning_task",
        "gradient_checkpointing",
        "tie_word_embeddings",
        "_attn_implementation",
        "return_dict",
    ]
)
# The configuration class of a checkpoint, by a part of its name; the first that fits.
_FAMILIES = (
    (r"t5|flan|ul2|mt0", "T5Config"), (r"bart(?!h)", "BartConfig"),
    (r"gpt-?2|dialogpt", "GPT2Config"), (r"roberta", "RobertaConfig"),
    (r"distil-?bert", "DistilBertConfig"), (r"bert", "BertConfig"), (r"bloom", "BloomConfig"),
    (r"falcon", "FalconConfig"), (r"gpt-?neox|pythia|stablecode|stablelm", "GPTNeoXConfig"),
    (r"phi-?3", "Phi3Config"), (r"phi", "PhiConfig"), (r"gemma-?2", "Gemma2Config"),
    (r"gemma-?3", "Gemma3TextConfig"), (r"gemma", "GemmaConfig"),
    (r"mistral|zephyr", "MistralConfig"), (r"qwen-?3", "Qwen3Config"), (r"qwen", "Qwen2Config"),
    (r"\bopt\b|opt-", "OPTConfig"), (r"starcoder|santacoder", "GPTBigCodeConfig"),
)  # fmt: skip
_SMALL = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "d_model": 32, "d_kv": 8,
    "d_ff": 64, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "n_embd": 32,
    "n_layer": 2, "n_head": 4, "max_position_embeddings": 2048, "n_positions": 2048,
    "max_window_layers": 2, "sliding_window": 64, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 0, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "embedding_size": 32, "type_vocab_size": 2,
}  # fmt: skip


def _small_config(config_class: Any) -> Any:
    """A configuration of some ten thousand parameters, with the class that a hub's would name."""
    import transformers

    made = _shrunk(config_class)
    if made.is_encoder_decoder:
        made.decoder_start_token_id = 0
    for mapping in (
        transformers.MODEL_FOR_CAUSAL_LM_MAPPING,
        transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    ):
        if config_class in mapping and not made.architectures:
            made.architectures = [mapping[config_class].__name__]
    return made


def _shrunk(config_class: Any) -> Any:
    config = config_class()
    takes = {
        name: value
        for name, value in _SMALL.items()
        if hasattr(config, name) and not isinstance(getattr(config_class, name, None), property)
    }
    if hasattr(config, "layer_types"):
        takes["layer_types"] = None
    try:
        return config_class(**takes)
    except Exception:
        takes.pop("layer_types", None)
        return config_class(**takes)


def _config_class(name: str, loader: str) -> Any:
    import transformers

    for pattern, found in _FAMILIES:
        if re.search(pattern, name.lower()):
            return getattr(transformers, found)
    if "Seq2Seq" in loader or "ConditionalGeneration" in loader:
        return transformers.T5Config
    return transformers.LlamaConfig


def _refuse_unknown(loader: str, keywords: dict[str, Any]) -> None:
    for name in keywords:
        if name not in _LOADER_TAKES:
            raise TypeError(
                f"{loader}.from_pretrained() got an unexpected keyword argument '{name}'"
            )


def _auto_classes() -> list[Any]:
    """Every ``AutoModelFor...``: each has a copy of its own of the loader."""
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

    return [
        value
        for value in vars(modeling_auto).values()
        if isinstance(value, type) and issubclass(value, _BaseAutoModelClass)
    ]


def _quantize(made: Any, real_load: Any, kw: dict[str, Any]) -> Any:
    """``made`` as bitsandbytes loads it from a file: its kernels for the CPU are real."""
    with tempfile.TemporaryDirectory(prefix="memlint-verify-") as folder:
        made.save_pretrained(folder)
        options = {name: kw[name] for name in ("quantization_config", "dtype") if name in kw}
        return real_load(type(made), folder, config=made.config, device_map="cpu", **options)


def replace_models(fp32: bool, *, quantize: bool) -> None:
    """quantize: really quantize what is loaded so; else its weights are only frozen."""
    import torch
    import transformers
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

    def auto(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        _refuse_unknown(cls.__name__, kw)
        name = kw.pop("pretrained_model_name_or_path", name)
        if Path(str(name), "config.json").is_file():
            config = transformers.AutoConfig.from_pretrained(str(name))
        else:
            config = _small_config(_config_class(str(name), cls.__name__))
        return build(lambda: cls.from_config(config), config, {**kw, "name": name})

    def concrete(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        _refuse_unknown(cls.__name__, kw)
        config = _small_config(cls.config_class)
        return build(lambda: cls(config), config, {**kw, "name": name})

    real_load = transformers.PreTrainedModel.from_pretrained.__func__

    def build(make: Any, config: Any, kw: dict[str, Any]) -> Any:
        quantized = kw.get("quantization_config") is not None
        if quantized and quantize:
            config.hidden_size, config.intermediate_size, config.head_dim = 64, 128, 16
        for label in ("num_labels", "id2label", "label2id", "problem_type"):
            if label in kw:
                setattr(config, label, kw[label])
        if kw.get("attn_implementation") in ("eager", "sdpa"):
            config._attn_implementation = kw["attn_implementation"]
        torch.manual_seed(0)
        wanted = kw.get("dtype", kw.get("torch_dtype"))
        model = make()
        if wanted in (torch.bfloat16, "bfloat16") and not fp32:
            model = model.to(torch.bfloat16)
        if quantized and quantize:
            model = _quantize(model, real_load, kw)
        elif quantized:
            for parameter in model.parameters():
                parameter.requires_grad_(False)
        model.name_or_path = str(kw.get("name", "stand-in"))
        return model.eval()

    for cls in (_BaseAutoModelClass, *_auto_classes()):
        cls.from_pretrained = classmethod(auto)
    transformers.PreTrainedModel.from_pretrained = classmethod(concrete)

    def config(cls: Any, name: Any = None, *args: Any, **kw: Any) -> Any:
        if Path(str(name), "config.json").is_file():
            return real_config(name, *args, **kw)
        unused = kw.pop("return_unused_kwargs", False)
        made = _small_config(_config_class(str(name), ""))
        for key, value in kw.items():
            if hasattr(made, key) and key not in ("vocab_size",):
                setattr(made, key, value)
        return (made, {}) if unused else made

    real_config = transformers.AutoConfig.from_pretrained
    transformers.AutoConfig.from_pretrained = classmethod(config)
    transformers.GenerationConfig.from_pretrained = classmethod(lambda cls, *a, **k: cls())
    real_generate = transformers.GenerationMixin.generate

    def generate(self: Any, *args: Any, **kw: Any) -> Any:
        for name in ("max_new_tokens", "max_length"):
            if isinstance(kw.get(name), int) and kw[name] > 64:
                kw.pop(name)
                kw["max_new_tokens"] = 4
        return real_generate(self, *args, **kw)

    transformers.GenerationMixin.generate = generate
