"""The memory of a run: a timeline of phases, and its fullest one.

What lives through a whole step (weights, states) is ``Standing``. Each phase adds what it needs:
saved activations grow through the forward pass, the loss stands on top of all of them, the
backward pass trades them for gradients, and the optimizer's step needs its own temporaries. The
peak is the maximum over phases, never their sum.
"""

from typing import Any

from memlint.api.knowledge.model_types import model_type
from memlint.memory import facts
from memlint.memory.architecture import Attention
from memlint.memory.checkpoints import find_architecture
from memlint.memory.lifetimes import Tensor
from memlint.memory.recording import Recording, Stack
from memlint.memory.saved import Saved
from memlint.memory.standing import TURN, Standing
from memlint.memory.trainer_kinds import kind_of
from memlint.memory.training_run import OfRun, TrainingRun
from memlint.memory.weights import Stock
from memlint.source.record import Record

STEP = "optimizer step"
_LAST, _PASS = "output held from the last step", "keys and values of this pass"


class Phase(Record):
    """A stretch of a step: the tensors at its fullest moment."""

    name: str
    tensors: tuple[Tensor, ...]

    @property
    def total(self) -> int:
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def bytes_by_kind(self) -> dict[str, int]:
        kinds: dict[str, int] = {}
        for tensor in self.tensors:
            kinds[tensor.kind] = kinds.get(tensor.kind, 0) + tensor.bytes
        return dict(sorted(kinds.items(), key=lambda item: -item[1]))

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "bytes_by_kind": self.bytes_by_kind, "total": self.total}


class Timeline(OfRun):
    """One run's phases. Its parts are computed once and put together by phase."""

    def __init__(self, run: TrainingRun) -> None:
        super().__init__(run)
        self.recording = Recording(run)
        self.standing = Standing(run, self.recording)
        self.saved = Saved(run, self.recording)

    def phases(self) -> tuple[Phase, ...]:
        resident = self.standing.resident()
        accumulating = self.standing.keeps_gradients()
        waits = accumulating and not self.optimizer.in_backward
        held = [Tensor("gradients", self.standing.accumulated(), "gradients")] * waits
        loaded = [tensor for tensor in resident if tensor.kind in ("weights", "reference model")]
        phases = [Phase("load", tuple(loaded))]
        if kind_of(self.settings.trainer).generates:
            phases.append(self._generation(resident))
        kept = self._kept_prompts()
        phases += [self._forward(resident + kept + held), self._loss(resident + kept + held)]
        phases += [self._backward(resident + kept, accumulating), self._step(resident)]
        if self.settings.evaluation:
            phases.append(self._evaluation(resident))
        if kind_of(self.settings.trainer).values:
            phases = self._beside_values(phases)
        return tuple(phases)

    def on_host(self) -> int:
        """Bytes that one process keeps in the host's memory for its GPU."""
        standing, stacks = self.standing, self.recording.stacks
        size = self.standing.streamed() if standing.streams() else 0
        if self.saved.offloads():
            size += sum(self.saved.kept(stack) * stack.count for stack in stacks)
        if standing.states_offloaded():
            size += standing.states(self.sharding.states / self.sharding.split)
        return size

    def _beside_values(self, phases: list[Phase]) -> list[Phase]:
        """The phases with what PPO's model of values adds: it is trained whole, runs forward before
        the policy, and backward after it."""
        settings = self.settings
        name = settings.value_model or settings.model
        alone: dict[str, Any] = {"reference_model": False, "frozen_models": {}, "copies": 0}
        alone |= {"method": "full", "lora": None, "quantization": None, "trainer": "loop"}
        known = settings._replace(
            model=name, head="classes", labels=1, seq_len=self.run.length, **alone
        )
        values = Timeline(TrainingRun(known, find_architecture(name, "classes", 1)))
        stays = [one for one in values.standing.resident() if one.kind != "workspace"]
        waits = values.standing.accumulated() * values.standing.keeps_gradients()
        passes = [*stays, *values.saved.upto(), Tensor("gradients", waits, "gradients")]
        # The policy's outputs are float32 under autocast. One turn's are there until the next's.
        width, tokens = (
            4 if settings.autocast else self.run.compute,
            self.run.rows * self.run.length,
        )
        states = (self.architecture.depth + 1) * tokens * self.architecture.hidden * width
        narrow = settings.autocast is True and settings.weights_dtype != "float32"
        passes.append(Tensor("all hidden states in float32", states * narrow, "activations"))
        words = self.architecture.vocabulary * width * ((settings.gradient_accumulation or 1) > 1)
        scored = words * self.run.rows * (settings.completion_len or 1)
        passes.append(Tensor("softmax of the last turn", scored, "logits"))
        parts = {
            "load": [one for one in stays if one.kind == "weights"],
            **dict.fromkeys(("loss", "backward"), passes),
            "forward": [*passes, Tensor("logits of the last turn", words * tokens, "logits")],
            "optimizer step": values._step(stays).tensors,
        }

        def more(name: str) -> list[Tensor]:
            found = [one for one in parts.get(name, stays) if one.bytes]
            return [one._replace(name=f"{one.name} (value model)") for one in found]

        return [one._replace(tensors=(*one.tensors, *more(one.name))) for one in phases]

    def _forward(self, base: list[Tensor]) -> Phase:
        saved = self.saved.upto()
        last = self.recording.stacks[-1]
        for tensor in last.replay.forward.tensors:
            saved.append(tensor._replace(name=f"{tensor.name} (layer at work)"))
        moment = list(base) + self.standing.gather(1) + self._forward_only()
        moment.append(Tensor(_PASS, self._cache()[1], "kv cache"))
        moment += _less(saved, self.saved.kept(last))
        return Phase("forward", tuple(moment))

    def _loss(self, base: list[Tensor]) -> Phase:
        forward, backward = self.recording.head.replay.forward, self.recording.head.replay.backward
        only = self._forward_only()
        before = forward.bytes + sum(tensor.bytes for tensor in only)
        moment = self.standing.head_arrived(base) + self.saved.upto()
        if self.settings.held_outputs is not False:
            moment.append(Tensor(_PASS, self._cache()[1], "kv cache"))
        moment += self.standing.gather(0)
        moment += [*only, *forward.tensors] if before >= backward.bytes else backward.tensors
        if copies := self.settings.logits_copies:
            made = self.architecture
            words = made.vocabulary if made.head == "lm" else made.labels
            size = 4 * self.run.head_tokens * words
            moment.append(Tensor("copies that the loss makes", size * copies, "logits"))
        return Phase("loss", tuple(moment))

    def _forward_only(self) -> list[Tensor]:
        """What stands until the model's forward pass is over."""
        return [
            *self._cast_cache(),
            *self._key_value_cache(),
            *self._last_graph(),
            *self._held_output(_LAST),
        ]

    def _held_output(self, name: str, share: float = 1) -> list[Tensor]:
        """What a loop's own name holds until the next forward pass is over: logits, and keys and
        values. share: of these, which no layer holds any more."""
        if name == _LAST and self.settings.longest_first:
            return []
        parts = [Tensor(name, self.recording.head.replay.held, "logits")]
        if self.settings.held_outputs is not False:
            kept = int(self._cache()[0] * share)
            parts.append(Tensor(f"keys and values in the {name}", kept, "kv cache"))
        return [part for part in parts if part.bytes]

    def _cache(self) -> tuple[int, int]:
        """Bytes of the keys and values of all layers in a loop's outputs, and what of them layers
        do not hold themselves: what is rotated in float32 stays so there, and values with it."""
        rotary = any(layer.attention.rotary for layer, _ in self.architecture.layers)
        width = self.recording.hidden_width() if rotary else self.run.compute
        size = sum(
            count * cache_bytes(layer.attention, self.run.rows, self.run.length, width)
            for layer, count in self.architecture.layers
        )
        size *= bool(self.settings.held_cache) and self.settings.checkpointing == "none"
        return size, size * (width > self.run.compute)

    def _last_graph(self) -> list[Tensor]:
        """What the last step's graph still holds in a loop whose ``loss`` lives until the next.

        Quantized matmuls keep their input as an attribute, which backward does not free.
        """
        settings = self.settings
        if settings.trainer != "loop" or settings.checkpointing != "none" or settings.longest_first:
            return []
        size = sum(stack.replay.stashed * stack.count for stack in self.recording.stacks)
        return [Tensor("inputs kept by the last step's graph", size, "activations")] if size else []

    def _kept_prompts(self) -> list[Tensor]:
        """Keys and values of the prompts whose group comes in several micro-batches, and their
        gradients, which gather until the last of them."""
        settings = self.settings
        shares = settings.shared_prompt and kind_of(settings.trainer).generates
        if not shares or (settings.micro_batch or 1) >= (settings.group_size or 1):
            return []
        rows, length = self.run.rows, settings.prompt_len or 0
        size = sum(
            count * cache_bytes(layer.attention, rows, length, self.run.compute)
            for layer, count in self.architecture.layers
        )
        return [Tensor("keys and values of kept prompts, and gradients", 2 * size, "kv cache")]

    def _key_value_cache(self) -> list[Tensor]:
        """The cache that a family builds while it checkpoints: whole fused projections."""
        architecture, settings = self.architecture, self.settings
        checkpoints = settings.checkpointing in ("full", "reentrant")
        without = facts.reaches(settings.versions, facts.CHECKPOINTS_WITHOUT_CACHE)
        if without or not checkpoints or not model_type(architecture.family).keeps_cache:
            return []
        narrow = settings.autocast and self.holding.quantization is None
        width = self.run.compute if narrow else self.recording.hidden_width()
        size = sum(
            stack.layer.attention.projections[0].outputs * stack.count
            for stack in self.recording.stacks
        )
        total = size * self.run.rows * self.run.length * width
        return [Tensor("key/value cache (whole projections)", total, "kv cache")]

    def _cast_cache(self) -> list[Tensor]:
        """Autocast's copies of float32 weights, held until the forward pass is over; without
        checkpointing autograd keeps the same copies, which the layers count."""
        return [] if self.settings.checkpointing == "none" else self._cast_weights()

    def _cast_weights(self) -> list[Tensor]:
        copies = self.holding.full * sum(
            tensor.bytes * stack.count
            for stack in self.recording.stacks
            for tensor in stack.replay.backward.tensors
            if tensor.kind == "weight copies"
        )
        return [Tensor("weights in the compute dtype", copies, "weight copies")] if copies else []

    def _backward(self, resident: list[Tensor], accumulating: bool) -> Phase:
        """Layer by layer from the last: saved activations fall while gradients grow. Towers come
        after the decoder, and last an embedding that is the output matrix, too."""
        index, tensors, grown = self._fullest_layer(accumulating)
        # FSDP looks ahead in the graph, which has no part yet of what reentrant checkpoints hold.
        moment = [*resident, *self.standing.gather(1 if self.saved.is_reentrant else 2)]
        left = 1 - index / self.architecture.depth
        moment += self._held_output("output that the loop holds", 1 if self._cache()[1] else left)
        if accumulating and (gradients := self.standing.accumulated()):
            moment.append(Tensor("gradients", gradients, "gradients"))
        leak = self.saved.reentrant_leak()
        moment += self.saved.upto(None if leak else index)
        if leak:
            size = leak * (self.architecture.depth - 1 - index)
            name = "input gradients held by FSDP's hooks"
            moment.append(Tensor(name, size, "activation gradients"))
        if grown:
            moment.append(Tensor("gradients so far", grown, "gradients"))
        moment += tensors
        return Phase("backward", tuple(moment))

    def _waiting_head(self) -> int:
        """Bytes of the output matrix's gradient where it waits for that of the embeddings: both are
        one parameter, which gets their sum."""
        whole = self.sharding.name in ("none", "ddp") and self.sharding.split == 1
        trained = self.architecture.tied and self.architecture.head == "lm" and self.holding.full
        return self._head_gradients() if whole and trained else 0

    def _fullest_layer(self, accumulating: bool) -> tuple[int, list[Tensor], int]:
        """The layer whose backward needs the most: number, tensors, and the gradients' bytes."""
        standing, leak = self.standing, self.saved.reentrant_leak()
        waits = self.sharding.name in ("fsdp", "fsdp2") and self.sharding.gradients < 1
        leaves = self.optimizer.in_backward or standing.gradients_offloaded()
        # Sharded gradients that stand whole between micro-batches.
        whole = 1.0 if accumulating else standing.accumulated() / max(standing.gradients(), 1)
        apart = leaves or (accumulating and not waits)
        grown = self._waiting_head() if apart else self._head_gradients()
        stacks = [*self.saved.trained_towers(), *self.recording.stacks]
        index = sum(stack.count for stack in stacks)
        fullest: tuple[int, list[Tensor], int] = (index, [], grown)
        most = -1
        for stack in reversed(stacks):
            tensors = self._layer_tensors(stack, accumulating)
            peak = self._layer_backward(stack, tensors)
            experts = self.sharding.experts if stack.layer.mlp.experts else 1
            size = int(self._part_gradients(stack.stock) / experts / self.sharding.split)
            grows = 0 if accumulating or leaves else int(size * whole)
            for _ in range(stack.count):
                index -= 1
                total = self.saved.before(index, leak) + peak + grown
                if total > most:
                    most, fullest = total, (index, tensors, grown)
                grown += grows
        if (size := self._waiting_head()) + grown > most:
            return 0, [Tensor("gradient of the embeddings", size, "gradients")], grown
        return fullest

    def _head_gradients(self) -> int:
        """Bytes of the output matrix's gradient while the layers run backward.

        FSDP reduces the root's gradients together, when the embeddings' are there.
        """
        stocks = [self.holding.head()]
        if self.architecture.tied:
            stocks.append(self.holding.embedding())
        if self.sharding.name in ("fsdp", "fsdp2") and self.holding.full:
            return max(stock.trainable for stock in stocks) * max(self.run.compute, 2)
        return max(self._part_gradients(stock) for stock in stocks)

    def _part_gradients(self, stock: Stock) -> int:
        whole = (
            stock.trainable * self.standing.gradient_width()
            + stock.adapter * self.holding.adapter_width
        )
        return int(whole * self.sharding.gradients / self.sharding.tensor)

    def _layer_tensors(self, stack: Stack, accumulating: bool) -> list[Tensor]:
        """The tensors of one layer's backward, recompute included, if it has one."""
        if self.holding.head_alone:
            return []
        tensors = list(stack.replay.backward.tensors)
        whole = stack.replay.weight_gradients
        if self.sharding.gradients < 1:
            # Whole gradients of the layer wait for their reduction.
            tensors = [t for t in tensors if t.kind != "gradients"]
            tensors.append(Tensor("whole gradients of the layer", whole, "gradients"))
            if self.sharding.name == "fsdp" and self.holding.full:
                # At the end of a layer its parameters' gradients are joined: they are one flat one.
                inputs = Tensor(
                    "layer input and its gradient", 2 * stack.input, "activation gradients"
                )
                flat = tensors[-1]._replace(name="the same as one flat gradient")
                joined = [tensors[-1], flat, inputs]
                tensors = max(tensors, joined, key=lambda part: sum(one.bytes for one in part))
        elif accumulating and whole:
            size = stack.stock.largest * self.holding.width
            tensors = [t for t in tensors if t.kind != "gradients"]
            tensors.append(Tensor("gradient before it is added", size, "gradients"))
        return tensors

    def _layer_backward(self, stack: Stack, tensors: list[Tensor]) -> int:
        recomputes = self.settings.checkpointing in ("full", "reentrant")
        again = stack.replay.forward.bytes + stack.replay.output
        computed = again if recomputes and not self.holding.head_alone else 0
        return max(sum(tensor.bytes for tensor in tensors), computed)

    def _step(self, resident: list[Tensor]) -> Phase:
        """The optimizer's step: its temporaries beside the gradients, ZeRO-1's own part."""
        optimizer = self.optimizer
        sharding = self.sharding
        # Blocks that stream are given back at the end of backward.
        moment = [one for one in resident if not (self.standing.streams() and one.name == TURN)]
        moment += self._held_output("output that the loop holds")
        if not optimizer.in_backward:
            kept = sharding.states if sharding.name == "zero1" else 1.0
            held = int(self.standing.gradients() * kept)
            moment.append(Tensor("gradients", held, "gradients"))
        if self.standing.states_offloaded():
            return Phase(STEP, tuple(moment))
        base, adapter = self.standing.trained()
        part = sharding.states / sharding.split / sharding.tensor
        numbers = base * self.standing.state_width() + adapter * self.standing.adapter_state_width()
        copies = 4 * (base + adapter) if sharding.master else 0
        temporary = f"{optimizer.name} temporary"
        for name, size in (
            ("float32 gradients for the step", copies * part),
            (temporary, optimizer.foreach * numbers * part),
            (temporary, self.standing.single_temporary()),
        ):
            if size:
                moment.append(Tensor(name, int(size), "optimizer temporaries"))
        return Phase(STEP, tuple(moment))

    def _evaluation(self, resident: list[Tensor]) -> Phase:
        """One batch without gradients: a layer at work, then logits; and those kept for metrics."""
        settings, architecture = self.settings, self.architecture
        rows = settings.eval_batch or settings.micro_batch or 1
        share = rows / (settings.micro_batch or 1)
        outputs = architecture.vocabulary if architecture.head == "lm" else architecture.labels
        moment = self.standing.head_arrived(resident) + self.standing.gather()
        moment += self._cast_weights()
        work = self.recording.evaluated(int(share * self.run.rows))
        last = [Tensor("layer at work", work, "activations")]
        if settings.loss != "chunked" or not kind_of(settings.trainer).tiled:
            count, width = int(share * self.run.head_tokens) * outputs, self.run.compute
            sizes = {"": width, " in float32": 4, " by log-softmax": 4}
            logits = [Tensor(f"evaluation logits{of}", count * sizes[of], "logits") for of in sizes]
            last = max(last, logits, key=lambda some: sum(one.bytes for one in some))
        moment += last
        if settings.eval_rows:
            # Each batch is joined to those before it, so that both stand for a moment. Outputs of
            # a pass under autocast are converted to float32.
            kept = settings.eval_rows * self.run.length * outputs
            width = 4 if settings.autocast else self.run.compute
            moment.append(Tensor("logits kept for metrics", 2 * kept * width, "logits"))
        return Phase("evaluation", tuple(moment))

    def _generation(self, resident: list[Tensor]) -> Phase:
        """Sampling with a key/value cache, or vLLM's share of the GPU."""
        settings = self.settings
        moment = list(resident) + self.standing.gather()
        if settings.generation.get("vllm"):
            woken = self.standing.vllm() if settings.vllm_sleep else []
            return Phase("generation", (*moment, *woken))
        rows = self.run.rows * int(settings.generation.get("steps_per_generation", 1))
        size = 0
        for layer, count in self.architecture.layers:
            size += count * cache_bytes(layer.attention, rows, self.run.length, self.run.compute)
        moment.append(Tensor("key/value cache", size, "kv cache"))
        logits = rows * self.architecture.vocabulary * 4
        if kind_of(settings.trainer).values:
            # PPO keeps the scores of all completions of a step, once in a list and once stacked.
            steps = settings.gradient_accumulation or 1
            logits *= (settings.completion_len or 1) * steps
        moment.append(Tensor("logits of the last token", 2 * logits, "logits"))
        return Phase("generation", tuple(moment))


def cache_bytes(attention: Attention, rows: int, length: int, width: int) -> int:
    """Bytes of one layer's key/value cache. rows x length tokens."""
    if attention.kind in ("linear", "state"):
        return rows * attention.heads * attention.key_dim * attention.value_dim * 4
    if attention.kind in ("none", "convolution"):
        return 0
    if attention.window:
        length = min(length, attention.window)
    return rows * length * attention.key_heads * (attention.key_dim + attention.value_dim) * width


def _less(tensors: list[Tensor], size: int) -> list[Tensor]:
    """The tensors without ``size`` bytes of the largest saved ones."""
    result: list[Tensor] = []
    for tensor in tensors:
        cut = min(size, tensor.bytes)
        size -= cut
        if tensor.bytes > cut:
            result.append(tensor._replace(bytes=tensor.bytes - cut))
    return result
