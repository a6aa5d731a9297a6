"""The record of a hand-written loop of plain torch, accelerate and PEFT.

It rests on models that a step of the script certainly trains (``script.loop_models``).
"""

from __future__ import annotations

import ast

from memlint.engine.project import are_of_one_file, is_elsewhere
from memlint.runs.changes import set_option
from memlint.runs.precision import FLOAT32, may_lack_bf16, read_load, write_load
from memlint.runs.run import Change, Field, TrainingRun
from memlint.script.call_settings import UNSURE, Setting
from memlint.script.called import Call
from memlint.script.datasets import Dataset
from memlint.script.loop_models import LoopModel
from memlint.script.model import Script
from memlint.script.purpose import Purpose
from memlint.script.weight_precision import holds_float32, is_trained
from memlint.source.edits import InsertStatement

# Ways to turn checkpointing on, newest first: the method and its keyword.
_ENABLERS = (
    ("activation_checkpointing_enable", "activation_checkpointing_kwargs"),
    ("gradient_checkpointing_enable", "gradient_checkpointing_kwargs"),
)
# Methods that return the model that they are called on.
_SAME = ("to", "cuda", "train", "eval", "float", "half", "bfloat16", "requires_grad_")

# Libraries whose engines decide the precision by a configuration of theirs, and what FSDP calls it.
_DECIDING = ("deepspeed", "colossalai")
_LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric")
# What runs the steps of Lightning, and its names of full precision.
_RUNNERS = ("Trainer", "Fabric")
_FULL = (32, "32", "32-true")
_POLICIES = ("MixedPrecisionPolicy", "MixedPrecision", "mp_policy", "param_dtype")
_SHORT = {"bfloat16": "bf16", "float16": "fp16"}


class LoopRun(TrainingRun):
    """A language model that a loop trains."""

    def __init__(self, script: Script, model: LoopModel) -> None:
        self.script = script
        self.model = model

    def has_billions(self, least: float, most: float) -> bool:
        billions = self.model.facts.billions
        return billions is not None and least <= billions <= most

    @property
    def _loader(self) -> Dataset | None:
        """The loader that training reads."""
        loaders = (data for data in self.script.datasets if data.loader is not None)
        return next((data for data in loaders if data.purpose is Purpose.TRAINING), None)

    def read_micro_batch(self) -> Field:
        """The rows of the loader that training reads."""
        data = self._loader
        rows = data.batch_size if data is not None else None
        if data is None or rows is None:
            return Field()
        node = rows.node if rows.node is not None else data.call.node.func
        place = data.call.node.func if is_elsewhere(node) else node
        return Field(rows.value, self.script.span(place), f"`{rows.name}={rows.value}`")

    def write_micro_batch(self, value: int) -> Change:
        """The loader's option; what else counts batches is left as it is."""
        data, script = self._loader, self.script
        edits = set_option(script, data.call, "batch_size", str(value)) if data else None
        return Change({"micro_batch": value}, f"Set `batch_size={value}`", edits, True)

    def read_gradient_accumulation(self) -> Field:
        """How many backward passes a step of the optimizer has, where several are counted."""
        steps = self.script.accumulation
        return Field() if steps is None else Field(steps, said=f"{steps} batches make a step")

    def write_gradient_accumulation(self, value: int) -> Change:
        """By hand."""
        return Change({"gradient_accumulation": value}, f"accumulate {value} times")

    def read_checkpointing(self) -> Field:
        """By a call of the script."""
        script, model = self.script, self.model
        decided = not script.on_gpu or script.may_use("checkpointing", "torch.utils.checkpoint")
        off = not decided and script.owner_of_checkpointing(model.facts).on is False
        return Field(
            "none" if off and not model.in_evaluation_mode else UNSURE,
            script.span(model.load.node.func),
            "a loop trains this model without activation checkpointing",
        )

    def write_checkpointing(self, value: str) -> Change:
        """A call after the model is loaded, of the kind that is not reentrant."""
        script, model = self.script, self.model
        load = model.load
        name = self._name(load)
        method, keyword = next(
            (
                pair
                for pair in _ENABLERS
                if script.api.signature(f"transformers.PreTrainedModel.{pair[0]}") is not None
            ),
            _ENABLERS[-1],
        )
        message = f"Call `{name or 'model'}.{method}()` after it is loaded"
        changed = {"checkpointing": value}
        if script.method_calls("generate"):
            return Change(changed, f"{message}, and put it in evaluation mode to generate")
        if name is None or script.is_named("past_key_values"):
            return Change(changed, message)
        if not model.in_training_mode:
            message += (
                f", and `{name}.train()`: a loaded model is in evaluation mode, in which nothing "
                "is checkpointed"
            )
            return Change(changed, message)
        written = f'{name}.{method}({keyword}={{"use_reentrant": False}})'
        call = InsertStatement(script.span(script.statement(load.node)), written, "after")
        return Change(changed, message, (call,), load.loads_own_code)

    def read_weights_dtype(self) -> Field:
        """That of the load, where nothing casts it and no trainer has it."""
        script, model = self.script, self.model
        narrow = [name for name in script.casts_of(model.facts) if name != FLOAT32]
        if (
            not script.on_gpu
            or narrow
            or script.may_use("GradScaler")
            or is_trained(script, model.load)
        ):
            return Field()
        return read_load(script, model.load, frozen=model.facts.peft is True)

    def write_weights_dtype(self, value: str) -> Change:
        """Where the model is loaded."""
        return write_load(self.script, self.model.load, value, frozen=self.model.facts.peft is True)

    def read_compute_dtype(self) -> Field:
        """float32 where no pass of the step can be under autocast."""
        script, model = self.script, self.model
        if not script.on_gpu or not holds_float32(script, model.facts):
            return Field()
        if not model.without_autocast:
            return Field()
        if script.imports_package(*_LIGHTNING):
            return self._compute_dtype_of_lightning()
        accelerators = [one.setting("mixed_precision") for one in self._accelerators]
        decided = zip(self._accelerators[:1], accelerators, strict=False)
        places = [one.node or call.node for call, one in decided if one.given]
        # Where the pass is in another file than the load, it is said of the load.
        own = (one.node for one in model.forwards if are_of_one_file(one.node, model.load.node))
        place = next(iter((*places, *(one.func for one in own))), model.load.node.func)
        return Field(
            UNSURE if self._is_decided_elsewhere(accelerators) else "float32",
            script.span(place),
            "trains in float32, without autocast",
        )

    def _compute_dtype_of_lightning(self) -> Field:
        """float32 where all its trainers are left at that, or told so."""
        runners = self._runners
        settings = [one.setting("precision") for one in runners]
        # What a strategy or a plugin may decide is not known.
        kept = all(one.setting("plugins").given is False for one in runners)
        full = all(one.given is False or one.is_value(*_FULL) for one in settings)
        if not runners or not kept or not full or any(one.has_unknown_keywords for one in runners):
            return Field()
        written = next((one.node for one in settings if one.given), None)
        place = written if written is not None else runners[0].node.func
        place = self.model.load.node.func if is_elsewhere(place) else place
        return Field("float32", self.script.span(place), "trains in float32, without autocast")

    @property
    def _runners(self) -> tuple[Call, ...]:
        """What runs the steps of Lightning."""
        calls = self.script.method_calls_anywhere(*_RUNNERS)
        return tuple(one for one in calls if one.name.partition(".")[0] in _LIGHTNING)

    @property
    def _accelerators(self) -> tuple[Call, ...]:
        return self.script.calls_anywhere("accelerate.Accelerator")

    def _is_decided_elsewhere(self, settings: list[Setting]) -> bool:
        """True if an engine, a policy or ``accelerate config`` decides the precision, or may."""
        if self.script.imports_package(*_DECIDING) or self.script.may_use(*_POLICIES):
            return True
        launched = self.script.launcher.mixed_precision == "no"
        # What the user's ``accelerate config`` says decides where nothing is written.
        return not all(
            setting.value in ("no", "NO") or (launched and setting.given is False)
            for setting in settings
        )

    def write_compute_dtype(self, value: str) -> Change:
        """By hand; what the GPU lacks is not taken."""
        dtype = "float16" if may_lack_bf16(self.script) else value
        message = f"Run the forward pass under `torch.autocast(..., dtype=torch.{dtype})`"
        if self._runners:
            message = f'Set `precision="{_SHORT[dtype]}-mixed"`'
        if self._accelerators:
            message = f'Set `mixed_precision="{_SHORT[dtype]}"`'
        return Change({"compute_dtype": dtype, "autocast": True}, message)

    def _name(self, load: Call) -> str | None:
        """The name that a load gives its model: ``model = Auto.from_pretrained(...).cuda()``."""
        match self.script.statement(load.node):
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                while isinstance(value, ast.Call) and value is not load.node:
                    func = value.func
                    if not isinstance(func, ast.Attribute) or func.attr not in _SAME:
                        return None
                    value = func.value
                return name if value is load.node else None
        return None
