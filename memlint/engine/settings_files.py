"""Files of settings as plain values: JSON, YAML, TOML, INI and the variables of a ``.env``.

Each parser is imported when there is such a file.
"""

import json
import re
from collections.abc import Callable, Mapping

SETTINGS_FILES = (".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".env")

_VARIABLE = re.compile(
    r"^[ \t]*(?:export[ \t]+)?(\w+)[ \t]*=[ \t]*(?:(['\"])(.*?)\2|([^\n#]*))", re.MULTILINE
)


def document(path: str, text: str) -> object:
    """Return what a file says. Raises ValueError where it does not parse."""
    return _PARSERS.get(path[path.rfind(".") :], _yaml)(text)


def _yaml(text: str) -> object:
    import yaml

    # Aliases may stand for more than any memory holds.
    if re.search(r"[:\-\[,]\s*\*\w", text):
        return None
    try:
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _toml(text: str) -> object:
    import tomllib

    return tomllib.loads(text)


def _ini(text: str) -> object:
    import configparser

    # Values that name others may stand for more than any memory holds: they are left out.
    parsed = configparser.ConfigParser(interpolation=None)
    try:
        parsed.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from error
    return {
        name: {key: value for key, value in section.items() if "%(" not in (value or "")}
        for name, section in parsed.items()
    }


def _variables(text: str) -> object:
    found = _VARIABLE.findall(text)
    return {name: quoted if quote else plain.strip() for name, quote, quoted, plain in found}


_PARSERS: Mapping[str, Callable[[str], object]] = {
    ".json": json.loads,
    ".toml": _toml,
    ".ini": _ini,
    ".cfg": _ini,
    ".env": _variables,
}
