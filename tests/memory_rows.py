"""Holds the memory model against measured training runs.

    python -m tests.memory_rows FILE.jsonl [--worst N] [--row TEXT]

Each line of the file is one published measurement: what was trained, how, and the peak that was
read, with its kind (allocated, reserved, nvidia-smi). A row becomes settings; the prediction of the
same kind is compared. Rows that no setting can express are counted with the reason. The tables
show the share predicted, median and 90th percentile of the absolute error and the median signed
error, by kind, method and source.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from memlint.memory import SettingsError, estimate
from memlint.memory.checkpoints import find_config

Row = Mapping[str, Any]
GIB = 2**30


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
    """Whether every batch has the same length: packed, or data made to be so."""
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


class Compared:
    """One row with its prediction."""

    def __init__(
        self, row: Row, predicted: float, interval: tuple[float, float], peak: str
    ) -> None:
        self.row = row
        self.predicted = predicted
        self.measured = float(row["value_gib"])
        self.interval = interval
        self.peak = peak

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1

    @property
    def capped(self) -> bool:
        return "cap" in str(self.row["completeness"])


def compare(rows: Iterable[Row]) -> tuple[list[Compared], dict[str, list[str]]]:
    """Predictions of the rows that settings can express; the others by reason."""
    done: list[Compared] = []
    left: dict[str, list[str]] = {}
    for row in rows:
        if row.get("value_gib") is None:
            left.setdefault("no number (out of memory)", []).append(str(row["id"]))
            continue
        try:
            result = estimate(settings_of(row))
        except (InexpressibleError, SettingsError) as error:
            left.setdefault(str(error), []).append(str(row["id"]))
            continue
        interval = getattr(result, metric_of(row))
        done.append(
            Compared(
                row,
                interval.estimate / GIB,
                (interval.low / GIB, interval.high / GIB),
                result.peak.name,
            )
        )
    return done, left


def _table(title: str, rows: list[Compared], key: Callable[[Compared], str]) -> list[str]:
    lines = [
        f"{title:44} {'rows':>5} {'median':>7} {'p90':>7} {'bias':>7} {'low>3%':>7} {'inside':>7}"
    ]
    groups: dict[str, list[Compared]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    for name, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        errors = sorted(abs(row.error) for row in members)
        p90 = errors[min(int(len(errors) * 0.9), len(errors) - 1)]
        bias = statistics.median(row.error for row in members)
        below = sum(row.error < -0.03 for row in members)
        inside = sum(row.interval[0] <= row.measured <= row.interval[1] for row in members)
        lines.append(
            f"{name[:44]:44} {len(members):5} {statistics.median(errors):7.1%} {p90:7.1%} "
            f"{bias:+7.1%} {below:7} {inside / len(members):7.0%}"
        )
    return lines


def _source(row: Compared) -> str:
    return str(row.row["source"]).split(" ")[0] + " " + str(row.row["id"]).split("/")[0]


def _without(rows: list[Compared]) -> list[str]:
    """The errors of all other sources, and those of each source left out."""
    lines = [
        f"{'left out':44} {'rows':>5} {'median':>7} {'p90':>7} {'bias':>7}   "
        f"{'others: median':>14} {'p90':>7} {'bias':>7}"
    ]
    names = sorted({_source(row) for row in rows})
    for name in names:
        mine = [row for row in rows if _source(row) == name]
        others = [row for row in rows if _source(row) != name]
        if not others:
            continue
        left, rest = _figures(mine), _figures(others)
        lines.append(
            f"{name[:44]:44} {len(mine):5} {left[0]:7.1%} {left[1]:7.1%} {left[2]:+7.1%}   "
            f"{rest[0]:14.1%} {rest[1]:7.1%} {rest[2]:+7.1%}"
        )
    return lines


def _figures(rows: list[Compared]) -> tuple[float, float, float]:
    """Median and 90th percentile of the absolute error, median signed error."""
    errors = sorted(abs(row.error) for row in rows)
    p90 = errors[min(int(len(errors) * 0.9), len(errors) - 1)]
    return statistics.median(errors), p90, statistics.median(row.error for row in rows)


# Rows that are not met, by a part of their id, and what is missing.
EXPLANATIONS = {
    "litgpt-thunder/": "Thunder chooses itself what is kept and what is computed again",
    "soup-grid": "14 bytes a logit were measured, 12 are explained: something holds the output",
    "-2gpu": "FSDP: whole gradients of frozen weights between micro-batches; the length of the"
    " batches after the first, longest one is not known",
    "stablelm-3b-bf16mixed": "float32 weights under autocast: 3 GiB are not explained",
    "ao-mx": "the same settings took 39 GiB on another GPU (MI300X)",
    "ao-fp8": "not explained; likely 8-bit copies of weights, which are not counted",
    "titan2412": "releases of 2024: up to 30 % more than the same settings measured later",
    "rasbt-speed": "a helper function frees the logits before backward; loops are taken to hold"
    " them",
    "openbuddy-zephyr-7b-chat-8192": "faulty by its own series: 1.7 MiB a token from 2,048 to 4,096"
    " tokens, 7.2 MiB from there on; beyond the model's window of 4,096 attention was not flash's",
    "openbuddy-zephyr": "the allocator's slack in a run of varying lengths (5 GiB over what is"
    " allocated), which one order of lengths decides",
    "swift-tuner/galore": "two runs that differ by 1.2 GiB of states (rank 32, rank 128) and by"
    " 14 GiB of gradients (all, one parameter's) both took 47.0 GiB: not both can be as noted",
}


def explanation(row: Compared) -> str:
    """Why a row is not met, where it is known."""
    identity = str(row.row["id"])
    return next((text for part, text in EXPLANATIONS.items() if part in identity), "not explained")


def _method(row: Compared) -> str:
    method = str(row.row["method"]).lower()
    kind = (
        "qlora"
        if method.startswith(("qlora", "gptq"))
        else ("lora" if "lora" in method else "full")
    )
    sharded = "" if int(row.row["world_size"]) == 1 else " sharded"
    return kind + sharded


def report(rows: list[Row], worst: int) -> str:
    """The tables."""
    done, left = compare(rows)
    lines = [f"{len(done)} of {len(rows)} rows predicted ({len(done) / len(rows):.0%})"]
    lines += [f"  not expressed: {len(ids):3}  {reason}" for reason, ids in left.items()]
    sure = [row for row in done if not row.capped and row.row["quality"] == "A"]
    capped = [row for row in done if row.capped]
    for title, members in (
        ("complete, quality A", sure),
        (
            "complete, quality B",
            [row for row in done if not row.capped and row.row["quality"] != "A"],
        ),
        ("length known as a cap", capped),
    ):
        if not members:
            continue
        lines += ["", f"== {title}"]
        lines += _table("all", members, lambda _: "all")
        lines += _table("by kind", members, lambda row: str(row.row["metric_class"]))
        lines += _table("by method", members, _method)
        lines += _table("by source", members, _source)
    if sure:
        lines += ["", "== complete, quality A: each source left out (no constant is fitted to one)"]
        lines += _without(sure)
    lines += ["", f"== {worst} worst of complete, quality A"]
    lines += _explained(sorted(sure, key=lambda row: -abs(row.error))[:worst])
    low = [row for row in capped if row.error < -0.03]
    lines += ["", f"== {len(low)} of {len(capped)} capped rows more than 3 % low at the cap"]
    lines += _explained(sorted(low, key=lambda row: row.error))
    return "\n".join(lines)


def _explained(rows: list[Compared]) -> list[str]:
    lines: list[str] = []
    for row in rows:
        lines.append(
            f"{row.error:+7.1%} {row.predicted:8.2f} for {row.measured:8.2f} "
            f"[{row.peak}] {row.row['id']}"
        )
        lines.append(f"{'':12}{explanation(row)}")
    return lines


def explain(row: Row) -> str:
    """One row: settings, phases and the tensors of the peak."""
    settings = settings_of(row)
    result = estimate(settings)
    lines = [json.dumps(settings), f"measured {row['value_gib']} GiB {row['metric_class']}"]
    lines += [f"{phase.name:16} {phase.total / GIB:8.3f}" for phase in result.phases]
    lines += [
        f"    {tensor.bytes / GIB:8.3f} {tensor.kind:22} {tensor.name}"
        for tensor in result.peak.tensors
        if tensor.bytes > 2**24
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--worst", type=int, default=10)
    parser.add_argument("--row", help="explain the rows whose id contains this")
    parser.add_argument("--all", action="store_true", help="print every row")
    options = parser.parse_args(arguments)
    rows = [json.loads(line) for line in options.file.read_text("utf-8").splitlines() if line]
    if options.row:
        for row in rows:
            if options.row in row["id"]:
                sys.stdout.write(f"\n{row['id']}\n{explain(row)}\n")
        return 0
    if options.all:
        for row in compare(rows)[0]:
            sys.stdout.write(
                f"{row.error:+7.1%} {row.predicted:8.2f} {row.measured:8.2f} "
                f"{row.peak:14} {row.row['metric_class'][:9]:9} {row.row['quality']}"
                f"{'c' if row.capped else ' '} {row.row['id']}\n"
            )
        return 0
    sys.stdout.write(report(rows, options.worst) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
