"""Caches of keys and values that were tuples, and are objects at the target."""

from collections.abc import Iterator

from memlint.rule import Finding, Script, advise, facts

_CACHE = "transformers.DynamicCache"


def legacy_caches(script: Script) -> Iterator[Finding]:
    """``cache[0][0]``, ``for keys, values in cache``, once the class gives up tuples."""
    has_tuples = script.api.exists(f"{_CACHE}.from_legacy_cache") is not False
    target = script.api.at_target(_CACHE)
    for node in () if has_tuples else facts.reads_as_tuple(script):
        yield Finding(
            script.span(node),
            f"`{script.text(node)}` is no tuple of keys and values in {target}",
            advise("Read `keys` and `values` of `layers`; `batch_repeat_interleave` repeats them"),
        )
