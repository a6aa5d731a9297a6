"""What a launch command, with the files that it names, decides for what it starts.

Flags stand over accelerate's configuration, as in ``accelerate/commands/launch.py``. A user's own
default configuration is not the project's: what it may say counts as not said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from memlint.recipes.kinds import Kind
from memlint.recipes.launch import Command
from memlint.recipes.recipe import UNKNOWN, Recipe
from memlint.script.launcher import UNDECIDED, Launcher

# The file of the project that a command means by a word, read; None where there is none.
Files = Callable[[str], Recipe | None]

_BY_ACCELERATE = ("accelerate", "trl")
_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
# The configurations that TRL ships, by name: ``trl/accelerate_configs``.
_OF_TRL = {
    **{name: name for name in ("zero1", "zero2", "zero3", "fsdp2")},
    "fsdp1": "fsdp",
    "multi_gpu": "ddp",
    "single_gpu": "none",
}
_SWITCHES = {"use_deepspeed": "DEEPSPEED", "use_fsdp": "FSDP", "multi_gpu": "MULTI_GPU"}
_TYPES = {"NO": "none", "MULTI_GPU": "ddp"}
_DEFAULT_STAGE = 2
_PRECISIONS = ("no", "bf16", "fp16", "fp8")


def launcher_of(command: Command, files: Files) -> Launcher:
    """What the launcher of ``command`` decides."""
    grows = any(
        flag.name in _ALLOCATOR and "expandable_segments:True" in str(flag.value)
        for flag in command.environment
    )
    return _launcher_of(command, files)._replace(expandable=grows)


def _launcher_of(command: Command, files: Files) -> Launcher:
    if command.program in _BY_ACCELERATE:
        return _of_accelerate(command, files)
    if command.program == "deepspeed":
        return _of_deepspeed(command, files)
    processes = _machines(command, command.num_processes)
    several = command.program == "torchrun"  # torchtune's recipes shard by themselves
    several = several or (command.program == "llamafactory" and processes is not None)
    sharding = "ddp" if several else "none"
    return Launcher("none" if processes == 1 else sharding, processes=processes)


def _machines(command: Command, here: int | None) -> int | None:
    """The processes of all machines: those of this one where no other is spoken of."""
    machines = [flag for flag in command.environment if flag.name == "NNODES"]
    flag = command.launcher_setting("nnodes", "num_nodes", "hostfile", "H")
    flag = flag or (machines[-1] if machines and command.program == "llamafactory" else None)
    number = "1" if flag is None else str(flag.value)
    return here * int(number) if here and number.isdecimal() and len(number) < 5 else None


def _of_deepspeed(command: Command, files: Files) -> Launcher:
    """The launcher of DeepSpeed: whether anything is sharded is left to the script, which gets the
    name of the configuration as an argument."""
    stage, options = _of_file(command.deepspeed_file, files)
    processes = _machines(command, command.num_processes)
    unseen = (command.deepspeed_file or "") if stage is None else ""
    return Launcher(_by_stage(stage), options, False, "", processes, unseen=unseen)


def _of_accelerate(command: Command, files: Files) -> Launcher:
    word = command.config_file
    file = files(word) if word else None
    if word and file is None and command.program == "trl" and word in _OF_TRL:
        return Launcher(_OF_TRL[word], mixed_precision="bf16", processes=_processes(command, 8))
    named = command.launcher_setting("config_file", "accelerate_config") is not None
    if named if file is None else file.kind is not Kind.ACCELERATE:
        return UNDECIDED._replace(processes=_processes(command, None), unseen=word or "")
    settings = _Settings(command, file)
    sharding, options = _sharding(settings, files)
    fsdp = sharding is not None and sharding.startswith("fsdp")
    return Launcher(
        sharding,
        options,
        settings.switch("fsdp_activation_checkpointing", "fsdp_config") if fsdp else False,
        _precision(settings),
        _processes(command, settings.value("num_processes")),
        unseen=_unseen(settings, sharding),
    )


def _unseen(settings: _Settings, sharding: str | None) -> str:
    """The file of DeepSpeed that is named and says no stage, where one is."""
    word = settings.value("deepspeed_config_file", "deepspeed_config")
    is_open = sharding is None and _engine(settings) == "DEEPSPEED"
    return word if is_open and isinstance(word, str) else ""


class _Settings:
    """The settings of ``accelerate launch``: its flags, then its configuration."""

    def __init__(self, command: Command, file: Recipe | None) -> None:
        self._command = command
        self.file = file

    def value(self, name: str, section: str = "") -> object:
        """What a setting is, as text or data; UNKNOWN where nobody can tell, None without it."""
        flag = self._command.launcher_setting(name)
        if flag is not None:
            return UNKNOWN if flag.value is None else flag.value
        if self.file is None:
            return None
        short = name.removeprefix("fsdp_")
        paths = (f"{section}.{name}", f"{section}.{short}") if section else (name,)
        values = [self.file.option(path) for path in paths if self.file.has(path)]
        return values[0].value if values else None

    def switch(self, name: str, section: str = "") -> bool | None:
        """True if a switch is on; None where nobody can tell."""
        value = self.value(name, section)
        if isinstance(value, str):
            value = {"true": True, "1": True, "false": False, "0": False}.get(
                value.lower(), UNKNOWN
            )
        return False if value is None else value if isinstance(value, bool) else None

    def number(self, name: str, section: str = "", default: int | None = None) -> int | None:
        """A whole number; None where nobody can tell."""
        value = self.value(name, section)
        if value is None:
            return default
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 8:
            return int(value)
        return value if type(value) is int else None

    def section(self, name: str) -> Mapping[str, object]:
        """The values of a section of the configuration, and the flags of its kind."""
        value = self.file.option(name).value if self.file is not None else None
        lead = "fsdp_" if name == "fsdp_config" else "offload_"
        flags = {
            flag.name: flag.value
            for flag in self._command.launcher
            if flag.name.startswith(lead) and isinstance(flag.value, str)
        }
        return {**(value if isinstance(value, dict) else {}), **flags}


def _sharding(settings: _Settings, files: Files) -> tuple[str | None, Mapping[str, object]]:
    engine = _engine(settings)
    if engine == "DEEPSPEED":
        word = settings.value("deepspeed_config_file", "deepspeed_config")
        if word is UNKNOWN:
            return None, {}
        if isinstance(word, str):
            stage, options = _of_file(word, files)
        else:
            stage = settings.number("zero_stage", "deepspeed_config", _DEFAULT_STAGE)
            options = settings.section("deepspeed_config")
        return _by_stage(stage), options
    if engine == "FSDP":
        version = settings.number("fsdp_version", "fsdp_config", 1)
        names = {1: "fsdp", 2: "fsdp2"}
        options = settings.section("fsdp_config")
        if version == 2:
            options = {**options, **_parallel(settings)}
        return names.get(version or 0), options
    if engine == "NO" and settings.file is None and (settings.number("num_processes") or 1) > 1:
        engine = "MULTI_GPU"
    return _TYPES.get(engine), {}


def _parallel(settings: _Settings) -> dict[str, int]:
    """Over how many GPUs sequences and layers are divided, as ``ParallelismConfig`` has it."""
    lead = "parallelism_config"
    tensors, *contexts = (
        settings.number(f"{lead}_{name}_size", lead, 1) or 1 for name in ("tp", "cp", "sp")
    )
    sizes = {"cp_size": math.prod(contexts), "tp_size": tensors}
    return {name: size for name, size in sizes.items() if size > 1}


def _by_stage(stage: int | None) -> str | None:
    return None if stage is None else f"zero{stage}" if stage else "ddp"


def _engine(settings: _Settings) -> str:
    """What divides the work, as accelerate's configurations call it; empty where that is open."""
    for name, engine in _SWITCHES.items():
        if settings.switch(name):
            return engine
    if settings.file is None:
        return "NO"
    said = settings.file.option("distributed_type").value
    return str(said) if isinstance(said, str) else "NO" if said in (None, False) else ""


def _of_file(word: str | None, files: Files) -> tuple[int | None, Mapping[str, object]]:
    """The ZeRO stage of a configuration of DeepSpeed, and its options."""
    config = files(word) if word else None
    section = config.option("zero_optimization").value if config is not None else None
    options = section if isinstance(section, dict) else {}
    stage = options.get("stage")
    return stage if type(stage) is int else None, options


def _precision(settings: _Settings) -> str | None:
    said = settings.value("mixed_precision")
    if said is None:
        # Without a configuration of the project that of the user may say more.
        return "" if settings.file is None else "no"
    if said is False:
        return "no"  # YAML's word for it
    return said.lower() if isinstance(said, str) and said.lower() in _PRECISIONS else None


def _processes(command: Command, said: object) -> int | None:
    """The processes of all machines: ``--num_processes`` counts those, and so does the file."""
    flag = command.launcher_setting("num_processes")
    if flag is not None:
        return command.num_processes
    return said if type(said) is int else None
