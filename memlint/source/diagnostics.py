"""What is wrong with a file itself, as opposed to what a rule finds in it."""

from memlint.source.record import Record


class FileError(Record):
    """A file, or a cell of one, that could not be read or parsed: shown, exit status 2."""

    path: str
    message: str
    row: int | None = None
    column: int | None = None
    cell: int | None = None


class ReadError(Exception):
    """A file that cannot be read as a script; ``diagnostic`` says where and why."""

    def __init__(self, diagnostic: FileError) -> None:
        super().__init__(diagnostic)  # its one argument, so that other processes can send it
        self.diagnostic = diagnostic

    def __str__(self) -> str:
        return self.diagnostic.message


def reason(error: OSError) -> str:
    """Return the system's reason as the end of a sentence; our own messages keep their case."""
    return error.strerror.lower() if error.strerror else str(error)
