"""``memlint`` and ``python -m memlint``."""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit with its status.

    The process ends at once: taking apart what it loaded, object by object, takes as long as
    checking a small script.
    """
    import os
    import sys

    from memlint.cli.main import run

    status = run()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        # Nobody reads any more.
        status = status or 141
    os._exit(status)


if __name__ == "__main__":
    main()
