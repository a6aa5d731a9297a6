"""Options that are accepted and do nothing, in which versions, and where that was read.

What a function takes out of its keywords and throws away is in the tables already
(``Parameter.ignored``).
"""

from __future__ import annotations

from memlint.api.knowledge.migrations import Ignored

_TOKENIZER = "transformers.AutoTokenizer.from_pretrained"
# What loads by these takes any keyword, and throws away those that it does not know: tried with
# transformers 5.23, where a model raises a TypeError.
SWALLOWING = (
    _TOKENIZER,
    *(
        f"transformers.{name}.from_pretrained"
        for name in (
            *("PreTrainedTokenizerBase", "AutoConfig", "GenerationConfig"),
            *("AutoProcessor", "ProcessorMixin"),
        )
    ),
)

IGNORED: tuple[Ignored, ...] = (
    Ignored(
        "trl.DPOConfig",
        "padding_free",
        "trl",
        "0.29",
        "",
        "DPOTrainer turns padding_free off with a warning",
        "dpo_trainer.py, __init__",
        values=(True,),
    ),
    Ignored(
        "transformers.TrainingArguments",
        "overwrite_output_dir",
        "transformers",
        "",
        "5.0",
        "Trainer never reads it; only scripts that do so themselves are concerned",
        "trainer.py",
        harmless=True,
    ),
    Ignored(
        "transformers.TrainingArguments",
        "half_precision_backend",
        "transformers",
        "4.57",
        "5.0",
        "only the native backend is left",
        "training_args.py",
        harmless=True,
    ),
    Ignored(
        _TOKENIZER,
        "use_fast",
        "transformers",
        "5.0",
        "",
        "there is one backend for each tokenizer since 5.0",
        "tokenization_auto.py",
        harmless=True,
    ),
    *(
        Ignored(
            owner,
            "use_auth_token",
            "transformers",
            "5.0",
            "",
            "`token` took its place; without one, that of the login is sent",
            "transformers/utils/hub.py",
            harmless=True,
        )
        for owner in SWALLOWING
    ),
)

# Keywords that loading code takes out of ``**kwargs`` and throws away. The tables see that; whether
# a keyword that is taken out there is read by someone else before, only a reader can tell.
LEFTOVERS = frozenset(
    {"low_cpu_mem_usage", "_fast_init", "offload_state_dict", "from_flax", "mirror"}
)
