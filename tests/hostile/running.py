"""One input at a time, through the command line, in a process with a bound on memory and time."""

from __future__ import annotations

import json as json_module
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.hostile import growth

SECONDS = 5
BYTES = 1 << 30
# Of addresses, for the interpreter and the stack of deep scripts, which take none of the memory.
_ADDRESSES = BYTES + (1 << 30)

Content = str | bytes | Callable[[Path], None]


class Input(NamedTuple):
    """reader: of what kind the files are. command: what is run. say: a word on it."""

    reader: str
    say: str
    files: Mapping[str, Content]
    command: tuple[str, ...]

    @property
    def commands(self) -> list[tuple[str, ...]]:
        """What is run, in turn: what is checked is fixed too, with the same files named."""
        if self.command[: len(_CHECK)] != _CHECK:
            return [self.command]
        words = list(self.command[len(_CHECK) :])
        for option in ("--output-format", "--select"):
            if option in words:
                at = words.index(option)
                del words[at : at + 2]
        return [self.command, ("fix", "--no-cache", "--unsafe-fixes", *words)]


class Outcome(NamedTuple):
    """seconds: of CPU. bytes: of memory at the peak. fault: empty where all went well. reader,
    say: what the input was."""

    seconds: float
    bytes: int
    fault: str
    reader: str
    say: str


def zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 34)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


SPECIAL = (zero, pipe, sparse, loop)
GOOD = growth.HEAD + "v = 512\n" + growth.TAIL
_LAUNCH = (
    "python s.py --config r.yaml\naccelerate launch --config_file a.yaml s.py --deepspeed ds.json\n"
)
_NEWEST = ("--target", "newest")
_CHECK = ("check", "--no-cache")
_SCRIPT_COMMANDS = (
    (*_CHECK, *_NEWEST),
    (*_CHECK, *_NEWEST, "--output-format", "json"),
    ("debug", *_NEWEST),
    ("estimate", *_NEWEST),
    (*_CHECK, *_NEWEST, "--select", "ALL", "--output-format", "sarif"),
)


def python(rng: random.Random) -> Input:
    grown = growth.python(rng)
    command = rng.choice(_SCRIPT_COMMANDS)
    return Input("Python", grown.way, {"s.py": grown.text, "good.py": GOOD}, (*command, "s.py"))


def notebook(rng: random.Random) -> Input:
    import json

    way, text = growth.python(rng)
    parts: object = rng.choice((text, text.splitlines(keepends=True)))
    count = rng.choice((1, 1, 50))
    cells = [{"cell_type": "code", "source": parts if n == 0 else text[:200]} for n in range(count)]
    if rng.random() < 0.3:
        way = "cells"
        one = {
            "cell_type": "code",
            "source": rng.choice(("x = 1", "!ls", "%%bash\nls", "(", "?a", "a?")),
        }
        cells = [*cells[:1], *[one] * rng.choice((100, 5_000))]
    document = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4})
    if rng.random() < 0.2:
        way, document = growth.json(rng)
    command = rng.choice(_SCRIPT_COMMANDS[:3])
    return Input("notebook", way, {"n.ipynb": document, "good.py": GOOD}, (*command, "n.ipynb"))


def yaml(rng: random.Random) -> Input:
    way, text = growth.yaml(rng)
    name = rng.choice(("r.yaml", "a.yaml"))
    files = {name: text, "s.py": GOOD, "run.sh": _LAUNCH}
    command = rng.choice(((*_CHECK, *_NEWEST, "."), ("debug", name), (*_CHECK, *_NEWEST, name)))
    return Input("YAML", way, files, command)


def json(rng: random.Random) -> Input:
    way, text = growth.json(rng)
    name = rng.choice(("ds.json", "r.json", "m/config.json", "settings.json"))
    script = GOOD.replace("'gpt2'", "'./m'").replace("'o'", "'o', deepspeed='ds.json'")
    files = {name: text, "s.py": script, "run.sh": _LAUNCH}
    commands = {
        "m/config.json": ("estimate", *_NEWEST, "s.py"),
        "settings.json": ("estimate", "--settings", name),
    }
    command = commands.get(name) or rng.choice(
        ((*_CHECK, *_NEWEST, "."), (*_CHECK, *_NEWEST, name))
    )
    return Input("JSON", way, files, command)


def toml(rng: random.Random) -> Input:
    way, text = growth.toml(rng)
    long = "a" * 200 + "/" + "a" * 200
    files = {"pyproject.toml": text, "s.py": GOOD, f"{long}/s.py": GOOD}
    return Input("TOML", way, files, (*_CHECK, "."))


def configuration(rng: random.Random) -> Input:
    kind = rng.choice(("memlint.toml", ".gitignore", "pins", "pins", "pins"))
    if kind == "memlint.toml":
        way, text = growth.toml(rng)
        files: dict[str, Content] = {kind: text.partition("\n")[2], "s.py": GOOD}
    elif kind == ".gitignore":
        way, text = (
            "globs",
            growth.grown(rng, ("*a", "**/", "?*", "[a-z]*", "a/", "\\", "!", " "), 20_000),
        )
        text = f"{text}b\n" * rng.choice((1, 20))
        files = {kind: text, "a" * 200 + "/" + "a" * 200 + ".py": GOOD}
    else:
        way, text = growth.pins(rng)
        names = (
            *("requirements.txt", "uv.lock", "poetry.lock", "setup.py", "setup.cfg", "Pipfile"),
            *("environment.yml", "Dockerfile", "pyproject.toml", "Pipfile.lock", "pdm.lock"),
        )
        files = {rng.choice(names): text, "s.py": GOOD, "r.txt": "-r r.txt\n-r requirements.txt\n"}
    return Input("configuration", way, files, rng.choice(((*_CHECK, "."), ("target", "s.py"))))


def _launch(
    reader: str, name: str, grow: Callable[[random.Random], growth.Text]
) -> Callable[..., Input]:
    def made(rng: random.Random) -> Input:
        way, text = grow(rng)
        files = {name: text, "s.py": GOOD, "r.yaml": growth.RECIPES[3]}
        command = rng.choice(((*_CHECK, *_NEWEST, "."), ("debug", name), (*_CHECK, name)))
        return Input(reader, way, files, command)

    return made


def log(rng: random.Random) -> Input:
    way, text = growth.log(rng)
    options = rng.choice(((), ("--script", "s.py"), ("--assume", "model=gpt2")))
    script = ("s.py",) if options[:1] == ("--script",) else ()
    extra = options if not script else ()
    return Input("log", way, {"o.log": text, "s.py": GOOD}, ("oom", "o.log", *script, *extra))


def cache(rng: random.Random) -> Input:
    way, text = growth.json(rng)
    if rng.random() < 0.5:
        way, text = "pieces", growth.grown(rng, growth.PIECES, 200_000)

    def write(path: Path) -> None:
        from memlint.run.cache import Cache

        path.mkdir()
        path.parent.joinpath(".memlint_cache/installations").write_text(text)
        Path(Cache(str(path.parent))._file).write_text(text)

    files: dict[str, Content] = {"s.py": GOOD, ".memlint_cache": write}
    return Input("cache", way, files, ("check", *_NEWEST, "."))


def special(rng: random.Random) -> Input:
    """Pipes, devices and the like under the names that are looked for."""
    name = rng.choice(
        (
            *(
                "s.py",
                "n.ipynb",
                "r.yaml",
                "ds.json",
                "run.sh",
                "Makefile",
                "justfile",
                "Dockerfile",
            ),
            *(
                "requirements.txt",
                "uv.lock",
                "pyproject.toml",
                "memlint.toml",
                ".gitignore",
                "o.log",
            ),
            *("m/config.json", "settings.json", "VERSION", "setup.py", ".memlint_cache", "a.yaml"),
            *(".venv/lib/python3.11/site-packages/trl-1.0.dist-info/METADATA", "a.py", "helper.py"),
        )
    )
    kind = rng.choice(SPECIAL)
    good = GOOD.replace("'gpt2'", "'./m'") + "from helper import f\nf()\n"
    files: dict[str, Content] = {"good.py": good, "run.sh": _LAUNCH, name: kind}
    if name == "pyproject.toml":
        files = {"good.py": good, name: kind}
    commands = {
        "o.log": ("oom", "o.log"),
        "settings.json": ("estimate", "--settings", "settings.json"),
        "m/config.json": ("estimate", *_NEWEST, "good.py"),
    }
    named = rng.choice(((*_CHECK, "."), (*_CHECK, name, "good.py")))
    return Input("special files", f"{name} {kind.__name__}", files, commands.get(name, named))


READERS: dict[str, Callable[[random.Random], Input]] = {
    "Python": python,
    "notebook": notebook,
    "YAML": yaml,
    "JSON": json,
    "TOML": toml,
    "shell": _launch("shell", "run.sh", growth.shell),
    "Make": _launch("Make", "Makefile", growth.make),
    "just": _launch("just", "justfile", growth.just),
    "Docker": _launch("Docker", "Dockerfile", growth.docker),
    "log": log,
    "cache": cache,
    "configuration": configuration,
    "special files": special,
}


def input_of(number: int, seed: int) -> Input:
    """One of as many inputs of each reader; of Python's thrice as many."""
    names = [*READERS, "Python", "Python", "notebook", "YAML"]
    return READERS[names[number % len(names)]](random.Random(f"{seed} {number}"))


def run(number: int, seed: int, most: int = SECONDS) -> Outcome:
    """What the command line makes of an input, each command in a process of its own: the worst."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    output, word = folder.with_suffix(".out"), folder.with_suffix(".json")
    sys.stdout.flush()
    try:
        # A process that is forked has all that its parent has: this one must stay small.
        if (maker := os.fork()) == 0:
            _make(number, seed, folder, word)
        os.waitpid(maker, 0)
        reader, say, commands = json_module.loads(word.read_text(encoding="utf-8"))
        outcomes = []
        for command in commands:
            if (child := os.fork()) == 0:
                _in_child(folder, output, tuple(command), most)
            _, status, usage = os.wait4(child, 0)
            said = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
            seconds = usage.ru_utime + usage.ru_stime
            peak = usage.ru_maxrss * 1024
            fault = _fault(status, said, (seconds, most), peak)
            outcomes.append(Outcome(seconds, peak, fault, reader, f"{say}, {' '.join(command)}"))
    finally:
        output.unlink(missing_ok=True)
        word.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
    return max(outcomes, key=lambda outcome: (bool(outcome.fault), outcome.seconds))


def _make(number: int, seed: int, folder: Path, word: Path) -> None:
    """Write the files of an input, and what it is; ends the process."""
    try:
        hostile = input_of(number, seed)
        for name, content in hostile.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if callable(content):
                content(path)
            elif isinstance(content, str):
                path.write_bytes(content.encode("utf-8", "surrogatepass"))
            else:
                path.write_bytes(content)
        meant = (hostile.reader, hostile.say, hostile.commands)
        word.write_text(json_module.dumps(meant), encoding="utf-8")
    finally:
        os._exit(0)


def _in_child(folder: Path, output: Path, command: tuple[str, ...], most: int) -> None:
    status = 99
    try:
        os.chdir(folder)
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(file, stream)
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
        signal.alarm(120)  # for what waits and takes no time
        from memlint.cli.main import run as run_command

        status = run_command(list(command))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _fault(status: int, said: str, time: tuple[float, int], peak: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "waits for ever" if number == signal.SIGALRM else f"killed by signal {number}"
    seconds, most = time
    if seconds > most:
        return f"{seconds:.1f} s"
    if peak > BYTES:
        return f"{peak / 2**20:.0f} MiB"
    for word in (
        "defect of memlint",
        "Traceback",
        "more memory than there is",
        "process that did so",
    ):
        if word in said:
            at = said.index(word)
            return said[max(0, at - 300) : at + len(word)].strip()
    code = os.WEXITSTATUS(status)
    return "" if code in (0, 1, 2) else f"exit status {code}: {said[-300:]}"
