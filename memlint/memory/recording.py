"""The layers and the loss of one micro-batch, each recorded once and replayed."""

from functools import cached_property, lru_cache

from memlint.api.knowledge.model_types import model_type
from memlint.memory import facts, losses
from memlint.memory.architecture import Layer
from memlint.memory.blocks import layer as record_layer
from memlint.memory.lifetimes import Tensor, Trace, Value, most_at_once
from memlint.memory.linear_maps import Weight, Weights, Work
from memlint.memory.tape import Replay, Tape
from memlint.memory.trainer_kinds import kind_of
from memlint.memory.training_run import OfRun, TrainingRun
from memlint.memory.weights import Stock
from memlint.source.record import Record


class Recorded:
    """One part of the model, recorded and replayed. Its trace and its single tensors, which prices
    do not need, are computed when they are asked for."""

    def __init__(self, tape: Tape, output: Value) -> None:
        self._tape = tape
        self._output = output
        self.replay: Replay = tape.replay(output)

    @cached_property
    def trace(self) -> Trace:
        """The order of allocations and releases."""
        return self._tape.trace(self._output)

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """Every single tensor that it allocates."""
        return self._tape.allocations()


class Stack(Record):
    """A layer kind with its count and what one costs. tower: the name of what it is part of."""

    layer: Layer
    count: int
    stock: Stock
    recorded: Recorded
    input: int
    tower: str = ""

    @property
    def replay(self) -> Replay:
        return self.recorded.replay

    @property
    def trace(self) -> Trace:
        return self.recorded.trace


class Recording(OfRun):
    """What one pass over each part of the model costs.

    stacks: the kinds of layers with their replays. towers: those of towers. head: the loss.
    singles: every tensor that they allocate, with its phase.
    """

    def __init__(self, run: TrainingRun) -> None:
        super().__init__(run)
        self.row = model_type(run.architecture.family)
        self.work = self._work(run.rows)
        self.stacks = self._stacks(self.work)
        self.towers = self._towers()
        self.head = self._head()

    @property
    def singles(self) -> list[tuple[str, Tensor]]:
        layers = {id(stack.recorded): stack.recorded for stack in self.stacks}
        found = [("backward", tensor) for each in layers.values() for tensor in each.tensors]
        return found + [("loss", tensor) for tensor in self.head.tensors]

    def _work(self, rows: int) -> Work:
        settings, run, versions = self.settings, self.run, self.settings.versions
        liger = settings.loss == "liger" and "liger_kernel" in versions
        compiled = bool(settings.compile)
        padded = not settings.packed and rows > 1
        litgpt = facts.uses_litgpt(versions)
        attention, relative = self._attention()
        narrow = self.row.narrow_softmax or run.own_loop
        return Work(
            batch=rows,
            length=run.length,
            compute=max(run.compute, 2),
            autocast=bool(settings.autocast),
            # litgpt writes softcapped attention out, whatever was asked for.
            attention="eager" if litgpt and self.architecture.softcaps_scores else attention,
            norm_kernel="fused" if liger or compiled else "eager",
            gated_kernel=liger or compiled,
            rotary_kernel=liger,
            mask=padded and attention == "sdpa" and settings.trainer not in (None, "loop"),
            repeat_keys=litgpt or not facts.reaches(versions, facts.SDPA_GROUPS),
            joined_projections=litgpt,
            norm_trainable=self.holding.full,
            norm_width=max(self.holding.working, 4 * self.holding.prepared),
            grouped_experts=facts.reaches(versions, facts.GROUPED_EXPERTS),
            fused_activations=compiled or run.own_loop,
            softmax_width=max(run.compute, 2) if narrow and not settings.autocast else 4,
            softmax_keeps_input=not facts.reaches(versions, facts.SOFTMAX_DROPS_INPUT),
            compile=compiled,
            tiled=bool(settings.tiled_mlp),
            relative=relative,
            recasts=self._recasts(),
        )

    def _recasts(self) -> bool:
        """True if autocast computes in fp16 where weights are in bf16, or the other way round."""
        held = self.holding.quantization
        if held is not None and held.type in ("gptq", "awq"):
            return False  # what they leave is stored in fp16, whatever ``weights_dtype`` says
        dtypes = {self.settings.weights_dtype, self.settings.compute_dtype}
        return bool(self.settings.autocast) and dtypes == {"bfloat16", "float16"}

    def _attention(self) -> tuple[str, str]:
        """The implementation, and how a trained bias of positions lies (``Work.relative``)."""
        asked, versions = self.settings.attention or "sdpa", self.settings.versions
        if not self.row.relative:
            return asked, ""
        written = asked == "sdpa" and not facts.reaches(versions, facts.RELATIVE_SDPA)
        if written or asked != "sdpa" or facts.reaches(versions, facts.RELATIVE_KERNEL):
            return "eager" if written else asked, "piece"
        return asked, "scattered"

    def hidden_width(self) -> int:
        """Bytes of one number of the residual stream."""
        layer = self.architecture.norm == "layer" and self.holding.quantization is not None
        if self.holding.prepared or (layer and self.settings.autocast) or self._recasts():
            # Preparation casts embeddings; autocast runs layer norms in float32, and quantized maps
            # answer in their input's dtype: the residual sum is float32, as of bf16 and fp16.
            return 4
        sharded = self.sharding.name in ("fsdp", "fsdp2", "zero1", "zero2", "zero3")
        return max(self.run.compute if sharded else self.holding.other_width, 2)

    def evaluated(self, rows: int) -> int:
        """Bytes at once of the largest layer at work on so many rows, where nothing is dropped out
        or kept for backward; the model's frame holds its embeddings beside the layer's input."""
        work = self._work(rows)
        stacks = self._stacks(work._replace(training=False))
        most = max(2 * stack.input + most_at_once(stack.trace.plain) for stack in stacks)
        return most + work.mask * rows * work.length**2

    def _stacks(self, work: Work) -> tuple[Stack, ...]:
        architecture, row = self.architecture, self.row
        size = architecture.norm_parameters
        shape = architecture.norm, architecture.hidden, size, work, row.post_norm
        return tuple(self._stack(layer, count, *shape) for layer, count in architecture.layers)

    def _towers(self) -> tuple[Stack, ...]:
        found: list[Stack] = []
        for tower in self.architecture.towers:
            work = self.work._replace(length=tower.tokens or self.run.source_length)
            size = tower.hidden * (2 if tower.norm == "layer" else 1)
            shape = tower.norm, tower.hidden, size, work, False
            stacks = (self._stack(layer, count, *shape) for layer, count in tower.layers)
            found += [stack._replace(tower=tower.name) for stack in stacks]
        return tuple(found)

    def _stack(
        self,
        layer: Layer,
        count: int,
        norm: str,
        hidden: int,
        norm_parameters: int,
        work: Work,
        post_norm: bool,
    ) -> Stack:
        weights, width = self.holding.weights(layer), self.hidden_width()
        lengths = (tower.tokens for tower in self.architecture.towers if tower.tokens)
        crosses = layer.cross is not None
        memory = next(lengths, self.run.source_length) if crosses else 0
        held = weights.default, tuple(weights.named.items())
        # The first layer's input needs no gradient where embeddings are frozen; the others' do,
        # and they are the most.
        recorded = _layer(layer, norm, hidden, *held, work, width, memory, post_norm)
        stock = self.holding.layer(layer, norm_parameters)
        return Stack(layer, count, stock, recorded, work.tokens * hidden * width)

    def _head(self) -> Recorded:
        settings = self.settings
        architecture = self.architecture
        trainer = settings.trainer or "loop"
        vocabulary = architecture.vocabulary
        tokens = self.run.head_tokens
        if architecture.head != "lm":
            vocabulary = max(architecture.labels, 1)
            tokens = tokens if self.row.reader == "decoder" else self.run.rows
        if architecture.head == "tokens":
            tokens = self.run.rows * self.run.length
        return _loss(
            losses.Head(
                vocabulary=vocabulary,
                hidden=architecture.hidden,
                tokens=tokens,
                path=settings.loss or "full_logits",
                upcast=facts.upcast(
                    settings.versions,
                    architecture.family,
                    own=self.run.own_loop,
                    pure=not settings.autocast and self.sharding.name != "fsdp2",
                ),
                compiled=bool(settings.compile)
                and (trainer != "loop" or facts.reaches(settings.versions, facts.COMPILED_LOSS)),
                autocast=bool(settings.autocast),
                held=trainer == "loop"
                and settings.held_outputs is not False
                and facts.holds_output(settings.versions, settings.loss),
                held_in_float32=bool(settings.float32_outputs),
                one_sequence=self.run.rows == 1,
                preference=kind_of(trainer).preference,
                scored=kind_of(trainer).values * self.run.rows * (settings.completion_len or 0),
                norm_kind=architecture.norm,
                softcap=architecture.logit_softcap,
                scaled=architecture.logit_scale,
                tiled_by_trl=kind_of(trainer).tiled,
                widened=facts.widens_outputs(settings.versions, trainer),
                in_tiles=bool(settings.head_in_tiles),
                softmax_keeps_input=self.work.softmax_keeps_input,
            ),
            self.holding.head_weight(),
            self.work,
            self.hidden_width(),
        )


# The same layers and losses come again: with another optimizer, and in the next script.
@lru_cache(maxsize=256)
def _layer(
    layer: Layer,
    norm: str,
    hidden: int,
    default: Weight,
    named: tuple[tuple[str, Weight], ...],
    work: Work,
    width: int,
    memory_length: int,
    post_norm: bool,
) -> Recorded:
    """A layer of this hidden size, with its weights as they are held. memory_length: tokens of a
    row that an encoder hands over; 0 where the layer looks at none."""
    tape = Tape()
    x = tape.input("layer input", work.tokens * hidden, width)
    memory = None
    if layer.cross is not None:
        memory = tape.input("encoder output", work.batch * memory_length * hidden, width)
    held = Weights(default, dict(named))
    output = record_layer(tape, x, layer, norm, held, work, memory, memory_length, post_norm)
    return Recorded(tape, output)


@lru_cache(maxsize=256)
def _loss(head: losses.Head, weight: Weight, work: Work, width: int) -> Recorded:
    """The loss on hidden states whose numbers have ``width`` bytes."""
    tape = Tape()
    x = tape.input("last hidden states", work.tokens * head.hidden, width)
    return Recorded(tape, losses.record(tape, x, head, weight, work))
