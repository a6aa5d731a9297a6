"""What `fuse_causal_lm_loss` refuses, and says why."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from memlint_runtime import fuse_causal_lm_loss
from memlint_runtime.losses import defer_logits
from torch import Tensor, nn

from tests.runtime.losses.models import lora, tiny_batch, tiny_model

# peft asks models for a name that transformers is about to retire.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


@pytest.mark.parametrize("install", [fuse_causal_lm_loss, defer_logits])
def test_copies_of_the_head_and_pickles_are_refused(install: Any, tmp_path: Path) -> None:
    model = tiny_model()
    before = model.state_dict().keys()
    with install(model):
        with pytest.raises(ValueError, match="a copy of a part would still use the whole model"):
            copy.deepcopy(model.get_output_embeddings())
        with pytest.raises(ValueError, match=r"cannot be pickled: save its state_dict"):
            pickle.dumps(model)
        model.save_pretrained(tmp_path)
        assert model.state_dict().keys() == before
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(again(**tiny_batch()).logits, model.eval()(**tiny_batch()).logits)


@pytest.mark.parametrize("targets", [["lm_head"], ["q_proj", "lm_head"]])
def test_an_adapter_for_each_row_is_not_folded_into_the_head(targets: list[str]) -> None:
    """PEFT's `adapter_names`; where they do not reach the head, all is as ever."""
    model, batch = lora(tiny_model(), target_modules=targets).eval(), tiny_batch()
    batch["adapter_names"] = ["default", "__base__", "default"]  # type: ignore[assignment]
    with torch.no_grad():
        plain = model(**batch)
        with (
            fuse_causal_lm_loss(model, fuse_evaluation=True),
            pytest.raises(ValueError, match=r"more than hidden states \(adapter_names\)"),
        ):
            model(**batch)
        with defer_logits(model):
            assert torch.equal(model(**batch).logits, plain.logits)
        model = lora(tiny_model(), target_modules=["q_proj"]).eval()
        expected = model(**batch).loss
        with fuse_causal_lm_loss(model, fuse_evaluation=True):
            torch.testing.assert_close(model(**batch).loss, expected)


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


class _Scaled(nn.Linear):
    def forward(self, hidden: Tensor) -> Tensor:
        return super().forward(hidden * 0.5)


def test_a_head_that_is_more_than_a_matmul_is_refused() -> None:
    model = tiny_model()
    model.lm_head = _Scaled(16, 97, bias=False)
    with pytest.raises(ValueError, match=r"a _Scaled whose forward is not nn.Linear's"):
        fuse_causal_lm_loss(model)
    model = tiny_model()
    model.lm_head.forward = lambda hidden: 2 * nn.Linear.forward(model.lm_head, hidden)
    for install in (fuse_causal_lm_loss, defer_logits):
        with pytest.raises(ValueError, match=r"forward is not nn.Linear's"):
            install(model)
    biased = lora(tiny_model("phi_bias"), target_modules=["lm_head"], lora_bias=True)
    with pytest.raises(ValueError, match="bias in its lora_B"):
        fuse_causal_lm_loss(biased)


def test_hooks_that_expect_logits_are_refused() -> None:
    def mask_vocabulary(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return output.masked_fill(torch.arange(97) > 90, -1e9)

    model = tiny_model()
    handle = model.lm_head.register_forward_hook(mask_vocabulary)
    with pytest.raises(ValueError, match=r"a hook of tests.runtime.losses.test_causal_lm_refusals"):
        fuse_causal_lm_loss(model)
    handle.remove()
    with fuse_causal_lm_loss(model):
        model.lm_head.register_forward_hook(mask_vocabulary)
        with pytest.raises(ValueError, match="expects logits"):
            model(**tiny_batch())
    model = lora(tiny_model(), target_modules=["lm_head"])
    model.get_output_embeddings().base_layer.register_forward_hook(mask_vocabulary)
    with pytest.raises(ValueError, match="expects logits"):
        fuse_causal_lm_loss(model)


def test_gradients_of_gradients_raise() -> None:
    model, batch = tiny_model(), tiny_batch()
    with fuse_causal_lm_loss(model):
        loss = model(**batch).loss
        with pytest.raises(RuntimeError, match="no second derivative"):
            torch.autograd.grad(loss, [model.lm_head.weight], create_graph=True)


def test_unknown_change_of_the_logits_is_noticed() -> None:
    model = tiny_model("granite_scaled")
    with fuse_causal_lm_loss(model):
        model.config.logits_scaling = 5.0
        with pytest.raises(ValueError, match="changes its logits in a way"):
            model(**tiny_batch())


def test_liger_backend_is_refused_under_saved_tensor_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("liger_kernel")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match="this machine has no GPU"):
        fuse_causal_lm_loss(tiny_model(), backend="liger")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
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
