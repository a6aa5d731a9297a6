"""The page on the memory model's accuracy, from measurements of a few made rows."""

from __future__ import annotations

from typing import Any

from tools.accuracy import page

ROW: dict[str, Any] = {
    "id": "made/full", "source": "made/up README", "model": "Qwen/Qwen2.5-7B", "method": "full",
    "framework": "torch 2.6, transformers 4.50", "trainer": "own loop", "gpu": "A100-80GB",
    "world_size": 1, "sharding": "none", "precision_weights": "bfloat16",
    "precision_compute": "bfloat16", "optimizer": "AdamW (torch, foreach)", "micro_batch": 1,
    "seq_len": 512, "seq_kind": "exact, packed", "grad_accum": 1, "checkpointing": "full",
    "attention": "sdpa", "loss_path": "full logits", "offload": "none", "compile": False,
    "metric": "max_memory_allocated", "metric_class": "allocated", "completeness": "complete",
    "quality": "A", "value_gib": 71.0,
}  # fmt: skip


def test_the_page_has_every_row_and_the_errors_of_each_source() -> None:
    rows = [ROW, {**ROW, "id": "made/a|b", "value_gib": 142.0, "source": "other/one"}]
    lines = list(page([*rows, {**ROW, "id": "made/out", "value_gib": None}]))
    assert "2 of 3 rows can be said in settings. Not said:\n" in lines
    assert "- 1: no number (out of memory)" in lines
    (first,) = [line for line in lines if line.startswith("| made/full")]
    predicted, error = (cell.strip() for cell in first.split("|")[5:7])
    assert abs(float(predicted) / 71 - 1 - float(error[:-1]) / 100) < 0.001
    # A source's text does not end a cell.
    assert any(line.startswith("| made/a/b |") for line in lines)
    (source,) = [line for line in lines if line.startswith("| other/one")]
    assert source.split("|")[2].strip() == "1"
    assert float(source.split("|")[5].strip(" %")) < -40
