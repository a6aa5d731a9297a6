"""A length profile to look at: bars in the terminal, or a PNG."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from memlint_runtime.lengths.profile import LengthProfile


def terminal_picture(
    profile: LengthProfile, *, batch_size: int = 8, max_length: int | None = None, bars: int = 16
) -> RenderableType:
    """Histogram, quantiles and what padding, cutting and packing would cost."""
    limit = max_length or profile.suggest_max_length()
    counts, edges = profile.histogram(bars)
    chart = Table.grid(padding=(0, 1))
    chart.add_column(justify="right")
    chart.add_column(width=50)
    chart.add_column(justify="right")
    for count, edge in zip(counts.tolist(), edges[1:].tolist(), strict=True):
        bar = ProgressBar(total=max(int(counts.max()), 1), completed=count, width=50)
        chart.add_row(f"< {edge:,}", bar, f"{count:,}")
    facts = Table.grid(padding=(0, 2))
    for name, value in summary(profile, batch_size, limit):
        facts.add_row(name, value)
    return Group(Text("tokens a sequence", style="bold"), chart, Text(""), facts)


def summary(profile: LengthProfile, batch_size: int, max_length: int) -> list[tuple[str, str]]:
    """Facts as pairs of name and value."""
    lost, cut = profile.tokens_lost(max_length), profile.rows_cut(max_length)
    quantiles = ", ".join(
        f"{share:.0%} {profile.quantile(share):,}" for share in (0.5, 0.9, 0.99, 1.0)
    )
    return [
        ("sequences", f"{profile.rows:,}"),
        ("tokens", f"{profile.tokens:,}, {profile.mean:,.1f} a sequence"),
        ("quantiles", quantiles),
        (f"padding, batches of {batch_size}", f"{profile.padded_share(batch_size):.1%} of slots"),
        (
            f"cut at {max_length:,}",
            f"{cut:,} sequences, {lost:,} tokens ({lost / max(profile.tokens, 1):.2%})",
        ),
        (f"packed at {max_length:,}", f"{profile.packed_share(max_length):.1%} of slots filled"),
    ]


def save_png(profile: LengthProfile, path: str | Path, *, max_length: int | None = None) -> None:
    """Write the histogram with the cut marked. Needs matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ValueError("a PNG needs matplotlib: pip install matplotlib") from None
    limit = max_length or profile.suggest_max_length()
    counts, edges = profile.histogram(60)
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.bar(edges[:-1], counts, width=edges[1], align="edge", color="#4c72b0")
    axes.axvline(limit, color="#c44e52", label=f"cut at {limit:,} tokens")
    axes.set(xlabel="tokens a sequence", ylabel="sequences", xlim=(0, int(edges[-1])))
    axes.legend()
    figure.savefig(path, dpi=150)
