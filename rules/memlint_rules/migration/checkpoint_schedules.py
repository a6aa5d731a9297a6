"""Schedules of evaluation and checkpoints under which the best checkpoint cannot be known."""

from collections.abc import Iterator

from memlint.rule import Config, Finding, Script, advise


def refused_schedules(script: Script, config: Config, renamed: frozenset[str]) -> Iterator[Finding]:
    """``load_best_model_at_end`` wants every checkpoint evaluated: ValueError elsewhere.

    renamed: options that are given by an old name, about which another rule speaks.
    """
    best = config.setting("load_best_model_at_end")
    if not best.given or best.value is not True:
        return
    evaluated = "eval_strategy" if config.has_option("eval_strategy") else "evaluation_strategy"
    if evaluated in renamed:
        return
    when = [_word(config, name) for name in (evaluated, "save_strategy")]
    if None in when or "best" in when:
        return
    message = None
    if when[0] != when[1]:
        message = f"evaluation ({when[0]}) and checkpoints ({when[1]}) do not coincide"
        advice = f"Give `{evaluated}` and `save_strategy` the same value"
    elif when[0] == "steps" and (steps := _uneven_steps(config)):
        message = f"a checkpoint every {steps[1]} steps is not evaluated every {steps[0]}"
        advice = "Make `save_steps` a multiple of `eval_steps`"
    if message:
        yield Finding(
            script.span(best.node if best.node is not None else config.node.func),
            f"`{config.kind.rpartition('.')[2]}` refuses this at run time: to load the best model "
            f"at the end every checkpoint is evaluated, and {message}",
            advise(advice),
        )


def _word(config: Config, name: str) -> str | None:
    """A strategy as it is written, the target's default where it is not; None where unknown."""
    setting = config.effective(name)
    known = setting.known and setting.given is not None and not setting.is_overridable_default
    return setting.value if known and isinstance(setting.value, str) else None


def _uneven_steps(config: Config) -> tuple[int, int] | None:
    """Steps between evaluations and between checkpoints, where the one does not divide the other.

    Evaluation goes with logging where nothing says how often.
    """
    found = []
    for names in (("eval_steps", "logging_steps"), ("save_steps",)):
        setting = next((one for one in map(config.effective, names) if one.value is not None), None)
        if setting is None or setting.given is None or type(setting.value) is not int:
            return None
        found.append(setting.value)
    evaluated, saved = found
    return (evaluated, saved) if evaluated > 0 and saved % evaluated else None
