"""`python -m memlint_runtime.lengths DATA --tokenizer PATH`: lengths, and what they cost."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

try:
    import click
    from rich.console import Console

    from memlint_runtime.lengths import LengthProfile, save_png, terminal_picture
except ImportError as error:
    if error.name is None or error.name.startswith("memlint_runtime"):
        raise
    sys.exit(
        f"Error: python -m memlint_runtime.lengths needs {error.name.split('.')[0]}, which is not "
        "installed: pip install 'torch-memlint[runtime]'"
    )


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--tokenizer", "tokenizer_path", help="Tokenizer to measure texts with.")
@click.option("--column", help="Column to measure; found by itself where it has a usual name.")
@click.option("--batch-size", default=8, show_default=True, help="Batch to price padding for.")
@click.option("--max-length", type=int, help="Cut to price; by default what keeps 99 % whole.")
@click.option("--limit", type=int, help="Read only so many rows.")
@click.option("--json", "as_json", is_flag=True, help="Print the profile as JSON.")
@click.option("--save", type=click.Path(path_type=Path), help="Write the profile as JSON.")
@click.option("--png", type=click.Path(path_type=Path), help="Write the histogram as a PNG.")
def main(
    data: Path,
    tokenizer_path: str | None,
    column: str | None,
    batch_size: int,
    max_length: int | None,
    limit: int | None,
    as_json: bool,
    save: Path | None,
    png: Path | None,
) -> None:
    """Lengths of the sequences in DATA and what padding, cutting and packing would cost.

    DATA is a JSONL, JSON, text, CSV, Parquet or Arrow file, or the folder of a saved dataset.
    """
    try:
        tokenizer = None if tokenizer_path is None else _load_tokenizer(tokenizer_path)
        profile = LengthProfile.of(data, column=column, tokenizer=tokenizer, limit=limit)
        if save is not None:
            profile.save(save)
        if png is not None:
            save_png(profile, png, max_length=max_length)
        if as_json:
            click.echo(json.dumps(profile.to_dict(), indent=1))
        else:
            picture = terminal_picture(profile, batch_size=batch_size, max_length=max_length)
            Console().print(picture)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from None
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"this needs {str(error.name).split('.')[0]}, which is not installed: pip "
            "install 'torch-memlint[runtime]'"
        ) from None


def _load_tokenizer(path: str) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"cannot load a tokenizer from {path}: {reason}") from None


if __name__ == "__main__":
    main(prog_name="python -m memlint_runtime.lengths")
