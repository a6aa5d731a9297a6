"""What stands on a GPU from step to step: weights, adapters, optimizer states, gradients."""

from memlint.memory import facts
from memlint.memory.checkpoints import find_architecture
from memlint.memory.lifetimes import Tensor
from memlint.memory.optimizers import state_bytes
from memlint.memory.recording import Recording
from memlint.memory.training_run import OfRun, TrainingRun
from memlint.memory.weights import Stock, frozen_bytes

TURN = "layers in turn"
# torch's default workspace (":4096:2:16:8"), allocated like any tensor, in each of two threads: the
# script's, and the one that runs backward.
_CUBLAS = 2 * 8519680
_CUBLAS_HOPPER = 2 * 33554432


class Standing(OfRun):
    """The bytes of what lives through a step, on the fullest GPU."""

    def __init__(self, run: TrainingRun, recording: Recording) -> None:
        super().__init__(run)
        self.recording = recording

    def trained(self) -> tuple[int, int]:
        """Trainable numbers of the base and of adapters, whole."""
        base = sum(stock.trainable * count for stock, count in self._stocks())
        adapter = sum(stock.adapter * count for stock, count in self._stocks())
        towers, _ = self._towers()
        return base + (towers if self.holding.full else 0), adapter

    def _towers(self) -> tuple[int, int]:
        numbers = sum(tower.parameters for tower in self.architecture.towers)
        return numbers, numbers * self.holding.width

    def resident(self) -> list[Tensor]:
        """Weights, adapters, states and buffers that live through the whole step."""
        hopper = self.run.gpu is not None and self.run.gpu.hopper
        tokens = self.run.rows * self.run.length
        return [
            *self._weights(),
            *self._trained_apart(),
            *self._communication(),
            *self._reference(),
            *self._frozen(),
            *([] if self.settings.vllm_sleep else self.vllm()),
            Tensor("cuBLAS workspace", _CUBLAS_HOPPER if hopper else _CUBLAS, "workspace"),
            Tensor("batch (ids, labels, mask, positions)", 8 * 4 * tokens, "batch"),
        ]

    def _share(self) -> float:
        """What this GPU holds of the weights, experts apart."""
        return self.sharding.weights / self.sharding.split / self.sharding.tensor

    def _experts_share(self, whole: float = 0) -> float:
        """What it holds of so many weights (of all), where it has its part of the experts."""
        held = [(one, each.count) for each in self.recording.stacks for one in each.layer.linears]
        experts = sum(one.weights * count for one, count in held if one.experts > 1)
        part = min(experts / (whole or self.architecture.parameters), 1)
        return 1 - part * (1 - 1 / self.sharding.experts)

    def _weights(self) -> list[Tensor]:
        if self.streams():
            return self._streamed_weights()
        if self.sharding.parameter_offload:
            return [] if self.sharding.gathered_layers else self._weights_in_turn()
        stacks = self.recording.stacks
        layers = sum(stack.stock.base * stack.count for stack in stacks)
        codes = sum(stack.stock.quantized * stack.count for stack in stacks)
        head, (_, towers) = self.holding.head().base, self._towers()
        share = scale = self._share()
        shared = self._experts_share(layers / self.holding.width)
        if self.holding.full:
            scale = share * self.gradient_width() / self.holding.other_width
        experts = any(one.experts > 1 for stack in stacks for one in stack.layer.linears)
        left = ", experts too: since transformers 5 bitsandbytes quantizes none"
        name = "layers" + left * (experts and 0 < codes < layers - codes)
        sizes = {
            "quantized layers": codes * share,
            name: (layers - codes) * scale * shared,
            "embeddings": self.holding.embedding().base * scale,
            "output matrix": head * scale,
            "encoder or vision tower": towers * scale,
        }
        return [Tensor(name, int(size), "weights") for name, size in sizes.items() if size]

    def _weights_in_turn(self) -> list[Tensor]:
        """Layers that wait on the host and come one after the other, as DeepSpeed's do."""
        stacks, share = self.recording.stacks, self._share()
        layers = sum(stack.stock.base * stack.count for stack in stacks)
        turn = min(2 * max(stack.stock.base for stack in stacks), layers)
        return [
            Tensor("embeddings", int(self.holding.embedding().base * share), "weights"),
            Tensor("output matrix", int(self.holding.head().base * share), "weights"),
            Tensor(TURN, int(turn * share), "weights"),
        ]

    def _trained_apart(self) -> list[Tensor]:
        """What training adds to the weights: adapters, float32 copies, optimizer states."""
        tensors = []
        base, adapter = self.trained()
        sharding, width = self.sharding, self.holding.adapter_width
        part = sharding.states / sharding.split / sharding.tensor * self._experts_share()
        if adapter:
            size = int(adapter * width * sharding.weights)
            tensors.append(Tensor("adapters", size, "adapters"))
        if self.states_offloaded():
            return tensors
        masters = base if self.holding.other_width < 4 else 0
        masters += adapter if width < 4 else 0
        if sharding.master and masters:
            size = int(4 * masters * part)
            tensors.append(Tensor("float32 master weights", size, "master weights"))
        states = 0 if self.optimizer.paged else self.states(part)
        if states:
            tensors.append(Tensor(f"{self.optimizer.name} states", states, "optimizer states"))
        return tensors

    def _communication(self) -> list[Tensor]:
        gradients = self.gradients() if self.sharding.buckets else 0
        sizes = {"gradient buckets": gradients, "reduction buckets": self.sharding.reduce_bytes}
        return [Tensor(name, size, "communication") for name, size in sizes.items() if size]

    def _reference(self) -> list[Tensor]:
        """A trainer's reference, and copies that the script makes: as large as the weights."""
        whole = sum(stock.base * count for stock, count in self._stocks())
        size, copies = int(whole * self._share()), self.settings.copies or 0
        reference = size * bool(self.settings.reference_model)
        sizes = {"reference model": reference, "copies of the weights": copies * size}
        sizes["checkpoint"] = self.checkpoint() if self.settings.held_checkpoint else 0
        return [Tensor(name, size, "reference model") for name, size in sizes.items() if size]

    def checkpoint(self) -> int:
        """Bytes of what is trained, as it was saved: all weights, or the adapter."""
        base, adapter = self.trained()
        return base * self.holding.other_width + adapter * self.holding.adapter_width

    def _frozen(self) -> list[Tensor]:
        """Teachers, and references of the script's own."""
        settings, share = self.settings, self._share()
        return [
            Tensor(
                f"frozen {name}",
                int(frozen_bytes(find_architecture(name), stored, settings.versions) * share),
                "reference model",
            )
            for name, stored in settings.frozen_models.items()
        ]

    def vllm(self) -> list[Tensor]:
        """What an engine in the trainer's process takes of the GPU, awake for all of the run."""
        options, gpu = self.settings.generation, self.run.gpu
        share = options.get("vllm_gpu_memory_utilization") if options.get("vllm") else None
        return [Tensor("vLLM", int(gpu.bytes * float(share)), "vLLM")] if share and gpu else []

    def streams(self) -> bool:
        """True if the runtime keeps a frozen base on the host, block by block."""
        sharding = self.sharding
        gathers = sharding.gathered_layers or sharding.split > 1 or sharding.tensor > 1
        return bool(self.settings.streamed) and not self.holding.full and not gathers

    def _streamed_weights(self) -> list[Tensor]:
        """Two blocks in turn; norms and biases stay, as does what is trained."""
        _, towers = self._towers()
        stay = sum((stock.base - stock.streams) * count for stock, count in self._stocks())
        rest = {"norms, biases and trained tables": stay, "encoder or vision tower": towers}
        tensors = [Tensor(name, size, "weights") for name, size in rest.items() if size]
        return [Tensor(TURN, self._ring(), "weights"), *tensors]

    def streamed(self) -> int:
        """Bytes of the frozen base that wait on the host."""
        return sum(stock.streams * count for stock, count in self._stocks())

    def _stocks(self) -> list[tuple[Stock, int]]:
        stocks = [(stack.stock, stack.count) for stack in self.recording.stacks]
        return [*stocks, (self.holding.embedding(), 1), (self.holding.head(), 1)]

    def _ring(self) -> int:
        blocks = sum(stack.stock.streams * stack.count for stack in self.recording.stacks)
        return min(2 * max(stack.stock.streams for stack in self.recording.stacks), blocks)

    def head_arrived(self, base: list[Tensor]) -> list[Tensor]:
        """The resident tensors while the loss is computed: a streamed head is there as a whole,
        unless the runtime's own loss reads it by tiles."""
        if not self.streams() or self.settings.head_in_tiles:
            return base
        head = self.holding.embedding() if self.architecture.tied else self.holding.head()
        if head.streams <= self._ring():
            return base
        arrived = Tensor("output matrix", head.streams, "weights")
        return [arrived if tensor.name == TURN else tensor for tensor in base]

    def states_offloaded(self) -> bool:
        """True if states live on the host: by choice, or because sharded parameters do."""
        sharding = self.sharding
        follow = sharding.parameter_offload and sharding.gathered_layers > 0
        return sharding.optimizer_offload or follow

    def gradients_offloaded(self) -> bool:
        """True if reduced gradients go to the host, where sharded parameters are."""
        return self.states_offloaded() and self.sharding.parameter_offload

    def gradient_width(self) -> int:
        """Bytes of one trained weight, and of its gradient: FSDP keeps float32 under autocast."""
        if self.sharding.name in ("fsdp", "fsdp2") and self.settings.autocast:
            return 4
        return self.holding.other_width

    def state_width(self) -> int:
        if self.sharding.master:
            return 4
        return self.gradient_width() if self.holding.full else self.holding.other_width

    def states(self, part: float) -> int:
        """Bytes of optimizer states on this GPU."""
        optimizer = self.optimizer
        if self.sharding.name in ("fsdp", "zero1", "zero2", "zero3") and part < 1:
            base, adapter = self.trained()
            plain = {"factored": False, "rank": 0, "wide_embeddings": False}
            flat = optimizer._replace(least=0, **plain)
            whole = state_bytes(flat, base, self.state_width())
            return int(part * (whole + state_bytes(flat, adapter, self.adapter_state_width())))
        total = 0
        parts = [(stack.stock, stack.count, "") for stack in self.recording.stacks]
        parts += [(self.holding.embedding(), 1, "table"), (self.holding.head(), 1, "head")]
        for stock, count, part_of in parts:
            adapted = bool(stock.adapter) and not part_of
            width = self.adapter_state_width() if adapted else self.state_width()
            where = {"embedding": part_of == "table", "head": part_of == "head"}
            for rows, columns, times in stock.shapes:
                each = state_bytes(optimizer, rows * columns, width, rows, columns, **where)
                total += count * times * each
            if part_of and stock.adapter:
                total += state_bytes(optimizer, stock.adapter, self.adapter_state_width())
        towers, _ = self._towers()
        if self.holding.full and towers:
            total += state_bytes(optimizer, towers, self.state_width())
        return int(total * part)

    def adapter_state_width(self) -> int:
        return 4 if self.sharding.master else self.holding.adapter_width

    def gradients(self) -> int:
        """Bytes of all gradients, as one GPU holds them after backward."""
        sharding = self.sharding
        if self.gradients_offloaded():
            return 0
        base, adapter = self.trained()
        whole = base * self.gradient_width() + adapter * self.holding.adapter_width
        held = whole * sharding.gradients / sharding.split / sharding.tensor
        return int(held * self._experts_share())

    def accumulated(self) -> int:
        """Bytes of gradients between micro-batches.

        FSDP does not reduce before the last one (``no_sync``): gradients stay whole, in the
        compute dtype. A loop that wraps adapters and frozen weights in one unit keeps gradients
        of both, for they are one flat parameter.
        """
        sharding, settings = self.sharding, self.settings
        defers = sharding.name == "fsdp" or (
            sharding.name == "fsdp2"
            and facts.defers_reduction(settings.versions, settings.trainer or "loop")
        )
        if not defers or sharding.gradients == 1 or (settings.gradient_accumulation or 1) == 1:
            return self.gradients()
        base, adapter = self.trained()
        if not self.holding.full and self.run.own_loop:
            base = self.architecture.parameters
        computed = max(self.run.compute, 2)
        # FSDP2 casts float32 adapters with the rest under mixed precision.
        cast = sharding.name == "fsdp2" and settings.autocast
        whole = base * computed + adapter * (computed if cast else self.holding.adapter_width)
        return int(whole / sharding.split / sharding.tensor)

    def keeps_gradients(self) -> bool:
        """True if gradients stand while the next forward pass runs."""
        if (self.settings.gradient_accumulation or 1) > 1:
            return not self.settings.longest_first
        zeroed = not facts.reaches(self.settings.versions, facts.FREES_GRADIENTS)
        return self.settings.zeroed_gradients or zeroed

    def gather(self, most: int = 2) -> list[Tensor]:
        """Whole weights beside the shards: the root, the layer at work and the next. most: layers
        of FSDP1, which gathers none before it is needed but in backward."""
        sharding = self.sharding
        if not sharding.gathered_layers:
            return []
        full, architecture, stacks = self.holding.full, self.architecture, self.recording.stacks
        width = max(self.run.compute, 2) if full else self.holding.width
        sizes = [
            architecture.layer_parameters(stack.layer) * width if full else stack.stock.base
            for stack in stacks
        ]
        largest = max(sizes, default=0)
        root = architecture.embedding_parameters + architecture.head_parameters
        if sharding.live_parameters:
            whole = sum(size * stack.count for size, stack in zip(sizes, stacks, strict=True))
            layers = max(min(sharding.live_parameters * width, whole), 2 * largest)
            # ZeRO gathers parameter by parameter, FSDP its root as one.
            part = root * width // (2 if sharding.name == "zero3" else 1)
            parts = {"gathered parameters": layers, "gathered embeddings or head": part}
        else:
            whole = (root + architecture.norm_parameters) * width
            count = sharding.gathered_layers
            layers = largest * (min(count, most) if sharding.name == "fsdp" else count)
            parts = {"gathered embeddings and head": whole, "gathered layers": layers}
        return [Tensor(name, size, "gathered") for name, size in parts.items()]

    def single_temporary(self) -> int:
        """Bytes that a step needs for the largest of its parameters, taken one by one."""
        optimizer = self.optimizer
        table = max(self.holding.embedding().largest, self.holding.head().largest)
        largest = max(stack.stock.largest for stack in self.recording.stacks)
        size = optimizer.single * 4 * max(largest, 0 if optimizer.rank else table)
        if optimizer.rank:
            # Tables get the plain step: a root and a quotient of their own dtype.
            size = max(size, 2 * self.state_width() * table)
        return int(size)
