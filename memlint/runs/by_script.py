"""What is read alike of a script's trainers and of its own loops, and what configurations say."""

from collections.abc import Mapping

from memlint.engine.modes import module_root
from memlint.engine.nodes import CallNode, Expression, holder_of
from memlint.engine.project import is_elsewhere
from memlint.engine.values import Object, options
from memlint.runs.batches import tokens_of_pass
from memlint.runs.changes import set_option, together
from memlint.runs.references import reference_to
from memlint.runs.run import Change, Field, TrainingRun, span_in
from memlint.script.call_settings import MISSING, UNSURE, Setting
from memlint.script.called import Call
from memlint.script.calls import Config
from memlint.script.launcher import Launcher
from memlint.script.model import Script
from memlint.script.tokenization import may_truncate
from memlint.script.trained import Trained, is_trial
from memlint.source import Place, Span
from memlint.source.edits import InsertStatement
from memlint.source.patterns import lazy_pattern

_IN_LOOPS = ("torch.optim.AdamW", "torch.optim.Adam")
_ADAM = ("adamw_torch", "adamw_torch_fused", "adamw_hf")
# What makes a configuration of an adapter.
_ADAPTERS = ("peft.LoraConfig", "dataclasses.replace")
_LENGTHS = ("max_length", "max_seq_length", "max_completion_length")
# TRL's own limit since it has one; also where the library's default is no number.
_LIMIT = 1024
_SHARE, _SLEEP = "vllm_gpu_memory_utilization", "vllm_enable_sleep_mode"
_NF4 = {"method": "qlora", "quantization": {"bits": 4, "type": "nf4"}}


# Options whose values are those of a field.
OPTIONS = {
    "micro_batch": "per_device_train_batch_size",
    "gradient_accumulation": "gradient_accumulation_steps",
}


# What offloads already, or divides rows over GPUs.
_OFFLOADERS = (
    *("offload_activations", "offload_trainer_activations", "save_on_cpu", "OffloadActivations"),
    *("ParallelismConfig", "ParallelDims"),
)
# What speaks of the allocator, shares its memory, or wants it to stay as it is.
_ALLOCATES = lazy_pattern(
    r"ALLOC_CONF|expandable_segments|allocator_settings|PluggableAllocator|dotenv|MemPool|"
    r"empty_cache|(?i:cuda_?graph)|reduce-overhead|max-autotune|vllm|sglang|multiprocessing|mp\.spawn"
)
_VARIABLE, _EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"
# Tokens of batches that differ by little; and so many rows of which each is cut so early that one
# of them nearly always is.
_FEW, _MANY_ROWS, _SHORT = 2048, 16, 512
# Tokens of a row; below, the activations of a checkpointed model are small beside its weights.
_LONG = 16_384


def offload_of_rows(script: Script, tokens: int, call: CallNode) -> Field:
    """``none`` where rows of so many tokens leave activations that nothing moves to the host."""
    if tokens < _LONG or script.method_calls_anywhere(*_OFFLOADERS):
        return Field()
    return Field("none", span_in(script, call.func))


class ScriptRun(TrainingRun):
    """What a trainer or a loop of a script trains."""

    script: Script
    # What is advised where a change is made by hand, by field; ``{}`` stands for the value.
    by_hand: Mapping[str, str] = {
        "compile": "Set `torch_compile={}`, and pad to few lengths",
        "gradient_accumulation": "accumulate {} times",
        "offload": "Run the step under `memlint_runtime.offload_activations(model)`",
        "offloaded_gradients": "Set `offload_gradients={}`, or do not accumulate",
    }

    def _write_row(self, name: str, value: object) -> Change:
        if name not in self.by_hand:
            return super()._write_row(name, value)
        return Change({name: value}, self.by_hand[name].format(value))

    @property
    def trains_language_model(self) -> bool:
        return False

    @property
    def trained(self) -> Trained | None:
        """The language model where it is definitely trained, and no toy."""
        return None

    @property
    def is_sharded(self) -> bool:
        return self.script.is_sharded

    def has_billions(self, least: float, most: float) -> bool:
        billions = self.billions
        return self.trains_language_model and billions is not None and least <= billions <= most

    @property
    def trains_all_weights(self) -> bool:
        """True if all weights of a checkpoint are definitely trained, by one process."""
        model, script = self.trained, self.script
        plain = model is not None and model.is_plain
        frozen = any(map(self._may_be_trained, script.frozen_modules))
        if not script.frozen_modules:  # another file may switch off what it loads
            frozen = script.sets("requires_grad", "requires_grad_")
        return plain and not (self.is_sharded or frozen)

    def _may_be_trained(self, module: Expression) -> bool:
        """True if an expression may be the trained model or a part of it, no copy."""
        model, script = self.trained, self.script
        value = script.value(module)
        facts = script.model_facts(value)
        if model is None or not facts.loads_language_model:
            return True
        roots = {id(module_root(one)) for one in model.facts.objects}
        if any(id(module_root(one)) in roots for one in options(value)):
            return True
        whole = holder_of(module)
        if whole is None or not script.model_facts(script.value(whole)).loads_language_model:
            return False
        return self._may_be_trained(whole)

    def read_replicated(self) -> Field:
        """By DDP, or by a launcher that starts several processes without anything that shards."""
        script, model = self.script, self.trained
        wrapped = script.calls_to("torch.nn.parallel.DistributedDataParallel")
        number = script.launcher.processes or 1
        if model is None or not self.trains_all_weights or not (wrapped or number > 1):
            return Field()
        place = wrapped[0].node.func if wrapped else model.place
        on = f" on {number} GPUs" if number > 1 else ""
        said = (
            f"{'DDP' if wrapped else 'data parallelism'}{on} keeps all {self.billions or 0:g} "
            f"billion weights, gradients and AdamW's states on every GPU: {self._as_weights(4)}"
        )
        return Field(True, span_in(script, place), said)

    def write_replicated(self, value: bool) -> Change:
        """By hand: the launch command and its file belong to it."""
        number = self.script.launcher.processes
        several = {"sharding": "fsdp2", "world_size": number} if (number or 1) > 1 else {}
        message = "Shard them by FSDP 2 (`accelerate launch --use_fsdp --fsdp_version 2`) or ZeRO"
        return Change(several, message)

    def read_method(self) -> Field:
        """Of a checkpoint all weights, where neither an adapter nor a quantization is in play."""
        model = self.trained
        if model is None or model.peft:
            return Field("lora" if model is not None else UNSURE)
        # The command line may bring DeepSpeed.
        is_open = model.config is not None and model.config.from_command_line
        full = self.trains_all_weights and not is_open
        billions = model.facts.billions
        if not full or billions is None:
            return Field("full" if full else UNSURE)
        adam = self._keeps_moments(model)
        states = "Adam's states" if adam else "the optimizer"
        said = (
            f"all {billions:g} billion weights are trained: with their gradients and {states} "
            f"{self._as_weights(4 if adam else 2)}"
        )
        return Field("full", span_in(self.script, model.place), said)

    def _keeps_moments(self, model: Trained) -> bool:
        if model.config is None:
            return any(call.optimizes_all for call in self.script.calls_to(*_IN_LOOPS))
        return model.optimizer is not None and model.optimizer.is_value(*_ADAM)

    def write_method(self, value: str) -> Change:
        """By hand: which weights get an adapter is a choice."""
        trainer = self.trained.trainer if self.trained is not None else None
        if trainer is not None and trainer.has_option("peft_config"):
            message = "Train a LoRA: `peft_config=LoraConfig(...)`"
        else:
            message = "Train a LoRA: `model = get_peft_model(model, LoraConfig(...))`"
        return Change({"method": value}, message)

    def read_quantization(self) -> Field:
        """None of the frozen base of an adapter that could be quantized."""
        model = self.trained
        if model is None or model.peft is not True or self.is_sharded:
            return Field()
        family, billions, load = model.facts.family, model.facts.billions, model.load
        kept = family.has("stored_quantized") or family.experts
        if billions is None or kept or not (_loads_plain(model) or _names_plain(model)):
            return Field()
        said = (
            f"a frozen base of {billions:g} billion weights at {_width(model)} bytes each: "
            f"{billions * _width(model) * 1e9 / 2**30:.0f} GiB, "
            f"{billions * 0.55e9 / 2**30:.0f} in 4 bits"
        )
        place = load.node.func if load is not None else model.place
        return Field(None, span_in(self.script, place), said)

    def write_quantization(self, value: str) -> Change:
        """The option of the load, with bitsandbytes."""
        script, load = self.script, self.trained.load if self.trained is not None else None
        message = "Load the base in 4 bits: `BitsAndBytesConfig(load_in_4bit=True, ...)`"
        if load is None or script.method_calls_anywhere("merge_and_unload"):
            return Change(_NF4, message)
        config = reference_to(script, "transformers.BitsAndBytesConfig", load.node)
        dtype = reference_to(script, "torch.bfloat16", load.node)
        if config is None or dtype is None:
            return Change(_NF4, message)
        source = (
            f'{config.text}(load_in_4bit=True, bnb_4bit_quant_type="nf4", '
            f"bnb_4bit_compute_dtype={dtype.text})"
        )
        edits = set_option(script, load, "quantization_config", source)
        return Change(_NF4, message, together(edits, config.edits, dtype.edits), unsafe=True)

    @property
    def _lengths_vary(self) -> bool:
        """True if batches of several lengths certainly follow each other."""
        return False

    def read_expandable(self) -> Field:
        """False where rows are of several lengths and nothing is said of the allocator."""
        script, model = self.script, self.trained
        launcher = script.launcher
        decided = launcher.expandable or script.matches(_ALLOCATES)
        if model is None or decided or self.is_sharded or not self._lengths_vary:
            return Field()
        rows, length, _ = tokens_of_pass(script, model) or (0, 0, 0)
        alike = 0 < rows * length < _FEW or (rows >= _MANY_ROWS and 0 < length <= _SHORT)
        if alike or is_trial(script, model):
            return Field()
        said = "" if launcher.expandable is None else "its launch command says nothing of it"
        place = span_in(script, model.place)
        # Of a recipe, what starts it decides: unknown where no command and no page says that.
        unknown = isinstance(place, Place) and launcher == Launcher()
        return Field() if unknown else Field(False, place, said)

    def write_expandable(self, value: bool) -> Change:
        """A variable of the environment, which torch reads before it first allocates."""
        script, edits = self.script, None
        imports = [one for one, _, name in script.imports if not name.startswith("__future__")]
        first = min(imports, key=lambda one: one.lineno, default=None)
        if first is not None and first.col_offset == 0 and not is_elsewhere(first):
            source = f'import os\n\nos.environ.setdefault("{_VARIABLE}", "{_EXPANDABLE}")\n'
            edits = (InsertStatement(script.span(first), source),)
        message = f"Set `{_VARIABLE}={_EXPANDABLE}` in the environment, before torch is imported"
        return Change({"expandable": value}, message, edits, True)

    def read_modules_to_save(self) -> Field:
        """By a configuration of PEFT."""
        script = self.script
        for call in script.calls_to(*_ADAPTERS) if script.may_train else ():
            for made in options(script.value(call.node)):
                adapter = isinstance(made, Object) and made.root.type == _ADAPTERS[0] and made
                saved = script.item(adapter, "modules_to_save") if adapter else None
                if adapter and isinstance(saved, list | tuple):
                    written = script.final_bindings(adapter)["modules_to_save"].value
                    place = getattr(written, "node", None) or call.node
                    names = (name for name in saved if isinstance(name, str))
                    return Field(tuple(names), span_in(script, place))
        return Field()

    def write_modules_to_save(self, value: tuple[str, ...]) -> Change:
        """By hand: which words are to be learned is a choice, of new ones or of what a base model
        has never seen."""
        message = "Leave them out unless words are to be learned that the model has not learned yet"
        if self.script.api.accepts("peft.LoraConfig", "trainable_token_indices"):
            message = (
                "Train the words alone that the model has not learned yet "
                "(`trainable_token_indices=[...]`), and leave these out"
            )
        return Change({"modules_to_save": value}, message)

    def write_in_backward(self, value: bool) -> Change:
        """By hand."""
        message = (
            "Use a larger micro-batch without accumulation, or an optimizer that steps after "
            "backward"
        )
        return Change({"in_backward": value}, message)

    def _keeps_gradients(self, place: Expression) -> Field:
        """False: nothing steps in backward, so that all gradients wait in their weights' dtype."""
        said = (
            f"the gradients of some {self.billions or 0:g} billion weights wait together for the "
            f"optimizer: {self._as_weights()}; without accumulation it could use each as it comes"
        )
        return Field(False, span_in(self.script, place), said)

    def _steps_at_once(self, value: object, span: Span, name: str) -> Field:
        """Of temporaries that an optimizer's step makes for all weights together."""
        said = (
            f"{name} steps all weights at once: its temporaries are as large as the "
            f"{self.billions or 0:g} billion weights, {self._as_weights()}"
        )
        return Field(value, span, said)

    def _as_weights(self, numbers: int = 1) -> str:
        """Say what so many numbers for each weight take in its dtype, where that is known."""
        dtype = self.trained.dtype if self.trained is not None else None
        width = _width(self.trained) if self.trained is not None else 2
        words = "at 2 bytes each, twice that in float32"
        words = f"in {dtype.removeprefix('torch.')}" if dtype else words
        return f"{(self.billions or 0) * numbers * width * 1e9 / 2**30:.1f} GiB {words}"


class ConfigRun(ScriptRun):
    """What is trained with a configuration."""

    config: Config | None

    def __init__(self, script: Script, config: Config) -> None:
        self.script = script
        self.config = config

    @property
    def _maker(self) -> Call:
        assert self.config is not None
        return self.config

    # -- options that say one thing by themselves ------------------------------------------------

    def _by_rows(self, name: str) -> Field:
        """The option's value, by the version's default too."""
        option, config = OPTIONS.get(name), self.config
        if option is None or config is None or not config.has_option(option):
            return Field()
        given, setting = config.setting(option), config.effective(option)
        node = given.node if given.node is not None else self._maker.node.func
        by = f" ({given.origin})" if given.is_overridable_default else ""
        value = UNSURE if setting.value is MISSING else setting.value
        return Field(value, span_in(self.script, node), f"`{option}={value}`{by}")

    def _write_row(self, name: str, value: object) -> Change:
        """The option, where its value lives."""
        if name not in OPTIONS or self.config is None:
            return super()._write_row(name, value)
        option = OPTIONS[name]
        given = self.config.setting("deepspeed")
        # What a file of DeepSpeed says of the batch has to agree.
        tied = given.given is True and not given.is_none
        tied = tied or self.script.launcher.engine == "deepspeed"
        edits = None if tied else set_option(self.script, self.config, option, str(value))
        message = f"Set `{option}={value}`" + ", as DeepSpeed's file has it" * tied
        return Change({name: value}, message, edits, not self._counts_tokens_alike)

    @property
    def _counts_tokens_alike(self) -> bool:
        """True if each token of a step counts alike, however its rows are split."""
        return False

    # -- the optimizer ---------------------------------------------------------------------------

    def read_in_backward(self) -> Field:
        """On by the optimizer's name."""
        config = self.config
        named = config.setting("optim").value if config is not None else None
        if config is None or not isinstance(named, str):
            return Field()
        on = named.endswith("_layerwise") or named in ("lomo", "adalomo")
        return Field(on or UNSURE, span_in(self.script, config.node.func))

    # -- lengths ---------------------------------------------------------------------------------

    @property
    def _longest(self) -> int | None:
        """The longest row that the script writes."""
        config = self.config
        written = [config.setting(name) for name in _LENGTHS] if config is not None else []
        lengths = [one.value for one in written if one.given and not one.is_overridable_default]
        return max((length for length in lengths if type(length) is int), default=None)

    def read_seq_len(self) -> Field:
        """None where an option of TRL that should limit examples definitely does not."""
        script, config = self.script, self.config
        if config is None or not config.kind.startswith("trl."):
            return Field()
        option = _unlimited(script, config)
        if option is not None and config.effective("packing").value is not True:
            setting = config.setting(option)
            what = "prompts" if option == "max_prompt_length" else "examples"
            given = f"`{option}=None`" if setting.given else f"no `{option}`, and no default for it"
            said = f"{given}: {what} stay as long as they come"
            return Field(None, span_in(script, setting.node or config.node.func), said)
        if not self._skips_truncation(config):
            return Field(self._longest or UNSURE)
        node = config.setting("dataset_kwargs").node or config.node.func
        said = "`skip_prepare_dataset` skips truncation too, whatever `max_length` says"
        return Field(None, span_in(script, node), said)

    def _skips_truncation(self, config: Config) -> bool:
        collators = [one.setting("data_collator") for one in self.script.trainers_with(config)]
        plain = all(collator.given is False for collator in collators)
        skips = config.kind == "trl.SFTConfig" and config.skips_preparation
        return bool(skips) and plain and not may_truncate(self.script)

    def write_seq_len(self, value: int) -> Change:
        """The option, with the library's own limit where it has one."""
        script, config = self.script, self.config
        option = _unlimited(script, config) if config is not None else None
        if config is None or option is None:
            return Change({}, "Truncate the examples where they are tokenized")
        if config.effective("padding_free").value is True:
            message = f"Pack (`packing=True`) with `{option}`: padding-free does not truncate"
            return Change({}, message)
        default = script.api.default(config.kind, option)
        limit = default if type(default) is int else _LIMIT
        edits = set_option(script, config, option, str(limit))
        return Change({"seq_len": limit}, f"Set `{option}={limit}`", edits, True)

    # -- vLLM on a GPU that trains ---------------------------------------------------------------

    def _beside_training(self, name: str) -> Setting | None:
        """An option of vLLM, where it definitely generates on the GPUs that train. Versions that
        know no such mode give it a GPU of its own."""
        config = self.config
        on = config is not None and config.has_option("vllm_mode")
        if config is None or not on or config.effective("use_vllm").value is not True:
            return None
        mode, given = config.effective("vllm_mode"), config.keywords
        # Options of a server, or of releases that serve by default, say that nobody asked for it.
        serves = any(one.startswith("vllm_server") or not config.has_option(one) for one in given)
        here = mode.value == "colocate" and not (serves and mode.given is False)
        return config.effective(name) if here else None

    def read_vllm_share(self) -> Field:
        """By the option, or the version's default."""
        share = self._beside_training(_SHARE)
        if share is None or self.config is None:
            return Field()
        node = share.node if share.given and share.node is not None else self.config.node.func
        said = f"`{_SHARE}={share.value}`" + ("" if share.given else ", this version's default")
        return Field(share.value, span_in(self.script, node), said)

    def write_vllm_share(self, value: float) -> Change:
        """The option."""
        edits = set_option(self.script, self.config, _SHARE, str(value)) if self.config else None
        return Change({}, f"Set `{_SHARE}={value}`", edits, True)

    def read_vllm_sleep(self) -> Field:
        """By the option; None in versions without it."""
        sleep, config = self._beside_training(_SLEEP), self.config
        if sleep is None or config is None:
            return Field()
        node = sleep.node if sleep.node is not None else config.setting("use_vllm").node
        value = sleep.value if config.has_option(_SLEEP) else None
        return Field(value, span_in(self.script, node if node is not None else config.node.func))

    def write_vllm_sleep(self, value: bool) -> Change:
        """vLLM refuses to sleep over expandable segments, and cannot put quantized weights back."""
        script, config = self.script, self.config
        assert config is not None
        message, edits = f"Set `{_SLEEP}={value}`", set_option(script, config, _SLEEP, str(value))
        models = [trainer.model for trainer in script.training_with(config)]
        plain = all(model.quantized is False or model.by_name for model in models)
        if script.may_use("expandable_segments") or not plain:
            message += " (not with expandable segments, nor for quantized weights)"
            edits = None
        if config.setting(_SLEEP).is_switched_off:
            edits = None
        return Change({"vllm_sleep": value}, message, edits)


def _unlimited(script: Script, config: Config) -> str | None:
    """The option that should limit examples and definitely does not."""
    name = "max_length" if config.has_option("max_length") else "max_prompt_length"
    setting = config.effective(name)
    if not config.has_option(name) or not setting.is_none:
        return None
    if setting.given is not False:
        return name
    # Trainers that took the limit themselves filled in one of their own.
    trainer = script.api.signature(config.kind.removesuffix("Config") + "Trainer")
    fills_in = trainer is None or name in trainer.parameters or name != "max_length"
    return None if fills_in else name


def _width(model: Trained) -> int:
    """Bytes a weight, 2 where they are not certainly 4."""
    return 4 if model.dtype == "torch.float32" else 2


def _loads_plain(model: Trained) -> bool:
    load = model.load
    return load is not None and model.facts.quantized is False and not load.has_unknown_keywords


def _names_plain(model: Trained) -> bool:
    """True if a trainer loads its model by name, and is told nothing of how."""
    holders = [holder for holder in (model.trainer, model.config) if holder is not None]
    settings = [holder.setting("model_init_kwargs") for holder in holders]
    return model.facts.by_name and all(each.given is False or each.is_none for each in settings)
