"""A vLLM engine on the training GPU that reserves most of it.

``gpu_memory_utilization`` is a share of the whole GPU, taken when the engine starts and kept: what
it leaves must hold weights, gradients, optimizer states and activations of training. Source: TRL
documentation, "vLLM integration" (colocate mode); trl issue 2688 (out of memory at 0.9).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Call,
    Config,
    Finding,
    Level,
    Rule,
    Script,
    Setting,
    Skip,
    advise,
    edits,
    fix,
    triggers,
)
from memlint_rules.online.engines import colocated_engines, colocates_vllm

_OPTION, _OF_ENGINE = "vllm_gpu_memory_utilization", "gpu_memory_utilization"
_SLEEP = "vllm_enable_sleep_mode"
# Shares of the GPU: more than this is greedy; what TRL gives it by default, and vLLM itself.
_MOST, _MODEST, _VLLM = 0.5, 0.3, 0.9


def check(script: Script) -> Iterator[Finding]:
    for config in script.configs:
        share = config.effective(_OPTION)
        if colocates_vllm(script, config) and _is_greedy(share) and not _sleeps(config):
            yield _of_config(script, config, share)
    for engine in colocated_engines(script):
        share = engine.setting(_OF_ENGINE)
        if engine.setting("enable_sleep_mode").given is False and (
            _is_greedy(share) or (share.given is False and not engine.has_unknown_keywords)
        ):
            yield _of_engine(script, engine, share)


def _is_greedy(share: Setting) -> bool:
    return isinstance(share.value, float) and _MOST < share.value <= 1.0


def _sleeps(config: Config) -> bool:
    """True if the reservation is given back while the model trains, or may be."""
    return config.has_option(_SLEEP) and config.effective(_SLEEP).value is not False


def _words(share: object, of: str) -> str:
    return (
        f"vLLM reserves {share:.0%} of the GPU{of} for itself: training has to do with what is left"
    )


def _of_config(script: Script, config: Config, share: Setting) -> Finding:
    node = share.node if share.given else None
    return Finding(
        script.span(node if node is not None else config.node.func),
        _words(share.value, "" if share.given else ", by this version's default,"),
        fix(
            f"Set `{_OPTION}={_MODEST}`",
            edits.set_option(script, config, _OPTION, str(_MODEST)),
            unsafe=True,
        ),
    )


def _of_engine(script: Script, engine: Call, share: Setting) -> Finding:
    given = share.given is True
    return Finding(
        script.span(share.node if share.node is not None else engine.node.func),
        _words(share.value if given else _VLLM, "" if given else ", by its default,"),
        advise(f"Pass `{_OF_ENGINE}={_MODEST}`, or let it sleep while the loop trains"),
    )


RULE = Rule(
    code="MEM603",
    name="greedy-vllm-reservation",
    level=Level.WASTE,
    summary="colocated vLLM that reserves more than half of the GPU",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({"use_vllm", "vllm"})),
)
