"""Document attention on CUDA against the exact result, judged by the padded path's own error.

Each comparison takes the device as an argument, so that its logic runs without a GPU too.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from memlint_runtime import use_variable_length_attention
from memlint_runtime.attention import attend_documents, documents_of_lengths
from memlint_runtime.attention.forest import DocumentForest
from memlint_runtime.attention.kernels.dense import attend_dense
from memlint_runtime.attention.kernels.flex import attend_flex, forest_block_mask
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence

from tests.gpu.harness import Result, Step
from tests.runtime.attention.models import checkpoint, documents, flattened, padded, tiny_model

BATCHES = ((100, 200), (300, 50, 70), (31, 64, 400), (7, 8, 9, 500))
LENGTHS = (300, 1, 129, 512, 77, 128)
# Flash sums in another order than the padded path: its error may be a little above it.
SLACK = 1.25


def worst(mine: Tensor, exact: Tensor) -> float:
    mine, exact = mine.detach().double(), exact.detach().double()
    return float((mine - exact).abs().max() / exact.abs().max())


def distance(mine: Tensor, exact: Tensor) -> float:
    """How far all of it is off: the largest single error is a matter of luck in half precision."""
    mine, exact = mine.detach().double(), exact.detach().double()
    return float((mine - exact).norm() / exact.norm())


def visible(lengths: tuple[int, ...], window: int | None, device: str) -> Tensor:
    counts = torch.tensor(lengths, device=device)
    document = torch.arange(len(lengths), device=device).repeat_interleave(counts)
    place = torch.arange(len(document), device=device)
    distance = place[:, None] - place
    seen = (document[:, None] == document) & (distance >= 0)
    return seen if window is None else seen & (distance < window)


def batched(x: Tensor) -> Tensor:
    return x.transpose(0, 1)[None]


def padded_sdpa(
    query: Tensor, key: Tensor, value: Tensor, lengths: tuple[int, ...], window: int | None
) -> Tensor:
    """What a padded batch computes, `[T, Hq, D]` of its real tokens."""
    groups = query.shape[1] // key.shape[1]
    rows = [
        pad_sequence(list(x.split(lengths)), batch_first=True).transpose(1, 2)
        for x in (query, key, value)
    ]
    q, k, v = rows[0], *(x.repeat_interleave(groups, dim=1) for x in rows[1:])
    seen = visible((max(lengths),), window, query.device.type)
    out = scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=0.1).transpose(1, 2)
    return torch.cat([row[:length] for row, length in zip(out, lengths, strict=True)])


def kernel_errors(
    device: str,
    dtype: torch.dtype,
    heads: tuple[int, int],
    window: int | None,
    slack: float = SLACK,
) -> Result:
    """Errors of ours and of the padded path, output and gradients, to the fp64 result."""
    torch.manual_seed(0)
    tokens = sum(LENGTHS)
    leaves = [
        torch.randn(tokens, h, 64, device=device, dtype=dtype, requires_grad=True)
        for h in (heads[0], heads[1], heads[1])
    ]
    exact_leaves = [x.detach().double().requires_grad_() for x in leaves]
    upstream = torch.randn(tokens, heads[0], 64, device=device, dtype=dtype)
    mask = visible(LENGTHS, window, device)
    exact = attend_dense(*map(batched, exact_leaves), mask, scale=0.1)[0].transpose(0, 1)
    expected = (exact, *torch.autograd.grad(exact, exact_leaves, upstream.double()))
    docs = documents_of_lengths(LENGTHS, device)
    ways: dict[str, Callable[[], Tensor]] = {
        "ours": lambda: attend_documents(
            *leaves, docs.cu_seqlens, docs.max_length, scale=0.1, window=window
        ),
        "padded": lambda: padded_sdpa(*leaves, LENGTHS, window),
    }
    errors = {}
    for name, way in ways.items():
        out = way()
        got = (out, *torch.autograd.grad(out, leaves, upstream))
        errors[name] = [distance(a, b) for a, b in zip(got, expected, strict=True)]
    for mine, theirs in zip(errors["ours"], errors["padded"], strict=True):
        if mine > max(slack * theirs, 1e-5):
            raise AssertionError(f"further from the exact result than padded: {errors}")
    return errors


def all_kernels(device: str, dtype: torch.dtype) -> Result:
    torch.backends.cuda.matmul.allow_tf32 = False
    return {
        f"heads={heads} window={window}": kernel_errors(device, dtype, heads, window)
        for heads in ((4, 4), (8, 2), (28, 4))
        for window in (None, 100)
    }


def flex_errors() -> Result:
    """Soft caps, sinks and windows by compiled FlexAttention, gradients included."""
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    tokens, device = sum(LENGTHS), "cuda"
    results: Result = {}
    for softcap in (None, 5.0):
        for window in (None, 100):
            for with_sinks in (False, True):
                leaves = [torch.randn(tokens, h, 64, device=device) for h in (8, 2, 2)]
                sinks = torch.randn(8, device=device) if with_sinks else None
                leaves += [] if sinks is None else [sinks]
                leaves = [x.requires_grad_() for x in leaves]
                exact_leaves = [x.detach().double().requires_grad_() for x in leaves]
                options: dict[str, Any] = {"scale": 0.1, "softcap": softcap}
                mask = visible(LENGTHS, window, device)
                exact = attend_dense(
                    *map(batched, exact_leaves[:3]),
                    mask,
                    sinks=exact_leaves[3] if with_sinks else None,
                    **options,
                )[0].transpose(0, 1)
                bounds = documents_of_lengths(LENGTHS, device).cu_seqlens
                block_mask = forest_block_mask(
                    DocumentForest(bounds, tokens, max(LENGTHS)),
                    torch.device(device),
                    window=window,
                )
                ours = attend_flex(*leaves[:3], block_mask, sinks=sinks, **options)
                upstream = torch.randn_like(ours)
                grads = torch.autograd.grad(ours, leaves, upstream)
                expected = torch.autograd.grad(exact, exact_leaves, upstream.double())
                errors = [worst(ours, exact), *map(worst, grads, expected)]
                results[f"softcap={softcap} window={window} sinks={with_sinks}"] = errors
                if max(errors) > 1e-3:
                    raise AssertionError(f"flex differs from dense attention: {results}")
    return results


def model_errors(device: str, dtype: torch.dtype, family: str) -> Result:
    """Loss and gradients of a tiny model, flattened in half precision, plain and checkpointed."""
    docs = documents(*LENGTHS)
    size = {"max_position_embeddings": 1024, "hidden_size": 128}
    size |= {"head_dim": 32} if "gemma" in family or "gpt_oss" in family else {}
    exact_model = tiny_model(family, **size).to(device).train()
    exact = loss_and_gradient(exact_model, padded(docs), device)
    errors: Result = {}
    for name, batch in (("padded", padded(docs)), ("ours", flattened(docs))):
        for checkpointing in (False, True):
            model = tiny_model(family, **size).to(device, dtype).train()
            if name == "ours":
                use_variable_length_attention(model)
            if checkpointing:
                checkpoint(model)
            loss, gradient = loss_and_gradient(model, batch, device)
            errors[f"{name} checkpointing={checkpointing}"] = [
                abs(loss - exact[0]),
                float((gradient - exact[1]).norm() / exact[1].norm()),
            ]
    for checkpointing in (False, True):
        ours, theirs = (errors[f"{n} checkpointing={checkpointing}"] for n in ("ours", "padded"))
        assert isinstance(ours, list)
        assert isinstance(theirs, list)
        if ours[1] > max(SLACK * theirs[1], 1e-5):
            raise AssertionError(f"{family}: further from the exact result than padded: {errors}")
    return errors


def loss_and_gradient(model: Any, batch: dict[str, Tensor], device: str) -> tuple[float, Tensor]:
    loss = model(**{k: v.to(device) for k, v in batch.items()}, use_cache=False).loss
    loss.backward()
    parts = [p.grad.double().flatten() for p in model.parameters() if p.grad is not None]
    return float(loss.detach()), torch.cat(parts)


def all_models(device: str, families: tuple[str, ...]) -> Result:
    return {family: model_errors(device, torch.bfloat16, family) for family in families}


def contamination(device: str) -> Result:
    """A changed document moves no logit of another by a bit."""
    docs = documents(*LENGTHS)
    model = tiny_model("llama", max_position_embeddings=1024, hidden_size=128)
    model = use_variable_length_attention(model.to(device, torch.bfloat16).eval())
    with torch.no_grad():
        before = model(**{k: v.to(device) for k, v in flattened(docs).items()}).logits[0]
        docs[3] = (docs[3] + 5) % 90 + 3
        after = model(**{k: v.to(device) for k, v in flattened(docs).items()}).logits[0]
    moved = [
        index
        for index, (a, b) in enumerate(
            zip(before.split(LENGTHS), after.split(LENGTHS), strict=True)
        )
        if not torch.equal(a, b)
    ]
    if moved != [3]:
        raise AssertionError(f"document 3 was changed, documents {moved} moved")
    return {"moved": moved}


def compiled(
    device: str,
    backend: str = "inductor",
    families: tuple[str, ...] = ("llama", "gemma2"),
    batches: tuple[tuple[int, ...], ...] = BATCHES,
) -> Result:
    """Whole model compiled without a graph break; new lengths must not compile anew."""
    torch._dynamo.reset()
    results: Result = {}
    for family in families:
        size = {"head_dim": 32} if family == "gemma2" else {}
        model = tiny_model(family, max_position_embeddings=1024, hidden_size=128, **size)
        model = use_variable_length_attention(model.to(device, torch.bfloat16).train())
        run = torch.compile(model, dynamic=True, fullgraph=device == "cuda", backend=backend)
        graphs: list[int] = []
        for lengths in batches:
            docs = documents(*lengths)
            batch: dict[str, Any] = {k: v.to(device) for k, v in flattened(docs).items()}
            bounds = [0, *torch.tensor(lengths).cumsum(0).tolist()]
            longest = max(b - a for a, b in pairwise(bounds))
            plain = model(**batch).loss
            cu_seqlens = torch.tensor(bounds, dtype=torch.int32, device=device)
            loss = run(**batch, cu_seq_lens_q=cu_seqlens, max_length_q=longest).loss
            loss.backward()
            difference = float((loss - plain).detach().abs())
            if difference > 2e-2 * float(plain.detach()):
                raise AssertionError(f"{family}, {lengths}: losses differ by {difference}")
            graphs.append(int(torch._dynamo.utils.counters["stats"]["unique_graphs"]))
        results[family] = {"graphs_after_each_batch": graphs}
        if device == "cuda" and graphs[-1] != graphs[1]:
            raise AssertionError(f"{family}: new lengths compile anew, graphs {graphs}")
    return results


STEPS = (
    Step("document_attention_bfloat16", lambda: all_kernels("cuda", torch.bfloat16)),
    Step("document_attention_float16", lambda: all_kernels("cuda", torch.float16)),
    Step("document_attention_float32", lambda: all_kernels("cuda", torch.float32), minutes=5),
    Step("document_attention_flex", flex_errors, minutes=6),
    Step(
        "document_attention_models",
        lambda: all_models("cuda", ("llama", "qwen2", "qwen3", "mistral", "phi3", "gpt_neox")),
    ),
    Step(
        "document_attention_capped_models",
        lambda: all_models("cuda", ("gemma2", "gemma3_text", "gpt_oss")),
        minutes=5,
    ),
    Step("document_attention_contamination", lambda: contamination("cuda")),
    Step("document_attention_compiled", lambda: compiled("cuda"), minutes=6),
)
