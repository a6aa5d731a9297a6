"""Makes the API tables: released wheels in, ``memlint/api/data`` out.

Run as ``python -m memlint.api.extract``. Wheels are fetched with pip, opened as archives and read
with ``ast``: nothing of theirs is imported or run. A run from nothing takes some ten minutes and
writes the same bytes every time. Where an installed version is newer than the tables, ``installed``
reads it in a process of its own; nothing else outside this package runs it.
"""
