"""Short scripts read into models, for the tests of the script model."""

from __future__ import annotations

from functools import cache
from textwrap import dedent

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.script.call_settings import Setting
from memlint.script.calls import Config
from memlint.script.model import Script, build_script
from memlint.source import Source

IMPORTS = "from trl import SFTConfig, SFTTrainer\n"


@cache
def api() -> Api:
    """The tables at the newest versions."""
    return Api(newest())


def read(text: str) -> Script:
    """The model of a script, dedented."""
    return build_script(Source("script.py", dedent(text)), api())


def only_config(text: str) -> Config:
    """The one training configuration of a script that imports TRL's first."""
    (config,) = read(IMPORTS + dedent(text)).configs
    return config


def packing(text: str) -> Setting:
    """The ``packing`` that the one configuration gets: the setting that most tests follow."""
    return only_config(text).setting("packing")
