"""Compares the shipped table of models with transformers' own classes.

    python -m tools.model_table --check [NAME]

Each row's configuration is given to transformers' class of its type, the model is built without
storage, and its parameters are counted. Types that transformers does not have (remote code) are
named and left out.
"""

import importlib
import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import memlint.memory
from memlint.memory.checkpoints import find_architecture

_MARGIN = 0.002  # norms of rare places; a wrong size shows as far more


def table_configs() -> dict[str, Mapping[str, Any]]:
    """The table's hub names and their configurations."""
    path = Path(memlint.memory.__file__).parent / "data" / "models.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["models"]
    return {row["name"]: row["config"] for row in rows}


def check_table(only: str = "") -> list[str]:
    """A line for each row that differs, or that cannot be compared, and one with the count."""
    warnings.simplefilter("ignore")
    lines: list[str] = []
    compared = 0
    for name, config in table_configs().items():
        if only not in name:
            continue
        try:
            theirs = _count(config)
        except Exception as error:
            reason = str(error).partition("\n")[0][:90]
            lines.append(f"{name}: not compared: {type(error).__name__}: {reason}")
            continue
        compared += 1
        architecture = find_architecture(config)
        if architecture.family in ("t5", "mt5"):
            # transformers 5 ties T5's matrices whatever the checkpoint's configuration says.
            architecture = architecture._replace(tied=True)
        ours = architecture.parameters
        if abs(ours / theirs - 1) > _MARGIN:
            lines.append(
                f"{name}: {ours:,} parameters here, {theirs:,} there ({ours / theirs - 1:+.2%})"
            )
    lines.append(f"{compared} models compared")
    return lines


def _count(config: Mapping[str, Any]) -> int:
    """Parameters of transformers' model of a configuration."""
    torch = importlib.import_module("torch")
    transformers = importlib.import_module("transformers")
    values = dict(config)
    kind = str(values.pop("model_type"))
    architecture = find_architecture(config)
    kinds = {
        "ForImageClassification": architecture.head != "lm",
        "ForSpeechSeq2Seq": kind == "whisper",
        "ForSeq2SeqLM": architecture.encoder_decoder,
        "ForImageTextToText": "vision_config" in config,
        "ForMaskedLM": kind in ("bert", "roberta", "xlm-roberta", "distilbert"),
    }
    found = next((name for name, is_one in kinds.items() if is_one), "ForCausalLM")
    auto = getattr(transformers, f"AutoModel{found}")
    made = transformers.AutoConfig.for_model(kind, **values)
    with torch.device("meta"):
        model = auto.from_config(made)
    return sum(parameter.numel() for parameter in model.parameters())


if __name__ == "__main__":
    lines = check_table("".join(sys.argv[2:3]))
    sys.stdout.write("\n".join(lines) + "\n")
    raise SystemExit(any("parameters here" in line for line in lines))
