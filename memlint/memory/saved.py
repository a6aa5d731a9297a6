"""What the layers leave for backward: all they saved, their inputs alone, or what is offloaded."""

from functools import cached_property

from memlint.memory import facts
from memlint.memory.lifetimes import Tensor
from memlint.memory.recording import Recording, Stack
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
        """What all layers (or the first ``upto``) have saved when the next one runs; those of an
        encoder or a vision tower come first."""
        if self.holding.head_alone:
            return []
        stacks = (*self.trained_towers(), *self.recording.stacks)
        left = sum(stack.count for stack in stacks) if upto is None else upto
        sizes: dict[tuple[str, str], int] = {}
        for stack in () if self.offloads() else stacks:
            count = min(stack.count, left)
            left -= count
            for tensor in self._of_layer(stack) if count > 0 else ():
                key = tensor.name, tensor.kind
                sizes[key] = sizes.get(key, 0) + int(tensor.bytes * count / self.sharding.split)
        tensors = [Tensor(name, size, kind) for (name, kind), size in sizes.items()]
        if self.offloads() and self.recording.stacks:
            whole = sum(self.kept(stack) * stack.count for stack in self.recording.stacks)
            stash = min(5 * self.recording.stacks[0].input, int(whole / self.sharding.split))
            tensors.append(Tensor("offload stash", stash, "activations"))
        return tensors

    def _of_layer(self, stack: Stack) -> list[Tensor]:
        """What one layer leaves, by the names of all that are like it."""
        if stack.tower:
            return [Tensor(f"{stack.tower} activations", self.kept(stack), "activations")]
        kept = list(stack.replay.saved_tensors)
        if self.settings.checkpointing != "none":
            kept = [Tensor("checkpointed layer inputs", self.kept(stack), "activations")]
        layers = f"of {self.architecture.depth} layers"
        return [each._replace(name=f"{each.name} {layers}") for each in kept]

    def trained_towers(self) -> tuple[Stack, ...]:
        """The layers of towers through which backward runs."""
        adapted = self.holding.lora is not None and self.architecture.encoder_decoder
        return self.recording.towers if self.holding.full or adapted else ()

    @property
    def is_reentrant(self) -> bool:
        """True if checkpoints are reentrant, as transformers' were by default."""
        mode, versions = self.settings.checkpointing, self.settings.versions
        old = "transformers" in versions and not facts.reaches(versions, facts.NON_REENTRANT)
        return mode == "reentrant" or (mode == "full" and old)

    def reentrant_leak(self) -> int:
        """Bytes of a layer's input gradient where FSDP's hooks keep them until backward ends.

        FSDP1 watches the inputs of layers whose weights are frozen; under reentrant checkpointing
        these are leaves, so that the hook holds each input and its gradient.
        """
        gathers = self.sharding.name == "fsdp" and self.sharding.gathered_layers
        leaks = gathers and self.is_reentrant and not self.holding.full
        return self.recording.stacks[-1].input if leaks else 0

    def before(self, index: int, leak: int) -> int:
        """Bytes that wait while layer ``index`` runs backward. leak: as ``reentrant_leak`` says."""
        if leak:
            depth = self.architecture.depth
            return self._of_first[depth] + leak * (depth - 1 - index)
        return self._of_first[index]

    @cached_property
    def _of_first(self) -> list[int]:
        """Bytes that the first layers have saved, by their number, those of towers first."""
        sizes = [0]
        for stack in (*self.trained_towers(), *self.recording.stacks):
            below, kept = sizes[-1], 0 if self.offloads() else self.kept(stack)
            parts = range(1, stack.count + 1)
            sizes += [below + int(kept * count / self.sharding.split) for count in parts]
        return sizes
