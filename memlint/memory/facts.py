"""What the libraries do at which version, where a signature cannot show it.

Each fact was read in the released packages named. A run whose versions are not given is taken to
use the newest that is known.
"""

import re
from collections.abc import Mapping

from memlint.api.knowledge.model_types import model_type

# transformers: how the causal loss upcasts. Before 4.46 the model itself returned float32 logits
# and shifted a copy; until 4.48 ``ForCausalLMLoss`` upcast and shifted a copy; from 4.49 on the
# labels are padded and shifted and only the upcast remains (loss/loss_utils.py).
UPCAST = (("transformers", (4, 49), "padded"), ("transformers", (4, 46), "shifted"))

# transformers before 4.49: some families computed their loss themselves, in the logits' own dtype,
# as others' own (remote) code does in any version (``ModelType.loss_dtype``).
OWN_LOSS = ("transformers", (4, 49))

# bitsandbytes before 0.43.2: a 4-bit matmul kept its input for backward. An 8-bit one always does;
# before 0.45 it kept a transposed 8-bit copy beside it (autograd/_functions.py).
DROPS_INPUT = ("bitsandbytes", (0, 43, 2))
# Before 0.43 4-bit weights were made of float16 copies, and dequantize to it (nn/modules.py): with
# bfloat16 there is a second copy.
QUANTIZES_ANY_DTYPE = ("bitsandbytes", (0, 43))
NO_TRANSPOSED_CODES = ("bitsandbytes", (0, 45))

# transformers before 4.53: GPT-BigCode keeps the key/value cache while it checkpoints, and its
# cache is a view of the whole fused projection, so that each layer's stays until the loss is there.
CHECKPOINTS_WITHOUT_CACHE = ("transformers", (4, 53))

# torch before 1.11: softmax and log-softmax kept their input beside their output
# (derivatives.yaml; pytorch pull request 66018).
SOFTMAX_DROPS_INPUT = ("torch", (1, 11))

# torch 2.0: ``zero_grad`` frees gradients; before, it filled them with zeros in place.
FREES_GRADIENTS = ("torch", (2, 0))

# torch 2.0: optimizers step over all parameters at once (foreach) unless told otherwise.
FOREACH = ("torch", (2, 0))

# torch 2.0 loads kernels lazily; before, a context held all of them.
LAZY_KERNELS = ("torch", (2, 0))

# transformers 5.0: experts run as grouped matmuls, not in a loop over experts.
GROUPED_EXPERTS = ("transformers", (5, 0))

# transformers 5.0: activation checkpointing is non-reentrant unless the script says otherwise.
NON_REENTRANT = ("transformers", (5, 0))

# torch 2.8 on transformers 4.55: the Trainer's default optimizer is fused AdamW.
FUSED_ADAMW = ("transformers", (4, 55))

# trl: checkpointing by default from 0.22; losses without logits by default from 1.15.
TRL_CHECKPOINTS = ("trl", (0, 22))
TRL_TILES = ("trl", (1, 15))

# Loops that compile the model left their loss alone; training frameworks of torch 2.8's time
# (torchtitan from mid 2025) compile it too. A Trainer compiles the model with its loss.
COMPILED_LOSS = ("torch", (2, 8))

# torchtitan between May and December 2025 (torch 2.8 to 2.10): on Blackwell attention is cuDNN's,
# which its list of outputs to keep did not name, so that attention ran again in backward
# (its commits 3b85aa3 and b39377f).
CUDNN_ATTENTION = ("torch", (2, 8))
KEEPS_CUDNN_ATTENTION = ("torch", (2, 11))

# accelerate before 1.11: ``no_sync`` did nothing under FSDP2, so that each micro-batch's gradients
# were reduced (its pull request 3762). It came out with transformers 4.57.
FSDP2_DEFERS = ("accelerate", (1, 11))
FSDP2_DEFERS_SINCE = ("transformers", (4, 57))

# trl 1.0: no k-bit preparation of quantized models, and their adapters are cast to bfloat16
# (read in 0.24, which prepares, and 1.0, which does not).
TRL_LEAVES_KBIT = ("trl", (1, 0))

# transformers 4.48: sdpa leaves keys unrepeated where it gets no mask (torch's enable_gqa).
SDPA_GROUPS = ("transformers", (4, 48))

# transformers 5.15: attention with T5's relative positions is sdpa's, not written out any more.
# Until 5.20 its bias did not lie in one piece, so that sdpa wrote the scores out, in float32.
RELATIVE_SDPA = ("transformers", (5, 15))
RELATIVE_KERNEL = ("transformers", (5, 20))

# transformers 4.36: sdpa is the default attention.
SDPA_DEFAULT = ("transformers", (4, 36))


def reaches(versions: Mapping[str, str], fact: tuple[str, tuple[int, ...]]) -> bool:
    """True if the version in use is the fact's or newer; an unknown one is."""
    library, least = fact
    numbers = re.match(r"[v=~<>! ]*([\d.]*)", versions.get(library) or "")
    found = tuple(int(part) for part in numbers[1].split(".") if part) if numbers else ()
    return not found or found >= least


def own_loop(versions: Mapping[str, str], trainer: str) -> bool:
    """True if a script computes its loss itself: versions are named, transformers is not."""
    return trainer == "loop" and bool(versions) and "transformers" not in versions


def uses_litgpt(versions: Mapping[str, str]) -> bool:
    """True if the model is litgpt's own code: keys repeated for every head, output not tied.

    With bitsandbytes its output matrix is quantized like every other (litgpt/model.py, lora.py).
    """
    return "litgpt" in versions


def holds_output(versions: Mapping[str, str], loss: str | None) -> bool:
    """True if a loop's name for its logits lives until the next forward pass is over.

    One that takes its loss in pieces knows what logits cost, and deletes them, as torchtune's
    recipes always do; litgpt's scripts keep their list of pieces.
    """
    return (loss != "chunked" and "torchtune" not in versions) or uses_litgpt(versions)


def defers_reduction(versions: Mapping[str, str], trainer: str) -> bool:
    """True if gradients of FSDP2 stay whole between micro-batches."""
    if trainer == "loop":
        return True
    known = FSDP2_DEFERS if "accelerate" in versions else FSDP2_DEFERS_SINCE
    return reaches(versions, known)


def widens_outputs(versions: Mapping[str, str], trainer: str) -> bool:
    """True if the loop gets its logits in float32: Lightning Fabric converts a model's outputs.

    Source: ``convert_output`` of Fabric's precision plugins (half, mixed and bitsandbytes).
    """
    return trainer == "loop" and bool({"litgpt", "lightning"} & set(versions))


def upcast(versions: Mapping[str, str], family: str, *, own: bool, pure: bool) -> str:
    """How the causal loss upcasts: ``padded``, ``shifted``, ``model`` or ``none``.

    torchtune's own decoder hands its logits out in float32 (``unembed``)."""
    own_loss = model_type(family).loss_dtype
    if own_loss in ("none", "padded"):
        return own_loss
    if own:
        return "none" if pure and "torchtune" not in versions else "padded"
    if own_loss == "own" or (own_loss and not reaches(versions, OWN_LOSS)):
        return "own"
    for library, least, name in UPCAST:
        if reaches(versions, (library, least)):
            return name
    return "model"
