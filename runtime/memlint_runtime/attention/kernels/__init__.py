"""One file per way to compute attention over packed tokens; each takes tokens first, `[T, H, D]`.

T tokens of all documents end to end, Hq query heads, Hk key/value heads (Hq a multiple of Hk),
D head size. A window of W tokens means: a token sees itself and the W - 1 before it.
"""
