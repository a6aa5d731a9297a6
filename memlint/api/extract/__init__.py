"""Makes the API tables: released wheels in, ``memlint/api/data`` out.

Run as ``python -m memlint.api.extract``. Wheels are fetched with pip, opened as archives and read
with ``ast``: nothing of theirs is imported or run. A run from nothing takes some ten minutes and
writes the same bytes every time. Nothing outside this package imports it.
"""
