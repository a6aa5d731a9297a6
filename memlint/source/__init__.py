"""Files as the linter sees them: text with byte spans, read once, notebooks as one script.

The lowest package: it imports nothing else of memlint.
"""

from memlint.source.text import Cell, Location, Place, Source, Span

__all__ = ["Cell", "Location", "Place", "Source", "Span"]
