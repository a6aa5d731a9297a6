"""What the layers leave for backward: all they saved, their inputs alone, or what is offloaded."""

from functools import cached_property

from memlint.memory import facts
from memlint.memory.blocks import layer as record_layer
from memlint.memory.lifetimes import Tensor
from memlint.memory.recording import Recording, Stack
from memlint.memory.tape import Tape
from memlint.memory.training_run import OfRun, TrainingRun


class Saved(OfRun):
    """The activations that wait for backward while other layers run."""

    def __init__(self, run: TrainingRun, recording: Recording) -> None:
        super().__init__(run)
        self.recording = recording

    def offloads(self) -> bool:
        return self.settings.offload == "activations"

    def kept(self, stack: Stack) -> int:
        """Bytes that one layer leaves for backward: none where the head alone is trained."""
        mode = self.settings.checkpointing
        if self.holding.head_alone:
            return 0
        if mode == "none":
            return stack.replay.saved
        return stack.input if mode in ("full", "reentrant") else self._selective(stack)

    def _selective(self, stack: Stack) -> int:
        """Every second matmul's output is kept, the rest computed again (torchtitan's list); or
        attention's output alone."""
        tokens = self.run.rows * self.run.length
        layer = stack.layer
        matmuls = self.settings.checkpointing == "selective"
        kept = sum([linear.outputs for linear in layer.linears][::2]) if matmuls else 0
        width = max(self.run.compute, 2)
        attention = layer.attention
        core = attention.heads * attention.value_dim * width + 4 * attention.heads
        return stack.input + tokens * (kept * width + (core if self._keeps_attention() else 0))

    def _keeps_attention(self) -> bool:
        """True if selective checkpointing keeps what attention made."""
        gpu, versions = self.run.gpu, self.settings.versions
        drops = facts.reaches(versions, facts.CUDNN_ATTENTION)
        drops = drops and not facts.reaches(versions, facts.KEEPS_CUDNN_ATTENTION)
        return not (gpu is not None and gpu.blackwell and drops)

    def upto(self, upto: int | None = None) -> list[Tensor]:
        """What all layers (or the first ``upto``) have saved when the next one runs."""
        tensors: list[Tensor] = []
        if self.holding.head_alone:
            return tensors
        left = self.architecture.depth if upto is None else upto
        names: dict[str, tuple[int, str]] = {}
        for stack in () if self.offloads() else self.recording.stacks:
            count = min(stack.count, left)
            left -= count
            if count <= 0:
                break
            share = count / self.sharding.split
            kept = list(stack.replay.saved_tensors)
            if self.settings.checkpointing != "none":
                kept = [Tensor("checkpointed layer inputs", self.kept(stack), "activations")]
            for tensor in kept:
                old, _ = names.get(tensor.name, (0, ""))
                names[tensor.name] = (old + int(tensor.bytes * share), tensor.kind)
        tensors.extend(
            Tensor(f"{name} of {self.architecture.depth} layers", size, kind)
            for name, (size, kind) in names.items()
        )
        if self.offloads() and self.recording.stacks:
            whole = sum(self.kept(stack) * stack.count for stack in self.recording.stacks)
            stash = min(5 * self.recording.stacks[0].input, int(whole / self.sharding.split))
            tensors.append(Tensor("offload stash", stash, "activations"))
        return tensors

    def of_towers(self) -> list[Tensor]:
        """What an encoder or a vision tower keeps while the decoder runs."""
        tensors: list[Tensor] = []
        for tower in self.architecture.towers:
            adapted = self.holding.lora is not None and self.architecture.encoder_decoder
            if not (self.holding.full or adapted):
                continue
            length = tower.tokens or self.run.source_length
            tokens = self.run.rows * length
            width = self.recording.hidden_width()
            for layer, count in tower.layers:
                if self.settings.checkpointing in ("full", "reentrant"):
                    size = tokens * tower.hidden * width
                else:
                    tape = Tape()
                    x = tape.input("layer input", tokens * tower.hidden, width)
                    work = self.recording.work._replace(length=length)
                    size = tape.replay(
                        record_layer(tape, x, layer, tower.norm, self.holding.weights(layer), work)
                    ).saved
                tensors.append(Tensor(f"{tower.name} activations", size * count, "activations"))
        return tensors

    def reentrant_leak(self) -> int:
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
            return self.recording.stacks[-1].input
        return 0

    def before(self, index: int, leak: int) -> int:
        """Bytes that wait while layer ``index`` runs backward. leak: as ``reentrant_leak`` says."""
        if leak:
            depth = self.architecture.depth
            return self._of_first[depth] + leak * (depth - 1 - index)
        return self._of_first[index]

    @cached_property
    def _of_first(self) -> list[int]:
        """Bytes that the first layers have saved, by their number."""
        sizes = [0]
        for stack in self.recording.stacks:
            below, kept = sizes[-1], 0 if self.offloads() else self.kept(stack)
            parts = range(1, stack.count + 1)
            sizes += [below + int(kept * count / self.sharding.split) for count in parts]
        return sizes
