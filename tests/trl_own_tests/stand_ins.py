"""Tiny models and data sets in place of those that TRL's tests fetch from the hub.

    python -m tests.trl_own_tests.stand_ins CHECKOUT FOLDER

The checkout's own scripts make them (`scripts/generate_tiny_models`, `generate_*_dataset.py`), with
what those scripts fetch made here: a tokenizer trained on TRL's test sentences, with the chat
template that TRL ships for the model, and default generation settings. Models are laid out as the
hub's cache, data sets as parquet files, so that nothing in a test has to know. Vision models get
their processors from `vision`. What cannot be made without the hub is left out and listed.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.trl_own_tests import vision

REVISION = "0" * 40
DATASETS = ("zen", "toolcall", "harmony", "zen-image", "zen-multi-image")
KINDS = ("for_causal_lm", "for_sequence_classification", "for_conditional_generation")

# By the checkpoint that a script names: chat template, end of turn, padding, beginning of text.
_TOKENIZERS = (
    (r"Qwen2(\.5)?-VL", "qwen2_5_vl", "<|im_end|>", "<|endoftext|>", None),
    (r"Qwen3-VL", "qwen3_vl", "<|im_end|>", "<|endoftext|>", None),
    (r"Qwen3\.5-0\.8B", "qwen3_5_nothink", "<|im_end|>", "<|endoftext|>", None),
    (r"Qwen3\.5", "qwen3_5_think", "<|im_end|>", "<|endoftext|>", None),
    (r"Qwen3\.6", "qwen3_6", "<|im_end|>", "<|endoftext|>", None),
    (r"gemma-3-", "gemma3", "<end_of_turn>", "<pad>", "<bos>"),
    (r"gemma-4-", "gemma4_v5", "<turn|>", "<pad>", "<bos>"),
    (r"llava-v1\.6", "llava_next", "</s>", "<pad>", "<s>"),
    (r"llava-1\.5", None, "</s>", "<pad>", "<s>"),
    (r"Qwen2\.5-Coder|Qwen2\.5", "qwen2_5", "<|im_end|>", "<|endoftext|>", None),
    (r"Qwen3-4B-Instruct-2507", "qwen3_instruct_2507", "<|im_end|>", "<|endoftext|>", None),
    (r"Qwen3", "qwen3", "<|im_end|>", "<|endoftext|>", None),
    (r"gpt-oss", "gptoss", "<|return|>", "<|endoftext|>", "<|startoftext|>"),
    (r"Llama-3\.2", "llama3_2", "<|eot_id|>", None, "<|begin_of_text|>"),
    (r"Llama-3\.1", "llama3_1", "<|eot_id|>", None, "<|begin_of_text|>"),
    (r"Llama-3", "llama3", "<|eot_id|>", None, "<|begin_of_text|>"),
    (r"gemma", "gemma", "<eos>", "<pad>", "<bos>"),
    (r"GLM", "glm4moe", "<|endoftext|>", "<|endoftext|>", None),
    (r"LFM2\.5", "lfm2_2_5", "<|im_end|>", "<|pad|>", "<|startoftext|>"),
    (r"LFM2", "lfm2", "<|im_end|>", "<|pad|>", "<|startoftext|>"),
    (r"DeepSeek", "deepseekv3", "<|end_of_sentence|>", "<|end_of_sentence|>", None),
    (r"tiny-aya", "cohere2", "<|END_OF_TURN_TOKEN|>", "<PAD>", "<BOS_TOKEN>"),
    (r"aya", "cohere", "<|END_OF_TURN_TOKEN|>", "<PAD>", "<BOS_TOKEN>"),
    (r"Phi-3\.5", "phi3_5", "<|endoftext|>", "<|endoftext|>", "<s>"),
    (r"Phi-3", "phi3", "<|endoftext|>", "<|endoftext|>", "<s>"),
    (r"Nemotron-3-Nano", "nemotron_3_nano", "<|im_end|>", "<|im_end|>", "<s>"),
    (r"Nemotron-3-Super", "nemotron_3_super", "<|im_end|>", "<|im_end|>", "<s>"),
    (r"Nemotron-3-Ultra", "nemotron_3_ultra", "<|im_end|>", "<|im_end|>", "<s>"),
    (r"Mistral-7B-Instruct", None, "</s>", None, "<s>"),
    (r".", None, "<|endoftext|>", None, None),
)
_TEMPLATES = {
    "Mistral": (
        "{{ bos_token }}{% for message in messages %}{% if message.role == 'user' %}"
        "{{ '[INST] ' + message.content + ' [/INST]' }}{% else %}"
        "{{ ' ' + message.content + eos_token }}{% endif %}{% endfor %}"
    ),
    "llava-1.5": vision.LLAVA_TEMPLATE,
}
# What the templates write and a model reads as one token.
_SPECIAL = re.compile(r"<\|?[A-Za-z_]{2,}(?:_[A-Za-z]+)*\|?>|</(?:s|think|tool_call)>")
_CONFIGS = {"Qwen2": "Qwen2Config", "Qwen3-30B": "Qwen3MoeConfig", "Qwen3": "Qwen3Config",
            "Llama": "LlamaConfig", "pythia": "GPTNeoXConfig"}  # fmt: skip


def tokenizer_of(checkpoint: str, sentences: list[str]) -> Any:
    """A byte-level tokenizer with the special tokens of the checkpoint's chat template."""
    import trl
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    row = next(row for row in _TOKENIZERS if re.search(row[0], checkpoint))
    _, template_name, end, padding, beginning = row
    template = next((own for name, own in _TEMPLATES.items() if name in checkpoint), None)
    if template_name is not None:
        folder = Path(trl.__file__).parent / "chat_templates"
        template = (folder / f"{template_name}.jinja").read_text(encoding="utf-8")
    named = vision.named_tokens(checkpoint)
    special = [token for token in (end, padding, beginning, *named.values()) if token]
    special += _SPECIAL.findall(template or "")
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(dict.fromkeys(special)),
        show_progress=False,
    )
    inner.train_from_iterator(sentences, trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token=end,
        pad_token=padding,
        bos_token=beginning,
        extra_special_tokens=named,
    )
    made.chat_template = template
    return made


def make_datasets(checkout: Path, folder: Path) -> list[str]:
    """Parquet files `datasets/NAME/CONFIG/SPLIT.parquet`; returns every string in them."""
    import datasets

    sentences: list[str] = []

    def save(parts: Any, name: str, config_name: str = "default", **_: Any) -> None:
        place = folder / "datasets" / name.split("/")[-1] / config_name
        place.mkdir(parents=True, exist_ok=True)
        for split, rows in parts.items():
            rows.to_parquet(place / f"{split}.parquet")
            sentences.extend(_strings(rows.to_list()))

    whole = datasets.Dataset.push_to_hub, datasets.DatasetDict.push_to_hub
    datasets.DatasetDict.push_to_hub = save
    datasets.Dataset.push_to_hub = lambda self, name, config_name="default", **_: save(
        {"train": self}, name, config_name
    )
    sys.path.insert(0, str(checkout / "scripts"))
    try:
        for name in DATASETS:
            script = importlib.import_module(f"generate_{name.replace('-', '_')}_dataset")
            script.main(test_size=0.1, push_to_hub=True, repo_id=f"trl-internal-testing/{name}")
    finally:
        datasets.Dataset.push_to_hub, datasets.DatasetDict.push_to_hub = whole
    return sentences


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list):
        return [text for one in inside for text in _strings(one)]
    return []


def make_models(checkout: Path, folder: Path, sentences: list[str]) -> dict[str, str]:
    """Run each script of the checkout; returns those that failed, with the reason."""
    import torch
    import transformers
    from huggingface_hub import constants

    transformers.AutoTokenizer.from_pretrained = lambda name, **_: tokenizer_of(name, sentences)
    transformers.GenerationConfig.from_pretrained = lambda name, **_: _generation(name, sentences)
    transformers.AutoConfig.from_pretrained = lambda name, **options: _config(
        name, sentences, options
    )
    transformers.AutoProcessor.from_pretrained = lambda name, **_: vision.processor_of(
        name, tokenizer_of(name, sentences)
    )
    common = importlib.import_module("generate_tiny_models._common")
    for check in ("check_transformers_version", "check_dtype_pattern", "print_config_diff"):
        setattr(common, check, lambda *_, **__: None)

    def keep(
        model: Any,
        tokenizer: Any,
        generation: Any,
        prefix: Any = None,
        suffix: Any = None,
        **_: Any,
    ) -> None:
        name = "-".join(x for x in (prefix, type(model).__name__, suffix) if x)
        repository = folder / "hub" / f"models--trl-internal-testing--{name}"
        place = repository / "snapshots" / REVISION
        for part in (model, tokenizer, generation):
            if part is not None:
                part.save_pretrained(place)
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs/main").write_text(REVISION)

    common.push_to_hub = keep
    failed = {}
    for kind in KINDS:
        for script in sorted((checkout / "scripts/generate_tiny_models" / kind).glob("*_*.py")):
            if script.stem.startswith("_"):
                continue
            torch.manual_seed(0)
            try:
                importlib.import_module(f"generate_tiny_models.{kind}.{script.stem}")
            except Exception as error:
                failed[script.stem] = f"{type(error).__name__}: {str(error).splitlines()[:1]}"
    # Tests that ask a real checkpoint for a tokenizer only, or for any small model.
    for name in ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen3-4B"):
        repository = folder / "hub" / ("models--" + name.replace("/", "--"))
        tokenizer_of(name, sentences).save_pretrained(repository / "snapshots" / REVISION)
        (repository / "refs").mkdir()
        (repository / "refs/main").write_text(REVISION)
    assert constants.HF_HUB_OFFLINE
    return failed


def _generation(checkpoint: str, sentences: list[str]) -> Any:
    from transformers import GenerationConfig

    tokenizer = tokenizer_of(checkpoint, sentences)
    return GenerationConfig(
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
    )


def _config(checkpoint: str, sentences: list[str], options: dict[str, Any]) -> Any:
    import transformers

    tokenizer = tokenizer_of(checkpoint, sentences)
    if vision.knows(checkpoint):
        return vision.config_of(checkpoint, tokenizer, options)
    made = next(getattr(transformers, c) for k, c in _CONFIGS.items() if k in checkpoint)
    return made(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **options)


def main(checkout: str, folder: str) -> None:
    warnings.simplefilter("ignore")
    sentences = make_datasets(Path(checkout), Path(folder))
    failed = make_models(Path(checkout), Path(folder), sentences)
    (Path(folder) / "failed.json").write_text(json.dumps(failed, indent=1))
    sys.stdout.write(f"{SimpleNamespace(**failed)}\n" if failed else "all made\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
