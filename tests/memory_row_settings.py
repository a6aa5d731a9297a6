"""What a published measurement says, as settings of the memory model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from memlint.memory.checkpoints import find_config

Row = Mapping[str, Any]


class InexpressibleError(Exception):
    """A row that settings cannot say; the message names what is missing."""


def settings_of(row: Row) -> dict[str, Any]:
    """The settings of a measured run.

    Raises:
        InexpressibleError: something that the settings have no key for.
    """
    method = str(row["method"])
    settings: dict[str, Any] = {
        "model": model_of(row),
        "micro_batch": int(row["micro_batch"]),
        "seq_len": int(row["seq_len"]),
        "packed": packed(row),
        "longest_first": "longest sample first" in str(row["seq_kind"]) or None,
        "world_size": int(row["world_size"]),
        "versions": versions_of(row),
        "trainer": trainer_of(row),
        "gradient_accumulation": accumulation_of(row),
        "checkpointing": checkpointing_of(row),
        "attention": attention_of(row),
        "loss": loss_of(row),
        "optimizer": optimizer_of(row),
        "offload": offload_of(row),
        "compile": bool(row["compile"]) and "eager" not in str(row["id"]),
        "gpu": gpu_of(row),
    }
    settings.update(precision_of(row))
    settings.update(method_of(method, row))
    settings.update(sharding_of(row))
    return {key: value for key, value in settings.items() if value is not None}


def packed(row: Row) -> bool:
    """True if every batch has the same length: packed, or data made to be so."""
    text = str(row["seq_kind"])
    return bool(re.search(r"(?<!un)packed", text)) or (
        text.startswith("exact") and "padded" not in text
    )


def model_of(row: Row) -> str | dict[str, Any]:
    name = str(row["model"])
    if match := re.match(r"(.+) \(sequence classification, (\d+) labels\)", name):
        config = dict(find_config(match.group(1)))
        kind = str(config["model_type"]).title()
        config["architectures"] = [f"{kind}ForSequenceClassification"]
        config["num_labels"] = int(match.group(2))
        return {"config": config}
    if "2 layers" in name:
        raise InexpressibleError("a model cut to two layers")
    if "from-scratch" in str(row["attention"]) and "own LayerNorm" in str(row.get("notes")):
        raise InexpressibleError("norms and activations written by the script")
    name = re.sub(r"\s*\(.*\)$", "", name).strip()
    return {
        "Llama 3 8B": "meta-llama/Meta-Llama-3-8B",
        "Llama 3.1 8B": "meta-llama/Llama-3.1-8B",
        "Llama 3.1 70B": "meta-llama/Llama-3.1-70B",
        "Llama 3.1 405B": "meta-llama/Llama-3.1-405B",
        "TinyLlama 1.1B": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    }.get(name, name)


def versions_of(row: Row) -> dict[str, str]:
    text = str(row["framework"])
    found: dict[str, str] = {}
    names = {
        "torch": r"(?:torch|PyTorch)",
        "transformers": "transformers",
        "trl": "trl",
        "peft": "peft",
        "accelerate": "accelerate",
        "bitsandbytes": "bitsandbytes",
    }
    for name, pattern in names.items():
        match = re.search(pattern + r"[ ~=<>]*(\d+\.\d+(?:\.\d+)*)", text)
        if match:
            found[name] = match.group(1)
    if "litgpt" in f"{text} {row['trainer']} {row['source']}".lower():
        found["litgpt"] = "0.4"
        # Every release of litgpt before 2025 pins this one.
        found.setdefault("bitsandbytes", "0.42.0")
    if "torch" not in found and "torchtitan" in str(row["trainer"]):
        found["torch"] = "2.6" if str(row["as_of"])[:7] < "2025-06" else "2.9"
    ours = trainer_of(row) != "loop"
    if "transformers" not in found and ours:
        # What was current at the time of the measurement.
        current = {"2021": "4.12", "2022": "4.25", "2023": "4.35", "2024": "4.40"}
        if version := current.get(str(row["as_of"])[:4]):
            found["transformers"] = version
    return found


def trainer_of(row: Row) -> str:
    text = str(row["trainer"]).lower()
    if "sfttrainer" in text:
        return "trl.SFTTrainer"
    if "hf trainer" in text or "swift" in text:
        return "transformers.Trainer"
    return "loop"


def accumulation_of(row: Row) -> int:
    text = str(row["grad_accum"])
    if match := re.match(r"global (\d+) / \(4 x", text):
        return max(int(match.group(1)) // 4 // int(row["world_size"]), 1)
    match = re.match(r"\d+", text)
    return max(int(match.group()), 1) if match else 1


def checkpointing_of(row: Row) -> str:
    text = str(row["checkpointing"]).lower()
    if text.startswith("select"):
        return "selective"
    if text.startswith("none"):
        return "none"
    if text.startswith("not stated"):
        return "selective"
    return "full"


def attention_of(row: Row) -> str:
    text = str(row["attention"]).lower()
    if text.startswith(("eager", "from-scratch")):
        return "eager"
    if "flash" in text and "sdpa" not in text:
        return "flash_attention_2"
    return "sdpa"


def loss_of(row: Row) -> str:
    text = str(row["loss_path"]).lower()
    if "liger fused" in text or "megatron fused" in text:
        return "liger"
    if "triton ce" in text or "fused ce" in text:
        return "fused"
    if "chunked" in text:
        return "chunked" if "full logits" not in text or "forward" in text else "full_logits"
    return "full_logits"


def optimizer_of(row: Row) -> str:
    text = str(row["optimizer"]).lower()
    if "galore" in text:
        return "galore_adamw_8bit_layerwise" if "perlayer" in str(row["id"]) else "galore_adamw"
    if "pagedadamw8bit" in text:
        return "paged_adamw_8bit"
    if "4bit" in text:
        return "adamw_torch_4bit"
    if "bitsandbytes adamw8bit" in text or text.startswith("bitsandbytes a"):
        return "adamw_8bit"
    if "torchao adamw8" in text:
        return "adamw_torch_8bit"
    if "adafactor" in text:
        return "adafactor"
    if "trainer default)" in text or "adamw_hf" in text or "bert-large" in str(row["id"]):
        return "adamw_hf"
    if "bitsandbytes pagedadamw" in text and "nf4" in str(row["precision_weights"]):
        return "paged_adamw_32bit"
    return "adamw_torch_fused" if "fused" in text else "adamw_torch"


def offload_of(row: Row) -> str:
    text = str(row["offload"]).lower()
    if "optimizer" in text:
        return "optimizer"
    if "streamed" in text or "cpu offload" in str(row["optimizer"]).lower():
        return "parameters"
    return "none"


def gpu_of(row: Row) -> str | None:
    text = str(row["gpu"])
    for pattern, name in (
        ("H100 9", "h100-96gb"),
        ("H100", "h100-80gb"),
        ("H800", "h100-80gb"),
        ("H20", "h20-96gb"),
        ("A100.*40", "a100-40gb"),
        ("A100", "a100-80gb"),
        ("A10G", "a10g-24gb"),
        ("L40S", "l40s-48gb"),
        ("4090", "rtx4090-24gb"),
        ("V100", "v100-16gb"),
        ("B200", "b200-180gb"),
        ("MI300", "mi300x-192gb"),
    ):
        if re.search(pattern, text):
            return name
    return None


def precision_of(row: Row) -> dict[str, Any]:
    weights = str(row["precision_weights"]).lower()
    compute = str(row["precision_compute"]).lower()
    settings: dict[str, Any] = {
        "weights_dtype": "float32" if weights.startswith(("float32", "fp32")) else "bfloat16",
        "compute_dtype": "bfloat16",
    }
    if ("float32" in compute and "bf" not in compute) or compute.startswith("tf32"):
        settings["compute_dtype"] = "float32"
    if re.search(r"(?<!b)float16|fp16", compute):
        settings["compute_dtype"] = "float16"
    if "pure" in compute:
        settings["autocast"] = False
    elif "autocast" in compute or "amp" in compute or "mixed" in compute:
        settings["autocast"] = True
    if "fp32 sharded" in weights:
        settings["weights_dtype"] = "bfloat16"
    return settings


_LISTS = {"query": "q_proj", "value": "v_proj"}


def method_of(method: str, row: Row) -> dict[str, Any]:
    lowered = method.lower()
    head = lowered.split(" ")[0].rstrip(":")
    if head.startswith("full") or "lisa" in lowered or "galore" in lowered:
        if "lisa" in lowered:
            raise InexpressibleError("LISA")
        return {"method": "full"}
    if "adapter v" in lowered or "llama-pro" in lowered:
        raise InexpressibleError("an adapter that is not LoRA")
    if head.isidentifier() and ":" in method and method.split(":")[0].isupper():
        return _peft(method)
    if "lora" not in lowered:
        raise InexpressibleError("a method that is neither full nor LoRA")
    lora: dict[str, Any] = {"r": 8, "dropout": 0.0}
    if match := re.search(r"r=(\d+)", method):
        lora["r"] = int(match.group(1))
    if match := re.search(r"dropout[= ](\d*\.\d+)", method):
        lora["dropout"] = float(match.group(1))
    lora["target_modules"] = _targets(method)
    if "modules_to_save" in method:
        lora["modules_to_save"] = ["embed_tokens", "lm_head"]
    if "litgpt" in str(row["id"]):
        lora["dropout"] = 0.05  # the default of its scripts
    if "litgpt" in str(row["id"]) or "titan" in str(row["id"]) or "torchtune" in str(row["id"]):
        lora["dtype"] = "bfloat16"
    settings: dict[str, Any] = {"method": "lora", "lora": lora}
    quantization = _quantization(row, lowered)
    if quantization:
        settings.update(method="qlora", quantization=quantization)
    return settings


def _targets(method: str) -> list[str] | str:
    lowered = method.lower()
    if "all" in lowered and (
        "all-linear" in lowered or "all linear" in lowered or "ll on awq" in lowered
    ):
        return "all-linear"
    if "default (qkv" in lowered:
        return ["q_proj", "k_proj", "v_proj", "c_attn", "query_key_value", "W_pack"]
    match = re.search(r" on ([\w, ]+)", method)
    text = match.group(1) if match else "q_proj,v_proj"
    names = [
        part for part in re.split(r"[, ]+", text) if part and part not in ("base", "trainable")
    ]
    short = {"q": "q_proj", "v": "v_proj", "k": "k_proj", "o": "o_proj"}
    return [short.get(name, name) for name in names] or ["q_proj", "v_proj"]


def _quantization(row: Row, method: str) -> dict[str, Any] | None:
    text = f"{row['precision_weights']} {method}".lower()
    prepared = "baseline-peft-bnb" in str(row["id"]) or "baseline" in str(row["id"])
    if "gptq" in text:
        return {"bits": 8 if "int8" in text else 4, "type": "gptq", "kbit_preparation": False}
    if "awq" in text:
        return {"bits": 4, "type": "awq", "kbit_preparation": False}
    if "nf4" in text or "bnb" in text or "qlora" in text:
        return {
            "bits": 4,
            "type": "nf4",
            "double_quant": "dq" in text or "torchao" in text,
            "kbit_preparation": prepared or "swift" in str(row["id"]),
        }
    return None


def _peft(method: str) -> dict[str, Any]:
    kind, _, text = method.partition(":")
    config = json.loads(text)
    if kind == "LORA":
        if config.get("use_dora"):
            raise InexpressibleError("DoRA")
        return {
            "method": "lora",
            "lora": {
                "r": config["r"],
                "target_modules": config["target_modules"],
                "dropout": config.get("lora_dropout", 0.0),
            },
        }
    if kind in _LIKE_LORA:
        rank = config.get("r") or config.get("init_r") or 8
        return {
            "method": "lora",
            "lora": {
                "r": min(int(rank), 64),
                "target_modules": config.get("target_modules") or ["q_proj", "v_proj"],
                "dropout": 0.0,
            },
        }
    raise InexpressibleError("an adapter that is not LoRA")


# Adapters of linear maps whose memory is that of LoRA, nearly: a product beside the base's.
_LIKE_LORA = (
    "ADALORA",
    "LOHA",
    "LOKR",
    "OFT",
    "BOFT",
    "ROAD",
    "VERA",
    "PVERA",
    "MISS",
    "IA3",
    "RANDLORA",
    "UNILORA",
    "VBLORA",
    "C3A",
    "SHIRA",
    "WAVEFT",
    "FROD",
    "DEFT",
    "PSOFT",
    "ADAMSS",
    "PEANUT",
    "GLORA",
    "TINYLORA",
    "FOURIERFT",
)


def sharding_of(row: Row) -> dict[str, Any]:
    text = str(row["sharding"])
    lowered = text.lower()
    options: dict[str, Any] = {}
    for key, name in (
        ("tp", "tensor_parallel"),
        ("pp", "pipeline_parallel"),
        ("cp", "sequence_parallel"),
        ("ep", "expert_parallel"),
        ("sp", "sequence_parallel"),
    ):
        if match := re.search(rf"\b{key} ?(\d+)", lowered):
            options[name] = int(match.group(1))
    if match := re.search(r"sequence parallel (\d+)", lowered):
        options["sequence_parallel"] = int(match.group(1))
    if match := re.search(r"fsdp2? (\d+)\b", lowered):
        options["shard_size"] = int(match.group(1))
    result: dict[str, Any] = {"sharding_options": options}
    if "megatron" in lowered:
        raise InexpressibleError("Megatron")
    if "device_map" in lowered:
        options["device_map"] = "auto"
        result["sharding"] = "none"
    elif "zero-3" in lowered or "zero3" in lowered:
        result["sharding"] = "fsdp" if "fsdp" in lowered else "zero3"
    elif "zero-2" in lowered or "zero2" in lowered or "deepspeed" in lowered:
        result["sharding"] = "zero2"
    elif "fsdp2" in lowered or "torchtitan" in str(row["trainer"]).lower():
        result["sharding"] = "fsdp2"
    elif "fsdp" in lowered:
        result["sharding"] = "fsdp"
    elif "ddp" in lowered:
        result["sharding"] = "ddp"
    else:
        result["sharding"] = "none"
    if int(row["world_size"]) == 1:
        result["sharding"] = "none"
    return result


def metric_of(row: Row) -> str:
    kind = str(row["metric_class"])
    if kind.startswith("active"):
        return "allocated"
    if kind.startswith("unknown"):
        return "reserved"
    return {"nvidia-smi": "nvidia_smi"}.get(kind, kind)
