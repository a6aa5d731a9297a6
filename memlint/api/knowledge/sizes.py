"""How many parameters a published checkpoint has, by its name."""

import re

from memlint.source.patterns import lazy_pattern

# ``7b``, ``1.5b``, ``1_6b``, ``135m``; not ``a3b`` (active parameters), nor ``4bit``.
_NUMBER = lazy_pattern(r"(?<![\da-z.])(\d+(?:[._]\d+)?)(b|m)(?![a-z0-9])")
# Experts share attention and embeddings, so that their number times their size is too much, and
# some names count active parameters alone: only those that are written down are known.
_EXPERTS = lazy_pattern(
    r"(?<!\d)(?:(?:mixtral-)?\d{1,3}x\d{1,4}(?:\.\d{1,3})?b|\d{1,4}b-\d{1,4}e(?![a-z0-9]))"
)
_WITH_EXPERTS = {
    "mixtral-8x7b": 46.7,
    "mixtral-8x22b": 140.6,
    "17b-16e": 109.0,
    "17b-128e": 402.0,
}
# Billions of parameters of checkpoints whose names do not give them; the first that fits counts.
_WRITTEN = (
    (r"^distilgpt2$", 0.08), (r"^(openai-)?gpt2$", 0.12), (r"^gpt2-medium$", 0.36),
    (r"^gpt2-large$", 0.77), (r"^gpt2-xl$", 1.56), (r"^dialogpt-small", 0.12),
    (r"^dialogpt-medium", 0.36), (r"^dialogpt-large", 0.77), (r"^phi-1(_5|\.5)?$", 1.4),
    (r"^phi-2$", 2.8), (r"^phi-(3|3\.5|4)-mini", 3.8), (r"^phi-3-small", 7.4),
    (r"^phi-(3|3\.5)-(medium|vision)", 14.0), (r"^phi-4($|-reasoning)", 14.7),
    (r"^mistral-nemo", 12.2), (r"^mistral-small", 23.6), (r"^mistral-large", 123.0),
    (r"^(google-)?t5-small$|^flan-t5-small$|^t5-v1_1-small$", 0.06),
    (r"^(flan-)?t5-base$|^t5-v1_1-base$", 0.25), (r"^(flan-)?t5-large$|^t5-v1_1-large$", 0.78),
    (r"^flan-t5-xl$|^t5-v1_1-xl$", 2.85), (r"^flan-t5-xxl$|^t5-v1_1-xxl$", 11.3),
    (r"^mt5-small$", 0.3), (r"^mt5-base$", 0.58), (r"^mt5-large$", 1.2),
    (r"^mt5-xl$", 3.7), (r"^mt5-xxl$", 13.0), (r"^bart-base$", 0.14), (r"^bart-large", 0.41),
    (r"^pegasus-", 0.57), (r"^bloom$", 176.0), (r"^deepseek-(v3|r1$|r1-0528$)", 671.0),
    (r"^starcoder$", 15.5), (r"^santacoder$", 1.1), (r"^gpt-j-6b", 6.0),
)  # fmt: skip
# What their names begin with: most names are looked up in vain, and patterns take time to compile.
_BEGINNINGS = (
    *("distilgpt2", "openai-", "gpt", "dialogpt", "phi-", "mistral-", "google-", "t5-", "flan-t5"),
    *("mt5-", "bart-", "pegasus-", "bloom", "deepseek-", "starcoder", "santacoder"),
)


def billions(checkpoint: str) -> float | None:
    """Billions of parameters; None where the name, or a path, does not say one size."""
    name = _last_part(checkpoint)
    if name.startswith(_BEGINNINGS):
        for written, size in _WRITTEN:
            if re.search(written, name):
                return size
    experts = _EXPERTS.search(name)
    if experts is not None:
        return _WITH_EXPERTS.get(experts[0])
    found = [(float(size.replace("_", ".")), unit) for size, unit in _NUMBER.findall(name)]
    sizes = {size if unit == "b" else size / 1000 for size, unit in found}
    return sizes.pop() if len(sizes) == 1 else None


def _last_part(checkpoint: str) -> str:
    """The name without who published it; folders of ModelScope's cache write dots so."""
    return checkpoint.lower().rstrip("/").rpartition("/")[2].replace("___", ".")


# Words in the vocabularies of families, from their configurations.
_WORDS = (
    (r"llama-?3|llama-?4", 128_256), (r"qwen-?(2|2\.5|3)(?!\.[5-9])[-_]", 151_936),
    (r"qwen1\.5-", 151_936), (r"gemma-3", 262_144), (r"gemma", 256_000),
    (r"mistral-nemo|mistral-small-(24|3)", 131_072), (r"bloom", 250_880),
    (r"^phi-4$", 100_352), (r"^phi-4-mini", 200_064), (r"command-r|aya-", 256_000),
    (r"gpt-oss", 201_088), (r"deepseek-v[23]", 129_280),
    (r"llama-?2|^llama-\d+b|mistral-7b|mixtral-8x7b|zephyr-7b|vicuna|tinyllama", 32_000),
)  # fmt: skip


def words(checkpoint: str) -> int | None:
    """Words in the vocabulary of a checkpoint, by its family's name; None where that is unknown."""
    name = _last_part(checkpoint)
    return next((count for pattern, count in _WORDS if re.search(pattern, name)), None)
