"""Changing a setting where its value lives, and never where that is not known."""

from __future__ import annotations

from textwrap import dedent

import pytest

from memlint.rule import edits
from tests.memlint.fix.places import apply_edits
from tests.memlint.script.scripts import IMPORTS, only_config

CHANGED = {
    "added": ("SFTConfig()", "SFTConfig(packing=True)"),
    "a keyword": ("SFTConfig(packing=False)", "SFTConfig(packing=True)"),
    "a constant that is read once": (
        "PACK = False\nSFTConfig(packing=PACK)",
        "PACK = True\nSFTConfig(packing=PACK)",
    ),
    "a constant that others read": (
        "PACK = False\nprint(PACK)\nSFTConfig(packing=PACK)",
        "PACK = False\nprint(PACK)\nSFTConfig(packing=True)",
    ),
    "a dict display": (
        'options = {"packing": False}\nSFTConfig(**options)',
        'options = {"packing": True}\nSFTConfig(**options)',
    ),
    "dict()": (
        "options = dict(packing=False)\nSFTConfig(**options)",
        "options = dict(packing=True)\nSFTConfig(**options)",
    ),
    "an item assignment": (
        'options = {}\noptions["packing"] = False\nSFTConfig(**options)',
        'options = {}\noptions["packing"] = True\nSFTConfig(**options)',
    ),
    "an attribute assignment": (
        "args = SFTConfig()\nargs.packing = False",
        "args = SFTConfig()\nargs.packing = True",
    ),
    "a dataclass field": (
        """
        from dataclasses import dataclass
        from transformers import HfArgumentParser
        @dataclass
        class Options:
            pack: bool = False
        (options,) = HfArgumentParser(Options).parse_args_into_dataclasses()
        SFTConfig(packing=options.pack)
        """,
        """
        from dataclasses import dataclass
        from transformers import HfArgumentParser
        @dataclass
        class Options:
            pack: bool = True
        (options,) = HfArgumentParser(Options).parse_args_into_dataclasses()
        SFTConfig(packing=options.pack)
        """,
    ),
    "a click option": (
        """
        import click
        @click.command()
        @click.option("--pack", default=False)
        def main(pack):
            SFTConfig(packing=pack)
        """,
        """
        import click
        @click.command()
        @click.option("--pack", default=True)
        def main(pack):
            SFTConfig(packing=pack)
        """,
    ),
}
UNTOUCHED = {
    "unknown keywords": "SFTConfig(**unknown())",
    "one path sets it": """
        args = SFTConfig()
        if unknown():
            args.packing = False
    """,
    "two places": """
        options = {}
        if unknown():
            options["packing"] = False
        SFTConfig(**options)
    """,
}


@pytest.mark.parametrize(("before", "after"), CHANGED.values(), ids=list(CHANGED))
def test_a_setting_is_changed_where_it_lives(before: str, after: str) -> None:
    config = only_config(before)
    changes = edits.set_option(config.script, config, "packing", "True")
    assert changes is not None
    applied = apply_edits(config.script.source.text, [changes])
    assert applied.refused == {}
    assert applied.text == IMPORTS + dedent(after)
    changed = only_config(after).setting("packing")
    assert changed.value is True


@pytest.mark.parametrize("text", UNTOUCHED.values(), ids=list(UNTOUCHED))
def test_what_is_not_known_is_never_overwritten(text: str) -> None:
    config = only_config(text)
    assert edits.set_option(config.script, config, "packing", "True") is None
