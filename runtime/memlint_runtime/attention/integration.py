"""Documents kept apart in any transformers decoder, by one call on the model.

What: `use_variable_length_attention(model)` selects an attention implementation that computes each
document by itself, and adds a hook that finds the documents of each batch once, before the trunk.
Why: stock sdpa separates packed documents by a T x T mask, which costs memory and the fast kernels;
and not even that when a cache is built or a mask of ones is passed: then documents silently
attend to each other. The hook closes both traps.
Cost: one pass over `position_ids` per batch, none when the batch carries `cu_seq_lens_q` and
`max_length_q`. Attention dropout is refused.

How it reaches the layers: transformers passes extra keywords of the trunk's forward on to the
attention function; an attention call without them is an error, not a mixture. The hook also hands
down an empty 4D mask, which transformers passes through untouched, so that none is built. Forward
passes with a given cache (generation) and with a 4D mask of the caller run as on sdpa.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from memlint_runtime.attention.documents import (
    Documents,
    documents_of_lengths,
    documents_of_rows,
    find_documents,
    positions_of,
)
from memlint_runtime.attention.engine import SharedPlans, attend_documents
from memlint_runtime.attention.kernels.dense import attend_dense
from memlint_runtime.attention.probe import hidden_states_alone, reason_by_numbers
from memlint_runtime.attention.refusals import (
    reason_to_refuse,
    require_within_window,
    window_in_mask_alone,
)
from memlint_runtime.attention.unpadding import PaddedShape, repad_output, unpad
from memlint_runtime.integrations import Patch
from memlint_runtime.integrations.modes import refuse_context_parallelism
from memlint_runtime.recurrent import (
    SEGMENTS,
    RowSegments,
    SegmentedForward,
    document_plan,
    find_state_layers,
)

ATTENTION_NAME = "memlint_variable_length"

# Inputs of a model that are no text.
_SEEN = re.compile(r"pixel_values|image_(?!token)|video_(?!token)|input_features|audio_(?!token)")

# Marks a trunk on which the hook is installed, by how it treats padding.
_INSTALLED = "_memlint_variable_length"

_M = TypeVar("_M", bound=torch.nn.Module)


def use_variable_length_attention(model: _M, *, remove_padding: bool = False) -> _M:
    """Make ``model`` compute attention document by document, without a T x T mask; returns it.

    `memlint_runtime.undo(model)` puts the attention back that it had.

    model: a transformers decoder, or a PEFT model around one. Documents are what `cu_seq_lens_q`
        says, else what `position_ids` that restart say, else rows without their padding.
    remove_padding: also take padding out of padded batches before the trunk and put it back into
        the hidden states behind it, for trainers that only collate padded batches.

    ValueError for models whose layers mix documents by other means than attention; and, in the
    forward pass, for documents longer than a sliding window that the model has in its mask alone,
    and within torch's `context_parallel`.
    """
    transformer: Any = model
    if callable(unwrap := getattr(model, "get_base_model", None)):
        transformer = unwrap()
    if not isinstance(transformer, PreTrainedModel):
        raise ValueError(
            f"use_variable_length_attention takes a transformers model, got "
            f"{type(model).__name__}. Call it before wrapping the model for parallel training."
        )
    if reason := reason_to_refuse(transformer):
        raise ValueError(
            f"{type(transformer).__name__} cannot keep packed documents apart: {reason}. "
            f"Train it on padded batches."
        )
    AttentionInterface.register(ATTENTION_NAME, variable_length_attention)
    AttentionMaskInterface.register(ATTENTION_NAME, sdpa_mask)
    trunk = transformer.base_model
    if (installed := getattr(trunk, _INSTALLED, None)) is not None:
        if installed != remove_padding:
            raise ValueError(
                f"this model has variable-length attention with remove_padding={installed}; it "
                f"cannot be changed to {remove_padding}. undo(model) it first."
            )
        _select(transformer, ATTENTION_NAME)
        return model
    alone = hidden_states_alone(transformer)
    patch = Patch(transformer, "the model attends by document")
    former = transformer.config.get_text_config()._attn_implementation
    _select(transformer, ATTENTION_NAME)
    patch.on_undo(partial(_select, transformer, former))
    _install(trunk, remove_padding, window_in_mask_alone(transformer), patch)
    if reason := reason_by_numbers(transformer, alone):
        patch.undo()
        raise ValueError(
            f"{type(transformer).__name__} cannot keep packed documents apart: {reason}. "
            f"Train it on padded batches."
        )
    return model


def _select(model: PreTrainedModel, name: str) -> None:
    """This attention for the layers that read tokens; towers for images keep theirs."""
    text = model.config.get_text_config()
    parts = [part for part in model.config.sub_configs if getattr(model.config, part, None) is text]
    model.set_attn_implementation({parts[0]: name} if parts else name)


def _install(
    trunk: torch.nn.Module, remove_padding: bool, mask_window: int | None, patch: Patch
) -> None:
    patch.replace(trunk, _INSTALLED, remove_padding)
    names = tuple(inspect.signature(trunk.forward).parameters)
    states = find_state_layers(trunk).modules
    for module in states:
        patch.replace(module, "forward", SegmentedForward(module))
    hook = partial(_describe_documents, names, remove_padding, mask_window, bool(states))
    patch.on_undo(trunk.register_forward_pre_hook(hook, with_kwargs=True).remove)
    if states:
        reached = partial(_require_all_reached, frozenset(states))
        patch.on_undo(trunk.register_forward_hook(reached, with_kwargs=True).remove)
    if remove_padding:
        patch.on_undo(trunk.register_forward_hook(_repad, with_kwargs=True).remove)


def _describe_documents(
    names: tuple[str, ...],
    remove_padding: bool,
    mask_window: int | None,
    has_states: bool,
    trunk: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Forward pre-hook: documents of the batch as keywords for the attention function."""
    config: Any = trunk.config
    if config.get_text_config()._attn_implementation != ATTENTION_NAME:
        # Another attention was selected since, which finds documents, or does not, by itself.
        return args, kwargs
    refuse_context_parallelism("variable-length attention")
    inputs = dict(zip(names, args, strict=False)) | kwargs
    given = inputs.get("cu_seq_lens_q") is not None or "document_lengths" in inputs
    _refuse_unreadable(inputs, given=given)
    if _attends_to_whole_rows(inputs):
        return (), inputs | {"whole_rows": True}
    tokens = inputs[_given(inputs)]
    rows, slots = tokens.shape[:2]
    documents = _documents_of(inputs, rows, slots, tokens.device)
    require_within_window(trunk, mask_window, documents.max_length)
    shape = None
    if documents.token_indices is not None:
        shape = PaddedShape(documents.token_indices, rows, slots)
    if given and inputs.get("position_ids") is None:
        inputs["position_ids"] = positions_of(documents, rows * slots).view(rows, slots)
    if documents.lengths is None or (len(documents.lengths) > rows and shape is None):
        # A cache would keep the row as one document.
        inputs["use_cache"] = False
    # A trunk takes no row of no tokens: where all is padding, it stays.
    if shape is not None and remove_padding and shape.indices.numel():
        _unpad_inputs(inputs, shape)
        documents = documents._replace(token_indices=None)
    if has_states:
        inputs[SEGMENTS] = _segments(documents, rows * slots)
    inputs["attention_mask"] = tokens.new_empty(0, 0, 0, 0, dtype=torch.bool)
    inputs["cu_seq_lens_q"] = inputs["cu_seq_lens_k"] = documents.cu_seqlens
    inputs["max_length_q"] = inputs["max_length_k"] = documents.max_length
    # Kernels of a GPU do without, and a compiled layer would be compiled for each batch's.
    inputs["document_lengths"] = None if tokens.is_cuda else documents.lengths
    inputs["token_indices"] = documents.token_indices
    inputs["attention_plans"] = {}
    inputs["whole_rows"] = False
    return (), inputs


def _segments(documents: Documents, slots: int) -> RowSegments:
    """The documents as rows of their own, for layers that carry a state along the row."""
    lengths = documents.lengths
    if lengths is None:
        lengths = tuple(documents.cu_seqlens.diff().tolist())
    places = documents.token_indices
    if places is not None:
        places = places.cpu()
    # Documents begin anew: nothing is continued.
    return RowSegments(lambda continued: document_plan(lengths, places, slots))


def _require_all_reached(
    states: frozenset[torch.nn.Module],
    trunk: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    output: Any,
) -> None:
    """Forward hook. Raises ValueError where a layer with a state was not told of the documents."""
    segments: RowSegments | None = kwargs.get(SEGMENTS)
    if segments is not None and not states <= segments.reached:
        missed = next(iter(states - segments.reached))
        raise ValueError(
            f"{type(missed).__name__} was not told where documents begin: its model does not pass "
            f"keywords of the trunk's forward on to it, and documents would leak into each other. "
            f"Train it on padded batches."
        )


def _has_own_mask(inputs: dict[str, Any]) -> bool:
    """True if the mask is something else than a mark on each token."""
    mask = inputs.get("attention_mask")
    return mask is not None and not (isinstance(mask, Tensor) and mask.ndim == 2)


def _attends_to_whole_rows(inputs: dict[str, Any]) -> bool:
    return _has_own_mask(inputs) or inputs.get("past_key_values") is not None


def _given(inputs: dict[str, Any]) -> str:
    """The batch's tokens or, where it has none, their embeddings."""
    return "inputs_embeds" if inputs.get("input_ids") is None else "input_ids"


def _refuse_unreadable(inputs: dict[str, Any], *, given: bool) -> None:
    """Raises ValueError for images and audio, and for packed documents before a cache."""
    if seen := [name for name in inputs if _SEEN.match(name) and inputs[name] is not None]:
        raise ValueError(
            f"variable-length attention is for batches of text, got {', '.join(seen)}: images and "
            f"audio attend both ways. Train on them in padded batches with sdpa."
        )
    if given and inputs.get("past_key_values") is not None and not _has_own_mask(inputs):
        raise ValueError(
            "packed documents cannot be read into a cache: each would continue the one before. "
            "Leave out past_key_values, or the packing."
        )


def _documents_of(inputs: dict[str, Any], rows: int, slots: int, device: torch.device) -> Documents:
    lengths = inputs.get("document_lengths")
    cu_seqlens, longest = inputs.get("cu_seq_lens_q"), inputs.get("max_length_q")
    if lengths is not None:
        _require_total(sum(lengths), rows * slots)
        return documents_of_lengths(lengths, device)
    if cu_seqlens is not None:
        if longest is None:
            longest = int(cu_seqlens.diff().max())
        if cu_seqlens.device.type == "cpu" and not torch.compiler.is_compiling():
            _require_total(int(cu_seqlens[-1]), rows * slots)
        return Documents(cu_seqlens.to(device=device, dtype=torch.int32), int(longest))
    positions, mask = inputs.get("position_ids"), inputs.get("attention_mask")
    if positions is None and mask is None:
        return documents_of_rows(rows, slots, device)
    if positions is not None:
        positions = positions.expand(rows, -1)
    found: Documents = find_documents(positions, mask)
    return found


def _require_total(total: int, slots: int) -> None:
    if total == 0 < slots:
        raise ValueError(
            f"the documents given have no tokens, the batch has {slots}: accelerate has cut them "
            f"by rows, as it does by default with iterable datasets. Set accelerator_config="
            f'{{"dispatch_batches": False}} in the training arguments (train_without_padding does).'
        )
    if total != slots:
        raise ValueError(
            f"the documents given have {total} tokens in all, the batch has {slots}. Lengths must "
            f"cover the batch, padding at its end included, and fit the rows end to end."
        )


def _unpad_inputs(inputs: dict[str, Any], shape: PaddedShape) -> None:
    if inputs.get("output_router_logits"):
        raise ValueError(
            "remove_padding and output_router_logits do not go together: the balancing loss would "
            "take the padding mask for another batch's. Pass flattened batches instead, or leave "
            "remove_padding out."
        )
    given = _given(inputs)
    device = inputs[given].device
    positions = inputs.get("position_ids")
    if positions is None:
        # As the padded batch would have had them, padding on the left counted too.
        positions = torch.arange(shape.slots, device=device)[None]
    inputs[given] = unpad(inputs[given], shape)
    inputs["position_ids"] = unpad(positions.expand(shape.rows, -1), shape)
    inputs["use_cache"] = False
    inputs["padded_shape"] = shape


def _repad(
    trunk: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> Any:
    shape = kwargs.get("padded_shape")
    return output if shape is None else repad_output(output, shape)


def variable_length_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int | None = None,
    document_lengths: tuple[int, ...] | None = None,
    token_indices: Tensor | None = None,
    attention_plans: SharedPlans | None = None,
    whole_rows: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention function of transformers' interface.

    query: ``[B, Hq, S, D]``; key, value: ``[B, Hk, S, D]``. Returns ``[B, S, Hq, D]``, no weights.
    """
    if dropout:
        raise ValueError(
            f"variable-length attention has no dropout, the model asks for {dropout}. Set its "
            f"configuration's attention dropout to 0."
        )
    if kwargs.get("is_causal") is False:
        raise ValueError("variable-length attention is causal; use sdpa for attention both ways.")
    if kwargs.get("position_bias") is not None:
        raise ValueError("variable-length attention takes no position bias; use sdpa or eager.")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if whole_rows:
        return _attend_as_sdpa(
            module, query, key, value, attention_mask, scale, softcap, s_aux, **kwargs
        )
    if whole_rows is None or cu_seq_lens_q is None or max_length_q is None:
        raise ValueError(
            f"{type(module).__name__} was not told where documents begin: its model does not pass "
            f"keywords of the trunk's forward on to attention, or calls its layers past the trunk; "
            f"or it was made from the config of a model that use_variable_length_attention was "
            f"called on. Documents cannot be kept apart in it; train it on padded batches with "
            f"sdpa."
        )
    rows, heads, slots, _ = query.shape
    q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (query, key, value))
    if token_indices is not None:
        q, k, v = (x.index_select(0, token_indices) for x in (q, k, v))
    attended = attend_documents(
        q,
        k,
        v,
        cu_seq_lens_q,
        max_length_q,
        scale=scale,
        window=sliding_window,
        softcap=softcap,
        sinks=s_aux,
        lengths=document_lengths,
        plans=attention_plans,
    )
    if token_indices is not None:
        padded = attended.new_zeros(rows * slots, *attended.shape[1:])
        attended = padded.index_copy(0, token_indices, attended)
    return attended.reshape(rows, slots, heads, -1), None


def _attend_as_sdpa(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Decoding with a cache, or a mask of the caller's own: whole rows under a mask."""
    if softcap is None and sinks is None:
        sdpa: Callable[..., tuple[Tensor, None]] = sdpa_attention_forward
        return sdpa(module, query, key, value, mask, scaling=scale, **kwargs)
    queries, keys = query.shape[2], key.shape[2]
    if mask is None:
        # No mask means causal, the queries being the last of the keys.
        last = torch.arange(keys - queries, keys, device=query.device)
        mask = torch.arange(keys, device=query.device) <= last[:, None]
    elif mask.dtype != torch.bool:
        raise ValueError(
            f"a mask of the caller's own must be boolean here, got {mask.dtype}; True lets a "
            f"query see a key."
        )
    out = attend_dense(query, key, value, mask, scale=scale, softcap=softcap, sinks=sinks)
    return out.transpose(1, 2).contiguous(), None
