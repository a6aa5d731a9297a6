"""What became of options and names of the libraries that are gone, or may be.

``data/gone.rows`` has a row for each: what is asked for, what takes its place, a sentence for
people; where that was read stands in the comment. ``rows_of`` explains the words. What only moved
needs no row: a name that exactly one module of the target still offers is found there
(``trl.ORPOTrainer`` in ``trl.experimental.orpo``), and so is a keyword of a trainer that its
configuration has.
"""

import os

from memlint.api.knowledge.migrations import Migration, rows_of
from memlint.api.successors import Build, Inline, Replace, Runtime
from memlint.source.bounded import read_regular_text

_ROWS = read_regular_text(
    os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "gone.rows")
)
_LOADS = (
    "transformers.PreTrainedModel.from_pretrained",
    "transformers.models.auto.auto_factory._BaseAutoModelClass.from_pretrained",
)
_QUANTIZING = (
    *("load_in_4bit", "load_in_8bit", "bnb_4bit_compute_dtype", "bnb_4bit_quant_type"),
    *("bnb_4bit_use_double_quant", "llm_int8_enable_fp32_cpu_offload"),
)
_BITS = "transformers.BitsAndBytesConfig"
_LOADER = "accelerate.DataLoaderConfiguration"
_LOADING = ("dispatch_batches", "even_batches", "split_batches", "use_seedable_sampler")
# Limits of prompt and completion apart: DPO has one limit for both since trl 0.29.
_LIMITED = (
    *("trl.DPOConfig", "trl.GRPOConfig", "trl.RLOOConfig", "trl.KTOConfig"),
    *("trl.experimental.kto.KTOConfig", "trl.experimental.cpo.CPOConfig"),
    "trl.experimental.orpo.ORPOConfig",
)
_LIMIT = Runtime(
    "memlint_runtime.limit_prompts",
    "trainer",
    "limit_prompts({trainer}, {value})",
    note="it cuts prompts as the trainer did while it had the option",
)


def _into(parameter: str, cls: str, name: str, others: tuple[str, ...]) -> Build:
    """The option becomes one of a configuration that is given as ``parameter``."""
    source = f"{cls.rpartition('.')[2]}({name}={{value}})"
    return Build(parameter, source, imports=(cls,), merge=others)


MIGRATIONS: tuple[Migration, ...] = (
    *rows_of(_ROWS),
    *(Migration(owner, "max_prompt_length", _LIMIT) for owner in _LIMITED),
    *(
        Migration(owner, name, _into("quantization_config", _BITS, name, _QUANTIZING))
        for owner in _LOADS
        for name in _QUANTIZING[:2]
    ),
    *(
        Migration(
            "accelerate.Accelerator", name, _into("dataloader_config", _LOADER, name, _LOADING)
        )
        for name in _LOADING
        if name != "split_batches"
    ),
    Migration(
        "trl.get_kbit_device_map",
        None,
        Inline('{"": PartialState().local_process_index}', imports=("accelerate.PartialState",)),
    ),
    Migration(
        "transformers.PreTrainedTokenizerBase.batch_encode_plus",
        None,
        Replace(
            "transformers.PreTrainedTokenizerBase.__call__",
            arguments=(("batch_text_or_text_pairs", "text"),),
        ),
        since="5.0",
    ),
    # transformers' AdamW had an epsilon and a weight decay of its own (optimization.py).
    Migration(
        "transformers.AdamW",
        None,
        Replace(
            "torch.optim.AdamW",
            arguments=(("correct_bias", None), ("no_deprecation_warning", None)),
            written=(("eps", "1e-6"), ("weight_decay", "0.0")),
        ),
    ),
)
