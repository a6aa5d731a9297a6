"""Each kernel against attention by whole matrices; the block mask against PyTorch's own."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.attention.varlen
from memlint_runtime.attention import (
    dispatch,
    documents_of_lengths,
    integration,
    use_variable_length_attention,
)
from memlint_runtime.attention.documents import find_documents, positions_of
from memlint_runtime.attention.kernels import varlen
from memlint_runtime.attention.kernels.blockwise import attend_blockwise
from memlint_runtime.attention.kernels.dense import attend_dense
from memlint_runtime.attention.kernels.flex import attend_flex, document_block_mask
from memlint_runtime.attention.kernels.per_document import attend_per_document
from memlint_runtime.attention.kernels.varlen import varlen_serves
from memlint_runtime.attention.unpadding import PaddedShape, repad, unpad
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention.flex_attention import create_block_mask
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.runtime.attention.models import documents, flattened, tiny_model

CASES = list(range(16))


class Case:
    """Random documents, some longer than a block of queries, and options."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        torch.manual_seed(seed)
        sizes = [1, 5, 127, 128, 129, 300, 700]
        self.lengths = [rng.choice(sizes) for _ in range(rng.randint(1, 4))]
        self.tokens = sum(self.lengths)
        self.window = rng.choice([None, 1, 3, 100, 128, 256, 600])
        self.softcap = rng.choice([None, 2.0])
        self.sinks = torch.randn(4, dtype=torch.double) if rng.random() < 0.5 else None
        self.query, self.key, self.value = (
            torch.randn(self.tokens, heads, 8, dtype=torch.double) for heads in (4, 2, 2)
        )
        self.documents = documents_of_lengths(self.lengths)

    def visible(self) -> Tensor:
        document = torch.repeat_interleave(torch.tensor(self.lengths))
        place = torch.arange(self.tokens)
        distance = place[:, None] - place
        seen = (document[:, None] == document) & (distance >= 0)
        return seen if self.window is None else seen & (distance < self.window)

    def reference(self, *, plain: bool = False) -> Tensor:
        batched = (x.transpose(0, 1)[None] for x in (self.query, self.key, self.value))
        cap, sinks = (None, None) if plain else (self.softcap, self.sinks)
        out = attend_dense(*batched, self.visible(), scale=0.3, softcap=cap, sinks=sinks)
        return out[0].transpose(0, 1)

    def leaves(self, *, plain: bool = False) -> list[Tensor]:
        given = [self.query, self.key, self.value]
        if self.sinks is not None and not plain:
            given.append(self.sinks)
        return [x.requires_grad_() for x in given]


def assert_gradients_equal(ours: Tensor, theirs: Tensor, leaves: list[Tensor]) -> None:
    torch.testing.assert_close(ours, theirs)
    upstream = torch.randn_like(theirs)
    for mine, expected in zip(
        torch.autograd.grad(ours, leaves, upstream),
        torch.autograd.grad(theirs, leaves, upstream),
        strict=True,
    ):
        torch.testing.assert_close(mine, expected)


@pytest.mark.parametrize("seed", CASES)
def test_blockwise(seed: int) -> None:
    case = Case(seed)
    leaves = case.leaves()
    out = attend_blockwise(
        case.query,
        case.key,
        case.value,
        case.lengths,
        scale=0.3,
        window=case.window,
        softcap=case.softcap,
        sinks=case.sinks,
    )
    assert_gradients_equal(out, case.reference(), leaves)


@pytest.mark.parametrize("seed", CASES)
def test_per_document(seed: int) -> None:
    case = Case(seed)
    leaves = case.leaves(plain=True)
    out = attend_per_document(
        case.query, case.key, case.value, case.lengths, scale=0.3, window=case.window
    )
    assert_gradients_equal(out, case.reference(plain=True), leaves)


# Uncompiled on purpose: the compiled kernel runs on CUDA alone.
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("seed", CASES)
def test_flex(seed: int) -> None:
    case = Case(seed)
    mask = document_block_mask(case.documents.cu_seqlens, case.tokens, case.window)
    out = attend_flex(
        case.query, case.key, case.value, mask, scale=0.3, softcap=case.softcap, sinks=case.sinks
    )
    torch.testing.assert_close(out, case.reference())


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_with_a_group_that_is_no_power_of_two() -> None:
    case = Case(0)
    case.query = torch.randn(case.tokens, 6, 8, dtype=torch.double)
    mask = document_block_mask(case.documents.cu_seqlens, case.tokens, case.window)
    out = attend_flex(case.query, case.key, case.value, mask, scale=0.3)
    torch.testing.assert_close(out, case.reference(plain=True))


def blocks_of(mask: Any, kind: str) -> Tensor:
    counts, columns = getattr(mask, f"{kind}_num_blocks"), getattr(mask, f"{kind}_indices")
    dense = torch.zeros(columns.shape[-2:], dtype=torch.bool)
    for row, count in enumerate(counts[0, 0].tolist()):
        dense[row, columns[0, 0, row, :count].long()] = True
    return dense


@pytest.mark.parametrize("seed", CASES)
def test_block_mask_is_the_one_of_every_pair(seed: int) -> None:
    case = Case(seed)
    ours = document_block_mask(case.documents.cu_seqlens, case.tokens, case.window)
    visible = case.visible()
    theirs = create_block_mask(
        lambda b, h, q, kv: visible[q, kv], None, None, case.tokens, case.tokens, device="cpu"
    )
    assert ours.seq_lengths == theirs.seq_lengths
    for kind in ("kv", "full_kv", "q", "full_q"):
        assert torch.equal(blocks_of(ours, kind), blocks_of(theirs, kind)), kind


def test_half_precision_errs_no_more_than_the_dense_path() -> None:
    case = Case(5)
    exact = case.reference()
    halves = [x.bfloat16() for x in (case.query, case.key, case.value)]
    options = {"softcap": case.softcap, "sinks": case.sinks}
    ours = attend_blockwise(*halves, case.lengths, scale=0.3, window=case.window, **options)
    dense = attend_dense(
        *(x.transpose(0, 1)[None] for x in halves), case.visible(), scale=0.3, **options
    )[0].transpose(0, 1)
    assert (ours - exact).abs().max() <= 1.1 * (dense - exact).abs().max()


def test_kernel_sizes_of_keys_and_values_may_differ() -> None:
    case = Case(3)
    case.value = torch.randn(case.tokens, 2, 5, dtype=torch.double)
    out = dispatch.attend_documents(
        case.query,
        case.key,
        case.value,
        case.documents.cu_seqlens,
        case.documents.max_length,
        scale=0.3,
        window=case.window,
    )
    torch.testing.assert_close(out, case.reference(plain=True))
    assert not varlen_serves(case.query, case.value)


def varlen_by_its_documentation(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    scale: float,
    window_size: tuple[int, int],
    enable_gqa: bool = False,
) -> Tensor:
    """What PyTorch says its kernel computes, by whole matrices."""
    assert enable_gqa == (query.shape[1] != key.shape[1])
    assert cu_seq_q.dtype == cu_seq_k.dtype == torch.int32
    assert max_q == max_k == int(cu_seq_q.diff().max())
    place = torch.arange(len(query))
    document = torch.searchsorted(cu_seq_q, place, right=True)
    before = place[:, None] - place
    left, right = window_size
    seen = (document[:, None] == document) & (before >= -right)
    seen &= (before <= left) if left >= 0 else True
    out = attend_dense(*(x.transpose(0, 1)[None] for x in (query, key, value)), seen, scale=scale)
    return out[0].transpose(0, 1)


@pytest.mark.parametrize("seed", CASES[:8])
def test_varlen_is_called_as_documented(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(seed)
    monkeypatch.setattr(torch.nn.attention.varlen, "varlen_attn", varlen_by_its_documentation)
    monkeypatch.setattr(varlen, "_takes_grouped_heads", lambda: True)
    monkeypatch.setattr(dispatch, "varlen_serves", lambda *_: True)
    out = dispatch.attend_documents(
        case.query,
        case.key,
        case.value,
        case.documents.cu_seqlens,
        case.documents.max_length,
        scale=0.3,
        window=case.window,
    )
    torch.testing.assert_close(out, case.reference(plain=True))


@pytest.mark.parametrize("window", [None, 6])
def test_varlen_kernel_takes_the_arguments(window: int | None) -> None:
    """The real operator, forward and backward, on tensors without data."""
    with FakeTensorMode():
        leaves = [
            torch.empty(47, heads, 16, dtype=torch.bfloat16, requires_grad=True)
            for heads in (4, 2, 2)
        ]
        cu_seqlens = torch.empty(4, dtype=torch.int32)
        out = varlen.attend_varlen(*leaves, cu_seqlens, 20, scale=0.1, window=window)
        out.sum().backward()
        assert out.shape == (47, 4, 16)
        assert [x.grad.shape for x in leaves if x.grad is not None] == [x.shape for x in leaves]


def test_documents_from_positions_and_padding() -> None:
    positions = torch.tensor([[0, 1, 2, 0, 1], [0, 0, 1, 7, 8]])
    found = find_documents(positions, None)
    assert found.lengths == (3, 2, 1, 2, 2)
    assert found.token_indices is None
    assert found.cu_seqlens.tolist() == [0, 3, 5, 6, 8, 10]
    assert positions_of(found, 10).tolist() == [0, 1, 2, 0, 1, 0, 0, 1, 0, 1]
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 0, 1, 0]])
    padded = find_documents(None, mask)
    assert padded.lengths == (3, 3), "padding inside a row does not end its document"
    assert padded.token_indices is not None
    assert padded.token_indices.tolist() == [2, 3, 4, 5, 6, 8]
    packed = find_documents(torch.tensor([[9, 9, 0, 1, 0], [0, 1, 1, 0, 9]]), mask)
    assert packed.lengths == (2, 1, 2, 1)
    shape = PaddedShape(padded.token_indices, 2, 5)
    hidden = torch.randn(2, 5, 3) * mask[..., None]
    assert torch.equal(repad(unpad(hidden, shape), shape), hidden)


def test_model_that_keeps_keywords_to_itself_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    model = use_variable_length_attention(tiny_model("llama"))
    original = integration.variable_length_attention

    def forgetful(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **{k: v for k, v in kwargs.items() if "cu_seq" not in k})

    from transformers import AttentionInterface

    AttentionInterface.register(integration.ATTENTION_NAME, forgetful)
    try:
        with pytest.raises(ValueError, match="was not told where documents begin"):
            model(**flattened(documents(3, 4)))
    finally:
        AttentionInterface.register(integration.ATTENTION_NAME, original)


class Largest(TorchDispatchMode):
    """The most elements of any tensor that an operation makes."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self.elements = max(self.elements, leaf.numel())
        return result


@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("attend", [attend_per_document, attend_blockwise])
def test_no_matrix_of_one_long_document(attend: Any, windowed: bool) -> None:
    tokens = 2048
    query = torch.randn(tokens, 1, 8, requires_grad=True)
    window = 300 if windowed else None
    with Largest() as largest:
        attend(query, query, query, [tokens - 48, 48], scale=1.0, window=window).sum().backward()
    assert largest.elements < tokens * tokens / 2


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2"])
def test_no_matrix_of_all_tokens_in_a_model(family: str) -> None:
    batch = flattened(documents(200, 56, 256, 512))
    tokens = batch["input_ids"].shape[1]
    model = tiny_model(family, max_position_embeddings=tokens).train()
    with Largest() as stock:
        model(**batch, use_cache=False).loss.backward()
    assert stock.elements >= tokens * tokens, "the yardstick sees stock attention's mask"
    use_variable_length_attention(model)
    with Largest() as largest:
        model(**batch).loss.backward()
    # The blockwise kernel holds scores of 256 queries for all heads.
    assert largest.elements <= 4 * 256 * 512 < tokens * tokens
