"""Caches of keys and values that were tuples, and are objects at the target."""

from collections.abc import Iterator

from memlint.rule import Finding, Script, advise, facts, is_guarded

_CACHE = "transformers.DynamicCache"


_ADVICE = "Read `keys` and `values` of `layers`; `batch_repeat_interleave` repeats them"
_TO_TUPLES = "to_legacy_cache"


def legacy_caches(script: Script) -> Iterator[Finding]:
    """``cache[0][0]``, ``for keys, values in cache``, once the class gives up tuples."""
    if script.api.exists(f"{_CACHE}.from_legacy_cache") is not False:
        return
    target = script.api.at_target(_CACHE)
    for node in facts.reads_as_tuple(script):
        message = f"`{script.text(node)}` is no tuple of keys and values in {target}"
        yield Finding(script.span(node), message, advise(_ADVICE))
    for call in () if script.definitions_of(_TO_TUPLES) else script.method_calls(_TO_TUPLES):
        if not is_guarded(script, call.node.func):
            message = f"caches of {target} have no `{_TO_TUPLES}`"
            yield Finding(script.span(call.node.func), message, advise(_ADVICE))
