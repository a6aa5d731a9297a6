"""Every attention path against the dense oracle: values and gradients, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from memlint_runtime.attention.kernels.flex_compiled import compile_flex, soft_cap
from memlint_runtime.shared_prompt.attention import TreeAttention, choose_path
from memlint_runtime.shared_prompt.chunked import chunked_attention
from memlint_runtime.shared_prompt.flex import tree_block_mask
from memlint_runtime.shared_prompt.joined import joined_attention, plan_join
from memlint_runtime.shared_prompt.kernels import CPU_KERNEL, CudaKernel
from memlint_runtime.shared_prompt.layout import PrefixTree
from memlint_runtime.shared_prompt.oracle import dense_attention, dense_mask
from torch import Tensor
from torch.nn.attention import flex_attention as flex_attention_module
from torch.nn.attention.flex_attention import create_block_mask

from tests.runtime.shared_prompt.trees import DEEP_ROWS, random_rows, tree_of

CPU = torch.device("cpu")
TREES = {
    "one group": tree_of(random_rows(1, 1, 8, 20, 7)),
    "groups of many sizes": tree_of([*random_rows(2, 3, 4, 20, 7), *random_rows(3, 2, 1, 9, 9)]),
    "equal completions": tree_of([[1, 2, 3, *range(10 + g, 15 + g)] for g in range(0, 30, 6)]),
    "depth of five": tree_of(DEEP_ROWS),
    "single row": tree_of(random_rows(4, 1, 1, 9, 9)),
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


def oracle_of(tree: PrefixTree, **options: Any) -> Callable[..., Tensor]:
    sees = dense_mask(tree, options.pop("window", None))
    return lambda q, k, v: dense_attention(q, k, v, sees, scale=SCALE, **options)


def with_sinks(tree: PrefixTree, window: int | None = None) -> Callable[..., Tensor]:
    sees = dense_mask(tree, window)
    return lambda q, k, v, sinks: dense_attention(q, k, v, sees, scale=SCALE, sinks_H=sinks)


@pytest.mark.parametrize("by_path", [False, True])
@pytest.mark.parametrize("name", TREES)
def test_joined_calls_are_one_softmax(name: str, by_path: bool) -> None:
    tree = TREES[name]
    plan = plan_join(tree, CPU, by_path=by_path)
    if not by_path:
        assert len(plan.levels) == tree.depth - 1
    agree(
        lambda q, k, v: joined_attention(q, k, v, plan, CPU_KERNEL, scale=SCALE),
        oracle_of(tree),
        draw(tree.num_tokens),
    )


@pytest.mark.parametrize("name", TREES)
def test_by_path_every_token_looks_back_once(name: str) -> None:
    """However deep it stands; and no call holds more keys than the tree, save one path's."""
    tree = TREES[name]
    plan = plan_join(tree, CPU, by_path=True)
    tokens = torch.arange(tree.num_tokens)
    looking = torch.cat([tokens[level.queries_at] for level in plan.levels] or [tokens[:0]])
    below = [node for node in tree.nodes if node.level]
    assert len(looking) == len(set(looking.tolist())) == sum(n.end - n.start for n in below)
    for level in plan.levels:
        assert level.keys.bounds[-1] <= tree.num_tokens


@pytest.mark.parametrize("by_path", [False, True])
@pytest.mark.parametrize("name", TREES)
def test_sinks_join_the_whole_softmax_once(name: str, by_path: bool) -> None:
    """The oracle's own sinks are held to transformers' by the tests of gpt-oss."""
    tree = TREES[name]
    plan = plan_join(tree, CPU, by_path=by_path)
    for kernel in (CPU_KERNEL, CudaKernel(emulated_flash, emulated_flash_backward)):
        agree(
            lambda q, k, v, sinks, kernel=kernel: joined_attention(
                q, k, v, plan, kernel, scale=SCALE, sinks_H=sinks
            ),
            with_sinks(tree),
            (*draw(tree.num_tokens), draw_sinks()),
        )


@pytest.mark.parametrize("window", [None, 1, 3, 11])
@pytest.mark.parametrize("name", TREES)
def test_sinks_over_chunks(name: str, window: int | None) -> None:
    tree = TREES[name]
    agree(
        lambda q, k, v, sinks: chunked_attention(
            q, k, v, tree, scale=SCALE, window=window, sinks_H=sinks, chunk_tokens=4
        ),
        with_sinks(tree, window),
        (*draw(tree.num_tokens), draw_sinks()),
    )


@pytest.mark.parametrize("window", [None, 4])
def test_sinks_join_once_beside_an_outside_prefix(window: int | None) -> None:
    prompt, tails = list(range(1, 13)), [[20, 21, 22], [20, 21, 30, 31, 32], [40]]
    whole = tree_of([[*prompt, *tail] for tail in tails])
    attend = TreeAttention(tree_of(tails), prefix_tokens=12)
    agree(
        lambda q, k, v, sinks: attend(
            q[12:], k[12:], v[12:], scale=SCALE, window=window, sinks=sinks,
            outside=(k[:12], v[:12]),
        ),
        lambda *inputs: with_sinks(whole, window)(*inputs)[12:],
        (*draw(whole.num_tokens), draw_sinks()),
    )  # fmt: skip


def emulated_flash(query: Tensor, key: Tensor, value: Tensor, *args: Any, scale: float) -> Any:
    """What the CUDA operator promises, by plain autograd-free arithmetic and its own arguments."""
    cu_q, cu_k, longest_q, longest_k, dropout, causal, debug = args
    assert (dropout, debug) == (0.0, False)
    assert cu_q.dtype == cu_k.dtype == torch.int32
    assert longest_q == int(cu_q.diff().max())
    assert longest_k == int(cu_k.diff().max())
    out, lse = torch.empty_like(query), query.new_empty(query.shape[1], query.shape[0])
    for (a, b), (c, d) in zip(
        torch.stack([cu_q[:-1], cu_q[1:]], 1).tolist(),
        torch.stack([cu_k[:-1], cu_k[1:]], 1).tolist(),
        strict=True,
    ):
        scores = _scores(query[a:b], key[c:d], causal, scale)
        lse[:, a:b] = torch.logsumexp(scores, -1)
        out[a:b] = (torch.softmax(scores, -1) @ _wide(value[c:d], query)).transpose(0, 1)
    return out, lse, None, None, None


def emulated_flash_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, lse: Tensor, *args: Any,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Probabilities from the log-sum-exp that it is given, as flash kernels do."""
    cu_q, cu_k, _, _, _, causal, state, _ = args
    assert state.dtype == torch.uint64
    grads = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    groups = query.shape[1] // key.shape[1]
    for i in range(len(cu_q) - 1):
        q, k = slice(*cu_q[i : i + 2].tolist()), slice(*cu_k[i : i + 2].tolist())
        p = (_scores(query[q], key[k], causal, scale) - lse[:, q, None]).exp()
        g = grad[q].transpose(0, 1)
        delta = (g * out[q].transpose(0, 1)).sum(-1, keepdim=True)
        ds = p * (g @ _wide(value[k], query).mT - delta) * scale
        grads[0][q] = (ds @ _wide(key[k], query)).transpose(0, 1)
        grads[1][k] = (
            (ds.mT @ query[q].transpose(0, 1)).unflatten(0, (-1, groups)).sum(1).transpose(0, 1)
        )
        grads[2][k] = (p.mT @ g).unflatten(0, (-1, groups)).sum(1).transpose(0, 1)
    return grads


def _wide(x: Tensor, query: Tensor) -> Tensor:
    return x.repeat_interleave(query.shape[1] // x.shape[1], 1).transpose(0, 1)


def _scores(query: Tensor, key: Tensor, causal: bool, scale: float) -> Tensor:
    scores = query.transpose(0, 1) @ _wide(key, query).mT * scale
    if causal:
        scores = scores.masked_fill(
            torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf")
        )
    return scores


@pytest.mark.parametrize("name", TREES)
def test_gpu_kernel_wrapper_is_one_softmax_around_emulated_kernels(name: str) -> None:
    tree = TREES[name]
    kernel = CudaKernel(emulated_flash, emulated_flash_backward)
    plan = plan_join(tree, CPU)
    agree(
        lambda q, k, v: joined_attention(q, k, v, plan, kernel, scale=SCALE),
        oracle_of(tree),
        draw(tree.num_tokens),
    )


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
        assert "scale" in [a.name for a in schema.arguments if a.kwarg_only]


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("window", [None, 1, 3, 11])
@pytest.mark.parametrize("name", TREES)
def test_chunks_are_one_softmax(name: str, window: int | None, softcap: float | None) -> None:
    tree = TREES[name]
    agree(
        lambda q, k, v: chunked_attention(
            q, k, v, tree, scale=SCALE, window=window, softcap=softcap, chunk_tokens=4
        ),
        oracle_of(tree, window=window, softcap=softcap),
        draw(tree.num_tokens),
    )


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
    attend = TreeAttention(tree, prefix_tokens=12)
    out = attend(
        q[12:], k[12:], v[12:], scale=SCALE, window=window,
        outside=(k[:12], v[:12]),
    )  # fmt: skip
    assert attend.taken == {"joined" if window is None else "chunked"}
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
    made = tree_block_mask(tree, CPU, window=window, prefix_tokens=prefix, block_tokens=block)
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
    made = tree_block_mask(tree, CPU, block_tokens=8)
    assert int(made.full_kv_num_blocks.sum()) > int(made.kv_num_blocks.sum())


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
    attend = TreeAttention(tree, forced="flex")
    torch.testing.assert_close(
        attend(*inputs, scale=SCALE, window=window, softcap=softcap, sinks=sinks),
        oracle_of(tree, window=window, softcap=softcap, sinks_H=sinks)(*inputs),
    )


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
        mask = tree_block_mask(tree, CPU, window=window)
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
    assert choose_path(tree, q, v) == "joined"
    assert choose_path(tree, q, v, windowed=True) == "chunked"
    assert choose_path(tree, q, v, softcap=1.0) == "chunked"
    with pytest.raises(ValueError, match="neither sliding window nor soft cap"):
        TreeAttention(tree, forced="joined")(q, v, v, scale=1.0, window=2)


def test_window_that_no_row_outgrows_is_no_window() -> None:
    tree = TREES["one group"]
    attend = TreeAttention(tree)
    attend(*draw(tree.num_tokens), scale=SCALE, window=tree.span)
    assert attend.taken == {"joined"}


def test_values_narrower_than_keys() -> None:
    tree = TREES["one group"]
    q, k, v = draw(tree.num_tokens)
    agree(
        lambda q, k, v: TreeAttention(tree)(q, k, v[..., :5], scale=SCALE),
        lambda q, k, v: oracle_of(tree)(q, k, v[..., :5]),
        (q, k, v),
    )
