"""What is said of a file as such: of the comments that suppress findings, and of what is broken."""

from memlint.source.record import NamedTuple


class FileRule(NamedTuple):
    """What a rule's file and page say of it. more: the rest of its page, in Markdown."""

    code: str
    name: str
    level: str
    summary: str
    why: str
    more: str


UNUSED_SUPPRESSION = FileRule(
    "MEM001",
    "unused-suppression",
    "waste",
    "a suppression comment that suppresses nothing, or is misspelled",
    "A suppression that suppresses nothing hides the next fault of that kind on its line. "
    "It is left behind when the code is fixed or the rule improves. A misspelled one "
    "(`# memlint: disable=MEM301`, `# memlint: noqa`) never suppressed anything.",
    "## Example\n\n"
    "```python\nbatch_size = 8  # memlint: ignore[MEM301]\n```\n\n"
    "Instead:\n\n```python\nbatch_size = 8\n```\n",
)
BROKEN_FILE = FileRule(
    "MEM002",
    "broken-file",
    "error",
    "a file or notebook cell that does not parse, or a recipe that sets a key twice",
    "What does not parse is neither checked nor fixed, and stops before its first line runs. "
    "Where only the Python that runs memlint is too old for the syntax, the message says so.",
    "## Where it speaks\n\n"
    "Of files that name what some rule looks for, and of those that a person names on the command "
    "line. With `--force-exclude`, as hooks call it, other files are passed over. It is asked "
    "whatever `--select` says.\n\n"
    "## To keep it\n\n"
    "Exclude the file, or ignore `MEM002`, for templates with `per-file-ignores`.\n",
)
FILE_RULES = (UNUSED_SUPPRESSION, BROKEN_FILE)


def file_rule(word: str) -> FileRule | None:
    """The one with this code or name; None where it is that of a script's rule, or of none."""
    for rule in FILE_RULES:
        if word.upper() == rule.code or word.lower() == rule.name:
            return rule
    return None
