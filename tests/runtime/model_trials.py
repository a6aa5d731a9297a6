"""Trials of the runtime on one model: every token and every gradient, held to the plain answer.

Each trial gives errors, relative: of each token (its logits, or its log-probability) and of the
gradient of each parameter. The greatest counts, since a leak into few tokens trains wrongly too.
Rows and documents have the shapes in which leaks show: several, of different lengths, one shorter
than a convolution, others longer than the sliding window, most tokens behind the first.

Noise, as the plain float32 model's documents against its own in float64, of 15 types: 5e-7 to 2e-6
in the worst token and gradient of 13; of Qwen3-Next, whose rule divides by norms, 4e-6 and 1e-5; of
HRM, which runs its layers again and again, 2e-5 and 3e-5.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from memlint_runtime import fuse_causal_lm_loss, use_variable_length_attention
from memlint_runtime.shared_prompt import Sharing, shared_prompt_logprobs
from memlint_runtime.trl.forward import TokenCount, share_prompts
from torch import Tensor
from trl.trainer.utils import add_fused_lm_head

from tests.runtime.tiny_models import ids_of

__all__ = [
    "DOCUMENTS",
    "TRIALS",
    "Errors",
    "NotTriedError",
    "Outcome",
    "errors_between",
    "plain_documents",
]

# The second is shorter than a convolution's kernel; the later ones are longer than the window.
DOCUMENTS = (7, 2, 12, 9)
# Tokens of each row's prompt, by group, and of each row's completion.
PROMPTS = (8, 8, 5, 5)
COMPLETIONS = (7, 3, 6, 7)
# A gradient that is zero but for rounding is compared with this share of all gradients.
_LEAST_SHARE = 0.01


class Errors(NamedTuple):
    """tokens: the relative error of each, `[T]`. gradients: of each parameter, by its name."""

    tokens: Tensor
    gradients: dict[str, float]

    def within(self, tolerated: float) -> bool:
        return not (self.worst_token > tolerated or self.worst_gradient > tolerated)

    @property
    def worst_token(self) -> float:
        return float(self.tokens.nan_to_num(float("inf")).max())

    @property
    def worst_gradient(self) -> float:
        return max(self.gradients.values(), default=0.0)

    def __str__(self) -> str:
        name = max(self.gradients, key=lambda name: self.gradients[name], default="")
        return f"tokens {self.worst_token:.0e}, gradients {self.worst_gradient:.0e} ({name})"


class NotTriedError(Exception):
    """The model has no such feature, or wants inputs that are not made here."""


class Outcome(NamedTuple):
    """values: `[T, V]`, logits or log-probabilities. gradients: of each parameter, by its name."""

    values: Tensor
    gradients: dict[str, Tensor]


def _outcome(model: Any, values_TV: Tensor) -> Outcome:
    """Values, and gradients of a sum in which every one of them has another weight."""
    random = torch.Generator().manual_seed(2)
    weights = torch.randn(values_TV.shape, generator=random).to(values_TV.dtype)
    model.zero_grad()
    (values_TV * weights).sum().backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return Outcome(values_TV.detach(), gradients)


def errors_between(found: Outcome, wanted: Outcome, *, least: float = 1e-9) -> Errors:
    """least: the smallest size of a token's values that its error is divided by."""
    a, b = found.values.double(), wanted.values.double()
    tokens = (a - b).norm(dim=-1) / b.norm(dim=-1).clamp(min=least)
    whole = sum(float(g.double().norm()) ** 2 for g in wanted.gradients.values()) ** 0.5
    gradients = {}
    for name in found.gradients.keys() | wanted.gradients.keys():
        # A parameter without a gradient has none that differs from zero.
        x, y = (side.get(name, torch.zeros(())) for side in (found.gradients, wanted.gradients))
        size = max(float(y.double().norm()), _LEAST_SHARE * whole, 1e-30)
        error = float((x.double() - y.double()).norm()) / size
        gradients[name] = error if error == error else float("inf")
    return Errors(tokens, gradients)


def fused_loss(model: Any) -> Errors:
    ids = ids_of(2, 12)
    labels = ids.clone()
    labels[0, :3] = -100
    wanted = _outcome(model, model(input_ids=ids, labels=labels, use_cache=False).loss.view(1, 1))
    with fuse_causal_lm_loss(model):
        loss = model(input_ids=ids, labels=labels, use_cache=False).loss
        found = _outcome(model, loss.view(1, 1))
    return errors_between(found, wanted)


def plain_documents(model: Any) -> Outcome:
    """Each document alone."""
    documents = ids_of(1, sum(DOCUMENTS)).split(DOCUMENTS, 1)
    logits = [model(input_ids=ids, use_cache=False).logits[0] for ids in documents]
    return _outcome(model, torch.cat(logits))


def packing(model: Any) -> Errors:
    wanted = plain_documents(model)
    use_variable_length_attention(model)
    ids = ids_of(1, sum(DOCUMENTS))
    places = torch.cat([torch.arange(length) for length in DOCUMENTS])
    packed = model(input_ids=ids, position_ids=places[None], use_cache=False).logits[0]
    return errors_between(_outcome(model, packed), wanted)


def shared_prompt(model: Any) -> Errors:
    """Two groups of two rows, prompts padded on the left and completions on the right."""
    texts = ids_of(2, 8).repeat_interleave(2, 0)
    prompt_mask = torch.arange(8) >= 8 - torch.tensor(PROMPTS)[:, None]
    completion = ids_of(4, 7)
    mask = torch.arange(7) < torch.tensor(COMPLETIONS)[:, None]
    scored = shared_prompt_logprobs(
        model,
        texts * prompt_mask,
        prompt_mask.long(),
        completion * mask,
        mask.long(),
        sharing=Sharing(min_saved_tokens=1),
    )
    found = _outcome(model, scored[mask][:, None])
    wanted = []
    for row, (prompt, length) in enumerate(zip(PROMPTS, COMPLETIONS, strict=True)):
        ids = torch.cat([texts[row, 8 - prompt :], completion[row, :length]])[None]
        try:
            logits = model(input_ids=ids, use_cache=False).logits[0, prompt - 1 : -1]
        except AttributeError as error:
            raise NotTriedError(_line(error)) from error
        wanted.append(_logprobs(logits, ids[0, prompt:]))
    return errors_between(found, _outcome(model, torch.cat(wanted)[:, None]), least=1.0)


def _logprobs(logits_TV: Tensor, ids_T: Tensor) -> Tensor:
    exact = logits_TV if logits_TV.dtype == torch.float64 else logits_TV.float()
    return exact.log_softmax(-1).gather(-1, ids_T[:, None])[:, 0]


def images(model: Any) -> Errors:
    """Two groups, an image in each prompt, by TRL's fused scoring."""
    batch = _with_images(model)
    add_fused_lm_head(model)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    labels[:, : -max(COMPLETIONS)] = -100
    scored = labels[:, 1:] != -100

    def score() -> Outcome:
        output = model(**batch, labels=labels.clone(), fused_lm_head=True)
        return _outcome(model, output.log_probs[scored][:, None])

    try:
        wanted = score()
    except Exception as error:
        raise NotTriedError(_line(error)) from error
    share_prompts(model, Sharing(min_saved_tokens=1), count := TokenCount())
    found, warning = _with_warnings(score)
    if not count.forwarded:
        raise ValueError(warning)
    return errors_between(found, wanted, least=1.0)


def _with_warnings(call: Callable[[], Outcome]) -> tuple[Outcome, str]:
    """The result of a call, and what the runtime logs in it."""
    records: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record.getMessage())

    logger = logging.getLogger("memlint_runtime.trl")
    logger.addHandler(handler := Handler(logging.WARNING))
    try:
        return call(), " ".join(records)
    finally:
        logger.removeHandler(handler)


def _with_images(model: Any) -> dict[str, Tensor]:
    """Two prompts, each twice and with an image of its own, which has as many tokens as the model
    makes of it."""
    config = model.config
    token = getattr(config, "image_token_id", None) or getattr(config, "image_token_index", None)
    tower = getattr(model.base_model, "get_image_features", None)
    if token is None or tower is None or not hasattr(config, "vision_config"):
        raise NotTriedError("it takes no images")
    vision = config.vision_config
    sides = (getattr(vision, "image_size", 16), getattr(vision, "patch_size", 4))
    side, patch = (one[0] if isinstance(one, list | tuple) else one for one in sides)
    names = inspect.signature(model.base_model.forward).parameters
    random = torch.Generator().manual_seed(3)
    size: Sequence[int] = (1, 3, side or 16, side or 16)
    grid: dict[str, Tensor] = {}
    if "image_grid_thw" in names:
        size = (16, 3 * getattr(vision, "temporal_patch_size", 1) * patch * patch)
        grid["image_grid_thw"] = torch.tensor([[1, 4, 4]])
    pictures = [torch.randn(size, generator=random).to(model.dtype) for _ in range(2)]
    try:
        with torch.no_grad():
            made = tower(pixel_values=pictures[0], **grid, return_dict=True).pooler_output
    except Exception as error:
        raise NotTriedError(_line(error)) from error
    count = len(made[0]) if not isinstance(made, Tensor) or made.dim() > 2 else len(made)
    texts = ids_of(2, 12).repeat_interleave(2, 0)
    mask = torch.arange(max(COMPLETIONS)) < torch.tensor(COMPLETIONS)[:, None]
    completion = ids_of(4, max(COMPLETIONS)) * mask
    parts = [texts[:, :4], torch.full((4, count), token), texts[:, 4:], completion]
    batch = {name: value.expand(4, -1) for name, value in grid.items()}
    batch["pixel_values"] = torch.cat([pictures[row // 2] for row in range(4)])
    batch["input_ids"] = torch.cat(parts, 1)
    batch["attention_mask"] = torch.cat([torch.ones(4, 12 + count).long(), mask.long()], 1)
    for name in ("mm_token_type_ids", "token_type_ids"):
        if name in names:
            batch[name] = (batch["input_ids"] == token).int()
    return batch


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


TRIALS: dict[str, Callable[[Any], Errors]] = {
    "fused_loss": fused_loss,
    "packing": packing,
    "shared_prompt": shared_prompt,
    "images": images,
}
