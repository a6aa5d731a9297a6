"""The commands behind ``memlint.cli``, each imported when it runs."""
