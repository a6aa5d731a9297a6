"""What an editor shows over an option: its default and its life in the releases, by the tables."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.api.lookup import Api
from memlint.api.signatures import REQUIRED, Expression, Unset
from memlint.engine.project import is_elsewhere
from memlint.run.checked import deeply
from memlint.script.called import Call
from memlint.script.model import Script, build_script
from memlint.source import Source


def option_at(source: Source, api: Api, line: int, column: int) -> str:
    """Return what the tables know of the option at a place (0-based line of the text, characters)
    as Markdown; empty where it is no option of a library's."""
    try:
        script = deeply(lambda: build_script(source, api))
    except SyntaxError:
        return ""
    start = source.line_starts[line]
    offset = start + len(source.line_text(line)[:column].encode("utf-8", "surrogatepass"))
    try:
        named = _option(script, offset)
        return "" if named is None else "\n\n".join(_lines(api, *named))
    finally:
        script.forget()


def _option(script: Script, offset: int) -> tuple[Call, str] | None:
    """Return the innermost call and the keyword of it whose name stands at ``offset``."""
    best: tuple[int, Call, str] | None = None
    calls = (*script.calls, *script.configs, *script.trainers)
    for call in calls:
        for keyword in getattr(call.node, "keywords", ()):
            if keyword.arg is None or is_elsewhere(keyword) or call.name.startswith("?."):
                continue
            start = script.source.offset(keyword.lineno, keyword.col_offset)
            if start <= offset <= start + len(keyword.arg.encode()) and (
                best is None or start > best[0]
            ):
                best = (start, call, keyword.arg)
    return None if best is None else best[1:]


def _lines(api: Api, call: Call, option: str) -> Iterator[str]:
    history = api.history(call.name, option)
    if history is None:
        return
    version = api.target.version(history.package).version
    owner = call.name.removesuffix(".__init__")
    yield f"`{option}` of `{owner}` in {history.package} {version}"
    if api.accepts(call.name, option) is False:
        yield f"Gone since {history.package} {history.last_until(version) or history.until}."
    else:
        default = api.default(call.name, option)
        if default is not Unset and default is not REQUIRED:
            yield f"Default: `{_shown(default)}`."
    times = {"since": history.since, "deprecated since": history.deprecated_since}
    life = [f"{when} {history.package} {release}" for when, release in times.items() if release]
    if life:
        yield f"{', '.join(life).capitalize()}."
    if (idle := api.ignored(call.name, option)) is not None:
        yield f"Has no effect: {idle.note}."
    if choices := api.choices(call.name, option):
        yield f"One of {', '.join(f'`{each}`' for each in sorted(choices))}."


def _shown(value: object) -> str:
    return str(value.text) if isinstance(value, Expression) else repr(value)
