"""What the safe fixes of single options change of real training: nothing.

Each is run before and after on a tiny model, on the CPU: micro-batches split (MEM502),
gradients as views of DDP's buckets (MEM506), a checkpoint read to the CPU (MEM410).
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from tests.runtime.float64 import in_float64

CONFIG = {
    "vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64,
}  # fmt: skip


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**CONFIG))


def rows(count: int) -> list[dict[str, list[int]]]:
    """Rows of 16 tokens, of which a different number counts in each."""
    generator = torch.Generator().manual_seed(1)
    found = []
    for index in range(count):
        ids = torch.randint(0, 64, (16,), generator=generator).tolist()
        labels = [-100] * (index % 11) + ids[index % 11 :]
        found.append({"input_ids": ids, "attention_mask": [1] * 16, "labels": labels})
    return found


def train(folder: Path, **options: Any) -> tuple[list[float], torch.Tensor]:
    """Losses of all steps, and all weights in one row, after training on 50 rows."""
    arguments = TrainingArguments(
        str(folder), use_cpu=True, num_train_epochs=1, logging_steps=1, report_to=[], seed=3,
        learning_rate=1e-2, save_strategy="no", disable_tqdm=True, optim="adamw_torch", **options,
    )  # fmt: skip
    model = tiny_llama()
    trainer = Trainer(model=model, args=arguments, train_dataset=rows(50))
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    return losses, torch.cat([one.detach().flatten() for one in model.parameters()])


def test_split_micro_batches_learn_the_same(tmp_path: Path) -> None:
    """The last step of 18 rows, too, which 8 does not divide."""

    def both() -> Any:
        split = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4}  # MEM502
        return train(tmp_path, per_device_train_batch_size=32), train(tmp_path, **split)

    # Adam turns a gradient's rounding into a step where the gradient is nearly zero.
    (before, whole), (after, split) = in_float64(both)
    assert whole.dtype == torch.float64
    assert after == pytest.approx(before, abs=1e-12)
    assert len(before) == 2
    torch.testing.assert_close(split, whole, rtol=0, atol=1e-10)


@pytest.fixture
def one_process(tmp_path: Path) -> Any:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("one_process")
def test_gradients_as_views_of_buckets_learn_the_same() -> None:
    def run(**options: bool) -> torch.Tensor:
        model = DistributedDataParallel(tiny_llama(), **options)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for row in rows(4):
            batch = {name: torch.tensor([value]) for name, value in row.items()}
            model(**batch).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return torch.cat([one.detach().flatten() for one in model.parameters()])

    assert torch.equal(run(), run(gradient_as_bucket_view=True))


def test_a_checkpoint_read_to_the_cpu_restores_the_same() -> None:
    model = tiny_llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    batch = {name: torch.tensor([value]) for name, value in rows(1)[0].items()}
    model(**batch).loss.backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)

    def resume(**options: str) -> torch.Tensor:
        file.seek(0)
        checkpoint = torch.load(file, **options)
        other = tiny_llama()
        stepped = torch.optim.AdamW(other.parameters(), lr=1e-2, fused=True)
        other.load_state_dict(checkpoint["model"])
        stepped.load_state_dict(checkpoint["optimizer"])
        other(**batch).loss.backward()
        stepped.step()
        return torch.cat([one.detach().flatten() for one in other.parameters()])

    assert torch.equal(resume(), resume(map_location="cpu"))
