"""`token_logprobs` against all logits in one piece: values, gradients, bytes, and edges."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from memlint_runtime import token_logprobs
from memlint_runtime.fake_memory import track_memory
from memlint_runtime.losses import (
    default_workspace_bytes,
    distillation_loss,
    tiles,
    token_statistics,
)
from memlint_runtime.losses.planning import plan_tiling, sweep_bytes
from memlint_runtime.losses.tile_ops import LogitTransform
from memlint_runtime.losses.tiles import Head
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.examples import examples
from tests.runtime.float64 import in_float64, judge
from tests.runtime.losses.plain import make_problem, plain_statistics, worst

SMALL = 40_000  # bytes: many tiles, and no room for a kept gradient
HEADS = {
    "bare": {},
    "softcap": {"softcap": 3.0},
    "scaled": {"logit_scale": 0.25, "temperature": 0.7},
    "all": {"softcap": 4.0, "logit_scale": 1.5, "temperature": 1.3},
}


def agree(ours: Any, plain: Any, *leaves: Tensor, by: Tensor) -> None:
    """Values, and the gradients of each by itself. by: what backward begins with, a row a value."""

    def trained(run: Any, *leaves: Tensor) -> Any:
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        return [
            (values, torch.autograd.grad(values, wanted, row.to(values), retain_graph=True))
            for values, row in zip(run(*leaves), by, strict=True)
        ]

    truth = in_float64(functools.partial(trained, plain), *leaves)
    judge(trained(ours, *leaves), trained(plain, *leaves), truth, terms=1.0)


@pytest.mark.parametrize("workspace", [None, SMALL], ids=["kept", "recomputed"])
@pytest.mark.parametrize("options", HEADS.values(), ids=HEADS.keys())
def test_values_and_gradients_are_the_plain_ones(
    options: dict[str, float], workspace: int | None
) -> None:
    problem = make_problem()
    hidden, weight, target = problem.hidden, problem.weight, problem.target
    bias = torch.randn(101).requires_grad_()
    low = (torch.randn(37, 3).requires_grad_(), torch.randn(101, 3).requires_grad_())
    upstream = torch.randn(4, 37)

    def ours(hidden: Tensor, weight: Tensor, bias: Tensor, *low: Tensor) -> Any:
        found = token_statistics(
            hidden,
            weight,
            target,
            bias=bias,
            low_rank=low,
            logsumexp=True,
            entropy=True,
            mean_logit=True,
            workspace_bytes=workspace,
            **options,
        )
        return found.logprob, found.logsumexp, found.entropy, found.mean_logit

    def plain(hidden: Tensor, weight: Tensor, bias: Tensor, *low: Tensor) -> Any:
        return plain_statistics(hidden, weight, target, bias=bias, low_rank=low, **options)

    agree(ours, plain, hidden, weight, bias, *low, by=upstream)


@pytest.mark.parametrize("workspace", [None, SMALL], ids=["kept", "recomputed"])
@pytest.mark.parametrize("trained", ["both", "hidden", "weight", "neither"])
def test_gradient_only_where_wanted(trained: str, workspace: int | None) -> None:
    problem = make_problem()
    problem.hidden.requires_grad_(trained in ("both", "hidden"))
    problem.weight.requires_grad_(trained in ("both", "weight"))
    target = problem.target

    def ours(hidden: Tensor, weight: Tensor) -> Any:
        return [token_logprobs(hidden, weight, target, softcap=5.0, workspace_bytes=workspace)]

    def plain(hidden: Tensor, weight: Tensor) -> Any:
        return plain_statistics(hidden, weight, target, softcap=5.0)[:1]

    if trained != "neither":
        agree(ours, plain, problem.hidden, problem.weight, by=torch.randn(1, 37) * 1024)
        return
    (found,) = ours(problem.hidden, problem.weight)
    assert not found.requires_grad
    truth = in_float64(plain, problem.hidden, problem.weight)
    judge([found], list(plain(problem.hidden, problem.weight)), list(truth))


@pytest.mark.parametrize("entropy", [False, True])
@pytest.mark.parametrize("workspace", [None, 3000], ids=["kept", "recomputed"])
def test_gradcheck(workspace: int | None, entropy: bool) -> None:
    problem = make_problem(5, 3, 11, dtype=torch.float64)
    bias = torch.randn(11, dtype=torch.float64, requires_grad=True)

    def function(hidden: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        found = token_statistics(
            hidden,
            weight,
            problem.target,
            bias=bias,
            softcap=2.0,
            temperature=0.8,
            entropy=entropy,
            mean_logit=entropy,
            workspace_bytes=None if workspace is None else 12_000,
        )
        return tuple(
            values
            for values in vars(found).values()
            if values is not None and values.is_floating_point()
        )

    assert torch.autograd.gradcheck(
        function, (problem.hidden, problem.weight, bias), nondet_tol=1e-12
    )


@pytest.mark.parametrize("workspace", [None, SMALL], ids=["kept", "recomputed"])
@pytest.mark.parametrize(("native", "share"), [(False, 1.0), (True, 1.1)])
def test_half_precision_is_no_worse_than_plain(
    native: bool, share: float, workspace: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a CPU that multiplies halves itself, each product is rounded, as plain logits are."""
    monkeypatch.setattr(tiles, "_cpu_multiplies_bfloat16", lambda: native)
    exact = make_problem(64, 48, 500)
    half = exact.to(torch.bfloat16)
    # What is compared is arithmetic: the exact answer is that of the rounded inputs.
    exact = half.to(torch.float64)
    by = torch.randn(64)
    truth = plain_statistics(exact.hidden, exact.weight, exact.target)[0]
    plain = plain_statistics(half.hidden, half.weight, half.target)[0]
    ours = token_logprobs(half.hidden, half.weight, half.target, workspace_bytes=workspace)
    assert worst(ours, truth) <= share * worst(plain, truth)
    leaves = [half.hidden, half.weight]
    expected = torch.autograd.grad(truth, [exact.hidden, exact.weight], by.double())
    mine = torch.autograd.grad(ours, leaves, by)
    theirs = torch.autograd.grad(plain, leaves, by)
    for our_gradient, plain_gradient, exact_gradient in zip(mine, theirs, expected, strict=True):
        assert our_gradient.dtype == torch.bfloat16
        assert worst(our_gradient, exact_gradient) <= share * worst(plain_gradient, exact_gradient)


@given(
    tokens=st.integers(1, 40),
    width=st.integers(1, 9),
    vocabulary=st.integers(1, 70),
    workspace=st.sampled_from([None, 20_000, 60_000]),
    seed=st.integers(0, 5),
)
@examples(40)
def test_any_shape(
    tokens: int, width: int, vocabulary: int, workspace: int | None, seed: int
) -> None:
    problem = make_problem(tokens, width, vocabulary, seed=seed)
    agree(
        lambda *leaves: [token_logprobs(*leaves, problem.target, workspace_bytes=workspace)],
        lambda *leaves: plain_statistics(*leaves, problem.target)[:1],
        problem.hidden, problem.weight, by=torch.ones(1, tokens),
    )  # fmt: skip


def test_says_whether_the_target_is_the_likeliest() -> None:
    problem = make_problem(200, vocabulary=7, ignored=False)
    found = token_statistics(problem.hidden, problem.weight, problem.target)
    plain = (problem.hidden @ problem.weight.T).argmax(-1) == problem.target
    assert torch.equal(found.is_top, plain)
    assert found.is_top.any()
    assert not found.is_top.all()


def test_extras_as_metrics_carry_no_gradient() -> None:
    problem = make_problem()
    found = token_statistics(
        problem.hidden,
        problem.weight,
        problem.target,
        entropy=True,
        mean_logit=True,
        extras_differentiable=False,
    )
    assert found.entropy is not None
    assert found.mean_logit is not None
    assert not found.entropy.requires_grad
    assert not found.mean_logit.requires_grad
    assert found.logprob.requires_grad


def test_all_masked_is_zero() -> None:
    problem = make_problem()
    problem.target.fill_(-100)
    ours, entropy = token_logprobs(problem.hidden, problem.weight, problem.target, entropy=True)
    (ours.sum() + entropy.sum()).backward()
    for values in (ours, entropy, problem.hidden.grad, problem.weight.grad):
        assert values is not None
        assert not values.any()


def test_confident_token_keeps_its_small_gradient() -> None:
    # log p is about -4e-9: a sum that holds the target's own entry would round it to zero.
    weight = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    hidden = torch.tensor([[20.0, 0.7]], requires_grad=True)
    ours = token_logprobs(hidden, weight, torch.tensor([0]))
    (gradient,) = torch.autograd.grad(ours.sum(), hidden)
    other = torch.exp(torch.tensor(-19.3))
    assert ours.item() == pytest.approx(-other.item(), rel=1e-5)
    assert gradient[0, 0].item() == pytest.approx(other.item(), rel=1e-5)


def test_leading_shapes_and_strides() -> None:
    problem = make_problem(24)
    target = problem.target.view(4, 6)[:, ::2]

    def ours(hidden: Tensor, weight: Tensor) -> Any:
        batch = hidden.view(4, 6, 16)[:, ::2]
        return [token_logprobs(batch, weight.T.contiguous().T, target)]

    def plain(hidden: Tensor, weight: Tensor) -> Any:
        return plain_statistics(hidden.view(4, 6, 16)[:, ::2], weight, target)[:1]

    assert ours(problem.hidden, problem.weight)[0].shape == (4, 3)
    agree(ours, plain, problem.hidden, problem.weight, by=torch.ones(1, 4, 3))


def test_tied_head_gets_both_gradients() -> None:
    ids = torch.randint(0, 50, (12,))
    target = torch.randint(0, 50, (12,))
    agree(
        lambda table: [token_logprobs(table[ids].tanh(), table, target)],
        lambda table: plain_statistics(table[ids].tanh(), table, target)[:1],
        torch.randn(50, 8).requires_grad_(), by=torch.ones(1, 12),
    )  # fmt: skip


def test_autocast_multiplies_in_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "_cpu_multiplies_bfloat16", lambda: False)
    problem = make_problem(ignored=False)
    with torch.autocast("cpu", torch.bfloat16):
        ours = token_logprobs(problem.hidden, problem.weight, problem.target)
    half = problem.to(torch.bfloat16).to(torch.float32)
    truth = in_float64(lambda *x: plain_statistics(*x, problem.target)[0], half.hidden, half.weight)
    judge(ours, token_logprobs(half.hidden, half.weight, problem.target), truth)
    (gradient,) = torch.autograd.grad(ours.sum(), problem.weight)
    assert gradient.dtype == torch.float32


def _beyond_inputs_and_results(
    run: Callable[[], Tensor], inputs: list[Tensor | None], leaves: list[Tensor]
) -> int:
    """Bytes at the peak of forward and backward beside inputs and gradients."""
    given = sum(one.numel() * one.element_size() for one in inputs if one is not None)
    with track_memory() as tracker:
        gradients = torch.autograd.grad(run(), leaves)
        results = sum(one.numel() * one.element_size() for one in gradients)
    return tracker.peak.total - given - results


@pytest.mark.draws(6)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize("head_trained", [True, False])
@pytest.mark.parametrize("workspace", [None, 2**19, 2**20])
def test_memory_stays_in_the_declared_workspace(
    workspace: int | None, head_trained: bool, ignored: bool, dtype: torch.dtype
) -> None:
    problem = make_problem(400, 64, 3000, dtype=dtype, ignored=ignored)
    hidden, weight, target = problem.hidden, problem.weight, problem.target
    weight.requires_grad_(head_trained)
    declared = workspace or default_workspace_bytes(400, 64, dtype)
    low = (torch.randn(400, 4, dtype=dtype), torch.randn(3000, 4, dtype=dtype, requires_grad=True))
    for adapted in (False, True):
        for entropy in (False, True):

            def run(adapted: bool = adapted, entropy: bool = entropy) -> Tensor:
                found = token_statistics(
                    hidden,
                    weight,
                    target,
                    entropy=entropy,
                    low_rank=low if adapted else None,
                    workspace_bytes=workspace,
                )
                loss = found.logprob.sum()
                return loss if found.entropy is None else loss + found.entropy.sum()

            leaves = [hidden, *([weight] if head_trained else []), *([low[1]] if adapted else [])]
            inputs = [hidden, weight, target, *(low if adapted else ())]
            assert _beyond_inputs_and_results(run, inputs, leaves) <= declared


# vocabulary, width, tokens: Llama-3 8B, Gemma-2 2B, Qwen2.5-7B, Llama-3 8B at a long context.
@pytest.mark.parametrize(
    "sizes",
    [(128_256, 4096, 8192), (256_000, 2304, 8192), (152_064, 3584, 8192), (128_256, 4096, 32_768)],
)
def test_tiles_fill_a_gpu_by_default(sizes: tuple[int, int, int]) -> None:
    vocabulary, width, tokens = sizes
    with FakeTensorMode():
        hidden = torch.empty(tokens, width, dtype=torch.bfloat16, device="cuda")
        weight = torch.empty(vocabulary, width, dtype=torch.bfloat16, device="cuda")
        head = Head((hidden,), (weight,), None, LogitTransform(), torch.bfloat16)
        workspace = default_workspace_bytes(
            tokens, width, torch.bfloat16, vocabulary=vocabulary, device="cuda"
        )
        assert 256 * 2**20 <= workspace <= max((vocabulary + tokens) * width, 256 * 2**20)
        for outer in ("tokens", "vocabulary"):
            tiling = plan_tiling(head, workspace, outer, scratch=1)
            assert sweep_bytes(head, tiling, 1) <= workspace
            count = -(-tokens // tiling.tokens) * -(-vocabulary // tiling.vocabulary)
            assert count <= 80 * tokens // 8192
            # A row of a tile is one block of the Triton kernels, of at most so many.
            assert tiling.vocabulary <= 8192
            # Of a matmul's blocks of 128 x 256 there are more than an H100 has multiprocessors.
            assert tiling.tokens * tiling.vocabulary >= 132 * 128 * 256


class _NoKernel:
    """In the place of a Triton kernel: launches nothing."""

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return lambda *_, **__: None


@pytest.mark.draws(1)
@pytest.mark.parametrize(
    ("sizes", "low_rank", "workspace"),
    [
        ((128_256, 4096, 8192), False, None),
        ((256_000, 2304, 8192), False, None),
        ((128_256, 4096, 32_768), False, None),
        ((128_256, 4096, 8192), True, None),
        # Far less than the gradient that forward keeps.
        ((128_256, 4096, 8192), False, 128 * 2**20),
        ((256_000, 2304, 4096), False, 64 * 2**20),
    ],
)
def test_memory_of_a_gpu_stays_in_the_workspace(
    sizes: tuple[int, int, int],
    low_rank: bool,
    workspace: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    triton_ops = pytest.importorskip("memlint_runtime.losses.triton_ops")
    from memlint_runtime.losses import passes, statistics

    for name in vars(triton_ops):
        if name.endswith("_kernel"):
            monkeypatch.setattr(triton_ops, name, _NoKernel())
    # Fakes that are said to be on a GPU can be neither sliced nor multiplied without one.
    monkeypatch.setattr(Head, "has_half_matmul", True)
    for module in (statistics, passes):
        monkeypatch.setattr(module, "has_triton", lambda _: True)
    monkeypatch.setattr(tiles, "_adds_in_place", lambda *_: False)
    monkeypatch.setattr(tiles, "_rounds_products", lambda *_: False)
    vocabulary, width, tokens = sizes
    widths = (width, 16) if low_rank else (width,)
    with FakeTensorMode(), torch.no_grad():
        make = functools.partial(torch.empty, dtype=torch.bfloat16)
        hiddens = [make(tokens, each) for each in widths]
        weights = [make(vocabulary, each) for each in widths]
        target = torch.empty(tokens, dtype=torch.long)
        declared = workspace or default_workspace_bytes(
            tokens, sum(widths), torch.bfloat16, vocabulary=vocabulary, device="cuda"
        )
        keeps = (True,) * len(widths)
        options = passes.PassOptions(
            LogitTransform(), torch.bfloat16, declared, False, False, False, True, keeps,
            half_logits=workspace is not None,
        )  # fmt: skip
        with track_memory() as tracker:
            rows, _, found, kept = passes.forward_pass(options, target, None, [*hiddens, *weights])
            upstream = (found.logprob, None, None, None)
            gradients = passes.backward_pass(
                options, rows, target, None, [*hiddens, *weights], found.logprob,
                found.logsumexp, None, kept, upstream, (False, *[True] * 2 * len(widths)),
            )  # fmt: skip
        given = [*hiddens, *weights, target, *gradients]
        held = sum(one.numel() * one.element_size() for one in given if one is not None)
    assert tracker.peak.total - held <= declared


def test_an_error_of_the_device_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(tiles, "_adds_in_place", lambda *_: True)
    monkeypatch.setattr(tiles, "_rounds_products", lambda *_: False)
    monkeypatch.setattr(torch.ops.aten.addmm, "dtype_out", full)
    half = torch.ones(2, 2, dtype=torch.bfloat16)
    with pytest.raises(torch.OutOfMemoryError):
        tiles.add_product_(torch.zeros(2, 2), half, half)


@pytest.mark.parametrize("head_trained", [True, False])
def test_distillation_stays_in_the_declared_workspace(head_trained: bool) -> None:
    problem = make_problem(200, 32, 3000, dtype=torch.bfloat16)
    weight = problem.weight.requires_grad_(head_trained)
    teacher = torch.randn(200, 48, dtype=torch.bfloat16), torch.randn(3000, 48).bfloat16()
    for divergence in ("forward_kl", "reverse_kl", "jensen_shannon"):

        def run(divergence: Any = divergence) -> Tensor:
            loss = distillation_loss(
                problem.hidden, weight, *teacher, divergence=divergence, workspace_bytes=2**20
            )
            return loss.sum()

        leaves = [problem.hidden, *([weight] if head_trained else [])]
        inputs = [problem.hidden, weight, *teacher]
        assert _beyond_inputs_and_results(run, inputs, leaves) <= 2**20


def test_kept_gradients_are_hidden_from_saved_tensor_hooks() -> None:
    problem = make_problem(ignored=False)
    seen: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        seen.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        ours = token_logprobs(problem.hidden, problem.weight, problem.target)
    saved = {tensor.data_ptr() for tensor in seen if tensor.numel() == problem.hidden.numel()}
    assert saved == {problem.hidden.data_ptr()}
    versions = [tensor._version for tensor in seen]
    ours.sum().backward()
    assert [tensor._version for tensor in seen] == versions


def test_says_what_does_not_fit() -> None:
    problem = make_problem()
    hidden, weight, target = problem.hidden, problem.weight, problem.target
    with pytest.raises(ValueError, match="smallest tile"):
        token_logprobs(hidden, weight, target, workspace_bytes=100)
    with pytest.raises(ValueError, match="weight is \\[vocabulary, width\\]"):
        token_logprobs(hidden, weight.T, target)
    with pytest.raises(ValueError, match="one target per hidden state"):
        token_logprobs(hidden, weight, target[1:])
    with pytest.raises(ValueError, match="below the vocabulary of 101, got 101"):
        token_logprobs(hidden, weight, target.clamp(min=101))
    with pytest.raises(ValueError, match="temperature and softcap are positive"):
        token_logprobs(hidden, weight, target, temperature=0.0)
    with pytest.raises(ValueError, match="temperature and softcap are positive, got nan"):
        token_logprobs(hidden, weight, target, temperature=float("nan"))
    with pytest.raises(
        ValueError, match=r"targets are token ids, whole numbers: got torch.float32"
    ):
        token_logprobs(hidden, weight, target.float())
    with pytest.raises(ValueError, match="dequantize the head"):
        token_logprobs(hidden, torch.ones(101, 16, dtype=torch.uint8), target)


@pytest.mark.parametrize("workspace", [None, SMALL], ids=["kept", "recomputed"])
def test_compiles_without_a_graph_break(workspace: int | None) -> None:
    problem = make_problem()
    low = (torch.randn(37, 3).requires_grad_(), torch.randn(101, 3).requires_grad_())
    bias = torch.randn(101).requires_grad_()
    leaves = [problem.hidden, problem.weight, bias, *low]

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor, left: Tensor, right: Tensor) -> Tensor:
        logprob, entropy = token_logprobs(
            hidden * 1.5,
            weight,
            problem.target,
            bias=bias,
            softcap=4.0,
            low_rank=(left, right),
            entropy=True,
            workspace_bytes=workspace,
        )
        return (logprob * 2.0).sum() + (entropy * logprob.detach()).mean()

    def plain(hidden: Tensor, weight: Tensor, bias: Tensor, left: Tensor, right: Tensor) -> Tensor:
        logprob, _, entropy, _ = plain_statistics(
            hidden * 1.5, weight, problem.target, bias=bias, softcap=4.0, low_rank=(left, right)
        )
        return (logprob * 2.0).sum() + (entropy * logprob.detach()).mean()

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    agree(
        lambda *leaves: [compiled(*leaves)], lambda *leaves: [plain(*leaves)], *leaves,
        by=torch.ones(1),
    )  # fmt: skip
