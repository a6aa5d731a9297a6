"""Every attention path against the dense oracle: values and gradients, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from memlint_runtime.attention import (
    Forest,
    ForestAttention,
    attend_dense_packed,
    dense_mask,
    engine,
)
from memlint_runtime.attention.forest import DocumentForest
from memlint_runtime.attention.kernels.flash import CudaRuns
from memlint_runtime.attention.kernels.flex import forest_block_mask
from memlint_runtime.attention.kernels.flex_compiled import compile_flex, soft_cap
from memlint_runtime.attention.kernels.joined import joined_attention
from memlint_runtime.attention.plan import plan_runs
from memlint_runtime.checkpoint import _keep_attention_contexts
from torch import Tensor
from torch.nn.attention import flex_attention as flex_attention_module
from torch.nn.attention.flex_attention import create_block_mask
from torch.utils.checkpoint import checkpoint

from tests.runtime.attention import emulated
from tests.runtime.shared_prompt.trees import DEEP_ROWS, random_rows, tree_of

CPU = torch.device("cpu")
TREES = {
    "one group": tree_of(random_rows(1, 1, 8, 20, 7)),
    "groups of many sizes": tree_of([*random_rows(2, 3, 4, 20, 7), *random_rows(3, 2, 1, 9, 9)]),
    "equal completions": tree_of([[1, 2, 3, *range(10 + g, 15 + g)] for g in range(0, 30, 6)]),
    "depth of five": tree_of(DEEP_ROWS),
    "single row": tree_of(random_rows(4, 1, 1, 9, 9)),
}
DOCUMENTS = (3, 17, 1, 5, 5, 24)
FORESTS: dict[str, Forest] = TREES | {
    "documents": DocumentForest(
        torch.tensor([0, *DOCUMENTS], dtype=torch.int32).cumsum(0, dtype=torch.int32),
        sum(DOCUMENTS),
        max(DOCUMENTS),
    )
}
SCALE = 0.3


def draw(tokens: int, heads: int = 4, key_heads: int = 2, width: int = 8) -> tuple[Tensor, ...]:
    torch.manual_seed(tokens)
    return tuple(
        torch.randn(tokens, h, width, dtype=torch.float64, requires_grad=True)
        for h in (heads, key_heads, key_heads)
    )


def draw_sinks(heads: int = 4) -> Tensor:
    """From one that takes nearly no weight to one that takes nearly all."""
    return torch.linspace(-6.0, 6.0, heads, dtype=torch.float64).requires_grad_()


def agree(
    run: Callable[..., Tensor], oracle: Callable[..., Tensor], inputs: tuple[Tensor, ...]
) -> None:
    out, expected = run(*inputs), oracle(*inputs)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
    grad = torch.randn_like(out)
    for got, wanted in zip(
        torch.autograd.grad(out, inputs, grad),
        torch.autograd.grad(expected, inputs, grad),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-12)


def oracle_of(tree: Forest, **options: Any) -> Callable[..., Tensor]:
    sees = dense_mask(tree, options.pop("window", None))
    return lambda q, k, v: attend_dense_packed(q, k, v, sees, scale=SCALE, **options)


def with_sinks(
    tree: Forest, window: int | None = None, softcap: float | None = None
) -> Callable[..., Tensor]:
    sees = dense_mask(tree, window)
    return lambda q, k, v, sinks: attend_dense_packed(
        q, k, v, sees, scale=SCALE, softcap=softcap, sinks=sinks
    )


@pytest.mark.parametrize("by_path", [False, True])
@pytest.mark.parametrize("name", TREES)
def test_joined_calls_are_one_softmax(name: str, by_path: bool) -> None:
    tree = TREES[name]
    plan = plan_runs(tree, CPU, by_path=by_path)
    if not by_path:
        assert len(plan) == tree.depth
    agree(
        lambda q, k, v: joined_attention(q, k, v, plan, scale=SCALE),
        oracle_of(tree),
        draw(tree.num_tokens),
    )


@pytest.mark.parametrize("name", TREES)
def test_by_path_every_token_looks_back_once(name: str) -> None:
    """However deep it stands; and no call holds more keys than the tree, save one path's."""
    tree = TREES[name]
    plan = plan_runs(tree, CPU, by_path=True)
    tokens = torch.arange(tree.num_tokens)
    looking = torch.cat([tokens[level.queries_at] for level in plan[1:]] or [tokens[:0]])
    below = [node for node in tree.nodes if node.level]
    assert len(looking) == len(set(looking.tolist())) == sum(n.end - n.start for n in below)
    for level in plan[1:]:
        assert level.kernel.keys.bounds[-1] <= tree.num_tokens


@pytest.mark.parametrize("by_path", [False, True])
@pytest.mark.parametrize("name", TREES)
def test_sinks_join_the_whole_softmax_once(name: str, by_path: bool) -> None:
    """The oracle's own sinks are held to transformers' by the tests of gpt-oss."""
    tree = TREES[name]
    for cuda in (None, emulated.RUNS):
        plan = plan_runs(tree, CPU, by_path=by_path, cuda=cuda)
        agree(
            lambda q, k, v, sinks, plan=plan: joined_attention(
                q, k, v, plan, scale=SCALE, sinks_H=sinks
            ),
            with_sinks(tree),
            (*draw(tree.num_tokens), draw_sinks()),
        )


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small forests have several blocks in a node, and some that are not filled."""
    monkeypatch.setattr(engine, "PLAIN_BLOCK", 4)
    monkeypatch.setattr(engine, "WINDOW_BLOCKS", (4, 4))


@pytest.mark.draws(40)
@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("sunk", [False, True])
@pytest.mark.parametrize("window", [None, 1, 3, 11, 20])
@pytest.mark.parametrize("name", FORESTS)
def test_every_path_is_one_softmax(
    name: str, window: int | None, sunk: bool, softcap: float | None
) -> None:
    """Values and gradients, of the sinks too."""
    forest = FORESTS[name]
    inputs = (*draw(forest.num_tokens), *([draw_sinks()] if sunk else []))
    sees = dense_mask(forest, window)
    paths: list[engine.AttentionPath] = ["blockwise", "dense"]
    for path in [*paths, *(["joined"] if softcap is None else [])]:
        attend = ForestAttention(forest, path)  # type: ignore[arg-type]
        agree(
            lambda q, k, v, sinks=None, attend=attend: attend(
                q, k, v, scale=SCALE, window=window, softcap=softcap, sinks=sinks
            ),
            lambda q, k, v, sinks=None: attend_dense_packed(
                q, k, v, sees, scale=SCALE, softcap=softcap, sinks=sinks
            ),
            inputs,
        )


@pytest.mark.usefixtures("_small_blocks")
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("window", [None, 4, 14])
def test_sinks_join_once_beside_an_outside_prefix(
    window: int | None, softcap: float | None
) -> None:
    prompt, tails = list(range(1, 13)), [[20, 21, 22], [20, 21, 30, 31, 32], [40]]
    whole = tree_of([[*prompt, *tail] for tail in tails])
    attend = ForestAttention(tree_of(tails), prefix_tokens=12)
    agree(
        lambda q, k, v, sinks: attend(
            q[12:], k[12:], v[12:], scale=SCALE, window=window, softcap=softcap, sinks=sinks,
            outside=(k[:12], v[:12]),
        ),
        lambda *inputs: with_sinks(whole, window, softcap)(*inputs)[12:],
        (*draw(whole.num_tokens), draw_sinks()),
    )  # fmt: skip


@pytest.mark.parametrize("name", TREES)
def test_gpu_kernel_wrapper_is_one_softmax_around_emulated_kernels(name: str) -> None:
    tree = TREES[name]
    plan = plan_runs(tree, CPU, cuda=emulated.RUNS)
    agree(
        lambda q, k, v: joined_attention(q, k, v, plan, scale=SCALE),
        oracle_of(tree),
        draw(tree.num_tokens),
    )


@pytest.mark.parametrize("name", ["equal completions", "depth of five"])
def test_selective_checkpointing_keeps_what_the_kernels_returned(name: str) -> None:
    """Merged in place into the first kernel's result, it would be merged once more."""
    tree = TREES[name]
    plan = plan_runs(tree, CPU, cuda=CudaRuns)

    def kept(*inputs: Tensor) -> Tensor:
        return checkpoint(
            lambda q, k, v, sinks: joined_attention(q, k, v, plan, scale=SCALE, sinks_H=sinks),
            *inputs,
            use_reentrant=False,
            context_fn=_keep_attention_contexts,
        )

    with emulated.in_place_of_the_operators():
        agree(kept, with_sinks(tree), (*draw(tree.num_tokens), draw_sinks()))


def test_gpu_kernel_arguments_fit_the_operators() -> None:
    """The emulation takes what the installed operators take, by their own schemas."""
    forward = torch.ops.aten._flash_attention_forward.default._schema
    backward = torch.ops.aten._flash_attention_backward.default._schema
    positional = [a.name for a in forward.arguments if not a.kwarg_only]
    assert positional == [
        "query", "key", "value", "cum_seq_q", "cum_seq_k", "max_q", "max_k",
        "dropout_p", "is_causal", "return_debug_mask",
    ]  # fmt: skip
    positional = [a.name for a in backward.arguments if not a.kwarg_only]
    assert positional == [
        "grad_out", "query", "key", "value", "out", "logsumexp", "cum_seq_q", "cum_seq_k",
        "max_q", "max_k", "dropout_p", "is_causal", "rng_state", "unused",
    ]  # fmt: skip
    for schema in (forward, backward):
        named = {a.name for a in schema.arguments if a.kwarg_only}
        assert named >= {"scale", "window_size_left", "window_size_right"}


@pytest.mark.parametrize("window", [None, 4])
def test_outside_prefix_is_the_path_above_the_tree(window: int | None) -> None:
    """A prompt kept apart and the tree of completions equal the whole tree."""
    prompt = list(range(1, 13))
    tails = [[20, 21, 22], [20, 21, 30, 31, 32], [40]]
    whole = tree_of([[*prompt, *tail] for tail in tails])
    assert whole.nodes[0].end == len(prompt)
    q, k, v = draw(whole.num_tokens)
    expected = oracle_of(whole, window=window)(q, k, v)[12:]
    grad = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, (q, k, v), grad)
    tree = tree_of(tails)
    attend = ForestAttention(tree, prefix_tokens=12)
    out = attend(
        q[12:], k[12:], v[12:], scale=SCALE, window=window,
        outside=(k[:12], v[:12]),
    )  # fmt: skip
    assert attend.taken == {"joined"}
    torch.testing.assert_close(out, expected)
    for got, want in zip(torch.autograd.grad(out, (q, k, v), grad), wanted, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("prefix", [0, 5])
@pytest.mark.parametrize("window", [None, 1, 6, 40])
@pytest.mark.parametrize("name", TREES)
def test_block_mask_is_what_evaluating_every_pair_gives(
    name: str, window: int | None, prefix: int
) -> None:
    tree, block = TREES[name], 4
    made = forest_block_mask(tree, CPU, window=window, prefix_tokens=prefix, block_tokens=block)
    T = tree.num_tokens
    plain = create_block_mask(
        made.mask_mod, None, None, T, prefix + T, device="cpu", BLOCK_SIZE=block
    )
    # Which blocks are visited at all, and which without looking at the pairs.
    ours = made.to_dense().bool()
    theirs = plain.to_dense().bool()
    assert bool((ours | ~theirs).all())
    if window is None:
        assert torch.equal(ours, theirs)
    whole = _whole_blocks(made)
    pairs = torch.stack(
        [made.mask_mod(None, None, torch.tensor(i), torch.arange(prefix + T)) for i in range(T)]
    )
    for i, j in whole.nonzero().tolist():
        assert bool(pairs[i * block : (i + 1) * block, j * block : (j + 1) * block].all())
    if prefix == 0:
        assert torch.equal(pairs, dense_mask(tree, window))
    else:
        assert torch.equal(pairs[:, prefix:] & pairs[:, :prefix].new_ones(()), pairs[:, prefix:])
        near = tree.position[:, None] + prefix - torch.arange(prefix) < (window or 10**9)
        assert torch.equal(pairs[:, :prefix], near)


def _whole_blocks(mask: Any) -> Tensor:
    count, index = mask.full_kv_num_blocks[0, 0], mask.full_kv_indices[0, 0]
    dense = torch.zeros(len(count), index.shape[-1], dtype=torch.bool)
    for row in range(len(count)):
        dense[row, index[row, : count[row]].long()] = True
    return dense


def test_whole_blocks_are_found_where_there_are_any() -> None:
    """Else the block mask would be right and slow."""
    tree = tree_of([[*range(1, 65), 100 + g, *range(200, 215)] for g in range(4)])
    made = forest_block_mask(tree, CPU, block_tokens=8)
    assert int(made.full_kv_num_blocks.sum()) > int(made.kv_num_blocks.sum())


@pytest.mark.draws(4)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("heads", [4, 6])
@pytest.mark.parametrize("sunk", [False, True])
@pytest.mark.parametrize(("window", "softcap"), [(None, None), (5, None), (None, 2.0)])
def test_flex_is_one_softmax_uncompiled(
    window: int | None, softcap: float | None, sunk: bool, heads: int
) -> None:
    """Values only: FlexAttention has no backward on CPUs."""
    tree = TREES["depth of five"]
    inputs = [x.detach() for x in draw(tree.num_tokens, heads, width=16)]
    sinks = draw_sinks(heads).detach() if sunk else None
    attend = ForestAttention(tree, forced="flex")
    torch.testing.assert_close(
        attend(*inputs, scale=SCALE, window=window, softcap=softcap, sinks=sinks),
        oracle_of(tree, window=window, softcap=softcap, sinks=sinks)(*inputs),
    )


@pytest.mark.draws(2)
@pytest.mark.parametrize("softcap", [None, 5.0])
@pytest.mark.parametrize("window", [None, 12])
def test_flex_traces_as_one_graph_with_gradients(
    window: int | None, softcap: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler's view of a GPU's call; that CPUs have no backward is looked past."""
    graphs: list[bool] = []

    def look(module: Any, inputs: Any) -> Any:
        graphs.append(any("flex_attention" in str(node.target) for node in module.graph.nodes))
        return module.forward

    monkeypatch.setattr(flex_attention_module, "_validate_device", lambda *_: None)
    kernel = compile_flex(look)
    cap = None if softcap is None else soft_cap(softcap, CPU)
    for groups, length in ((3, 150), (4, 190), (2, 260), (5, 330)):
        rows = [[*range(1, length - 40), *range(500 + 50 * g, 540 + 50 * g)] for g in range(groups)]
        tree = tree_of(rows)
        mask = forest_block_mask(tree, CPU, window=window)
        inputs = draw(tree.num_tokens, width=16)
        query, key, value = (
            x.detach().transpose(0, 1).unsqueeze(0).requires_grad_() for x in inputs
        )
        out = kernel(
            query, key, value, score_mod=cap, block_mask=mask, scale=SCALE, enable_gqa=True
        )
        assert out.requires_grad
    # The first length, and lengths from then on: never without the fused operation.
    assert graphs == [True] * len(graphs)
    assert len(graphs) <= 2


def test_choice_of_path() -> None:
    tree = TREES["one group"]
    q, _, v = draw(tree.num_tokens)
    attend = ForestAttention(tree)
    assert attend.choose_path(q, v) == "joined"
    assert attend.choose_path(q, v, window=2) == "joined"
    assert attend.choose_path(q, v, softcap=1.0) == "blockwise"
    assert attend.choose_path(q.to("meta"), v) == "blockwise"
    with pytest.raises(ValueError, match="does not serve a layer with window=None"):
        ForestAttention(tree, forced="joined")(q, v, v, scale=1.0, softcap=1.0)
    with pytest.raises(ValueError, match="attention path must be one of"):
        ForestAttention(tree, forced="chunked")  # type: ignore[arg-type]


def test_choice_of_path_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flash kernels for documents with windows or sinks, and shallow trees; Flex for the rest."""
    monkeypatch.setattr(engine, "_TRITON", True)
    monkeypatch.setattr(engine, "flash_serves", lambda query, value: query.dtype == torch.half)
    monkeypatch.setattr(Tensor, "is_cuda", True)
    half = torch.empty(4, 2, 16, dtype=torch.half, device="meta")
    chosen = {
        name: [
            ForestAttention(FORESTS[name]).choose_path(half, half, window=window, softcap=cap)
            for window, cap in ((None, None), (2, None), (None, 1.0))
        ]
        for name in ("documents", "one group", "depth of five")
    }
    assert chosen == {
        "documents": ["joined", "joined", "flex"],
        "one group": ["joined", "flex", "flex"],
        "depth of five": ["flex", "flex", "flex"],
    }
    assert ForestAttention(FORESTS["documents"]).choose_path(half.float(), half) == "flex"
    after_prefix = ForestAttention(FORESTS["documents"], prefix_tokens=3)
    assert after_prefix.choose_path(half, half, window=2) == "flex"
    # Heads that its kernel refuses.
    assert after_prefix.choose_path(half, half[..., :8], window=2) == "blockwise"
    assert after_prefix.choose_path(half[..., :8], half[..., :8], window=2) == "blockwise"


def test_window_that_no_row_outgrows_is_no_window() -> None:
    tree = TREES["one group"]
    attend = ForestAttention(tree)
    assert attend.window_that_counts(tree.span) is None
    assert attend.window_that_counts(tree.span - 1) == tree.span - 1


def test_values_narrower_than_keys() -> None:
    tree = TREES["one group"]
    q, k, v = draw(tree.num_tokens)
    agree(
        lambda q, k, v: ForestAttention(tree)(q, k, v[..., :5], scale=SCALE),
        lambda q, k, v: oracle_of(tree)(q, k, v[..., :5]),
        (q, k, v),
    )
