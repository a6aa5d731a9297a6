"""Defaults that are computed when the library is imported, and where keywords are handed on to."""

from collections.abc import Mapping

from memlint.source.record import NamedTuple

# Methods whose ``**kwargs`` another function gets: whose, and which.
FORWARDED: Mapping[str, tuple[str, str]] = {
    # AutoModelFor*.from_pretrained picks a model class and calls its from_pretrained.
    "from_pretrained": (
        "transformers.models.auto.auto_factory._BaseAutoModelClass",
        "transformers.PreTrainedModel.from_pretrained",
    ),
}


class ComputedDefault(NamedTuple):
    """The default ``expression`` of ``owner``'s ``parameter``, where the table cannot compute it.

    value: where every package of ``needs`` is at least at its version (major, minor).
    otherwise: elsewhere.
    """

    owner: str
    parameter: str
    expression: str
    value: object
    otherwise: object = None
    needs: tuple[tuple[str, tuple[int, int]], ...] = ()


_ARGS = "transformers.TrainingArguments"

COMPUTED_DEFAULTS: tuple[ComputedDefault, ...] = (
    # transformers/training_args.py, default_optim: the fused optimizer from torch 2.8 on, since
    # transformers 4.54; before that the line that chooses it is a comment.
    ComputedDefault(
        _ARGS,
        "optim",
        "default_optim",
        "adamw_torch_fused",
        otherwise="adamw_torch",
        needs=(("transformers", (4, 54)), ("torch", (2, 8))),
    ),
    # transformers/training_args.py: 2 with torch 1 only.
    ComputedDefault(
        _ARGS,
        "dataloader_prefetch_factor",
        "None if not is_torch_available() or is_torch_greater_or_equal_than_2_0 else 2",
        None,
    ),
)

# transformers/training_args.py, __post_init__: what of it depends on options alone, the same in all
# releases that have the options. In the form of ``memlint.api.settled``.
SETTLED: Mapping[str, str] = {
    _ARGS: """
if self.adafactor is True:
    self.optim = "adafactor"
if self.torch_compile_mode is not None or self.torch_compile_backend is not None:
    self.torch_compile = True
if self.use_cpu is True:
    self.dataloader_pin_memory = False
""",
}
