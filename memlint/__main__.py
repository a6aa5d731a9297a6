"""``memlint`` and ``python -m memlint``."""


def main() -> None:
    """Run the command line and exit with its status.

    The process ends at once: taking apart what it loaded, object by object, takes as long as
    checking a small script. The garbage collector, which looks through what is imported again and
    again, is called less often.
    """
    import gc
    import os
    import sys

    gc.set_threshold(50_000, 20, 100)
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
