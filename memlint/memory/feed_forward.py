"""Feed-forward maps on the tape: dense, gated, and mixtures of experts."""

from memlint.memory.architecture import Linear, Mlp
from memlint.memory.lifetimes import Value
from memlint.memory.linear_maps import Weights, Work, cast, linear
from memlint.memory.tape import Tape

_TILE = 1024  # tokens of a tile, or as many as the hidden size
_UNFUSED = {"gelu_new": 3, "gelu_fast": 3, "quick_gelu": 1, "relu2": 1, "xielu": 3}


def mlp(tape: Tape, x: Value, spec: Mlp, weights: Weights, work: Work) -> Value:
    """The feed-forward part, dense or with experts; x [T, D] -> [T, D]."""
    if spec.experts:
        scores = tape.op("router", (x,), work.tokens * spec.experts, x.width)
        tape.op("router softmax", (scores,), scores.elements, 4, saves_output=True)
        mixture = _mixture if work.grouped_experts else _looped_mixture
        result = mixture(tape, x, spec, weights, work)
        if spec.shared:
            beside = _dense(tape, x, spec.shared, spec, weights, work)
            result = tape.add("with the shared expert", result, beside)
    elif work.tiled:
        result = _tiled(tape, x, spec, weights, work)
    else:
        result = _dense(tape, x, spec.projections, spec, weights, work)
    tape.touch(x)
    return result


def _tiled(tape: Tape, x: Value, spec: Mlp, weights: Weights, work: Work) -> Value:
    """Tiles of tokens, one after another, each computed again when backward comes to it."""
    hidden = x.elements // work.tokens
    length = min(work.tokens, max(_TILE, hidden))
    part, inner = work._replace(batch=1, length=length, tiled=False), Tape()
    row = inner.input("tile", length * hidden, x.width)
    replay = inner.replay(_dense(inner, row, spec.projections, spec, weights, part))
    held = [(one.weights, weights.of(one)) for one in spec.projections]
    return tape.op(
        "tiled MLP",
        (x,),
        x.elements,
        x.width,
        saves=(x,),
        scratch=replay.forward.bytes,
        backward_scratch=replay.saved + replay.backward.bytes,
        weight_bytes=sum(numbers * weight.gradient for numbers, weight in held if weight.trainable),
    )


def _dense(
    tape: Tape, x: Value, maps: tuple[Linear, ...], spec: Mlp, weights: Weights, work: Work
) -> Value:
    down = maps[-1]
    first = linear(tape, x, maps[0], weights.of(maps[0]), work)
    if len(maps) == 3 or spec.fused_gate:
        gate, half = tape.halves(first) if spec.fused_gate else (first, None)
        active = gate if work.gated_kernel else _activation(tape, gate, spec.activation, work)
        up = half or linear(tape, x, maps[1], weights.of(maps[1]), work)
        product = tape.op("gated product", (active, up), up.elements, up.width, saves=(active, up))
    else:
        product = _activation(tape, first, spec.activation, work)
    if work.relative and weights.of(down).stored > product.width:  # as T5's code does
        product = cast(tape, product, weights.of(down).stored, "activation in the weight's dtype")
    return linear(tape, product, down, weights.of(down), work)


def _activation(tape: Tape, x: Value, name: str, work: Work) -> Value:
    """The activation; those written in Python keep their intermediate tensors."""
    extra = 0 if work.fused_activations else _UNFUSED.get(name, 0)
    if name == "gelu_new" and extra and work.autocast:
        # Autocast takes ``torch.pow`` in float32, and so is what follows from it.
        return tape.op("activation", (x,), x.elements, 4, keeps=x.bytes + 12 * x.elements)
    if name == "relu":
        return tape.op("activation", (x,), x.elements, x.width, saves_output=True)
    return tape.op("activation", (x,), x.elements, x.width, saves=(x,), keeps=extra * x.bytes)


def _mixture(tape: Tape, x: Value, spec: Mlp, weights: Weights, work: Work) -> Value:
    """Routed experts: k copies of every token through the gate, up and down maps of experts."""
    routed = work.tokens * spec.experts_per_token
    hidden = x.elements // work.tokens
    gathered = tape.op("tokens by expert", (x,), routed * hidden, x.width)
    weighted = _weighted(tape, gathered, spec, weights, work, routed)
    ordered = tape.op("outputs in order", (weighted,), weighted.elements, weighted.width)
    combined = tape.op("combined outputs", (ordered,), x.elements, x.width)
    tape.touch(gathered)
    return combined


def _looped_mixture(tape: Tape, x: Value, spec: Mlp, weights: Weights, work: Work) -> Value:
    """The experts of transformers before 5: one after another, each with its tokens.

    What one expert saves is counted for all; what it needs meanwhile only once.
    """
    routed = -(-work.tokens * spec.experts_per_token // spec.experts)
    hidden = x.elements // work.tokens
    result = tape.op("combined outputs", (x,), x.elements, x.width)
    tape.start_repeat()
    gathered = tape.op("tokens of an expert", (x,), routed * hidden, x.width)
    weighted = _weighted(tape, gathered, spec, weights, work, routed)
    tape.touch(gathered)
    tape.repeat(spec.experts)
    return tape.add("sum of experts", result, tape.view(weighted, x.elements), fresh=False)


def _weighted(
    tape: Tape, gathered: Value, spec: Mlp, weights: Weights, work: Work, routed: int
) -> Value:
    """What experts make of the ``routed`` tokens that they get, by the router's weights."""
    gate_map, up_map, down_map = spec.projections
    gate = _expert(tape, gathered, gate_map, weights, work, routed)
    active = _activation(tape, gate, spec.activation, work)
    up = _expert(tape, gathered, up_map, weights, work, routed)
    product = tape.op("gated product", (active, up), up.elements, up.width, saves=(active, up))
    down = _expert(tape, product, down_map, weights, work, routed)
    return tape.op("weighted outputs", (down,), down.elements, down.width, saves=(down,))


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
