"""Models of a script's own classes, as the memory model has them: a decoder, an encoder of text or
of pictures, by the layers that their constructors make."""

from collections.abc import Sequence
from math import prod
from typing import Any

from memlint.engine.modes import module_root
from memlint.engine.values import Object, options
from memlint.runs.plain_options import Options, calls_anywhere, dtype_in
from memlint.script.forward_passes import all_steps_of
from memlint.script.loaded_models import ModelFacts, model_facts
from memlint.script.model import Script
from memlint.script.own_modules import OwnLayer, OwnModuleError, numbers_of, own_layers_of

# What computes attention without its scores in memory, and what it is computed by otherwise.
_KERNELS = ("scaled_dot_product_attention", "flash_attn", "flex_attention")
_ATTENDS = (*_KERNELS, "softmax")
_HEADS = ("n_head", "n_heads", "num_heads", "heads", "nhead", "num_attention_heads", "n_q_heads")
_KEY_HEADS = ("n_kv_heads", "num_kv_heads", "n_kv_head", "num_key_value_heads", "kv_heads")
_HEAD_DIM = ("head_dim", "head_size", "d_head", "dim_head", "d_k", "hd")
# Activations, by what classes call: the first that is found counts.
_ACTIVATIONS = (
    (("approximate='tanh'", 'approximate="tanh"'), "gelu_pytorch_tanh"),
    (("gelu", "GELU"), "gelu"),
    (("silu", "SiLU", "swish"), "silu"),
    (("square", "pow(2)"), "relu2"),
    (("relu", "ReLU"), "relu"),
)


def own_facts(script: Script) -> ModelFacts | None:
    """The model of its own classes that a script trains in steps, where it is one: of several the
    one that is made first, as those are that hold the others."""
    found: list[tuple[int, ModelFacts]] = []
    for step in all_steps_of(script):
        for run in (run for one in step.all_forwards if one.own for run in one.runs):
            for root in map(module_root, options(run.module)):
                made = root.made_by if isinstance(root, Object) and root.cls else None
                if made is not None and run.gradients is not False:
                    found.append((made.order, model_facts(script, run.module)))
    return min(found, key=lambda one: one[0])[1] if found else None


def own_model(script: Script, facts: ModelFacts) -> Options:
    """The settings that a model of the script's own classes decides; a note says what of it nobody
    can read."""
    roots = [module_root(one) for one in facts.objects]
    root = next((one for one in roots if isinstance(one, Object) and one.cls is not None), None)
    if root is None:
        return {}
    try:
        shape = _Shape(script, own_layers_of(script, root))
        values = shape.settings()
    except OwnModuleError as error:
        return {"notes": {"model": f"of its own class this is not read: {error}"}}
    casts = [dtype_in(name) for _, name in script.casts_of(facts)]
    values["weights_dtype"] = next(filter(None, reversed(casts)), "float32")
    if any(calls_anywhere(script, "checkpoint.checkpoint", "checkpoint_sequential")):
        values["checkpointing"] = "full"
    return values


class _Shape:
    """The sizes of a model, by its layers.

    hidden: the width of what goes from layer to layer. depth: how many layers there are.
    """

    def __init__(self, script: Script, layers: Sequence[OwnLayer]) -> None:
        self.script = script
        self.layers = layers
        self.inner = [one for one in layers if one.turns and one.turns[0] > 0]
        self.outer = [one for one in layers if not one.turns]
        depths = {one.turns[0] for one in self.inner if parameters_of(one)}
        if len(depths) != 1:
            raise OwnModuleError("where its layers repeat")
        [self.depth] = depths
        self.texts = {one.maker: self._text(one) for one in layers}
        self.tables = self._tables()
        self.patches = next((one for one in self.outer if one.kind == "Conv2d"), None)
        if self.tables:
            self.hidden = _size(self.tables[0], "embedding_dim")
        elif self.patches is not None:
            self.hidden = _size(self.patches, "out_channels")
        else:
            raise OwnModuleError("how wide its layers are")

    def _tables(self) -> list[OwnLayer]:
        """The words first: where the head says how many, else where most are."""
        tables = [one for one in self.outer if one.kind == "Embedding"]
        wide = {one.sizes.get("out_features") for one in self.outer if one.kind == "Linear"}
        tables.sort(key=lambda one: _size(one, "num_embeddings"), reverse=True)
        return sorted(tables, key=lambda one: one.sizes["num_embeddings"] not in wide)

    @property
    def kernel(self) -> bool:
        """True if a kernel computes attention, without its scores."""
        text = " ".join(set(self.texts.values()))
        return any(word in text for word in _KERNELS)

    def _text(self, layer: OwnLayer) -> str:
        around = self.script.class_of(layer.maker) if layer.maker is not None else None
        return self.script.text(around) if around is not None else ""

    def settings(self) -> Options:
        """The model's configuration and what its head is."""
        config = {**self._config(), **self._head()}
        config |= {"parameters": sum(map(parameters_of, self.layers))}
        fixed = {"fixed_length": True} if self.patches is not None else {}
        said = f"its own classes, read as {self.depth} layers, {self.hidden:,} wide"
        return {
            "model": {"config": config},
            "attention": "sdpa" if self.kernel else "eager",
            "notes": {"model": said},
            **fixed,
        }

    def _config(self) -> dict[str, Any]:
        maps = {**self._attention(), **self._mlp()}
        positions = self._positions()
        traits = maps.pop("traits", {}) | self._norms()
        traits |= {name: maps.pop(name) for name in ("gated", "fused_gate") if name in maps}
        config = {
            "hidden_size": self.hidden,
            "num_hidden_layers": self.depth,
            "vocab_size": self._vocabulary(),
            "max_position_embeddings": positions,
            **maps,
        }
        dropped = [one.sizes.get("p", 0.5) for one in self.inner if one.kind == "Dropout"]
        dropout = max(dropped, default=0.0)
        config |= {"resid_pdrop": dropout, "hidden_dropout_prob": dropout}
        if not self.tables:
            return {"model_type": "vit", **self._pictures(), **config}
        traits |= {"position_rows": 0 if positions else None, "rotary": not positions}
        tied = self._is_tied()
        return {
            "model_type": self._kind(),
            "traits": traits,
            "tie_word_embeddings": tied,
            **config,
        }

    def _kind(self) -> str:
        """The row of a decoder, by the dtype in which its loss takes the logits."""
        losses = ("cross_entropy", "CrossEntropyLoss.__call__")
        taken = [one for one, name, _ in self.script.tensor_uses if name.endswith(losses)]
        wide = any(one.dtype == "torch.float32" for one in taken)
        return "own_decoder_float32" if wide else "own_decoder"

    def _pictures(self) -> dict[str, Any]:
        patch = _size(self.patches, "kernel_size") if self.patches is not None else 1
        side = round((self._positions() - 1) ** 0.5) * patch
        return {"patch_size": patch, "image_size": side}

    def _vocabulary(self) -> int:
        return _size(self.tables[0], "num_embeddings") if self.tables else 0

    def _positions(self) -> int:
        """The rows of a table of positions; 0 where it has none."""
        rows = [_size(one, "num_embeddings") for one in self.tables[1:]]
        rows += [
            one.sizes["shape"][-2]
            for one in self.outer
            if one.kind == "Parameter" and len(one.sizes["shape"]) > 1
            if one.sizes["shape"][-1] == self.hidden and one.sizes["shape"][-2] > 1
        ]
        return max(rows, default=0)

    def _is_tied(self) -> bool:
        shared = any(one.shared for one in self.outer if one.kind in ("Linear", "Embedding"))
        return shared or not self._output(self._vocabulary())

    def _output(self, outputs: int) -> OwnLayer | None:
        wide = (one for one in self.outer if one.kind == "Linear")
        return next((one for one in wide if one.sizes.get("out_features") == outputs), None)

    def _head(self) -> dict[str, Any]:
        """The class of transformers with such a head."""
        maps = [one for one in self.outer if one.kind == "Linear"]
        if self.tables and (not maps or self._output(self._vocabulary())):
            return {"architectures": ["OwnForMaskedLM"]}
        labels = _size(maps[-1], "out_features") if maps else 1
        return {"architectures": ["OwnForSequenceClassification"], "num_labels": labels}

    # -- layers ------------------------------------------------------------------------------------

    def _linears(self, *, attend: bool) -> list[OwnLayer]:
        """The maps of one layer that belong to its attention, or to its feed-forward part."""
        maps = [one for one in self.inner if one.kind == "Linear"]
        wide = {_ends(one) for one in maps}
        apart = [one for one in maps if not any(w in self.texts[one.maker] for w in _ATTENDS)]
        rest = [one for one in apart or maps if _is_wide(_ends(one), wide, self.hidden)]
        return [one for one in maps if (one in rest) is not attend]

    def _attention(self) -> dict[str, Any]:
        maps = self._linears(attend=True)
        drops = [one for one in self.inner if one.kind == "Dropout"]
        held = [one.sizes.get("p", 0.5) for one in drops if one.maker in {m.maker for m in maps}]
        values = _projections(self.hidden, maps, self._numbers(maps))
        if values["num_attention_heads"] == 1 and not self.kernel:
            raise OwnModuleError("how many heads its attention has")
        return {**values, "attention_dropout": max(held, default=0.0)}

    def _numbers(self, maps: Sequence[OwnLayer]) -> dict[str, int]:
        found: dict[str, int] = {}
        for maker in {one.maker for one in maps}:
            found |= numbers_of(self.script, maker)
        return found

    def _mlp(self) -> dict[str, Any]:
        maps = self._linears(attend=False)
        down = [one for one in maps if _ends(one)[1] == self.hidden]
        up = [one for one in maps if one not in down]
        if len(down) != 1 or len(up) not in (1, 2) or len(down[0].turns) > 1:
            raise OwnModuleError("the feed-forward part of its layers")
        inner = _ends(down[0])[0]
        if {_ends(one)[1] for one in up} - {inner, 2 * inner}:
            raise OwnModuleError("the feed-forward part of its layers")
        fused = _ends(up[0])[1] == 2 * inner
        return {
            "intermediate_size": inner,
            "hidden_act": self._activation(maps),
            "mlp_bias": down[0].sizes.get("bias", True),
            "gated": len(up) == 2 or fused,
            "fused_gate": "gate_up_proj" if fused else "",
        }

    def _activation(self, maps: Sequence[OwnLayer]) -> str:
        made = [one for one in self.inner if one.kind in ("GELU", "SiLU", "ReLU")]
        text = " ".join({self.texts[one.maker] for one in maps})
        text = f"{made[0].kind} {_said(made[0])}" if made else text
        names = (name for words, name in _ACTIVATIONS if any(word in text for word in words))
        found = next(names, "")
        if not found:
            raise OwnModuleError("the activation of its layers")
        return found

    def _norms(self) -> dict[str, Any]:
        """The norms of a layer: of torch, or a class with a vector of weights."""
        found: list[tuple[int, bool]] = []
        for one in self.inner:
            if one.kind == "Parameter" and len(one.sizes["shape"]) == 1:
                text = self.texts[one.maker]
                if "var(" in text:
                    raise OwnModuleError("norms that it computes itself")
                found.append((one.sizes["shape"][0], "layer_norm" in text))
            elif one.kind in ("LayerNorm", "RMSNorm"):
                biased = one.kind == "LayerNorm"
                found.append((_size(one, "normalized_shape"), biased))
        layered = any(biased for _, biased in found)
        wide = [width for width, _ in found if width == self.hidden]
        if len(wide) not in (2, 4):
            raise OwnModuleError("the norms of its layers")
        narrow = "head" if len(found) > len(wide) else ""
        norms = 4 if len(wide) == 4 and not layered else 2
        traits = {"norm": "layer" if layered else "rms", "norm_bias": layered, "norms": norms}
        return {**traits, "query_norm": narrow}


def _projections(hidden: int, maps: Sequence[OwnLayer], numbers: dict[str, int]) -> dict[str, Any]:
    """The maps of attention: of queries, keys and values, and the one out of it."""
    if len(maps) < 2 or _ends(maps[-1])[1] != hidden:
        raise OwnModuleError("the attention of its layers")
    *into, out = maps

    def named(names: Sequence[str]) -> int:
        return next((numbers[one] for one in names if numbers.get(one)), 0)

    each = max((prod(one.turns[1:]) for one in into), default=1)  # one map for each head
    width = _ends(out)[0]
    heads = each if each > 1 else named(_HEADS) or width // (named(_HEAD_DIM) or width)
    head = width // heads
    widths = [_ends(one)[1] * prod(one.turns[1:]) for one in into]
    keys = named(_KEY_HEADS) or heads
    if sum(widths) != (heads + 2 * keys) * head:
        keys = (sum(widths) // head - heads) // 2
    if sum(widths) != (heads + 2 * keys) * head or not 0 < keys <= heads or len(into) > 3:
        raise OwnModuleError("the attention of its layers")
    return {
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "head_dim": head,
        "attention_bias": into[0].sizes.get("bias", True) is not False,
        "attention_out_bias": out.sizes.get("bias", True) is not False,
        "traits": {"fused_qkv": "qkv_proj" if len(into) == 1 else ""},
    }


def _is_wide(ends: tuple[int, int], maps: set[tuple[int, int]], hidden: int) -> bool:
    """True of a map from the hidden width to another one, from which one leads back, or back."""
    first, last = ends
    inner = last if first == hidden else first
    back = {(hidden, inner), (hidden, 2 * inner), (inner, hidden), (inner // 2, hidden)}
    return first != last and len(back & maps) > 1


def _ends(one: OwnLayer) -> tuple[int, int]:
    return _size(one, "in_features"), _size(one, "out_features")


def _said(one: OwnLayer) -> str:
    return f"approximate='{one.sizes.get('approximate', 'none')}'"


def _size(one: OwnLayer, name: str) -> int:
    size = one.sizes.get(name)
    size = size[0] if isinstance(size, tuple) and size else size
    if type(size) is not int or size < 1:
        raise OwnModuleError(f"`{name}` of `nn.{one.kind}`")
    return size


def parameters_of(one: OwnLayer) -> int:
    """How many weights a layer holds, with all its repetitions."""
    return 0 if one.shared else prod(one.turns) * _WEIGHTS.get(one.kind, lambda _: 0)(one)


def _biased(one: OwnLayer) -> bool:
    return one.sizes.get("bias", True) is not False


def _of_norm(one: OwnLayer) -> int:
    given = one.sizes.get("normalized_shape")
    width = prod(given) if isinstance(given, tuple) else _size(one, "normalized_shape")
    biased = one.kind == "LayerNorm" and _biased(one)
    return 0 if one.sizes.get("elementwise_affine") is False else width * (1 + biased)


def _of_map(one: OwnLayer) -> int:
    inputs, outputs = _ends(one)
    return outputs * (inputs + _biased(one))


def _of_pictures(one: OwnLayer) -> int:
    kernel = one.sizes.get("kernel_size")
    area = prod(kernel) if isinstance(kernel, tuple) else _size(one, "kernel_size") ** 2
    return _size(one, "out_channels") * (_size(one, "in_channels") * area + _biased(one))


_WEIGHTS: dict[str, Any] = {
    "Linear": _of_map,
    "Embedding": lambda one: _size(one, "num_embeddings") * _size(one, "embedding_dim"),
    **dict.fromkeys(("LayerNorm", "RMSNorm"), _of_norm),
    "Conv2d": _of_pictures,
    "Parameter": lambda one: prod(one.sizes["shape"]),
}
