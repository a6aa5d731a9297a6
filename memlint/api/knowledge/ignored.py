"""Options that are accepted and do nothing, in which versions, and where that was read."""

from memlint.api.knowledge.migrations import Ignored, rows

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

# Rows as those of ``gone``, with a sentence for people; ``harmless`` ones never saved memory.
_ROWS = f"""
trl.DPOConfig
  padding_free = True since 0.29 | DPOTrainer turns padding_free off with a warning
      # dpo_trainer.py, __init__
transformers.TrainingArguments
  overwrite_output_dir until 5.0 | Trainer never reads it; only scripts that do so themselves are
      concerned | harmless
  half_precision_backend since 4.57 until 5.0 | only the native backend is left | harmless
{_TOKENIZER}
  use_fast since 5.0 | there is one backend for each tokenizer since 5.0 | harmless
{" ".join(SWALLOWING)}
  use_auth_token since 5.0 | `token` took its place; without one, that of the login is sent
      | harmless
"""

IGNORED: tuple[Ignored, ...] = tuple(
    Ignored(owner, name, values, since, until, note, bool(harmless))
    for owner, name, values, since, until, (note, *harmless) in rows(_ROWS)
)

# Keywords that loading code takes out of ``**kwargs`` and throws away. The tables see that; whether
# a keyword that is taken out there is read by someone else before, only a reader can tell.
LEFTOVERS = frozenset(
    {"low_cpu_mem_usage", "_fast_init", "offload_state_dict", "from_flax", "mirror"}
)
