"""From the last hidden states to the loss: the largest tensors of most runs.

N tokens with logits, V vocabulary, D hidden. Paths, with the bytes for each token and entry of
the vocabulary in 16-bit training:

full_logits: transformers' loss. The output (2), its float32 copy (4), in some versions a shifted
    copy of that (4), the log-softmax (4); in backward log-softmax, its gradient and the logits'
    (12), and the output as well where the script still holds it (14).
fused: one cross-entropy kernel over logits that exist: no log-softmax, the gradient in place.
chunked: logits in pieces. TRL's kernel keeps none; loops that split tokens keep logits and
    log-softmax in the compute dtype.
liger: the output matrix inside the loss: gradients of hidden states and matrix, one chunk.
"""

from memlint.memory.architecture import Linear
from memlint.memory.lifetimes import Value
from memlint.memory.linear_maps import Weight, Work, cast, linear
from memlint.memory.norms import norm
from memlint.memory.tape import Tape
from memlint.source.record import Record

TILE_TOKENS = 4096  # trl/kernels/chunked_logprob.py, TOKEN_CHUNK_SIZE
TILE_VOCABULARY = 32768  # its callers' default chunk_size
# What the runtime takes for pieces: half of both gradients and no less than this, or so much in
# float32.
_LEAST_WORKSPACE, _WIDE_WORKSPACE = 256 * 2**20, 48 * 2**20
_CHUNKS = 8  # torchtune's number of output chunks; litgpt's have 128 tokens


class Head(Record):
    """What the loss is computed with.

    tokens: with logits. path: see above. upcast: ``model`` (float32 output, shifted copy),
    ``shifted`` (output, float32 copy, shifted copy), ``padded`` (output, float32 copy), ``own``
    (output, shifted copy) or ``none``. autocast: log-softmax is in float32 in any case.
    held: whether the script holds the model's output until the next step's is there.
    held_in_float32: whether that is a float32 copy, which Accelerate makes under mixed precision.
    preference: log-probabilities of given tokens instead of a mean loss.
    scored: tokens whose part PPO scales in place: its gradient is put together beside the logits'.
    widened: whether the loop converts the model's output to float32 before its loss.
    in_tiles: whether the fused loss is the runtime's.
    softmax_keeps_input: whether log-softmax keeps its input, as old torch did.
    """

    vocabulary: int
    hidden: int
    tokens: int
    path: str
    upcast: str = "padded"
    held: bool = False
    held_in_float32: bool = False
    one_sequence: bool = False
    preference: bool = False
    scored: int = 0
    norm_kind: str = "rms"
    softcap: bool = False
    scaled: bool = False
    tiled_by_trl: bool = False
    compiled: bool = False
    autocast: bool = False
    widened: bool = False
    in_tiles: bool = False
    softmax_keeps_input: bool = False


def record(tape: Tape, x: Value, head: Head, weight: Weight, work: Work) -> Value:
    """Final norm, output matrix and loss; gives the value that backward starts from."""
    if head.norm_kind != "absent":
        x = norm(tape, x, head.norm_kind, work, "final norm")
    if head.tokens * head.hidden < x.elements:
        x = tape.view(x, head.tokens * head.hidden)
    if head.path == "liger":
        return _liger(tape, x, head, weight, work)
    if head.path == "chunked" and head.tiled_by_trl:
        return _tiled(tape, x, head, weight, work)
    matrix = Linear("lm_head", head.hidden, head.vocabulary)
    if head.path == "chunked":
        return _pieces(tape, x, head, weight, work)
    logits = linear(tape, x, matrix, weight, work, head.tokens)
    logits.storage.kind = "logits"
    if head.scaled:
        logits = _logits(tape, "scaled logits", logits)
    if head.softcap:
        capped = _logits(tape, "capped logits", logits)
        logits = tape.op(
            "softcap", (capped,), capped.elements, capped.width, kind="logits", saves_output=True
        )
        logits = _logits(tape, "capped and scaled logits", logits)
    if head.widened:
        logits = cast(tape, logits, 4, "logits in float32")
        logits.storage.kind = "logits"
        head = head._replace(upcast="none")
    if head.preference:
        return _log_probabilities(tape, logits, head)
    return _cross_entropy(tape, logits, head)


def _logits(tape: Tape, name: str, x: Value) -> Value:
    return tape.op(name, (x,), x.elements, x.width, kind="logits")


def _compiled(tape: Tape, logits: Value, head: Head) -> Value:
    """A compiled loss reads the logits in place; its gradient is one tensor of their dtype."""
    loss = tape.op(
        "loss",
        (logits,),
        head.tokens,
        4,
        saves=(logits,),
        backward_scratch=4 * logits.elements,
        kind="logits",
    )
    if head.held:
        tape.name(logits)
    return loss


def _cross_entropy(tape: Tape, logits: Value, head: Head) -> Value:
    if head.compiled:
        return _compiled(tape, logits, head)
    narrow = logits
    shift = head.upcast in ("model", "shifted", "own") and not head.one_sequence
    if head.upcast == "own":
        if shift:
            logits = _logits(tape, "shifted logits", logits)
        tape.touch(narrow)
        shift = False
    wide = logits
    if head.upcast not in ("none", "own") or head.autocast:
        wide = cast(tape, logits, 4, "logits in float32")
    wide.storage.kind = "logits"
    shifted = _logits(tape, "shifted logits", wide) if shift else wide
    if head.path == "fused":
        loss = tape.op("loss", (shifted,), head.tokens, 4, saves=(shifted,), kind="logits")
    else:
        chances = tape.op(
            "log-softmax",
            (shifted,),
            shifted.elements,
            shifted.width,
            saves=(shifted,) if head.softmax_keeps_input else (),
            saves_output=True,
            kind="logits",
        )
        loss = tape.op("loss", (chances,), head.tokens, 4)
    read = {"own": (narrow, logits), "model": (wide, shifted)}
    last = read.get(head.upcast, (narrow, wide, shifted))
    tape.touch(*last)
    if head.held:
        output = cast(tape, last[0], 4, "output in float32") if head.held_in_float32 else last[0]
        output.storage.kind = "logits"
        tape.name(output)
    return loss


def _log_probabilities(tape: Tape, logits: Value, head: Head) -> Value:
    """Log-probabilities of the chosen tokens: trl's ``selective_log_softmax``.

    In 16 bits it takes a log-softmax row by row; in float32, as the trainers' mixed precision
    hands the logits out, a log-sum-exp, whose backward reads the logits again.
    """
    name, kind, tokens = "log-probabilities", "logits", head.tokens
    if head.path == "fused":
        return tape.op(name, (logits,), tokens, 4, saves=(logits,))
    if head.autocast:
        wide = cast(tape, logits, 4, "logits in float32")
        wide.storage.kind = kind
        size = wide.bytes + 8 * head.scored * head.vocabulary
        return tape.op(name, (wide,), tokens, 4, saves=(wide,), backward_scratch=size, kind=kind)
    loss = tape.op(name, (logits,), tokens, logits.width, keeps=logits.bytes, kind=kind)
    tape.touch(logits)
    return loss


def _pieces(tape: Tape, x: Value, head: Head, weight: Weight, work: Work) -> Value:
    """Output matrix and loss by chunks of tokens: the log-softmax of all (in float32, or in the
    logits' dtype beside them) exists until backward, gradients of one chunk at a time."""
    matrix = head.vocabulary * head.hidden
    numbers = head.tokens * head.vocabulary
    piece = max(head.tokens // _CHUNKS, 1) * head.vocabulary
    widens = head.upcast == "padded" and not head.widened
    copy = matrix * weight.dequantized
    width = work.compute if work.autocast or weight.quantized else x.width
    size = piece if widens else numbers
    logits = tape.op("lm_head", (x,), size, width, scratch=copy, kind="logits", grad=False)
    if head.widened:
        logits = tape.op("logits in float32", (logits,), numbers, 4, kind="logits", grad=False)
    wide = 4 if widens else logits.width
    chances = tape.op("log-softmax", (logits,), numbers, wide, kind="logits", grad=False)
    tape.hold(*((chances,) if widens else (logits, chances)))
    if head.held:
        tape.name(logits)
    return tape.op(
        "loss",
        (x,),
        head.tokens,
        logits.width,
        saves=(x,) if weight.trainable else (),
        keeps=int(x.bytes * 1.5) if weight.rank else 0,
        backward_scratch=2 * piece * wide + copy,
        weight_bytes=matrix * weight.gradient if weight.trainable else 0,
    )


def _tiled(tape: Tape, x: Value, head: Head, weight: Weight, work: Work) -> Value:
    """TRL's chunked kernel: one tile of logits, gradients accumulated in float32.

    That of a float32 matrix is its gradient. What has another dtype is converted by the tile.
    """
    rows, columns = min(head.tokens, TILE_TOKENS), min(head.vocabulary, TILE_VOCABULARY)
    part = columns * head.hidden * work.compute * (work.recasts or weight.stored != work.compute)
    tile = rows * TILE_VOCABULARY * work.compute + part  # as wide for fewer words
    tile += rows * head.hidden * work.compute * (x.width > work.compute)
    matrix = head.vocabulary * head.hidden
    gradients = 4 * head.tokens * head.hidden
    gradients += 4 * matrix * (weight.trainable and weight.gradient != 4)
    # In backward a name keeps the last part of the matrix while the next one is converted.
    gradients += part * (head.vocabulary > columns)
    return tape.op(
        "log-probabilities",
        (x,),
        head.tokens,
        4,
        saves=(x,),
        scratch=tile,
        keeps=24 * head.tokens,
        backward_scratch=tile + gradients,
        weight_bytes=matrix * weight.gradient if weight.trainable else 0,
        kind="logits",
    )


def _liger(tape: Tape, x: Value, head: Head, weight: Weight, work: Work) -> Value:
    """Liger's fused linear cross entropy: the gradients are made in the forward pass. The runtime's
    makes larger pieces, and hands its gradients over without a copy."""
    x = cast(tape, x, work.compute if work.autocast else x.width, "loss input")
    matrix = head.vocabulary * head.hidden
    chunks = max(-(-head.vocabulary // head.hidden), 1)
    rows = 1 << max(-(-head.tokens // chunks) - 1, 0).bit_length()
    piece = min(rows, head.tokens) * head.vocabulary * x.width
    kept = x.bytes + (matrix * weight.gradient if weight.trainable else 0)
    recast = matrix * x.width if weight.stored > x.width else 0
    if head.in_tiles:
        most = max((matrix + head.tokens * head.hidden) * x.width // 2, _LEAST_WORKSPACE)
        most = _WIDE_WORKSPACE if x.width > 2 else most
        piece, recast = min(head.tokens * head.vocabulary * x.width, most), 0
    return tape.op(
        "loss",
        (x,),
        head.tokens,
        4,
        keeps=kept,
        scratch=piece + recast,
        weight_bytes=matrix * weight.gradient * (weight.trainable and not head.in_tiles),
        kind="logits",
    )
