"""The record of a language model of the script's own classes, as far as steps of its own decide."""

from collections.abc import Sequence

from memlint.engine.constants import python_value
from memlint.engine.values import ABSENT
from memlint.runs.by_loop import SHORT, in_full_precision
from memlint.runs.by_script import ScriptRun
from memlint.runs.precision import may_lack_bf16
from memlint.runs.run import Change, Field, span_in
from memlint.script.called import Call
from memlint.script.loop_models import LoopModel
from memlint.script.model import Script

# What puts weights or passes into another precision, or may.
_PRECISIONS = (
    *("autocast", "bfloat16", "float16", "half", "GradScaler", "default_dtype", ".amp", "float8"),
    *("fp16", "bf16", "mixed_precision", "MixedPrecision", "param_dtype", "quantiz", "precision"),
    *("Accelerator", "deepspeed", "colossalai", "Fabric", "apex"),
)
_LAYERS = ("Linear", "Embedding")
# Narrower hidden states are those of a toy.
_LEAST_WIDTH = 128


class OwnModuleRun(ScriptRun):
    """A language model that a script defines and trains: its classes make float32 weights."""

    def __init__(self, script: Script, model: LoopModel) -> None:
        self.script = script
        self.model = model

    def read_compute_dtype(self) -> Field:
        """float32 where nothing of the script, or of what it imports, speaks of another one."""
        script, forward = self.script, self.model.forwards[0]
        # A class of the script's own may have such a name.
        layers = script.method_calls_anywhere(*_LAYERS)
        made = [call for call in layers if call.name.startswith("torch.nn.")]
        cast = any(call.setting("dtype").given is not False for call in made)
        passes = [run.autocast for run in forward.runs]
        if not script.on_gpu or cast or script.may_use(*_PRECISIONS) or _is_narrow(made):
            return Field()
        if forward.elsewhere or any(one is not None and one is not ABSENT for one in passes):
            return Field()  # in another file it is said there
        if script.may_use("lightning"):
            return in_full_precision(script, self.model.load.node)
        said = "trains in float32, without autocast"
        return Field("float32", span_in(script, forward.node.func), said)

    def write_compute_dtype(self, value: str) -> Change:
        """By hand; what the GPU lacks is not taken."""
        dtype = "float16" if may_lack_bf16(self.script) else value
        message = f"Run the forward pass under `torch.autocast(..., dtype=torch.{dtype})`"
        if self.script.may_use("lightning"):
            message = f'Set `precision="{SHORT[dtype]}-mixed"`'
        return Change({"compute_dtype": dtype, "autocast": True}, message)


def _is_narrow(layers: Sequence[Call]) -> bool:
    """True if a table certainly embeds in a few numbers."""
    tables = [one for one in layers if one.method == "Embedding"]
    widths = [python_value(one.argument(1)) for one in tables]
    widths += [one.setting("embedding_dim").value for one in tables]
    return any(type(one) is int and one < _LEAST_WIDTH for one in widths)
