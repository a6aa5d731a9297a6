"""How weights, gradients and states are divided over GPUs, and what communication holds.

ddp: everything whole on every GPU; buckets hold a second copy of the gradients.
fsdp, fsdp2: everything divided by the world; the layer at work and the one fetched ahead are
    whole, the root (embedding, head, final norm) is whole from forward to backward.
zero1, zero2, zero3: DeepSpeed with a float32 master copy of the divided parameters; zero1 divides
    states, zero2 gradients as well, zero3 weights as well, which stay gathered up to a budget.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from memlint.source.record import Record

_ALL = 10**15
_LIVE = 10**9  # DeepSpeed's stage3_max_live_parameters
_BUCKET = 5 * 10**8  # its reduce_bucket_size, in numbers; "auto" of Trainers is hidden size squared


class Sharding(Record):
    """Shares of one GPU.

    weights, gradients, states: the part (1.0 whole) of each that one GPU holds.
    gathered_layers: whole layers at once in forward and backward (0: weights are whole anyway).
    live_parameters: numbers that may stay gathered (ZeRO-3). master: float32 copy of trained
    weights where weights are 16-bit. buckets: whether gradient buckets copy the gradients.
    reduce_bytes: bytes of reduction buffers. split: how often the fullest GPU's part of the
    layers goes into all of them. placed: whether whole layers are placed by a device map.
    """

    name: str = "none"
    world: int = 1
    weights: float = 1.0
    gradients: float = 1.0
    states: float = 1.0
    gathered_layers: int = 0
    live_parameters: int = 0
    master: bool = False
    buckets: bool = False
    reduce_bytes: int = 0
    split: float = 1
    placed: bool = False
    tensor: int = 1
    sequence: int = 1
    experts: int = 1
    optimizer_offload: bool = False
    parameter_offload: bool = False


_GPUS_OF_A_NODE = 8  # what hybrid strategies divide over, where nobody says
_PREFIXES = ("fsdp_", "deepspeed_", "ddp_")
_TENSOR = ("tensor_parallel", "tp", "tensor_parallel_size", "tp_size")
_SEQUENCE = (
    *("sequence_parallel", "sp", "context_parallel", "cp", "sp_size", "ulysses", "cp_size"),
    *("sequence_parallel_size", "context_parallel_size"),
)
_PIPELINE = ("pipeline_parallel", "pp", "pipeline_parallel_size", "pp_size")
_EXPERTS = ("expert_parallel", "ep", "expert_parallel_size", "ep_size")
_SHARDS = ("shard_size", "data_parallel_shard_degree", "fsdp_size", "size", "dp_shard")
_STRATEGY = ("sharding_strategy", "strategy", "reshard_after_forward")
_HOST_OPTIMIZER = ("offload_optimizer", "offload_optimizer_device")
_HOST_PARAMETERS = ("offload_param", "offload_param_device", "offload_params", "cpu_offload")
_READ = frozenset(
    (
        *_TENSOR, *_SEQUENCE, *_PIPELINE, *_EXPERTS, *_SHARDS, *_STRATEGY, *_HOST_OPTIMIZER,
        *_HOST_PARAMETERS, "device_map", "gradient_as_bucket_view", "reduce_bucket_size",
        "activation_checkpointing", "master_weights", "stage3_max_live_parameters",
    )
)  # fmt: skip
# Options that change no byte, or less than a bucket.
_WITHOUT_EFFECT = frozenset(
    (
        "use_orig_params", "auto_wrap_policy", "transformer_layer_cls_to_wrap", "version", "stage",
        "state_dict_type", "sync_module_states", "cpu_ram_efficient_loading", "min_num_params",
        "backward_prefetch", "forward_prefetch", "overlap_comm", "contiguous_gradients",
        "allgather_partitions", "reduce_scatter", "allgather_bucket_size", "sub_group_size",
        "stage3_max_reuse_distance", "stage3_param_persistence_threshold",
        "stage3_prefetch_bucket_size", "stage3_gather_16bit_weights_on_model_save",
        "find_unused_parameters", "static_graph", "bucket_cap_mb", "broadcast_buffers",
        "data_parallel_replicate_degree", "mixed_precision",
        # Accelerate's own names; the stage and the accumulation are settings of the run.
        "zero_stage", "gradient_accumulation_steps", "gradient_clipping", "zero3_init_flag",
        "zero3_save_16bit_model", "multinode_launcher", "nvme_path",
        "offload_optimizer_nvme_path", "offload_param_nvme_path", "moe_layer_cls_names",
    )
)  # fmt: skip

SHARDING_OPTIONS = tuple(sorted({*_READ, *_WITHOUT_EFFECT, "zero_optimization"}))


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by one name each: accelerate's prefixes gone, DeepSpeed's sections opened."""
    plain: dict[str, Any] = {}
    for key, value in options.items():
        if key == "zero_optimization" and isinstance(value, Mapping):
            plain.update(plain_options(value))
            continue
        name = str(key)
        for prefix in _PREFIXES:
            short = name.removeprefix(prefix)
            if short != name and name not in _READ:
                name = short
                break
        plain[name] = value
    return plain


def unread(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Options that may matter and that the model does not read."""
    return tuple(
        name for name in plain_options(options) if name not in _READ and name not in _WITHOUT_EFFECT
    )


def _on_host(options: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    """True if one of the options moves something to the host: true, ``cpu``, or a section."""
    for name in names:
        value = options.get(name)
        if isinstance(value, Mapping):
            value = value.get("device", "none")
        if value is True or str(value).lower() in ("true", "cpu", "nvme"):
            return True
    return False


def plan(name: str, world: int, given: Mapping[str, Any], offload: str, hidden: int) -> Sharding:
    """The shares of one GPU under a strategy."""
    options = plain_options(given)
    tensor = _option(options, 1, *_TENSOR)
    sequence = _option(options, 1, *_SEQUENCE)
    pipeline = _option(options, 1, *_PIPELINE)
    experts = _option(options, 1, *_EXPERTS)
    placed = str(options.get("device_map", "")) not in ("", "None")
    if placed:
        pipeline = max(pipeline, world)
    strategy = _strategy(options)
    shards = max(world // (tensor * pipeline), 1)
    if strategy.startswith("HYBRID") or strategy in ("4", "5"):
        shards = min(shards, _GPUS_OF_A_NODE)
    shards = _option(options, 0, *_SHARDS) or shards
    whole = Sharding(
        name=name,
        world=world,
        split=pipeline,
        placed=placed and pipeline > 1,
        tensor=tensor,
        sequence=sequence,
        experts=experts,
        optimizer_offload=offload == "optimizer" or _on_host(options, _HOST_OPTIMIZER),
        parameter_offload=offload == "parameters" or _on_host(options, _HOST_PARAMETERS),
    )
    alone = shards == 1 and not (name.startswith("zero") or whole.parameter_offload)
    if name in ("none", "ddp") or alone:
        viewed = options.get("gradient_as_bucket_view") is True
        return whole._replace(buckets=name == "ddp" and shards > 1 and not viewed)
    if name in ("fsdp", "fsdp2"):
        return _under_fsdp(whole, strategy, 1.0 / shards)
    return _under_zero(whole, options, 1.0 / shards, hidden)


def _strategy(options: Mapping[str, Any]) -> str:
    """FSDP's strategy by its name or number, in capitals."""
    strategy = str(options.get("sharding_strategy", options.get("strategy", ""))).upper()
    if strategy in ("", "NONE"):
        # accelerate's newer configurations say the strategy by this option.
        strategy = str(options.get("reshard_after_forward", "")).upper()
    return strategy


def _under_fsdp(whole: Sharding, strategy: str, part: float) -> Sharding:
    if strategy in ("NO_SHARD", "3"):
        return whole
    divided = whole._replace(weights=part, gradients=part, states=part, gathered_layers=2)
    if strategy in ("SHARD_GRAD_OP", "2", "HYBRID_SHARD_ZERO2", "5", "FALSE"):
        # Sharded between steps, and all gathered from forward to backward.
        return divided._replace(live_parameters=_ALL)
    return divided


def _under_zero(whole: Sharding, options: Mapping[str, Any], part: float, hidden: int) -> Sharding:
    """DeepSpeed: states are divided, from stage 2 on gradients, from stage 3 on weights."""
    usual = hidden * hidden if options.get("reduce_bucket_size") == "auto" else _BUCKET
    bucket = _option(options, usual, "reduce_bucket_size")
    divided = whole._replace(
        states=part, master=bool(options.get("master_weights", True)), reduce_bytes=bucket * 4
    )
    if whole.name == "zero1":
        return divided
    if whole.name == "zero2":
        return divided._replace(gradients=part)
    return divided._replace(
        gradients=part,
        weights=part,
        gathered_layers=2,
        live_parameters=_option(options, _LIVE, "stage3_max_live_parameters"),
    )


def fullest_part(embedding: int, layers: Sequence[int], head: int, gpus: int) -> float:
    """How often the fullest GPU goes into the whole model when accelerate balances whole layers.

    ``get_balanced_memory`` allows each GPU but the last an even part and a little more;
    ``infer_auto_device_map`` fills them in order, and keeps the largest module's room free on the
    first. Bytes of the embeddings, of each layer in order, and of the output matrix.
    """
    whole = embedding + sum(layers) + head
    allowed = whole // gpus + 5 * max(layers) // 4
    modules = [embedding, *layers, head]
    parts = [0] * gpus
    gpu = 0
    for index, size in enumerate(modules):
        while gpu < gpus - 1:
            spare = max(modules[index:]) if gpu == 0 else 0
            if parts[gpu] + size <= allowed - spare:
                break
            gpu += 1
        parts[gpu] += size
    return whole / max(parts)


def _option(options: Mapping[str, Any], default: int, *names: str) -> int:
    for name in names:
        value = options.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 1:
            return int(value)
    return default
