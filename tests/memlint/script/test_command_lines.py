"""Values that a command line, or a file that a parser reads, may set: their defaults, as such."""

from __future__ import annotations

from textwrap import dedent

import pytest

from memlint.engine.values import Provenance
from memlint.rule import edits
from memlint.script.call_settings import UNSURE
from tests.memlint.script.scripts import IMPORTS, only_config, packing, read

ARGPARSE = "import argparse\nparser = argparse.ArgumentParser()\n"
DEFAULTS = {
    "argparse": (
        ARGPARSE
        + 'parser.add_argument("--pack", type=bool, default=True)\n'
        + "args = parser.parse_args()\nSFTConfig(packing=args.pack)",
        Provenance.ARGPARSE,
    ),
    "argparse, dest": (
        ARGPARSE
        + 'parser.add_argument("-p", "--no-pack", dest="pack", action="store_false")\n'
        + "args = parser.parse_args()\nSFTConfig(packing=args.pack)",
        Provenance.ARGPARSE,
    ),
    "argparse, known arguments": (
        ARGPARSE
        + 'parser.add_argument("--pack", default=True)\n'
        + "args, rest = parser.parse_known_args()\nSFTConfig(packing=args.pack)",
        Provenance.ARGPARSE,
    ),
    "argparse, a group": (
        ARGPARSE
        + 'group = parser.add_argument_group("data")\n'
        + 'group.add_argument("--pack", default=True)\n'
        + "args = parser.parse_args()\nSFTConfig(packing=args.pack)",
        Provenance.ARGPARSE,
    ),
    "argparse, set_defaults": (
        ARGPARSE
        + "parser.set_defaults(pack=True)\n"
        + "SFTConfig(packing=parser.parse_args().pack)",
        Provenance.ARGPARSE,
    ),
    "argparse, in functions": (
        """
        import argparse
        def read():
            parser = argparse.ArgumentParser()
            parser.add_argument("--pack", default=True)
            return parser.parse_args()
        def main(args):
            SFTConfig(packing=args.pack)
        main(read())
        """,
        Provenance.ARGPARSE,
    ),
    "argparse, vars": (
        ARGPARSE
        + 'parser.add_argument("--pack", default=True)\n'
        + 'options = vars(parser.parse_args())\nSFTConfig(packing=options["pack"])',
        Provenance.ARGPARSE,
    ),
    "click": (
        """
        import click
        @click.command()
        @click.option("--pack", default=True)
        def main(pack):
            SFTConfig(packing=pack)
        main()
        """,
        Provenance.CLICK,
    ),
    "typer": (
        """
        import typer
        app = typer.Typer()
        @app.command()
        def main(pack: bool = True):
            SFTConfig(packing=pack)
        app()
        """,
        Provenance.CLICK,
    ),
    "typer.Option": (
        """
        import typer
        app = typer.Typer()
        @app.command()
        def main(pack: bool = typer.Option(True)):
            SFTConfig(packing=pack)
        """,
        Provenance.CLICK,
    ),
    "fire": (
        """
        import fire
        def main(pack: bool = True):
            SFTConfig(packing=pack)
        fire.Fire(main)
        """,
        Provenance.CLICK,
    ),
    "HfArgumentParser": (
        """
        from dataclasses import dataclass
        from transformers import HfArgumentParser
        @dataclass
        class Options:
            pack: bool = True
        (options,) = HfArgumentParser(Options).parse_args_into_dataclasses()
        SFTConfig(packing=options.pack)
        """,
        Provenance.PARSED_FIELD,
    ),
    "TrlParser": (
        """
        from dataclasses import dataclass, field
        from trl import ModelConfig, TrlParser
        @dataclass
        class Options:
            pack: bool = field(default=True, metadata={"help": "whether to pack"})
        options, model = TrlParser((Options, ModelConfig)).parse_args_and_config()
        SFTConfig(packing=options.pack)
        """,
        Provenance.PARSED_FIELD,
    ),
}


@pytest.mark.parametrize(("text", "origin"), DEFAULTS.values(), ids=list(DEFAULTS))
def test_the_default_is_a_value_by_default(text: str, origin: Provenance) -> None:
    setting = packing(dedent(text))
    assert setting.value is True
    assert setting.origin is origin
    assert setting.is_overridable_default


def test_a_required_argument_is_unsure() -> None:
    text = (
        ARGPARSE
        + 'parser.add_argument("--pack", required=True)\n'
        + "SFTConfig(packing=parser.parse_args().pack)"
    )
    assert packing(text).value is UNSURE


def test_defaults_of_a_command_line_decide_no_branch() -> None:
    text = (
        ARGPARSE
        + 'parser.add_argument("--pack", action="store_true")\n'
        + "args = parser.parse_args()\noptions = {}\n"
        + 'if args.pack:\n    options["packing"] = True\nSFTConfig(**options)'
    )
    assert packing(text).given is None


def test_a_configuration_that_a_parser_fills_in_is_one_and_is_never_surely_without() -> None:
    script = read(
        """
        from trl import ScriptArguments, SFTConfig, SFTTrainer, TrlParser
        script_args, training_args = TrlParser((ScriptArguments, SFTConfig)).parse_args_and_config()
        SFTTrainer(model="m", args=training_args)
        """
    )
    (config,) = script.configs
    assert config.kind == "trl.SFTConfig"
    assert config.from_command_line
    assert config.setting("packing").given is None
    assert edits.set_option(script, config, "packing", "True") is None
    assert [trainer.kind for trainer in script.trainers_with(config)] == ["trl.SFTTrainer"]


def test_what_is_assigned_to_a_parsed_configuration_is_known() -> None:
    script = read(
        """
        from trl import SFTConfig, SFTTrainer, TrlParser
        (training_args,) = TrlParser((SFTConfig,)).parse_args_and_config()
        training_args.packing = True
        SFTTrainer(model="m", args=training_args)
        """
    )
    (config,) = script.configs
    assert config.setting("packing").value is True


def test_a_user_s_subclass_that_a_parser_fills_in_has_its_own_defaults() -> None:
    script = read(
        """
        from dataclasses import dataclass
        from transformers import HfArgumentParser, TrainingArguments
        @dataclass
        class Options(TrainingArguments):
            packing: bool = True
        (options,) = HfArgumentParser(Options).parse_args_into_dataclasses()
        """
    )
    (config,) = script.configs
    assert config.kind == "transformers.TrainingArguments"
    assert config.setting("packing").value is True
    assert config.setting("packing").is_overridable_default


def test_a_plain_dataclass_with_an_option_s_name_is_no_configuration() -> None:
    script = read(
        IMPORTS
        + dedent("""
            from dataclasses import dataclass
            @dataclass
            class Mine:
                packing: bool = True
            Mine()
        """)
    )
    assert script.configs == ()


def test_only_the_default_is_changed_where_it_stands() -> None:
    text = (
        ARGPARSE
        + 'parser.add_argument("--pack", type=bool, default=False)\n'
        + "args = parser.parse_args()\nSFTConfig(packing=args.pack)"
    )
    config = only_config(text)
    changes = edits.set_option(config.script, config, "packing", "True")
    assert changes is not None
    (edit,) = changes
    source = config.script.source
    assert source.line(edit.span.start) == 3  # type: ignore[union-attr]
    assert source.slice(edit.span) == "False"  # type: ignore[union-attr]
