"""Gradients made in the forward pass: held to float64, to plain's rounding and to the workspace."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from memlint_runtime.fake_memory import track_memory
from memlint_runtime.losses import cost, cross_entropy, in_forward, statistics, tiles
from memlint_runtime.losses.in_forward import plan_chunks
from memlint_runtime.losses.passes import PassOptions, default_workspace_bytes
from memlint_runtime.losses.tile_ops import LogitTransform
from memlint_runtime.losses.tiles import Head
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.runtime.float64 import in_float64, judge
from tests.runtime.losses.cases import CASES
from tests.runtime.losses.plain import make_problem, plain_logits
from tests.runtime.losses.test_losses import agree, problem

CROSS_ENTROPIES = [
    "cross_entropy", "label_smoothing", "z_loss", "token_weights", "dft", "num_items_in_batch",
    "all_at_once",
]  # fmt: skip
# Bytes for some 80 of 256 tokens of the problem below.
SOME = 70_000


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans of losses that made their gradients in the forward pass."""
    own, taken = plan_chunks, []

    def watched(*given: Any) -> Any:
        plan = own(*given)
        taken.append(plan)
        return plan

    monkeypatch.setattr(in_forward, "plan_chunks", watched)
    return taken


@pytest.mark.parametrize("name", CROSS_ENTROPIES)
@pytest.mark.parametrize("workspace", [None, SOME], ids=["one", "chunks"])
def test_losses_and_gradients_are_the_plain_ones(
    name: str, workspace: int | None, plans: list[Any]
) -> None:
    hidden, weight, target = problem(64)

    def biased(hidden: Tensor, weight: Tensor, bias: Tensor) -> Any:
        return hidden, weight, {"bias": bias, "softcap": 3.0, "logit_scale": 1.2}

    bias = torch.randn(len(weight)).requires_grad_()
    options = {"build": biased, "workspace_bytes": workspace}
    agree(CASES[name], target, hidden, weight, bias, **options)
    assert [plan.rows < 256 for plan in plans] == [workspace is not None]


@pytest.mark.parametrize("base_trained", [False, True])
def test_an_adapter_on_the_head(base_trained: bool, plans: list[Any]) -> None:
    hidden, weight, target = problem(64)
    weight.requires_grad_(base_trained)

    def adapted(hidden: Tensor, weight: Tensor, down: Tensor, up: Tensor) -> Any:
        return hidden, weight, {"low_rank": (hidden @ down.T, up)}

    down, up = (torch.randn(n, 12 if n == 3 else 3).requires_grad_() for n in (3, len(weight)))
    case = CASES["cross_entropy"]
    agree(case, target, hidden, weight, down, up, build=adapted, workspace_bytes=SOME)
    assert plans[0] is not None


def test_sum_and_ignored_index(plans: list[Any]) -> None:
    made = make_problem(200, 16, 90)
    target = made.target.clamp(min=0)

    def plain(hidden: Tensor, weight: Tensor) -> Any:
        logits = plain_logits(hidden, weight)
        loss = torch.nn.functional.cross_entropy(logits, target, ignore_index=7, reduction="sum")
        return loss, torch.autograd.grad(loss, [hidden, weight])

    loss = cross_entropy(made.hidden, made.weight, target, ignore_index=7, reduction="sum")
    leaves = made.hidden, made.weight
    ours = loss, torch.autograd.grad(loss, leaves)
    judge(ours, plain(*leaves), in_float64(plain, *leaves))
    assert plans[0] is not None


def test_all_ignored_is_no_number_with_zero_gradients(plans: list[Any]) -> None:
    made = make_problem(200, 16, 90, dtype=torch.bfloat16)
    loss = cross_entropy(made.hidden, made.weight, torch.full((200,), -100))
    loss.backward()
    assert loss.isnan()
    for leaf in (made.hidden, made.weight):
        assert leaf.grad is not None
        assert not leaf.grad.any()
    assert plans[0] is not None


def test_a_second_backward_gives_the_same(plans: list[Any]) -> None:
    hidden, weight, target = problem(64)
    loss = cross_entropy(hidden, weight, target, label_smoothing=0.1, z_loss=0.01)
    first = [
        g.clone() for g in torch.autograd.grad(3.0 * loss, [hidden, weight], retain_graph=True)
    ]
    again = torch.autograd.grad(3.0 * loss, [hidden, weight], retain_graph=True)
    torch.testing.assert_close(list(again), first)
    with pytest.raises(RuntimeError, match="create_graph"):
        torch.autograd.grad(loss, [hidden], create_graph=True)
    assert plans[0] is not None


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("sums", [True, False])
def test_halves_err_as_plain_ones_do(
    native: bool, sums: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the root mean square, four chunks; sums in half precision add three roundings."""
    monkeypatch.setattr(tiles, "_cpu_multiplies_bfloat16", lambda: native)
    plan = functools.partial(in_forward.ChunkPlan, columns=300, scratch=2**14)
    monkeypatch.setattr(in_forward, "plan_chunks", lambda *given: plan(rows=128, sums=sums))
    errors: dict[str, list[list[float]]] = {"ours": [], "plain": []}
    for seed in range(4):
        made = make_problem(512, 32, 300, dtype=torch.bfloat16, seed=seed)
        leaves = made.hidden, made.weight
        exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
        truth = torch.autograd.grad(_mean(*exact, made.target), exact)
        losses = {
            "ours": cross_entropy(*leaves, made.target),
            "plain": _mean(*leaves, made.target),
        }
        for name, loss in losses.items():
            found = torch.autograd.grad(loss, leaves)
            pairs = zip(found, truth, strict=True)
            errors[name].append([float((f.double() - t).square().mean()) for f, t in pairs])
    ours, plain = (torch.tensor(errors[name]).mean(0).sqrt() for name in ("ours", "plain"))
    assert ours[0] <= 1.02 * plain[0]
    # A CPU's products of halves are rounded before they are added.
    assert ours[1] <= (1.5 if not sums else 1.1 if native else 1.02) * plain[1], (ours, plain)


def _mean(hidden: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(plain_logits(hidden, weight), target)


@pytest.mark.parametrize("what", ["frozen", "float16", "no gradient", "each token's", "weights"])
def test_what_is_left_to_backward(what: str, plans: list[Any]) -> None:
    made = make_problem(200, 16, 90)
    hidden, weight = made.hidden, made.weight
    options: dict[str, Any] = {}
    if what == "frozen":
        weight.requires_grad_(False)
    if what == "float16":
        hidden, weight = (leaf.detach().half().requires_grad_() for leaf in (hidden, weight))
    if what == "each token's":
        options["reduction"] = "none"
    if what == "weights":
        options["token_weights"] = torch.ones(200, requires_grad=True)
    with torch.set_grad_enabled(what != "no gradient"):
        cross_entropy(hidden, weight, made.target, **options)
    assert not any(plans)


def on_a_gpu(T: int, V: int, D: int, workspace: int | None = None) -> Any:
    """The plan of a half-precision head, and its workspace."""
    with FakeTensorMode():
        hidden = torch.empty(T, D, dtype=torch.bfloat16, device="cuda")
        weight = torch.empty(V, D, dtype=torch.bfloat16, device="cuda")
        head = Head((hidden,), (weight,), None, LogitTransform(), torch.bfloat16)
        if workspace is None:
            workspace = default_workspace_bytes(T, D, torch.bfloat16, vocabulary=V, device="cuda")
        return plan_chunks(head, workspace, [True]), workspace


def test_less_room_recomputes_and_more_sums_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_HAS_TRITON", True)
    shape = 8192, 128_256, 4096
    assert on_a_gpu(*shape, 40 * 2**20)[0] is None
    some, _ = on_a_gpu(*shape)
    assert (some.rows, some.sums) == (2048, False)
    more, _ = on_a_gpu(32_768, *shape[1:], 4 * 2**30)
    assert more.sums
    whole, _ = on_a_gpu(*shape, 3 * 2**30)
    assert (whole.rows, whole.sums) == (8192, False)


@pytest.mark.parametrize("shape", [(32_768, 128_256, 4096), (8192, 256_000, 2304)])
@pytest.mark.parametrize("rates", cost.RATES, ids=lambda rates: rates.name)
def test_chunks_are_whole_tiles(
    shape: tuple[int, int, int], rates: cost.Rates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "_HAS_TRITON", True)
    monkeypatch.setattr(cost, "rates_of", lambda device: rates)
    plan, _ = on_a_gpu(*shape)
    assert plan.rows < shape[0]
    assert plan.rows % rates.tile == 0
    # The last tile of each chunk, half empty, is paid for.
    whole, odd = (
        cost.three(rates, *shape, rows=rows, sums_bytes=2)
        for rows in (1024, 1024 + rates.tile // 2)
    )
    assert odd > whole


@pytest.mark.parametrize("T", [4096, 16_384])
@pytest.mark.parametrize("more", [0, 2**29])
def test_chunks_keep_within_the_workspace(
    T: int, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    V, D = 64_000, 1024
    monkeypatch.setattr(statistics, "_HAS_TRITON", True)
    default = on_a_gpu(T, V, D)[1]
    plan, workspace = on_a_gpu(T, V, D, default + more)
    assert plan is not None
    # Triton's kernels allocate nothing, and fakes that are said to be on a GPU cannot be sliced.
    operations = (lambda *given, **more: (None, None)), (lambda raw, *given, **more: raw)
    monkeypatch.setattr(in_forward, "tile_operations", lambda head: operations)
    monkeypatch.setattr(in_forward, "has_triton", lambda head: True)
    monkeypatch.setattr(Head, "has_half_matmul", True)
    monkeypatch.setattr(tiles, "_cpu_multiplies_bfloat16", lambda: True)
    monkeypatch.setattr(tiles, "_rounds_products", lambda *_: False)
    monkeypatch.setattr(tiles, "_adds_in_place", lambda *_: False)
    with FakeTensorMode(), torch.no_grad():
        pair = [torch.empty(n, D, dtype=torch.bfloat16) for n in (T, V)]
        target = torch.empty(T, dtype=torch.long)
        options = PassOptions(
            LogitTransform(), torch.bfloat16, workspace, True, False, True, True, (False,)
        )
        head = Head((pair[0],), (pair[1],), None, LogitTransform(), torch.bfloat16)
        with track_memory() as tracker:
            chunks = in_forward._Chunks(head, target, plan, options, [False, True, True])
            chunks.run(lambda found: found.logprob + found.logsumexp + found.mean_logit, None)
        given = sum(leaf.nbytes for leaf in (*pair, target))
        floor = sum(leaf.nbytes for leaf in pair)
    assert tracker.peak.total - given <= floor + workspace


def test_three_products_take_less_than_four() -> None:
    """Where logits have room: the model's own sum, on every GPU it knows."""
    for rates in cost.RATES:
        shape = rates, 8192, 128_256, 4096
        four = cost.four(*shape, 2, forward=(8192, 4096), backward=(8192, 4096))
        assert cost.three(*shape, rows=8192, sums_bytes=2) < four
