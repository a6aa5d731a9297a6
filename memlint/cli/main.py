"""The command line: ``memlint check``, ``fix``, ``estimate``, ``rule``, ``rules`` and ``target``.

Only this package uses click and prints. Each command imports what it needs when it runs, so that
the program starts quickly.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

import click
from click.decorators import FC

import memlint
from memlint.cli.interrupts import Interrupted, Terminated
from memlint.cli.options import (
    FORMATS,
    Adoption,
    Machine,
    adoption_options,
    fail_level_option,
    fixable_options,
    host_memory_option,
    read_adoption,
    read_codes,
    read_options,
    shared_options,
)

CLEAN, FOUND, BROKEN = 0, 1, 2
# Options of ``check`` that say what its report is like.
_REPORT = (
    "stdin_filename", "output_format", "statistics", "exit_zero", "fail_level", "output_file",
    "strict",
)  # fmt: skip


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0: clean. 1: findings, including files that do not parse. 2: wrong usage, unreadable input, or
    an unexpected error, which is printed on one line instead of as a traceback.
    """
    _prepare_streams()
    try:
        status = main.main(arguments, prog_name="memlint", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        _show(error)
        return BROKEN
    except Interrupted:
        click.echo("interrupted; no file was left half-written", err=True)
        return 130
    except Terminated:
        click.echo("terminated; no file was left half-written", err=True)
        return 143
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        # The reader (``| head``) has gone; flushing the rest of the buffer must not fail at exit.
        _discard_output()
        return 141
    except OSError as error:
        if error.filename is not None:
            return _failed(error)
        _discard_output()
        click.echo(f"error: the output could not be written: {error.strerror or error}", err=True)
        return BROKEN
    except RecursionError:
        click.echo("error: the input is nested too deeply", err=True)
        return BROKEN
    except MemoryError:
        click.echo("error: not enough memory", err=True)
        return BROKEN
    except Exception as error:
        return _failed(error)
    return status if isinstance(status, int) else CLEAN


def _prepare_streams() -> None:
    """Open closed streams, and make all accept any text and keep newlines unchanged."""
    if sys.stdout is None:  # closed by the caller: discard the output
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A patch of a file with CRLF must not get a second CR on Windows.
            stream.reconfigure(errors="backslashreplace", newline="")


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: Exception) -> int:
    """Report an unexpected error on one line."""
    from memlint.reports.style import visible

    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    place = ""
    trace = error.__traceback__
    while trace is not None:
        name = os.path.basename(trace.tb_frame.f_code.co_filename)
        place = f" at {name}:{trace.tb_lineno}"
        trace = trace.tb_next
    click.echo(
        f"error: memlint stopped ({visible(what)}{place}). This is a defect of memlint: please "
        "report it with the command that you ran",
        err=True,
    )
    return BROKEN


def _show(error: click.ClickException) -> None:
    """Print a usage error, with advice for common mistakes."""
    from memlint.cli.inputs import show_error

    context = getattr(error, "ctx", None)
    command = context.info_name if context is not None else None
    tried = error.option_name if isinstance(error, click.NoSuchOption) else ""
    if command == "check" and tried in ("--diff", "--unsafe-fixes"):
        error = click.UsageError(f"`check` changes nothing; use `memlint fix {tried}`.", context)
    show_error(error)


class _Commands(click.Group):
    """The commands. A path in the place of a command is checked; ``check --fix`` is ``fix``."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        is_path = name.endswith((".py", ".ipynb")) or os.sep in name or os.path.exists(name)
        if is_path and not name.startswith("-") and self.get_command(ctx, name) is None:
            args = ["check", *args]
        if args[:1] == ["check"] and "--fix" in args:
            args = ["fix", *(each for each in args[1:] if each != "--fix")]
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(memlint.__version__, "-V", "--version", message="memlint %(version)s")
def main() -> None:
    """Find what wastes GPU memory in LLM training scripts, and fix it.

    \b
    memlint check train.py            report what wastes memory, why, and how to fix it
    memlint fix train.py              apply fixes that do not change what the model learns
    memlint fix --unsafe-fixes .      also apply fixes that change training
    memlint estimate train.py         estimate the run's GPU memory, phase by phase
    memlint report . -o report.html   write findings and memory to a web page
    memlint rule MEM301               explain a rule
    """


@main.command(short_help="Report what wastes memory.")
@shared_options
@adoption_options
@click.option(
    "--output-format",
    default="full",
    metavar="FORMAT",
    type=click.Choice((*FORMATS, "html")),
    help=f"{', '.join((*FORMATS, 'html')).replace('full', 'full (default)')}.",
)
@click.option("--output-file", metavar="FILE", help="Write the report to this file.")
@click.option("--watch", is_flag=True, help="Check again whenever a file changes, until Ctrl-C.")
@click.option("--statistics", is_flag=True, help="Count findings by rule, as text or JSON.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("--strict", is_flag=True, help="Exit with 2 if a file does not parse, too.")
@fail_level_option
def check(watch: bool, **values: Any) -> int:
    """Report what wastes GPU memory in the scripts and notebooks under PATHS.

    PATHS are files and folders (default: the current folder); - reads a script from standard
    input. Exit status: 0 if there are no findings, 1 if there are, 2 if the usage is wrong or a
    file cannot be read. A file that does not parse is a finding (MEM002). Notices and hints count
    only if --fail-level says so.
    """
    from functools import partial

    from memlint.cli.check import check_command

    paths, options = tuple(values["paths"]), read_options(values)
    report = {name: values[name] for name in _REPORT}
    checking = partial(check_command, paths, options, adoption=read_adoption(values), **report)
    if watch and "-" not in paths:
        from memlint.cli.watch import watch as check_again

        return check_again(checking, paths, options)
    return checking()


@main.command(short_help="Write findings and memory to a web page.")
@shared_options
@click.option(
    "-o",
    "--output",
    default="memlint-report.html",
    show_default=True,
    metavar="FILE",
    help="The page; - is standard output.",
)
def report(output: str, **values: Any) -> int:
    """Write a page on the scripts under PATHS: findings with their diffs, the memory of each run
    before and after its fixes, and sliders for its batch.

    \b
    memlint report train.py -o report.html
    memlint report . --gpu rtx4090-24gb -o report.html

    The page is one file, and loads nothing from elsewhere. Exit status: 0, or 2 if a file cannot be
    read or written.
    """
    from memlint.cli.check import check_command

    paths, options, name = tuple(values["paths"]), read_options(values), values["stdin_filename"]
    page = ("html", False, True, "waste", output, False)
    report = dict(zip(_REPORT, (name, *page), strict=True))
    status = check_command(paths, options, adoption=Adoption(), **report)
    if output != "-" and not options.quiet:
        click.echo(f"wrote {output}", err=True)
    return status


@main.command(short_help="Apply fixes to scripts.")
@shared_options
@fixable_options
@click.option(
    "--unsafe-fixes/--no-unsafe-fixes",
    default=None,
    help="Also apply fixes that change training (truncation, precision, optimizer, batch size).",
)
@click.option(
    "--fit",
    is_flag=True,
    help="Apply only the fixes of `memlint estimate --fit`: those that make each run fit --gpu.",
)
@click.option(
    "--gpus", type=click.IntRange(min=1), metavar="N", help="With --fit: so many GPUs share a run."
)
@host_memory_option
@click.option("--diff", is_flag=True, help="Show the changes as a diff; write nothing.")
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; exit with 1 if a file would change."
)
@click.option(
    "--output-format",
    default="text",
    metavar="FORMAT",
    type=click.Choice(["text", *FORMATS[1:]]),
    help="text (default) says what was fixed; any format of check but full, what remains.",
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if findings remain.")
@click.option(
    "--exit-non-zero-on-fix",
    is_flag=True,
    help="Exit with 1 if a file was changed, even if no findings remain.",
)
@fail_level_option
def fix(
    unsafe_fixes: bool | None, fit: bool, gpus: int | None, host_memory: int, **values: Any
) -> int:
    """Apply fixes to the scripts under PATHS and keep their formatting.

    Only fixes that do not change what the model learns are applied, unless --unsafe-fixes is given.
    Exit status: 0 if no findings remain, 1 if some do (with --check: if a file would change), 2 if
    the usage is wrong or a file cannot be read. --diff without --check exits with 0. A diff escapes
    control characters on a terminal only, so that a saved diff can be applied. With --output-format
    the findings that remain are the standard output (with --check: all), and what was done is told
    on standard error.
    """
    from memlint.cli.fix import Mode, fix_command

    if not fit and (gpus or host_memory):
        raise click.UsageError("--gpus and --host-memory are for --fit")
    machine = Machine(gpus or 1, host_memory) if fit else None
    paths, options, name = tuple(values["paths"]), read_options(values), values["stdin_filename"]
    mode = Mode(*(values[field] for field in Mode._fields))
    return fix_command(
        paths, options, stdin_filename=name, unsafe=unsafe_fixes, mode=mode, fit=machine
    )


@main.command(short_help="Move scripts to other versions of the libraries.")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option(
    "--to",
    required=True,
    metavar="VERSIONS",
    help="The versions to move to, such as trl=1.16,transformers=5.2; or newest.",
)
@click.option("--unsafe-fixes", is_flag=True, help="Also apply fixes that change training.")
@click.option("--diff", is_flag=True, help="Show the changes as a diff; write nothing.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
def upgrade(paths: tuple[str, ...], to: str, **flags: bool) -> int:
    """Apply the fixes that scripts under PATHS need to run with other versions, and no others.

    What is left to do by hand is listed. `memlint fix --target VERSIONS --select MEM9` is the same
    with all options of `fix`.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in flags.items() if value]
    shown = [] if flags["diff"] else ["--output-format", "concise"]
    arguments = [*given, *shown, "--select", "MEM9", "--target", to, "--", *paths]
    return int(fix.main(arguments, prog_name="memlint upgrade", standalone_mode=False) or CLEAN)


_text_or_json = click.option(
    "--output-format",
    default="text",
    metavar="FORMAT",
    type=click.Choice(["text", "json"]),
    help="text (default) or json.",
)


@main.command(short_help="Explain a rule.")
@click.argument("rule_name", required=False, metavar="CODE|NAME")
@click.option("--all", "every", is_flag=True, help="Explain all rules.")
@_text_or_json
@click.option("--no-color", is_flag=True, help="No colours.")
def rule(rule_name: str | None, every: bool, output_format: str, no_color: bool) -> int:
    """Explain a rule: what it reports, why it matters, an example before and after, and sources."""
    from memlint.cli.rules import rule_command

    return rule_command(
        rule_name, every, as_json=output_format == "json", colour=False if no_color else None
    )


@main.command(short_help="List all rules.")
@click.option("--no-color", is_flag=True, help="No colours.")
def rules(no_color: bool) -> int:
    """List all rules, with their levels and whether they have fixes."""
    from memlint.cli.rules import rules_command

    return rules_command(False if no_color else None)


@main.command(short_help="Show the library versions that scripts are checked for.")
@click.argument("path", type=click.Path(), default=".", metavar="[PATH]")
@click.option("--target", metavar="VERSIONS", help="As for check.")
@click.option("--config", type=click.Path(), metavar="FILE", help="As for check.")
def target(path: str, target: str | None, config: str | None) -> int:
    """Show the library versions that the scripts at PATH are checked for, and their source."""
    from memlint.cli.target import target_command

    return target_command(path, target, config)


# Options that `estimate` and `oom` share.
_settings_file = click.option(
    "--settings", "settings_file", metavar="FILE.json", help="Read the run from JSON, not a script."
)
_versions = click.option(
    "--target", metavar="VERSIONS", help="The versions that the script is for."
)
_timeout = click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=300.0,
    metavar="SECONDS",
    help="The longest that a script may run (300).",
)


def _assumptions(example: str) -> Callable[[FC], FC]:
    return click.option(
        "--assume",
        "assumptions",
        multiple=True,
        metavar="KEY=VALUE",
        help=f"Set a value that the script leaves open, such as {example}; repeatable.",
    )


@main.command(short_help="Estimate the GPU memory of a run.")
@click.argument("script", required=False, type=click.Path(), metavar="[FILE]")
@_settings_file
@click.option("--gpu", metavar="NAME", help="The GPU, such as a100-80gb or rtx4090-24gb.")
@_assumptions("seq_len=4096 or lora.r=16")
@click.option("--model-config", metavar="PATH", help="The model's config.json.")
@_versions
@click.option(
    "--fit", is_flag=True, help="Show which fixes make the run fit the GPU, and how much then fits."
)
@click.option(
    "--gpus",
    type=click.IntRange(min=1),
    metavar="N",
    help="The run is on so many GPUs; with --fit: find how they share it (DDP, ZeRO, FSDP).",
)
@host_memory_option
@click.option(
    "--write-launch",
    metavar="DIR",
    type=click.Path(),
    help="With --fit and --gpus: write Accelerate's and DeepSpeed's files and the command here.",
)
@click.option(
    "--output-format",
    default="text",
    metavar="FORMAT",
    type=click.Choice(["text", "json", "html"]),
    help="text (default), json, or html: a page with charts and sliders.",
)
@click.option("--trace", is_flag=True, help="Run the script ([-- ARGS]) under fake tensors, too.")
@_timeout
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]")
def estimate(
    script: str | None, arguments: tuple[str, ...], trace: bool, timeout: float, **values: Any
) -> int:
    """Estimate the GPU memory that the run in FILE needs, phase by phase.

    FILE is a script, a notebook, a recipe (TRL, alignment-handbook, axolotl, LLaMA-Factory,
    torchtune), or a file of launch commands (shell, Makefile, justfile); - reads a script from
    standard input. Runs with different settings are shown each; FILE:LINE is the one whose command
    begins on that line. Nothing is run or downloaded. Values that the file leaves open are assumed
    and listed. Exits with 1 if a GPU is named and a run does not fit (with --fit: if no set of
    fixes makes it fit).

    With --trace the script itself runs for two steps, with its own model, loss and optimizer, as
    fake tensors of the real size: no weights, no data, no GPU. Status 1 if it cannot.
    """
    from memlint.cli.estimate import estimate_command, trace_command

    if trace:
        others = ("settings_file", "fit", "gpus", "host_memory", "write_launch", "model_config")
        if script is None or any(values[name] for name in others):
            raise click.UsageError("--trace takes a SCRIPT, and no settings, --fit or --gpus")
        run = values["target"], values["gpu"], values["assumptions"], timeout
        return trace_command(script, arguments, *run, values["output_format"] == "json")
    if arguments:
        raise click.UsageError(f"{arguments[0]}: a script is given arguments with --trace alone")
    return estimate_command(script, **values)


@main.command(short_help="Say whether a run fits a GPU, and with which batch.")
@click.argument("script", type=click.Path(), metavar="FILE")
@click.option("--gpu", metavar="NAME", help="The GPU, such as a100-80gb or rtx4090-24gb.")
@click.option(
    "--gpus", type=click.IntRange(min=1), default=1, metavar="N", help="How many share it."
)
@_assumptions("seq_len=4096")
@_versions
@_text_or_json
def fits(script: str, output_format: str, **values: Any) -> int:
    """Say whether the run in FILE fits a GPU, with what it would, the largest micro-batch with the
    accumulation that keeps the rows of a step, and the command to type next.

    FILE is as for estimate. Exit status: 0 if the run fits as it is (with --gpus: shared in some
    way), else 1.
    """
    from memlint.cli.fits import fits_command

    return fits_command(script, as_json=output_format == "json", **values)


@main.command(short_help="Explain a CUDA out-of-memory error.")
@click.argument("log", type=click.Path(), metavar="LOG")
@click.argument("script", required=False, type=click.Path(), metavar="[FILE]")
@_settings_file
@_assumptions("model=gpt2 or seq_len=4096")
@_versions
@_text_or_json
def oom(log: str, script: str | None, **values: Any) -> int:
    """Explain which tensor torch could not allocate, from the error in LOG, and what helps.

    LOG is a file with torch's message (- reads standard input). FILE, as for estimate, or
    --settings describe the run; without them, only the message and its traceback are used.
    """
    from memlint.cli.oom import oom_command

    return oom_command(log, script, **values)


@main.command(short_help="Show what is alive at the peak of a run, or of a memory snapshot.")
@click.argument("snapshot", type=click.Path(), metavar="SNAPSHOT|SCRIPT")
@click.argument("others", nargs=-1, type=click.UNPROCESSED, metavar="[FILE] [-- ARGS]")
@_assumptions("seq_len=4096")
@_timeout
@_versions
@_text_or_json
def profile(snapshot: str, others: tuple[str, ...], timeout: float, **values: Any) -> int:
    """Show what was alive at the peak of SNAPSHOT, by kind and place, and what helps.

    SNAPSHOT is what torch.cuda.memory._dump_snapshot wrote; nothing in it is run. FILE, as for
    estimate, is the run: what the memory model says of it stands beside. A SCRIPT (.py), with its
    ARGS, is run for two steps in a copy of its folder, and its tensors counted by kind and line.
    """
    from memlint.cli.profile import profile_command

    return profile_command(snapshot, others, seconds=timeout, **values)


@main.command(short_help="Show what the script model knows about a file.")
@click.argument("path", type=click.Path(), metavar="FILE")
@click.option("--target", metavar="VERSIONS", help="As for check.")
def debug(path: str, target: str | None) -> int:
    """Show what the script model knows about FILE (- reads standard input): configurations and the
    origin of each value, trainers, models and loops. For rule authors."""
    from memlint.cli.debug import debug_command

    return debug_command(path, target)


@main.command(short_help="Run a script and its fixed version, and compare what they learn.")
@click.argument("script", type=click.Path())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--fix",
    "codes",
    multiple=True,
    metavar="CODES",
    callback=read_codes,
    help="Verify only the fixes of these rules.",
)
@click.option("--unsafe-fixes", is_flag=True, help="Show what unsafe fixes change, too.")
@click.option("--recipe", is_flag=True, help="SCRIPT is a launch command, or a file of them.")
@click.option(
    "--tiny",
    is_flag=True,
    help="Replace models, tokenizers and data by tiny ones of the same architecture.",
)
@click.option(
    "--columns",
    metavar="NAMES",
    help="With --tiny: the columns of the data, as question,answer; else guessed.",
)
@click.option("--steps", default=3, show_default=True, type=click.IntRange(1), help="Steps a run.")
@click.option("--seed", default=0, show_default=True, help="Of random, numpy and torch.")
@click.option("--timeout", default=600.0, show_default=True, metavar="SECONDS", help="For a run.")
@_versions
@_text_or_json
def verify(script: str, arguments: tuple[str, ...], output_format: str, **values: Any) -> int:
    """Run SCRIPT and its fixed version for some optimizer steps, and compare losses, gradients,
    memory and time. Arguments of the script follow `--`.

    Both run in copies of the project's folder (the page on `verify` says what keeps them there);
    nothing goes to the hub or to trackers. A third run, with weights moved by one rounding, tells
    how far rounding alone moves the losses. Exit status: 0 if they are the same, 1 if a fix moved
    them or stops the script, 2 if there is no answer. Needs the environment of the script.

    With --recipe a launch command is run (`memlint verify --recipe -- accelerate launch
    --num_processes 2 train.py --config x.yaml`, or `memlint verify --recipe train.sh:4`), in all of
    its processes; what is fixed in it, its recipe and its script is compared.
    """
    from memlint.cli.verifying import verify_command

    as_json = output_format == "json"
    values["unsafe"] = values.pop("unsafe_fixes")
    return verify_command(script, arguments, as_json=as_json, **values)


@main.command(short_help="Show what changes between two files, or since a commit.")
@click.argument("paths", nargs=-1, type=click.Path(), metavar="[BEFORE] [AFTER]")
@click.option("--base", metavar="REF", help="Compare the working tree with this commit.")
@_versions
@click.option("--target-before", metavar="VERSIONS", help="Other versions for BEFORE.")
@click.option("--gpu", metavar="NAME", help="As for check.")
@_assumptions("seq_len=4096")
@click.option(
    "--output-format",
    default="text",
    metavar="FORMAT",
    type=click.Choice(["text", "markdown", "json"]),
    help="text (default), markdown (a comment on a pull request) or json.",
)
def compare(paths: tuple[str, ...], assumptions: tuple[str, ...], **values: Any) -> int:
    """Show which findings, phases and peaks change from BEFORE to AFTER: scripts, recipes, files of
    settings (JSON, as for `estimate --settings`; in these nothing is found) or folders.

    With --base, the files of a commit (where this branch left it) and those of the working tree.
    Exit status: 1 if there are new findings (notices and hints aside), else 0.
    """
    from memlint.cli.compare import compare_command

    return compare_command(paths, assume=assumptions, **values)


@main.command(short_help="Print the completion of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print what makes SHELL complete memlint's commands and options.

    For bash: `memlint completion bash > ~/.local/share/bash-completion/completions/memlint`.
    """
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(main, {}, "memlint", "_MEMLINT_COMPLETE").source())
    return 0


@main.command(short_help="Answer an editor: the language server.")
def server() -> int:
    """Answer an editor on standard input and output, in the language server protocol.

    Needs pygls: `pip install 'torch-memlint[server]'`. `docs/editors.md` has settings for editors.
    """
    try:
        from memlint.server.protocol import serve
    except ImportError:
        raise click.ClickException(
            "the language server needs pygls: pip install 'torch-memlint[server]'"
        ) from None
    serve()
    return 0
