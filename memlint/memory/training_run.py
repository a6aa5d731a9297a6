"""One training run as the settings give it: its model, its GPU's share, its micro-batch."""

from memlint.memory import facts
from memlint.memory.architecture import Architecture
from memlint.memory.gpus import find_gpu
from memlint.memory.optimizers import Optimizer, find_optimizer
from memlint.memory.settings import Settings, SettingsError, dtype_width
from memlint.memory.sharding import fullest_part, plan
from memlint.memory.trainer_kinds import kind_of
from memlint.memory.weights import Holding


class TrainingRun:
    """A run with complete settings.

    rows, length, head_tokens: of a micro-batch on one GPU: rows, tokens a row, tokens with logits.
    source_length: tokens a row of an encoder that has no number of its own.
    compute: bytes of one number in the compute dtype. own_loop: whether the loop is a library's.
    """

    def __init__(self, settings: Settings, architecture: Architecture) -> None:
        self.settings = settings
        self.architecture = architecture
        self.gpu = find_gpu(settings.gpu) if settings.gpu else None
        self.sharding = plan(
            settings.sharding or "none",
            settings.world_size or 1,
            settings.sharding_options,
            settings.offload or "none",
            architecture.hidden,
        )
        found = find_optimizer(settings.optimizer or "adamw_torch")
        if found is None:
            raise SettingsError(
                f"unknown optimizer {settings.optimizer!r}: use transformers' names, such as "
                "adamw_torch, adamw_8bit, paged_adamw_8bit, adafactor"
            )
        if found.foreach and not facts.reaches(settings.versions, facts.FOREACH):
            # One parameter after the other: a root and a quotient.
            found = found._replace(foreach=0.0, single=2.0)
        self.optimizer: Optimizer = found
        self.holding = Holding(architecture, settings)
        if self.sharding.placed:
            self.sharding = self.sharding._replace(split=self._placed())
        self.rows, self.length, self.head_tokens = _batch(settings)
        # Tensor parallelism with sequence-parallel norms divides activations as sequences do.
        parts = self.sharding.sequence * self.sharding.tensor
        self.source_length = -(-self.length // parts)
        if architecture.encoder_decoder and settings.label_len:
            self.length = settings.label_len
            self.head_tokens = self.rows * self.length
        self.length = -(-self.length // parts)
        self.head_tokens = -(-self.head_tokens // parts)
        self.compute = dtype_width(settings.compute_dtype or "bfloat16")
        self.own_loop = facts.own_loop(settings.versions, settings.trainer or "loop")

    def _placed(self) -> float:
        """How often the fullest of the GPUs goes into the model that is placed on them."""
        sizes = [
            self.holding.layer(layer, self.architecture.norm_parameters).base
            for layer, count in self.architecture.layers
            for _ in range(count)
        ]
        embedding, head = self.holding.embedding().base, self.holding.head().base
        return fullest_part(embedding, sizes, head, int(self.sharding.split))


class OfRun:
    """What is computed of a run: its parts by their names."""

    def __init__(self, run: TrainingRun) -> None:
        self.run = run
        self.settings, self.architecture = run.settings, run.architecture
        self.sharding, self.holding = run.sharding, run.holding
        self.optimizer = run.optimizer


def _batch(settings: Settings) -> tuple[int, int, int]:
    """Rows, tokens a row and tokens with logits of one micro-batch."""
    micro = settings.micro_batch or 1
    length = settings.seq_len or 1
    kind = kind_of(settings.trainer)
    if settings.shared_prompt and not kind.generates:
        answer = max(length - (settings.prompt_len or 0), 1)
        return micro, length + answer, 2 * micro * answer
    if kind.generates:
        prompt, completion = settings.prompt_len or 0, settings.completion_len or 1
        group = settings.group_size or 1
        if settings.shared_prompt:
            # A micro-batch that cuts groups holds the prompt and its own completions.
            groups = -(-micro // group)
            return groups, prompt + -(-micro // groups) * completion, micro * completion
        logits = prompt + completion if kind.values else completion + 1
        return micro, prompt + completion, micro * logits
    rows = kind.rows * micro
    return rows, length, rows * length
