"""Files as the linter sees them: text with byte spans, read once, notebooks as one script."""

from memlint.source.text import Cell, Location, Place, Source, Span

__all__ = ["Cell", "Location", "Place", "Source", "Span"]
