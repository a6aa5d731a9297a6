"""The layers and the loss of one micro-batch, each recorded once and replayed."""

from __future__ import annotations

from memlint.memory import facts, losses
from memlint.memory.architecture import Layer
from memlint.memory.blocks import layer as record_layer
from memlint.memory.lifetimes import Tensor, Trace
from memlint.memory.linear_maps import Work
from memlint.memory.tape import Replay, Tape
from memlint.memory.training_run import TrainingRun
from memlint.memory.weights import Stock
from memlint.source.record import Record

# Families whose eager attention takes the softmax in the compute dtype.
_NARROW_SOFTMAX = frozenset(
    (
        "gpt2",
        "bert",
        "roberta",
        "xlm-roberta",
        "camembert",
        "electra",
        "distilbert",
        "mpnet",
        "vit",
        "deit",
        "bart",
        "mbart",
        "pegasus",
        "marian",
        "m2m_100",
        "whisper",
    )
)
_POST_NORM = ("bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert", "mpnet")


class Stack(Record):
    """A layer kind with its count and what one costs."""

    layer: Layer
    count: int
    stock: Stock
    replay: Replay
    trace: Trace
    input: int


class Recording:
    """What one pass over each part of the model costs.

    stacks: the kinds of layers with their replays. head_replay, head_trace: of the loss. singles:
    every tensor that they allocate, with its phase.
    """

    def __init__(self, run: TrainingRun) -> None:
        self.run = run
        self.settings, self.architecture = run.settings, run.architecture
        self.sharding, self.holding = run.sharding, run.holding
        self.work = self._work()
        self.singles: list[tuple[str, Tensor]] = []
        self.stacks = self._stacks()
        self.head_replay, self.head_trace = self._head()

    def _work(self) -> Work:
        settings, run, versions = self.settings, self.run, self.settings.versions
        liger = settings.loss == "liger" and "liger_kernel" in versions
        compiled = bool(settings.compile)
        padded = not settings.packed and run.rows > 1
        litgpt = facts.uses_litgpt(versions)
        attention = settings.attention or "sdpa"
        return Work(
            batch=run.rows,
            length=run.length,
            compute=max(run.compute, 2),
            autocast=bool(settings.autocast),
            # litgpt writes softcapped attention out, whatever was asked for.
            attention="eager" if litgpt and self.architecture.softcaps_scores else attention,
            norm_kernel="fused" if liger or compiled else "eager",
            gated_kernel=liger or compiled,
            rotary_kernel=liger,
            mask=padded and settings.attention == "sdpa" and settings.trainer not in (None, "loop"),
            repeat_keys=litgpt or not facts.reaches(versions, facts.SDPA_GROUPS),
            joined_projections=litgpt,
            norm_trainable=self.holding.full,
            norm_width=self._norm_width(),
            grouped_experts=facts.reaches(versions, facts.GROUPED_EXPERTS),
            fused_activations=compiled or run.own_loop,
            softmax_width=self._softmax_width(),
            softmax_keeps_input=not facts.reaches(versions, facts.SOFTMAX_DROPS_INPUT),
            compile=compiled,
        )

    def _norm_width(self) -> int:
        width = self.holding.other_width
        return min(width, 4) if self.settings.autocast and not self.holding.prepared else width

    def _softmax_width(self) -> int:
        """Bytes of one number of the softmax where attention is written out."""
        narrow = self.architecture.family in _NARROW_SOFTMAX or self.run.own_loop
        return max(self.run.compute, 2) if narrow and not self.settings.autocast else 4

    def hidden_width(self) -> int:
        """Bytes of one number of the residual stream."""
        if self.holding.prepared:
            return 4
        quantized = self.holding.quantization is not None
        if self.architecture.norm == "layer" and self.settings.autocast and quantized:
            # Autocast runs layer norms in float32, and quantized maps answer in their input's
            # dtype, so that the residual sum is float32.
            return 4
        sharded = self.sharding.name in ("fsdp", "fsdp2", "zero1", "zero2", "zero3")
        if sharded:
            return max(self.run.compute, 2)
        return max(self.holding.other_width, 2)

    def _stacks(self) -> tuple[Stack, ...]:
        architecture = self.architecture
        width = self.hidden_width()
        tokens = self.run.rows * self.run.length
        cache: dict[Layer, tuple[Stock, Replay, Trace]] = {}
        stacks: list[Stack] = []
        for layer, count in architecture.layers:
            if layer not in cache:
                stock = self.holding.layer(layer, architecture.norm_parameters)
                # The first layer's input needs no gradient where embeddings are frozen; the
                # others' do, and they are the most.
                cache[layer] = (stock, *self._replay(layer, tokens, width))
            stock, replay, trace = cache[layer]
            stacks.append(
                Stack(layer, count, stock, replay, trace, tokens * architecture.hidden * width)
            )
        return tuple(stacks)

    def _replay(self, layer: Layer, tokens: int, width: int) -> tuple[Replay, Trace]:
        tape = Tape()
        hidden = self.architecture.hidden
        x = tape.input("layer input", tokens * hidden, width)
        post = self.architecture.family in _POST_NORM
        memory = None
        memory_length = 0
        if layer.cross is not None:
            memory_length = self._encoder_tokens()
            memory = tape.input("encoder output", self.run.rows * memory_length * hidden, width)
        output = record_layer(
            tape,
            x,
            layer,
            self.architecture.norm,
            self.holding.weights(layer),
            self.work,
            memory=memory,
            memory_length=memory_length,
            post_norm=post,
        )
        trace = tape.trace(output)
        self.singles.extend(("backward", tensor) for tensor in tape.allocations())
        return tape.replay(output), trace

    def _encoder_tokens(self) -> int:
        for tower in self.architecture.towers:
            return tower.tokens or self.run.length
        return self.run.length

    def _head(self) -> tuple[Replay, Trace]:
        settings = self.settings
        architecture = self.architecture
        tape = Tape()
        width = self.hidden_width()
        x = tape.input(
            "last hidden states", self.run.rows * self.run.length * architecture.hidden, width
        )
        trainer = settings.trainer or "loop"
        vocabulary = architecture.vocabulary
        tokens = self.run.head_tokens
        if architecture.head != "lm":
            vocabulary, tokens = max(architecture.labels, 1), self.run.rows
        output = losses.record(
            tape,
            x,
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
                held=trainer == "loop" and facts.holds_output(settings.versions, settings.loss),
                one_sequence=self.run.rows == 1,
                preference=trainer in ("trl.DPOTrainer", "trl.GRPOTrainer"),
                norm_kind=architecture.norm,
                softcap=architecture.logit_softcap,
                scaled=architecture.logit_scale,
                tiled_by_trl=trainer.startswith("trl."),
                widened=facts.widens_outputs(settings.versions, trainer),
                softmax_keeps_input=self.work.softmax_keeps_input,
            ),
            self.holding.head_weight(),
            self.work,
        )
        trace = tape.trace(output)
        self.singles.extend(("loss", tensor) for tensor in tape.allocations())
        return tape.replay(output), trace
