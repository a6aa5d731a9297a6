"""Trainers with and without padding on the same data: the same losses, step by step."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime import (
    DataCollatorForCompletionOnlyLM,
    StreamingPacker,
    pack_dataset,
    undo,
    use_variable_length_attention,
)
from memlint_runtime.collation import PaddingFreeCollator
from memlint_runtime.padding_free_trainers import train_without_padding
from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from tests.runtime.attention.models import FAMILIES, documents, tiny_model

datasets = pytest.importorskip("datasets")
trl = pytest.importorskip("trl")

# TRL's own defaults and helpers still use names that transformers has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:`.*` is deprecated:FutureWarning")

LENGTHS = (13, 5, 9, 20, 4, 17, 8, 11)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"<pad>": 0, "<s>": 1, "</s>": 2, **{f"w{i}": i for i in range(3, 97)}}
    backend = Tokenizer(models.WordLevel(words, unk_token="<s>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def common(path: Path, **more: Any) -> dict[str, Any]:
    return {
        "output_dir": str(path),
        "per_device_train_batch_size": 4,
        "max_steps": 4,
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "learning_rate": 1e-3,
        "dataloader_pin_memory": False,
        **more,
    }


def losses(trainer: Any) -> list[float]:
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def text_dataset() -> Any:
    ids = [d.tolist() for d in documents(*LENGTHS)]
    return datasets.Dataset.from_dict({"input_ids": ids, "labels": ids})


def test_transformers_trainer(tmp_path: Path, tokenizer: Any) -> None:
    model, data = tiny_model("llama"), text_dataset()
    args = TrainingArguments(**common(tmp_path))
    collator = DataCollatorForSeq2Seq(tokenizer)
    padded = losses(Trainer(copy.deepcopy(model), args, collator, data))
    without = train_without_padding(Trainer(model, args, collator, data))
    assert isinstance(without.data_collator, PaddingFreeCollator)
    assert losses(without) == pytest.approx(padded, rel=1e-4)


@pytest.mark.parametrize("batch", [1, 2])
def test_streams_of_rows(tmp_path: Path, tokenizer: Any, batch: int) -> None:
    """accelerate reads a stream in one process and cuts its batches by rows, unless told not to."""
    model, data = tiny_model("llama"), text_dataset().to_iterable_dataset()
    args = TrainingArguments(**common(tmp_path, per_device_train_batch_size=batch))
    collator = DataCollatorForSeq2Seq(tokenizer)
    padded = losses(Trainer(copy.deepcopy(model), args, collator, data))
    without = train_without_padding(Trainer(model, args, collator, data))
    assert losses(without) == pytest.approx(padded, rel=1e-4)


def test_streams_of_packed_rows(tmp_path: Path) -> None:
    model, collator = tiny_model("llama"), PaddingFreeCollator()
    packer = StreamingPacker(text_dataset(), 40, buffer_rows=4)
    args = TrainingArguments(**common(tmp_path, per_device_train_batch_size=1))
    at_once = common(tmp_path, per_device_train_batch_size=1)
    stored = Trainer(
        copy.deepcopy(model),
        TrainingArguments(**at_once, train_sampling_strategy="sequential"),
        collator,
        datasets.Dataset.from_list(list(packer)),
    )
    streamed = losses(train_without_padding(Trainer(model, args, collator, packer)))
    assert streamed == pytest.approx(losses(train_without_padding(stored)), rel=1e-4)


def test_streams_cut_by_rows_say_what_to_do(tmp_path: Path) -> None:
    model = tiny_model("llama")
    use_variable_length_attention(model)
    args = TrainingArguments(**common(tmp_path))
    data = text_dataset().to_iterable_dataset()
    with pytest.raises(ValueError, match='"dispatch_batches": False'):
        Trainer(model, args, PaddingFreeCollator(), data).train()
    given = common(tmp_path, accelerator_config={"dispatch_batches": True})
    trainer = Trainer(model, TrainingArguments(**given), PaddingFreeCollator(), data)
    with pytest.raises(ValueError, match="dispatch_batches=True cuts batches by rows"):
        train_without_padding(trainer)


@pytest.mark.filterwarnings("ignore:`return_outputs=True`:FutureWarning")
@pytest.mark.parametrize("kind", ["transformers", "trl"])
def test_predictions_are_by_row(tmp_path: Path, tokenizer: Any, kind: str) -> None:
    model, data = tiny_model("llama"), text_dataset()
    given = common(tmp_path, per_device_eval_batch_size=3)

    def trainer() -> Any:
        if kind == "transformers":
            collator = DataCollatorForSeq2Seq(tokenizer)
            return Trainer(copy.deepcopy(model), TrainingArguments(**given), collator, data)
        args = trl.SFTConfig(**given, max_length=None)
        return trl.SFTTrainer(
            copy.deepcopy(model), args, train_dataset=data, processing_class=tokenizer
        )

    wanted = trainer().predict(data)
    without = train_without_padding(trainer())
    found = without.predict(data)
    assert found.predictions.shape == wanted.predictions.shape
    read = wanted.label_ids != -100
    assert (found.label_ids == wanted.label_ids).all()
    assert abs(found.predictions - wanted.predictions)[read].max() < 1e-5
    assert without.evaluate(data)["eval_loss"] == pytest.approx(
        trainer().evaluate(data)["eval_loss"], rel=1e-4
    )


@pytest.mark.parametrize("kind", ["transformers", "trl"])
def test_noise_by_row_is_refused(tmp_path: Path, tokenizer: Any, kind: str) -> None:
    model, data = tiny_model("llama"), text_dataset()
    given = common(tmp_path, neftune_noise_alpha=5.0)
    made: Any
    if kind == "transformers":
        collator = DataCollatorForSeq2Seq(tokenizer)
        made = Trainer(model, TrainingArguments(**given), collator, data)
    else:
        args = trl.SFTConfig(**given)
        made = trl.SFTTrainer(model, args, train_dataset=data, processing_class=tokenizer)
    with pytest.raises(ValueError, match="neftune_noise_alpha is set"):
        train_without_padding(made)


def test_undo_gives_the_trainer_its_padding_back(tmp_path: Path, tokenizer: Any) -> None:
    model, data = tiny_model("llama"), text_dataset()
    collator = DataCollatorForSeq2Seq(tokenizer)
    args = TrainingArguments(**common(tmp_path))
    padded = losses(Trainer(copy.deepcopy(model), args, collator, data))
    trainer = train_without_padding(Trainer(model, args, collator, data))
    undo(trainer)
    assert trainer.data_collator is collator
    assert not model.model._forward_pre_hooks
    assert model.config._attn_implementation == "sdpa"
    assert losses(trainer) == padded


@pytest.mark.parametrize("pad", ["<pad>", "</s>"])
def test_labels_that_the_collator_hides_stay_hidden(
    tmp_path: Path, tokenizer: Any, pad: str
) -> None:
    # With the end of text for padding, as scripts of GPT-2 and Llama set it, ends are not learned.
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.pad_token = pad
    ids = [[*d.tolist()[:-1], 2] for d in documents(*LENGTHS)]
    data = datasets.Dataset.from_dict({"input_ids": ids})
    model = tiny_model("llama")
    args = TrainingArguments(**common(tmp_path))
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    padded = losses(Trainer(copy.deepcopy(model), args, collator, data))
    without = train_without_padding(Trainer(model, args, collator, data))
    assert losses(without) == pytest.approx(padded, rel=1e-5)


def test_transformers_trainer_on_packed_rows_sees_every_document(tmp_path: Path) -> None:
    data = text_dataset()
    packed = pack_dataset(data, 32, progress=False)
    model = tiny_model("llama")
    once = common(tmp_path, max_steps=1, per_device_train_batch_size=len(packed))
    trainer = Trainer(copy.deepcopy(model), TrainingArguments(**once), train_dataset=packed)
    whole = losses(train_without_padding(trainer))
    once["per_device_train_batch_size"] = len(data)
    rows = Trainer(model, TrainingArguments(**once), PaddingFreeCollator(), data)
    assert whole == pytest.approx(losses(train_without_padding(rows)), rel=1e-4)


def test_sft(tmp_path: Path, tokenizer: Any) -> None:
    model, data = tiny_model("llama"), text_dataset()
    args = trl.SFTConfig(**common(tmp_path, max_length=64))

    def trainer(model: Any) -> Any:
        return trl.SFTTrainer(model, args, train_dataset=data, processing_class=tokenizer)

    padded = losses(trainer(copy.deepcopy(model)))
    assert losses(train_without_padding(trainer(model))) == pytest.approx(padded, rel=1e-4)


def test_sft_packed_by_us(tmp_path: Path, tokenizer: Any) -> None:
    packed = pack_dataset(text_dataset(), 32, progress=False)
    args = trl.SFTConfig(**common(tmp_path, max_length=None, max_steps=2))
    model = tiny_model("llama")
    trainer = trl.SFTTrainer(model, args, train_dataset=packed, processing_class=tokenizer)
    assert all(loss > 0 for loss in losses(train_without_padding(trainer)))
    cutting = trl.SFTConfig(**common(tmp_path, max_length=16))
    trainer = trl.SFTTrainer(model, cutting, train_dataset=packed, processing_class=tokenizer)
    with pytest.raises(ValueError, match="Set max_length=None"):
        train_without_padding(trainer)


def words(ids: torch.Tensor) -> str:
    return " ".join(f"w{i}" for i in ids.tolist())


def preference_dataset() -> Any:
    prompts, chosen, rejected = (documents(*sizes) for sizes in ((3, 9, 5, 7),) * 3)
    return datasets.Dataset.from_dict(
        {
            "prompt": [words(x) + " " for x in prompts],
            "chosen": [words(x.flip(0)) for x in chosen],
            "rejected": [words(x[: len(x) // 2 + 1]) for x in rejected],
        }
    )


def test_dpo(tmp_path: Path, tokenizer: Any) -> None:
    model, data = tiny_model("llama"), preference_dataset()
    args = trl.DPOConfig(**common(tmp_path, precompute_ref_log_probs=False))

    def trainer(model: Any) -> Any:
        return trl.DPOTrainer(
            model, copy.deepcopy(model), args, train_dataset=data, processing_class=tokenizer
        )

    padded = losses(trainer(copy.deepcopy(model)))
    without = train_without_padding(trainer(model))
    tokens: list[tuple[int, ...]] = []
    without.model.model.layers[0].register_forward_pre_hook(
        lambda module, inputs: tokens.append(tuple(inputs[0].shape[:2]))
    )
    assert losses(without) == pytest.approx(padded, rel=1e-4)
    assert {rows for rows, _ in tokens} == {1}


def test_reward(tmp_path: Path, tokenizer: Any) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(**FAMILIES["llama"], num_labels=1)
    model = AutoModelForSequenceClassification.from_config(config)
    data = preference_dataset().remove_columns("prompt")
    args = trl.RewardConfig(**common(tmp_path))

    def trainer(model: Any) -> Any:
        return trl.RewardTrainer(model, args, train_dataset=data, processing_class=tokenizer)

    padded = losses(trainer(copy.deepcopy(model)))
    assert losses(train_without_padding(trainer(model))) == pytest.approx(padded, rel=1e-4)


def test_what_would_be_lost_is_refused(tmp_path: Path, tokenizer: Any) -> None:
    model, data = tiny_model("llama"), text_dataset()
    args = TrainingArguments(**common(tmp_path))
    with pytest.raises(ValueError, match="the collator function is not known"):
        train_without_padding(Trainer(model, args, lambda rows: rows, data))
    completions = DataCollatorForCompletionOnlyLM("w5 w6", tokenizer=tokenizer)
    with pytest.raises(ValueError, match="DataCollatorForCompletionOnlyLM is not known"):
        train_without_padding(Trainer(model, args, completions, data))
    with pytest.raises(ValueError, match="one row per example"):
        train_without_padding(
            Trainer(model, args, train_dataset=data, compute_metrics=lambda p: {})
        )
    with pytest.raises(ValueError, match="takes a transformers or TRL trainer, got str"):
        train_without_padding("trainer")  # type: ignore[type-var]
