"""Configuration: ``[tool.memlint]`` of the nearest ``pyproject.toml``, or ``memlint.toml``.

Nearest to each file, as in the other linters: a repository may hold projects with settings of
their own. A key that nobody knows is an error with a suggestion, since a misspelt ``ignore`` that
is silently dropped costs more than it saves. ``tomllib`` is imported only if there is such a file.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from memlint.project.ignores import Patterns, problem
from memlint.source.bounded import read_regular
from memlint.source.diagnostics import reason
from memlint.source.record import NamedTuple
from memlint.suggest import suggestion

_OWN_NAME = "memlint.toml"
CONFIG_NAMES = (_OWN_NAME, "pyproject.toml")
_MAX_BYTES = 512 << 10  # tomllib takes a second or two for so many


class ConfigError(ValueError):
    """A configuration or option that cannot be used; the message says what was wanted."""


class Settings(NamedTuple):
    """What the configuration says. Patterns are relative to ``root``, an absolute folder.

    per_file_ignores: (pattern, codes) in the order of the file; all that match count.
    gpu, assume: what findings are priced for, as the options of these names; prices: whether.
    tests: whether rules on memory speak of tests, whose models are small.
    fixable, unfixable: whose fixes are applied; None: all.
    baseline: the file of findings that are not reported, from the root; empty: none.
    """

    root: str = ""
    origin: str = ""
    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    target: str = ""
    unsafe_fixes: bool = False
    runtime: bool = True
    gpu: str = ""
    assume: tuple[str, ...] = ()
    prices: bool = True
    tests: bool = False
    fixable: tuple[str, ...] | None = None
    unfixable: tuple[str, ...] = ()
    baseline: str = ""

    def excluded(self) -> Patterns:
        return Patterns(self.exclude)


def load(path: str) -> Settings | None:
    """Return the settings in ``path``; None for a ``pyproject.toml`` without a section of memlint.

    Raises ``ConfigError``.
    """
    try:
        data = read_regular(path, _MAX_BYTES)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {reason(error)}") from None
    whole = os.path.basename(path) != "pyproject.toml"
    if not whole and b"memlint" not in data:
        return None
    import tomllib

    try:
        document = tomllib.loads(data.decode("utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deeply") from None
    tool = document.get("tool", {})
    section = tool.get("memlint") if isinstance(tool, dict) else None
    if whole:
        section = document if section is None else section
    if section is None:
        return None
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: [tool.memlint] must be a table")
    return _settings(path, section)


def nearest(folder: str, known: dict[str, Settings | None] | None = None) -> Settings:
    """Return the settings of ``folder`` (absolute); ``known`` keeps those of folders on the way.

    Without a configuration file: the defaults, with ``folder`` as their root.
    """
    known = {} if known is None else known
    passed: list[str] = []
    found: Settings | None = None
    here = folder
    while True:
        if here in known:
            found = known[here]
            break
        passed.append(here)
        found = in_folder(here)
        above = os.path.dirname(here)
        if found is not None or above == here:
            break
        here = above
    known.update(dict.fromkeys(passed, found))
    return Settings(root=folder) if found is None else found


def in_folder(folder: str, names: Sequence[str] = CONFIG_NAMES) -> Settings | None:
    """Return the settings of a file in ``folder`` itself; ``memlint.toml`` goes first.

    Raises ``ConfigError``; also for a ``memlint.toml`` that is no file or a link to nothing, which
    means to say something.
    """
    for name in CONFIG_NAMES:
        path = os.path.join(folder, name)
        is_there = os.path.lexists if name == _OWN_NAME else os.path.isfile
        if name in names and is_there(path):
            settings = load(path)
            if settings is not None:
                return settings
    return None


def _settings(path: str, section: Mapping[str, Any]) -> Settings:
    values: dict[str, Any] = {}
    for key, value in section.items():
        reader = READERS.get(key)
        if reader is None:
            raise ConfigError(f"{path}: unknown key '{key}'{suggestion(key, READERS)}")
        values[key.replace("-", "_")] = reader(path, key, value)
    settings = Settings(root=os.path.dirname(os.path.abspath(path)), origin=path, **values)
    _check_codes(settings)
    return settings


def override(
    settings: Settings,
    *,
    assume: tuple[str, ...] = (),
    fixable: tuple[str, ...] = (),
    unfixable: tuple[str, ...] = (),
    **others: str | bool | None,
) -> Settings:
    """Return ``settings`` overridden by the command line; its assumptions are added.

    others: values of other fields; None: the command line says nothing.
    """
    values: dict[str, Any] = {
        **others,
        "fixable": fixable or None,
        "assume": (*settings.assume, *assume),
        "unfixable": (*settings.unfixable, *unfixable),
    }
    return settings._replace(**{key: each for key, each in values.items() if each is not None})


def _strings(path: str, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{path}: '{key}' must be a list of strings, not {value!r}")
    return tuple(value)


def _string(path: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{path}: '{key}' must be a string, not {value!r}")
    return value


def _assumptions(path: str, key: str, value: Any) -> tuple[str, ...]:
    """Write ``{seq_len = 4096}`` or ``["seq_len=4096"]`` as values of the option."""
    if isinstance(value, dict) and all(
        isinstance(item, str | int | float) for item in value.values()
    ):
        return tuple(f"{name}={item}" for name, item in value.items())
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ConfigError(f"{path}: '{key}' must be a table as in {{seq_len = 4096}}, not {value!r}")


def _per_file(path: str, key: str, value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: '{key}' must be a table of pattern = [codes], not {value!r}")
    return tuple(
        (_pattern(path, key, pattern), _strings(path, f'{key}."{pattern}"', codes))
        for pattern, codes in value.items()
    )


def _patterns(path: str, key: str, value: Any) -> tuple[str, ...]:
    return tuple(_pattern(path, key, pattern) for pattern in _strings(path, key, value))


def _pattern(path: str, key: str, pattern: str) -> str:
    """Return ``pattern`` relative to the configuration's folder; raises ``ConfigError``."""
    try:
        return pattern_below(os.path.dirname(os.path.abspath(path)), pattern)
    except ValueError as error:
        raise ConfigError(f"{path}: '{key}' has {pattern!r}, which {error}") from None


def pattern_below(folder: str, pattern: str) -> str:
    """Return ``pattern`` in git's form, relative to ``folder`` (absolute).

    ``./data`` and absolute paths are what people write too. Raises ``ValueError`` for a pattern
    that can match nothing there.
    """
    root = folder.replace(os.sep, "/").rstrip("/")
    sign, text = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
    text = text.replace(os.sep, "/")
    if text.startswith(f"{root}/"):
        text = text[len(root) :]
    elif text.startswith("./"):
        text = text[1:]
    elif text == ".." or text.startswith("../"):
        raise ValueError("leads out of its folder")
    why = problem(text) if text.strip() else "it is empty"
    if why is not None:
        raise ValueError(f"can match nothing: {why}")
    return sign + text


def _target(path: str, key: str, value: Any) -> str:
    if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
        return ",".join(f"{name}={version}" for name, version in value.items())
    if not isinstance(value, str):
        raise ConfigError(
            f"{path}: '{key}' must be a string as in \"trl=0.29,transformers=4.57\", not {value!r}"
        )
    return value


def _flag(path: str, key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{path}: '{key}' must be true or false, not {value!r}")
    return value


def _check_codes(settings: Settings) -> None:
    from memlint.rule.registry import check_specifiers

    codes = [*(settings.select or ()), *settings.extend_select, *settings.ignore]
    codes += [*(settings.fixable or ()), *settings.unfixable]
    codes += [code for _, more in settings.per_file_ignores for code in more]
    try:
        check_specifiers(codes)
    except ValueError as error:
        raise ConfigError(f"{settings.origin}: {error}") from None


# Key of the file -> what reads its value: (path, key, value) -> field of ``Settings``.
READERS = {
    "select": _strings,
    "extend-select": _strings,
    "ignore": _strings,
    "per-file-ignores": _per_file,
    "exclude": _patterns,
    "target": _target,
    "unsafe-fixes": _flag,
    "runtime": _flag,
    "gpu": _string,
    "assume": _assumptions,
    "prices": _flag,
    "tests": _flag,
    "fixable": _strings,
    "unfixable": _strings,
    "baseline": _string,
}
