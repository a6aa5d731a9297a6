"""The versions that a script itself names: its PEP 723 block, what it or its notebook installs.

They say more than the project around it: ``uv run`` installs what the block names, and a notebook
or a script runs with what its first lines installed.
"""

from collections.abc import Iterator, Mapping

from memlint.project.manifests import declared_in_strings
from memlint.project.requirements import installs
from memlint.source import Source
from memlint.source.patterns import lazy_pattern

_OPENING = "# /// script"
_CLOSING = "# ///"


def own_pins(source: Source) -> Mapping[str, str]:
    """Package -> specifier."""
    found: dict[str, str] = {}
    if b"/// script" in source.data:
        found.update(declared_in_strings(_block(source.text)))
    if b"install" in source.data:
        found.update(installs(_started_commands(source.text)))
    if b"# MAGIC " in source.data:
        found.update(installs(_magics_of_databricks(source.text)))
    if source.masked:
        from memlint.source.notebook import unmasker

        found.update(installs(_shell_lines_of(unmasker(source)(source.text).splitlines())))
    if source.is_notebook and b"install" in source.raw:
        found.update(installs(_shell_lines(source)))  # the last command holds
    return found


def _magics_of_databricks(text: str) -> Iterator[str]:
    """Yield the lines for pip or a shell in an exported notebook of Databricks."""
    lines = [
        line.removeprefix("# MAGIC ") if line.startswith("# MAGIC") else ""
        for line in text.splitlines()
    ]
    cell: list[str] = []
    for line in (*lines, ""):
        if line:
            cell.append(line)
        elif cell:
            if cell[0].startswith("%sh"):
                cell[0] = cell[0].removeprefix("%sh")
                yield from cell
            else:
                yield from _shell_lines_of(cell)
            cell = []


def _started_commands(text: str) -> Iterator[str]:
    """Yield the commands of ``subprocess.run(["pip", "install", "trl"])`` and ``get_ipython()``."""
    for match in _STARTS.finditer(text):
        given = text[match.end() : match.end() + _LONGEST_CALL].partition("\n\n")[0]
        words = [one[0][1:-1] for one in _STRING.finditer(given.partition(")")[0])]
        yield " ".join(words)


# At the beginning of a line, so that no comment counts.
_STARTS = lazy_pattern(r"(?m)^[ \t]{0,40}(?:os|subprocess|get_ipython\(\))\.\w{1,20}\(")
_STRING = lazy_pattern(r"\"[^\"\n]*\"|'[^'\n]*'")
_LONGEST_CALL = 2000


def _block(text: str) -> list[str]:
    """Return the lines of the PEP 723 block, without their comment signs."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if not inside:
            inside = line.rstrip() == _OPENING
        elif line.rstrip() == _CLOSING:
            return lines
        elif not line.startswith("#"):
            return []
        else:
            lines.append(line[1:])
    return []


def _shell_lines(source: Source) -> Iterator[str]:
    """Yield the lines of a notebook's cells that a shell or pip gets."""
    from memlint.source.notebook import shown_cells

    for text in shown_cells(source):
        if "install" in text:
            yield from _shell_lines_of(text.splitlines())


def _shell_lines_of(cell: list[str]) -> Iterator[str]:
    head = next((line.strip() for line in cell if line.strip()), "")
    if head.startswith(("%%bash", "%%sh", "%%script", "%%!")):
        yield from cell
        return
    going_on = False
    for line in cell:
        stripped = line.strip()
        if going_on or stripped.startswith(("!", "%pip", "%conda", "%uv", "pip ")):
            yield stripped
            going_on = stripped.endswith("\\")
