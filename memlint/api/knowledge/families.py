"""What the names of published checkpoints say of the model that is in them: one table.

A name is all that a script shows; its configuration is on a server. `model_types` has the rows of
configurations, `sizes` the numbers of parameters. A new family is a line here for each trait that
it has: a pattern, and the traits of the checkpoints that it fits.
"""

import re
from functools import cache

# Patterns over the part of a name behind its last slash, in lower case: copies of other
# organizations are known as well.
_ATTENTION = "plain_loss attends"
_FAMILIES = (
    # Layers of attention that transformers dispatches, with sinks or without, whose loss is
    # transformers' own. Newer members of some are other classes: Llama 4, Gemma 3 from 4B up,
    # Qwen3.5, Mistral Small 3.1.
    (r"llama-?2-|llama-?3(\.[123])?-\d|tinyllama|codellama|vicuna", _ATTENTION),
    (r"^mistral-7b|^mistral-nemo|^mixtral-|^zephyr-7b", _ATTENTION),
    (r"^qwen(2|2\.5|3)-(?!next)|^qwq-32b|^deepseek-r1-distill-", _ATTENTION),
    (r"^phi-?(3|3\.5|4)($|-(?!moe))|^smollm[23]?-|^smollm3|^olmo-2-", _ATTENTION),
    (r"^gemma-\d+b|^gemma-(1\.1|2)-|^gemma-3-(270m|1b)|^gpt-oss-", _ATTENTION),
    # The loss alone: their attention is their own, or old.
    (r"^qwen1\.5-|^phi-?[12]|^pythia-|^gpt-?neox|^starcoder2-|^olmo-[17]b", "plain_loss"),
    (r"^(distil)?gpt2|^opt-\d|^bloom|^granite-3\.\d-", "plain_loss"),
    # Encoders, and encoders with a decoder.
    (r"^(flan-|m|by|um)?t5-|^(distil|al|ro|distilro|xlm-ro|de)?berta?-", "encodes"),
    # Layers of linear attention, state-space scans or convolutions, whose state at the end of a
    # prompt is handed to its answers.
    (r"^bamba-|^lfm2(\.5)?-|^falcon-h1|^granite-4\.\d-h|^olmo-hybrid|^kimi-linear", "has_state"),
    (r"^qwen3-next|^qwen3\.5|^nemotron-h-", "has_state"),
    # Images go in, and their tokens see none that come later.
    (r"^qwen2(\.5)?-vl-|^qwen3-vl-|^qwen3\.5-|^llava-(1\.5|interleave)-", "causal_images"),
    # Images or sounds go in: another class, another loss, or a head of its own.
    (r"vision|multimodal|omni|audio|speech|vlm|pixtral|(^|[-_.])vl($|[-_.])", "other_input"),
    # Mixtures of experts, whose routers have a loss of their own.
    (r"\dx\d+b|mixtral|-a\d+(\.\d+)?b|moe|gpt-oss|deepseek-v[2-4]", "experts"),
    (r"dbrx|qwen3-next|llama-?4", "experts"),
)
# Patterns over a whole name in lower case, organization and all.
_WHOLE = (
    # Decoders that have had sdpa since before the oldest version of the tables.
    (r"llama|mistral|mixtral|qwen(1\.5|2|3)|phi-?(1|2|3|4)|smollm|pythia|gpt-?neox", "has_sdpa"),
    (r"starcoder2|olmo|gpt2|zephyr|vicuna|falcon-?(7b|40b|3|180b)", "has_sdpa"),
    # Their configurations drop attention weights (``attn_pdrop``, ``attention_dropout`` of 0.1).
    (r"gpt-?2|starcoder2", "drops_attention"),
    # Their configurations drop something out, which the shared-prompt trainers refuse.
    (r"gpt-?2|gpt-neo|(^|/)opt-|phi-?[12](\b|_)|codegen|bloom", "drops_out"),
    # Their tokenizers know no limit, or the model's whole context (131,072 for Qwen3).
    (r"(?<!tiny)llama|qwen|mistral|mixtral|gemma|deepseek", "long_context"),
    (r"4bit|8bit|gptq|awq|fp8|int[48]|gguf|w4a16|nvfp4|mxfp4|gpt-oss", "stored_quantized"),
    # Stored in float32, so that they are float32 however they are loaded.
    (r"^(openai-community/)?gpt2|^(distilbert/)?distilgpt2|^eleutherai/gpt-neo-", "stored_float32"),
    (r"^t5-|^google-t5/|^google/(flan-t5|mt5|pegasus)|^salesforce/codet5-", "stored_float32"),
    (r"^facebook/bart|^sshleifer/distilbart|^roberta-(base|large)", "stored_float32"),
    (r"^(google-bert/)?bert-(base|large)-|^google-bert/bert-|^hfl/chinese-", "stored_float32"),
    (r"^(facebookai/)?xlm-roberta-(base|large)$|^(almanach/)?camembert-", "stored_float32"),
    (r"^allenai/(scibert|longformer)|^microsoft/(graph)?codebert-base$", "stored_float32"),
    # Encoders whose layers every release can run again for backward.
    (r"(?<![a-z])(xlm-)?(bert|roberta|deberta|electra)(?![a-z])", "checkpoints"),
    (r"^(distilbert/)?distilbert-base-|^facebookai/roberta-", "stored_float32"),
    # Made for tests: a few megabytes, whatever is done to them.
    (r"internal-testing/|tiny-random|tiny-gpt2", "is_toy"),
    # Soft-capped scores, which sdpa cannot; the other Gemmas have no cap.
    (r"gemma-?2(?!b)", "caps_scores"),
    (r"gemma", "is_gemma"),
    (r"gemma-?3", "is_gemma_3"),
)
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


class Family:
    """What the name of a checkpoint, or the path of a copy, says. Each answer is certain."""

    def __init__(self, checkpoint: str) -> None:
        self._whole = checkpoint.lower()
        self._name = self._whole.rstrip("/").rpartition("/")[2]

    def has(self, trait: str) -> bool:
        """True if a pattern of this trait fits."""
        pattern, whole = _pattern(trait)
        return pattern.search(self._whole if whole else self._name) is not None

    @property
    def plain_loss(self) -> bool:
        """True if it computes transformers' own causal LM loss over an ``nn.Linear``."""
        return self.has("plain_loss") and not self.has("other_input")

    @property
    def shares_prompts(self) -> bool:
        """True if the runtime's shared-prompt trainers take it."""
        return self.has("attends") and not self.has("other_input") and not self.refused

    @property
    def carries_state(self) -> bool:
        """True if they take it, also in layers with a state along the row, once tried here."""
        return self.has("has_state") and not self.has("other_input") and not self.refused

    @property
    def shares_images(self) -> bool:
        """True if they take its prompts with their images."""
        return self.has("causal_images") and not self.refused

    @property
    def refused(self) -> str:
        """Why they do not take it; empty where that is not known."""
        return next((why for pattern, why in _REFUSED if re.search(pattern, self._name)), "")

    @property
    def experts(self) -> bool:
        """True if it is a mixture of experts."""
        return self.has("experts")

    @property
    def dense(self) -> bool:
        """True if all its layers run for every token, so that each step reaches every weight."""
        return (self.plain_loss or self.has("encodes")) and not self.experts


@cache
def family(checkpoint: str) -> Family:
    """Return what the name of a checkpoint says."""
    return Family(checkpoint)


@cache
def _pattern(trait: str) -> tuple[re.Pattern[str], bool]:
    """The pattern of all rows that have a trait, and whether it is one of whole names."""
    for rows, whole in ((_FAMILIES, False), (_WHOLE, True)):
        patterns = [pattern for pattern, traits in rows if trait in traits.split()]
        if patterns:
            return re.compile("|".join(patterns)), whole
    raise KeyError(trait)
