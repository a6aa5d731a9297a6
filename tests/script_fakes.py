"""Holds estimates from scripts against the libraries themselves, without a GPU.

    python -m tests.script_fakes [--only TEXT]

Each case is a script of ``script_pairs``: its settings are read, and the same run is made of real
transformers models under fake tensors, as ``tests.memory_fakes`` does. The widest models are cut to
a few layers, here and in the estimate. Encoders with relative positions are left out: on the CPU
their biased attention writes out all scores.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch._subclasses.fake_tensor import FakeTensorMode

from memlint.memory import estimate
from memlint.memory.checkpoints import find_config
from tests.fake_steps import LiveBytes, give_storage, optimizer_of
from tests.memlint.memory.script_pairs import PAIRS, read_pair

GIB = 2**30
Batch = dict[str, torch.Tensor]


class Fake(NamedTuple):
    """A run. pair: its script's name, or the beginning. auto: the class of transformers.

    layers: to which the model is cut; 0: all. options: of its configuration. step: one step of the
    trained model and those beside it. beside: makes these of the trained model.
    """

    pair: str
    auto: str
    step: Callable[[Any, Any, Any, dict[str, Any]], None]
    layers: int = 0
    options: dict[str, Any] = {}  # noqa: RUF012
    beside: Callable[[Any], Any] = lambda model: None


def _config(name: str, layers: int, options: dict[str, Any]) -> dict[str, Any]:
    config = {**find_config(name), **options}
    if layers:
        config |= {"num_hidden_layers": layers}
        config.pop("layer_types", None)
    return config


def _built(auto: str, config: dict[str, Any], dtype: str) -> Any:
    import transformers

    values = dict(config)
    made = transformers.AutoConfig.for_model(str(values.pop("model_type")), **values)
    if not made.is_encoder_decoder:
        made.use_cache = False
    with torch.device("meta"):
        model = getattr(transformers, f"AutoModelFor{auto}").from_config(
            made, dtype=getattr(torch, dtype)
        )
    return model.train()


def _ids(rows: int, length: int) -> torch.Tensor:
    return torch.randint(0, 100, (rows, length))


def _forward(model: Any, batch: Batch, settings: dict[str, Any]) -> Any:
    with torch.autocast("cpu", torch.bfloat16, enabled=bool(settings["autocast"])):
        return model(**batch)


def _finish(loss: torch.Tensor, optimizer: Any) -> None:
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _labelled(shape: Callable[[dict[str, Any]], Batch]) -> Callable[..., None]:
    def step(model: Any, beside: Any, optimizer: Any, settings: dict[str, Any]) -> None:
        _finish(_forward(model, shape(settings), settings).loss, optimizer)

    return step


def _classes(settings: dict[str, Any]) -> Batch:
    ids = _ids(settings["micro_batch"], settings["seq_len"])
    return {"input_ids": ids, "labels": torch.zeros(len(ids), dtype=torch.long)}


def _tokens(settings: dict[str, Any]) -> Batch:
    ids = _ids(settings["micro_batch"], settings["seq_len"])
    return {"input_ids": ids, "labels": ids % 3}


def _pictures(settings: dict[str, Any]) -> Batch:
    rows = settings["micro_batch"]
    labels = torch.zeros(rows, dtype=torch.long)
    return {"pixel_values": torch.empty(rows, 3, 224, 224), "labels": labels}


def _texts(settings: dict[str, Any]) -> Batch:
    ids = _ids(settings["micro_batch"], settings["seq_len"])
    return {"input_ids": ids, "labels": ids}


def _pairs(model: Any, beside: Any, optimizer: Any, settings: dict[str, Any]) -> None:
    """As TRL's reward trainer: chosen and rejected answers are forwarded together."""
    model.config.pad_token_id = 0
    ids = _ids(2 * settings["micro_batch"], settings["seq_len"])
    mask = torch.ones_like(ids)
    outputs = _forward(model, {"input_ids": ids, "attention_mask": mask}, settings)
    chosen, rejected = outputs.logits.squeeze(-1).chunk(2)
    _finish(-F.logsigmoid(chosen - rejected).mean(), optimizer)


def _accumulated(model: Any, beside: Any, optimizer: Any, settings: dict[str, Any]) -> None:
    for _ in range(2):
        _forward(model, _texts(settings), settings).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _taught(model: Any, beside: Any, optimizer: Any, settings: dict[str, Any]) -> None:
    batch = {"input_ids": _ids(settings["micro_batch"], settings["seq_len"])}
    with torch.no_grad():
        wanted = beside(**batch).logits
    found = model(**batch).logits
    loss = F.kl_div(F.log_softmax(found, -1), F.softmax(wanted, -1), reduction="batchmean")
    _finish(loss, optimizer)


def _teacher(model: Any) -> Any:
    return _built(
        "CausalLM", _config("Qwen/Qwen2.5-7B", 4, {"vocab_size": 151936}), "bfloat16"
    ).eval()


FAKES = (
    Fake("a reward model with pairs", "SequenceClassification", _pairs, 4, {"num_labels": 1}),
    Fake("a classifier of texts", "SequenceClassification", _labelled(_classes), 0,
         {"num_labels": 3, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}),
    Fake("a classifier of tokens", "TokenClassification", _labelled(_tokens), 0,
         {"num_labels": 9, "reference_compile": False}),
    Fake("pictures", "ImageClassification", _labelled(_pictures), 0, {"num_labels": 10}),
    Fake("accumulation by a counter", "CausalLM", _accumulated),
    Fake("an average of the weights by a copy", "CausalLM", _labelled(_texts), 0, {},
         copy.deepcopy),
    Fake("a small student", "CausalLM", _taught, 0, {}, _teacher),
)  # fmt: skip


def measure(fake: Fake) -> tuple[int, int]:
    """Return the bytes at the peak: estimated from the script, and counted."""
    pair = next(one for one in PAIRS if one.name.startswith(fake.pair))
    with tempfile.TemporaryDirectory() as folder:
        read = read_pair(pair, Path(folder))
    config = _config(read["model"], fake.layers, fake.options)
    frozen = [read.pop(name, None) for name in ("frozen_models", "copies")]
    result = estimate({**read, "model": {"config": config}})
    known = {name: getattr(result.settings, name) for name in result.settings._fields}
    model = _built(fake.auto, config, str(known["weights_dtype"]))
    beside = fake.beside(model)
    with FakeTensorMode(allow_non_fake_inputs=True):
        counter = LiveBytes()
        for one in (model, beside):
            if one is not None:
                give_storage(one)
                for parameter in one.parameters():
                    counter.watch(parameter, "parameter")
        standing = counter.current
        optimizer = optimizer_of(str(known["optimizer"]), model)
        with counter:
            for _ in range(2):
                fake.step(model, beside, optimizer, known)
    work = sum(one.bytes for one in result.peak.tensors if one.kind in ("workspace", "batch"))
    own = sum(one.numel() * one.element_size() for one in model.parameters())
    extra = standing - own if any(frozen) else 0
    return result.peak.total - work + extra, counter.peak


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    for fake in FAKES:
        if options.only not in fake.pair:
            continue
        start = time.perf_counter()
        predicted, counted = measure(fake)
        sys.stdout.write(
            f"{predicted / counted - 1:+7.1%} {predicted / GIB:8.2f} for {counted / GIB:8.2f}  "
            f"{fake.pair}  ({time.perf_counter() - start:.0f} s)\n"
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
