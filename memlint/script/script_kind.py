"""What kind of script it is: its libraries, its devices, and what it trains."""

import ast
import re
from collections.abc import Sequence
from functools import partial

from memlint.engine.usage import Way
from memlint.engine.values import Constant, Invocation, Object, Symbol, Value, merge, options
from memlint.flow.evaluated import query
from memlint.script.called import Call
from memlint.script.calls import Host, Trainer
from memlint.script.checkpointing import METHODS, PREPARATIONS, switched_on, turns_on
from memlint.script.forward_passes import all_steps_of
from memlint.script.guesses import may_be_refused
from memlint.script.loaded_models import calls_on, is_language_model, loads_among, model_loads_of
from memlint.script.restoring import names_of_device
from memlint.script.setups import all_configs_of, all_trainers_of, all_training_of

_OFF = ("use_cpu", "no_cuda", "use_mps_device", "cpu")
_NOT_CUDA = ("cpu", "mps", "xla", "hpu")
# Devices of machines that have no CUDA.
_OTHERS = frozenset({"mps", "xla", "hpu", "npu", "xpu"})
_FOR_TPU = ("torch_xla", "torch-xla", "cloud-tpu-client")
_INSTALLS = r"pip3? +install"
_TPU_PACKAGES = r"torch[_-]xla|cloud-tpu-client"
# Models of that suffix that read text alone, or speech; the others read images.
_TEXT_TO_TEXT = (
    *("T5", "Bart", "BART", "Pegasus", "LED", "Switch", "Blenderbot", "M2M", "FSMT"),
    *("ProphetNet", "Nllb", "Mvp", "Whisper", "Speech"),
)


@query
def off_cuda(script: Host) -> bool:
    """True if the script says that it trains on CPU, Apple, TPU, Trainium or Gaudi."""
    if script.imports_package("torch_xla", "optimum", "torch_neuronx", "jax", "mlx", "mlx_lm"):
        return True
    text = script.source.text
    if any(word in text for word in _FOR_TPU) and any(map(_installs_for_tpu, text.split("\n"))):
        return True
    if _is_set_off_cuda(script) or _loads_on_cpu(script):
        return True
    return _moves_off_cuda(script) or _uses_other_devices(script)


def _is_set_off_cuda(script: Host) -> bool:
    """True if an option says so, or a comment beside one that turns half precision off."""
    configs = [*all_configs_of(script), *script.calls_anywhere("accelerate.Accelerator")]
    if any(config.setting(name).value is True for config in configs for name in _OFF):
        return True
    halves = [config.setting(name) for config in configs for name in ("bf16", "fp16")]
    off = [half.node for half in halves if half.value is False and half.node is not None]
    return any(may_be_refused(script, node, "cpu", "mps") for node in off)


# What puts tensors on a GPU, or is there for several of them.
_GPU_METHODS = frozenset(
    {
        *("cuda", "DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"),
        *("fully_shard", "prepare", "set_default_device", "get_device", "get_torch_device"),
    }
)
_GPU_PACKAGES = ("accelerate.", "deepspeed.", "lightning.", "pytorch_lightning.")
_GPU_MODULES = ("torch.cuda.", "torch.distributed.", "torch.amp.", "torch.autocast")
# What scripts for any device call.
_ASKS = ("is_available", "manual_seed", "manual_seed_all", "empty_cache", "device_count")


@query
def on_gpu(script: Host) -> bool:
    """True if something is certainly put on a device that may be a GPU, and the script trains on
    no other: without such a call a loop trains on the CPU."""
    return not off_cuda(script) and any(map(partial(_uses_gpu, script), script.invocations))


def _uses_gpu(script: Host, invocation: Invocation) -> bool:
    method = invocation.name.rpartition(".")[2]
    if invocation.name.startswith(_GPU_PACKAGES) or method in _GPU_METHODS:
        return True
    if invocation.name.startswith(_GPU_MODULES):
        return method not in _ASKS
    given = [
        binding.value
        for name, binding in invocation.keywords.items()
        if name in ("device", "device_map")
    ]
    if method in ("to", "to_empty", "device"):
        given += invocation.arguments[:1]
    return any(_may_be_gpu(script, value) for value in given)


def _may_be_gpu(script: Host, value: Value) -> bool:
    """True if what is given as a device may be a GPU: neither a dtype nor a device of another kind,
    and no tensor, whose device it would be."""
    if any(isinstance(one, Symbol | Constant) and not _names_device(one) for one in options(value)):
        return False
    names = [name.partition(":")[0] for name in names_of_device(script, value)]
    return any(name not in _NOT_CUDA for name in names)


def _names_device(value: Symbol | Constant) -> bool:
    if isinstance(value, Symbol):
        # ``torch.bfloat16``; what a name of the project stands for is not known.
        return not value.name.startswith("torch.")
    return value.value is not None and value.value != "meta"


def _loads_on_cpu(script: Host) -> bool:
    """True if every model is put on the CPU, where trainers leave it, and none is moved."""
    places = [load.setting("device_map").value for load in model_loads_of(script)]
    if not places or any(place != "cpu" for place in places):
        return False
    return not any(
        isinstance(call.node.func, ast.Attribute) and "model" in ast.unparse(call.node.func.value)
        for call in script.method_calls_anywhere("to", "cuda")
    )


def _moves_off_cuda(script: Host) -> bool:
    """True if each model that a loop runs was moved to a device other than a CUDA one before."""
    forwards = [forward for step in all_steps_of(script) for forward in step.all_forwards]
    last = max((run.order for one in forwards for run in one.runs), default=0)
    moves = [calls_on(script, one.facts, "to", "cpu", "cuda") for one in forwards]
    return bool(moves) and all(
        any(call.order < last for call in calls)
        and all(_is_off_cuda(script, call) for call in calls)
        for calls in moves
    )


def _uses_other_devices(script: Host) -> bool:
    """True if something is certainly put on a device of machines without CUDA: Apple's, a TPU."""
    moves = script.method_calls_anywhere("to")
    placed = [
        *((call, call.argument(0)) for call in script.method_calls_anywhere("set_default_device")),
        *((call, call.argument(0)) for call in moves),
        *((call, call.setting("device").raw) for call in moves),
        *((load, _device_map(script, load)) for load in model_loads_of(script)),
    ]
    kinds = (
        {name.partition(":")[0] for name in names_of_device(script, device)}
        for call, device in placed
        if not call.conditional
    )
    return any(each & _OTHERS and each <= _OTHERS | {"cpu"} for each in kinds)


def _device_map(script: Host, load: Call) -> Value:
    """Where a load puts a model, all of it where a dict says so."""
    given = load.setting("device_map").raw
    if isinstance(given, Object) and given.type == "dict":
        return merge(binding.value for binding in script.final_bindings(given).values())
    return given


def _is_off_cuda(script: Host, move: Call) -> bool:
    if move.method != "to":
        return move.method == "cpu"
    names = names_of_device(script, move.argument(0))
    return bool(names) and all(name.partition(":")[0] in _NOT_CUDA for name in names)


def _installs_for_tpu(line: str) -> bool:
    command = re.search(_INSTALLS, line)
    if command is None or line.lstrip().startswith("#"):
        return False
    return re.search(_TPU_PACKAGES, line[command.end() :]) is not None


@query
def uses_vision(script: Host) -> bool:
    """True if images go into what it trains."""
    return any(
        word in name
        for name in script.nodes_by_name_anywhere
        if name.startswith("transformers.")
        for word in ("AutoProcessor", "ImageProcessor", "Vision2Seq", "ImageTextToText")
    ) or any("Vision" in full or _sees(full) for _, _, full in script.imports)


def _sees(name: str) -> bool:
    """True if a class is a multimodal model: ``Mistral3ForConditionalGeneration``."""
    model = name.rpartition(".")[2]
    return (
        name.startswith("transformers.")
        and model.endswith("ForConditionalGeneration")
        and not any(part.lower() in model.lower() for part in _TEXT_TO_TEXT)
    )


@query
def uses_diffusion(script: Host) -> bool:
    """True if it trains a diffusion model, whose text encoder wants fixed lengths."""
    return script.imports_package("diffusers")


@query
def compiles_one_shape(script: Host) -> bool:
    """True if something is compiled for one shape, which other lengths would compile again."""
    if any(config.setting("torch_compile").value is True for config in all_configs_of(script)):
        return True
    compiles = script.calls_anywhere("torch.compile", "torch.cuda.CUDAGraph", "torch.cuda.graph")
    return any(
        call.setting("dynamic").value is not True and not _comes_too_late(script, call)
        for call in compiles
    )


def _comes_too_late(script: Host, call: Call) -> bool:
    """True if it compiles a model that trainers have been given already, and nothing but a name
    holds what it makes: ``torch.compile`` leaves the model that they train as it was."""
    trainers, use = all_trainers_of(script), script.use(call.node)
    named = use.way is Way.STORED and all(place.holder is None for place in use.places)
    if call.name != "torch.compile" or not trainers or not named or all_steps_of(script):
        return False
    made = [id(one) for one in options(call.argument(0)) if isinstance(one, Object)]
    given = {id(one) for trainer in trainers for one in trainer.model.objects}
    last, replaced = max(one.order for one in trainers), script.sets("model", "model_wrapped")
    return call.order > last and not replaced and bool(made) and given.issuperset(made)


# -- what is trained -------------------------------------------------------------------------------


@query
def trains_language_models(script: Host) -> bool:
    """True if definitely nothing but language models is trained."""
    if all_training_of(script):
        return all(trainer.trains_language_model for trainer in all_training_of(script))
    loads = model_loads_of(script) or loads_among(script.method_calls_anywhere("from_pretrained"))
    return bool(loads) and all(map(is_language_model, loads))


@query
def trains_causal_lm(script: Host) -> bool | None:
    """True if a causal language model is trained; None where the script is not clear."""
    answers = {trainer.model.causal_lm for trainer in all_trainers_of(script)}
    if any(trainer.kind.startswith("trl.") for trainer in all_trainers_of(script)):
        return True
    if answers and None not in answers:
        return True in answers if len(answers) == 1 else None
    loaders = {"CausalLM" in load.name or "LMHead" in load.name for load in model_loads_of(script)}
    return loaders.pop() if len(loaders) == 1 else None


# -- checkpointing ---------------------------------------------------------------------------------


@query
def deciding_call(script: Host) -> Call | None:
    """The last call that turns checkpointing on for a loop or trainer that does not itself."""
    trainers = all_trainers_of(script)
    if trainers:
        if not _leave_it_to_calls(trainers):
            return None
    elif not all_steps_of(script) and not script.imports_package("lightning", "pytorch_lightning"):
        return None
    methods = [one for one in script.method_calls_anywhere(*METHODS) if _is_of_library(script, one)]
    calls = [*script.calls_anywhere(*PREPARATIONS), *methods]
    last = max(calls, key=lambda call: call.order, default=None)
    if last is None or last.name not in PREPARATIONS:
        return last
    return last if turns_on(script, last) is not False else None


def _leave_it_to_calls(trainers: Sequence[Trainer]) -> bool:
    """True if a trainer does not switch checkpointing on, and others train the same model: what
    another trains may have been switched on by another call."""
    off = [one for one in trainers if one.config and switched_on(one.config) is False]
    loads = {one.model.load.node for one in off if one.model.load is not None}
    others = [one.model.load for one in trainers if one not in off]
    return bool(off) and all(load is not None and load.node in loads for load in others)


def _is_of_library(script: Host, call: Call) -> bool:
    """True if a method may be that of transformers: not of a class that the script defines."""
    if isinstance(call.receiver, Object):
        return call.receiver.cls is None
    own = (call.method, f"self.{call.method}", f"super().{call.method}")
    return script.text(call.node.func) not in own
