"""The record of a loop that trains a model of torchtune's own: its recipes, as Python."""

import ast
from collections.abc import Mapping

from memlint.recipes.keys import component_takes
from memlint.runs.by_loop import StepRun
from memlint.runs.changes import set_option
from memlint.runs.program_options import (
    CHUNKED_LOSS,
    IN_PIECES,
    KEPT_BASE,
    ON_OUTPUT,
    PAGED,
    WHOLE_LOSS,
)
from memlint.runs.references import reference_to, replace_callee
from memlint.runs.run import Change, Field, span_in
from memlint.script.call_settings import UNSURE
from memlint.script.called import Call
from memlint.script.model import Script
from memlint.script.torchtune import TorchtuneModel
from memlint.source.edits import InsertStatement, ReplaceExpression, WrapStatements

_DTYPES = {"torch.float32": "float32", "torch.bfloat16": "bfloat16", "torch.float16": "float16"}
_ADAM = ("torch.optim.AdamW", "torch.optim.Adam")
# Parameters of torch's Adam that the paged one has.
_SHARED = frozenset({"params", "lr", "betas", "eps", "weight_decay"})
_OFFLOADING = "enable_activation_offloading"
_OFFLOADER = "get_act_offloading_ctx_manager"
_CHECKPOINTER = "set_activation_checkpointing"
_STEPS_BETWEEN = ("in_bwd", "InBackward", "post_accumulate")


class TorchtuneRun(StepRun):
    """A model that torchtune builds and a loop of the script trains."""

    by_hand: Mapping[str, str] = {
        **StepRun.by_hand,
        "compile": "Call `torchtune.training.compile_model(model)`",
        "loss": (
            f"Use `{CHUNKED_LOSS}` on the model's output and call "
            "`model.set_num_output_chunks(loss.num_output_chunks)`"
        ),
        "packed": (
            "Set `packed=True` with `padded_collate_packed`, and hand the model the batch's `mask` "
            "and `input_pos`"
        ),
    }

    def __init__(self, script: Script, model: TorchtuneModel) -> None:
        super().__init__(script)
        self.model = model

    @property
    def trains_language_model(self) -> bool:
        return True

    def has_billions(self, least: float, most: float) -> bool:
        return True

    @property
    def is_sharded(self) -> bool:
        return self.script.is_sharded or self.script.may_use("fsdp", "FSDP", "fully_shard")

    def _of_model(self, value: object, said: str) -> Field:
        """A field that is decided where the model is built, for want of another place."""
        return Field(value, span_in(self.script, self.model.load.node.func), said)

    # -- the model -------------------------------------------------------------------------------

    def read_weights_dtype(self) -> Field:
        """The default dtype where the model is built."""
        where = self.model.dtype_argument
        node = where if where is not None else self.model.load.node.func
        value = _DTYPES.get(self.model.dtype or "", UNSURE)
        return Field(
            value,
            span_in(self.script, node),
            "builds the model in float32, which activations follow",
        )

    def write_weights_dtype(self, value: str) -> Change:
        """The default dtype, or one around the model."""
        script, model, load = self.script, self.model, self.model.load
        message = "Build it under `torchtune.training.set_default_dtype(torch.bfloat16)`"
        changed = {"weights_dtype": value}
        narrow = reference_to(script, f"torch.{value}", load.node)
        under = reference_to(script, "torchtune.training.set_default_dtype", load.node)
        where = model.dtype_argument
        if narrow is None or under is None or (where is None and model.name is None):
            return Change(changed, message)
        if where is not None:
            edits = (ReplaceExpression(script.span(where), narrow.text), *narrow.edits)
            return Change(changed, f"Set `torch.{value}`", edits, True)
        span = script.span(script.statement(load.node))
        wrap = WrapStatements(span, span, f"with {under.text}({narrow.text}):")
        return Change(changed, message, (wrap, *under.edits, *narrow.edits), True)

    def read_method(self) -> Field:
        """All weights, where torchtune has the model with adapters too."""
        package, builder = self.model.package, self.model.builder
        full = component_takes(f"{package}.lora_{builder}")
        value = "lora" if self.model.is_adapter else "full" if full else UNSURE
        return self._of_model(value, f"`{builder}` trains all weights")

    def write_method(self, value: str) -> Change:
        """Another builder."""
        builder = f"{self.model.package}.lora_{self.model.builder}"
        return Change({"method": value}, f"Train adapters with `{builder}`")

    def read_quantization(self) -> Field:
        """None of a frozen base that torchtune could quantize."""
        model, script = self.model, self.script
        plain = model.is_adapter and model.is_quantized is False and not self.is_sharded
        known = component_takes(f"{model.package}.{model.builder}", "quantize_base")
        is_open = plain and known and not script.may_use("quantiz")
        return self._of_model(None if is_open else UNSURE, KEPT_BASE.format(model.builder))

    def write_quantization(self, value: str) -> Change:
        """The builder's switch: the weights of a quantized base are made from bf16 ones."""
        model, edits = self.model, None
        if model.dtype == "torch.bfloat16":
            edits = set_option(self.script, model.load, "quantize_base", "True")
        return Change({"quantization": value}, "Set `quantize_base=True`", edits, True)

    def read_adapted_head(self) -> Field:
        """By the builder's option."""
        option = self.model.load.setting("apply_lora_to_output")
        if not self.model.is_adapter or not option.is_value(True) or option.node is None:
            return Field()
        small = self.script.may_use(*IN_PIECES)
        return Field(UNSURE if small else True, span_in(self.script, option.node), ON_OUTPUT)

    def write_adapted_head(self, value: bool) -> Change:
        """The builder's option."""
        edits = set_option(self.script, self.model.load, "apply_lora_to_output", str(value))
        return Change({"adapted_head": value}, f"Set `apply_lora_to_output={value}`", edits, True)

    def read_checkpointing(self) -> Field:
        """By a call of the script."""
        calls = self.script.calls_to(f"torchtune.training.{_CHECKPOINTER}")
        decided = self.script.may_checkpoint
        value = "full" if calls else UNSURE if decided else "none"
        return self._of_model(value, "a loop trains this model without activation checkpointing")

    def write_checkpointing(self, value: str) -> Change:
        """Beside the optimizer, where torchtune's recipes do it: adapters are in place by then."""
        script, model = self.script, self.model
        changed = {"checkpointing": value}
        message = (
            f"Call `{_CHECKPOINTER}(model, auto_wrap_policy={{TransformerSelfAttentionLayer}})` "
            "before the optimizer is made"
        )
        name, optimizer = model.name, model.optimizer
        if name is None or optimizer is None or model.load.conditional or script.may_use("compile"):
            return Change(changed, message)
        made = script.statement(optimizer.node)
        beside = script.flow.block(made)
        # Under ``with set_default_dtype(...)``, often.
        before = beside[: beside.index(made)]
        enable = reference_to(script, f"torchtune.training.{_CHECKPOINTER}", made)
        layer = reference_to(script, "torchtune.modules.TransformerSelfAttentionLayer", made)
        is_loaded = any(one in before for one in script.ancestors(model.load.node))
        if not is_loaded or enable is None or layer is None:
            return Change(changed, message)
        written = f"{enable.text}({name}, auto_wrap_policy={{{layer.text}}})"
        call = InsertStatement(script.span(made), written, "before")
        return Change(changed, message, (call, *enable.edits, *layer.edits))

    def read_offload(self) -> Field:
        """By torchtune's context manager, where it is told off or is missing."""
        script = self.script
        if script.may_use("OffloadActivations", "save_on_cpu", "saved_tensors_hooks"):
            return Field()
        node = self._offloading
        if node is not None:
            return Field("none", span_in(script, node))
        calls = script.calls_to(f"torchtune.training.{_CHECKPOINTER}")
        if script.may_use(_OFFLOADER) or not calls:
            return Field()
        return Field("none", span_in(script, calls[0].node.func))

    @property
    def _offloading(self) -> ast.expr | None:
        """The ``False`` that a context manager is given."""
        for call in self.script.calls_to(f"torchtune.training.{_OFFLOADER}"):
            keyword = call.keyword_node(_OFFLOADING)
            node = keyword.value if keyword is not None else next(iter(call.node.args[1:]), None)
            if node is not None and self.script.text(node) == "False":
                return node
        return None

    def write_offload(self, value: str) -> Change:
        """The context manager's switch."""
        node = self._offloading
        if node is None:
            advice = "Run the forward pass under `torchtune.training.OffloadActivations()`"
            return Change({"offload": value}, advice)
        edit = ReplaceExpression(self.script.span(node), "True")
        return Change({"offload": value}, f"Set `{_OFFLOADING}=True`", (edit,))

    def read_loss(self) -> Field:
        """A loss of torch, on all logits."""
        script = self.script
        calls = [
            call
            for call in script.calls_to(WHOLE_LOSS, "torch.nn.functional.cross_entropy")
            if not call.without_gradients
        ]
        if not calls or script.may_use(*IN_PIECES):
            return Field()
        said = "the loss takes the logits of all tokens at once"
        return Field("full_logits", span_in(script, calls[0].node.func), said)

    def read_compile(self) -> Field:
        """Off where nothing is called so."""
        return self._of_model(UNSURE if self.script.may_use("compile") else False, "")

    # -- what is done with it --------------------------------------------------------------------

    def read_optimizer(self) -> Field:
        """torch's Adam of one process, over all weights."""
        optimizer = self.model.optimizer
        if optimizer is None or self.model.is_adapter or self.is_sharded:
            return Field()
        value = "adamw_torch" if optimizer.name in _ADAM else UNSURE
        return Field(value, span_in(self.script, optimizer.node.func))

    def write_optimizer(self, value: str) -> Change:
        """The paged optimizer in the place of torch's."""
        call = self.model.optimizer
        message = f"Use `{PAGED}` (pip install bitsandbytes)"
        edits = None
        if call is not None and not call.has_unknown_keywords and _SHARED.issuperset(call.keywords):
            edits = replace_callee(self.script, call, PAGED)
        return Change({"optimizer": value}, message, edits, True)

    def read_in_backward(self) -> Field:
        """Off where nothing steps in backward, or needs gradients before."""
        script, optimizer = self.script, self.model.optimizer
        needed = script.needs_gradients_in_place or self.is_sharded
        if optimizer is None or needed or script.may_use(*_STEPS_BETWEEN, "clip_grad"):
            return super().read_in_backward()
        said = "all gradients are kept until the optimizer steps"
        return Field(False, span_in(script, optimizer.node.func), said)

    def write_in_backward(self, value: bool) -> Change:
        """torchtune's hooks."""
        if not value:
            return super().write_in_backward(value)
        message = "Step each weight in backward: `torchtune.training.register_optim_in_bwd_hooks`"
        return Change({"in_backward": value}, message)

    def read_gradient_accumulation(self) -> Field:
        """1 where nothing counts batches."""
        counted = self.script.accumulation or self.script.loss_divisor
        return super().read_gradient_accumulation() if counted else Field(1)

    def read_seq_len(self) -> Field:
        """None where a tokenizer of torchtune cuts nothing, and nothing else may."""
        # Anything else that names a length may cut to it.
        if self.script.may_use("max_seq_len", "truncat", "PackedDataset") or self._may_pack:
            return Field()
        call = self._tokenizer
        if call is None:
            return Field()
        said = "the tokenizer has no `max_seq_len`"
        return Field(None, span_in(self.script, call.node.func), said)

    @property
    def _may_pack(self) -> bool:
        data = self.model.component_calls("torchtune.datasets")
        packed = [call.setting("packed") for call in data]
        return any(one.given is not False and one.value is not False for one in packed)

    @property
    def _tokenizer(self) -> Call | None:
        calls = self.model.component_calls(self.model.package)
        plain = (call for call in calls if not call.has_unknown_keywords)
        return next((call for call in plain if call.method.endswith("_tokenizer")), None)

    def write_seq_len(self, value: int) -> Change:
        """The tokenizer's option."""
        call = self._tokenizer
        edits = set_option(self.script, call, "max_seq_len", str(value)) if call else None
        message = f"Set `max_seq_len={value}`, or what your data needs: longer samples are cut"
        return Change({"seq_len": value}, message, edits, True)

    def read_packed(self) -> Field:
        """False where batches of several samples are padded by torchtune's collator."""
        script = self.script
        pads = any(full.endswith(".padded_collate_sft") for _, _, full in script.imports)
        if not pads or script.may_use("PackedDataset", "padded_collate_packed"):
            return Field()
        for call in self.model.component_calls("torchtune.datasets"):
            packed = call.setting("packed")
            off = packed.is_value(False) or packed.given is False
            fits = component_takes(call.name, "packed") and "multimodal" not in call.name
            if off and fits and not call.has_unknown_keywords:
                node = packed.node if packed.given and packed.node is not None else call.node
                return Field(False, span_in(script, node))
        return Field()
