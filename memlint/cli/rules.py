"""``memlint rule`` and ``memlint rules``: show the rules' pages and a table of rules."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from memlint.cli.inputs import Usage, colours
from memlint.rule import registry as rules

if TYPE_CHECKING:
    from memlint.rule import Rule
    from memlint.rule.file_rules import FileRule


def rule_command(word: str | None, every: bool, *, as_json: bool, colour: bool | None) -> int:
    """Print the page of one rule, or of all, and return the exit status."""
    from memlint.rule import docs
    from memlint.rule.file_rules import FILE_RULES, file_rule

    if (word is None) == (not every):
        raise Usage("expected a rule, as in `memlint rule MEM301`, or --all")
    about_files = file_rule(word) if word is not None else None
    chosen: list[Rule | FileRule]
    if every:
        chosen = [*FILE_RULES, *rules.load([rule_id.code for rule_id in rules.known_rules()])]
    elif about_files is not None:
        chosen = [about_files]
    else:
        try:
            chosen = list(rules.load([rules.find(word or "").code]))
        except ValueError as error:
            raise Usage(str(error)) from None
    if as_json:
        import json

        items = [docs.facts(each) for each in chosen]
        click.echo(json.dumps(items if every else items[0], indent=2, ensure_ascii=False))
        return 0
    text = "\n".join(docs.page_of(each) for each in chosen)
    if sys.stdout.isatty() and colours(colour, sys.stdout):
        from rich.console import Console
        from rich.markdown import Markdown

        console = Console()
        console.print(Markdown(text, code_theme="ansi_dark"), width=min(console.width, 100))
    else:
        click.echo(text, nl=False)
    return 0


def rules_command(colour: bool | None) -> int:
    """Print a table of all rules and return the exit status."""
    from memlint.rule.docs import file_rows, has_fix

    loaded = rules.load([rule_id.code for rule_id in rules.known_rules()])
    rows = file_rows()
    rows += [
        (rule.code, rule.name, rule.level.value, "fix" if has_fix(rule) else "", rule.summary)
        for rule in loaded
    ]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        from memlint.reports.style import LEVEL_COLOURS

        table = Table(box=None, header_style="bold", pad_edge=False)
        for heading in ("code", "name", "level", "fix", "what it reports"):
            table.add_column(heading, no_wrap=heading != "what it reports")
        for code, name, level, fix, summary in rows:
            table.add_row(code, name, f"[{LEVEL_COLOURS[level]}]{level}[/]", fix, summary)
        Console(no_color=not colours(colour, sys.stdout)).print(table)
        return 0
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    for row in rows:
        cells = [text.ljust(size) for text, size in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[4]]).rstrip())
    return 0
