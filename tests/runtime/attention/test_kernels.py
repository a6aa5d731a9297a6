"""Each kernel against attention by whole matrices; the block mask against PyTorch's own."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from memlint_runtime.attention import (
    ForestAttention,
    attend_documents,
    documents_of_lengths,
    integration,
    use_variable_length_attention,
)
from memlint_runtime.attention.documents import find_documents, positions_of
from memlint_runtime.attention.forest import DocumentForest
from memlint_runtime.attention.kernels.dense import attend_dense
from memlint_runtime.attention.kernels.flash import CudaRuns
from memlint_runtime.attention.kernels.flex import attend_flex, forest_block_mask
from memlint_runtime.attention.kernels.joined import joined_attention
from memlint_runtime.attention.plan import plan_runs
from memlint_runtime.attention.unpadding import PaddedShape, repad, unpad
from torch import Tensor
from torch._dynamo.backends.debugging import aot_eager
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention.flex_attention import create_block_mask
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.runtime.attention import emulated
from tests.runtime.attention.models import documents, flattened, tiny_model

CASES = list(range(16))


class Case:
    """Random documents, some longer than a block of queries, and options."""

    def __init__(self, seed: int, lengths: list[int] | None = None) -> None:
        rng = random.Random(seed)
        torch.manual_seed(seed)
        sizes = [1, 5, 127, 128, 129, 300, 700]
        self.lengths = lengths or [rng.choice(sizes) for _ in range(rng.randint(1, 4))]
        self.tokens = sum(self.lengths)
        self.window = rng.choice([None, 1, 3, 100, 128, 256, 600])
        self.softcap = rng.choice([None, 2.0])
        self.sinks = torch.randn(4, dtype=torch.double) if rng.random() < 0.5 else None
        self.query, self.key, self.value = (
            torch.randn(self.tokens, heads, 8, dtype=torch.double) for heads in (4, 2, 2)
        )
        self.documents = documents_of_lengths(self.lengths)

    @property
    def forest(self) -> DocumentForest:
        """As a GPU knows it: bounds alone."""
        return DocumentForest(self.documents.cu_seqlens, self.tokens, self.documents.max_length)

    def visible(self) -> Tensor:
        document = torch.repeat_interleave(torch.tensor(self.lengths))
        place = torch.arange(self.tokens)
        distance = place[:, None] - place
        seen = (document[:, None] == document) & (distance >= 0)
        return seen if self.window is None else seen & (distance < self.window)

    def reference(self, *, plain: bool = False, capped: bool = True) -> Tensor:
        batched = (x.transpose(0, 1)[None] for x in (self.query, self.key, self.value))
        cap, sinks = (None, None) if plain else (self.softcap if capped else None, self.sinks)
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


@pytest.mark.draws(5)
@pytest.mark.parametrize("seed", CASES)
def test_blockwise(seed: int) -> None:
    case = Case(seed)
    leaves = case.leaves()
    out = ForestAttention(case.forest, "blockwise")(
        case.query,
        case.key,
        case.value,
        scale=0.3,
        window=case.window,
        softcap=case.softcap,
        sinks=case.sinks,
    )
    assert_gradients_equal(out, case.reference(), leaves)


@pytest.mark.draws(5)
@pytest.mark.parametrize("seed", CASES)
def test_joined(seed: int) -> None:
    case = Case(seed)
    leaves = case.leaves()
    out = ForestAttention(case.forest, "joined")(
        case.query, case.key, case.value, scale=0.3, window=case.window, sinks=case.sinks
    )
    assert_gradients_equal(out, case.reference(capped=False), leaves)


@pytest.mark.draws(4)
@pytest.mark.parametrize("seed", CASES)
def test_joined_by_the_kernels_of_a_gpu(seed: int) -> None:
    """One call whatever the documents, with windows and sinks, by bounds that the device knows."""
    case = Case(seed)
    leaves = case.leaves()
    window = None if case.window is None or case.window >= max(case.lengths) else case.window
    parts = plan_runs(case.forest, torch.device("cpu"), window=window, cuda=emulated.RUNS)
    assert len(parts) == 1
    assert parts[0].kernel.queries.bounds is None, "nobody waited for the device"
    out = joined_attention(case.query, case.key, case.value, parts, scale=0.3, sinks_H=case.sinks)
    assert_gradients_equal(out, case.reference(capped=False), leaves)


# Uncompiled on purpose: the compiled kernel runs on CUDA alone.
@pytest.mark.draws(5)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("seed", CASES)
def test_flex(seed: int) -> None:
    case = Case(seed)
    mask = forest_block_mask(case.forest, torch.device("cpu"), window=case.window)
    out = attend_flex(
        case.query, case.key, case.value, mask, scale=0.3, softcap=case.softcap, sinks=case.sinks
    )
    torch.testing.assert_close(out, case.reference())


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_with_a_group_that_is_no_power_of_two() -> None:
    case = Case(0)
    case.query = torch.randn(case.tokens, 6, 8, dtype=torch.double)
    mask = forest_block_mask(case.forest, torch.device("cpu"), window=case.window)
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
    ours = forest_block_mask(case.forest, torch.device("cpu"), window=case.window)
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
    blockwise = ForestAttention(case.forest, "blockwise")
    ours = blockwise(*halves, scale=0.3, window=case.window, **options)
    dense = attend_dense(
        *(x.transpose(0, 1)[None] for x in halves), case.visible(), scale=0.3, **options
    )[0].transpose(0, 1)
    assert (ours - exact).abs().max() <= 1.1 * (dense - exact).abs().max()


def test_kernel_sizes_of_keys_and_values_may_differ() -> None:
    case = Case(3)
    case.value = torch.randn(case.tokens, 2, 5, dtype=torch.double)
    out = attend_documents(
        case.query,
        case.key,
        case.value,
        case.documents.cu_seqlens,
        case.documents.max_length,
        scale=0.3,
        window=case.window,
    )
    torch.testing.assert_close(out, case.reference(plain=True))


@pytest.mark.parametrize("sunk", [False, True])
@pytest.mark.parametrize("window", [None, 6])
def test_gpu_operators_take_the_arguments(window: int | None, sunk: bool) -> None:
    """The real operators, forward and backward, on tensors without data."""
    with FakeTensorMode():
        leaves = [
            torch.empty(47, heads, 16, dtype=torch.bfloat16, requires_grad=True)
            for heads in (4, 2, 2)
        ]
        sinks = torch.empty(4, requires_grad=True) if sunk else None
        forest = DocumentForest(torch.empty(4, dtype=torch.int32), 47, 20)
        parts = plan_runs(forest, torch.device("cpu"), window=window, cuda=CudaRuns)
        out = joined_attention(*leaves, parts, scale=0.1, sinks_H=sinks)
        out.sum().backward()
        assert out.shape == (47, 4, 16)
        assert out.dtype == torch.bfloat16
        leaves += [] if sinks is None else [sinks]
        assert [x.grad.shape for x in leaves if x.grad is not None] == [x.shape for x in leaves]


# The compiler's own way with autograd functions.
@pytest.mark.draws(2)
@pytest.mark.filterwarnings("ignore:.*should not be instantiated")
@pytest.mark.parametrize("sunk", [False, True])
@pytest.mark.parametrize("window", [None, 6])
def test_gpu_call_compiles_to_one_graph_with_gradients(window: int | None, sunk: bool) -> None:
    """Whatever the lengths: flash kernels, sinks and windows, by bounds that the device knows."""
    graphs: list[Any] = []

    def counted(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return aot_eager(module, inputs)

    def call(q: Tensor, k: Tensor, v: Tensor, sinks: Any, bounds: Tensor, longest: int) -> Tensor:
        forest = DocumentForest(bounds, q.shape[0], longest)
        parts = plan_runs(forest, torch.device("cpu"), window=window, cuda=CudaRuns)
        return joined_attention(q, k, v, parts, scale=0.3, sinks_H=sinks)

    torch._dynamo.reset()
    compiled = torch.compile(call, backend=counted, fullgraph=True, dynamic=True)
    with emulated.in_place_of_the_operators():
        for seed, lengths in enumerate(([13, 20], [7, 30, 4], [5, 5, 5, 40])):
            case = Case(seed, lengths)
            case.window, case.sinks = window, torch.randn(4, dtype=torch.double) if sunk else None
            documents = case.documents
            leaves = case.leaves()
            out = compiled(
                case.query, case.key, case.value, case.sinks, documents.cu_seqlens,
                documents.max_length,
            )  # fmt: skip
            assert_gradients_equal(out, case.reference(capped=False), leaves)
    assert len(graphs) == 1


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
@pytest.mark.parametrize("path", ["joined", "blockwise"])
def test_no_matrix_of_one_long_document(path: Any, windowed: bool) -> None:
    tokens = 2048
    query = torch.randn(tokens, 1, 8, requires_grad=True)
    window = 300 if windowed else None
    bounds = torch.tensor([0, tokens - 48, tokens], dtype=torch.int32)
    attend = ForestAttention(DocumentForest(bounds, tokens, tokens - 48), path)
    with Largest() as largest:
        attend(query, query, query, scale=1.0, window=window).sum().backward()
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
