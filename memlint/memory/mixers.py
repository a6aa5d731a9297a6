"""What mixes tokens, on the tape: attention of all kinds, delta rules, short convolutions."""

from typing import Any

from memlint.memory.architecture import Attention, Linear
from memlint.memory.lifetimes import Value
from memlint.memory.linear_maps import Weights, Work, cast, linear
from memlint.memory.norms import norm
from memlint.memory.tape import Tape

_Parts = tuple[Value, Value, Value]  # query, key, value


def rotary(tape: Tape, x: Value, work: Work, share: float, name: str) -> Value:
    """x * cos + rotate_half(x) * sin: two products and a rotated copy beside the result."""
    if work.rotary_kernel:
        return tape.view(x)
    part = int(x.bytes * share)
    return tape.op(
        f"{name} rotated", (x,), x.elements, x.width, scratch=2 * part, backward_scratch=3 * part
    )


def attention(
    tape: Tape,
    x: Value,
    spec: Attention,
    weights: Weights,
    work: Work,
    *,
    memory: Value | None = None,
    memory_length: int = 0,
) -> Value:
    """Self-attention, or cross-attention over ``memory``; x [T, D] -> [T, D]."""
    work = work if memory is None else work._replace(relative="")
    if spec.kind in ("linear", "state"):
        return _delta_rule(tape, x, spec, weights, work)
    if spec.kind == "convolution":
        return _short_convolution(tape, x, spec, weights, work)
    if spec.kind == "latent":
        query, key, value = _latent(tape, x, spec, weights, work)
        gate = None
    else:
        query, key, value, gate = _projections(tape, x, spec, weights, work, memory)
    mixed = _mix(tape, (query, key, value), spec, work, memory_length or work.length)
    tape.touch(query, key, value)
    if gate is not None:
        switch = tape.op("attention gate", (gate,), gate.elements, gate.width, saves_output=True)
        mixed = tape.op(
            "gated attention", (mixed, switch), mixed.elements, mixed.width, saves=(mixed, switch)
        )
    output = spec.projections[-1]
    return linear(tape, mixed, output, weights.of(output), work)


def _projections(
    tape: Tape, x: Value, spec: Attention, weights: Weights, work: Work, memory: Value | None
) -> tuple[Value, Value, Value, Value | None]:
    source = memory if memory is not None else x
    gate: Value | None = None
    if len(spec.projections) == 2:
        fused = linear(tape, x, spec.projections[0], weights.of(spec.projections[0]), work)
        heads = spec.heads + 2 * spec.key_heads
        unit = fused.elements // heads
        if work.joined_projections and weights.of(spec.projections[0]).rank:
            parts = unit * (spec.heads + spec.key_heads) * fused.width
            tape.keep("qkv adapter parts", parts, "activations")
        query, key = (
            tape.op(name, (fused,), size, fused.width) if spec.rotary else tape.view(fused, size)
            for name, size in (("query", unit * spec.heads), ("key", unit * spec.key_heads))
        )
        return query, key, tape.view(fused, unit * spec.key_heads), None
    query_map, key_map, value_map = spec.projections[:3]
    if work.joined_projections and memory is None:
        return (*_joined(tape, x, spec, weights, work), None)
    query = linear(tape, x, query_map, weights.of(query_map), work)
    if spec.output_gate:
        query, gate = tape.halves(query)
    if spec.query_norm:
        query = norm(tape, query, "rms", work, "query norm")
    key = linear(tape, source, key_map, weights.of(key_map), work)
    if spec.query_norm:
        key = norm(tape, key, "rms", work, "key norm")
    value = linear(tape, source, value_map, weights.of(value_map), work)
    if spec.rotary and memory is None:
        query = rotary(tape, query, work, spec.rotary_share, "query")
        key = rotary(tape, key, work, spec.rotary_share, "key")
    return query, key, value, gate


def _joined(
    tape: Tape, x: Value, spec: Attention, weights: Weights, work: Work
) -> tuple[Value, Value, Value]:
    """Separate maps computed as one: litgpt's ``qkv``, whose parts are copied by head.

    Values that no group repeats stay views, which keep the whole product. Putting an adapter's
    parts into place (``index_copy``) keeps them for backward.
    """
    maps = spec.projections[:3]
    ranked = [weights.of(item) for item in maps if weights.of(item).rank]
    weight = ranked[0] if ranked else weights.of(maps[0])
    whole = Linear("qkv", maps[0].inputs, sum(item.outputs for item in maps))
    fused = linear(tape, x, whole, weight, work)
    if ranked:
        parts = sum(item.outputs for item in maps if weights.of(item).rank)
        tape.keep("qkv adapter parts", work.tokens * parts * fused.width, "activations")
    sizes = [work.tokens * item.outputs for item in maps]
    query = tape.op("query", (fused,), sizes[0], fused.width)
    key = tape.op("key", (fused,), sizes[1], fused.width)
    value = tape.view(fused, sizes[2])
    groups = spec.heads // max(spec.key_heads, 1)
    if groups > 1 and work.repeat_keys:
        key = tape.op("repeated keys", (key,), key.elements * groups, key.width)
        value = tape.op("repeated values", (value,), value.elements * groups, value.width)
    if spec.rotary:
        query = rotary(tape, query, work, spec.rotary_share, "query")
        key = rotary(tape, key, work, spec.rotary_share, "key")
    return query, key, value


def _latent(
    tape: Tape, x: Value, spec: Attention, weights: Weights, work: Work
) -> tuple[Value, Value, Value]:
    """DeepSeek's compressed keys: the expanded keys and values are ordinary attention's."""
    maps = {item.name: item for item in spec.projections}
    tokens = work.tokens
    if spec.query_latent:
        low = linear(tape, x, maps["q_a_proj"], weights.of(maps["q_a_proj"]), work)
        low = norm(tape, low, "rms", work, "query latent norm")
        query = linear(tape, low, maps["q_b_proj"], weights.of(maps["q_b_proj"]), work)
    else:
        query = linear(tape, x, maps["q_proj"], weights.of(maps["q_proj"]), work)
    name = "kv_a_proj_with_mqa"
    compressed = linear(tape, x, maps[name], weights.of(maps[name]), work)
    latent = norm(tape, tape.view(compressed, tokens * spec.latent), "rms", work, "key latent norm")
    expanded = linear(tape, latent, maps["kv_b_proj"], weights.of(maps["kv_b_proj"]), work)
    width = query.width
    query_states = tape.op("query states", (query,), tokens * spec.heads * spec.key_dim, width)
    key_states = tape.op("key states", (expanded,), tokens * spec.heads * spec.key_dim, width)
    tape.touch(query)
    value = tape.view(expanded, tokens * spec.heads * spec.value_dim)
    if work.attention.startswith("flash") and spec.value_dim != spec.key_dim:
        value = tape.op("padded value", (value,), key_states.elements, width)
    return query_states, key_states, value


def _mix(tape: Tape, parts: _Parts, spec: Attention, work: Work, key_length: int) -> Value:
    """softmax(q k') v by the chosen implementation."""
    query, key, value = parts
    written = _WRITTEN.get(work.relative, _WRITTEN.get(work.attention))
    if written is not None:
        return written(tape, parts, spec, work, key_length)
    flash = work.attention.startswith("flash")
    lowered = flash or (work.autocast and work.attention == "sdpa")
    if lowered and query.width == 4:
        query, key, value = (
            cast(tape, item, work.compute, "attention input") for item in (query, key, value)
        )
    groups = _groups(spec, work)
    repeated = groups > 1 and not flash and (work.repeat_keys or work.mask)
    if repeated:
        key = tape.op("repeated keys", (key,), key.elements * groups, key.width)
        value = tape.op("repeated values", (value,), value.elements * groups, value.width)
    tokens = query.elements // (spec.heads * spec.key_dim)
    out = tokens * spec.heads * spec.value_dim
    sums = 4 * tokens * spec.heads
    copies = 0 if repeated or groups == 1 else (key.bytes + value.bytes) * groups
    mask = work.batch * work.length * key_length * query.width if work.mask and not flash else 0
    bias = spec.heads * work.length * key_length * query.width * bool(work.relative)
    return tape.op(
        "attention output",
        (query, key, value),
        out,
        query.width,
        saves=(query, key, value),
        saves_output=True,
        keeps=sums + bias,
        scratch=mask,
        backward_scratch=4 * query.elements + sums + copies + mask,
    )


def _in_float32(tape: Tape, parts: _Parts, spec: Attention, work: Work, key_length: int) -> Value:
    """All scores, as sdpa computes them where no kernel takes its inputs."""
    width = work.compute if work.autocast else parts[0].width
    query, key, value = (cast(tape, each, 4, "attention input in float32") for each in parts)
    plain = work._replace(autocast=False, mask=False)
    mixed = _eager(tape, (query, key, value), spec, plain, key_length)
    return cast(tape, mixed, width, "attention output")


def _groups(spec: Attention, work: Work) -> int:
    """Query heads for each key head, as attention gets them."""
    if work.joined_projections and work.repeat_keys:
        return 1
    return spec.heads // max(spec.key_heads, 1)


def _eager(tape: Tape, parts: _Parts, spec: Attention, work: Work, key_length: int) -> Value:
    """Scores as tensors: product, scaled, masked, softmax in float32, and its cast."""
    query, key, value = parts
    groups = _groups(spec, work)
    if groups > 1:
        key = tape.op("repeated keys", (key,), key.elements * groups, key.width)
        value = tape.op("repeated values", (value,), value.elements * groups, value.width)
    width = work.compute if work.autocast else query.width
    tokens = query.elements // (spec.heads * spec.key_dim)
    scores = tokens * key_length * spec.heads

    def step(name: str, *inputs: Value, size: int = width, **more: Any) -> Value:
        return tape.op(f"attention {name}", inputs, scores, size, kind="attention scores", **more)

    product = step("scores", query, key, saves=(query, key))
    scaled = step("scores scaled", product)
    if spec.softcap:
        scaled = step("scores over the cap", scaled)
        scaled = step("scores softcap", scaled, saves_output=True)
        scaled = step("scores capped", scaled)
    if spec.causal or work.mask:
        scaled = step("scores masked", scaled)
    wide = max(work.softmax_width, width)
    kept: tuple[Value, ...] = ()
    if work.softmax_keeps_input:
        scaled = cast(tape, scaled, wide, "attention scores for the softmax")
        kept = (scaled,)
    soft = step("softmax", scaled, size=wide, saves=kept, saves_output=True)
    chances = cast(tape, soft, width, "attention weights")
    chances.storage.kind = "attention scores"
    if spec.dropout > 0 and work.training:
        chances = step("dropout", chances, keeps=scores)
    return tape.op(
        "attention output",
        (chances, value),
        tokens * spec.heads * spec.value_dim,
        width,
        saves=(chances, value),
    )


_WRITTEN = {"eager": _eager, "scattered": _in_float32}  # where scores are tensors


def _delta_rule(tape: Tape, x: Value, spec: Attention, weights: Weights, work: Work) -> Value:
    """Gated delta rule (flash-linear-attention's kernels): projections, convolution, chunks."""
    tokens = work.tokens
    parts = [linear(tape, x, item, weights.of(item), work) for item in spec.projections[:-1]]
    wide = parts[0]
    mixed = tape.op("convolution input", (wide,), tokens * spec.convolution, wide.width)
    mixed = tape.op("convolution", (mixed,), mixed.elements, mixed.width, saves=(mixed,))
    queries = tokens * spec.heads * spec.key_dim
    query = tape.op("query", (mixed,), queries, mixed.width)
    key = tape.op("key", (mixed,), queries, mixed.width)
    value = tape.op("value", (mixed,), tokens * spec.heads * spec.value_dim, mixed.width)
    states = tokens // 64 * spec.heads * spec.key_dim * spec.value_dim * mixed.width
    core = tape.op(
        "delta rule",
        (query, key, value),
        value.elements,
        value.width,
        saves=(query, key, value),
        keeps=tokens * spec.heads * (64 * 2 + 12),
        scratch=states + 2 * value.bytes,
        backward_scratch=2 * states + 2 * value.bytes,
    )
    gate = parts[1] if len(parts) > 2 else tape.view(wide, value.elements)
    gated = tape.op(
        "gated norm",
        (core, gate),
        value.elements,
        value.width,
        saves=(core, gate),
        keeps=4 * value.elements,
    )
    output = spec.projections[-1]
    return linear(tape, gated, output, weights.of(output), work)


def _short_convolution(
    tape: Tape, x: Value, spec: Attention, weights: Weights, work: Work
) -> Value:
    first, last = spec.projections
    wide = linear(tape, x, first, weights.of(first), work)
    third = wide.elements // 3
    product = tape.op("gated input", (wide,), third, wide.width, saves=(wide,))
    mixed = tape.op("convolution", (product,), third, wide.width, saves=(product,))
    gated = tape.op("gated output", (mixed, wide), third, wide.width, saves=(mixed, wide))
    return linear(tape, gated, last, weights.of(last), work)
