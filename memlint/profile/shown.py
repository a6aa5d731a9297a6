"""A profile as text, with the estimate of the same run beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memlint.memory.lifetimes import format_size
from memlint.memory.oom_log import DATA
from memlint.profile.peak import DevicePeak
from memlint.rule.remedies import fixes_against

_GROUPS = 12
_FIXES = 2
_ADVISED = 3
# Kinds of a snapshot, in the memory model's words; of several, the first stands for them.
SAME = {
    "weights": "weights", "weight_gradient": "gradients", "optimizer_state": "optimizer states",
    "activation": "activations", "logits": "logits", "optimizer_temporary": "temporaries",
    "reference_model": "weights", "dequantized_weight": "temporaries",
    "gathered_parameter": "temporaries", "gradient_bucket": "gradients",
    "activation_gradient": "temporaries", "log_softmax": "logits", "logits_fp32": "logits",
    "logits_gradient": "logits", "mlp_activation": "activations", "kv_cache": "activations",
    "attention_scores": "activations",
}  # fmt: skip


def text(path: str, peaks: list[DevicePeak], settings: object) -> Iterator[str]:
    """Yield the lines. settings: of the run, for what helps; None where nothing is known."""
    if not peaks:
        yield f"{path}: no GPU held memory while this was recorded"
    for peak in peaks:
        yield from _device(path, peak, settings)


def _device(path: str, peak: DevicePeak, settings: object) -> Iterator[str]:
    moment = peak.moment
    yield f"{path}: GPU {peak.device}, {peak.events:,} events"
    unused = max(moment.reserved - moment.allocated, 0)
    after = f", {moment.time / 1e6:.2f} s after the first event" if moment.index >= 0 else ""
    yield f"peak: {format_size(moment.allocated)} allocated{after}"
    yield (
        f"      {format_size(moment.reserved)} reserved, {format_size(unused)} of it in no tensor"
        " (fragments and cached blocks)"
    )
    if moment.refused:
        yield f"      torch could not allocate {format_size(moment.refused)}"
        if unused >= moment.refused:
            yield "      enough was reserved: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    yield ""
    yield "alive at the peak, by kind:"
    for kind, size in peak.by_kind.items():
        yield f"  {format_size(size):>12}  {size / max(moment.allocated, 1):4.0%}  {kind}"
    yield ""
    yield "by place:"
    for group in peak.groups[:_GROUPS]:
        tensors = f"{group.tensors:,} tensor{'s' if group.tensors != 1 else ''}"
        place = f"  {group.place}" if group.place else ""
        yield f"  {format_size(group.bytes):>12}  {group.kind}, {tensors}{place}"
    yield ""
    yield from advice(peak.by_kind, settings)


def advice(kinds: Iterable[str], settings: object) -> Iterator[str]:
    """Yield what helps against the first of these kinds that anything helps against."""
    advised = 0
    for kind in kinds:
        fixes = fixes_against(kind, settings, DATA["remedies"])[:_FIXES]
        if fixes and advised < _ADVISED:
            advised += 1
            yield f"against {kind}:"
            yield from (f"  - {fix}" for fix in fixes)
            yield ""
