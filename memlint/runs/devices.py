"""How a run is divided over GPUs: by its arguments, its engine's file, its launcher, its own calls.

Sources: ``_process_fsdp_args`` of transformers (FSDP2 from 5.10 on), DeepSpeed's configuration
reference, accelerate's plugins.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from memlint.engine.constants import python_value
from memlint.engine.values import Object
from memlint.runs import plain_options as read
from memlint.runs.plain_options import Options, calls_anywhere, count_in, mapping_of, options_of
from memlint.script.called import Call
from memlint.script.calls import Config
from memlint.script.launcher import Launcher
from memlint.script.model import Script

LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric")
SHORT = {"bf16": "bfloat16", "fp16": "float16"}
_PARALLEL = ("dp_replicate_size", "dp_shard_size", "tp_size", "cp_size", "sp_size")
_STRATEGIES = ("full_shard", "shard_grad_op", "hybrid_shard_zero2", "hybrid_shard", "no_shard")
_STAGE = re.compile(r"(?<![a-z])(?:z(?:ero)?[-_]?(?:stage[-_]?)?|stage[-_]?)([0-3])(?![0-9])")
_NAMED = {"deepspeed": "zero2", "fsdp2": "fsdp2", "fsdp": "fsdp", "multi_gpu": "ddp", "ddp": "ddp"}
# What a script asks how many processes run it.
_ASKED = ("num_processes", "world_size", "WORLD_SIZE", "device_count")
_ONE = "the script asks for its number of processes, which no launch command says"
_FSDP = (".FullyShardedDataParallel", ".fully_shard", ".FullyShardedDataParallelPlugin")


def devices_of(script: Script, config: Config | None) -> Options:
    """The settings of a run's GPUs: sharding, its options, how many."""
    given = [
        name for short, name in SHORT.items() if config and config.settled(short).value is True
    ]
    values = launched(script.launcher, "".join(given[:1]))
    configured: Options = {}
    if config is not None and script.launcher.engine in ("", "unknown"):
        configured = _configured(script, config, "".join(given[:1]))
    by_calls = (_by_meshes(script), _wrapped(script), of_lightning(script))
    for more in (*by_calls, configured, _parallel(script)):
        if "sharding" in more:
            values.pop("notes", None)  # the doubt of a launcher, where the script itself shards
        values |= more
    if "world_size" not in values and script.may_use(*_ASKED):
        values["notes"] = {**values.get("notes", {}), "world_size": _ONE}
    return values


def launched(launcher: Launcher, given: str) -> Options:
    """By the launcher; a trainer's arguments may give mixed precision beside it."""
    dtype = SHORT.get(launcher.mixed_precision or "", given)
    values: Options = {}
    if launcher.sharding is None:
        by_deepspeed_alone = launcher.unseen.endswith(".json")
        values = by_file_name(launcher.unseen, dtype, "zero2" if by_deepspeed_alone else "")
    elif launcher.sharding != "none":
        values = {"sharding": launcher.sharding, "sharding_options": dict(launcher.options)}
    if launcher.processes:
        values["world_size"] = launcher.processes
    if launcher.expandable:
        values["expandable"] = True
    if launcher.engine == "deepspeed" and dtype:
        values.update(weights_dtype=dtype, compute_dtype=dtype, autocast=False)
    elif launcher.mixed_precision in SHORT:
        values.update(compute_dtype=dtype, autocast=True)
    return values | ({"checkpointing": "full"} if launcher.checkpoints else {})


def _configured(script: Script, config: Config, given: str) -> Options:
    """By the trainer's arguments."""
    engine = config.setting("deepspeed")
    if not engine.given or engine.is_none or (engine.node is None and not engine.known):
        return _fsdp(script, config)
    options = mapping_of(script, engine.value)
    if options is not None:
        return by_deepspeed(options, given)
    word = engine.value if isinstance(engine.value, str) else ""
    return by_file_name(word, given, "zero2")


def by_deepspeed(options: Mapping[str, Any], given: str) -> Options:
    """DeepSpeed casts weights, and keeps float32 copies. given: the dtype of mixed precision."""
    zero = options.get("zero_optimization")
    zero = zero if isinstance(zero, Mapping) else {}
    stage = zero.get("stage", 0)
    values: Options = {"sharding": f"zero{stage}" if stage in (1, 2, 3) else "ddp"}
    values["sharding_options"] = dict(zero)
    for short, name in SHORT.items():
        section = options.get(short)
        if isinstance(section, Mapping) and section.get("enabled") is True:
            given = name
    if given:
        values.update(weights_dtype=given, compute_dtype=given, autocast=False)
    optimizer = options.get("optimizer")
    if isinstance(optimizer, Mapping) and isinstance(kind := optimizer.get("type"), str):
        values["optimizer"] = "adamw_torch_fused" if kind in ("Adam", "AdamW") else kind
        values["notes"] = {"optimizer": f"DeepSpeed's configuration names {kind}"}
    return values


def by_file_name(word: str, given: str, unless_said: str) -> Options:
    """How a run is sharded by a file that is out of sight: its name may say so. word: empty where
    that is decided at run time. unless_said: the strategy that is taken otherwise."""
    name = word.replace("\\", "/").rpartition("/")[2].lower()
    stage = _STAGE.search(name)
    named = f"zero{stage[1]}" if stage else next((k for w, k in _NAMED.items() if w in name), "")
    strategy = (named or unless_said).replace("zero0", "ddp")
    seen = f"`{word}` is out of sight" if word else "decided when it is run"
    if not strategy:
        return {"notes": {"sharding": seen}}
    notes = {"sharding": f"{seen}: {'by its name' if named else 'a usual one'}"}
    if not strategy.startswith("zero"):
        return {"sharding": strategy, "sharding_options": {}, "notes": notes}
    zero = {"zero_optimization": {"stage": int(strategy[-1])}}
    return {**by_deepspeed(zero, given), "notes": notes}


def _fsdp(script: Script, config: Config) -> Options:
    switch = config.setting("fsdp")
    given = read.settled(script, switch)
    options = mapping_of(script, read.settled(script, config.setting("fsdp_config"))) or {}
    newest = int(script.api.behaviour("fsdp-version"))
    is_open = given == read.OPEN or isinstance(given, read.Either)
    if not is_open or not (options or switch.node):
        return by_fsdp(given, options, newest)
    notes = {"notes": {"sharding": "whether FSDP shards it is decided when it is run"}}
    return by_fsdp(True, options, newest) | notes


def by_fsdp(given: object, options: Mapping[str, Any], newest: int) -> Options:
    """FSDP by a trainer's words (``full_shard auto_wrap``). newest: its version if it is open."""
    words: object = "full_shard" if given is True else given or ""
    words = words.split() if isinstance(words, str) else words
    if not isinstance(words, (list, tuple)) or not words or read.OPEN in words:
        return {}
    options = {str(key).removeprefix("fsdp_"): value for key, value in options.items()}
    version = options.pop("version", newest)
    for strategy in [one for one in _STRATEGIES if one in words][:1]:
        options.setdefault("sharding_strategy", strategy)
    if "offload" in words:
        options["offload_params"] = True
    again = str(options.pop("activation_checkpointing", "")).lower() == "true"
    values: Options = {"sharding": "fsdp2" if version == 2 else "fsdp", "sharding_options": options}
    return values | ({"checkpointing": "full"} if again else {})


def _wrapped(script: Script) -> Options:
    """By calls of the script: wrappers of torch, DeepSpeed's engine, accelerate's plugins."""
    values: Options = {}
    for call in calls_anywhere(script, ".DistributedDataParallel"):
        views: Options = {"gradient_as_bucket_view": True}
        viewed = views.items() <= options_of(call).items()
        values = {"sharding": "ddp", **({"sharding_options": views} if viewed else {})}
    for call in calls_anywhere(script, *_FSDP):
        options = options_of(call)
        two = call.method == "fully_shard" or options.pop("fsdp_version", 1) == 2
        values = {"sharding": "fsdp2" if two else "fsdp", "sharding_options": _words(options)}
        again = options.get("activation_checkpointing") is True
        values |= {"checkpointing": "full"} if again else {}
        values |= _policy(call)
        if size := _gpus_of(script, call.setting("mesh").value):
            values["world_size"] = size
    for call in calls_anywhere(script, ".DeepSpeedPlugin", "deepspeed.initialize"):
        values = _by_engine(script, options_of(call))
    return values


def of_lightning(script: Script) -> Options:
    """By what runs the steps of Lightning: its GPUs, strategy, precision and accumulation."""
    values: Options = {}
    for call in calls_anywhere(script, ".Trainer", ".Fabric"):
        if call.name.partition(".")[0] not in LIGHTNING:
            continue
        options = options_of(call)
        dtype, _, true = str(options.get("precision")).partition("-")
        if name := SHORT.get({"16": "fp16"}.get(dtype, dtype)):
            values |= {"compute_dtype": name, "autocast": true != "true"}
            values |= {"weights_dtype": name} if true == "true" else {}
            values |= {"float32_outputs": True} if call.method == "Fabric" else {}
        devices = options.get("devices")
        number = len(devices) if isinstance(devices, (list, tuple)) else count_in(devices) or 1
        number *= count_in(options.get("num_nodes")) or 1
        values |= {"world_size": number} if number > 1 else {}
        strategy = options.get("strategy")
        if isinstance(strategy, str) and strategy != "auto":
            values |= by_file_name(strategy, values.get("compute_dtype", ""), "")
            values.pop("notes", None)
        elif number > 1:
            values["sharding"] = "ddp"
        if more := count_in(options.get("accumulate_grad_batches")):
            values["gradient_accumulation"] = more
    return values


def _by_engine(script: Script, options: Options) -> Options:
    """By DeepSpeed's engine or plugin: a configuration, arguments with its file, or a stage."""
    given, parsed = options.get("hf_ds_config", options.get("config")), options.get("args")
    if given is None and isinstance(parsed, Object):
        given = script.item(parsed, "deepspeed_config")
    file = mapping_of(script, given)
    if file is None and "zero_stage" not in options:
        return by_file_name(given if isinstance(given, str) else "", accelerated(script), "zero2")
    host = {key: options[key] for key in options if key.startswith("offload_")}
    plugin = {"zero_optimization": {"stage": options.get("zero_stage"), **host}}
    values = by_deepspeed(file or plugin, accelerated(script))
    more = count_in((file or {}).get("gradient_accumulation_steps"))
    return values | ({"gradient_accumulation": more} if more else {})


def _policy(call: Call) -> Options:
    """The dtype in which FSDP gathers weights, and in which they compute."""
    for name in ("mp_policy", "mixed_precision"):
        made = read.made_by_call(call.script, call.setting(name).value)
        dtype = read.dtype_in(options_of(made).get("param_dtype")) if made is not None else None
        if dtype is not None:
            return {"compute_dtype": dtype, "autocast": False}
    return {}


def _gpus_of(script: Script, mesh: object) -> int:
    """The number of GPUs of a mesh that ``init_device_mesh`` makes; 0 where it is not known."""
    call = read.made_by_call(script, mesh)
    if call is None or call.method != "init_device_mesh":
        return 0
    shape = call.setting("mesh_shape")
    sizes = shape.value if shape.given else python_value(call.argument(1))
    numbers = [count_in(one) or 0 for one in sizes] if isinstance(sizes, (tuple, list)) else [0]
    return math.prod(numbers)


def _by_meshes(script: Script) -> Options:
    """Contexts and layers that torch's own calls spread over the GPUs of a mesh."""
    for name, option in (("context_parallel", "cp_size"), ("parallelize_module", "tp_size")):
        for call in calls_anywhere(script, f".{name}"):
            given = call.setting("mesh" if option == "cp_size" else "device_mesh")
            index = 0 if option == "cp_size" else 1
            mesh = given.value if given.given else python_value(call.argument(index))
            if size := _gpus_of(script, mesh):
                return _divided(size, option)
    for load in script.model_loads:
        options = options_of(load)
        size = count_in(options.get("tp_size")) or script.launcher.processes or 0
        if size and options.get("tp_plan") is not None:
            return _divided(size, "tp_size")
        plan = read.made_by_call(script, options.get("distributed_config"))
        if size and plan and options_of(plan).get("enable_expert_parallel") is True:
            return _divided(size, "ep_size")
    return {}


def _divided(size: int, option: str) -> Options:
    return {"sharding": "none", "world_size": size, "sharding_options": {option: size}}


def _words(options: Options) -> Options:
    """Options with plain values alone: ``ShardingStrategy.SHARD_GRAD_OP`` by its last word."""
    kept: Options = {}
    for name, value in options.items():
        if isinstance(value, (str, bool, int)):
            kept[name] = value.rpartition(".")[2] if isinstance(value, str) else value
        elif name in ("offload_policy", "cpu_offload") and value is not None:
            kept["offload_params"] = True
    return kept


def accelerated(script: Script) -> str:
    """The dtype that ``Accelerator(mixed_precision="bf16")`` computes in; empty without one."""
    calls = calls_anywhere(script, "accelerate.Accelerator")
    given = (options_of(call).get("mixed_precision") for call in calls)
    return next((SHORT[one] for one in given if one in SHORT), "")


def _parallel(script: Script) -> Options:
    """How Accelerate divides sequences, layers and weights over GPUs, if all sizes are numbers."""
    sizes: dict[str, int] = {}
    for call in calls_anywhere(script, "ParallelismConfig"):
        given = options_of(call)
        sizes |= {name: count_in(given[name]) or 0 for name in _PARALLEL if name in given}
    if not sizes or 0 in sizes.values():
        return {}
    return {"sharding": "fsdp2", **by_sizes(sizes)}


def by_sizes(sizes: Mapping[str, int]) -> Options:
    """Over how many GPUs rows, layers and weights are divided: weights over those that share a row,
    too, and not over those that have copies of all."""
    contexts = sizes.get("cp_size", 1) * sizes.get("sp_size", 1)
    tensors = sizes.get("tp_size", 1)
    world = math.prod(sizes.values())
    options = {"cp_size": contexts, "tp_size": tensors, "ep_size": sizes.get("ep_size", 1)}
    if (copies := sizes.get("dp_replicate_size", 1)) > 1:
        options["shard_size"] = world // tensors // copies
    options = {name: size for name, size in options.items() if size > 1}
    return {"world_size": world, "sharding_options": options}
