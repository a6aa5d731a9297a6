"""The memory of a run: a timeline of phases, and its fullest one.

What lives through a whole step (weights, states) is ``resident``. Each phase adds what it needs:
saved activations grow through the forward pass, the loss stands on top of all of them, the
backward pass trades them for gradients, and the optimizer's step needs its own temporaries. The
peak is the maximum over phases, never their sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.memory import facts, losses
from memlint.memory.architecture import Architecture, Attention, Layer
from memlint.memory.assume import Assumption, assume
from memlint.memory.blocks import Work
from memlint.memory.blocks import layer as record_layer
from memlint.memory.checkpoints import find_architecture
from memlint.memory.gpus import Gpu, find_gpu
from memlint.memory.lifetimes import Tensor, Trace
from memlint.memory.optimizers import Optimizer, find_optimizer, state_bytes
from memlint.memory.reserving import Play, reserved_over_allocated
from memlint.memory.settings import Settings, SettingsError, dtype_width, read_settings
from memlint.memory.sharding import fullest_part, plan
from memlint.memory.tape import Replay, Tape
from memlint.memory.weights import Holding, Stock
from memlint.source.record import Plain

_CUBLAS = 8519680  # torch's default workspace (":4096:2:16:8"), allocated like any tensor
_LAST = "output held from the last step"
_CUBLAS_HOPPER = 33554432
_NCCL = 600 * 2**20  # communicators' buffers, outside torch's allocator


class Interval(Plain):
    """Bytes: the least and most that the settings allow, and the best estimate."""

    low: int
    estimate: int
    high: int

    def to_json(self) -> dict[str, int]:
        return {"low": self.low, "estimate": self.estimate, "high": self.high}


class Phase(Plain):
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


class Estimate(Plain):
    """What a run needs on one GPU."""

    settings: Settings
    architecture: Architecture
    allocated: Interval
    reserved: Interval
    nvidia_smi: Interval
    phases: tuple[Phase, ...]
    assumptions: tuple[Assumption, ...]
    gpu: Gpu | None
    parameters: int
    trainable: int

    @property
    def peak(self) -> Phase:
        """The fullest phase."""
        return max(self.phases, key=lambda phase: phase.total)

    @property
    def fits(self) -> bool | None:
        """Whether the run fits the GPU; None where no GPU was named.

        Cached blocks go back to the GPU before torch gives up, so that not all that could be
        reserved must fit: what is allocated, a little fragmentation and the context must.
        """
        if self.gpu is None:
            return None
        return self.allocated.estimate * 1.03 + self.gpu.context <= self.gpu.bytes

    def to_json(self) -> dict[str, Any]:
        return {
            "allocated": self.allocated.to_json(),
            "reserved": self.reserved.to_json(),
            "nvidia_smi": self.nvidia_smi.to_json(),
            "phases": [phase.to_json() for phase in self.phases],
            "peak_phase": self.peak.name,
            "assumptions": [assumption.to_json() for assumption in self.assumptions],
            "fits": self.fits,
            "gpu": self.gpu.to_json() if self.gpu else None,
            "parameters": self.parameters,
            "trainable_parameters": self.trainable,
        }


def estimate(settings: Settings | Mapping[str, Any]) -> Estimate:
    """The memory of a run on its fullest GPU.

    Raises:
        SettingsError: a setting is unknown or impossible, or the model is not known.
    """
    given = settings if isinstance(settings, Settings) else read_settings(settings)
    architecture = _as_run(given)
    known = assume(given, architecture)
    run = _Run(known.settings, architecture, known.assumptions).estimate()
    if not known.settings.longest_first:
        return run
    # The first batch, with nothing left from a step before it, or those that follow.
    length = max((known.settings.seq_len or 1) // 2, 1)
    later = _Run(
        known.settings._replace(seq_len=length, longest_first=False),
        architecture,
        known.assumptions,
    ).estimate()
    return max(run, later, key=lambda item: item.allocated.estimate)


def single_tensors(settings: Settings | Mapping[str, Any]) -> tuple[tuple[str, Tensor], ...]:
    """Every size that a run asks the allocator for: phase and tensor, the largest first.

    One layer's tensors (of each kind of layer), the loss's, whole weights with their gradients,
    states and step temporaries, gathered layers and the key/value cache of one layer.
    """
    given = settings if isinstance(settings, Settings) else read_settings(settings)
    architecture = _as_run(given)
    known = assume(given, architecture)
    return _Run(known.settings, architecture, known.assumptions).single_tensors()


def _as_run(settings: Settings) -> Architecture:
    """The model as the run's library builds it."""
    architecture = find_architecture(settings.model)
    if facts.uses_litgpt(settings.versions):
        # Its RMS norm multiplies by the weight in float32, as Gemma's does.
        norm = "gemma" if architecture.norm == "rms" else architecture.norm
        return architecture._replace(tied=False, norm=norm)
    return architecture


class Stack(Plain):
    """A layer kind with its count and what one costs."""

    layer: Layer
    count: int
    stock: Stock
    replay: Replay
    trace: Trace
    input: int


class _Run:
    """One run's numbers, computed once and put together by phase."""

    def __init__(
        self, settings: Settings, architecture: Architecture, assumptions: tuple[Assumption, ...]
    ) -> None:
        self.settings = settings
        self.architecture = architecture
        self.assumptions = assumptions
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
        self.optimizer: Optimizer = found
        self.holding = Holding(architecture, settings)
        if self.sharding.placed:
            self.sharding = self.sharding._replace(split=self._placed())
        self.rows, self.length, self.head_tokens = _batch(settings)
        # Tensor parallelism with sequence-parallel norms divides activations as sequences do.
        parts = self.sharding.sequence * self.sharding.tensor
        self.length = -(-self.length // parts)
        self.head_tokens = -(-self.head_tokens // parts)
        self.compute = dtype_width(settings.compute_dtype or "bfloat16")
        self.own_loop = facts.own_loop(settings.versions, settings.trainer or "loop")
        self.work = self._work()
        self.singles: list[tuple[str, Tensor]] = []
        self.stacks = self._stacks()
        self.head_replay, self.head_trace = self._head()

    def _placed(self) -> float:
        """How often the fullest of the GPUs goes into the model that is placed on them."""
        sizes = [
            self.holding.layer(layer, self.architecture.norm_parameters).base
            for layer, count in self.architecture.layers
            for _ in range(count)
        ]
        embedding, head = self.holding.embedding().base, self.holding.head().base
        return fullest_part(embedding, sizes, head, int(self.sharding.split))

    # What one pass computes with

    def _work(self) -> Work:
        settings = self.settings
        liger = settings.loss == "liger" and "liger_kernel" in settings.versions
        compute = max(self.compute, 2)
        autocast = bool(settings.autocast)
        padded = not settings.packed and self.rows > 1
        trainer = settings.trainer or "loop"
        litgpt = facts.uses_litgpt(settings.versions)
        return Work(
            batch=self.rows,
            length=self.length,
            compute=compute,
            autocast=autocast,
            # litgpt writes softcapped attention out, whatever was asked for.
            attention="eager"
            if litgpt and self.architecture.softcaps_scores
            else settings.attention or "sdpa",
            norm_kernel="fused" if liger or settings.compile else "eager",
            gated_kernel=liger or bool(settings.compile),
            rotary_kernel=liger,
            mask=padded and settings.attention == "sdpa" and trainer != "loop",
            repeat_keys=litgpt or not facts.reaches(settings.versions, facts.SDPA_GROUPS),
            joined_projections=litgpt,
            norm_trainable=self.holding.full,
            norm_width=self.holding.other_width
            if not autocast or self.holding.prepared
            else min(self.holding.other_width, 4),
            grouped_experts=facts.reaches(settings.versions, facts.GROUPED_EXPERTS),
            fused_activations=bool(settings.compile) or self.own_loop,
            softmax_width=compute
            if (self.architecture.family in _NARROW_SOFTMAX or self.own_loop) and not autocast
            else 4,
            softmax_keeps_input=not facts.reaches(settings.versions, facts.SOFTMAX_DROPS_INPUT),
            compile=bool(settings.compile),
        )

    def _hidden_width(self) -> int:
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
            return max(self.compute, 2)
        return max(self.holding.other_width, 2)

    def _stacks(self) -> tuple[Stack, ...]:
        architecture = self.architecture
        width = self._hidden_width()
        tokens = self.rows * self.length
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
            memory = tape.input("encoder output", self.rows * memory_length * hidden, width)
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
            return tower.tokens or self.length
        return self.length

    def _head(self) -> tuple[Replay, Trace]:
        settings = self.settings
        architecture = self.architecture
        tape = Tape()
        width = self._hidden_width()
        x = tape.input("last hidden states", self.rows * self.length * architecture.hidden, width)
        trainer = settings.trainer or "loop"
        vocabulary = architecture.vocabulary
        tokens = self.head_tokens
        if architecture.head != "lm":
            vocabulary, tokens = max(architecture.labels, 1), self.rows
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
                    own=self.own_loop,
                    pure=not settings.autocast and self.sharding.name != "fsdp2",
                ),
                compiled=bool(settings.compile)
                and (trainer != "loop" or facts.reaches(settings.versions, facts.COMPILED_LOSS)),
                autocast=bool(settings.autocast),
                held=trainer == "loop" and facts.holds_output(settings.versions, settings.loss),
                one_sequence=self.rows == 1,
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

    # What lives through a step

    def _trained(self) -> tuple[int, int]:
        """Trainable numbers of the base and of adapters, whole."""
        base = sum(stack.stock.trainable * stack.count for stack in self.stacks)
        adapter = sum(stack.stock.adapter * stack.count for stack in self.stacks)
        for stock in (self.holding.embedding(), self.holding.head()):
            base += stock.trainable
            adapter += stock.adapter
        towers, _ = self._towers()
        return base + (towers if self.holding.full else 0), adapter

    def _towers(self) -> tuple[int, int]:
        numbers = 0
        for tower in self.architecture.towers:
            norm = tower.hidden * (2 if tower.norm == "layer" else 1)
            for layer, count in tower.layers:
                numbers += count * (
                    sum(item.parameters for item in layer.linears)
                    + layer.norms * norm
                    + layer.attention.other_parameters
                )
            numbers += tower.other_parameters
        return numbers, numbers * self.holding.width

    def resident(self) -> list[Tensor]:
        """Weights, adapters, states and buffers that live through the whole step."""
        sharding = self.sharding
        tensors: list[Tensor] = []
        share = sharding.weights / sharding.split / sharding.tensor
        layers = sum(stack.stock.base * stack.count for stack in self.stacks)
        codes = sum(stack.stock.quantized * stack.count for stack in self.stacks)
        expert_share = (
            1.0 / sharding.experts if any(stack.layer.mlp.experts for stack in self.stacks) else 1.0
        )
        embedding, head = self.holding.embedding(), self.holding.head()
        _, tower_bytes = self._towers()
        master_width = self._master_width()
        full_width = self.holding.width
        scale = share * master_width / full_width if self.holding.full else share
        if self._streams():
            tensors += self._streamed_weights(tower_bytes)
        elif sharding.parameter_offload:
            if sharding.gathered_layers == 0:
                tensors.append(Tensor("embeddings", int(embedding.base * share), "weights"))
                tensors.append(Tensor("output matrix", int(head.base * share), "weights"))
                largest = max(stack.stock.base for stack in self.stacks)
                turn = min(2 * largest, layers)
                tensors.append(Tensor(_TURN, int(turn * share), "weights"))
        else:
            if codes:
                tensors.append(Tensor("quantized layers", int(codes * share), "weights"))
            tensors.append(
                Tensor("layers", int((layers - codes) * scale * expert_share), "weights")
            )
            tensors.append(Tensor("embeddings", int(embedding.base * scale), "weights"))
            if head.base:
                tensors.append(Tensor("output matrix", int(head.base * scale), "weights"))
            if tower_bytes:
                tensors.append(
                    Tensor("encoder or vision tower", int(tower_bytes * scale), "weights")
                )
        base, adapter = self._trained()
        part = sharding.states / sharding.split / sharding.tensor * expert_share
        if adapter:
            tensors.append(
                Tensor(
                    "adapters",
                    int(adapter * self.holding.adapter_width * sharding.weights),
                    "adapters",
                )
            )
        if sharding.master and base + adapter and not self._states_offloaded():
            numbers = base if full_width < 4 else 0
            numbers += adapter if self.holding.adapter_width < 4 else 0
            if numbers:
                tensors.append(
                    Tensor("float32 master weights", int(4 * numbers * part), "master weights")
                )
        states = self._states(part)
        if states and not self._states_offloaded() and not self.optimizer.paged:
            tensors.append(Tensor(f"{self.optimizer.name} states", states, "optimizer states"))
        if sharding.buckets:
            tensors.append(Tensor("gradient buckets", self._gradients(), "communication"))
        if sharding.reduce_bytes:
            tensors.append(Tensor("reduction buckets", sharding.reduce_bytes, "communication"))
        if self.settings.reference_model:
            whole = sum(stack.stock.base * stack.count for stack in self.stacks)
            whole += embedding.base + head.base
            tensors.append(Tensor("reference model", int(whole * share), "reference model"))
        hopper = self.gpu is not None and self.gpu.hopper
        tensors.append(
            Tensor("cuBLAS workspace", _CUBLAS_HOPPER if hopper else _CUBLAS, "workspace")
        )
        tokens = self.rows * self.length
        tensors.append(Tensor("batch (ids, labels, mask, positions)", 8 * 4 * tokens, "batch"))
        return tensors

    def _streams(self) -> bool:
        """Whether the runtime keeps a frozen base on the host, block by block."""
        return bool(self.settings.streamed) and not self.holding.full and not self._gathers()

    def _gathers(self) -> bool:
        sharding = self.sharding
        return bool(sharding.gathered_layers) or sharding.split > 1 or sharding.tensor > 1

    def _streamed_weights(self, towers: int) -> list[Tensor]:
        """Two blocks in turn; norms and biases stay, as does what is trained."""
        stocks = [(stack.stock, stack.count) for stack in self.stacks]
        stocks += [(self.holding.embedding(), 1), (self.holding.head(), 1)]
        stay = sum((stock.base - stock.streams) * count for stock, count in stocks)
        tensors = [
            Tensor(_TURN, self._ring(), "weights"),
            Tensor("norms, biases and trained tables", stay, "weights"),
        ]
        if towers:
            tensors.append(Tensor("encoder or vision tower", towers, "weights"))
        return tensors

    def _ring(self) -> int:
        blocks = sum(stack.stock.streams * stack.count for stack in self.stacks)
        return min(2 * max(stack.stock.streams for stack in self.stacks), blocks)

    def _head_arrived(self, base: list[Tensor]) -> list[Tensor]:
        """The resident tensors while the loss is computed: a streamed head is there as a whole,
        unless the runtime's own loss reads it by tiles."""
        if not self._streams() or self.settings.head_in_tiles:
            return base
        head = self.holding.embedding() if self.architecture.tied else self.holding.head()
        if head.streams <= self._ring():
            return base
        arrived = Tensor("output matrix", head.streams, "weights")
        return [arrived if tensor.name == _TURN else tensor for tensor in base]

    def _states_offloaded(self) -> bool:
        """Whether states live on the host: by choice, or because sharded parameters do."""
        sharding = self.sharding
        return sharding.optimizer_offload or (
            sharding.parameter_offload and sharding.gathered_layers > 0
        )

    def _gradients_offloaded(self) -> bool:
        """Whether reduced gradients go to the host, where sharded parameters are."""
        return self._states_offloaded() and self.sharding.parameter_offload

    def _master_width(self) -> int:
        """Bytes of one sharded trained weight: FSDP keeps float32 under mixed precision."""
        if self.sharding.name in ("fsdp", "fsdp2") and self.settings.autocast:
            return 4
        return self.holding.width

    def _state_width(self) -> int:
        if self.sharding.master:
            return 4
        return self._master_width() if self.holding.full else self.holding.width

    def _states(self, part: float) -> int:
        """Bytes of optimizer states on this GPU."""
        optimizer = self.optimizer
        if self.sharding.name in ("fsdp", "zero1", "zero2", "zero3") and part < 1:
            base, adapter = self._trained()
            flat = Optimizer(
                optimizer.name,
                optimizer.moments,
                optimizer.fixed,
                optimizer.bits,
                optimizer.block,
                0,
            )
            return int(
                part
                * (
                    state_bytes(flat, base, self._state_width())
                    + state_bytes(flat, adapter, self._adapter_state_width())
                )
            )
        total = 0
        for stack in self.stacks:
            for rows, columns, times in stack.stock.shapes:
                width = (
                    self._state_width()
                    if not stack.stock.adapter
                    else (self._adapter_state_width())
                )
                total += (
                    stack.count
                    * times
                    * state_bytes(optimizer, rows * columns, width, rows=rows, columns=columns)
                )
        for stock, table in ((self.holding.embedding(), True), (self.holding.head(), False)):
            for rows, columns, times in stock.shapes:
                total += times * state_bytes(
                    optimizer,
                    rows * columns,
                    self._state_width(),
                    rows=rows,
                    columns=columns,
                    embedding=table,
                    head=not table,
                )
            if stock.adapter:
                total += state_bytes(optimizer, stock.adapter, self._adapter_state_width())
        towers, _ = self._towers()
        if self.holding.full and towers:
            total += state_bytes(optimizer, towers, self._state_width())
        return int(total * part)

    def _adapter_state_width(self) -> int:
        return 4 if self.sharding.master else self.holding.adapter_width

    def _gradient_width(self) -> int:
        if self.sharding.name in ("fsdp", "fsdp2"):
            return self._master_width()
        return self.holding.width

    def _gradients(self) -> int:
        """Bytes of all gradients, as one GPU holds them after backward."""
        sharding = self.sharding
        if self._gradients_offloaded():
            return 0
        base, adapter = self._trained()
        whole = base * self._gradient_width() + adapter * self.holding.adapter_width
        experts = (
            1.0 / sharding.experts if any(stack.layer.mlp.experts for stack in self.stacks) else 1.0
        )
        return int(whole * sharding.gradients / sharding.split / sharding.tensor * experts)

    def _accumulated(self) -> int:
        """Bytes of gradients between micro-batches.

        FSDP does not reduce before the last one (``no_sync``): gradients stay whole, in the
        compute dtype. A loop that wraps adapters and frozen weights in one unit keeps gradients
        of both, for they are one flat parameter.
        """
        sharding = self.sharding
        if not sharding.name.startswith("fsdp") or sharding.gradients == 1:
            return self._gradients()
        if (self.settings.gradient_accumulation or 1) == 1:
            return self._gradients()
        base, adapter = self._trained()
        if not self.holding.full and self.own_loop:
            base = self.architecture.parameters
        whole = base * max(self.compute, 2) + adapter * self.holding.adapter_width
        return int(whole / sharding.split / sharding.tensor)

    def _keeps_gradients(self) -> bool:
        """Whether gradients stand while the next forward pass runs."""
        if (self.settings.gradient_accumulation or 1) > 1:
            return not self.settings.longest_first
        return not facts.reaches(self.settings.versions, facts.FREES_GRADIENTS)

    # Phases

    def phases(self) -> tuple[Phase, ...]:
        resident = self.resident()
        accumulating = self._keeps_gradients()
        held = (
            [Tensor("gradients", self._accumulated(), "gradients")]
            if (accumulating and not self.optimizer.in_backward)
            else []
        )
        phases = [
            Phase(
                "load",
                tuple(
                    tensor for tensor in resident if tensor.kind in ("weights", "reference model")
                ),
            )
        ]
        if self.settings.trainer == "trl.GRPOTrainer":
            phases.append(self._generation(resident))
        phases.append(self._forward(resident + held))
        phases.append(self._loss(resident + held))
        phases.append(self._backward(resident, accumulating))
        phases.append(self._step(resident))
        if self.settings.evaluation:
            phases.append(self._evaluation(resident))
        return tuple(phases)

    def _gather(self, backward: bool) -> list[Tensor]:
        """Whole weights beside the shards: the root, the layer at work and the next."""
        sharding = self.sharding
        if not sharding.gathered_layers:
            return []
        width = self._gather_width()
        embedding, head = self.holding.embedding(), self.holding.head()
        architecture = self.architecture
        tensors: list[Tensor] = []
        largest = max((self._layer_gathered(stack, width) for stack in self.stacks), default=0)
        if sharding.live_parameters:
            whole = sum(self._layer_gathered(stack, width) * stack.count for stack in self.stacks)
            budget = min(sharding.live_parameters * width, whole)
            tensors.append(Tensor("gathered parameters", max(budget, 2 * largest), "gathered"))
            del embedding, head
            root = architecture.embedding_parameters + architecture.head_parameters
            # ZeRO gathers parameter by parameter, FSDP its root as one.
            part = root * width // (2 if sharding.name == "zero3" else 1)
            tensors.append(Tensor("gathered embeddings or head", part, "gathered"))
            return tensors
        root = (
            architecture.embedding_parameters
            + architecture.head_parameters
            + architecture.norm_parameters
        )
        tensors.append(Tensor("gathered embeddings and head", root * width, "gathered"))
        tensors.append(Tensor("gathered layers", sharding.gathered_layers * largest, "gathered"))
        return tensors

    def _gather_width(self) -> int:
        if self.holding.full:
            return max(self.compute, 2)
        return self.holding.width

    def _layer_gathered(self, stack: Stack, width: int) -> int:
        if self.holding.full:
            return self.architecture.layer_parameters(stack.layer) * width
        return stack.stock.base

    def _offloads(self) -> bool:
        return self.settings.offload == "activations"

    def _kept(self, stack: Stack) -> int:
        """Bytes that one layer leaves for backward."""
        mode = self.settings.checkpointing
        if mode in ("full", "reentrant"):
            return stack.input
        if mode == "selective":
            return self._selective(stack)
        return stack.replay.saved

    def _selective(self, stack: Stack) -> int:
        """Every second matmul's output is kept, the rest computed again (torchtitan's list)."""
        tokens = self.rows * self.length
        layer = stack.layer
        outputs = [linear.outputs for linear in layer.linears]
        kept = sum(outputs[::2]) if outputs else 0
        width = max(self.compute, 2)
        attention = layer.attention
        core = attention.heads * attention.value_dim * width + 4 * attention.heads
        return stack.input + tokens * (kept * width + core)

    def _saved(self, upto: int | None = None) -> list[Tensor]:
        """What all layers (or the first ``upto``) have saved when the next one runs."""
        tensors: list[Tensor] = []
        left = self.architecture.depth if upto is None else upto
        names: dict[str, tuple[int, str]] = {}
        for stack in self.stacks:
            count = min(stack.count, left)
            left -= count
            if count <= 0:
                break
            share = count / self.sharding.split
            if self._offloads():
                continue
            if self.settings.checkpointing in ("full", "reentrant", "selective"):
                size = int(self._kept(stack) * share)
                old = names.get("checkpointed layer inputs", (0, ""))[0]
                names["checkpointed layer inputs"] = (old + size, "activations")
                continue
            for tensor in stack.replay.saved_tensors:
                old, _ = names.get(tensor.name, (0, ""))
                names[tensor.name] = (old + int(tensor.bytes * share), tensor.kind)
        tensors.extend(
            Tensor(f"{name} of {self.architecture.depth} layers", size, kind)
            for name, (size, kind) in names.items()
        )
        if self._offloads() and self.stacks:
            whole = sum(self._kept(stack) * stack.count for stack in self.stacks)
            stash = min(5 * self.stacks[0].input, int(whole / self.sharding.split))
            tensors.append(Tensor("offload stash", stash, "activations"))
        return tensors

    def _towers_saved(self) -> list[Tensor]:
        """What an encoder or a vision tower keeps while the decoder runs."""
        tensors: list[Tensor] = []
        for tower in self.architecture.towers:
            trained = self.holding.full or (
                self.holding.lora is not None and self.architecture.encoder_decoder
            )
            if not trained:
                continue
            tokens = self.rows * (tower.tokens or self.length)
            width = self._hidden_width()
            for layer, count in tower.layers:
                if self.settings.checkpointing in ("full", "reentrant"):
                    size = tokens * tower.hidden * width
                else:
                    tape = Tape()
                    x = tape.input("layer input", tokens * tower.hidden, width)
                    work = self.work._replace(length=tower.tokens or self.length)
                    size = tape.replay(
                        record_layer(tape, x, layer, tower.norm, self.holding.weights(layer), work)
                    ).saved
                tensors.append(Tensor(f"{tower.name} activations", size * count, "activations"))
        return tensors

    def _forward(self, base: list[Tensor]) -> Phase:
        saved = self._saved()
        last = self.stacks[-1]
        for tensor in last.replay.forward.tensors:
            saved.append(tensor._replace(name=f"{tensor.name} (layer at work)"))
        kept = self._kept(last)
        extra = -min(kept, sum(t.bytes for t in saved))
        moment = list(base) + self._towers_saved() + self._gather(False) + self._forward_only()
        moment += _less(saved, -extra)
        return Phase("forward", tuple(moment))

    def _loss(self, base: list[Tensor]) -> Phase:
        forward, backward = self.head_replay.forward, self.head_replay.backward
        only = self._forward_only()
        before = forward.bytes + sum(tensor.bytes for tensor in only)
        moment = self._head_arrived(base) + self._saved()
        moment += self._towers_saved() + self._gather(False)
        moment += [*only, *forward.tensors] if before >= backward.bytes else backward.tensors
        return Phase("loss", tuple(moment))

    def _forward_only(self) -> list[Tensor]:
        """What stands until the model's forward pass is over."""
        return [
            *self._cast_cache(),
            *self._key_value_cache(),
            *self._last_graph(),
            *self._held_output(_LAST),
        ]

    def _held_output(self, name: str) -> list[Tensor]:
        """The logits that a loop's own name holds until the next forward pass is over."""
        size = self.head_replay.held
        if name == _LAST and self.settings.longest_first:
            return []
        return [Tensor(name, size, "logits")] if size else []

    def _last_graph(self) -> list[Tensor]:
        """What the last step's graph still holds in a loop whose ``loss`` lives until the next.

        Quantized matmuls keep their input as an attribute, which backward does not free.
        """
        settings = self.settings
        if settings.trainer != "loop" or settings.checkpointing != "none":
            return []
        if settings.longest_first:
            return []
        size = sum(stack.replay.stashed * stack.count for stack in self.stacks)
        return [Tensor("inputs kept by the last step's graph", size, "activations")] if size else []

    def _key_value_cache(self) -> list[Tensor]:
        """The cache that a family builds while it checkpoints: whole fused projections."""
        architecture, settings = self.architecture, self.settings
        if architecture.family not in facts.CACHE_KEEPING_FAMILIES or facts.reaches(
            settings.versions, facts.CHECKPOINTS_WITHOUT_CACHE
        ):
            return []
        if settings.checkpointing not in ("full", "reentrant"):
            return []
        quantized = self.holding.quantization is not None
        width = self._hidden_width() if quantized or not settings.autocast else self.compute
        size = sum(
            stack.layer.attention.projections[0].outputs * stack.count for stack in self.stacks
        )
        total = size * self.rows * self.length * width
        return [Tensor("key/value cache (whole projections)", total, "kv cache")]

    def _cast_cache(self) -> list[Tensor]:
        """Autocast's copies of float32 weights, held until the forward pass is over.

        Without checkpointing autograd keeps the same copies, which the layers count.
        """
        copies = (
            sum(
                tensor.bytes * stack.count
                for stack in self.stacks
                for tensor in stack.replay.backward.tensors
                if tensor.kind == "weight copies"
            )
            if self.settings.checkpointing != "none" and self.holding.full
            else 0
        )
        return [Tensor("weights in the compute dtype", copies, "weight copies")] if copies else []

    def _backward(self, resident: list[Tensor], accumulating: bool) -> Phase:
        """Layer by layer from the last: saved activations fall while gradients grow."""
        stacks = self.stacks
        depth = self.architecture.depth
        gradients = 0 if not accumulating else self._accumulated()
        leak = self._reentrant_leak()
        head = self._head_gradients()
        waits = self.sharding.name in ("fsdp", "fsdp2") and self.sharding.gradients < 1
        leaves = self.optimizer.in_backward or self._gradients_offloaded()
        # Sharded gradients that stand whole between micro-batches.
        whole = self._accumulated() / max(self._gradients(), 1) if not accumulating else 1.0
        grown = 0 if (accumulating and not waits) or leaves else head
        best: tuple[int, int, Stack, int] | None = None
        index = depth
        for stack in reversed(stacks):
            each = self._layer_gradients(stack)
            peak = self._layer_backward(stack, accumulating)
            for _ in range(stack.count):
                index -= 1
                saved = self._saved_before(index, leak)
                total = saved + peak + grown
                if best is None or total > best[0]:
                    best = (total, index, stack, grown)
                if not accumulating and not leaves:
                    grown += int(each * whole)
        moment = (
            list(resident) + self._gather(True) + self._held_output("output that the loop holds")
        )
        if accumulating and gradients:
            moment.append(Tensor("gradients", gradients, "gradients"))
        if best is not None:
            _, index, stack, grown = best
            moment += self._saved(index if not leak else None)
            if leak:
                moment.append(
                    Tensor(
                        "input gradients held by FSDP's hooks",
                        leak * (depth - 1 - index),
                        "activation gradients",
                    )
                )
            if grown:
                moment.append(Tensor("gradients so far", grown, "gradients"))
            moment += self._layer_tensors(stack, accumulating)
        if index <= 1:
            moment += self._towers_saved()
        return Phase("backward", tuple(moment))

    def _reentrant_leak(self) -> int:
        """Bytes of a layer's input gradient where FSDP's hooks keep them until backward ends.

        FSDP1 watches the inputs of layers whose weights are frozen; under reentrant checkpointing
        these are leaves, so that the hook holds each input and its gradient.
        """
        reentrant = self.settings.checkpointing == "reentrant" or (
            self.settings.checkpointing == "full"
            and bool(self.settings.versions.get("transformers"))
            and not facts.reaches(self.settings.versions, facts.NON_REENTRANT)
        )
        frozen = not self.holding.full
        if self.sharding.name == "fsdp" and self.sharding.gathered_layers and reentrant and frozen:
            return self.stacks[-1].input
        return 0

    def _saved_before(self, index: int, leak: int) -> int:
        if leak:
            depth = self.architecture.depth
            return sum(tensor.bytes for tensor in self._cached_saved(depth)) + leak * (
                depth - 1 - index
            )
        return sum(tensor.bytes for tensor in self._cached_saved(index))

    def _cached_saved(self, upto: int) -> list[Tensor]:
        cache: dict[int, list[Tensor]] = self.__dict__.setdefault("_saved_cache", {})
        if upto not in cache:
            total = 0
            left = upto
            for stack in self.stacks:
                count = min(stack.count, left)
                left -= count
                if count > 0 and not self._offloads():
                    total += int(self._kept(stack) * count / self.sharding.split)
            cache[upto] = [Tensor("saved", total, "activations")]
        return cache[upto]

    def _head_gradients(self) -> int:
        """Bytes of the output matrix's gradient while the layers run backward.

        FSDP reduces the root's gradients together, when the embeddings' are there.
        """
        stocks = [self.holding.head()]
        if self.architecture.tied:
            stocks.append(self.holding.embedding())
        if self.sharding.name in ("fsdp", "fsdp2") and self.holding.full:
            return max(stock.trainable for stock in stocks) * max(self.compute, 2)
        return max(self._part_gradients(stock) for stock in stocks)

    def _part_gradients(self, stock: Stock) -> int:
        whole = (
            stock.trainable * self._gradient_width() + stock.adapter * self.holding.adapter_width
        )
        return int(whole * self.sharding.gradients / self.sharding.tensor)

    def _layer_gradients(self, stack: Stack) -> int:
        experts = self.sharding.experts if stack.layer.mlp.experts else 1
        return int(self._part_gradients(stack.stock) / experts / self.sharding.split)

    def _layer_tensors(self, stack: Stack, accumulating: bool) -> list[Tensor]:
        """The tensors of one layer's backward, its recompute included."""
        tensors = list(stack.replay.backward.tensors)
        whole = stack.replay.weight_gradients
        if self.sharding.gradients < 1:
            # Whole gradients of the layer wait for their reduction.
            tensors = [t for t in tensors if t.kind != "gradients"]
            tensors.append(Tensor("whole gradients of the layer", whole, "gradients"))
            if self.sharding.name == "fsdp" and self.holding.full:
                tensors = max(tensors, self._joined_gradients(stack, whole), key=_total)
        elif accumulating and whole:
            tensors = [t for t in tensors if t.kind != "gradients"]
            tensors.append(
                Tensor(
                    "gradient before it is added",
                    stack.stock.largest * self.holding.width,
                    "gradients",
                )
            )
        return tensors

    def _joined_gradients(self, stack: Stack, whole: int) -> list[Tensor]:
        """The end of a layer's backward under FSDP1: its parameters are parts of a flat one, so
        that their gradients are joined into one more tensor."""
        return [
            Tensor("whole gradients of the layer", whole, "gradients"),
            Tensor("the same as one flat gradient", whole, "gradients"),
            Tensor("layer input and its gradient", 2 * stack.input, "activation gradients"),
        ]

    def _layer_backward(self, stack: Stack, accumulating: bool) -> int:
        peak = sum(tensor.bytes for tensor in self._layer_tensors(stack, accumulating))
        if self.settings.checkpointing in ("full", "reentrant"):
            again = stack.replay.forward.bytes + stack.replay.output
            return max(peak, again)
        return peak

    def _step(self, resident: list[Tensor]) -> Phase:
        """The optimizer's step: gradients whole, its temporaries beside them."""
        optimizer = self.optimizer
        sharding = self.sharding
        # Blocks that stream are given back at the end of backward.
        moment = [one for one in resident if not (self._streams() and one.name == _TURN)]
        moment += self._held_output("output that the loop holds")
        if not optimizer.in_backward:
            moment.append(Tensor("gradients", self._gradients(), "gradients"))
        base, adapter = self._trained()
        part = sharding.states / sharding.split / sharding.tensor
        if sharding.master and not self._states_offloaded():
            moment.append(
                Tensor(
                    "float32 gradients for the step",
                    int(4 * (base + adapter) * part),
                    "optimizer temporaries",
                )
            )
        if optimizer.foreach and not self._states_offloaded():
            numbers = base * self._state_width() + adapter * self._adapter_state_width()
            moment.append(
                Tensor(
                    f"{optimizer.name} temporary",
                    int(optimizer.foreach * numbers * part),
                    "optimizer temporaries",
                )
            )
        if optimizer.single and not self._states_offloaded():
            size = self._single_temporary()
            moment.append(Tensor(f"{optimizer.name} temporary", size, "optimizer temporaries"))
        return Phase("optimizer step", tuple(moment))

    def _single_temporary(self) -> int:
        """Bytes that a step needs for the largest of its parameters, taken one by one."""
        optimizer = self.optimizer
        table = max(self.holding.embedding().largest, self.holding.head().largest)
        largest = max(stack.stock.largest for stack in self.stacks)
        size = optimizer.single * 4 * max(largest, 0 if optimizer.rank else table)
        if optimizer.rank:
            # Tables get the plain step: a root and a quotient of their own dtype.
            size = max(size, 2 * self._state_width() * table)
        return int(size)

    def _evaluation(self, resident: list[Tensor]) -> Phase:
        architecture = self.architecture
        tokens = self.rows * self.length
        logits = tokens * architecture.vocabulary
        moment = self._head_arrived(resident) + self._gather(False)
        moment.append(Tensor("evaluation logits", logits * self.compute, "logits"))
        moment.append(Tensor("evaluation logits in float32", logits * 4, "logits"))
        moment.append(Tensor("log-softmax", logits * 4, "logits"))
        return Phase("evaluation", tuple(moment))

    def _generation(self, resident: list[Tensor]) -> Phase:
        """Sampling with a key/value cache, or vLLM's share of the GPU."""
        settings = self.settings
        moment = list(resident) + self._gather(False)
        utilization = settings.generation.get("vllm_gpu_memory_utilization")
        if settings.generation.get("vllm") and utilization and self.gpu:
            moment.append(Tensor("vLLM", int(self.gpu.bytes * float(utilization)), "vLLM"))
            return Phase("generation", tuple(moment))
        if settings.generation.get("vllm"):
            return Phase("generation", tuple(moment))
        rows = self.rows * int(settings.generation.get("steps_per_generation", 1))
        size = 0
        for layer, count in self.architecture.layers:
            size += count * cache_bytes(layer.attention, rows, self.length, self.compute)
        moment.append(Tensor("key/value cache", size, "kv cache"))
        logits = rows * self.architecture.vocabulary * 4
        moment.append(Tensor("logits of the last token", 2 * logits, "logits"))
        return Phase("generation", tuple(moment))

    def single_tensors(self) -> tuple[tuple[str, Tensor], ...]:
        """Every size that the run asks the allocator for, the largest first."""
        found = list(self.singles)
        width = self.holding.width
        matrices = {
            (linear.name, linear.inputs, linear.outputs * linear.experts)
            for stack in self.stacks
            for linear in stack.layer.linears
        }
        architecture = self.architecture
        for name in ("embeddings", "lm_head"):
            matrices.add((name, architecture.vocabulary, architecture.hidden))
        optimizer = self.optimizer
        for name, inputs, outputs in sorted(matrices):
            numel = inputs * outputs
            sizes = f"{inputs} x {outputs} x {width} bytes"
            found.append(("load", Tensor(name, numel * width, "weights", sizes)))
            if not self.holding.full:
                continue
            found.append(
                ("backward", Tensor(f"gradient of {name}", numel * width, "gradients", sizes))
            )
            if optimizer.moments:
                state = (
                    state_bytes(optimizer, numel, self._state_width(), rows=inputs, columns=outputs)
                    // optimizer.moments
                )
                found.append(
                    ("optimizer step", Tensor(f"one state of {name}", state, "optimizer states"))
                )
            if optimizer.foreach or optimizer.single:
                each = self._state_width() if optimizer.foreach else 4
                found.append(
                    (
                        "optimizer step",
                        Tensor(
                            f"temporary of {name}",
                            numel * each,
                            "optimizer temporaries",
                            f"{inputs} x {outputs} x {each} bytes",
                        ),
                    )
                )
        found.extend(("forward", tensor) for tensor in self._gather(False))
        found.extend(
            (
                "generation",
                Tensor(
                    "key/value cache of a layer",
                    cache_bytes(stack.layer.attention, self.rows, self.length, self.compute),
                    "kv cache",
                ),
            )
            for stack in self.stacks[:1]
            if self.settings.trainer == "trl.GRPOTrainer"
        )
        unique = {(phase, tensor.name, tensor.bytes): (phase, tensor) for phase, tensor in found}
        return tuple(sorted(unique.values(), key=lambda item: -item[1].bytes))

    def _reserved(self, resident: list[Tensor]) -> float:
        """What the caching allocator takes from the GPU for each byte that it hands out."""
        settings, optimizer, sharding = self.settings, self.optimizer, self.sharding
        stack = max(self.stacks, key=lambda item: item.count)
        states = sum(tensor.bytes for tensor in resident if tensor.kind == "optimizer states")
        fixed = sum(tensor.bytes for tensor in resident) - states
        gather = self._gather(False)
        if gather and not sharding.live_parameters:
            fixed += gather[0].bytes
        elif gather:
            fixed += sum(tensor.bytes for tensor in gather)
        base, adapter = self._trained()
        whole = max(base * self.holding.working + adapter * self.holding.adapter_width, 1)
        share = 0.0 if optimizer.in_backward else self._gradients() / whole
        accumulating = self._keeps_gradients()
        if accumulating:
            fixed += max(self._accumulated() - self._gradients(), 0)
        return reserved_over_allocated(
            Play(
                layer=stack.trace,
                head=self.head_trace,
                depth=max(int(self.architecture.depth / sharding.split), 1),
                checkpointed=settings.checkpointing in ("full", "reentrant"),
                offloaded=self._offloads(),
                input_kept=any(
                    tensor.name == "layer input" for tensor in stack.replay.saved_tensors
                ),
                input=stack.input,
                gradients=share,
                states=states / whole,
                temporaries=0.0 if self._states_offloaded() else optimizer.foreach * share,
                single=0.0
                if self._states_offloaded()
                else optimizer.single * 4 * share / self.holding.working,
                single_most=self._single_temporary(),
                embedding=self.holding.embedding().trainable * self.holding.working,
                gathered=gather[1].bytes // 2 if gather and not sharding.live_parameters else 0,
                fixed=fixed,
                leak=bool(self._reentrant_leak()),
                accumulating=accumulating,
                capacity=self.gpu.bytes - self.gpu.context if self.gpu else 0,
                scales=(1.0, 1.0)
                if settings.packed or settings.sharding_options.get("fixed_length")
                else _VARYING,
            )
        )

    def estimate(self) -> Estimate:
        phases = self.phases()
        peak = max(phase.total for phase in phases)
        base, adapter = self._trained()
        allocated = _around(peak, 0.04, 0.05)
        reserved = int(peak * max(self._reserved(self.resident()), 1.01))
        if self.gpu is not None and peak < self.gpu.bytes - self.gpu.context:
            # The allocator gives cached blocks back before it takes more than the GPU has.
            reserved = min(reserved, self.gpu.bytes - self.gpu.context)
        low, high = peak, int(reserved * 1.1 + 0.4 * (reserved - peak))
        context = self.gpu.context if self.gpu else 500 * 2**20
        if self.sharding.world > 1:
            context += _NCCL
        if not facts.reaches(self.settings.versions, facts.LAZY_KERNELS):
            context = max(context, 1343 * 2**20)
        paged = 0
        if self.optimizer.paged:
            part = self.sharding.states / self.sharding.split
            paged = self._states(part)
        return Estimate(
            settings=self.settings,
            architecture=self.architecture,
            allocated=allocated,
            reserved=Interval(low, reserved, high),
            nvidia_smi=Interval(
                low + context * 3 // 4, reserved + context, high + context * 3 // 2 + paged
            ),
            phases=phases,
            assumptions=self.assumptions,
            gpu=self.gpu,
            parameters=self.architecture.parameters,
            trainable=base + adapter,
        )


_TURN = "layers in turn"
# Where nothing packs, each longer batch needs new segments: the records of a random sequence, as
# shares of the longest.
_VARYING = (0.3, 0.5, 0.65, 0.78, 0.87, 0.93, 0.97, 1.0)
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
)  # families whose eager attention takes the softmax in the compute dtype
_POST_NORM = ("bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert", "mpnet")


def cache_bytes(attention: Attention, rows: int, length: int, width: int) -> int:
    """Bytes of one layer's key/value cache. rows x length tokens."""
    if attention.kind in ("linear", "state"):
        return rows * attention.heads * attention.key_dim * attention.value_dim * 4
    if attention.kind in ("none", "convolution"):
        return 0
    if attention.window:
        length = min(length, attention.window)
    return rows * length * attention.key_heads * (attention.key_dim + attention.value_dim) * width


def _batch(settings: Settings) -> tuple[int, int, int]:
    """Rows, tokens a row and tokens with logits of one micro-batch."""
    micro = settings.micro_batch or 1
    length = settings.seq_len or 1
    if settings.trainer == "trl.DPOTrainer":
        return 2 * micro, length, 2 * micro * length
    if settings.trainer == "trl.GRPOTrainer":
        prompt, completion = settings.prompt_len or 0, settings.completion_len or 1
        group = settings.group_size or 1
        if settings.shared_prompt:
            groups = max(micro // group, 1)
            return groups, prompt + group * completion, micro * completion
        return micro, prompt + completion, micro * (completion + 1)
    return micro, length, micro * length


def _total(tensors: list[Tensor]) -> int:
    return sum(tensor.bytes for tensor in tensors)


def _around(value: int, below: float, above: float) -> Interval:
    return Interval(int(value * (1 - below)), value, int(value * (1 + above)) + 50 * 2**20)


def _less(tensors: list[Tensor], size: int) -> list[Tensor]:
    """The tensors without ``size`` bytes of the largest saved ones."""
    result: list[Tensor] = []
    for tensor in tensors:
        cut = min(size, tensor.bytes)
        size -= cut
        if tensor.bytes > cut:
            result.append(tensor._replace(bytes=tensor.bytes - cut))
    return result
