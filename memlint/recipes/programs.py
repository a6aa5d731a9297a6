"""What a simple command starts: the launcher, what it launches, and the settings of both."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import NamedTuple

from memlint.recipes.shell import PROGRAM, Simple
from memlint.recipes.words import Word

# Start what stands behind their own options.
_STARTERS = frozenset(
    [
        "env",
        "nohup",
        "time",
        "exec",
        "command",
        "eval",
        "sudo",
        "nice",
        "ionice",
        "stdbuf",
        "timeout",
        "srun",
        "mpirun",
        "mpiexec",
        "numactl",
        "taskset",
        "setsid",
        "xvfb-run",
        "nsys",
        "ncu",
        "caffeinate",
        "unbuffer",
        "uvx",
    ]
)
# Start a program with ``run`` or ``exec``; their other commands install one or build something.
_RUNNERS = frozenset(
    [
        "uv",
        "poetry",
        "pipenv",
        "conda",
        "mamba",
        "micromamba",
        "pixi",
        "hatch",
        "rye",
        "pdm",
        "docker",
        "podman",
        "singularity",
        "apptainer",
        "modal",
    ]
)
# Their options whose value may be called like a program.
_STARTER_VALUES = frozenset(
    [
        "--with",
        "--from",
        "--with-editable",
        "--python",
        "-p",
        "-n",
        "--name",
        "--job-name",
        "-J",
        "--extra",
        "--group",
        "-w",
    ]
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=", re.ASCII)
_OPTION = re.compile(r"--?[^\W\d_][\w.-]*")
_OVERRIDE = re.compile(r"([+~]{0,2})([A-Za-z_][\w./@-]*)=", re.ASCII)
_REMOVAL = re.compile(r"~([A-Za-z_][\w./@-]*)", re.ASCII)
_COMMAND = re.compile(r"[a-z][\w-]*", re.ASCII)

# Options of launchers that take no value. Sources: the parsers of ``accelerate launch``,
# ``torch.distributed.run`` and ``deepspeed``; older releases have some that newer ones lack.
_ACCELERATE_SWITCHES = frozenset(
    [
        "h",
        "help",
        "q",
        "quiet",
        "cpu",
        "multi_gpu",
        "tpu",
        "use_mps_device",
        "enable_cpu_affinity",
        "dynamo_use_fullgraph",
        "dynamo_use_dynamic",
        "dynamo_use_regional_compilation",
        "use_deepspeed",
        "use_fsdp",
        "use_xpu",
        "ipex",
        "use_parallelism_config",
        "use_megatron_lm",
        "same_network",
        "m",
        "module",
        "no_python",
        "tpu_cluster",
        "no_tpu_cluster",
        "tpu_use_sudo",
        "downcast_bf16",
        "fp8_use_autocast_during_eval",
        "debug",
    ]
)
_TORCH_SWITCHES = frozenset(
    [
        "h",
        "help",
        "standalone",
        "m",
        "module",
        "no_python",
        "run_path",
        "virtual_local_rank",
        "use_env",
    ]
)
_DEEPSPEED_SWITCHES = frozenset(
    [
        "h",
        "help",
        "module",
        "no_python",
        "no_local_rank",
        "no_ssh",
        "no_ssh_check",
        "force_multi",
        "save_pid",
        "elastic_training",
        "bind_cores_to_rank",
    ]
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
    """A command that starts training, in words. ``kind``: that of the target."""

    program: str
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


def launch_of(simple: Simple) -> Launch | None:
    """What a simple command launches; None if it launches nothing that is known."""
    words = list(simple.words)
    environment = list(simple.environment)
    starts = False
    at = 0
    while at < len(words):
        text = words[at].text
        name = posixpath.basename(text or "")
        if text is None and at == 0:
            starts = True
        elif at and words[at - 1].text in _STARTER_VALUES:
            pass
        elif PROGRAM.fullmatch(name):
            return _program(name, words[at + 1 :], tuple(environment), (), 0)
        elif starts and (match := _ASSIGNMENT.match(words[at].head)):
            environment.append((match[1], words[at].after(match.end())))
        elif name in _RUNNERS:
            while at + 1 < len(words) and (words[at + 1].text or "-").startswith("-"):
                at += 1
            if at + 1 >= len(words) or words[at + 1].text not in ("run", "exec"):
                return None
            starts = True
            at += 1
        elif name in _STARTERS:
            starts = True
        elif not starts:
            return None
        at += 1
    return None


def _program(
    program: str,
    words: Sequence[Word],
    environment: tuple[tuple[str, Word], ...],
    launcher: tuple[Argument, ...],
    depth: int,
) -> Launch | None:
    if depth > _DEEPEST:
        return None
    if program.startswith("python"):
        return _python(words, environment, launcher, depth)
    if program == "accelerate":
        if not words or words[0].text != "launch":
            return None
        program, words = "accelerate-launch", words[1:]
    if program in _LAUNCHERS:
        name, switches = _LAUNCHERS[program]
        parsed = _arguments(words, switches)
        own = _Context(name, environment, (*launcher, *parsed.arguments), depth)
        if parsed.has("no_python"):
            return own.command(parsed.rest)
        return own.script(parsed.rest, module=parsed.has("m", "module"))
    own = _Context("", environment, launcher, depth)
    match program:
        case "trl":
            return _trl(words, own)
        case "tune":
            return _tune(words, own)
        case "axolotl-train":
            return own.recipe("axolotl", words)
        case "axolotl":
            return own.recipe("axolotl", words[1:]) if _is(words, "train") else None
        case "llamafactory-cli" | "lmf":
            return own.recipe("llamafactory", words[1:]) if _is(words, "train") else None
        case _:
            return None


_LAUNCHERS = {
    "accelerate-launch": ("accelerate", _ACCELERATE_SWITCHES),
    "torchrun": ("torchrun", _TORCH_SWITCHES),
    "deepspeed": ("deepspeed", _DEEPSPEED_SWITCHES),
}


class _Context(NamedTuple):
    """The launcher so far."""

    program: str
    environment: tuple[tuple[str, Word], ...]
    launcher: tuple[Argument, ...]
    depth: int

    def command(self, words: Sequence[Word]) -> Launch | None:
        """A launcher that starts any program."""
        name = posixpath.basename((words[0].text if words else None) or "")
        if not PROGRAM.fullmatch(name):
            return None
        launch = _program(name, words[1:], self.environment, self.launcher, self.depth + 1)
        return launch and launch._replace(program=self.program)

    def script(self, words: Sequence[Word], *, module: bool) -> Launch | None:
        """A launcher that starts a script or a module with the rest as its arguments."""
        if not words:
            return None
        target, rest = words[0], words[1:]
        inner = _MODULES.get(target.text or "") if module else None
        if inner is not None:
            launch = _program(inner, rest, self.environment, self.launcher, self.depth + 1)
            return launch and launch._replace(program=self.program or launch.program)
        parsed = _arguments(rest, None)
        kind = "module" if module else "script"
        return self._launch(self.program or "python", kind, target, parsed)

    def recipe(self, program: str, words: Sequence[Word]) -> Launch:
        """A program that takes its recipe first."""
        parsed = _arguments(words, None, overrides=True)
        target = parsed.positionals[0] if parsed.positionals else None
        parsed = parsed._replace(positionals=parsed.positionals[1:])
        return self._launch(program, "recipe", target, parsed)

    def _launch(self, program: str, kind: str, target: Word | None, parsed: _Parsed) -> Launch:
        return Launch(
            program,
            kind,
            target,
            self.launcher,
            parsed.arguments,
            parsed.positionals,
            self.environment,
            parsed.is_open,
        )


def _python(
    words: Sequence[Word],
    environment: tuple[tuple[str, Word], ...],
    launcher: tuple[Argument, ...],
    depth: int,
) -> Launch | None:
    own = _Context("", environment, launcher, depth)
    at = 0
    while at < len(words):
        text = words[at].text
        if text is None or not text.startswith("-"):
            if words[at].may_be_several and at + 1 < len(words) and _is_script(words[at + 1]):
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
    parsed = _arguments(words[1:], None)
    passed = [one for one in parsed.arguments if _TRL_LAUNCHER.fullmatch(one.name)]
    settings = tuple(one for one in parsed.arguments if one not in passed)
    own = own._replace(launcher=(*own.launcher, *passed))
    return own._launch("trl", "name", words[0], parsed._replace(arguments=settings))


def _tune(words: Sequence[Word], own: _Context) -> Launch | None:
    if not _is(words, "run"):
        return None
    before = _arguments(words[1:], _TORCH_SWITCHES)
    if not before.rest:
        return None
    parsed = _arguments(before.rest[1:], None, overrides=True)
    own = own._replace(launcher=(*own.launcher, *before.arguments))
    return own._launch("tune", "name", before.rest[0], parsed)


def _is(words: Sequence[Word], name: str) -> bool:
    return bool(words) and words[0].text == name


def _is_script(word: Word) -> bool:
    return word.text is None or word.text.endswith(".py")


def _arguments(
    words: Sequence[Word], switches: frozenset[str] | None, *, overrides: bool = False
) -> _Parsed:
    """Options with their values.

    switches: of a launcher, whose options end where its target begins; None for the options of a
    script, of which nothing is known: they take all words up to the next one. overrides: a word
    ``key=value`` belongs to no option.
    """
    arguments: list[Argument] = []
    positionals: list[Word] = []
    is_open = False
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        text = word.text
        override = _override(word)
        if word.may_be_several:
            is_open = True
            if switches is not None and at == len(words):
                return _Parsed(tuple(arguments), (), words[at - 1 :], is_open)
        elif text == "--":
            if switches is not None:
                return _Parsed(tuple(arguments), (), words[at:], is_open)
        elif (option := _OPTION.match(word.head)) is not None:
            rest = word.head[option.end() :]
            if rest.startswith("="):
                values: tuple[Word, ...] = (word.after(option.end() + 1),)
            elif rest or text is None:
                is_open = True
                continue
            else:
                first = at
                name = _name(option[0])
                most = len(words) if switches is None else int(name not in switches)
                while at < len(words) and at - first < most and _is_value(words[at], overrides):
                    if words[at].may_be_several and at > first:
                        break
                    at += 1
                values = tuple(words[first:at])
            arguments.append(Argument(option[0], _name(option[0]), values, word))
        elif switches is not None:
            return _Parsed(tuple(arguments), (), words[at - 1 :], is_open)
        elif override is not None:
            arguments.append(override)
            if not overrides:
                positionals.append(word)
        else:
            positionals.append(word)
    return _Parsed(tuple(arguments), tuple(positionals), (), is_open)


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
