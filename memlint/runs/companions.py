"""Models that stand beside the trained one: teachers, references, averages, and their logits."""

from collections.abc import Callable, Iterator, Mapping

from memlint.engine.constants import python_value
from memlint.engine.growth import sources_of_turns
from memlint.engine.nodes import Expression, Node, holder_of, targets_of
from memlint.engine.tensors import Tensor, Use
from memlint.engine.values import Object, Sequence, options
from memlint.runs.loadings import loaded, loading_of, own_load
from memlint.runs.plain_options import OPEN, Options, calls_anywhere, mapping_of, options_of
from memlint.script.called import Call
from memlint.script.calls import Config, Trainer
from memlint.script.forward_passes import all_steps_of
from memlint.script.loaded_models import ModelFacts, chain_of, model_facts
from memlint.script.model import Script
from memlint.script.restoring import held_checkpoints, names_of_device
from memlint.script.setups import trainer_overrides

# What copies a model that it is given, by the end of its name.
_COPIES = (
    *("copy.deepcopy", ".AveragedModel", "ema_pytorch.EMA", ".ModelEmaV2", ".ModelEmaV3"),
    *("torch_ema.ExponentialMovingAverage", ".EMAModel"),
)
_OF_WEIGHTS = (".state_dict", ".parameters")
# Where a vLLM engine may run that is told so: a device without a number is that of training.
_ELSEWHERE = ("distributed_executor_backend", "tensor_parallel_size", "worker_cls")
_SHARES = ("softmax", "log_softmax")
_LOSSES = ("cross_entropy", "nll_loss", "kl_div", "mse_loss")


def companions_of(script: Script, facts: ModelFacts, trainer: Trainer | None) -> Options:
    """The settings of what stands beside a trained model."""
    given = trainer.setting("ref_model").value if trainer is not None else None
    known = given.made_by.node if isinstance(given, Object) and given.made_by else None
    copies = len(copies_of(script, facts, known)) + _clones(script, facts)
    judges = _judges(script, trainer) if trainer is not None else ()
    frozen: dict[str, str] = {}
    for values in (*(loading_of(script, one) for one in frozen_models(script)), *judges):
        if name := _as_name(values.get("model")):
            stored = values.get("quantization", {}).get("type")
            frozen[name] = stored or values.get("weights_dtype", "bfloat16")
    beside: Options = {"frozen_models": frozen} if frozen else {}
    held = {"held_checkpoint": True} if held_checkpoints(script) else {}
    return beside | ({"copies": copies} if copies else {}) | held


def _as_name(model: object) -> str:
    """The name of a model, with what a script's own configuration changes of it."""
    if not isinstance(model, Mapping):
        return model if isinstance(model, str) else ""
    changes = {key: str(one).lower() for key, one in model["config"].items()}
    base = model["config"].get("_name_or_path", "")
    changes.pop("_name_or_path", None)
    return f"{base}?{'&'.join(f'{key}={one}' for key, one in changes.items())}"


def _judges(script: Script, trainer: Trainer) -> Iterator[Options]:
    """Yield the settings of the models that score completions. One that is given by name is loaded
    with the options of the policy."""
    for name in ("reward_funcs", "reward_model"):
        raw = trainer.setting(name).raw
        for one in raw.items if isinstance(raw, Sequence) else options(raw):
            facts = model_facts(script, one)
            if facts.by_name:
                by_policy = mapping_of(script, trainer.loading_options.value) or {}
                yield {"model": facts.name, **loaded(script, by_policy)}
            elif facts.load is not None:
                yield loading_of(script, facts)


def copies_of(script: Script, facts: ModelFacts, given: object) -> list[Call]:
    """Return what copies a trained model on its GPU. given: what makes a trainer's reference."""
    return [one for one in calls_anywhere(script, *_COPIES) if _copies(one, facts, given)]


def _clones(script: Script, facts: ModelFacts) -> bool:
    """True if each weight is copied into a list or a dict on its GPU: an average by hand."""
    for call in script.method_calls_anywhere("clone"):
        if "cpu" in script.text(script.statement(call.node)):
            continue
        for source, kept in sources_of_turns(script, call.node):
            whole: Expression | None = source  # ``model`` of ``model.state_dict().items()``
            while kept and (whole := holder_of(whole) if whole is not None else None) is not None:
                if any(one in facts.objects for one in options(script.value(whole))):
                    return True
    return False


def runs_copy(script: Script, copy: Call) -> bool:
    """True if what a call copies makes forward passes: a reference, or a teacher."""
    return any(made.node is copy.node for one in script.all_forwards for made in one.facts.objects)


def _copies(call: Call, facts: ModelFacts, given: object) -> bool:
    """True if a call copies the trained model, or its state, on its GPU, and not for the trainer's
    reference, which counts with the trainer."""
    found = [one for one in options(call.argument(0)) if isinstance(one, Object)]
    makers = [one.made_by for one in found if one.made_by is not None]
    states = [one.receiver for one in makers if one.name.endswith(_OF_WEIGHTS)]
    whole = [one for one in (*found, *states) if isinstance(one, Object)]
    inner = {id(part) for one in whole for part in chain_of(one)}
    on_host = str(options_of(call).get("device", "")).startswith("cpu") or _goes_to_host(call)
    about = not inner.isdisjoint(map(id, facts.objects))
    return about and not on_host and call.node is not given


def _goes_to_host(call: Call) -> bool:
    """True if what a call makes is moved to the CPU."""
    for move in call.script.method_calls_anywhere("cpu", "to"):
        to_host = move.method == "cpu" or "cpu" in str(python_value(move.argument(0)))
        parts = chain_of(move.receiver) if isinstance(move.receiver, Object) else []
        nodes = {part.made_by.node for part in parts if part.made_by is not None}
        if to_host and call.node in nodes:
            return True
    return False


def engine_beside(script: Script) -> Call | None:
    """Return what makes a vLLM engine with which a loop generates on the GPU that it trains on."""
    first = [step.order for step in script.steps if step.order is not None]
    if not first or script.may_use("CUDA_VISIBLE_DEVICES"):
        return None
    generators = _generators(script)
    for engine in script.calls_to("vllm.LLM", "vllm.entrypoints.llm.LLM"):
        here = all(engine.setting(name).given is False for name in _ELSEWHERE)
        told = engine.setting("device")
        names = names_of_device(script, told.raw) if told.given is not False else ()
        here = here and {"cuda", "cpu", "auto"}.issuperset(names)
        if here and engine.order < max(first) and engine.node in generators:
            return engine
    return None


def _generators(script: Script) -> set[Node | None]:
    """What makes the engines that a loop generates with."""
    loops = {loop for step in script.steps for loop in (step.node, *step.epochs)}
    return {
        call.receiver.node
        for call in script.method_calls_anywhere("generate", "chat")
        if isinstance(call.receiver, Object)
        if any(not loops.isdisjoint(one.loops) for one in call.invocations)
    }


def generation_of_loop(script: Script) -> Options:
    """The settings of a vLLM engine that takes its share of the GPU that a loop trains on."""
    engine = engine_beside(script)
    if engine is None:
        return {}
    given = options_of(engine)
    share = given.get("gpu_memory_utilization", 0.9)
    options = {"vllm": True, **({"vllm_gpu_memory_utilization": share} if share != OPEN else {})}
    return {"generation": options, "vllm_sleep": given.get("enable_sleep_mode") is True}


def reference_of(script: Script, trainer: Trainer, config: Config | None) -> Options:
    """Whether a second model stands beside the policy, where the script decides it."""
    given, values = trainer.setting("ref_model"), trainer.setting("value_model")
    name = model_facts(script, values.raw).name if values.given else None
    beside: Options = {"value_model": name} if isinstance(name, str) else {}
    if given.given and not given.is_none:
        return beside | {"reference_model": True}
    if beside:
        return beside | {"reference_model": trainer.peft is False}
    if config is not None and config.effective("precompute_ref_log_probs").is_value(True):
        return {"reference_model": False}
    beta = config.effective("beta").value if config is not None else None
    if trainer.is_kind("GRPOTrainer", "RLOOTrainer") and isinstance(beta, (int, float)):
        return {"reference_model": bool(beta) and trainer.peft is False}
    return {}


def frozen_models(script: Script) -> tuple[ModelFacts, ...]:
    """The models that steps, or a trainer's own loss, run and nothing trains: by what loads them,
    and the names that a helper is given for several."""
    trained = [one.model for one in script.training]
    taken = {_key(script, one) for one in trained}
    passes: dict[object, list[tuple[ModelFacts, bool]]] = {}
    for facts, frozen, beside in _passes(script):
        if (key := _key(script, facts)) not in taken and (beside or trained):
            passes.setdefault(key, []).append((facts, frozen))
    return tuple(run[0][0] for run in passes.values() if all(frozen for _, frozen in run))


def _key(script: Script, facts: ModelFacts) -> object:
    load = facts.load and own_load(script, facts, facts.load)
    return load and (load.node, str(python_value(load.argument(0))))


def _passes(script: Script) -> Iterator[tuple[ModelFacts, bool, bool]]:
    """Yield models by their passes, in steps and without training: whether a pass certainly trains
    nothing, and whether a step runs it. A function of the script may run several models, one after
    the other."""
    idle = {id(one.run) for one in script.frozen_passes}
    turns = {loop for step in all_steps_of(script) for loop in (step.node, *step.epochs)}
    runs = ((one, run) for one in script.all_forwards if not one.own for run in one.runs)
    for forward, run in runs:
        facts = model_facts(script, run.module)
        frozen = run.gradients is False or id(run) in idle
        beside = forward.in_training_step or not turns.isdisjoint(run.loops)
        if facts.load is not None and (beside or (frozen and forward.training is not True)):
            yield facts, frozen, beside


def loss_of(script: Script, trainer: Trainer | None, run: Options) -> Options:
    """How many float32 tensors as large as the logits a loss of the script's own keeps beyond the
    12 bytes a number of the library's; a note where nobody can tell. run: its settings."""
    hooked = trainer is not None and trainer.setting("compute_loss_func").given is not False
    if trainer is not None and not (hooked or trainer_overrides(script, trainer, "compute_loss")):
        return {}
    uses = [one for one in script.tensor_uses if one[0].as_large_as_logits]
    if any(name.rpartition(".")[2] in (*_LOSSES, *_SHARES) for _, name, _ in uses):
        return _copies_of_logits(script, uses, run)
    reason = "the script has a loss of its own, which nobody can read"
    return {"notes": {"logits_copies": reason}} if trainer is not None else {}


def _copies_of_logits(script: Script, uses: list[Use], run: Options) -> Options:
    """What names and autograd keep of a teacher's logits and of what is made of both, and what the
    last operation adds: three numbers for a divergence, two for a gradient of a softmax."""
    width = _widths(run)
    read = {id(one): one for tensor, _, _ in uses for one in tensor.history()}.values()
    made = [one for one in read if one.as_large_as_logits and one.copy is not False]
    teachers = [one for one in made if not one.sources and not one.graph]
    if not teachers:
        return {}  # the library's own loss has as much
    kept = sum(map(width, teachers)) + _kept(script, made, width)
    operations = {name.rpartition(".")[2] for _, name, _ in uses}
    most = max(map(width, made))
    if any(one.operation == "loss" for one, _, _ in script.tensor_uses):
        kept += 4
    elif "cross_entropy" in operations:
        kept += most
    kept += most * (3 if "kl_div" in operations else 2)
    return {"logits_copies": max(-(-(kept - 12) // 4), 0)}


def _kept(script: Script, made: list[Tensor], width: Callable[[Tensor], int]) -> int:
    """The bytes a number of softmaxes, which autograd keeps, and of all else that has a name."""
    shares = [one for one in made if one.operation in _SHARES]
    others = [one for one in made if one.sources and one not in shares]
    named = {name: width(one) for one in others if (name := _name_of(script, one))}
    return sum(map(width, shares)) + sum(named.values())


def _widths(run: Options) -> Callable[[Tensor], int]:
    """The bytes of a number of tensors that are made of logits."""
    mixed = run.get("autocast") is True
    # Who loads weights in 16 bits and names no mixed precision has none.
    narrow = mixed or run.get("weights_dtype", "float32") != "float32"

    def width(one: Tensor) -> int:
        of_model = not one.sources and one.graph is True
        wide = one.dtype == "torch.float32" or (mixed and one.operation in _SHARES)
        return 4 if wide or not narrow or (of_model and run.get("float32_outputs")) else 2

    return width


def _name_of(script: Script, one: Tensor) -> str:
    """The name that a tensor is bound to; empty where it has none."""
    statement = script.statement(one.node) if one.node is not None else None
    is_whole = statement is not None and getattr(statement, "value", None) is one.node
    return ",".join(map(script.text, targets_of(statement))) if statement and is_whole else ""
