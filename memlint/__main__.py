"""``memlint`` and ``python -m memlint``."""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit with its status."""
    import sys

    from memlint.cli import run

    sys.exit(run())


if __name__ == "__main__":
    main()
