"""One layer, operation by operation, as the libraries run it.

Each function records on a ``Tape`` what a module's forward does: which tensors it makes, which
autograd keeps, what a kernel needs meanwhile. Sources: ``modeling_llama.py`` and its kin of
transformers, ``lora/layer.py`` of PEFT, ``autograd/_functions.py`` of bitsandbytes, and the saved
tensors of torch's own functions (``derivatives.yaml``). T tokens, D hidden, I inner width.
"""

from __future__ import annotations

from memlint.memory.architecture import Attention, Layer, Linear, Mlp
from memlint.memory.lifetimes import Value
from memlint.memory.tape import Tape
from memlint.source.record import Plain


class Weight(Plain):
    """How a linear map's weight is held.

    stored: bytes of one weight number in GPU memory (0 for quantized). gradient: bytes of one
    number of its gradient. rank: of its adapter (0: none). dequantized: bytes of one number of
    the copy that a quantized matmul makes (0: none, the kernel reads the codes). keeps_input:
    whether a quantized matmul keeps its input for backward; keeps_codes: its 8-bit copy as well.
    computes: bytes of the dtype that a quantized matmul asks for (0: that of the run).
    eight_bit: whether the matmul is bitsandbytes' 8-bit one, over integers.
    """

    trainable: bool = True
    stored: int = 2
    gradient: int = 2
    quantized: bool = False
    dequantized: int = 0
    rank: int = 0
    adapter_width: int = 4
    adapter_dropout: float = 0.0
    keeps_input: bool = False
    keeps_codes: bool = False
    eight_bit: bool = False
    computes: int = 0


class Work(Plain):
    """What the numbers of one pass are.

    batch, length: sequences and their tokens; tokens: batch x length. compute: bytes of the
    compute dtype. autocast: whether matmuls cast their inputs. attention: implementation.
    norm_kernel: ``eager`` (transformers' own) or ``fused`` (Liger, Apex, torch's rms_norm).
    gated_kernel: whether SwiGLU is one kernel (Liger). mask: whether sdpa gets a mask.
    repeat_keys: whether keys and values are copied for each query head.
    softmax_width: bytes of the softmax of materialized scores; most families take float32.
    softmax_keeps_input: whether a softmax keeps its input for backward, as old torch did.
    joined_projections: whether queries, keys and values are one matmul, with one adapter.
    """

    batch: int
    length: int
    compute: int
    autocast: bool
    attention: str
    norm_kernel: str = "eager"
    gated_kernel: bool = False
    rotary_kernel: bool = False
    mask: bool = False
    repeat_keys: bool = False
    training: bool = True
    norm_trainable: bool = True
    norm_width: int = 2
    grouped_experts: bool = True
    fused_activations: bool = False
    softmax_width: int = 4
    softmax_keeps_input: bool = False
    compile: bool = False
    joined_projections: bool = False

    @property
    def tokens(self) -> int:
        return self.batch * self.length


class Weights(Plain):
    """Looks up how each linear map is held; ``default`` where a name says nothing."""

    default: Weight
    named: dict[str, Weight] = {}  # noqa: RUF012 - read only

    def of(self, linear: Linear) -> Weight:
        return self.named.get(linear.name, self.default)


def cast(tape: Tape, x: Value, width: int, name: str) -> Value:
    """x in another dtype: a new tensor, nothing kept."""
    if x.width == width:
        return x
    return tape.op(name, (x,), x.elements, width)


def linear(
    tape: Tape, x: Value, layer: Linear, weight: Weight, work: Work, tokens: int | None = None
) -> Value:
    """x @ W (+ b), with its adapter: x [T, in] -> [T, out]."""
    count = tokens if tokens is not None else x.elements // layer.inputs
    out = count * layer.outputs
    base = _base(tape, x, layer, weight, work, out)
    if not weight.rank:
        return base
    return _adapter(tape, x, base, layer, weight, work, count)


def _base(tape: Tape, x: Value, layer: Linear, weight: Weight, work: Work, out: int) -> Value:
    if weight.quantized:
        return _quantized_base(tape, x, layer, weight, work, out)
    matrix = layer.inputs * layer.outputs
    width = work.compute if work.autocast else x.width
    source = cast(tape, x, width, f"{layer.name} input")
    recast = weight.stored > width
    output = tape.op(
        layer.name,
        (source,),
        out,
        width,
        saves=(source,) if weight.trainable else (),
        weight_bytes=matrix * weight.gradient if weight.trainable else 0,
        backward_scratch=matrix * width if recast and weight.trainable else 0,
    )
    if recast and output.grad:
        # The cast weight is what backward multiplies with, so autograd keeps it.
        tape.keep(f"{layer.name} weight in the compute dtype", matrix * width, "weight copies")
    return output


def _quantized_base(
    tape: Tape, x: Value, layer: Linear, weight: Weight, work: Work, out: int
) -> Value:
    """A matmul whose weight comes out of its codes while it runs, forward and backward."""
    asked = weight.computes or work.compute
    source = cast(tape, x, asked, f"{layer.name} input")
    scratch = backward_scratch = layer.inputs * layer.outputs * weight.dequantized
    if weight.eight_bit:
        # Forward: 16-bit and 8-bit inputs, the integer product. Backward: the weight in 16
        # bits, in old versions codes of the gradient as well.
        scratch = 3 * source.elements + 4 * out
        backward_scratch += 4 * out if weight.keeps_codes else 0
    result = tape.op(
        layer.name,
        (source,),
        out,
        work.compute if work.autocast else asked,
        scratch=scratch,
        saves=(source,) if weight.keeps_input else (),
        keeps=source.elements if weight.keeps_codes else 0,
        backward_scratch=backward_scratch,
    )
    if weight.keeps_input and result.grad:
        tape.stash(source)
    return cast(tape, result, x.width, f"{layer.name} output")


def _adapter(
    tape: Tape, x: Value, base: Value, layer: Linear, weight: Weight, work: Work, tokens: int
) -> Value:
    """base + scale * B(A(dropout(x))), PEFT's ``Linear.forward``."""
    name = layer.name
    rank = weight.rank
    own = cast(tape, x, weight.adapter_width, f"{name} adapter input")
    low = own
    if weight.adapter_dropout > 0 and work.training:
        low = tape.op(
            f"{name} adapter dropout", (own,), own.elements, own.width, keeps=own.elements
        )
    width = work.compute if work.autocast else own.width
    low = cast(tape, low, width, f"{name} adapter cast")
    first = tape.op(
        f"{name} adapter A",
        (low,),
        tokens * rank,
        width,
        saves=(low,),
        grad=True,
        weight_bytes=layer.inputs * rank * weight.adapter_width,
    )
    second = tape.op(
        f"{name} adapter B",
        (first,),
        tokens * layer.outputs,
        width,
        saves=(first,),
        weight_bytes=layer.outputs * rank * weight.adapter_width,
    )
    scaled = tape.op(f"{name} adapter scaled", (second,), second.elements, width)
    total = tape.add(f"{name} output", base, scaled)
    tape.touch(own)
    return cast(tape, total, base.width, f"{name} result")


def norm(tape: Tape, x: Value, kind: str, work: Work, name: str = "norm") -> Value:
    """A norm over D; the output's dtype as the implementation leaves it."""
    if kind == "layer" or kind == "none":
        return _layer_norm(tape, x, work, name)
    if work.norm_kernel == "fused":
        width = x.width
        rows = x.elements // 1024
        return tape.op(name, (x,), x.elements, width, saves=(x,), keeps=4 * rows)
    return _rms_norm(tape, x, kind, work, name)


def _layer_norm(tape: Tape, x: Value, work: Work, name: str) -> Value:
    source = cast(tape, x, 4, f"{name} input") if work.autocast else x
    return tape.op(name, (source,), x.elements, source.width, saves=(source,), backward_scratch=0)


def _rms_norm(tape: Tape, x: Value, kind: str, work: Work, name: str) -> Value:
    """transformers' RMS norm: float32 inside, the square and both products as tensors."""
    wide = cast(tape, x, 4, f"{name} in float32")
    tape.op(f"{name} square", (wide,), x.elements, 4, saves=(wide,), grad=False)
    scaled = tape.op(
        f"{name} scaled", (wide,), x.elements, 4, saves=(wide,), backward_scratch=2 * 4 * x.elements
    )
    if kind == "gemma":
        output = tape.op(
            f"{name} weighted",
            (scaled,),
            x.elements,
            4,
            saves=(scaled,) if work.norm_trainable else (),
        )
        result = cast(tape, output, x.width, f"{name} output")
    else:
        narrow = cast(tape, scaled, x.width, f"{name} normalized")
        result = tape.op(
            f"{name} output",
            (narrow,),
            x.elements,
            max(x.width, min(work.norm_width, 4)),
            saves=(narrow,) if work.norm_trainable else (),
        )
    tape.touch(scaled)
    return result


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
    if spec.kind in ("linear", "state"):
        return _delta_rule(tape, x, spec, weights, work)
    if spec.kind == "convolution":
        return _short_convolution(tape, x, spec, weights, work)
    if spec.kind == "latent":
        query, key, value = _latent(tape, x, spec, weights, work)
        gate = None
    else:
        query, key, value, gate = _projections(tape, x, spec, weights, work, memory)
    mixed = _mix(tape, query, key, value, spec, work, memory_length or work.length)
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
        query = (
            tape.op("query", (fused,), unit * spec.heads, fused.width)
            if spec.rotary
            else tape.view(fused, unit * spec.heads)
        )
        key = (
            tape.op("key", (fused,), unit * spec.key_heads, fused.width)
            if spec.rotary
            else tape.view(fused, unit * spec.key_heads)
        )
        return query, key, tape.view(fused, unit * spec.key_heads), None
    query_map, key_map, value_map = spec.projections[:3]
    if work.joined_projections and memory is None:
        return (*_joined(tape, x, spec, weights, work), None)
    query = linear(tape, x, query_map, weights.of(query_map), work)
    if spec.output_gate:
        gate = tape.view(query, query.elements // 2)
        query = tape.view(query, query.elements // 2)
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


def _mix(
    tape: Tape,
    query: Value,
    key: Value,
    value: Value,
    spec: Attention,
    work: Work,
    key_length: int,
) -> Value:
    """softmax(q k') v by the chosen implementation."""
    if work.attention == "eager":
        return _eager(tape, query, key, value, spec, work, key_length)
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
    return tape.op(
        "attention output",
        (query, key, value),
        out,
        query.width,
        saves=(query, key, value),
        saves_output=True,
        keeps=sums,
        scratch=mask,
        backward_scratch=4 * query.elements + sums + copies + mask,
    )


def _groups(spec: Attention, work: Work) -> int:
    """Query heads for each key head, as attention gets them."""
    if work.joined_projections and work.repeat_keys:
        return 1
    return spec.heads // max(spec.key_heads, 1)


def _eager(
    tape: Tape,
    query: Value,
    key: Value,
    value: Value,
    spec: Attention,
    work: Work,
    key_length: int,
) -> Value:
    """Scores as tensors: product, scaled, masked, softmax in float32, and its cast."""
    groups = _groups(spec, work)
    if groups > 1:
        key = tape.op("repeated keys", (key,), key.elements * groups, key.width)
        value = tape.op("repeated values", (value,), value.elements * groups, value.width)
    width = work.compute if work.autocast else query.width
    tokens = query.elements // (spec.heads * spec.key_dim)
    scores = tokens * key_length * spec.heads
    product = tape.op(
        "attention scores", (query, key), scores, width, saves=(query, key), kind="attention scores"
    )
    scaled = tape.op("attention scores scaled", (product,), scores, width, kind="attention scores")
    if spec.softcap:
        capped = tape.op("attention scores over the cap", (scaled,), scores, width)
        capped.storage.kind = "attention scores"
        scaled = tape.op(
            "attention scores softcap",
            (capped,),
            scores,
            width,
            saves_output=True,
            kind="attention scores",
        )
        scaled = tape.op(
            "attention scores capped", (scaled,), scores, width, kind="attention scores"
        )
    if spec.causal or work.mask:
        scaled = tape.op(
            "attention scores masked", (scaled,), scores, width, kind="attention scores"
        )
    soft_width = max(work.softmax_width, width)
    if work.softmax_keeps_input:
        scaled = cast(tape, scaled, soft_width, "attention scores for the softmax")
    soft = tape.op(
        "attention softmax",
        (scaled,),
        scores,
        soft_width,
        saves=(scaled,) if work.softmax_keeps_input else (),
        saves_output=True,
        kind="attention scores",
    )
    chances = cast(tape, soft, width, "attention weights")
    chances.storage.kind = "attention scores"
    if spec.dropout > 0 and work.training:
        chances = tape.op(
            "attention dropout", (chances,), scores, width, keeps=scores, kind="attention scores"
        )
    return tape.op(
        "attention output",
        (chances, value),
        tokens * spec.heads * spec.value_dim,
        width,
        saves=(chances, value),
    )


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


def mlp(tape: Tape, x: Value, spec: Mlp, weights: Weights, work: Work) -> Value:
    """The feed-forward part, dense or with experts; x [T, D] -> [T, D]."""
    if spec.experts:
        if not work.grouped_experts:
            return _looped_mixture(tape, x, spec, weights, work)
        return _mixture(tape, x, spec, weights, work)
    return _dense(tape, x, spec.projections, spec, weights, work)


def _dense(
    tape: Tape, x: Value, maps: tuple[Linear, ...], spec: Mlp, weights: Weights, work: Work
) -> Value:
    down = maps[-1]
    if len(maps) == 3:
        gate = linear(tape, x, maps[0], weights.of(maps[0]), work)
        if work.gated_kernel:
            up = linear(tape, x, maps[1], weights.of(maps[1]), work)
            product = tape.op(
                "gated product", (gate, up), gate.elements, gate.width, saves=(gate, up)
            )
        else:
            active = _activation(tape, gate, spec.activation, work)
            up = linear(tape, x, maps[1], weights.of(maps[1]), work)
            product = tape.op(
                "gated product", (active, up), up.elements, up.width, saves=(active, up)
            )
    elif spec.fused_gate:
        both = linear(tape, x, maps[0], weights.of(maps[0]), work)
        half = both.elements // 2
        gate = tape.view(both, half)
        active = tape.op("activation", (gate,), half, both.width, saves=(gate,))
        product = tape.op(
            "gated product",
            (active, both),
            half,
            both.width,
            saves=(active, both),
            backward_scratch=both.bytes,
        )
        tape.touch(both)
    else:
        inner = linear(tape, x, maps[0], weights.of(maps[0]), work)
        product = _activation(tape, inner, spec.activation, work)
    tape.touch(x)
    return linear(tape, product, down, weights.of(down), work)


_UNFUSED = {"gelu_new": 3, "gelu_fast": 3, "quick_gelu": 1, "relu2": 1, "xielu": 3}


def _activation(tape: Tape, x: Value, name: str, work: Work) -> Value:
    """The activation; those written in Python keep their intermediate tensors."""
    extra = 0 if work.fused_activations else _UNFUSED.get(name, 0)
    if name == "relu":
        return tape.op("activation", (x,), x.elements, x.width, saves_output=True)
    return tape.op("activation", (x,), x.elements, x.width, saves=(x,), keeps=extra * x.bytes)


def _mixture(tape: Tape, x: Value, spec: Mlp, weights: Weights, work: Work) -> Value:
    """Routed experts: k copies of every token through the gate, up and down maps of experts."""
    routed = work.tokens * spec.experts_per_token
    hidden = x.elements // work.tokens
    scores = tape.op("router", (x,), work.tokens * spec.experts, x.width)
    tape.op("router softmax", (scores,), scores.elements, 4, saves_output=True)
    gathered = tape.op("tokens by expert", (x,), routed * hidden, x.width)
    gate_map, up_map, down_map = spec.projections
    gate = _expert(tape, gathered, gate_map, weights, work, routed)
    active = _activation(tape, gate, spec.activation, work)
    up = _expert(tape, gathered, up_map, weights, work, routed)
    product = tape.op("gated product", (active, up), up.elements, up.width, saves=(active, up))
    down = _expert(tape, product, down_map, weights, work, routed)
    weighted = tape.op("weighted outputs", (down,), down.elements, down.width, saves=(down,))
    result = tape.op("combined outputs", (weighted,), x.elements, x.width)
    return _shared_expert(tape, x, result, spec, weights, work)


def _looped_mixture(tape: Tape, x: Value, spec: Mlp, weights: Weights, work: Work) -> Value:
    """The experts of transformers before 5: one after another, each with its tokens.

    What one expert saves is counted for all; what it needs meanwhile only once.
    """
    routed = -(-work.tokens * spec.experts_per_token // spec.experts)
    hidden = x.elements // work.tokens
    scores = tape.op("router", (x,), work.tokens * spec.experts, x.width)
    tape.op("router softmax", (scores,), scores.elements, 4, saves_output=True)
    result = tape.op("combined outputs", (x,), x.elements, x.width)
    gate_map, up_map, down_map = spec.projections
    tape.start_repeat()
    gathered = tape.op("tokens of an expert", (x,), routed * hidden, x.width)
    gate = _expert(tape, gathered, gate_map, weights, work, routed)
    active = _activation(tape, gate, spec.activation, work)
    up = _expert(tape, gathered, up_map, weights, work, routed)
    product = tape.op("gated product", (active, up), up.elements, up.width, saves=(active, up))
    down = _expert(tape, product, down_map, weights, work, routed)
    weighted = tape.op("weighted outputs", (down,), down.elements, down.width, saves=(down,))
    tape.touch(gathered)
    tape.repeat(spec.experts)
    result = tape.add("sum of experts", result, tape.view(weighted, x.elements), fresh=False)
    return _shared_expert(tape, x, result, spec, weights, work)


def _shared_expert(
    tape: Tape, x: Value, result: Value, spec: Mlp, weights: Weights, work: Work
) -> Value:
    if spec.shared:
        beside = _dense(tape, x, spec.shared, spec, weights, work)
        result = tape.add("with the shared expert", result, beside)
    tape.touch(x)
    return result


def _expert(
    tape: Tape, x: Value, layer: Linear, weights: Weights, work: Work, routed: int
) -> Value:
    weight = weights.of(layer)
    width = work.compute if work.autocast or weight.quantized else x.width
    source = cast(tape, x, width, f"{layer.name} input")
    matrix = layer.inputs * layer.outputs
    return tape.op(
        layer.name,
        (source,),
        routed * layer.outputs,
        width,
        saves=(source,) if weight.trainable else (),
        weight_bytes=(layer.weights if work.grouped_experts else matrix) * weight.gradient
        if weight.trainable
        else 0,
        scratch=matrix * weight.dequantized,
        backward_scratch=matrix * weight.dequantized,
    )


def layer(
    tape: Tape,
    x: Value,
    spec: Layer,
    norm_kind: str,
    weights: Weights,
    work: Work,
    *,
    memory: Value | None = None,
    memory_length: int = 0,
    post_norm: bool = False,
) -> Value:
    """A whole layer: x [T, D] -> [T, D]."""
    if post_norm:
        return _post_norm_layer(tape, x, spec, weights, work)
    first = norm(tape, x, norm_kind, work, "input norm")
    mixed = attention(tape, first, spec.attention, weights, work)
    tape.touch(first)
    if spec.parallel:
        second = first if spec.norms == 1 else norm(tape, x, norm_kind, work, "mlp norm")
        forward = mlp(tape, second, spec.mlp, weights, work)
        both = tape.add("attention and mlp", mixed, forward)
        tape.touch(mixed)
        return tape.add("layer output", x, both)
    if spec.norms == 4:
        mixed = norm(tape, mixed, norm_kind, work, "attention output norm")
    mixed = _dropout(tape, mixed, spec, work)
    middle = tape.add("after attention", x, mixed)
    tape.touch(x)
    if spec.cross is not None and memory is not None:
        asked = norm(tape, middle, norm_kind, work, "cross norm")
        crossed = attention(
            tape, asked, spec.cross, weights, work, memory=memory, memory_length=memory_length
        )
        crossed = _dropout(tape, crossed, spec, work)
        middle = tape.add("after cross attention", middle, crossed)
    second = norm(tape, middle, norm_kind, work, "mlp norm")
    forward = mlp(tape, second, spec.mlp, weights, work)
    if spec.norms == 4:
        forward = norm(tape, forward, norm_kind, work, "mlp output norm")
    forward = _dropout(tape, forward, spec, work)
    return tape.add("layer output", middle, forward)


def _post_norm_layer(tape: Tape, x: Value, spec: Layer, weights: Weights, work: Work) -> Value:
    """BERT's order: attention, dropout, add, norm; mlp, dropout, add, norm."""
    mixed = _dropout(tape, attention(tape, x, spec.attention, weights, work), spec, work)
    middle = norm(tape, tape.add("after attention", mixed, x), "layer", work, "attention norm")
    forward = _dropout(tape, mlp(tape, middle, spec.mlp, weights, work), spec, work)
    return norm(tape, tape.add("after mlp", forward, middle), "layer", work, "mlp norm")


def _dropout(tape: Tape, x: Value, spec: Layer, work: Work) -> Value:
    if spec.dropout <= 0 or not work.training:
        return x
    return tape.op("dropout", (x,), x.elements, x.width, keeps=x.elements)
