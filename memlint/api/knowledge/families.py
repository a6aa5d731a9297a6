"""What the names of published checkpoints say of the model that is in them.

A name is all that a script shows; its configuration is on a server. The part behind the last slash
counts, in lower case, so that copies of other organizations are known as well.
"""

from __future__ import annotations

import re

from memlint.source.patterns import lazy_pattern
from memlint.source.record import NamedTuple


class Family(NamedTuple):
    """plain_loss: it certainly computes transformers' own causal LM loss over an ``nn.Linear``.
    shares_prompts: the runtime's shared-prompt trainers certainly take it.
    carries_state: they take it, layers that carry a state along the row included, once these have
    been tried on the machine at hand. shares_images: they take its prompts with their images.
    refused: why they do not; empty where that is not known.
    experts: it is a mixture of experts, whose routers have a loss of their own.
    dense: all its layers certainly run for every token, so that each step reaches every weight.
    """

    plain_loss: bool
    shares_prompts: bool
    carries_state: bool
    shares_images: bool
    refused: str
    experts: bool
    dense: bool


def family(checkpoint: str) -> Family:
    """Return the family by the name of a checkpoint or the path of a copy."""
    name = checkpoint.lower().rstrip("/").rpartition("/")[2]
    text = _OTHER_INPUT.search(name) is None
    refused = next((why for pattern, why in _REFUSED if re.search(pattern, name)), "")
    plain_loss = text and _PLAIN_LOSS.search(name) is not None
    experts = _EXPERTS.search(name) is not None
    return Family(
        plain_loss=plain_loss,
        shares_prompts=text and not refused and _ATTENTION.search(name) is not None,
        carries_state=text and not refused and _STATE.search(name) is not None,
        shares_images=not refused and _CAUSAL_IMAGES.search(name) is not None,
        refused=refused,
        experts=experts,
        dense=(plain_loss or _DENSE_ENCODERS.search(name) is not None) and not experts,
    )


# Images or sounds go in: another class, another loss, or a head of its own.
_OTHER_INPUT = lazy_pattern(r"vision|multimodal|omni|audio|speech|vlm|pixtral|(^|[-_.])vl($|[-_.])")

# Families whose layers are attention that transformers dispatches, with sinks or without. Newer
# members of some are other classes: Llama 4, Gemma 3 from 4B up, Qwen3.5, Mistral Small 3.1.
_PLAIN_ATTENTION = (
    r"llama-?2-|llama-?3(\.[123])?-\d|tinyllama|codellama|vicuna"
    r"|^mistral-7b|^mistral-nemo|^mixtral-|^zephyr-7b|^qwen(2|2\.5|3)-(?!next)|^qwq-32b"
    r"|^phi-?(3|3\.5|4)($|-(?!moe))|^smollm[23]?-|^smollm3|^olmo-2-"
    r"|^gemma-\d+b|^gemma-(1\.1|2)-|^gemma-3-(270m|1b)|^deepseek-r1-distill-|^gpt-oss-"
)
_ATTENTION = lazy_pattern(_PLAIN_ATTENTION)
_PLAIN_LOSS = lazy_pattern(
    _PLAIN_ATTENTION + r"|^qwen1\.5-|^phi-?[12]|^pythia-|^gpt-?neox|^starcoder2-|^olmo-[17]b"
    r"|^(distil)?gpt2|^opt-\d|^bloom|^granite-3\.\d-"
)

# Encoders, and encoders with a decoder.
_DENSE_ENCODERS = lazy_pattern(r"^(flan-|m|by|um)?t5-|^(distil|al|ro|distilro|xlm-ro|de)?berta?-")

# Families with layers of linear attention, state-space scans or convolutions, whose state at the
# end of a prompt is handed to its answers; and families of vision whose images' tokens see none
# later.
_STATE = lazy_pattern(
    r"^bamba-|^lfm2(\.5)?-|^falcon-h1|^granite-4\.\d-h|^qwen3-next|^qwen3\.5|^olmo-hybrid"
    r"|^kimi-linear|^nemotron-h-"
)
_CAUSAL_IMAGES = lazy_pattern(r"^qwen2(\.5)?-vl-|^qwen3-vl-|^qwen3\.5-|^llava-(1\.5|interleave)-")

# What the shared-prompt trainers refuse, each with the word why.
_REFUSED = (
    (
        r"^mamba-|falcon-mamba|jamba|rwkv|recurrentgemma",
        "it refuses layers whose state it cannot hand on",
    ),
    (r"llama-?4", "it refuses attention in chunks"),
    (r"deepseek-v(3\.2|4)", "it refuses sparse attention"),
    (
        r"^falcon-(7b|40b|rw)|^stablelm|minitron|nemotron(?!-h-)",
        "it refuses attention that transformers does not dispatch",
    ),
)

_EXPERTS = lazy_pattern(
    r"\dx\d+b|mixtral|-a\d+(\.\d+)?b|moe|gpt-oss|deepseek-v[2-4]|dbrx|qwen3-next|llama-?4"
)
