"""`fuse_causal_lm_loss` against the models' own losses: families, adapters, modes, errors."""

from __future__ import annotations

import copy
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import transformers
from memlint_runtime import fuse_causal_lm_loss, undo
from memlint_runtime.fake_memory import track_memory
from memlint_runtime.integrations import unwrap
from memlint_runtime.losses import defer_logits
from torch import Tensor, nn

from tests.runtime.float64 import in_float64, judge
from tests.runtime.losses.models import FAMILIES, SIZES, lora, tiny_batch, tiny_model
from tests.runtime.losses.plain import expected_of, step, worst
from tests.runtime.replicas import replicate

# peft asks models for a name that transformers is about to retire.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


def assert_same_training(model: Any, **options: Any) -> None:
    batch = tiny_batch()
    plain, truth = expected_of(model, batch, **options)
    with fuse_causal_lm_loss(model):
        fused = step(model, batch, **options)
    judge(fused, plain, truth)
    again, _ = step(model, batch, **options)
    assert torch.equal(again, plain[0])


def loss_of(model: Any, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The model's own: in float32, and in float64."""
    return model(**batch).loss, in_float64(lambda exact: exact(**batch).loss, model)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_trains_the_same(family: str) -> None:
    assert_same_training(tiny_model(family))


@pytest.mark.parametrize("items", [7, torch.tensor(7)])
def test_num_items_in_batch(items: Any) -> None:
    assert_same_training(tiny_model(), num_items_in_batch=items)


def test_shifted_labels_and_ignore_index() -> None:
    batch = tiny_batch()
    shifted = nn.functional.pad(batch["labels"], (0, 1), value=-100)[:, 1:]
    model = tiny_model()
    expected = expected_of(model, batch)
    with fuse_causal_lm_loss(model):
        judge(step(model, batch, shift_labels=shifted), *expected)
    model = tiny_model()
    with fuse_causal_lm_loss(model):
        moved = batch | {"labels": batch["labels"].masked_fill(batch["labels"] == -100, -7)}
        judge(step(model, moved, ignore_index=-7), *expected)


@pytest.mark.parametrize("backend", ["tiles", "torch"])
@pytest.mark.parametrize("items", [None, 0, 0.0, 7])
@pytest.mark.parametrize("room", [None, 8192])
def test_a_batch_without_labels_is_as_the_models_own(
    backend: Any, items: float | None, room: int | None
) -> None:
    """NaN, but for items of other batches; and no gradient: what is learned stays whole."""
    batch = tiny_batch()
    batch["labels"].fill_(-100)
    given = {} if items is None else {"num_items_in_batch": torch.tensor(items)}
    expected, _ = step(tiny_model(), batch, **given)
    model = tiny_model()
    if backend == "torch" and not hasattr(torch.nn.functional, "linear_cross_entropy"):
        pytest.skip("no such loss in this release")
    with fuse_causal_lm_loss(model, backend=backend, workspace_bytes=room):
        loss, grown = step(model, batch, **given)
    assert torch.equal(torch.as_tensor(loss).isnan(), torch.as_tensor(expected).isnan())
    assert bool(torch.as_tensor(loss).isnan()) is not bool(items)
    assert not any(gradient.any() for gradient in grown.values())


def test_logits_are_none_only_where_fused() -> None:
    model = tiny_model()
    batch = tiny_batch()
    plain = model(**batch).logits
    with fuse_causal_lm_loss(model):
        assert model(**batch).logits is None
        labels = batch.pop("labels")
        assert torch.equal(model(**batch).logits, plain)
        model.eval()
        assert model(**batch, labels=labels).logits is not None
        ids = batch["input_ids"][:1, :4]
        assert model.generate(ids, max_new_tokens=2, do_sample=False).shape[1] <= 6
    assert model(**batch, labels=labels).logits is not None
    with fuse_causal_lm_loss(model, fuse_evaluation=True):
        assert model(**batch, labels=labels).logits is None


def test_trainers_that_share_a_model_keep_its_logits_if_one_of_them_wants_them() -> None:
    model = tiny_model()
    batch = tiny_batch()
    fused = fuse_causal_lm_loss(model, fuse_evaluation=True)
    model.eval()
    assert model(**batch).logits is None
    assert fuse_causal_lm_loss(model) is fused
    assert model(**batch).logits is not None


def test_undo_restores_every_attribute() -> None:
    model = tiny_model()
    before = set(vars(model)), set(vars(model.get_output_embeddings()))
    fused = fuse_causal_lm_loss(model)
    assert fuse_causal_lm_loss(model) is fused
    with pytest.raises(ValueError, match="fused already, with other options"):
        fuse_causal_lm_loss(model, z_loss=1e-4)
    fused.undo()
    fused.undo()
    assert (set(vars(model)), set(vars(model.get_output_embeddings()))) == before


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_copy_of_the_model_is_fused_and_uses_its_own_weights(wrapped: bool) -> None:
    model: Any = tiny_model()
    if wrapped:
        model = lora(model, target_modules=["q_proj"])
    fused = fuse_causal_lm_loss(model)
    other, batch = copy.deepcopy(model), tiny_batch()
    assert torch.equal(other(**batch).loss, model(**batch).loss)
    assert other(**batch).logits is None
    nn.init.normal_(other.get_output_embeddings().weight)
    changed = other(**batch).loss
    assert not torch.isclose(changed, model(**batch).loss)
    fused.undo()
    assert model(**batch).logits is not None
    assert other(**batch).logits is None
    undo(unwrap(other))
    judge(changed, *loss_of(other, batch))


def test_a_copy_of_a_model_with_deferred_logits_uses_its_own_weights() -> None:
    model, batch = tiny_model(), tiny_batch()
    plain = model(**batch).logits
    truth = in_float64(lambda exact: exact(**batch).logits, model)
    defer_logits(model)
    other = copy.deepcopy(model)
    nn.init.zeros_(other.get_output_embeddings().weight)
    assert not other(**batch).logits.materialize().any()
    judge(model(**batch).logits.materialize(), plain, truth)


def test_what_is_put_over_the_patch_stays_when_it_is_undone() -> None:
    accelerate = pytest.importorskip("accelerate")
    # Its precision is one for the whole process: a trainer of another test may have set another.
    accelerate.state.AcceleratorState._reset_state()
    model, batch = tiny_model(), tiny_batch()
    fused = fuse_causal_lm_loss(model)
    prepared = accelerate.Accelerator(cpu=True, mixed_precision="bf16").prepare_model(model)
    assert prepared(**batch).logits is None
    fused.undo()
    outputs = prepared(**batch)
    assert outputs.logits is not None
    # Mixed precision is on as before.
    with torch.autocast("cpu", torch.bfloat16):
        expected = tiny_model()(**batch).loss
    assert torch.equal(outputs.loss, expected)
    accelerate.state.AcceleratorState._reset_state()


def test_patches_are_undone_in_any_order() -> None:
    model, batch = tiny_model(), tiny_batch()
    plain = model(**batch)
    names = set(vars(model)), set(vars(model.lm_head))
    for order in ((0, 1), (1, 0)):
        patches = [defer_logits(model), fuse_causal_lm_loss(model)]
        for index in order:
            patches[index].undo()
        assert (set(vars(model)), set(vars(model.lm_head))) == names
        assert torch.equal(model(**batch).logits, plain.logits)
    defer_logits(model)
    fuse_causal_lm_loss(model)
    undo(model)
    assert (set(vars(model)), set(vars(model.lm_head))) == names


def test_logits_may_be_deferred_again_around_a_pass() -> None:
    model, batch = tiny_model(), tiny_batch()
    names = set(vars(model)), set(vars(model.lm_head))
    outer = defer_logits(model)
    with defer_logits(model):
        assert not isinstance(model(**batch).logits, torch.Tensor)
    assert not isinstance(model(**batch).logits, torch.Tensor)
    with pytest.raises(ValueError, match="deferred already, with workspace_bytes=None"):
        defer_logits(model, workspace_bytes=1 << 20)
    outer.undo()
    assert isinstance(model(**batch).logits, torch.Tensor)
    assert (set(vars(model)), set(vars(model.lm_head))) == names


def test_resized_embeddings_and_a_later_adapter_bring_another_head() -> None:
    model, other = tiny_model(), tiny_model()
    fused = fuse_causal_lm_loss(model)
    batch = tiny_batch()
    for one in (model, other):
        torch.manual_seed(3)
        one.resize_token_embeddings(101, mean_resizing=False)
        nn.init.normal_(one.lm_head.weight, std=0.3)
    judge(step(model, batch), *expected_of(other, batch))
    adapted = lora(model, target_modules=["q_proj", "lm_head"])
    ours = step(adapted, batch)
    fused.undo()
    judge(ours, *expected_of(adapted, batch))


@pytest.mark.parametrize(
    "options",
    [
        {"target_modules": ["q_proj", "v_proj"]},
        {"target_modules": ["q_proj", "lm_head"]},
        {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
    ],
    ids=["frozen_head", "lora_head", "saved_head"],
)
def test_peft(options: dict[str, Any]) -> None:
    model = lora(tiny_model(), **options)
    assert_same_training(model)
    if "lm_head" in options["target_modules"]:
        with model.disable_adapter():
            expected = loss_of(model, tiny_batch())
            with fuse_causal_lm_loss(model):
                judge(model(**tiny_batch()).loss, *expected)


def test_trainable_tokens_of_a_tied_head() -> None:
    model = lora(tiny_model("qwen2_tied"), target_modules=["q_proj"], trainable_token_indices=[3])
    delta = next(p for name, p in model.named_parameters() if "trainable_tokens_delta" in name)
    nn.init.normal_(delta)
    assert_same_training(model)
    with model.disable_adapter(), torch.no_grad():
        expected = loss_of(model, tiny_batch())
        with fuse_causal_lm_loss(model):
            judge(model(**tiny_batch()).loss, *expected)


def test_frozen_head_costs_no_weight_gradient() -> None:
    peaks = {}
    batch = tiny_batch(8, 60)
    for trained in (True, False):
        model = tiny_model(vocab_size=20_000, hidden_size=32, head_dim=8)
        model.lm_head.weight.requires_grad_(trained)
        model.model.embed_tokens.weight.requires_grad_(False)
        with (
            fuse_causal_lm_loss(model, workspace_bytes=500_000),
            track_memory([model]) as tracker,
        ):
            step(model, batch)
        peaks[trained] = tracker.peak.total - tracker.peak.parameters
    assert peaks[True] - peaks[False] > 0.9 * 20_000 * 32 * 4
    assert peaks[False] < 20_000 * 32 * 4 < 8 * 60 * 20_000


def test_variants_reach_the_loss() -> None:
    model, batch = tiny_model(), tiny_batch()
    shifted = nn.functional.pad(batch["labels"], (0, 1), value=-100)[:, 1:].flatten()

    def plain(model: Any) -> Tensor:
        logits = model(**batch).logits.flatten(0, 1)
        counted = shifted != -100
        loss = nn.functional.cross_entropy(logits, shifted, label_smoothing=0.1)
        return loss + 1e-3 * logits.logsumexp(-1).square()[counted].mean()

    expected = plain(model), in_float64(plain, model)
    with fuse_causal_lm_loss(model, label_smoothing=0.1, z_loss=1e-3):
        loss = model(**batch).loss
    # PyTorch takes label smoothing's mean over all classes of counted tokens, as ours.
    judge(loss, *expected)


def test_bfloat16_autocast() -> None:
    model, batch = tiny_model(), tiny_batch()
    with torch.autocast("cpu", torch.bfloat16):
        plain = model(**batch).loss
        with fuse_causal_lm_loss(model):
            loss, grown = step(model, batch)
    assert worst(loss, plain) < 1e-2
    assert grown["lm_head.weight"].dtype == torch.float32


def test_compiles() -> None:
    model, batch = tiny_model(), tiny_batch()
    expected = expected_of(model, batch)
    with fuse_causal_lm_loss(model):
        loss, grown = step(torch.compile(model, backend="aot_eager"), batch)
    judge((loss, {n.removeprefix("_orig_mod."): g for n, g in grown.items()}), *expected)


def _in_threads(models: list[Any], batches: list[dict[str, Tensor]]) -> list[list[float]]:
    """The losses of each model with its batch, five times, all at once."""
    barrier = threading.Barrier(len(models))

    def losses(model: Any, batch: dict[str, Tensor]) -> list[float]:
        found = []
        for _ in range(5):
            barrier.wait(timeout=60)
            found.append(model(**batch).loss.item())
        return found

    with ThreadPoolExecutor(len(models)) as pool:
        return list(pool.map(losses, models, batches))


@pytest.mark.parametrize("replicas", [False, True])
def test_several_threads(replicas: bool) -> None:
    interval = sys.getswitchinterval()
    model, batches = tiny_model(), [tiny_batch(seed=seed) for seed in range(3)]
    expected = [[loss_of(model, batch)] * 5 for batch in batches]
    copies = {name: value * 1.0 for name, value in model.named_parameters()}
    with fuse_causal_lm_loss(model), warnings.catch_warnings():
        # Several steps are on their way to the loss before the first is there.
        warnings.simplefilter("error")
        models = [replicate(model, copies) if replicas else model for _ in batches]
        sys.setswitchinterval(1e-5)
        try:
            found = _in_threads(models, batches)
        finally:
            sys.setswitchinterval(interval)
    for mine, theirs in zip(found, expected, strict=True):
        judge(torch.tensor(mine), *map(torch.stack, zip(*theirs, strict=True)))


@pytest.mark.parametrize("install", [fuse_causal_lm_loss, defer_logits])
def test_a_replica_computes_with_its_own_weights(install: Any) -> None:
    model, batch = tiny_model(), tiny_batch()

    def halved() -> tuple[dict[str, Tensor], Any]:
        copies = {name: value * 0.5 for name, value in model.named_parameters()}
        return copies, replicate(model, copies)

    def read(outputs: Any) -> Tensor:
        scores: Tensor = outputs.loss if install is fuse_causal_lm_loss else outputs.logits.sum()
        return scores

    def trained(copies: dict[str, Tensor], replica: Any) -> Any:
        scores = read(replica(**batch))
        return scores, torch.autograd.grad(scores, list(copies.values()))

    expected = trained(*halved())
    exact = copy.deepcopy(model)
    with torch.no_grad():
        for weight in exact.parameters():
            weight.mul_(0.5)
    truth = in_float64(lambda m: trained(dict(m.named_parameters()), m), exact)
    with install(model):
        # Another head than the one that was patched: replicas have that of now.
        model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
        copies, replica = halved()
        found = trained(copies, replica)
        if install is fuse_causal_lm_loss:
            model.resize_token_embeddings(103)
            assert halved()[1](**batch).logits is None
    judge(found, expected, truth)
    assert "_replicate_for_data_parallel" not in vars(model)


class _FetchForBackward(torch.autograd.Function):
    """Hangs on a module's output and brings its weight back before its backward."""

    @staticmethod
    def forward(ctx: Any, fetch: Any, output: Tensor) -> Tensor:
        ctx.fetch = fetch
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        ctx.fetch()
        return None, gradient


@pytest.mark.parametrize("fuse_first", [True, False])
def test_weights_that_exist_only_around_the_heads_call(fuse_first: bool) -> None:
    # As ZeRO-3 does it: gathered by a pre-hook, released by a hook that also replaces the output
    # by one whose backward gathers again.
    model, batch = tiny_model(), tiny_batch()
    expected = expected_of(model, batch)
    head, handles, gathers = model.lm_head, [], []
    whole = head.weight.data

    def fetch(*_: Any) -> None:
        gathers.append(1)
        head.weight.data = whole

    def release(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        head.weight.data = torch.empty(0)
        return _FetchForBackward.apply(fetch, output)

    release.__module__ = "deepspeed.emulated"  # libraries that shard are known by their names
    head.weight.ds_shape = whole.shape
    head.weight.data = torch.empty(0)
    fused = fuse_causal_lm_loss(model) if fuse_first else None
    handles = [head.register_forward_pre_hook(fetch), head.register_forward_hook(release)]
    fused = fused or fuse_causal_lm_loss(model)
    found = step(model, batch)
    assert len(gathers) == 2  # once forward, once backward
    judge(found, *expected)
    for handle in handles:
        handle.remove()
    fused.undo()


VISION = {
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 8,
    "patch_size": 4,
}


def tiny_vision_model(kind: str = "Gemma3") -> Any:
    text = transformers.AutoConfig.for_model(
        {"Gemma3": "gemma3_text", "Llava": "llama", "AyaVision": "cohere"}[kind], **SIZES
    )
    text.logit_scale = 0.3  # which Aya Vision's own class does not apply
    options: dict[str, Any] = {"text_config": text.to_dict(), "vision_config": VISION}
    if kind == "Gemma3":
        options["mm_tokens_per_image"] = 4
    else:
        options["vision_config"] = {"model_type": "siglip_vision_model", **VISION}
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**options)
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(config)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.3)
    return model.train()


@pytest.mark.parametrize("kind", ["Gemma3", "Llava", "AyaVision"])
def test_text_batches_of_conditional_generation_models(kind: str) -> None:
    model = tiny_vision_model(kind)
    assert model.loss_type == "ForConditionalGeneration"
    assert_same_training(model)


def test_hooks_before_the_head_run_as_ever() -> None:
    model = tiny_model()
    model.lm_head.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 0.5,))
    assert_same_training(model)


@pytest.mark.parametrize("adapted", [False, True])
def test_what_the_loss_saves_is_not_offloaded_by_trl(
    adapted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    offloading = pytest.importorskip("trl.models.activation_offloading")
    sent: list[torch.Size] = []

    class Offload(torch.autograd.graph.saved_tensors_hooks):
        """TRL's own wants a GPU; which tensors reach it, its hooks on the head decide."""

        def __init__(self, **ignored: Any) -> None:
            super().__init__(self._pack, lambda saved: saved)

        @staticmethod
        def _pack(saved: Tensor) -> Tensor:
            sent.append(saved.shape)
            return saved

        def update_model_params(self, model: Any) -> None:
            pass

    monkeypatch.setattr(offloading, "OffloadActivations", Offload)
    model = lora(tiny_model(), target_modules=["lm_head"]) if adapted else tiny_model()
    context = offloading.get_act_offloading_ctx_manager(model)
    assert_same_training(model)
    with fuse_causal_lm_loss(model), context:
        loss = model(**tiny_batch()).loss
        assert sent
        assert not any(SIZES["vocab_size"] in shape for shape in sent)
    loss.backward()


@pytest.mark.parametrize("tied", [False, True])
def test_hooks_of_accelerate_run_as_ever(tied: bool) -> None:
    hooks = pytest.importorskip("accelerate.hooks")

    class Halve(hooks.ModelHook):  # type: ignore[name-defined, misc]
        calls = 0

        def pre_forward(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            Halve.calls += 1
            return (args[0] * 0.5, *args[1:]), kwargs

    model = tiny_model("qwen2_tied" if tied else "llama")
    hooks.add_hook_to_module(model.lm_head, Halve())
    assert_same_training(model)
    assert Halve.calls == 4  # in float64, plain, fused, plain
    hooks.remove_hook_from_module(model.lm_head)
    assert "_old_forward" not in vars(model.lm_head)
    assert_same_training(model)


def test_a_loss_of_the_users_own_is_left_alone() -> None:
    def focal(logits: Tensor, labels: Tensor, vocab_size: int, **_: Any) -> Tensor:
        return logits.float().square().mean()

    model, batch = tiny_model(), tiny_batch()
    model.loss_function = focal
    with pytest.raises(ValueError, match=r"loss_function was set to .*focal"):
        fuse_causal_lm_loss(model)
    model = tiny_model()
    with fuse_causal_lm_loss(model):
        model.loss_function = focal
        with pytest.raises(ValueError, match="set after fuse_causal_lm_loss"):
            model(**batch)
    model = tiny_model()
    model.loss_type = "ForTokenClassification"
    with pytest.raises(ValueError, match="has ForTokenClassification"):
        fuse_causal_lm_loss(model)


def test_steps_that_go_past_the_fused_loss_warn_once() -> None:
    model, batch = tiny_model(), tiny_batch()
    labels = batch.pop("labels")
    with fuse_causal_lm_loss(model):
        model(**batch)
        with pytest.warns(UserWarning, match="do not reach the model's own loss"):
            model(**batch)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model(**batch)
    with fuse_causal_lm_loss(model), warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            model(**batch, labels=labels)
            with torch.no_grad():
                model(**batch)
        assert not model.model._forward_pre_hooks
