"""Fills in what nobody set, and names each thing it took.

The defaults are the libraries' own where they have one; else what most runs use. An assumption
names the key that settles it: ``--assume seq_len=4096``.
"""

from typing import Any

from memlint.api.knowledge.model_types import model_type
from memlint.memory import facts
from memlint.memory.architecture import Architecture
from memlint.memory.checkpoints import find_architecture
from memlint.memory.optimizers import find_optimizer
from memlint.memory.settings import Lora, Quantization, Settings, SettingsError
from memlint.memory.sharding import plain_options, unread
from memlint.memory.trainer_kinds import kind_of
from memlint.memory.weights import matches
from memlint.source.record import Record


class Assumption(Record):
    """A setting that was not given: what was taken for it, why, and the flag that settles it.

    other, peak: another value that it may have, and the peak with that; 0: not computed.
    """

    name: str
    value: Any
    reason: str
    other: Any = None
    peak: int = 0

    @property
    def flag(self) -> str:
        return f"--assume {self.name}={self.value}"

    def to_json(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in self._fields}, "flag": self.flag}


class Known(Record):
    """Settings without a ``None`` that matters, and the assumptions made on the way."""

    settings: Settings
    assumptions: tuple[Assumption, ...]


# What changes nothing, or is what nearly every run does: taken without a word.
_PLAIN: tuple[tuple[str, Any, str], ...] = (
    ("gradient_accumulation", 1, "the Trainer's default"),
    ("packed", False, "no packing was named"),
    ("frozen", "none", "all weights are trained"),
    ("fixed_length", False, "rows of several lengths"),
    ("logits_copies", 0, "the library's loss"),
    ("longest_first", False, "batches in any order"),
    ("offload", "none", "no offload was named"),
    ("streamed", False, "frozen weights stay on the GPU"),
    ("head_in_tiles", False, "the loss reads a streamed head whole"),
    ("compile", False, "no compilation was named"),
    ("shared_prompt", False, "each completion repeats its prompt"),
    ("evaluation", False, "no evaluation was named"),
)


# Settings that may be read wrongly where a note is beside them.
_DOUBTED = (
    "checkpointing",
    "gradient_accumulation",
    "method",
    "micro_batch",
    "seq_len",
    "sharding",
    "trainer",
)


class _Completion:
    """Settings on the way to being complete: what is open gets a value, and a reason if it matters.

    trainer, method: as they are named, or assumed.
    """

    def __init__(self, settings: Settings, architecture: Architecture) -> None:
        self.settings = settings
        self.architecture = architecture
        self.taken: list[Assumption] = []
        self.changes: dict[str, Any] = {}
        self.trainer = settings.trainer or "transformers.Trainer"
        self.method = settings.method or (
            "qlora" if settings.quantization else "lora" if settings.lora else "full"
        )
        self.is_trl = self.trainer.startswith("trl.")

    def take(self, name: str, value: Any, reason: str, *, quiet: bool = False) -> None:
        """Give a setting this value where it has none; one that may be wrong is named as well."""
        given, note = getattr(self.settings, name), self.settings.notes.get(name)
        if given is None:
            self.changes[name] = value
            if note or not quiet:
                self.taken.append(Assumption(name, value, note or reason))
        elif note and name in _DOUBTED:
            self.taken.append(Assumption(name, given, note))

    def value(self, name: str) -> Any:
        """The setting as it is by now."""
        return self.changes.get(name, getattr(self.settings, name))

    def reaches(self, fact: tuple[str, tuple[int, ...]]) -> bool:
        """As ``facts.reaches``, for the versions of the run."""
        return facts.reaches(self.settings.versions, fact)


def assume(settings: Settings, architecture: Architecture) -> Known:
    """Complete the settings."""
    settings = _unquantized(settings)
    run = _Completion(settings, architecture)
    for name in architecture.unknown:
        reason = "not understood: read by the keys that most decoders share"
        run.taken.append(Assumption("model", name, reason))
    _model(run)
    for name in unread(settings.sharding_options):
        reason = "not read: the estimate is the one without it"
        run.taken.append(Assumption(f"sharding_options.{name}", "ignored", reason))
    for name, value, reason in _PLAIN:
        run.take(name, value, reason, quiet=True)
    run.take("trainer", "transformers.Trainer", "no trainer was named")
    reason = "no adapter or quantization was named"
    run.take("method", run.method, reason, quiet=run.method != "full")
    rows, reason = 8, "the Trainer's default batch size"
    if run.trainer == "loop":
        rows, reason = 1, "no batch size was named"
    run.take("micro_batch", rows, reason)
    _lengths(settings, architecture, run.trainer, run.take)
    several, named = (settings.world_size or 1) > 1, settings.sharding not in (None, "none")
    named = named or "sharding" in settings.notes
    reason = "how many GPUs share the run was not named"
    run.take("world_size", 1, reason, quiet=not named)
    strategy = "ddp" if several else "none"
    run.take("sharding", strategy, "several GPUs without a strategy", quiet=not several)
    _precision(run)
    _by_release(run)
    mixed = run.value("compute_dtype") != "float32"
    mixed = mixed and (run.trainer != "loop" or run.value("weights_dtype") == "float32")
    run.take("autocast", mixed, "mixed precision by the trainer", quiet=True)
    if settings.evaluation:
        run.take("eval_batch", 8, "the Trainer's default")
    if "eval_rows" in settings.notes:
        run.take("eval_rows", run.changes.get("eval_batch") or settings.eval_batch, "one batch")
    run.take("head", architecture.head, "the model's own", quiet=True)
    reference = kind_of(run.trainer).reference and run.method == "full"
    run.take("reference_model", reference, "the trainer's default", quiet=True)
    _adapter(run)
    _frozen(run)
    return Known(settings._replace(**run.changes), tuple(run.taken))


def _model(run: _Completion) -> None:
    """Name the model where what the script says of its sizes is not read."""
    model = run.settings.model
    name = model if isinstance(model, str) else model.get("_name_or_path", run.architecture.family)
    if note := run.settings.notes.get("model"):
        run.taken.append(Assumption("model", name, note))


def _unquantized(settings: Settings) -> Settings:
    """The settings without a quantization of the type ``none``, which a flag may name."""
    if settings.quantization is None or settings.quantization.type != "none":
        return settings
    method = "lora" if settings.method == "qlora" else settings.method
    return settings._replace(quantization=None, method=method)


def _frozen(run: _Completion) -> None:
    """Leave out the frozen models of which nothing is known."""
    known = {}
    for name, stored in run.settings.frozen_models.items():
        try:
            find_architecture(name)
            known[name] = stored
        except SettingsError:
            reason = "not known: its weights are not counted"
            run.taken.append(Assumption(f"frozen_models.{name}", "ignored", reason))
    run.changes["frozen_models"] = known


def _precision(run: _Completion) -> None:
    own = _weights_dtype(run.settings, run.architecture)
    run.take("weights_dtype", own, "the checkpoint's dtype")
    if run.settings.autocast is False:
        own = run.settings.weights_dtype or own
        run.take("compute_dtype", own, "the weights' own: no mixed precision")
    else:
        run.take("compute_dtype", "bfloat16", "most runs compute in bfloat16")


def _by_release(run: _Completion) -> None:
    """What the libraries do by default, which changes with their releases."""
    options = plain_options(run.settings.sharding_options)
    by_option = options.get("activation_checkpointing") is True
    by_trl = run.is_trl and not kind_of(run.trainer).values
    checkpointed = by_option or (by_trl and run.reaches(facts.TRL_CHECKPOINTS))
    checkpointing = "full" if checkpointed else "none"
    run.take("checkpointing", checkpointing, f"{run.trainer}'s default", quiet=by_option)
    # sdpa cannot cap scores: such models take eager attention unless the script says otherwise.
    sdpa = run.reaches(facts.SDPA_DEFAULT) and not run.architecture.softcaps_scores
    run.take("attention", "sdpa" if sdpa else "eager", "transformers' default", quiet=True)
    fused = run.reaches(facts.FUSED_ADAMW) and run.trainer != "loop"
    optimizer = "adamw_torch_fused" if fused else "adamw_torch"
    given, note = run.settings.optimizer, run.settings.notes.get("optimizer")
    if given and note and find_optimizer(given) is None:
        run.changes["optimizer"] = optimizer
        run.taken.append(Assumption("optimizer", optimizer, f"{note}, which is not known"))
    run.take("optimizer", optimizer, "the default optimizer")
    tiled = kind_of(run.trainer).tiled and run.reaches(facts.TRL_TILES)
    run.take("loss", "chunked" if tiled else "full_logits", f"{run.trainer}'s loss")


def _adapter(run: _Completion) -> None:
    """The adapter and the quantization below it, with what is open in them."""
    settings, architecture = run.settings, run.architecture
    prepares = run.is_trl and not run.reaches(facts.TRL_LEAVES_KBIT)
    if run.method in ("lora", "qlora"):
        narrow = run.method == "qlora" and run.is_trl and not prepares
        lora = settings.lora or Lora()
        run.changes["lora"] = _lora(lora, architecture, run.taken, narrow=narrow)
    if (note := settings.notes.get("quantization.type")) is not None:
        stored = settings.quantization.type if settings.quantization else None
        run.taken.append(Assumption("quantization.type", stored or "none", note))
    if run.method == "qlora" or settings.quantization is not None:
        quantization = settings.quantization or Quantization()
        run.changes["quantization"] = _quantization(quantization, architecture, prepares, run.taken)


def _lengths(settings: Settings, architecture: Architecture, trainer: str, take: Any) -> None:
    if kind_of(trainer).generates:
        take("prompt_len", 512, "no prompt length was named")
        take("completion_len", 512, "TRL's default completion length")
        values = kind_of(trainer).values
        reason = "TRL's default number of generations"
        take("group_size", 1 if values else 8, reason, quiet=values)
        tokens = (settings.prompt_len or 512) + (settings.completion_len or 512)
        take("seq_len", tokens, "prompt and completion", quiet=True)
        return
    if settings.shared_prompt:
        half = (settings.seq_len or 1024) // 2
        take("prompt_len", half, "half of a row, for the prompts that pairs share")
    length = 1024 if trainer.startswith("trl.") else 2048
    limit = architecture.max_positions
    if architecture.encoder_decoder and not limit:
        limit = 512  # relative positions know no end; their tokenizers cut there
    if 0 < limit < length:
        length = limit
    reason = "TRL's default max_length" if trainer.startswith("trl.") else "no length was named"
    take("seq_len", length, reason)
    if architecture.encoder_decoder and not architecture.towers[0].tokens:
        take("label_len", settings.seq_len or length, "as long as the inputs")


def _weights_dtype(settings: Settings, architecture: Architecture) -> str:
    dtype = architecture.dtype.removeprefix("torch.")
    if dtype in ("bfloat16", "float16", "float32"):
        return dtype
    return model_type(architecture.family).stored or "bfloat16"


def _lora(lora: Lora, architecture: Architecture, taken: list[Assumption], *, narrow: bool) -> Lora:
    changes: dict[str, Any] = {}
    if lora.r is None:
        changes["r"] = 8
        taken.append(Assumption("lora.r", 8, "PEFT's default rank"))
    if lora.target_modules is None:
        names = changes["target_modules"] = default_targets(architecture)
        reason = "PEFT's default for the family"
        taken.append(Assumption("lora.target_modules", ",".join(names), reason))
    else:
        maps = sorted(_maps(architecture))
        if not any(matches(name, lora.target_modules) for name in (*maps, *_TABLES)):
            reason = f"none of them is in this model, which has {', '.join(maps)}"
            shown = lora.target_modules
            text = shown if isinstance(shown, str) else ",".join(shown)
            taken.append(Assumption("lora.target_modules", text, reason))
    if lora.dropout is None:
        changes["dropout"] = 0.0
    if lora.dtype is None:
        changes["dtype"] = "bfloat16" if narrow else "float32"
    return lora._replace(**changes)


_TABLES = ("embed_tokens", "lm_head")


def _maps(architecture: Architecture) -> set[str]:
    return {linear.name for layer, _ in architecture.layers for linear in layer.linears}


def default_targets(architecture: Architecture) -> tuple[str, ...]:
    """Query and value maps, or the fused one: PEFT's default for most families."""
    names = _maps(architecture)
    for pair in (("q_proj", "v_proj"), ("query", "value"), ("q", "v")):
        if set(pair) <= names:
            return pair
    for name in ("query_key_value", "c_attn", "qkv_proj", "W_pack", "Wqkv", "wqkv"):
        if name in names:
            return (name,)
    return ("q_proj", "v_proj")


def _quantization(
    quantization: Quantization, architecture: Architecture, prepares: bool, taken: list[Assumption]
) -> Quantization:
    changes: dict[str, Any] = {}
    bits = quantization.bits
    kind = quantization.type
    if bits is None:
        bits = {"int8": 8, "fp8": 8}.get(kind or "", 4)
        changes["bits"] = bits
    if kind is None:
        stored = architecture.quantization
        packed = stored if stored in ("gptq", "awq") else "nf4"
        changes["type"] = "int8" if bits == 8 else packed
        taken.append(Assumption("quantization.type", changes["type"], "no type was named"))
    if quantization.double_quant is None:
        changes["double_quant"] = False
    if quantization.compute_dtype is None:
        changes["compute_dtype"] = "bfloat16"
    if quantization.kbit_preparation is None:
        changes["kbit_preparation"] = prepares
        reason = "as this release of TRL does it" if prepares else "nothing prepares it"
        taken.append(Assumption("quantization.kbit_preparation", prepares, reason))
    return quantization._replace(**changes)
