"""`fuse_causal_lm_loss` against the models' own losses: families, adapters, modes, errors."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from memlint_runtime import fuse_causal_lm_loss
from memlint_runtime.fake_memory import track_memory
from memlint_runtime.losses import defer_logits, liger
from torch import Tensor, nn
from transformers import PreTrainedModel

from tests.runtime.losses.models import FAMILIES, tiny_batch, tiny_model
from tests.runtime.losses.plain import worst

TOLERANCE = 1e-5
# peft asks models for a name that transformers is about to retire.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


def step(model: Any, batch: dict[str, Tensor], **options: Any) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    outputs = model(**batch, **options)
    outputs.loss.backward()
    grown = {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    return outputs.loss.detach(), grown


def assert_same_training(model: Any, **options: Any) -> None:
    batch = tiny_batch()
    plain_loss, plain = step(model, batch, **options)
    with fuse_causal_lm_loss(model):
        fused_loss, fused = step(model, batch, **options)
    assert worst(fused_loss, plain_loss) < TOLERANCE
    assert fused.keys() == plain.keys()
    assert max(worst(fused[name], plain[name]) for name in plain) < 5 * TOLERANCE
    again, _ = step(model, batch, **options)
    assert torch.equal(again, plain_loss)


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
    plain, _ = step(model, batch)
    with fuse_causal_lm_loss(model):
        ours, _ = step(model, batch, shift_labels=shifted)
    assert worst(ours, plain) < TOLERANCE
    model = tiny_model()
    with fuse_causal_lm_loss(model):
        moved = batch | {"labels": batch["labels"].masked_fill(batch["labels"] == -100, -7)}
        ours, _ = step(model, moved, ignore_index=-7)
    assert worst(ours, plain) < TOLERANCE


def test_all_masked_batch_is_zero() -> None:
    model = tiny_model()
    batch = tiny_batch()
    batch["labels"].fill_(-100)
    with fuse_causal_lm_loss(model):
        loss, grown = step(model, batch)
    assert loss == 0
    assert not any(gradient.any() for gradient in grown.values())


def test_logits_are_none_only_where_fused() -> None:
    model = tiny_model()
    batch = tiny_batch()
    plain = model(**batch).logits
    with fuse_causal_lm_loss(model, fuse_evaluation=False):
        assert model(**batch).logits is None
        labels = batch.pop("labels")
        assert torch.equal(model(**batch).logits, plain)
        model.eval()
        assert model(**batch, labels=labels).logits is not None
        ids = batch["input_ids"][:1, :4]
        assert model.generate(ids, max_new_tokens=2, do_sample=False).shape[1] <= 6
    assert model(**batch, labels=labels).logits is not None


def test_undo_restores_every_attribute() -> None:
    model = tiny_model()
    before = set(vars(model)), set(vars(model.get_output_embeddings()))
    fused = fuse_causal_lm_loss(model)
    with pytest.raises(ValueError, match="fused already"):
        fuse_causal_lm_loss(model)
    fused.undo()
    fused.undo()
    assert (set(vars(model)), set(vars(model.get_output_embeddings()))) == before


@pytest.mark.parametrize("install", [fuse_causal_lm_loss, defer_logits])
def test_a_copy_is_refused_while_it_would_use_the_originals_weights(install: Any) -> None:
    model = tiny_model()
    installed = install(model)
    for copied in (model, model.get_output_embeddings()):
        with pytest.raises(ValueError, match="still use this model's weights"):
            copy.deepcopy(copied)
    installed.undo()
    other = copy.deepcopy(model)
    nn.init.zeros_(other.get_output_embeddings().weight)
    batch = tiny_batch()
    assert not torch.equal(other(**batch).loss, model(**batch).loss)


def lora(model: PreTrainedModel, **options: Any) -> Any:
    peft = pytest.importorskip("peft")
    torch.manual_seed(1)
    config = peft.LoraConfig(r=3, lora_alpha=7, task_type="CAUSAL_LM", **options)
    wrapped = peft.get_peft_model(model, config)
    for name, parameter in wrapped.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, std=0.3)
    return wrapped.train()


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
            plain = model(**tiny_batch()).loss
            with fuse_causal_lm_loss(model):
                assert worst(model(**tiny_batch()).loss, plain) < TOLERANCE


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
    outputs = model(**batch)
    shifted = nn.functional.pad(batch["labels"], (0, 1), value=-100)[:, 1:].flatten()
    logits = outputs.logits.flatten(0, 1)
    counted = shifted != -100
    plain = nn.functional.cross_entropy(logits, shifted, label_smoothing=0.1)
    plain = plain + 1e-3 * logits.logsumexp(-1).square()[counted].mean()
    with fuse_causal_lm_loss(model, label_smoothing=0.1, z_loss=1e-3):
        loss = model(**batch).loss
    # PyTorch takes label smoothing's mean over all classes of counted tokens, as ours.
    assert worst(loss, plain) < TOLERANCE


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
    plain, expected = step(model, batch)
    with fuse_causal_lm_loss(model):
        loss, grown = step(torch.compile(model, backend="aot_eager"), batch)
    assert worst(loss, plain) < TOLERANCE
    assert worst(grown["_orig_mod.lm_head.weight"], expected["lm_head.weight"]) < TOLERANCE


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
    _, expected = step(model, batch)
    head, handles, gathers = model.lm_head, [], []
    whole = head.weight.data

    def fetch(*_: Any) -> None:
        gathers.append(1)
        head.weight.data = whole

    def release(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        head.weight.data = torch.empty(0)
        return _FetchForBackward.apply(fetch, output)

    fused = fuse_causal_lm_loss(model) if fuse_first else None
    handles = [head.register_forward_pre_hook(fetch), head.register_forward_hook(release)]
    fused = fused or fuse_causal_lm_loss(model)
    _, grown = step(model, batch)
    assert len(gathers) == 2  # once forward, once backward
    assert max(worst(grown[name], expected[name]) for name in expected) < 5e-5
    for handle in handles:
        handle.remove()
    fused.undo()


class _Odd(nn.Module):
    """A head module that is not a matmul."""


def test_says_what_it_cannot_fuse() -> None:
    with pytest.raises(ValueError, match="wants a transformers causal LM"):
        fuse_causal_lm_loss(nn.Linear(2, 2))
    model = tiny_model()
    model.lm_head = _Odd()
    with pytest.raises(ValueError, match="got _Odd"):
        fuse_causal_lm_loss(model)
    model = tiny_model()
    with pytest.raises(ValueError, match="backend is"):
        fuse_causal_lm_loss(model, backend="cut")  # type: ignore[arg-type]
    with fuse_causal_lm_loss(model), pytest.raises(ValueError, match="logits_to_keep"):
        model(**tiny_batch(), logits_to_keep=2)
    dora = lora(tiny_model(), target_modules=["lm_head"], use_dora=True)
    with pytest.raises(ValueError, match="DoRA"):
        fuse_causal_lm_loss(dora)


def test_unknown_change_of_the_logits_is_noticed() -> None:
    model = tiny_model("granite_scaled")
    with fuse_causal_lm_loss(model):
        model.config.logits_scaling = 5.0
        with pytest.raises(ValueError, match="changes its logits in a way"):
            model(**tiny_batch())


def test_liger_backend_is_refused_under_saved_tensor_hooks() -> None:
    pytest.importorskip("liger_kernel")
    model = tiny_model()
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, lambda saved: saved)
    with (
        fuse_causal_lm_loss(model, backend="liger"),
        hooks,
        pytest.raises(ValueError, match="activation offloading"),
    ):
        model(**tiny_batch())
    # Ours is not in the way of such hooks.
    with fuse_causal_lm_loss(model), hooks:
        model(**tiny_batch()).loss.backward()


def test_liger_cross_entropy_is_refused_before_offloading(monkeypatch: pytest.MonkeyPatch) -> None:
    functional = pytest.importorskip("liger_kernel.transformers.functional")
    liger.refuse_in_place_loss()
    monkeypatch.setattr(nn.functional, "cross_entropy", functional.liger_cross_entropy)
    with pytest.raises(ValueError, match="overwrites the logits in place"):
        liger.refuse_in_place_loss()


def test_ligers_own_forward_is_refused() -> None:
    patches = pytest.importorskip("liger_kernel.transformers.monkey_patch")
    model = tiny_model()
    patches.apply_liger_kernel_to_llama(
        rope=False,
        cross_entropy=False,
        fused_linear_cross_entropy=True,
        rms_norm=False,
        swiglu=False,
        model=model,
    )
    with pytest.raises(ValueError, match="liger-kernel has replaced the model's forward"):
        fuse_causal_lm_loss(model)
