"""What a simple command starts: the launcher, what it launches, and the settings of both."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from memlint.recipes.shell import PROGRAM, Simple
from memlint.recipes.words import Word
from memlint.source.record import NamedTuple

# Start what stands behind their own options.
_STARTERS = frozenset(
    [
        *("env", "nohup", "time", "exec", "command", "eval", "sudo", "nice", "ionice", "stdbuf"),
        *("timeout", "srun", "mpirun", "mpiexec", "numactl", "taskset", "setsid", "xvfb-run"),
        *("nsys", "ncu", "caffeinate", "unbuffer", "uvx"),
    ]
)
# Start a program with ``run`` or ``exec``; their other commands install one or build something.
_RUNNERS = frozenset(
    [
        *("uv", "poetry", "pipenv", "conda", "mamba", "micromamba", "pixi", "hatch", "rye", "pdm"),
        *("docker", "podman", "singularity", "apptainer", "modal"),
    ]
)
# Their options whose value may be called like a program.
_STARTER_VALUES = frozenset(
    [
        *("--with", "--from", "--with-editable", "--python", "-p", "-n", "--name", "--job-name"),
        *("-J", "--extra", "--group", "-w"),
    ]
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=", re.ASCII)
_OPTION = re.compile(r"--?[^\W\d_][\w.-]*")
_OVERRIDE = re.compile(r"([+~]{0,2})([A-Za-z_][\w./@-]*)=", re.ASCII)
_REMOVAL = re.compile(r"~([A-Za-z_][\w./@-]*)", re.ASCII)
_COMMAND = re.compile(r"[a-z][\w-]*", re.ASCII)

# Options of launchers that take no value, which none takes with one. Sources: the parsers of
# ``accelerate launch``, ``torch.distributed.run`` and ``deepspeed``; older releases have some that
# newer ones lack.
_SWITCH = re.compile(
    r"h|help|m|module|no_python|q|quiet|debug|cpu|multi_gpu|tpu|tpu_cluster|no_tpu_cluster"
    r"|tpu_use_sudo|use_mps_device|use_deepspeed|use_fsdp|use_xpu|ipex|use_megatron_lm"
    r"|use_parallelism_config|dynamo_use_(?:fullgraph|dynamic|regional_compilation)"
    r"|enable_cpu_affinity|same_network|downcast_bf16"
    r"|fp8_use_autocast_during_eval|standalone|run_path|virtual_local_rank|use_env|no_local_rank"
    r"|no_ssh|no_ssh_check|force_multi|save_pid|elastic_training|bind_cores_to_rank"
)
_PYTHON_VALUES = frozenset({"-X", "-W", "--check-hash-based-pycs"})
# TRL's command line hands these on to ``accelerate launch``.
_TRL_LAUNCHER = re.compile(
    r"accelerate_config|config_file|num_processes|num_machines|machine_rank|main_process_\w+"
    r"|mixed_precision|multi_gpu|gpu_ids|use_deepspeed|use_fsdp|fsdp_\w+|zero_stage|zero3_\w+"
    r"|deepspeed_config_file|offload_\w+_device|dynamo_\w+|num_cpu_threads_per_process|rdzv_\w+"
)
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate-launch",
    "deepspeed": "deepspeed",
    "deepspeed.launcher.runner": "deepspeed",
    "axolotl.cli.train": "axolotl-train",
    "llamafactory.cli": "llamafactory-cli",
    "llmtuner.cli": "llamafactory-cli",
    "trl.cli": "trl",
    "torchtune._cli.tune": "tune",
}
# ``trl.scripts.sft`` is what ``trl sft`` starts.
_TRL_SCRIPT = re.compile(r"trl\.scripts\.(?=[a-z]+\Z)")
_DEEPEST = 6


class Argument(NamedTuple):
    """An option with its values, an override (``key=value``) or its removal (``~key``).

    option: as it is written, without a value. word: where the option is.
    """

    option: str
    name: str
    values: tuple[Word, ...]
    word: Word
    form: str = "option"


class Launch(NamedTuple):
    """A command that starts training, in words. kind: that of the target. starts: the program that
    a launcher starts, or ``program`` itself."""

    program: str
    starts: str
    kind: str
    target: Word | None
    launcher: tuple[Argument, ...]
    settings: tuple[Argument, ...]
    positionals: tuple[Word, ...]
    environment: tuple[tuple[str, Word], ...]
    has_unknown_arguments: bool


class _Parsed(NamedTuple):
    arguments: tuple[Argument, ...] = ()
    positionals: tuple[Word, ...] = ()
    rest: Sequence[Word] = ()
    is_open: bool = False

    def has(self, *names: str) -> bool:
        return any(argument.name in names for argument in self.arguments)


def is_of_trl_launcher(name: str) -> bool:
    """True if TRL hands an option of this name on to ``accelerate launch``."""
    return _TRL_LAUNCHER.fullmatch(name) is not None


def launch_of(simple: Simple) -> Launch | None:
    """What a simple command launches; None if it launches nothing that is known."""
    words = simple.words
    environment = list(simple.environment)
    starts = bool(words) and words[0].text is None
    at = int(starts)
    while at < len(words):
        name = posixpath.basename(words[at].text or "")
        if at and words[at - 1].text in _STARTER_VALUES:
            pass
        elif PROGRAM.fullmatch(name):
            return _program(name, words[at + 1 :], _Context("", tuple(environment), (), 0))
        elif starts and (match := _ASSIGNMENT.match(words[at].head)):
            environment.append((match[1], words[at].after(match.end())))
        elif name in _RUNNERS:
            run = _run_of(words, at)
            if run is None:
                return None
            at, starts = run, True
        elif name in _STARTERS:
            starts = True
        elif not starts:
            return None
        at += 1
    return None


def _run_of(words: Sequence[Word], runner: int) -> int | None:
    """Where the runner at ``runner`` is told to ``run`` something, behind its options."""
    at = runner + 1
    while at < len(words) and (words[at].text or "-").startswith("-"):
        at += 1
    return at if at < len(words) and words[at].text in ("run", "exec") else None


def _program(program: str, words: Sequence[Word], own: _Context) -> Launch | None:
    if own.depth > _DEEPEST:
        return None
    if program.startswith("python"):
        return _python(words, own)
    if program == "accelerate":
        if not _is(words, "launch"):
            return None
        program, words = "accelerate-launch", words[1:]
    if program in ("accelerate-launch", "torchrun", "deepspeed"):
        parsed = _launcher_arguments(words)
        name = program.removesuffix("-launch")
        own = own._replace(program=name, launcher=(*own.launcher, *parsed.arguments))
        if parsed.has("no_python"):
            return own.command(parsed.rest)
        return own.script(parsed.rest, module=parsed.has("m", "module"))
    if program in ("trl", "tune"):
        return _trl(words, own) if program == "trl" else _tune(words, own)
    name, command = _OF_RECIPES.get(program, ("", ()))
    begins = tuple(word.text for word in words[: len(command)]) == command
    return own.recipe(name, words[len(command) :]) if name and begins else None


class _Context(NamedTuple):
    """The launcher so far."""

    program: str
    environment: tuple[tuple[str, Word], ...]
    launcher: tuple[Argument, ...]
    depth: int

    def _inside(self) -> _Context:
        """For a program that starts another: what it was given so far."""
        return self._replace(program="", depth=self.depth + 1)

    def command(self, words: Sequence[Word]) -> Launch | None:
        """A launcher that starts any program."""
        name = posixpath.basename((words[0].text if words else None) or "")
        if not PROGRAM.fullmatch(name):
            return None
        launch = _program(name, words[1:], self._inside())
        return launch and launch._replace(program=self.program)

    def script(self, words: Sequence[Word], *, module: bool) -> Launch | None:
        """A launcher that starts a script or a module with the rest as its arguments."""
        if not words:
            return None
        target, rest = words[0], words[1:]
        inner = _MODULES.get(target.text or "") if module else None
        if inner is not None:
            launch = _program(inner, rest, self._inside())
            return launch and launch._replace(program=self.program or launch.program)
        parsed = _script_arguments(rest)
        script = _TRL_SCRIPT.match(target.text or "") if module else None
        if script is not None:
            return self._launch("trl", "name", target.after(script.end()), parsed)
        kind = "module" if module else "script"
        return self._launch("", kind, target, parsed)

    def recipe(self, program: str, words: Sequence[Word]) -> Launch:
        """A program that takes its recipe first."""
        parsed = _script_arguments(words, overrides=True)
        target = parsed.positionals[0] if parsed.positionals else None
        parsed = parsed._replace(positionals=parsed.positionals[1:])
        return self._launch(program, "recipe", target, parsed)

    def _launch(self, starts: str, kind: str, target: Word | None, parsed: _Parsed) -> Launch:
        return Launch(
            self.program or starts or "python",
            starts or self.program or "python",
            kind,
            target,
            self.launcher,
            parsed.arguments,
            parsed.positionals,
            self.environment,
            parsed.is_open,
        )


def _python(words: Sequence[Word], own: _Context) -> Launch | None:
    at = 0
    while at < len(words):
        text = words[at].text
        if text is None or not text.startswith("-"):
            follows = words[at + 1].text if at + 1 < len(words) else ""
            if words[at].may_be_several and (follows is None or follows.endswith(".py")):
                # ``python $OPTIONS train.py``
                at += 1
                continue
            return own.script(words[at:], module=False)
        if text in ("-", "--") or re.fullmatch(r"-[A-Za-z]*c", text):
            return None
        if re.fullmatch(r"-[A-Za-z]*m", text):
            return own.script(words[at + 1 :], module=True)
        at += 2 if text in _PYTHON_VALUES else 1
    return None


def _trl(words: Sequence[Word], own: _Context) -> Launch | None:
    if not words or words[0].text is None or not _COMMAND.fullmatch(words[0].text):
        return None
    parsed = _script_arguments(words[1:])
    passed = [argument for argument in parsed.arguments if _TRL_LAUNCHER.fullmatch(argument.name)]
    settings = tuple(argument for argument in parsed.arguments if argument not in passed)
    own = own._replace(launcher=(*own.launcher, *passed))
    return own._launch("trl", "name", words[0], parsed._replace(arguments=settings))


def _tune(words: Sequence[Word], own: _Context) -> Launch | None:
    if not _is(words, "run"):
        return None
    before = _launcher_arguments(words[1:])
    if not before.rest:
        return None
    parsed = _script_arguments(before.rest[1:], overrides=True)
    own = own._replace(launcher=(*own.launcher, *before.arguments))
    return own._launch("tune", "name", before.rest[0], parsed)


# Programs that take a recipe first: what their recipes are called, and the command that trains.
_OF_RECIPES = {
    "axolotl": ("axolotl", ("train",)),
    "axolotl-train": ("axolotl", ()),
    "llamafactory-cli": ("llamafactory", ("train",)),
    "lmf": ("llamafactory", ("train",)),
}


def _is(words: Sequence[Word], name: str) -> bool:
    return bool(words) and words[0].text == name


def _launcher_arguments(words: Sequence[Word]) -> _Parsed:
    """The options of a launcher, which end where its target begins."""
    arguments: list[Argument] = []
    is_open = False
    at = 0
    while at < len(words):
        word = words[at]
        option = _OPTION.match(word.head)
        if word.may_be_several and at + 1 < len(words):
            is_open = True
            at += 1
        elif option is not None:
            most = int(_SWITCH.fullmatch(_name(option[0])) is None)
            argument, at = _option(words, at, option, most=most)
            arguments += [argument] if argument is not None else []
            is_open |= argument is None
        else:
            at += word.text == "--"
            is_open |= word.may_be_several
            break
    return _Parsed(tuple(arguments), (), words[at:], is_open)


def _script_arguments(words: Sequence[Word], *, overrides: bool = False) -> _Parsed:
    """The options of a script, of which nothing is known: they take all words up to the next one.

    overrides: a word ``key=value`` belongs to no option.
    """
    arguments: list[Argument] = []
    positionals: list[Word] = []
    is_open = False
    at = 0
    while at < len(words):
        word = words[at]
        option = _OPTION.match(word.head)
        if word.may_be_several or word.text == "--":
            is_open |= word.may_be_several
            at += 1
        elif option is not None:
            argument, at = _option(words, at, option, most=len(words), overrides=overrides)
            arguments += [argument] if argument is not None else []
            is_open |= argument is None
        else:
            at += 1
            override = _override(word)
            arguments += [override] if override is not None else []
            positionals += [word] if override is None or not overrides else []
    return _Parsed(tuple(arguments), tuple(positionals), (), is_open)


def _option(
    words: Sequence[Word], at: int, option: re.Match[str], *, most: int, overrides: bool = False
) -> tuple[Argument | None, int]:
    """The option at ``at`` with at most ``most`` values, and where the next one may be.

    None for a word whose name is not all written out.
    """
    word, name = words[at], _name(option[0])
    rest = word.head[option.end() :]
    at += 1
    if rest.startswith("="):
        return Argument(option[0], name, (word.after(option.end() + 1),), word), at
    if rest or word.text is None:
        return None, at
    first = at
    while at < len(words) and at - first < most and _is_value(words[at], overrides):
        if words[at].may_be_several and at > first:
            break
        at += 1
    return Argument(option[0], name, tuple(words[first:at]), word), at


def _name(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def _is_value(word: Word, overrides: bool) -> bool:
    head = word.head
    if overrides and _override(word) is not None:
        return False
    return not (_OPTION.match(head) or head == "--") or (word.text is None and head == "")


def _override(word: Word) -> Argument | None:
    match = _OVERRIDE.match(word.head)
    if match is not None:
        return Argument(match[0][:-1], match[2], (word.after(match.end()),), word, "override")
    removal = _REMOVAL.fullmatch(word.text or "")
    if removal is not None:
        return Argument(removal[0], removal[1], (), word, "removal")
    return None
