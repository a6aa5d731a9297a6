"""The record of a script's own steps, and of a loop of plain torch, accelerate and PEFT."""

from collections.abc import Mapping
from functools import cached_property

from memlint.engine.guards import conditions_of_calls
from memlint.engine.name_uses import parameters
from memlint.engine.nodes import CallNode
from memlint.engine.project import are_of_one_file, is_elsewhere
from memlint.engine.values import UNKNOWN, Object, options
from memlint.runs.batches import batches_of_loop
from memlint.runs.by_script import ScriptRun, offload_of_rows
from memlint.runs.changes import add_option, set_option, together
from memlint.runs.companions import copies_of, engine_beside, runs_copy
from memlint.runs.devices import LIGHTNING
from memlint.runs.model_names import namings_of_loads
from memlint.runs.optimizer_names import STEPS_IN_BACKWARD
from memlint.runs.precision import FLOAT32, may_lack_bf16, read_load, under_autocast, write_load
from memlint.runs.references import replace_callee
from memlint.runs.run import Change, Field, span_in
from memlint.script.call_settings import UNSURE, Setting
from memlint.script.called import Call
from memlint.script.calls import Trainer
from memlint.script.checkpointing import runs_hooks_twice
from memlint.script.datasets import Dataset
from memlint.script.gradients import steps_optimizer
from memlint.script.loop_models import LoopModel, generates_in_evaluation_mode
from memlint.script.model import Script
from memlint.script.purpose import Purpose
from memlint.script.trained import Trained
from memlint.script.weight_precision import holds_float32, is_trained
from memlint.source.edits import InsertStatement, RemoveKeyword

# Ways to turn checkpointing on, newest first: the method and its keyword.
_ENABLERS = (
    ("activation_checkpointing_enable", "activation_checkpointing_kwargs"),
    ("gradient_checkpointing_enable", "gradient_checkpointing_kwargs"),
)

# Libraries whose engines decide the precision by a configuration of theirs, and what FSDP calls it.
_DECIDING = ("deepspeed", "colossalai")
# What runs the steps of Lightning, and its names of full precision.
_RUNNERS = ("Trainer", "Fabric")
_FULL = (32, "32", "32-true")
_POLICIES = (
    "MixedPrecisionPolicy",
    "MixedPrecision",
    "mp_policy",
    "param_dtype",
    "Float8",
    "float8",
)
SHORT = {"bfloat16": "bf16", "float16": "fp16"}


_EIGHT_BIT = {
    "torch.optim.AdamW": "bitsandbytes.optim.AdamW8bit",
    "torch.optim.Adam": "bitsandbytes.optim.Adam8bit",
    "transformers.AdamW": "bitsandbytes.optim.AdamW8bit",
}
# Parameters of torch's Adam that those of bitsandbytes have.
_SHARED = frozenset({"params", "lr", "betas", "eps", "weight_decay"})
# How torch's Adam takes a step, which others do not ask.
_FUSED = "fused"
_STEPS = (_FUSED, "foreach", "differentiable", "capturable")
# Steps between backward and the optimizer's, and what reduces gradients over processes.
_NEEDS_GRADIENTS = (
    *("clip_grad", "GradScaler", "in_bwd", "InBackward", "in_backward", "post_accumulate"),
    *("DistributedDataParallel", "DDP", "Accelerator", "Fabric", "deepspeed"),
)


# Where an engine is told to live on other GPUs than the training, or in another process.
_SHARE = "gpu_memory_utilization"
_OFFLOADS = "offload_gradients"


def loaders_of_training(script: Script) -> list[Dataset]:
    """Return the loaders that training reads."""
    loaders = (data for data in script.datasets if data.loader is not None)
    return [data for data in loaders if data.purpose is Purpose.TRAINING]


class StepRun(ScriptRun):
    """What the steps of a script train, from one of their loaders or from any."""

    by_hand: Mapping[str, str] = {
        **ScriptRun.by_hand,
        "vllm_share": f"Pass `{_SHARE}={{}}`, or let it sleep while the loop trains",
        "vllm_sleep": (
            "Pass `enable_sleep_mode={}`, call `sleep()` before each training step and `wake_up()` "
            "before generation"
        ),
    }

    def __init__(self, script: Script, loader: Dataset | None = None) -> None:
        self.script = script
        self._loader = loader

    @cached_property
    def _loaders(self) -> list[Dataset]:
        return [self._loader] if self._loader else loaders_of_training(self.script)

    @property
    def _unpinned(self) -> Call | None:
        """A loader of training that is definitely not told to pin memory."""
        for call in (data.call for data in self._loaders):
            pinned = call.setting("pin_memory")
            if pinned.given is False or pinned.is_switched_off:
                return call
        return None

    def read_micro_batch(self) -> Field:
        """The rows of the loader that training reads."""
        data = next(iter(self._loaders), None)
        rows = data.batch_size if data is not None else None
        if data is None or rows is None:
            return Field()
        node = rows.node if rows.node is not None else data.call.node.func
        place = data.call.node.func if is_elsewhere(node) else node
        return Field(rows.value, span_in(self.script, place), f"`{rows.name}={rows.value}`")

    def write_micro_batch(self, value: int) -> Change:
        """The loader's option; what else counts batches is left as it is."""
        data, script = next(iter(self._loaders), None), self.script
        edits = set_option(script, data.call, "batch_size", str(value)) if data else None
        return Change({"micro_batch": value}, f"Set `batch_size={value}`", edits, True)

    def read_pinned(self) -> Field:
        """By the option of a loader."""
        loader = self._unpinned
        if loader is None:
            return Field()
        return Field(False, span_in(self.script, loader.node.func), "the loader pins no memory")

    def write_pinned(self, value: bool) -> Change:
        """Tensors that are on the GPU already cannot be pinned: safe where a library collates."""
        loader, name = self._unpinned, "pin_memory"
        assert loader is not None
        collator = loader.setting("collate_fn")
        named = collator.symbol or getattr(collator.value, "type", None) or ""
        if loader.setting(name).given:
            edits = set_option(self.script, loader, name, str(value))
        else:
            edits = add_option(loader, name, str(value))
        unsafe = not str(named).startswith("transformers.")
        return Change({}, f"Pass `{name}={value}`", edits, unsafe)

    def read_vllm_share(self) -> Field:
        """By the engine's option, or its default."""
        engine = engine_beside(self.script)
        share = engine.setting(_SHARE) if engine is not None else None
        if engine is None or share is None or engine.has_unknown_keywords:
            return Field()
        value, by = (share.value, "") if share.given else (0.9, ", its default")
        span = span_in(self.script, share.node if share.node is not None else engine.node.func)
        return Field(value, span, f"`{_SHARE}={value}`{by}")

    def read_vllm_sleep(self) -> Field:
        """Off where the engine is not told that it will sleep."""
        script, engine = self.script, engine_beside(self.script)
        if engine is None or engine.setting("enable_sleep_mode").given is not False:
            return Field()
        sleeps = script.method_calls_anywhere("sleep") and script.method_calls_anywhere("wake_up")
        return Field(None if sleeps else False, span_in(script, engine.node.func))

    def read_gradient_accumulation(self) -> Field:
        """How many backward passes a step of the optimizer has, where several are counted."""
        steps, script = self.script.accumulation, self.script
        if steps is None and True in (self.in_backward.value, self.offloaded_gradients.value):
            # What only divides its loss means that many backward passes for each step.
            steps = script.loss_divisor
        return Field() if steps is None else Field(steps)

    def read_in_backward(self) -> Field:
        """On by a hook or a wrapper that steps there."""
        for call in self.script.method_calls(*STEPS_IN_BACKWARD):
            if call.method != STEPS_IN_BACKWARD[0] or steps_optimizer(call.argument(0)):
                return Field(True, span_in(self.script, call.node.func))
        return Field()

    def write_in_backward(self, value: bool) -> Change:
        """By hand."""
        wrap = "Step each weight in backward: `OptimizerInBackward(optimizer)` of memlint_runtime"
        return Change({"in_backward": True}, wrap) if value else super().write_in_backward(value)

    def read_offloaded_gradients(self) -> Field:
        """By the option of torchao's optimizer, where no trainer has it."""
        script = self.script
        taken = {optimizer_of(trainer) for trainer in script.trainers}
        calls = [one for one in script.method_calls("CPUOffloadOptimizer") if one not in taken]
        fields = (offloading(script, call) for call in calls)
        return next((one for one in fields if one.is_value(True)), Field())


class LoopRun(StepRun):
    """A language model that a loop trains."""

    def __init__(self, script: Script, model: LoopModel) -> None:
        super().__init__(script)
        self.model = model

    @property
    def trains_language_model(self) -> bool:
        return True

    @property
    def billions(self) -> float | None:
        return self.model.facts.billions

    @property
    def trained(self) -> Trained | None:
        """Where nothing may put it into evaluation mode, and the step certainly runs."""
        load = self.model.load.node
        loops = (one for one in self.script.trained if one.trainer is None)
        return next((one for one in loops if getattr(one.facts.load, "node", None) is load), None)

    @property
    def _lengths_vary(self) -> bool:
        loaders = loaders_of_training(self.script)
        differ = bool(loaders) and all(one.lengths_differ for one in loaders)
        return differ and self.script.on_gpu and self.script.lengths_may_differ(None)

    # -- the optimizer ---------------------------------------------------------------------------

    @property
    def _adam(self) -> Call | None:
        """The one optimizer of the script, over all weights of the one model that it trains; of
        several that each get these the first, those whose steps are chosen last."""
        script = self.script
        made = [*script.calls_anywhere(*_EIGHT_BIT)]
        made.sort(key=lambda one: (is_elsewhere(one.node), any(map(one.keyword_node, _STEPS))))
        alone = len(script.trained) == 1 and all(one.optimizes_all for one in made)
        same = len(made) == 1 or (len(made) > 1 and all(map(self._is_given, made)))
        known = alone and same and self.trains_all_weights and not _may_be_another(script, made)
        return made[0] if known else None

    def _is_given(self, made: Call) -> bool:
        """True if an optimizer gets parameters of the model, however often that is loaded."""
        given = made.argument(0)
        asked = given.made_by if isinstance(given, Object) else None
        load = self.script.model_facts(asked.receiver).load if asked and asked.receiver else None
        return load is not None and load.node is self.model.load.node

    def read_optimizer(self) -> Field:
        """Adam with float32 states."""
        return wide_states(self.script, self._adam, self.trained)

    def write_optimizer(self, value: str) -> Change:
        """The optimizer of bitsandbytes in the place of torch's."""
        return in_eight_bits(self.script, self._adam)

    def read_at_once(self) -> Field:
        """True of torch's Adam at its default, unless its step is compiled or made in backward."""
        script, made, model = self.script, self._adam, self.trained
        if made is None or model is None or not script.on_gpu or not made.has_option(_FUSED):
            return Field()
        chosen = any(made.setting(name).given is not False for name in _STEPS)
        compiled = any("step" in script.text(one.node) for one in script.method_calls("compile"))
        if chosen or compiled or made.has_unknown_keywords or self.in_backward.value is True:
            return Field()
        return self._steps_at_once(True, span_in(script, made.node.func), f"`{made.method}`")

    def write_at_once(self, value: bool) -> Change:
        """One kernel; it rounds 16-bit weights otherwise, and older ones want weights on a GPU."""
        script, made = self.script, self._adam
        edits = set_option(script, made, _FUSED, "True") if made is not None else None
        exact = self.trained is not None and self.trained.dtype == FLOAT32
        safe = exact and script.api.behaviour("fused-step") == "anywhere"
        return Change({"optimizer": "AdamW_fused"}, f"Pass `{_FUSED}=True`", edits, not safe)

    def read_kept_copy(self) -> Field:
        """By what copies the model, or its state, once it is on the GPU."""
        script, facts = self.script, self.model.facts
        moves = [one for one in script.calls_on(facts, "cuda", "to") if not is_elsewhere(one.node)]
        for call in copies_of(script, facts, None):
            here = not is_elsewhere(call.node) and any(one.order < call.order for one in moves)
            if here and script.on_gpu and not runs_copy(script, call):
                said = (
                    f"`{call.method}` keeps a second copy of all weights on the GPU, which is "
                    f"never run: {self._as_weights()}"
                )
                return Field(True, span_in(script, call.node.func), said)
        return Field()

    def write_kept_copy(self, value: bool) -> Change:
        """By hand."""
        return Change({"copies": 0}, "Keep it in the host's memory")

    def read_gradient_accumulation(self) -> Field:
        """1 where each turn of the step certainly has a step of the optimizer."""
        counted, script = super().read_gradient_accumulation(), self.script
        if counted.number is not None or script.loss_divisor or script.may_use("accumulat"):
            return counted
        step = self.model.step
        plain = step.optimizer_steps and not any(conditions_of_calls(step.node, "step"))
        return Field(1) if plain else counted

    def read_in_backward(self) -> Field:
        """Off where plain Adam steps all weights of one process."""
        script, made = self.script, self._adam
        hooked = super().read_in_backward()
        needed = script.needs_gradients_in_place or script.may_use(*_NEEDS_GRADIENTS)
        if hooked.value is True or made is None or needed or not script.on_gpu:
            return hooked
        return self._keeps_gradients(made.node.func)

    # -- the model -------------------------------------------------------------------------------

    def read_checkpointing(self) -> Field:
        """By a call of the script."""
        script, model = self.script, self.model
        decided = not script.on_gpu or script.may_checkpoint
        on = script.owner_of_checkpointing(model.facts).on
        off = not decided and on is False
        return Field(
            UNSURE if model.in_evaluation_mode else "none" if off else "full" if on else UNSURE,
            span_in(script, model.load.node.func),
            "a loop trains this model without activation checkpointing",
        )

    def write_checkpointing(self, value: str) -> Change:
        """A call after the model is loaded, of the kind that is not reentrant."""
        script, facts = self.script, self.model.facts
        namings = namings_of_loads(script, facts) or ()
        name = namings[0].name if namings else "model"
        method, keyword = next(
            (
                pair
                for pair in _ENABLERS
                if script.api.signature(f"transformers.PreTrainedModel.{pair[0]}") is not None
            ),
            _ENABLERS[-1],
        )
        message = f"Call `{name}.{method}()` after it is loaded"
        changed = {"checkpointing": value}
        if script.is_named("past_key_values"):
            # In training mode it drops what is cached.
            return Change(changed, f"{message}, where nothing is trained on `past_key_values`")
        written = f'{{}}.{method}({keyword}={{{{"use_reentrant": False}}}})'
        doubted = any(load.loads_own_code for load in facts.loads)
        if not facts.can_checkpoint:
            message, doubted = f"{message}, if the model's class supports it", True
        twice = runs_hooks_twice(script)
        message, doubted = message + twice, doubted or bool(twice)
        if not self.model.in_training_mode:
            message += (
                f", and `{name}.train()`: a loaded model is in evaluation mode, in which nothing "
                "is checkpointed and nothing dropped"
            )
            written, doubted = f"{written}\n{{}}.train()", True
        if not generates_in_evaluation_mode(script, facts):
            message += ", and put it in evaluation mode to generate: it keeps no cache otherwise"
            doubted = True
        calls = tuple(
            InsertStatement(script.span(at), written.format(own, own), "after")
            for own, at in namings
        )
        return Change(changed, message, calls or None, doubted)

    def read_offload(self) -> Field:
        """``none`` of long rows, where nothing moves what they leave to the host."""
        tokens = batches_of_loop(self.script).get("seq_len", 0)
        return offload_of_rows(self.script, tokens, self.model.load.node)

    def read_weights_dtype(self) -> Field:
        """That of the load, where nothing casts it and no trainer has it."""
        script, model = self.script, self.model
        if (
            not script.on_gpu
            or script.casts_of(model.facts)
            or script.may_use("GradScaler")
            or model.facts.load is None
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
        if script.imports_package(*LIGHTNING):
            return in_full_precision(script, self.model.load.node)
        accelerators = [one.setting("mixed_precision") for one in self._accelerators]
        decided = zip(self._accelerators[:1], accelerators, strict=False)
        places = [one.node or call.node for call, one in decided if one.given]
        # Where the pass is in another file than the load, it is said of the load.
        own = (one.node for one in model.forwards if are_of_one_file(one.node, model.load.node))
        place = next(iter((*places, *(one.func for one in own))), model.load.node.func)
        return Field(
            UNSURE if self._is_decided_elsewhere(accelerators) else "float32",
            span_in(script, place),
            "trains in float32, without autocast",
        )

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
        """The option of what runs the steps, or autocast around their passes."""
        script = self.script
        dtype = "float16" if may_lack_bf16(script) else value
        message = f"Run the forward pass under `torch.autocast(..., dtype=torch.{dtype})`"
        edits = None
        if runners := _runners(script):
            written = f'"{SHORT[dtype]}-mixed"'
            message = f"Set `precision={written}`"
            edits = together(*(set_option(script, o, "precision", written) for o in runners))
        elif self._accelerators:
            written = f'"{SHORT[dtype]}"'
            message = f"Set `mixed_precision={written}`"
            made = (set_option(script, o, "mixed_precision", written) for o in self._accelerators)
            edits = together(*made)
        elif dtype == "bfloat16":
            # float16 wants its losses scaled, which is more than a statement.
            edits = under_autocast(script, self.model.forwards, dtype)
        return Change({"compute_dtype": dtype, "autocast": True}, message, edits, True)


class EncoderRun(ScriptRun):
    """An encoder that a loop trains: the precision of its passes and what they keep is read."""

    def __init__(self, script: Script, model: LoopModel) -> None:
        self.script = script
        self._run = LoopRun(script, model)

    def read_compute_dtype(self) -> Field:
        """As for a language model."""
        return self._run.read_compute_dtype()

    def write_compute_dtype(self, value: str) -> Change:
        """As for a language model."""
        return self._run.write_compute_dtype(value)

    def read_checkpointing(self) -> Field:
        """As for a language model, where it has a head and nothing freezes its layers."""
        frozen = self.script.sets("requires_grad", "requires_grad_")
        whole = self._run.model.facts.is_encoder and not frozen
        return self._run.read_checkpointing() if whole else Field()

    def write_checkpointing(self, value: str) -> Change:
        """As for a language model."""
        return self._run.write_checkpointing(value)


def in_full_precision(script: Script, model: CallNode) -> Field:
    """float32 where all trainers of Lightning are left at that, or told so."""
    runners = _runners(script)
    settings = [one.setting("precision") for one in runners]
    # What a strategy or a plugin may decide is not known.
    kept = all(one.setting("plugins").given is False for one in runners)
    full = all(one.given is False or one.is_value(*_FULL) for one in settings)
    if not runners or not kept or not full or any(one.has_unknown_keywords for one in runners):
        return Field()
    written = next((one.node for one in settings if one.given), None)
    place = written if written is not None else runners[0].node.func
    place = model.func if is_elsewhere(place) else place
    return Field("float32", span_in(script, place), "trains in float32, without autocast")


def _runners(script: Script) -> tuple[Call, ...]:
    calls = script.method_calls_anywhere(*_RUNNERS)
    return tuple(one for one in calls if one.name.partition(".")[0] in LIGHTNING)


def optimizer_of(trainer: Trainer) -> Call | None:
    """The call that makes the optimizer that a trainer is given."""
    given = trainer.setting("optimizers").value
    first = given[0] if isinstance(given, tuple | list) and given else None
    return trainer.script.call_at(first.node) if isinstance(first, Object) else None


def wide_states(script: Script, made: Call | None, model: Trained | None) -> Field:
    """Adam of torch over all weights of a model in float32."""
    if made is None or made.name not in _EIGHT_BIT or not made.optimizes_all:
        return Field()
    if model is None or model.dtype != FLOAT32 or is_elsewhere(made.node):
        return Field()
    return Field("adamw_torch", span_in(script, made.node.func), f"`{made.method}`")


def in_eight_bits(script: Script, made: Call | None) -> Change:
    """The Adam of bitsandbytes in the place of torch's."""
    name, edits = _EIGHT_BIT[made.name] if made is not None else "AdamW8bit", None
    if made is not None and not (made.has_unknown_keywords or made.is_partial):
        taken = _SHARED.issuperset(set(made.keywords) - set(_STEPS))
        rest = [one for one in _STEPS if made.keyword_node(one) is not None]
        gone = (RemoveKeyword(made.span, one) for one in rest)
        edits = together(replace_callee(script, made, name), (*gone,)) if taken else None
    message = f"Use `{name}` (pip install bitsandbytes)"
    return Change({"optimizer": "AdamW8bit"}, message, edits, True)


def offloading(script: Script, optimizer: Call) -> Field:
    """Whether each backward pass writes the gradients of torchao's optimizer to the CPU."""
    option = optimizer.setting(_OFFLOADS)
    if option.value is not True or option.is_overridable_default:
        return Field()
    return Field(True, span_in(script, option.node or optimizer.node.func))


def _may_be_another(script: Script, made: list[Call]) -> bool:
    """True if what steps is an optimizer on some path, and something else on another, or code of
    the project's that is called as an optimizer is: both may step a share of the weights."""
    nodes = [one.node for one in made]
    for call in script.method_calls_anywhere("step"):
        found = options(call.receiver or UNKNOWN)
        known = [isinstance(one, Object) and one.root.node in nodes for one in found]
        if any(known) and (not all(known) or _stands_for_optimizer(script, call)):
            return True
    return False


def _stands_for_optimizer(script: Script, step: Call) -> bool:
    """True if a call of ``step`` stands in a method that takes what an optimizer's does."""
    around = script.function(step.node)
    if around is None or around.name != "step":
        return False
    return any(one.arg == "closure" for one in parameters(around))
