"""A model of torchtune that a hand-written loop trains, and what is done to it.

torchtune builds a model by a function for each checkpoint (``llama3_8b``, ``lora_llama3_8b``,
``qlora_llama3_8b``), in the default dtype at that place. Its own loops, and those written like
them, say the rest in calls: ``set_activation_checkpointing``, ``OffloadActivations``,
``padded_collate_sft``. Source: the recipes of torchtune 0.6.
"""

import ast

from memlint.flow.evaluated import query
from memlint.script.call_settings import UNSURE
from memlint.script.called import Call
from memlint.script.calls import Host
from memlint.script.forward_passes import steps_of
from memlint.script.guesses import may_use
from memlint.script.script_kind import on_gpu
from memlint.source.patterns import lazy_pattern
from memlint.source.record import NamedTuple

_BUILDER = lazy_pattern(
    r"(?P<package>torchtune\.models\.\w+)\.(?P<name>\w+?(?:_\d+b|_mini)(?:_base|_instruct)?)"
)
_PRIVATE = lazy_pattern(r"\._\w+(?=\.)")
_IMAGES = ("vision", "clip", "flux")
_ADAPTER = lazy_pattern(r"q?(?:lora|dora)_")
_DEFAULT_DTYPE = ("torchtune.training.set_default_dtype", "torch.set_default_dtype")
# Words by which weights or activations may be narrow without a default dtype.
_NARROW = ("float16", "half", "autocast", "get_dtype", "bf16", "fp16", "load_state_dict")
_OPTIMIZERS = ("torch.optim.", "bitsandbytes.optim.", "torchao.optim.")


class TorchtuneModel(NamedTuple):
    """The one model that a script builds with torchtune and trains.

    load: the call that builds it. package, builder: ``torchtune.models.llama3``, ``llama3_8b``.
    """

    script: Host
    load: Call
    package: str
    builder: str

    @property
    def is_adapter(self) -> bool:
        """True if its weights are frozen beside adapters."""
        return _ADAPTER.match(self.builder) is not None

    @property
    def is_quantized(self) -> bool | None:
        """True if its frozen weights are quantized; None where that is not known."""
        if self.builder.startswith("q"):
            return _ADAPTER.match(self.builder) is not None
        value = self.load.setting("quantize_base").value
        return None if value is UNSURE else value is True

    @property
    def dtype(self) -> str | None:
        """``torch.bfloat16`` and its like, of the weights; None where that is not known."""
        given = self.dtype_argument
        if given is not None:
            return self.script.name(given)
        if self.script.calls_to(*_DEFAULT_DTYPE) or may_use(self.script, *_NARROW):
            return None
        return "torch.float32"

    @property
    def dtype_argument(self) -> ast.expr | None:
        """Where the script says the default dtype, if it does so once."""
        calls = self.script.calls_to(*_DEFAULT_DTYPE)
        nodes = [node for call in calls for node in call.node.args[:1]]
        return nodes[0] if len(nodes) == len(calls) == 1 else None

    @property
    def name(self) -> str | None:
        """The variable that holds it: ``model = llama3_8b().cuda()``; None where none does."""
        match self.script.statement(self.load.node):
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                while isinstance(value, ast.Call) and value is not self.load.node:
                    if not isinstance(value.func, ast.Attribute):
                        return None
                    value = value.func.value
                return name if value is self.load.node else None
        return None

    @property
    def optimizer(self) -> Call | None:
        """The call that makes the optimizer, where there is one."""
        made = [
            call
            for call in self.script.calls
            if call.name.startswith(_OPTIMIZERS)
            and "lr_scheduler" not in call.name
            and call.method[:1].isupper()
        ]
        return made[0] if len(made) == 1 else None

    def component_calls(self, module: str) -> tuple[Call, ...]:
        """Calls of what torchtune has in one of its modules: ``torchtune.datasets``."""
        return tuple(
            call for call in self.script.calls if public_name(call).startswith(f"{module}.")
        )


@query
def torchtune_model(script: Host) -> TorchtuneModel | None:
    """The model of torchtune that a loop of the script trains on a GPU; None where there is none,
    or several, or one that sees images."""
    if not script.imports_package("torchtune") or not steps_of(script) or not on_gpu(script):
        return None
    found = [
        (call, match)
        for call in script.calls
        if (match := _BUILDER.fullmatch(public_name(call))) is not None
    ]
    if len(found) != 1:
        return None
    call, match = found[0]
    if any(word in match[0] for word in _IMAGES) or "reward" in match["name"]:
        return None
    return TorchtuneModel(script, call, match["package"], match["name"])


def public_name(call: Call) -> str:
    """The name by which a package offers what one of its private modules defines."""
    return _PRIVATE.sub("", call.name)
