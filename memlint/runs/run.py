"""One record of a training run: its settings in the words of the memory model.

Whatever the run is written in (a trainer's configuration, a loop, a recipe), a rule asks for
``run.checkpointing`` and says ``run.set(checkpointing="full")``. What fills the record and makes
the edits is a front end for each way of writing, with a table of options for each program.
"""

from collections.abc import Mapping

from memlint.engine.nodes import Node
from memlint.engine.project import ElsewhereError
from memlint.script.call_settings import UNSURE
from memlint.script.model import Script
from memlint.source import Span
from memlint.source.edits import Edit
from memlint.source.record import NamedTuple

# The place of what stands in another file: it is reported there.
NOWHERE = Span(-1, -1)


def span_in(script: Script, node: Node) -> Span:
    """Return where a node of a script is; ``NOWHERE`` for one of another file."""
    try:
        return script.span(node)
    except ElsewhereError:
        return NOWHERE


class Field(NamedTuple):
    """One setting of a run.

    value: in the memory model's words (``bfloat16``, ``full``), or UNSURE, which is no fault.
    span: where it is decided. said: a clause that says so, in the words of the user's program.
    pending: the fix of another fault decides it.
    """

    value: object = UNSURE
    span: Span = Span(0, 0)
    said: str = ""
    pending: bool = False

    def is_value(self, *values: object) -> bool:
        """True if the value is certainly one of ``values`` (``True`` and ``1`` differ)."""
        return any(type(self.value) is type(one) and self.value == one for one in values)

    @property
    def number(self) -> int | None:
        """The value as a whole number; None where it is none, or not known."""
        return self.value if type(self.value) is int else None


class Change(NamedTuple):
    """Other values for some settings, said once: what is written is what is priced.

    settings: the memory model's. message: in the imperative. edits: None where they cannot be made
    with certainty. unsafe: it may stop the run, or change what it learns.
    """

    settings: Mapping[str, object]
    message: str
    edits: tuple[Edit, ...] | None = None
    unsafe: bool = False


class TrainingRun:
    """A run that trains. A field is read when it is first asked for: by ``read_<field>`` of the
    front end where it has such a method, else by the rows of its table."""

    # The model.
    weights_dtype: Field  # float32, bfloat16, float16
    quantization: Field  # of the frozen base: None for none, nf4, int8
    method: Field  # full, lora
    modules_to_save: Field  # names of what is trained whole beside an adapter
    adapted_head: Field  # True where an adapter changes the output layer
    checkpointing: Field  # none, full
    reentrant: Field  # True for the reentrant kind
    attention: Field  # eager, sdpa, flash_attention_2
    loss: Field  # full_logits, chunked
    compile: Field  # True, False where a long run is not compiled
    # What is done with it.
    compute_dtype: Field  # float32, bfloat16
    optimizer: Field  # adamw_torch, adamw_8bit, paged_adamw_8bit
    at_once: Field  # True where its step makes temporaries for all weights together
    in_backward: Field  # True where the optimizer steps in backward
    offloaded_gradients: Field  # True where each backward pass writes them to the CPU
    offload: Field  # none where activations may well wait on the CPU, activations
    replicated: Field  # True where every GPU of several keeps all weights, gradients and states
    kept_copy: Field  # True where a copy of the weights that is not run stays on the GPU
    sharded_load: Field  # False where each process loads the whole model first
    micro_batch: Field  # rows that go through the model at once
    gradient_accumulation: Field  # micro-batches for each step of the optimizer
    seq_len: Field  # None where nothing cuts samples
    packed: Field  # True, False
    expandable: Field  # False where rows of several lengths break up what the allocator caches
    pinned: Field  # False where batches wait in pageable memory of the host
    vllm_share: Field  # of a GPU that trains, as vLLM reserves it
    vllm_sleep: Field  # False where vLLM keeps its memory while the model trains

    @property
    def trains_language_model(self) -> bool:
        """True if it definitely trains a language model, and no toy."""
        return True

    @property
    def is_sharded(self) -> bool:
        """True if weights or optimizer states may be spread over several GPUs."""
        return False

    @property
    def billions(self) -> float | None:
        """The parameters of its model, in billions; None where they are not known."""
        return None

    def has_billions(self, least: float, most: float) -> bool:
        """True if its model has so many billions of parameters, or its program trains no others."""
        return True

    def __getattr__(self, name: str) -> Field:
        if name not in TrainingRun.__annotations__:
            raise AttributeError(name)
        reader = getattr(type(self), f"read_{name}", None)
        field: Field = self._by_rows(name) if reader is None else reader(self)
        vars(self)[name] = field
        return field

    def set(self, **settings: object) -> Change:
        """Return the change that gives fields other values, as the front end writes them."""
        first, *others = [self._set(name, value) for name, value in settings.items()]
        message, edits, changed = first.message, first.edits, dict(first.settings)
        for change in others:
            changed |= change.settings
            message += f" and {change.message.removeprefix('Set ')}" if change.message else ""
            edits = None if edits is None or change.edits is None else (*edits, *change.edits)
        unsafe = any(one.unsafe for one in (first, *others)) or not self._keeps_rows(settings)
        return Change(changed, message, edits, unsafe)

    def _keeps_rows(self, settings: Mapping[str, object]) -> bool:
        """True if the optimizer's steps certainly have as many rows as before."""
        counts = ("micro_batch", "gradient_accumulation")
        if not settings.keys() & set(counts):
            return True
        before = [getattr(self, name).value for name in counts]
        after = [settings.get(name, value) for name, value in zip(counts, before, strict=True)]
        numbers = [value for value in (*before, *after) if type(value) is int]
        return len(numbers) == 4 and numbers[0] * numbers[1] == numbers[2] * numbers[3]

    def _set(self, name: str, value: object) -> Change:
        writer = getattr(self, f"write_{name}", None)
        change: Change = self._write_row(name, value) if writer is None else writer(value)
        return change

    def _by_rows(self, name: str) -> Field:
        """Return a field as the front end's table reads it."""
        return Field()

    def _write_row(self, name: str, value: object) -> Change:
        """Return the change of a field as the front end's table writes it."""
        raise NotImplementedError(f"{type(self).__name__} sets no {name}")
